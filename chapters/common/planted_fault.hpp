// SPDX-License-Identifier: MIT
// planted_fault.hpp -- faults that fp32 does not notice, bit for bit, and fp16 does not survive: a
// tensor is made 2^16 times as large, and its reader divides by 2^16 again.
#pragma once
#include "mpt/nn/gpt_layout.hpp"  // gpt_config
#include "mpt/nn/loops.hpp"       // loops: the operations
#include "mpt/nn/params.hpp"      // layout
#include "mpt/numeric/scalar.hpp" // widen, narrow

#include <string>
#include <type_traits>
#include <vector>

//! [planted]
/// mpt::loops, but for a head whose logits are `factor` times as large, and a loss that divides
/// them by it.
struct planted : mpt::loops {
    using mpt::loops::loops;
    float factor = 1; // a power of two: exact in every format, while it lasts

    template <class T>
    void linear_forward(mpt::device_span<T> y, mpt::device_view<T> x, mpt::device_view<T> w,
                        mpt::device_view<T> bias, mpt::linear_shape s) const {
        const std::vector<T> head = times<T>(w, bias.empty() ? factor : 1); // it has no bias
        mpt::loops::linear_forward<T>(y, x, {head.data(), head.size()}, bias, s);
    }
    template <class T> // const
    void cross_entropy_forward(mpt::device_span<float> losses, mpt::device_span<float> lse,
                               mpt::device_span<T> logits, mpt::device_span<const int> targets,
                               int rows, int V) const {
        const auto back = times<std::remove_const_t<T>>(logits, 1 / factor);
        mpt::loops::cross_entropy_forward<T>(losses, lse, {back.data(), back.size()}, targets, rows,
                                             V);
    }
    //! [planted]

private:
    template <class T>
    std::vector<T> times(mpt::device_view<T> x, float by) const {
        std::vector<T> y(x.size());
        copy_to_host(y, x);
        for (T& v : y) v = mpt::narrow<T>(mpt::widen(v) * by);
        return y;
    }
};

/// Weights whose queries are 2^16 times as large and whose keys are as much smaller, in the block
/// of `site`, "h.1.attn.c_attn": their products are what they were.
inline void plant_in_queries(std::vector<float>& weights, const mpt::layout& map,
                             const mpt::gpt_config& c, const std::string& site) {
    bool found = false;
    for (const mpt::tensor_info& t : map.tensors) {
        if (t.name.rfind(site + ".", 0) != 0) continue; // its weight (Q,C), then its bias (Q)
        found = site.find("attn.c_attn") != std::string::npos;
        const std::size_t row = t.shape.size() == 2 ? t.shape[1] : 1;
        const std::size_t q = std::size_t(c.channels) * row; // elements
        const std::size_t k = std::size_t(c.kv_heads * c.head_dim()) * row;
        for (std::size_t i = 0; i < q + k; ++i) weights[t.begin + i] *= i < q ? 0x1p16f : 0x1p-16f;
    }
    mpt::check(found, "--fault ", site, ": wanted lm_head, h.0.attn.c_attn to h.", c.layers - 1,
               ".attn.c_attn, or none");
}
