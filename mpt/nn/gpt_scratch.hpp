// SPDX-License-Identifier: MIT
/// @file gpt_scratch.hpp
/// How much scratch a worker needs for a GPT on plain loops.               tier 4, needs:
/// nn/gpt_layout.hpp nn/loops.hpp
///
/// Idea     A cpu is made before the model that runs on it; this says what to reserve.
/// Formula  the largest of the X_scratch() of all operations, in elements of wide_t<T>
/// See      cpu.hpp, gpt.hpp
#pragma once
#include "mpt/nn/gpt_layout.hpp" // gpt_config
#include "mpt/nn/loops.hpp"      // linear_scratch, attention_scratch, ...

#include <algorithm>
#include <cstddef>

namespace mpt {

/// Bytes a worker, for batches of B rows of T_ tokens.
template <class T>
std::size_t gpt_scratch(const gpt_config& c, int B, int T_) {
    return sizeof(wide_t<T>) *
           std::max({linear_scratch<T>(), layernorm_scratch<T>({B * T_, c.channels}),
                     embedding_scratch<T>({B, T_, c.channels, c.vocabulary}),
                     attention_scratch<T>({B, T_, c.heads, c.kv_heads, c.head_dim()})});
}

} // namespace mpt
