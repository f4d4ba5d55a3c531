// SPDX-License-Identifier: MIT
// cublas.cuh -- what our way of asking cuBLASLt costs: with a bias and sums that stay in fp32,
// against cuBLAS as it likes it best; and fp8 against 16 bits, where the card has it.
#pragma once
#include "device.cuh"
#include "passes.cuh"   // half_ulp
#include "products.cuh" // product_shape

#include "mpt/nn/cublas_fp8.hpp"     // fp8_product
#include "mpt/nn/cublas_product.hpp" // cublas

namespace bench {

struct asked_library { // cuBLASLt and its workspace
    mpt::cublas blas;
    array<unsigned char> workspace{mpt::cublas::workspace_bytes()};
};

inline double work_of(const product_shape& s) {
    return 2e-12 * double(s.m) * double(s.n) * double(s.k);
}

inline void bench_bias(table& table, const gpu& g, const product_shape& s) {
    const std::string row = "product with bias, cuBLASLt, bf16, " + s.text();
    if (!table.wants(row)) return;
    const auto elements = [](int rows, int columns) { return size_t(rows) * size_t(columns); };
    array<__nv_bfloat16> a(elements(s.m, s.k), -1, 1), b(elements(s.n, s.k), -1, 1),
        c(elements(s.m, s.n)), bias(size_t(s.n), 0, 0);
    asked_library lib;
    mpt::kernels::matmul_args<__nv_bfloat16> x;
    x.c = c.data(), x.a = a.data(), x.b = b.data();
    x.m = s.m, x.n = s.n, x.k = s.k, x.b_transposed = true;
    const auto theirs = [&, x] { blas_matmul(g, x); };
    x.bias = bias.data(); // of zeros: both give the same
    const auto ours = [&] {
        mpt::check(lib.blas.product(x, lib.workspace.data(), lib.workspace.size(), g.stream), row,
                   ": cuBLASLt has no kernel for it");
    };
    c.set_bytes(0xFF);
    ours();
    const std::vector<float> first = c.host();
    theirs();
    alike(row, first, c.host(), 0x1p-8);
    table.compare(row, "TFLOP/s", 0.95, {"", work_of(s), ours},
                  {"cuBLAS, without", work_of(s), theirs});
}

inline void bench_fp8(table& table, const gpu& g, const product_shape& s) {
    const std::string row = "product, cuBLASLt, e4m3, " + s.text();
    if (!table.wants(row)) return;
    if (mpt::device_capability() < 89) {
        std::fprintf(stderr, "  no row for fp8: it needs a card of capability 8.9 or newer\n");
        return;
    }
    const auto elements = [](int rows, int columns) { return size_t(rows) * size_t(columns); };
    const auto codes = [](size_t n) { // -1 to 1 in sixteenths
        std::vector<mpt::e4m3> x(n);
        for (size_t i = 0; i < n; ++i)
            x[i] = mpt::e4m3(float(int(i * 2654435761u >> 16) % 33 - 16) / 16);
        return x;
    };
    const auto ha = codes(elements(s.m, s.k)), hb = codes(elements(s.n, s.k));
    array<unsigned char> a(ha.size()), b(hb.size());
    for (const auto& [to, from] : {std::pair{&a, &ha}, {&b, &hb}})
        require(cudaMemcpy(to->data(), from->data(), from->size(), cudaMemcpyHostToDevice),
                "cudaMemcpy");
    array<__nv_bfloat16> wide_a(ha.size(), -1, 1), wide_b(hb.size(), -1, 1), c(elements(s.m, s.n));
    array<float> one(1, 1, 1);
    asked_library lib;
    mpt::fp8_product_args<mpt::e4m3, mpt::e4m3, __nv_bfloat16> x;
    x.c = c.data(), x.m = s.m, x.n = s.n, x.k = s.k;
    x.a = reinterpret_cast<const mpt::e4m3*>(a.data());
    x.b = reinterpret_cast<const mpt::e4m3*>(b.data());
    x.a_scale = x.b_scale = one.data();
    const auto ours = [&] {
        mpt::fp8_product(lib.blas, x, lib.workspace.data(), lib.workspace.size(), g.stream);
    };
    c.set_bytes(0xFF);
    ours();
    look(row, c.host(64), half_ulp, 0x1p-13 * s.k, [&](size_t j) { // of the first row
        double sum = 0;
        for (size_t p = 0; p < size_t(s.k); ++p)
            sum += double(float(ha[p])) * double(float(hb[j * size_t(s.k) + p]));
        return sum;
    });
    mpt::kernels::matmul_args<__nv_bfloat16> y;
    y.c = c.data(), y.a = wide_a.data(), y.b = wide_b.data();
    y.m = s.m, y.n = s.n, y.k = s.k, y.b_transposed = true;
    table.compare(row, "TFLOP/s", 1.5, {"", work_of(s), ours},
                  {"cuBLAS, bf16", work_of(s), [&, y] { blas_matmul(g, y); }});
}

inline void bench_cublas(table& table, const gpu& g, const options& o) {
    const product_shape layer{o.size(8192, 32), o.size(3072, 192), o.size(768, 48), true};
    bench_bias(table, g, layer);
    const int n = o.size(4096, 96);
    bench_fp8(table, g, {n, n, n, true});
}

} // namespace bench
