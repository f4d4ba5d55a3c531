// SPDX-License-Identifier: MIT
// products.cuh -- the steps of the matrix product, and tensor cores, against cuBLAS.
#pragma once
#include "device.cuh"

#include "mpt/kernels/matmul_wmma.cuh" // matmul_naive ... matmul_wmma

namespace bench {

struct product_shape {
    int m, n, k;
    bool b_transposed = false;
    std::string text() const {
        return std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
    }
};

template <class T>
using product_step = void (*)(mpt::kernels::matmul_args<T>, cudaStream_t);

/// share: how far two right products may be apart, as part of their size.
template <class T>
void bench_product(table& table, const gpu& g, const std::string& row, product_step<T> step,
                   const product_shape& s, double goal, double share, bool tf32 = false) {
    if (!table.wants(row)) return;
    const auto elements = [](int rows, int columns) { return size_t(rows) * size_t(columns); };
    array<T> a(elements(s.m, s.k), -1, 1), b(elements(s.k, s.n), -1, 1), c(elements(s.m, s.n));
    mpt::kernels::matmul_args<T> x;
    x.c = c.data(), x.a = a.data(), x.b = b.data();
    x.m = s.m, x.n = s.n, x.k = s.k;
    x.b_transposed = s.b_transposed, x.tf32 = tf32;
    const auto ours = [&] { step(x, g.stream); };
    const auto theirs = [&] { blas_matmul(g, x); };
    c.set_bytes(0xFF); // what stays unwritten is no number
    ours();
    const std::vector<float> first = c.host();
    theirs();
    alike(row, first, c.host(), share);
    const double work = 2e-12 * double(s.m) * double(s.n) * double(s.k);
    table.compare(row, "TFLOP/s", goal, {"", work, ours}, {"cuBLAS", work, theirs});
}

inline void bench_products(table& table, const gpu& g, const options& o) {
    using namespace mpt::kernels;
    const int n = o.size(4096, 72);
    const product_shape square{n, n, n};
    // fp32: another order of n products. 16 bits: one rounding. tf32: that of two operands.
    const double fp32 = 1e-5, half = 0x1p-8, tf = 0x1p-9;
    const auto steps = [&](const char* name, product_step<float> step, double goal) {
        bench_product<float>(table, g, std::string("matmul ") + name + ", " + square.text(), step,
                             square, goal, fp32);
    };
    steps("naive", matmul_naive<float>, 0);
    steps("coalesced", matmul_coalesced<float>, 0);
    steps("tiled", matmul_tiled<float>, 0);
    steps("registers", matmul_registers<float>, 0.5);
    const std::string cores = "matmul wmma ";
    bench_product<float>(table, g, cores + "tf32, " + square.text(), matmul_wmma<float>, square,
                         0.45, tf, true);
    bench_product<__half>(table, g, cores + "fp16, " + square.text(), matmul_wmma<__half>, square,
                          0.45, half);
    bench_product<__nv_bfloat16>(table, g, cores + "bf16, " + square.text(),
                                 matmul_wmma<__nv_bfloat16>, square, 0.45, half);
    // The linear layers of GPT-2 124M, forward, and its head; weights lie as (out, in).
    const int tokens = o.size(8192, 40), C = o.size(768, 48);
    for (const int wide : {C, 3 * C, 4 * C, o.size(50304, 200)}) {
        const product_shape s{tokens, wide, C, true};
        bench_product<__nv_bfloat16>(table, g, cores + "bf16, " + s.text(),
                                     matmul_wmma<__nv_bfloat16>, s, 0.45, half);
    }
}

} // namespace bench
