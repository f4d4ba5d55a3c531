// SPDX-License-Identifier: MIT
/// @file kernel_scratch.hpp
/// Scratch memory that a GPT's kernels need.                               tier 4, needs:
/// kernels/inspect.cuh nn/gpt_layout.hpp nn/kernels.hpp
///
/// Idea     The operations of one stream run one after the other and share one region: as large as
///          the hungriest wants it. A step also looks at all gradients at once: inspect, too.
/// See      gpt_scratch.hpp (that of the loops), tests/nn/kernels_test.cpp
#pragma once
#include "mpt/kernels/inspect.cuh" // inspect_bytes
#include "mpt/nn/gpt_layout.hpp"   // gpt_config, gpt_layout
#include "mpt/nn/kernels.hpp"      // kernel_ops: attention_backward_bytes, ...

#include <algorithm>
#include <cstddef>

namespace mpt {

/// Bytes for a batch of B rows of T_ tokens, and for inspect().
inline std::size_t gpt_kernel_scratch(const gpt_config& c, int B, int T_) {
    const int rows = B * T_, widest = std::max(c.hidden(), c.qkv());
    gpt_tensors t;
    const std::size_t P = gpt_layout(c, t).size();
    const std::size_t stream = std::size_t(rows) * std::size_t(c.channels);
    return std::max(
        {kernels::sum_bytes(std::size_t(rows)), kernels::layernorm_backward_bytes(rows, c.channels),
         kernels::embedding_backward_bytes(B, T_),
         kernels::attention_backward_bytes(B, c.heads, T_),
         kernels::column_sums_bytes(rows, widest), kernels::scaled_residual_backward_bytes(stream),
         kernels::inspect_bytes(P) + sizeof(kernels::inspect_result)});
}

} // namespace mpt
