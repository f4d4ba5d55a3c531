// SPDX-License-Identifier: MIT
// attention.cuh -- attention in tiles against the form that stores all probabilities: products by
// cuBLAS, softmax by a kernel of its own.
#pragma once
#include "device.cuh"

#include "mpt/kernels/attention_backward.cuh" // attention_forward, attention_backward
#include "mpt/kernels/softmax.cuh"            // running_sum, softmax_backward

namespace bench {

/// p (rows,T) = softmax of what query i = row % T may see, 0 behind; in place, a warp a row.
template <class E>
__global__ void causal_softmax_kernel(E* p, size_t rows, int T) {
    using namespace mpt::kernels;
    const unsigned lane = threadIdx.x % 32;
    const size_t row = size_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    E* const x = p + row * size_t(T);
    const size_t seen = row % size_t(T) + 1;
    running_sum s;
    const auto see = [&](size_t i, auto part) {
        const pack<E, part.count> v = load<part.count>(x + i);
        for (int k = 0; k < part.count; ++k) s.add(to_float(v.x[k]));
    };
    for_my_part_of_row(seen, lane, 32, see, static_cast<const E*>(x));
    s.join_warp();
    const float share = s.share();
    const auto write = [&](size_t i, auto part) {
        pack<E, part.count> v{};
        if (i < seen) v = load<part.count>(x + i);
        for (int k = 0; k < part.count; ++k) {
            const float y = running_sum::power(to_float(v.x[k]), s.most) * share;
            v.x[k] = from_float<E>(i + size_t(k) < seen ? y : 0.0f);
        }
        store(x + i, v);
    };
    for_my_part_of_row(size_t(T), lane, 32, write, static_cast<const E*>(x));
}

/// `heads` heads of all samples, T positions, D wide; each head's (T,D) lie together, which suits
/// cuBLAS best.
inline void bench_attention(table& table, const gpu& g, int heads, int T, int D) {
    using E = __nv_bfloat16;
    using mpt::kernels::matmul_args;
    const std::string of = ", T " + std::to_string(T) + ", D " + std::to_string(D);
    const std::string forward = "attention forward" + of, backward = "attention backward" + of;
    const std::string both = "attention both ways" + of;
    if (!table.wants(forward) && !table.wants(backward) && !table.wants(both)) return;

    const size_t n = size_t(heads) * size_t(T) * size_t(D);
    const size_t square = size_t(heads) * size_t(T) * size_t(T);
    array<E> qkv(3 * n, -1.5f, 1.5f), dout(n, -1, 1), out(n), dqkv(3 * n), p(square), dp(square);
    array<float> lse(size_t(heads) * size_t(T));
    array<unsigned char> scratch(mpt::kernels::attention_backward_bytes(heads, 1, T));
    const float scale = 1 / std::sqrt(float(D));
    E *const q = qkv.data(), *const k = q + n, *const v = k + n;
    E *const dq = dqkv.data(), *const dk = dq + n, *const dv = dk + n;

    mpt::kernels::attention_args<E> x;
    x.q = q, x.k = k, x.v = v, x.out = out.data(), x.lse = lse.data();
    x.B = heads, x.Tq = x.Tk = T, x.heads = x.kv_heads = 1, x.head_dim = D;
    x.q_stride = x.kv_stride = x.out_stride = size_t(D);
    mpt::kernels::attention_backward_args<E> y;
    y.forward = x, y.dout = dout.data(), y.dq = dq, y.dk = dk, y.dv = dv;
    y.scratch = scratch.data();
    const auto ours_forward = [&] { mpt::kernels::attention_forward(x, g.stream); };
    const auto ours_backward = [&] { mpt::kernels::attention_backward(y, g.stream); };

    // c (rows, columns) of every head = alpha a (rows, depth) b (depth, columns)
    const auto product = [&](E* c, const E* a, const E* b, int columns, int depth, bool at, bool bt,
                             float alpha = 1) {
        matmul_args<E> m;
        m.c = c, m.a = a, m.b = b, m.m = T, m.n = columns, m.k = depth;
        m.a_transposed = at, m.b_transposed = bt;
        blas_matmul(g, m, heads, alpha);
    };
    const auto theirs_forward = [&] {
        const size_t rows = size_t(heads) * size_t(T);
        product(p.data(), q, k, T, D, false, true, scale);                       // S = q k^T
        launch<causal_softmax_kernel<E>>({unsigned((rows + 3) / 4), 128, 0, g.stream}, p.data(),
                                         rows, T);
        product(out.data(), p.data(), v, D, T, false, false);                    // P v
    };
    const auto theirs_backward = [&] {
        product(dv, p.data(), dout.data(), D, T, true, false);                   // P^T dout
        product(dp.data(), dout.data(), v, T, D, false, true);                   // dP = dout v^T
        mpt::kernels::softmax_backward(dp.data(), static_cast<const E*>(dp.data()),
                                       static_cast<const E*>(p.data()), heads * T, T, g.stream);
        product(dq, dp.data(), k, D, T, false, false, scale);                    // dS k
        product(dk, dp.data(), q, D, T, true, false, scale);                     // dS^T q
    };

    // The other form rounds P and dP to 8 bits of mantissa; so a few times 2^-9.
    const double share = 0.02;
    out.set_bytes(0xFF);
    dqkv.set_bytes(0xFF); // what stays unwritten is no number
    ours_forward();
    ours_backward();
    const std::vector<float> first = out.host(), second = dqkv.host();
    theirs_forward();
    theirs_backward();
    alike(forward, first, out.host(), share);
    alike(backward, second, dqkv.host(), share);

    // Of the half of the square that is seen: 2 products forward, 5 backward (S is made again).
    const double work = 1e-12 * double(heads) * T * double(T) * D * 2;
    const char* peer = "cuBLAS + softmax";
    table.compare(forward, "TFLOP/s", 0, {"", work, ours_forward}, {peer, work, theirs_forward});
    table.compare(backward, "TFLOP/s", 0, {"", 2.5 * work, ours_backward},
                  {peer, 2.5 * work, theirs_backward});
    table.compare(both, "TFLOP/s", 3,
                  {"", 3.5 * work,
                   [&] {
                       ours_forward();
                       ours_backward();
                   }},
                  {peer, 3.5 * work, [&] {
                       theirs_forward();
                       theirs_backward();
                   }});
}

inline void bench_attentions(table& table, const gpu& g, const options& o) {
    bench_attention(table, g, o.size(8 * 12, 2), o.size(1024, 72), 64);
    bench_attention(table, g, o.size(16, 1), o.size(4096, 96), 128);
}

} // namespace bench
