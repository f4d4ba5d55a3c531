// SPDX-License-Identifier: MIT
/// @file warp.hpp
/// What the 32 lanes of a warp say to each other.                          tier 2, needs:
/// simt/block.hpp simt/hooks.hpp
///
/// Idea     Each lane lays down a value and waits; the last one of the mask to come works out what
///          each gets. A lane that is not there (a partial last warp, not in the mask) gives all
///          bits set, NaN: CUDA leaves it undefined, here it shows.
///              __shfl_down_sync(m, v, 2)   lane i gets v of lane i + 2; past the end its own
///              __shfl_xor_sync(m, v, 1)    lanes exchange in pairs
///              __ballot_sync(m, yes)       bit i: what lane i said
/// Breaks   a mask that names a lane which does not come: block.hpp names it
/// Source   CUDA C++ Programming Guide, Warp Shuffle Functions (width, ends of segments)
/// See      block.hpp (meet), tests/simt/words_test.cpp
#pragma once
#include "mpt/simt/block.hpp" // block: meet, lane, active
#include "mpt/simt/hooks.hpp" // place

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mpt::simt {

inline constexpr unsigned all_lanes = 0xFFFFFFFF;

/// Lanes of the mask wait for each other, and see what the others have written.
MPT_SIMT_QUIET inline void __syncwarp(unsigned mask = all_lanes, place at = place::here()) {
    block::here().meet(mask, nullptr, [](void* const*, unsigned) {}, words::syncwarp, at);
}
/// Lanes that run together here.
MPT_SIMT_QUIET inline unsigned __activemask(place at = place::here()) {
    return block::here().active(at);
}

// ---- shuffles ----

struct shuffled { // what a lane brings and gets
    std::uint64_t gives, gets;
    unsigned from; // lane
};
MPT_SIMT_QUIET inline void shuffle_values(void* const* brought, unsigned lanes) {
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        auto& me = *static_cast<shuffled*>(brought[__builtin_ctz(rest)]);
        const bool there = lanes >> me.from & 1;
        me.gets = there ? static_cast<shuffled*>(brought[me.from])->gives : ~std::uint64_t(0);
    }
}
template <class T>
MPT_SIMT_QUIET T shuffle(unsigned mask, T value, unsigned from, const char* word, place at) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
    shuffled s{0, 0, from};
    std::memcpy(&s.gives, &value, sizeof(T));
    block::here().meet(mask, &s, shuffle_values, word, at);
    T result;
    std::memcpy(&result, &s.gets, sizeof(T));
    return result;
}

/// The value of lane `from` of each segment of `width` lanes (a power of two).
template <class T>
MPT_SIMT_QUIET T __shfl_sync(unsigned mask, T value, int from, int width = 32,
                             place at = place::here()) {
    const unsigned lane = block::here().lane(), in = unsigned(width) - 1;
    return shuffle(mask, value, (lane & ~in) | (unsigned(from) & in), "__shfl_sync", at);
}
/// Of lane - delta; the first lanes of a segment keep their own.
template <class T>
MPT_SIMT_QUIET T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                place at = place::here()) {
    const unsigned lane = block::here().lane(), in = unsigned(width) - 1;
    const unsigned from = (lane & in) >= delta ? lane - delta : lane;
    return shuffle(mask, value, from, "__shfl_up_sync", at);
}
/// Of lane + delta; the last lanes of a segment keep their own.
template <class T>
MPT_SIMT_QUIET T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                  place at = place::here()) {
    const unsigned lane = block::here().lane(), in = unsigned(width) - 1;
    const unsigned from = (lane & in) + delta <= in ? lane + delta : lane;
    return shuffle(mask, value, from, "__shfl_down_sync", at);
}
/// Of lane ^ bits; of a later segment: its own.
template <class T>
MPT_SIMT_QUIET T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                                 place at = place::here()) {
    const unsigned lane = block::here().lane(), in = unsigned(width) - 1;
    const unsigned other = (lane ^ unsigned(bits)) & 31;
    const unsigned from = other <= (lane | in) ? other : lane;
    return shuffle(mask, value, from, "__shfl_xor_sync", at);
}

