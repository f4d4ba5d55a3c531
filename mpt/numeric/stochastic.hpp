// SPDX-License-Identifier: MIT
/// @file stochastic.hpp
/// Rounding up with the probability of the fraction: right on average.     tier 1, needs:
/// base/philox.hpp base/qualifiers.hpp numeric/rounding_modes.hpp numeric/stochastic_lanes.hpp
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
#include "mpt/base/philox.hpp"              // philox
#include "mpt/base/qualifiers.hpp"          // MPT_HOST_DEVICE, MPT_RESTRICT
#include "mpt/numeric/rounding_modes.hpp"   // round_adding, overflowed
#include "mpt/numeric/stochastic_lanes.hpp" // draws, philox8, drawn

#include <cstddef>
#include <cstdint>

namespace mpt {

/// x rounded up in magnitude for a part `fraction` of all r. NaN and infinity as T's constructor
/// has them; what rounds past the largest number becomes what the constructor makes of an overflow.
template <class T>
MPT_HOST_DEVICE constexpr T stochastic(float x, std::uint32_t r) {
    return round_adding<T>(x, r, overflowed<T>());
}

/// Half k (0 to 7) of a counter's four words, as the upper 16 bits of r.
MPT_HOST_DEVICE constexpr std::uint32_t upper_half(philox4 four, std::size_t k) {
    return k % 2 == 0 ? four.x[k / 2] << 16 : four.x[k / 2] & 0xFFFF0000u;
}

/// Where the random bits of an array lie. Counters come in groups of 16, a group for 128 elements:
/// 16 neighbours take the same half of 16 counters, so that vectors need no transposing.
struct stochastic_stream {
    std::uint64_t seed;
    std::uint32_t step;
    static constexpr std::uint32_t use = 0x5C0A; // sets these numbers apart from other uses

    MPT_HOST_DEVICE constexpr philox4 counter(std::uint64_t n) const {
        return philox({{std::uint32_t(n), std::uint32_t(n >> 32), step, use}}, std::uint32_t(seed),
                      std::uint32_t(seed >> 32));
    }
    /// The r of one element.
    MPT_HOST_DEVICE constexpr std::uint32_t bits(std::uint64_t element) const {
        return upper_half(counter(element / 128 * 16 + element % 16), element / 16 % 8);
    }
};

namespace lanes {

/// Elements [first, first + n) one by one, all of the same block of 128.
template <class T>
void draw_each(const float* src, T* dst, std::size_t n, stochastic_stream random,
               std::uint64_t first) {
    if (n == 0) return;
    philox4 four[16];
    for (std::size_t l = 0; l < 16; ++l) four[l] = random.counter(first / 128 * 16 + l);
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t e = std::size_t((first + i) % 128), k = e / 16;
        dst[i] = stochastic<T>(src[i], upper_half(four[e % 16], k));
    }
}

/// A whole block of 128.
template <class T>
void draw_block(const float* src, T* dst, stochastic_stream random, std::uint64_t first) {
#if defined(__AVX2__)
    if constexpr (draws<T>) {
        const std::uint64_t n = first / 128 * 16;
        const words8 low = philox8(n, random.step, random.use, random.seed);
        const words8 high = philox8(n + 8, random.step, random.use, random.seed);
        for (std::size_t k = 0; k < 8; ++k, src += 16, dst += 16) {
            const floats x = load(src);
            if (any_nan(x)) {
                for (std::size_t l = 0; l < 16; ++l)
                    dst[l] = stochastic<T>(src[l], random.bits(first + 16 * k + l));
                continue;
            }
            const __m256i a = low.x[k / 2], b = high.x[k / 2], half = _mm256_set1_epi32(0xFFFF);
            const halves r = k % 2 == 0
                                 ? halves{_mm256_and_si256(a, half), _mm256_and_si256(b, half)}
                                 : halves{_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16)};
            store<false>(dst, drawn(x, r, T{}));
        }
        return;
    }
#endif
    draw_each(src, dst, 128, random, first);
}

} // namespace lanes

/// dst[i] = src[i] rounded stochastically, i < n. Element first + i of an array draws by (seed,
/// step, first + i): however an array is cut up among threads or ranks, it gets the same bits.
template <class T>
void cast_stochastic(const float* MPT_RESTRICT src, T* MPT_RESTRICT dst, std::size_t n,
                     std::uint64_t seed, std::uint32_t step, std::uint64_t first) {
    const stochastic_stream random{seed, step};
    const std::size_t to_block = std::size_t(-first % 128), head = n < to_block ? n : to_block;
    lanes::draw_each(src, dst, head, random, first);
    std::size_t i = head;
    for (; n - i >= 128; i += 128) lanes::draw_block(src + i, dst + i, random, first + i);
    lanes::draw_each(src + i, dst + i, n - i, random, first + i);
}

} // namespace mpt
