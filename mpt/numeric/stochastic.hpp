// SPDX-License-Identifier: MIT
/// @file stochastic.hpp
/// Rounding up with the probability of the fraction: right on average.     tier 1, needs:
/// base/philox.hpp base/qualifiers.hpp numeric/rounding_modes.hpp numeric/scalar.hpp
///
/// Idea     A number 3/10 of the way from one bf16 to the next rounds up in 3 of 10 cases. A single
///          error may be a whole step, twice that of nearest; but their mean is 0. So updates far
///          below half a step, all lost to nearest, arrive as a sum of rare whole steps.
/// Formula  code.fraction + r / 2^32, cut off behind the point; r uniform in [0, 2^32).
///          P(up) = fraction, to 2^-32; E[result] = x; variance fraction (1 - fraction) step^2
/// Costs    array form: 10 rounds of Philox for 8 elements, 16 random bits each. P(up) is cut off
///          to a multiple of 2^-16, which is all of it from fp32 to bf16 or a normal fp16.
/// Breaks   adding r to a NaN: 7F800001 would become infinity; the same r in every step: no mean
/// Source   Gupta et al. 2015, Deep Learning with Limited Numerical Precision, arXiv:1502.02551
/// See      rounding_modes.hpp, philox.hpp, tests/numeric/stochastic_test.cpp
#pragma once
#include "mpt/base/philox.hpp"            // philox
#include "mpt/base/qualifiers.hpp"        // MPT_HOST_DEVICE, MPT_RESTRICT
#include "mpt/numeric/rounding_modes.hpp" // round_adding, overflowed
#include "mpt/numeric/scalar.hpp"         // T's formats

#include <cstddef>
#include <cstdint>

namespace mpt {

/// x rounded up in magnitude for a part `fraction` of all r. NaN and infinity as T's constructor
/// has them; what rounds past the largest number becomes what the constructor makes of that.
template <class T>
MPT_HOST_DEVICE constexpr T stochastic(float x, std::uint32_t r) {
    return round_adding<T>(x, r, overflowed<T>());
}

/// Where the random bits of an element lie: counters of Philox in blocks of 16, a block for 128
/// elements, so that 16 neighbours take the same bits of 16 counters (a vector of them).
struct stochastic_address {
    std::uint64_t seed;
    std::uint32_t step;

    /// Counter number `n`: 4 words, 8 halves.
    MPT_HOST_DEVICE constexpr philox4 draw(std::uint64_t n) const {
        constexpr std::uint32_t use = 0x5C0A; // sets these numbers apart from other uses
        return philox({{std::uint32_t(n), std::uint32_t(n >> 32), step, use}}, std::uint32_t(seed),
                      std::uint32_t(seed >> 32));
    }
};

/// Half k (0 to 7) of four words, as the upper 16 bits of r.
MPT_HOST_DEVICE constexpr std::uint32_t upper_half(std::uint32_t word, std::size_t k) {
    return k % 2 == 0 ? word << 16 : word & 0xFFFF0000u;
}

/// The r of one element: what cast_stochastic rounds it with.
MPT_HOST_DEVICE constexpr std::uint32_t stochastic_bits(std::uint64_t seed, std::uint32_t step,
                                                        std::uint64_t element) {
    const std::size_t k = std::size_t(element / 16 % 8);
    const philox4 four = stochastic_address{seed, step}.draw(element / 128 * 16 + element % 16);
    return upper_half(four.x[k / 2], k);
}

/// dst[i] = src[i] rounded stochastically, i < n. Element first + i of an array draws by (seed,
/// step, first + i): however an array is cut up among threads or ranks, it gets the same bits.
template <class T>
void cast_stochastic(const float* MPT_RESTRICT src, T* MPT_RESTRICT dst, std::size_t n,
                     std::uint64_t seed, std::uint32_t step, std::uint64_t first) {
    philox4 random[16];
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t e = first + i;
        const std::size_t lane = std::size_t(e % 16), k = std::size_t(e / 16 % 8);
        if (i == 0 || e % 128 == 0)
            for (std::size_t l = 0; l < 16; ++l)
                random[l] = stochastic_address{seed, step}.draw(e / 128 * 16 + l);
        dst[i] = stochastic<T>(src[i], upper_half(random[lane].x[k / 2], k));
    }
}

} // namespace mpt
