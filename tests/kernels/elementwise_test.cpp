// SPDX-License-Identifier: MIT
#include "mpt/kernels/elementwise.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

const std::size_t sizes[] = {0, 1, 31, 33, 257, 1600, 1601};

template <class T>
std::vector<T> sums_of(const std::vector<T>& a, const std::vector<T>& b) {
    std::vector<T> y(a.size());
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = mpt::narrow<T>(mpt::widen(a[i]) + mpt::widen(b[i]));
    return y;
}

} // namespace

TEST_CASE_TEMPLATE("fill", T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const std::size_t n : sizes)
        for (const std::size_t offset : {0, 1}) {
            array<T> y(n, offset);
            T value;
            const H three(3.25f);
            std::memcpy(static_cast<void*>(&value), &three, sizeof value);
            fill(y.data(), value, n, stream());
            CHECK(difference(y.read(), std::vector<H>(n, three)) == "");
        }
}

TEST_CASE_TEMPLATE("add: the sum rounded once, at any address, in place too", T, float, __half,
                   __nv_bfloat16) {
    using H = host_t<T>;
    for (const std::size_t n : sizes)
        for (const std::size_t offset : {0, 1, 2}) {
            const auto a = checks::numbers<H>(n, 1, 3), b = checks::numbers<H>(n, 2, 0.01);
            const array<T> x(a, offset), z(b, 0);
            array<T> y(n, 0);
            add<T>(y, x, z, n, stream());
            CHECK(difference(y.read(), sums_of(a, b)) == "");
            add<T>(x.data(), x, z, n, stream());
            CHECK(difference(x.read(), sums_of(a, b)) == "");
            const array<T> again(a, offset);
            add<T>(z.data(), again, z, n, stream());
            CHECK(difference(z.read(), sums_of(a, b)) == "");
        }
}

TEST_CASE_TEMPLATE("add_to_sums: fp32 sums of a window", T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const std::size_t n : sizes)
        for (const std::size_t offset : {0, 1}) {
            array<float> sums(n); // NaN at first: the first micro-batch must not read it
            std::vector<float> wanted(n);
            for (int micro = 0; micro < 3; ++micro) {
                const auto g = checks::numbers<H>(n, std::uint32_t(10 + micro));
                const array<T> on(g, offset);
                add_to_sums<T>(sums, on, n, micro == 0, stream());
                for (std::size_t i = 0; i < n; ++i)
                    wanted[i] = micro == 0 ? mpt::widen(g[i]) : wanted[i] + mpt::widen(g[i]);
            }
            CHECK(difference(sums.read(), wanted) == "");
        }
    // 4096 ones: in 16 bits the sum would stop at 256 (bf16) or 2048 (fp16)
    array<float> sums(1);
    const array<T> one(std::vector<H>(1, H(1.0f)));
    for (int micro = 0; micro < 4096; ++micro)
        add_to_sums<T>(sums, one, 1, micro == 0, stream());
    CHECK(sums.read()[0] == 4096.0f);
}

TEST_CASE("a grid smaller than the work goes on in steps") {
    const std::size_t n = 5000;
    const auto a = checks::numbers<float>(n, 1), b = checks::numbers<float>(n, 2);
    const array<float> x(a), z(b);
    array<float> y(n);
    mpt::launch<add_kernel<float, 4>>({2, 64, 0, stream()}, y.data(), (const float*)x.data(),
                                      (const float*)z.data(), n);
    CHECK(difference(y.read(), sums_of(a, b)) == "");
}

TEST_CASE("sabotage: what is written one element before an array, or behind it, is seen") {
    for (const long at : {-1L, 0L, 3L}) {
        array<float> y(std::vector<float>(3), 1);
        fill(y.data() + at, 1.0f, 1, stream());
        if (at == 0)
            CHECK_NOTHROW(y.read());
        else
            CHECK_THROWS(y.read());
    }
}
