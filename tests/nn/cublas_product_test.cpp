// SPDX-License-Identifier: MIT
// Products by cuBLASLt, in each format, against the plain loop in double.
#include "mpt/nn/cublas_product.hpp"
#include "tests/kernels/products.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using products::problem;

namespace {

// One handle and its workspace for the whole program, on the rig's stream.
struct library {
    cublas blas;
    std::size_t bytes = cublas::workspace_bytes();
    rig::scratch workspace{bytes};
};
library& lib() {
    static library l;
    return l;
}

template <class T>
void by_cublas(kernels::matmul_args<T> x, cudaStream_t s) {
    check(lib().blas.product(x, lib().workspace, lib().bytes, s), "cuBLASLt has no kernel for it");
}

constexpr double sums = 0x1p-24;
constexpr double cores = 0x1p-23; // tensor cores may cut off (tests/kernels/products.hpp)

// tf32: both operands rounded, or cut off, to 10 bits: off by 2^-10 each at most, so their product
// by 2^-9 and a little; and the sums. As the `unit` of which problem::compare takes k + 2.
double unit_of_tf32(int k) { return cores + (0x1p-9 + 0x1p-20) / (k + 2); }

template <class T>
double unit_of(const products::kind& is) {
    return is.tf32 ? unit_of_tf32(is.k) : std::is_same_v<T, float> ? sums : cores;
}

} // namespace

TEST_CASE_TEMPLATE("the product in each format: sizes, bias, sums, gaps, odd addresses", T, float,
                   __half, __nv_bfloat16) {
    for (const products::kind& is : products::kinds()) {
        problem<T> p(is);
        const std::string what = p.check(by_cublas<T>, unit_of<T>(is));
        CHECK_MESSAGE(what == "", products::text(is), ": ", what);
    }
}

// What a product with x.tf32 gives is compared with that of the operands as they are.
TEST_CASE("tf32 where it is asked for, and only there") {
    for (const products::kind& is : products::kinds()) {
        problem<float> p(is);
        kernels::matmul_args<float> x = p.args();
        x.tf32 = true;
        const auto rounded = p.run(by_cublas<float>, x);
        const std::string what = p.compare(rounded, unit_of_tf32(is.k));
        CHECK_MESSAGE(what == "", products::text(is), ": ", what);
        // tf32 for fp32 would be noticed, where there is more than a number or two to see it by,
        // and the bound, which grows with k, is not yet wider than the roundings, with sqrt(k)
        if (device_capability() >= 80 && is.m * is.n * is.k > 1000 && is.k < 300)
            CHECK_MESSAGE(p.compare(rounded, sums) != "", products::text(is));
    }
}

TEST_CASE("sums are fp32's, and rounded once: parts of a sum in 16 bits would be seen") {
    const int k = 4096; // ones: bf16 stops at 256, fp16 at 2048
    problem<__nv_bfloat16> p({3, 5, k, false, true});
    std::vector<bf16> a(3 * k, bf16(1.0f)), b(5 * k, bf16(1.0f));
    p.a.write(a), p.b.write(b);
    for (const bf16 x : p.run(by_cublas<__nv_bfloat16>, p.args())) CHECK(float(x) == 4096);
    // 2047 of them, then 2046 of -1: 1. The halves are 2048 and -2048 to bf16, quarters 1024.
    for (std::size_t j = 0; j < 5; ++j)
        for (std::size_t i = 0; i < k; ++i)
            b[j * k + i] = bf16(i < 2047 ? 1.0f : i < 2048 || i >= 4094 ? 0.0f : -1.0f);
    p.b.write(b);
    for (const bf16 x : p.run(by_cublas<__nv_bfloat16>, p.args())) CHECK(float(x) == 1);
    // the comparison can fail: halves that meet in bf16
    std::vector<bf16> zeros(3 * k, bf16(0.0f));
    kernels::matmul_args<__nv_bfloat16> half = p.args();
    half.k = k / 2, half.lda = half.ldb = k;
    p.run(by_cublas<__nv_bfloat16>, half);
    half.a += k / 2, half.b += k / 2, half.accumulate = true;
    by_cublas<__nv_bfloat16>(half, rig::stream());
    for (const bf16 x : p.c.read()) CHECK(float(x) != 1);
}

TEST_CASE_TEMPLATE("the comparison can fail: each thing that an argument says, said wrong", T,
                   float, __half) {
    problem<T> p({33, 33, 33, true, false, true, true, 5});
    CHECK(p.check(by_cublas<T>, cores) == "");
    for (int wrong = 0; wrong < 8; ++wrong) {
        kernels::matmul_args<T> x = p.args();
        if (wrong == 0) x.a_transposed = false;
        if (wrong == 1) x.b_transposed = true;
        if (wrong == 2) x.bias = nullptr;
        if (wrong == 3) x.accumulate = false;
        if (wrong == 4) x.k = 32;
        if (wrong == 5) x.lda = 33;
        if (wrong == 6) x.ldb = 33;
        if (wrong == 7) x.ldc = 33;
        CAPTURE(wrong);
        CHECK(p.compare(p.run(by_cublas<T>, x), cores) != "");
    }
}

TEST_CASE("the library is asked once a kind, and the same kind gives the same bits") {
    problem<__half> p({65, 127, 33, false, true, true}), q({65, 127, 33, false, true, true});
    for (fp16& x : q.bias_host) x = fp16(-float(x));
    q.bias.write(q.bias_host);
    const auto first = p.run(by_cublas<__half>, p.args());
    const auto other = q.run(by_cublas<__half>, q.args()); // the bias is not the first one's
    CHECK(rig::difference(first, other) != "");
    CHECK(rig::difference(p.run(by_cublas<__half>, p.args()), first) == "");
    CHECK(rig::difference(q.run(by_cublas<__half>, q.args()), other) == "");
}

TEST_CASE("a product of nothing: none, and a sum of nothing is not the library's") {
    const auto zero = rig::scratch(1);
    kernels::matmul_args<float> x;
    x.m = 0, x.n = 3, x.k = 4;
    CHECK(lib().blas.product(x, zero, 1, rig::stream()));
    x.m = 2, x.k = 0;
    CHECK(!lib().blas.product(x, zero, 1, rig::stream()));
}
