// SPDX-License-Identifier: MIT
#include "mpt/kernels/cast.cuh"
#include "mpt/numeric/cast.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace rig;

namespace {

// All NaN are one: whose payload survives is the device's own affair.
template <class T>
std::vector<T> one_nan(std::vector<T> v) {
    for (T& x : v)
        if (std::isnan(double(mpt::widen(x)))) std::memset(&x, 0xFF, sizeof x);
    return v;
}

template <class T>
T from_code(std::uint32_t code) {
    T x;
    std::memcpy(&x, &code, sizeof x); // the low bytes
    return x;
}

// Every exponent, and in each the mantissas around every tie of 7 and of 10 bits; both signs.
// fp16 and bf16: all codes there are.
template <class T>
std::vector<T> tricky() {
    std::vector<T> v;
    if constexpr (sizeof(T) == 2) {
        for (std::uint32_t c = 0; c < 0x10000; ++c) v.push_back(from_code<T>(c));
    } else {
        for (std::uint32_t top = 0; top < 0x200; ++top)
            for (std::uint32_t i = 0; i < 24; ++i)
                for (const std::uint32_t near : {0xFFFFFFFFu, 0u, 1u})
                    v.push_back(from_code<T>(top << 23 | (((1u << i) + near) & 0x7FFFFF)));
        for (std::uint32_t i = 0; i < 0x8000; ++i) // random codes, and random ones near a tie
            for (const std::uint32_t mask : {0xFFFFFFFFu, 0xFFFF8000u, 0xFFFFF000u})
                v.push_back(from_code<T>(mpt::philox({{i, 1, 2, 3}}, 4, 5).x[0] & mask));
    }
    return v;
}

template <class To, class From>
void all_pairs_of() {
    using H = host_t<From>;
    using D = host_t<To>;
    const std::vector<H> x = tricky<H>();
    std::vector<D> wanted(x.size());
    mpt::cast(x.data(), wanted.data(), x.size());
    const array<From> from(x);
    array<To> to(x.size());
    cast<To, From>(to, from, x.size(), stream());
    CHECK(difference(one_nan(to.read()), one_nan(wanted)) == "");
    // odd sizes and addresses
    for (const std::size_t n : {0, 1, 31, 33, 257, 1600, 1601})
        for (const std::size_t offset : {1, 2, 4}) {
            const auto few = checks::numbers<H>(n, 3, 100);
            const array<From> source(few, offset == 2 ? 0 : offset);
            array<To> place(n, offset == 1 ? 0 : offset);
            cast<To, From>(place, source, n, stream());
            std::vector<D> expected(n);
            mpt::cast(few.data(), expected.data(), n);
            CHECK(difference(place.read(), expected) == "");
        }
}

} // namespace

TEST_CASE_TEMPLATE("the bits of the plain loop, from and to each format", T, float, __half,
                   __nv_bfloat16) {
    all_pairs_of<T, float>();
    all_pairs_of<T, __half>();
    all_pairs_of<T, __nv_bfloat16>();
}

TEST_CASE("the comparison would see one code that is off by one") { // sabotage
    std::vector<mpt::bf16> wanted = checks::numbers<mpt::bf16>(1601, 3), found = wanted;
    found[1600] = mpt::bf16::from_bits(std::uint16_t(found[1600].bits + 1));
    CHECK(difference(found, wanted).find("element 1600 of 1601") == 0);
}
