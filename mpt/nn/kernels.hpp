// SPDX-License-Identifier: MIT
/// @file kernels.hpp
/// The operations that models and steps call, done by kernels.             tier 4, needs:
/// base/memory.hpp kernels/attention_backward.cuh kernels/cast.cuh kernels/column_sums.cuh
/// kernels/cross_entropy.cuh kernels/embedding.cuh kernels/gelu.cuh kernels/layernorm.cuh
/// kernels/matmul_wmma.cuh kernels/reduce.cuh kernels/residual_scale.cuh nn/device.hpp
/// nn/device_type.hpp nn/loops.hpp
///
/// Idea     The members of loops.hpp, each a launcher of kernels/: on the emulator where g++ or
///          clang++ compile, on a GPU where nvcc does. Sizes are checked as there, with the same
///          words. A call returns when its kernels wait in the queue's stream, not when they are
///          done: what the host asks of them (sum, copy_to_host) waits.
/// Costs    scratch as X_bytes() says, once, for all: in one stream no two operations overlap
/// Breaks   two streams on one list: they would share the scratch.  Tokens past the vocabulary:
///          no kernel throws, so whoever copies them in checks them
/// See      loops.hpp, device.hpp, tests/nn/kernels_test.cpp
#pragma once
#include "mpt/base/memory.hpp"                // buffer, memory
#include "mpt/kernels/attention_backward.cuh" // attention_forward, attention_backward
#include "mpt/kernels/cast.cuh"               // cast, fill, add
#include "mpt/kernels/column_sums.cuh"        // column_sums
#include "mpt/kernels/cross_entropy.cuh"      // cross_entropy_forward, cross_entropy_backward
#include "mpt/kernels/embedding.cuh"          // embedding_forward, embedding_backward
#include "mpt/kernels/gelu.cuh"               // gelu_forward, gelu_backward
#include "mpt/kernels/layernorm.cuh"          // layernorm_forward, layernorm_backward
#include "mpt/kernels/matmul_wmma.cuh"        // matmul
#include "mpt/kernels/reduce.cuh"             // sum
#include "mpt/kernels/residual_scale.cuh"     // dropout, residual, scaled_residual, ...
#include "mpt/nn/device.hpp"                  // device_queue
#include "mpt/nn/device_type.hpp"             // on_device: fp16* to __half*
#include "mpt/nn/loops.hpp"                   // check_linear, check_attention, ...

#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mpt {

/// Numbers that a step finds on the device, so that the host need not know them; null: the
/// arguments of the calls hold.
struct step_places {
    const float* seed = nullptr;                   // what cross_entropy_backward starts from
    const kernels::dropout_place* place = nullptr; // added to each dropout_key's step and sample
    double* loss = nullptr;                        // sum() writes there, and returns 0
};

struct kernel_ops {
    /// scratch_bytes: the largest of the operations' X_bytes() queries (kernel_scratch.hpp).
    kernel_ops(const device_queue& on, memory& mem, std::size_t scratch_bytes,
               bool tf32_products = false)
        : queue(on), tf32(tf32_products),
          scratch_(mem, kind::temp, scratch_bytes, "scratch of the kernels"),
          one_(mem, kind::temp, 1, "a sum") {}

    const device_queue& queue;
    bool tf32; // operands of matrix products are rounded to 10 mantissa bits first
    step_places places;
    mutable std::map<std::string_view, long> ran; // calls that became kernels, by operation

