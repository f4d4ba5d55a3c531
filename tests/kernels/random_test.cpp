// SPDX-License-Identifier: MIT
#include "mpt/kernels/random.cuh"
#include "mpt/base/philox.hpp"
#include "mpt/numeric/stochastic.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

__global__ void draw_kernel(unsigned* to, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const random4 r = philox({{unsigned(i), 0xFFFFFFFFu - unsigned(i), 7, unsigned(i) * 77u}},
                             0x12345678u * unsigned(i), 99);
    for (int k = 0; k < 4; ++k) to[4 * i + k] = r.x[k];
}

template <class T>
__global__ void round_kernel(T* to, const float* x, const unsigned* r, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) to[i] = stochastic<T>(x[i], r[i]);
}

// The bits of the array form: element e of seed and step.
__global__ void bits_kernel(unsigned* to, std::uint64_t first, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const std::uint64_t e = first + std::uint64_t(i);
    to[i] = upper_half(rounding_counter(e / 128 * 16 + e % 16, 0xABCDEF0123456789u, 5),
                       int(e / 16 % 8));
}

} // namespace

TEST_CASE("philox: the words of base/philox.hpp") {
    const int n = 257;
    array<unsigned> to(4 * n);
    mpt::launch<draw_kernel>({3, 96, 0, stream()}, to.data(), n);
    std::vector<unsigned> wanted;
    for (unsigned i = 0; i < unsigned(n); ++i) {
        const auto four = mpt::philox({{i, 0xFFFFFFFFu - i, 7, i * 77u}}, 0x12345678u * i, 99);
        wanted.insert(wanted.end(), four.x, four.x + 4);
    }
    CHECK(difference(to.read(), wanted) == "");
}

TEST_CASE("the random bits of an element are those of numeric/stochastic.hpp") {
    for (const std::uint64_t first : {0ULL, 1000ULL, (1ULL << 40) - 5}) {
        const int n = 300;
        array<unsigned> to(n);
        mpt::launch<bits_kernel>({4, 96, 0, stream()}, to.data(), first, n);
        std::vector<unsigned> wanted;
        const mpt::stochastic_stream random{0xABCDEF0123456789u, 5};
        for (unsigned i = 0; i < unsigned(n); ++i) wanted.push_back(random.bits(first + i));
        CHECK(difference(to.read(), wanted) == "");
    }
}

TEST_CASE_TEMPLATE("stochastic rounding: the bits of the plain function, for every exponent", T,
                   __half, __nv_bfloat16) {
    using H = host_t<T>;
    std::vector<float> x;
    std::vector<unsigned> r;
    for (unsigned top = 0; top < 0x200; ++top)
        for (unsigned i = 0; i < 40; ++i) {
            const mpt::philox4 four = mpt::philox({{i, top, 0, 0}}, 1, 2);
            const auto& w = four.x;
            const unsigned low = i < 4 ? i : i < 8 ? 0x7FFFFF - (i - 4) : w[0] >> 9;
            x.push_back(mpt::float_of(top << 23 | low));
            r.push_back(i % 5 == 0 ? 0xFFFFFFFFu : i % 5 == 1 ? 0 : w[1]);
        }
    const int n = int(x.size());
    const array<float> from(x);
    const array<unsigned> random(r);
    array<T> to(x.size());
    mpt::launch<round_kernel<T>>({unsigned(n + 127) / 128, 128, 0, stream()}, to.data(),
                                 static_cast<const float*>(from.data()),
                                 static_cast<const unsigned*>(random.data()), n);
    const auto found = to.read();
    std::size_t differ = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const H wanted = mpt::stochastic<H>(x[i], r[i]);
        const bool both_nan = std::isnan(x[i]) && std::isnan(float(found[i]));
        if (!both_nan && wanted.bits != found[i].bits && differ++ == 0)
            FAIL_CHECK("x = ", as_text(x[i]), ", r = ", r[i], ": found ", found[i].bits,
                       ", expected ", wanted.bits);
    }
    CHECK(differ == 0);
}
