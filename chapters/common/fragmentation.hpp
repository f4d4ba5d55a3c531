// SPDX-License-Identifier: MIT
// fragmentation.hpp -- what one step leaves of a device's memory: gradients allocated tensor by
// tensor as backward reaches them, between activations that come and go, or in one buffer from the
// start (contiguous gradients, ZeRO-R: Rajbhandari et al. 2020, arXiv:1910.02054, section 6.3).
#pragma once
#include "mpt/base/arena.hpp"    // arena
#include "mpt/base/error.hpp"    // error
#include "mpt/nn/gpt_layout.hpp" // gpt_config, gpt_layout

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

/// An arena as it stands, in bytes.
struct free_memory {
    std::size_t held, free, largest; // largest: block that would be served
};

//! [step]
/// Forward and backward of a GPT in scalars of `s` bytes on `tokens` tokens, as far as the arena
/// sees them. At the end the gradients are held, and nothing else.
inline free_memory after_backward(mpt::arena& device, const mpt::gpt_config& c, std::size_t tokens,
                                  std::size_t s, bool contiguous) {
    struct block {
        void* at;
        std::size_t bytes;
    };
    const auto take = [&](std::size_t bytes, const std::string& what) {
        return block{device.allocate(bytes, what), bytes};
    };
    const auto give_back = [&](const block& b) { device.release(b.at, b.bytes); };
    mpt::gpt_tensors numbers;
    const mpt::layout map = mpt::gpt_layout(c, numbers);
    const std::size_t row = tokens * s, C = std::size_t(c.channels), Q = std::size_t(c.qkv());

    if (contiguous) take(map.size() * s, "gradients"); // before all that comes and goes
    std::vector<std::vector<block>> kept;              // by forward, of a unit each
    kept.push_back({take(row * C, "embedded"), take(row * std::size_t(c.vocabulary), "logits")});
    for (int l = 0; l < c.layers; ++l) {
        kept.emplace_back();
        for (const std::size_t width : {C, Q, C, C, C, 4 * C, 4 * C, C}) // h1, qkv, ... out
            kept.back().push_back(take(row * width, "activations"));
    }
    block dx = take(row * C, "gradient of activations");
    for (int unit = c.layers; unit >= 0; --unit) {
        for (const mpt::tensor_info& t : map.tensors)
            if (t.unit == unit && !contiguous) take(t.size * s, t.name + ", its gradient");
        const block passed = take(row * C, "gradient of activations"); // to the unit before
        for (const block& b : kept[std::size_t(unit)]) give_back(b);
        give_back(std::exchange(dx, passed));
    }
    give_back(dx);
    return {device.held(), device.free(), device.largest_free()};
}
//! [step]

/// Why `bytes` more are not served; "" where they are (they are given back).
inline std::string refusal(mpt::arena& device, std::size_t bytes, const std::string& what) {
    try {
        device.release(device.allocate(bytes, what), bytes);
        return "";
    } catch (const mpt::error& e) {
        return e.what();
    }
}
