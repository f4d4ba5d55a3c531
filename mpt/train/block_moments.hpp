// SPDX-License-Identifier: MIT
/// @file block_moments.hpp
/// Which moments are kept in 8 bits, and where each lies.                  tier 5, needs:
/// base/error.hpp nn/params.hpp numeric/dynamic_map.hpp train/update_pass.hpp
///
/// Idea     Large tensors keep m and v as codes of the dynamic maps, in blocks with an absmax each.
///          Small ones stay in fp32, they cost little; so do embeddings, whose rows see gradients
///          of very unlike sizes. A block is the part of one tensor that lies in one cell of 256 of
///          its unit: bitsandbytes' blocks where tensors begin at multiples of 256, else a shorter
///          one first. So shards that cut units at multiples of 256 keep the bits of the whole.
/// Formula  bytes = 2 codes + 8 blocks + 8 wide; 2.03125 a parameter in whole blocks of 256
/// Breaks   a block over two tensors: the larger gradients of one make zeros of the other's.
///          A shard's edge inside a cell: two absmax for one, and other bits than unsharded
/// Source   Dettmers et al. 2022, arXiv:2110.02861 (blocks; the stable embedding's 32-bit state);
///          4096 elements and blocks of 256 are bitsandbytes' (min_8bit_size, blocksize)
/// See      numeric/dynamic_map.hpp, adam8bit.hpp, tests/train/adam8bit_test.cpp
#pragma once
#include "mpt/base/error.hpp"          // check
#include "mpt/nn/params.hpp"           // layout, tensor_info, pieces
#include "mpt/numeric/dynamic_map.hpp" // signed_map, unsigned_map
#include "mpt/train/update_pass.hpp"   // optimizer_state, by_tensor

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpt {

inline constexpr std::size_t moment_block = 256;     // elements of a cell
inline constexpr std::size_t least_in_8_bits = 4096; // elements of a tensor

/// Does mpt keep this tensor's moments in 8 bits?
inline bool in_8_bits(const tensor_info& t) { return t.size >= least_in_8_bits && !t.looked_up; }

/// A task: elements [begin, end) of pieces[piece], all of one tensor, whole blocks of it.
struct moment_part {
    std::size_t piece, begin, end, tensor;
    bool low;          // in 8 bits
    std::size_t at;    // its first: of all codes, or of all moments in fp32
    std::size_t block; // its first, of all absmax
    std::size_t cell;  // elements of the first cell that lie before `begin`
};

/// Cells that elements [begin, end) of a unit touch; not for none.
inline std::size_t blocks_between(std::size_t begin, std::size_t end) {
    return (end - 1) / moment_block - begin / moment_block + 1;
}

struct moment_sizes {
    std::size_t codes = 0;  // elements in 8 bits: a byte of m and one of v
    std::size_t blocks = 0; // an fp32 absmax of m and one of v
    std::size_t wide = 0;   // elements in 32 bits: fp32 m and v

    std::size_t bytes() const { return 2 * codes + 8 * blocks + 8 * wide; }
};

/// What a rank owns, as tasks of at most `task` elements, a multiple of moment_block; and sizes.
template <class T>
std::vector<moment_part> moment_parts(const layout& map, const pieces<T>& owned, moment_sizes& sum,
                                      std::size_t task = 16384) {
    sum = {};
    std::vector<moment_part> parts;
    for (std::size_t p = 0; p < owned.size(); ++p) {
        const std::size_t start = owned[p].begin, n = owned[p].data.size();
        if (n == 0) continue;
        update_parts::by_tensor(
            map, start, start + n, [&](std::size_t from, std::size_t to, std::size_t tensor) {
                const bool low = in_8_bits(map.tensors[tensor]);
                const std::size_t unit = map.units[std::size_t(map.tensors[tensor].unit)].begin;
                for (std::size_t i = from, end; i < to; i = end) {
                    const std::size_t in_unit = i - unit;
                    end = std::min(to, unit + (in_unit / task + 1) * task);
                    std::size_t& at = low ? sum.codes : sum.wide;
                    parts.push_back({p, i - start, end - start, tensor, low, at, sum.blocks,
                                     in_unit % moment_block});
                    at += end - i;
                    if (low) sum.blocks += blocks_between(in_unit, end - unit);
                }
            });
    }
    return parts;
}

template <class T>
moment_sizes sizes_of_moments(const layout& map, const pieces<T>& owned) {
    moment_sizes sum;
    moment_parts(map, owned, sum);
    return sum;
}

/// Moments in blocks. m and v of optimizer_state hold those in 32 bits, packed.
template <class T>
struct block_moments : optimizer_state<T> {
    device_span<std::uint8_t> m_codes, v_codes; // of signed_map, of unsigned_map; packed
    device_span<float> m_absmax, v_absmax;      // a block each

    /// What they are before the first step.
    void begin() const {
        std::fill_n(m_codes.data(), m_codes.size(), std::uint8_t(signed_map.zero));
        std::fill_n(v_codes.data(), v_codes.size(), std::uint8_t(unsigned_map.zero));
        const device_span<float> zeros[] = {m_absmax, v_absmax, this->m, this->v};
        for (const device_span<float>& x : zeros) std::fill_n(x.data(), x.size(), 0.0f);
    }
    void check_sizes(const char* who, const moment_sizes& s) const {
        const auto room = [&](const char* what, std::size_t m, std::size_t v, std::size_t wanted) {
            check(m == wanted && v == wanted, who, ": ", what, " of m and v: ", m, " and ", v,
                  "; allocate ", wanted, " each (sizes_of_moments)");
        };
        room("8-bit codes", m_codes.size(), v_codes.size(), s.codes);
        room("blocks", m_absmax.size(), v_absmax.size(), s.blocks);
        room("32-bit moments", this->m.size(), this->v.size(), s.wide);
    }
};

} // namespace mpt