    // ---- layers -------------------------------------------------------------------------------
    template <class T>
    void linear_forward(device_span<T> y, device_view<T> x, device_view<T> w, device_view<T> bias,
                        linear_shape s) const {
        check_linear<T>(x, y, w, bias, s);
        run("linear_forward");
        kernels::matmul(forward_product<T>(y, x, w, bias, s), queue.work);
    }
    template <class T>
    void linear_backward(device_span<T> dx, device_span<T> dw, device_span<T> dbias,
                         device_view<T> dy, device_view<T> x, device_view<T> w,
                         linear_shape s) const {
        check_linear<T>(x, dy, w, dbias, s);
        check_linear<T>(dx.empty() ? x : device_view<T>(dx), dy, dw, dbias, s);
        run("linear_backward");
        if (!dx.empty()) kernels::matmul(dx_product<T>(dx, dy, w, s), queue.work);
        kernels::matmul(dw_product<T>(dw, dy, x, s), queue.work);
        bias_gradient<T>(dbias, dy, s);
    }
    template <class T>
    void gelu_forward(device_span<T> y, device_view<T> x) const {
        check_gelu(y.size(), x.size());
        run("gelu_forward");
        kernels::gelu_forward(on_device(y), viewed<T>(x), x.size(), queue.work);
    }
    template <class T>
    void gelu_backward(device_span<T> dx, device_view<T> dy, device_view<T> x) const {
        check_gelu_backward(dx.size(), dy.size(), x.size());
        run("gelu_backward");
        kernels::gelu_backward(on_device(dx), viewed<T>(dy), viewed<T>(x), x.size(),
                               queue.work);
    }
    template <class T>
    void layernorm_forward(device_span<T> y, device_span<wide_t<T>> mean,
                           device_span<wide_t<T>> rstd, device_view<T> x, device_view<T> gamma,
                           device_view<T> beta, layernorm_shape s) const {
        check_layernorm<T>(y, mean, rstd, x, gamma, beta, s);
        run("layernorm_forward");
        kernels::layernorm_forward<device_t<T>>(
            {on_device(y), mean.data(), rstd.data(), viewed<T>(x), viewed<T>(gamma),
             viewed<T>(beta), s.rows, s.channels},
            queue.work);
    }
    template <class T>
    void layernorm_backward(device_span<T> dx, device_span<T> dgamma, device_span<T> dbeta,
                            device_view<T> dy, device_view<T> x, device_view<T> gamma,
                            device_view<wide_t<T>> mean, device_view<wide_t<T>> rstd,
                            layernorm_shape s, bool accumulate) const {
        check_layernorm_backward<T>(dx, dgamma, dbeta, dy, x, gamma, mean, rstd, s);
        run("layernorm_backward");
        kernels::layernorm_backward<device_t<T>>(
            {on_device(dx), on_device(dgamma), on_device(dbeta), viewed<T>(dy), viewed<T>(x),
             viewed<T>(gamma), mean.data(), rstd.data(), s.rows, s.channels, accumulate,
             scratch(kernels::layernorm_backward_bytes(s.rows, s.channels))},
            queue.work);
    }
    template <class T>
    void embedding_forward(device_span<T> y, device_span<const int> tokens, device_view<T> wte,
                           device_view<T> wpe, embedding_shape s) const {
        check_embedding<T>(y, tokens, wte, wpe, s);
        run("embedding_forward");
        kernels::embedding_forward<device_t<T>>({on_device(y), tokens.data(), viewed<T>(wte),
                                                 viewed<T>(wpe), s.B, s.T, s.C, s.V},
                                                queue.work);
    }
    template <class T>
    void embedding_backward(device_span<T> dwte, device_span<T> dwpe, device_view<T> dy,
                            device_span<const int> tokens, embedding_shape s) const {
        check_embedding<T>(dy, tokens, dwte, dwpe, s);
        run("embedding_backward");
        kernels::embedding_backward<device_t<T>>(
            {on_device(dwte), on_device(dwpe), viewed<T>(dy), tokens.data(), s.B, s.T, s.C, s.V,
             scratch(kernels::embedding_backward_bytes(s.B, s.T)),
             int(dwpe.size() / std::size_t(s.C))},
            queue.work);
    }
    template <class T>
    void attention_forward(device_span<T> out, device_span<wide_t<T>> lse, device_view<T> qkv,
                           attention_shape s, float p = 0, dropout_key key = {}) const {
        check_attention<T>(out, lse, qkv, s);
        run("attention_forward");
        auto a = heads_of<T>(qkv, s, p, key);
        a.out = on_device(out), a.lse = lse.data();
        kernels::attention_forward(a, queue.work);
    }
    template <class T>
    void attention_backward(device_span<T> dqkv, device_view<T> dout, device_view<T> qkv,
                            device_view<T> out, device_view<wide_t<T>> lse, attention_shape s,
                            float p = 0, dropout_key key = {}) const {
        check_attention<T>(out, lse, qkv, s);
        check_attention<T>(dout, lse, dqkv, s);
        run("attention_backward");
        kernels::attention_backward_args<device_t<T>> a;
        a.forward = heads_of<T>(qkv, s, p, key);
        a.forward.out = const_cast<device_t<T>*>(viewed<T>(out)); // only read
        a.forward.lse = const_cast<float*>(lse.data());           // only read
        a.dout = viewed<T>(dout);
        a.dq = on_device(dqkv);
        a.dk = a.dq + (a.forward.k - a.forward.q);
        a.dv = a.dq + (a.forward.v - a.forward.q);
        a.scratch = scratch(kernels::attention_backward_bytes(s.B, s.heads, s.T));
        kernels::attention_backward(a, queue.work);
    }
    template <class T>
    void dropout_forward(device_span<T> y, device_view<T> x, float p, dropout_key key,
                         dropout_shape s) const {
        check_dropout(y.size(), x.size(), p, s);
        run("dropout_forward");
        kernels::dropout(on_device(y), viewed<T>(x), dropped(p, key), s.samples, s.per_sample,
                         queue.work);
    }
    template <class T>
    void dropout_backward(device_span<T> dx, device_view<T> dy, float p, dropout_key key,
                          dropout_shape s) const {
        check_dropout(dx.size(), dy.size(), p, s);
        run("dropout_backward");
        kernels::dropout(on_device(dx), viewed<T>(dy), dropped(p, key), s.samples,
                         s.per_sample, queue.work);
    }
    template <class T>
    void residual_forward(device_span<T> out, device_view<T> x, device_view<T> branch, float p,
                          dropout_key key, dropout_shape s) const {
        check_dropout(out.size(), x.size(), p, s);
        check_dropout(out.size(), branch.size(), p, s);
        run("residual_forward");
        kernels::residual(on_device(out), viewed<T>(x), viewed<T>(branch), dropped(p, key),
                          s.samples, s.per_sample, queue.work);
    }
    template <class T>
    void scaled_residual_forward(device_span<T> out, device_view<T> x, device_view<T> branch,
                                 device_view<T> alpha, float p, dropout_key key,
                                 dropout_shape s) const {
        check_dropout(out.size(), x.size(), p, s);
        check_dropout(out.size(), branch.size(), p, s);
        check_residual_scale(alpha.size());
        run("scaled_residual_forward");
        kernels::scaled_residual_forward<device_t<T>>(
            {on_device(out), viewed<T>(x), viewed<T>(branch), viewed<T>(alpha),
             dropped(p, key), s.samples, s.per_sample},
            queue.work);
    }
    template <class T>
    void scaled_residual_backward(device_span<T> dbranch, device_span<T> dalpha,
                                  device_view<T> dout, device_view<T> branch, device_view<T> alpha,
                                  float p, dropout_key key, dropout_shape s) const {
        check_dropout(dbranch.size(), dout.size(), p, s);
        check_dropout(dbranch.size(), branch.size(), p, s);
        check_residual_scale(alpha.size());
        check_residual_scale(dalpha.size());
        run("scaled_residual_backward");
        kernels::scaled_residual_backward<device_t<T>>(
            {on_device(dbranch), on_device(dalpha), viewed<T>(dout), viewed<T>(branch),
             viewed<T>(alpha), dropped(p, key), s.samples, s.per_sample,
             scratch(kernels::scaled_residual_backward_bytes(dout.size()))},
            queue.work);
    }
    template <class T> // T may be const here: only the logits tell it
    void cross_entropy_forward(device_span<wide_t<std::remove_const_t<T>>> losses,
                               device_span<wide_t<std::remove_const_t<T>>> lse,
                               device_span<T> logits, device_span<const int> targets, int rows,
                               int V) const {
        using E = std::remove_const_t<T>;
        check_cross_entropy<E>(losses, lse, logits, targets, rows, V);
        run("cross_entropy_forward");
        kernels::cross_entropy_forward<device_t<E>>({losses.data(), lse.data(),
                                                     viewed<E>(logits), targets.data(), rows, V},
                                                    queue.work);
    }
    template <class T>
    void cross_entropy_backward(device_span<T> dlogits, device_view<T> logits,
                                device_view<wide_t<T>> lse, device_span<const int> targets,
                                wide_t<T> seed, int rows, int V) const {
        check_cross_entropy_backward<T>(dlogits, logits, lse, targets, rows, V);
        run("cross_entropy_backward");
        kernels::cross_entropy_backward<device_t<T>>(
            {on_device(dlogits), viewed<T>(logits), lse.data(), targets.data(), seed,
             places.seed, rows, V},
            queue.work);
    }

