// SPDX-License-Identifier: MIT
/// @file gpt_sites.hpp
/// The operations of a GPT's forward pass, by name.                         tier 4, needs:
/// nn/gpt_layout.hpp nn/precision_policy.hpp
///
/// Idea     A list of operations is not told who calls it. The order of a model's calls is fixed,
///          so the n-th call has the n-th name. Policies and drifts speak of these names.
/// Formula  sites: 4 + 10 layers, one more with dropout
/// Breaks   a list of another model: autocast.hpp compares the kinds and refuses. A model without
///          layer norms is refused here: its residual stream is what products read themselves, and
///          a block that runs again would begin like the end of the one before (site_calls.hpp)
/// Source   names of Hugging Face's GPT-2; add_1 and add_2 are the residual sums, loss the end
/// See      gpt.hpp (who calls), autocast.hpp, tests/nn/autocast_test.cpp
#pragma once
#include "mpt/nn/gpt_layout.hpp"       // gpt_config
#include "mpt/nn/precision_policy.hpp" // site, operation

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace mpt {

inline std::vector<site> gpt_sites(const gpt_config& c) {
    check(c.layer_norm, "gpt sites: a model without layer norms has no list of operations for a ",
          "precision policy; train it whole in one format, or with layer norms");
    const auto scale = [&](const std::string& name) {
        return c.residual_scale ? std::vector<std::string>{name} : std::vector<std::string>{};
    };
    const auto with_bias = [](const std::string& name) {
        return std::vector<std::string>{name + ".weight", name + ".bias"};
    };
    std::vector<site> all = {{operation::embedding, "embedding", {"wte.weight", "wpe.weight"}}};
    if (c.dropout > 0) all.push_back({operation::dropout, "drop", {}});
    for (int l = 0; l < c.layers; ++l) {
        const std::string h = "h." + std::to_string(l) + ".";
        const auto layer = [&](operation op, const char* name) {
            all.push_back({op, h + name, with_bias(h + name)});
        };
        layer(operation::layernorm, "ln_1");
        layer(operation::linear, "attn.c_attn");
        all.push_back({operation::attention, h + "attn", {}});
        layer(operation::linear, "attn.c_proj");
        all.push_back({operation::residual, h + "add_1", scale(h + "scale_1")});
        layer(operation::layernorm, "ln_2");
        layer(operation::linear, "mlp.c_fc");
        all.push_back({operation::gelu, h + "mlp.act", {}});
        layer(operation::linear, "mlp.c_proj");
        all.push_back({operation::residual, h + "add_2", scale(h + "scale_2")});
    }
    all.push_back({operation::layernorm, "ln_f", with_bias("ln_f")});
    all.push_back({operation::linear, "lm_head", {"wte.weight"}}); // tied
    all.push_back({operation::cross_entropy, "loss", {}});
    return all;
}

/// Elements of Low of all that one operation reads and writes beside cached weights, at most, for
/// batches of B rows of T_ tokens. A backward has most.
template <class Low>
std::size_t gpt_autocast_room(const gpt_config& c, int B, int T_) {
    const std::size_t n = std::size_t(B) * std::size_t(T_), C = std::size_t(c.channels);
    const std::size_t Q = std::size_t(c.qkv()), H = std::size_t(c.hidden());
    const std::size_t V = std::size_t(c.vocabulary), wide = sizeof(float) / sizeof(Low);
    const auto linear = [n](std::size_t in, std::size_t out) { // dx, x, dy, dw, dbias
        return n * (2 * in + out) + in * out + out;
    };
    return std::max(
        {linear(C, Q), linear(C, H), linear(H, C), linear(C, V) - V,
         (3 + wide) * n * C + 2 * C, // layernorm: dx, also in fp32, dy, x, dgamma, dbeta
         2 * n * (Q + C),            // attention: dqkv, qkv, dout, out
         3 * n * H,                  // gelu: dx, dy, x
         2 * n * V,                  // cross-entropy: dlogits, logits
         V * C + std::size_t(c.context) * C + n * C}); // embedding: dwte, dwpe, dy
}

} // namespace mpt