// ---- votes ----

struct vote {
    std::uint64_t value;
    unsigned result;
};
/// Bit i: lane i of the mask said yes.
MPT_SIMT_QUIET inline unsigned ballot(unsigned mask, bool yes, const char* word, place at) {
    vote v{yes, 0};
    const meeting count = [](void* const* brought, unsigned lanes) {
        unsigned said = 0;
        for (unsigned rest = lanes; rest; rest &= rest - 1) {
            const auto lane = unsigned(__builtin_ctz(rest));
            said |= unsigned(static_cast<vote*>(brought[lane])->value) << lane;
        }
        for (unsigned rest = lanes; rest; rest &= rest - 1)
            static_cast<vote*>(brought[__builtin_ctz(rest)])->result = said;
    };
    block::here().meet(mask, &v, count, word, at);
    return v.result;
}
MPT_SIMT_QUIET inline unsigned __ballot_sync(unsigned mask, int yes, place at = place::here()) {
    return ballot(mask, yes != 0, "__ballot_sync", at);
}
MPT_SIMT_QUIET inline int __any_sync(unsigned mask, int yes, place at = place::here()) {
    return ballot(mask, yes != 0, "__any_sync", at) != 0;
}
MPT_SIMT_QUIET inline int __all_sync(unsigned mask, int yes, place at = place::here()) {
    return ballot(mask, yes == 0, "__all_sync", at) == 0;
}
/// The lanes that bring the same value.
template <class T>
MPT_SIMT_QUIET unsigned __match_any_sync(unsigned mask, T value, place at = place::here()) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
    vote v{0, 0};
    std::memcpy(&v.value, &value, sizeof(T));
    const meeting compare = [](void* const* brought, unsigned lanes) {
        for (unsigned a = lanes; a; a &= a - 1) {
            auto& me = *static_cast<vote*>(brought[__builtin_ctz(a)]);
            for (unsigned b = lanes; b; b &= b - 1) {
                const auto lane = unsigned(__builtin_ctz(b));
                if (static_cast<vote*>(brought[lane])->value == me.value) me.result |= 1u << lane;
            }
        }
    };
    block::here().meet(mask, &v, compare, "__match_any_sync", at);
    return v.result;
}

// ---- reductions: of int and unsigned, as CUDA has them ----

/// `combine` of the values of all lanes of the mask, for each of them.
template <class T, class Combine>
MPT_SIMT_QUIET T reduce(unsigned mask, T value, Combine, const char* word, place at) {
    static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
    const meeting all = [](void* const* brought, unsigned lanes) {
        T result = *static_cast<T*>(brought[__builtin_ctz(lanes)]);
        for (unsigned rest = lanes & (lanes - 1); rest; rest &= rest - 1)
            result = Combine()(result, *static_cast<T*>(brought[__builtin_ctz(rest)]));
        for (unsigned rest = lanes; rest; rest &= rest - 1)
            *static_cast<T*>(brought[__builtin_ctz(rest)]) = result;
    };
    block::here().meet(mask, &value, all, word, at);
    return value;
}
template <class T>
T __reduce_add_sync(unsigned mask, T value, place at = place::here()) {
    const auto add = [](T a, T b) { return T(unsigned(a) + unsigned(b)); }; // wraps
    return reduce(mask, value, add, "__reduce_add_sync", at);
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, place at = place::here()) {
    return reduce(mask, value, [](T a, T b) { return b < a ? b : a; }, "__reduce_min_sync", at);
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, place at = place::here()) {
    return reduce(mask, value, [](T a, T b) { return a < b ? b : a; }, "__reduce_max_sync", at);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, place at = place::here()) {
    const auto both = [](unsigned a, unsigned b) { return a & b; };
    return reduce(mask, value, both, "__reduce_and_sync", at);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, place at = place::here()) {
    const auto either = [](unsigned a, unsigned b) { return a | b; };
    return reduce(mask, value, either, "__reduce_or_sync", at);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, place at = place::here()) {
    const auto odd = [](unsigned a, unsigned b) { return a ^ b; };
    return reduce(mask, value, odd, "__reduce_xor_sync", at);
}

} // namespace mpt::simt