    // ---- arrays -------------------------------------------------------------------------------
    /// to = from, between host and device; the sizes agree. Both wait for the device.
    template <class T>
    void copy_to_device(device_span<T> to, std::span<const std::type_identity_t<T>> from) const {
        check_sizes("copy_to_device", to.size(), from.size());
        queue.copy_in(to.data(), from.data(), to.bytes(), queue.work);
        queue.wait();
    }
    template <class T>
    void copy_to_host(std::span<std::remove_const_t<T>> to, device_span<T> from) const {
        check_sizes("copy_to_host", to.size(), from.size());
        queue.copy_out(to.data(), from.data(), from.bytes(), queue.work);
        queue.wait();
    }
    /// Where host code may read the elements of x, or, not const, write what copy_to_device(x) then
    /// takes: `room`, made as large as x.
    template <class T>
    std::span<T> on_host(device_span<T> x, std::vector<std::remove_const_t<T>>& room) const {
        room.resize(x.size());
        copy_to_host(std::span<std::remove_const_t<T>>(room), x);
        return room;
    }
    template <class T>
    void fill(device_span<T> x, std::type_identity_t<T> value) const {
        run("fill");
        kernels::fill(on_device(x), *on_device(&value), x.size(), queue.work);
    }
    /// y = x1 + x2, rounded once. y may be either.
    template <class T>
    void add(device_span<T> y, device_view<T> x1, device_view<T> x2) const {
        check_dropout(y.size(), x1.size(), 0, {1, y.size()});
        check_dropout(y.size(), x2.size(), 0, {1, y.size()});
        run("add");
        kernels::add(on_device(y), viewed<T>(x1), viewed<T>(x2), y.size(), queue.work);
    }
    /// y = x rounded to T: master weights to weights.
    template <class T, class S>
    void cast(device_span<T> y, device_span<S> x) const {
        check_sizes("cast", y.size(), x.size());
        run("cast");
        kernels::cast(on_device(y), on_device(x), x.size(), queue.work);
    }
    /// The sum in fp64, in a fixed order. Waits for the device, unless places.loss takes it.
    double sum(device_span<const float> x) const {
        run("sum");
        double* const to = places.loss ? places.loss : const_cast<double*>(one_.span().data());
        kernels::sum(to, x.data(), x.size(), scratch(kernels::sum_bytes(x.size())), queue.work);
        double result = 0;
        if (!places.loss) copy_to_host(std::span<double>(&result, 1), device_span<double>(to, 1));
        return result;
    }

