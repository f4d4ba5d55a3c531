// SPDX-License-Identifier: MIT
#include "mpt/kernels/matmul_wmma.cuh"
#include "tests/kernels/products.hpp"

#include <doctest/doctest.h>

using namespace products;

namespace {

constexpr double unit = 0x1p-23; // of tensor cores (products.hpp)

// What matmul_wmma takes where there are 128 such tiles and more.
template <class T>
void tiles_of_128(matmul_args<T> x, cudaStream_t s) {
    launch_matmul_wmma<T, 128>(with_leading(x), s);
}

} // namespace

TEST_CASE_TEMPLATE("tensor cores give the product", T, float, __half, __nv_bfloat16) {
    for (kind is : kinds()) {
        is.tf32 = std::is_same_v<T, float>;
        problem<T> p(is);
        const std::string what = p.check(matmul_wmma<T>, unit);
        CHECK_MESSAGE(what == "", text(is), ": ", what);
    }
}

TEST_CASE_TEMPLATE("tiles of 128", T, float, __half, __nv_bfloat16) {
    constexpr bool tf32 = std::is_same_v<T, float>;
    for (int lies = 0; lies < 4; lies += probed ? 3 : 1) {
        problem<T> p({130, 264 - 130 * (lies % 2), probed ? 9 : 70, lies % 2 == 1, lies / 2 == 1,
                      true, lies == 2, lies * 4, tf32});
        CHECK(p.check(tiles_of_128<T>, unit) == "");
    }
    if (probed) return;
    problem<T> nine({1100, 3, 20, false, true, false, false, 0, tf32}); // more than 8 rows of tiles
    CHECK(nine.check(tiles_of_128<T>, unit) == "");
}

TEST_CASE("any order of threads gives the same bits") {
    problem<__half> p({33, 67, 36, false, true, true, true});
    CHECK(in_all_orders([&] { return p.run(matmul_wmma<__half>, p.args()); }) == "");
}

TEST_CASE("matmul() takes what was asked for: fp32 stays fp32") {
    problem<float> p({65, 33, 257, false, true, true});
    CHECK(p.check(matmul<float>) == "");
    CHECK(p.compare(p.run(matmul_wmma<float>, p.args()), unit) != ""); // it rounds to tf32
    problem<float> t({65, 33, 257, false, true, true, false, 0, true});
    CHECK(t.check(matmul<float>, unit) == "");
    problem<__nv_bfloat16> b({65, 33, 257, true, true, true});
    CHECK(b.check(matmul<__nv_bfloat16>, unit) == "");
}

TEST_CASE("sums are fp32's, also where 16 bits would overflow or stop growing") {
    const int k = 4096; // 4096 ones: bf16 stops at 256, fp16 at 2048
    problem<__nv_bfloat16> p({3, 5, k});
    p.a.write(std::vector<mpt::bf16>(3 * k, mpt::bf16(1.0f)));
    p.b.write(std::vector<mpt::bf16>(5 * k, mpt::bf16(1.0f)));
    for (const mpt::bf16 x : p.run(matmul<__nv_bfloat16>, p.args())) CHECK(float(x) == 4096);
    problem<__half> h({1, 1, 64}); // 40 * 40 * 64 = 102400 > 65504: infinity, when it is stored
    h.a.write(std::vector<mpt::fp16>(64, mpt::fp16(40.0f)));
    h.b.write(std::vector<mpt::fp16>(64, mpt::fp16(40.0f)));
    CHECK(std::isinf(float(h.run(matmul<__half>, h.args())[0])));
}

TEST_CASE("the comparison can fail: each thing that an argument says, said wrong") {
    problem<__half> p({33, 33, 33, true, false, true, true});
    CHECK(p.check(matmul_wmma<__half>, unit) == "");
    for (int wrong = 0; wrong < 5; ++wrong) {
        matmul_args<__half> x = p.args();
        if (wrong == 0) x.a_transposed = false;
        if (wrong == 1) x.b_transposed = true;
        if (wrong == 2) x.bias = nullptr;
        if (wrong == 3) x.accumulate = false;
        if (wrong == 4) x.k = 32;
        CAPTURE(wrong);
        CHECK(p.compare(p.run(matmul_wmma<__half>, x), unit) != "");
    }
}
