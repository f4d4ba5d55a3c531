// SPDX-License-Identifier: MIT
/// @file loops.hpp
/// The operations that models and steps call, done by plain loops.         tier 4, needs:
/// nn/attention.hpp nn/cpu.hpp nn/cross_entropy.hpp nn/dropout.hpp nn/embedding.hpp nn/gelu.hpp
/// nn/layernorm.hpp nn/linear.hpp nn/residual_scale.hpp nn/row_math.hpp nn/shapes.hpp
/// numeric/cast.hpp
///
/// Idea     A model is a template on such a list and calls its members. A list of kernels has the
///          same members; a struct derived from this one may shadow some, to watch or change them.
/// Formula  each member is the function of the same name in its own header: see there
/// See      gpt.hpp and mlp.hpp (who call it), tests/nn/loops_test.cpp
#pragma once
#include "mpt/nn/attention.hpp"      // attention_forward, attention_backward
#include "mpt/nn/cpu.hpp"            // cpu
#include "mpt/nn/cross_entropy.hpp"  // cross_entropy_forward, cross_entropy_backward
#include "mpt/nn/dropout.hpp"        // dropout_forward, dropout_backward, residual_forward
#include "mpt/nn/embedding.hpp"      // embedding_forward, embedding_backward
#include "mpt/nn/gelu.hpp"           // gelu_forward, gelu_backward
#include "mpt/nn/layernorm.hpp"      // layernorm_forward, layernorm_backward
#include "mpt/nn/linear.hpp"         // linear_forward, linear_backward
#include "mpt/nn/residual_scale.hpp" // scaled_residual_forward, scaled_residual_backward
#include "mpt/nn/row_math.hpp"       // row_sum
#include "mpt/nn/shapes.hpp"         // the shapes
#include "mpt/numeric/cast.hpp"      // cast, streaming_pays

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace mpt {

struct loops : cpu {
    using cpu::cpu;

    // ---- layers -------------------------------------------------------------------------------
    template <class T>
    void linear_forward(device_span<T> y, device_view<T> x, device_view<T> w, device_view<T> bias,
                        linear_shape s) const {
        mpt::linear_forward<T>(*this, y, x, w, bias, s);
    }
    template <class T>
    void linear_backward(device_span<T> dx, device_span<T> dw, device_span<T> dbias,
                         device_view<T> dy, device_view<T> x, device_view<T> w,
                         linear_shape s) const {
        mpt::linear_backward<T>(*this, dx, dw, dbias, dy, x, w, s);
    }
    template <class T>
    void gelu_forward(device_span<T> y, device_view<T> x) const {
        mpt::gelu_forward<T>(*this, y, x);
    }
    template <class T>
    void gelu_backward(device_span<T> dx, device_view<T> dy, device_view<T> x) const {
        mpt::gelu_backward<T>(*this, dx, dy, x);
    }
    template <class T>
    void layernorm_forward(device_span<T> y, device_span<wide_t<T>> mean,
                           device_span<wide_t<T>> rstd, device_view<T> x, device_view<T> gamma,
                           device_view<T> beta, layernorm_shape s) const {
        mpt::layernorm_forward<T>(*this, y, mean, rstd, x, gamma, beta, s);
    }
    template <class T>
    void layernorm_backward(device_span<T> dx, device_span<T> dgamma, device_span<T> dbeta,
                            device_view<T> dy, device_view<T> x, device_view<T> gamma,
                            device_view<wide_t<T>> mean, device_view<wide_t<T>> rstd,
                            layernorm_shape s, bool accumulate) const {
        mpt::layernorm_backward<T>(*this, dx, dgamma, dbeta, dy, x, gamma, mean, rstd, s,
                                   accumulate);
    }
    template <class T>
    void embedding_forward(device_span<T> y, device_span<const int> tokens, device_view<T> wte,
                           device_view<T> wpe, embedding_shape s) const {
        mpt::embedding_forward<T>(*this, y, tokens, wte, wpe, s);
    }
    template <class T>
    void embedding_backward(device_span<T> dwte, device_span<T> dwpe, device_view<T> dy,
                            device_span<const int> tokens, embedding_shape s) const {
        mpt::embedding_backward<T>(*this, dwte, dwpe, dy, tokens, s);
    }
    template <class T>
    void attention_forward(device_span<T> out, device_span<wide_t<T>> lse, device_view<T> qkv,
                           attention_shape s, float p = 0, dropout_key key = {}) const {
        mpt::attention_forward<T>(*this, out, lse, qkv, s, p, key);
    }
    template <class T>
    void attention_backward(device_span<T> dqkv, device_view<T> dout, device_view<T> qkv,
                            device_view<T> out, device_view<wide_t<T>> lse, attention_shape s,
                            float p = 0, dropout_key key = {}) const {
        mpt::attention_backward<T>(*this, dqkv, dout, qkv, out, lse, s, p, key);
    }
    template <class T>
    void dropout_forward(device_span<T> y, device_view<T> x, float p, dropout_key key,
                         dropout_shape s) const {
        mpt::dropout_forward<T>(*this, y, x, p, key, s);
    }
    template <class T>
    void dropout_backward(device_span<T> dx, device_view<T> dy, float p, dropout_key key,
                          dropout_shape s) const {
        mpt::dropout_backward<T>(*this, dx, dy, p, key, s);
    }
    template <class T>
    void residual_forward(device_span<T> out, device_view<T> x, device_view<T> branch, float p,
                          dropout_key key, dropout_shape s) const {
        mpt::residual_forward<T>(*this, out, x, branch, p, key, s);
    }
    template <class T>
    void scaled_residual_forward(device_span<T> out, device_view<T> x, device_view<T> branch,
                                 device_view<T> alpha, float p, dropout_key key,
                                 dropout_shape s) const {
        mpt::scaled_residual_forward<T>(*this, out, x, branch, alpha, p, key, s);
    }
    template <class T>
    void scaled_residual_backward(device_span<T> dbranch, device_span<T> dalpha,
                                  device_view<T> dout, device_view<T> branch, device_view<T> alpha,
                                  float p, dropout_key key, dropout_shape s) const {
        mpt::scaled_residual_backward<T>(*this, dbranch, dalpha, dout, branch, alpha, p, key, s);
    }
    template <class T> // T may be const here: only the logits tell it
    void cross_entropy_forward(device_span<wide_t<std::remove_const_t<T>>> losses,
                               device_span<wide_t<std::remove_const_t<T>>> lse,
                               device_span<T> logits, device_span<const int> targets, int rows,
                               int V) const {
        mpt::cross_entropy_forward<std::remove_const_t<T>>(*this, losses, lse, logits, targets,
                                                           rows, V);
    }
    template <class T>
    void cross_entropy_backward(device_span<T> dlogits, device_view<T> logits,
                                device_view<wide_t<T>> lse, device_span<const int> targets,
                                wide_t<T> seed, int rows, int V) const {
        mpt::cross_entropy_backward<T>(*this, dlogits, logits, lse, targets, seed, rows, V);
    }

    // ---- arrays -------------------------------------------------------------------------------
    /// to = from, between host and device; the sizes agree.
    template <class T>
    void copy_to_device(device_span<T> to, std::span<const std::type_identity_t<T>> from) const {
        check_sizes("copy_to_device", to.size(), from.size());
        if (to.data() != from.data()) std::copy(from.begin(), from.end(), to.data());
    }
    template <class T>
    void copy_to_host(std::span<std::remove_const_t<T>> to, device_span<T> from) const {
        check_sizes("copy_to_host", to.size(), from.size());
        std::copy_n(from.data(), from.size(), to.begin());
    }
    /// Where host code may read the elements of x, or, not const, write what copy_to_device(x) then
    /// takes. Here x itself: the loops' device is the host. Elsewhere `room`, made as large as x.
    template <class T>
    std::span<T> on_host(device_span<T> x, std::vector<std::remove_const_t<T>>&) const {
        return {x.data(), x.size()};
    }
    template <class T>
    void fill(device_span<T> x, std::type_identity_t<T> value) const {
        pool.for_ranges(x.size(), grain, [&](std::size_t begin, std::size_t end, int) {
            std::fill(x.data() + begin, x.data() + end, value);
        });
    }
    /// y = x1 + x2, rounded once. y may be either.
    template <class T>
    void add(device_span<T> y, device_view<T> x1, device_view<T> x2) const {
        mpt::residual_forward<T>(*this, y, x1, x2, 0, {}, {1, y.size()});
    }
    /// y = x rounded to T: master weights to weights.
    template <class T, class S>
    void cast(device_span<T> y, device_span<S> x) const {
        check_sizes("cast", y.size(), x.size());
        const bool streaming = streaming_pays(y.bytes() + x.bytes());
        pool.for_ranges(x.size(), grain, [&](std::size_t begin, std::size_t end, int) {
            using from = std::remove_const_t<S>;
            if (streaming)
                mpt::cast_streaming<from, T>(x.data() + begin, y.data() + begin, end - begin);
            else
                mpt::cast<from, T>(x.data() + begin, y.data() + begin, end - begin);
        });
    }
    /// The sum in fp64, of 64 parts of equal size, added in order. W: float or double.
    template <class W>
    double sum(device_span<W> x) const {
        constexpr std::size_t parts = 64;
        double part[parts] = {};
        const std::size_t size = (x.size() + parts - 1) / parts;
        pool.for_ranges(x.size(), size, [&](std::size_t begin, std::size_t end, int) {
            const W* const at = x.data() + begin;
            part[begin / size] =
                row_sum<double>(end - begin, [at](std::size_t i) { return double(at[i]); });
        });
        double total = 0;
        for (const double p : part) total += p;
        return total;
    }

private:
    static constexpr std::size_t grain = std::size_t(1) << 16;
    static void check_sizes(const char* what, std::size_t to, std::size_t from) {
        check(to == from, what, ": ", from, " elements for a place of ", to, "; they must agree");
    }
};

} // namespace mpt