    // ---- for operations that stand elsewhere --------------------------------------------------
    /// An operation becomes kernels.
    void run(std::string_view operation) const { ++ran[operation]; }

    /// The scratch, where `bytes` of it are enough.
    void* scratch(std::size_t bytes) const {
        check(bytes <= scratch_.size(), "kernels: an operation wants ", bytes,
              " bytes of scratch, ", scratch_.size(), " are reserved; reserve what X_bytes() says");
        return const_cast<std::byte*>(scratch_.span().data());
    }

    /// Bytes on the device, with so much scratch.
    static std::size_t bytes(std::size_t scratch_bytes) { return scratch_bytes + sizeof(double); }

    /// Who multiplies matrices, for a start-up line; and the scratch that it wants.
    static std::string products() { return "kernels"; }
    static std::size_t product_bytes() { return 0; }

protected:
    // ---- products: y = x w^T + bias,  dx = dy w,  dw = dy^T x ----------------------------------
    template <class T>
    kernels::matmul_args<device_t<T>> forward_product(device_span<T> y, device_view<T> x,
                                                      device_view<T> w, device_view<T> bias,
                                                      linear_shape s) const {
        kernels::matmul_args<device_t<T>> a;
        a.c = on_device(y), a.a = viewed<T>(x), a.b = viewed<T>(w), a.bias = viewed<T>(bias);
        a.m = s.rows, a.n = s.out, a.k = s.in, a.b_transposed = true, a.tf32 = tf32;
        return a;
    }
    template <class T>
    kernels::matmul_args<device_t<T>> dx_product(device_span<T> dx, device_view<T> dy,
                                                 device_view<T> w, linear_shape s) const {
        kernels::matmul_args<device_t<T>> a;
        a.c = on_device(dx), a.a = viewed<T>(dy), a.b = viewed<T>(w);
        a.m = s.rows, a.n = s.in, a.k = s.out, a.tf32 = tf32;
        return a;
    }
    template <class T>
    kernels::matmul_args<device_t<T>> dw_product(device_span<T> dw, device_view<T> dy,
                                                 device_view<T> x, linear_shape s) const {
        kernels::matmul_args<device_t<T>> a;
        a.c = on_device(dw), a.a = viewed<T>(dy), a.b = viewed<T>(x);
        a.m = s.out, a.n = s.in, a.k = s.rows, a.a_transposed = true, a.tf32 = tf32;
        return a;
    }
    template <class T>
    void bias_gradient(device_span<T> dbias, device_view<T> dy, linear_shape s) const {
        if (dbias.empty()) return;
        kernels::column_sums(on_device(dbias), viewed<T>(dy), s.rows, s.out,
                             scratch(kernels::column_sums_bytes(s.rows, s.out)), queue.work);
    }

private:
    // q, k and v lie side by side in each position of qkv.
    template <class T>
    kernels::attention_args<device_t<T>> heads_of(device_view<T> qkv, attention_shape s, float p,
                                                  dropout_key key) const {
        kernels::attention_args<device_t<T>> a;
        a.q = viewed<T>(qkv);
        a.k = a.q + std::size_t(s.heads) * std::size_t(s.head_dim);
        a.v = a.k + std::size_t(s.kv_heads) * std::size_t(s.head_dim);
        a.B = s.B, a.Tq = a.Tk = s.T;
        a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim;
        a.q_stride = a.kv_stride = qkv_width(s), a.out_stride = heads_width(s);
        a.scale = 1.0f / std::sqrt(float(s.head_dim));
        a.drop = dropped(p, key);
        return a;
    }
    kernels::dropout_args dropped(float p, dropout_key key) const {
        return {p, key.seed, key.layer, key.step, key.sample, places.place};
    }
    static void check_sizes(const char* what, std::size_t to, std::size_t from) {
        check(to == from, what, ": ", from, " elements for a place of ", to, "; they must agree");
    }

    buffer<std::byte> scratch_;
    buffer<double> one_; // a sum on its way to the host
};

} // namespace mpt
