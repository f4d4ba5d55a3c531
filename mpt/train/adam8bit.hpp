// SPDX-License-Identifier: MIT
/// @file adam8bit.hpp
/// AdamW that remembers its moments in 8 bits.                             tier 5, needs:
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp numeric/dynamic_map.hpp numeric/scalar.hpp
/// train/adam_moments.hpp train/adamw.hpp train/block_moments.hpp train/update_pass.hpp
///
/// Idea     A block of 256 at a time: its moments are looked up, become fp32, take in the gradient
///          and move the weights as in adamw.hpp; then they are rounded to codes again. fp32
///          moments live for one block, never as an array.
/// Formula  adamw.hpp's, with m = round(m), v = round(v) after the step; m keeps its sign
/// Costs    memory: 2.03125 bytes a parameter in whole blocks (8 where moments stay in 32 bits).
///          traffic: 16 bytes a parameter = 2 * 4 (p) + 2 * 2.03 (m, v) + 4 (as adamw.hpp)
/// Breaks   m by the unsigned map: never below 0.  A gradient below 4e-4 of the largest in its
///          block: its v becomes 0, and once it stops the step is m / eps, without bound
/// Source   Dettmers et al. 2022, arXiv:2110.02861, section 2; bitsandbytes zeroes the moments of
///          a gradient that is not finite, mpt skips the step before it comes here
/// See      block_moments.hpp (which, where), tests/train/adam8bit_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"              // cpu
#include "mpt/nn/params.hpp"           // pieces, layout
#include "mpt/nn/strategy.hpp"         // owned_gradients
#include "mpt/numeric/dynamic_map.hpp" // quantize_block, dequantize_block
#include "mpt/numeric/scalar.hpp"      // wide_t
#include "mpt/train/adam_moments.hpp"  // update_moments, directions
#include "mpt/train/adamw.hpp"         // adamw_parts::move
#include "mpt/train/block_moments.hpp" // block_moments, moment_parts
#include "mpt/train/update_pass.hpp"   // check_step, store

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace mpt {

struct adam8bit {
    double beta1 = 0.9;         // how much m keeps of itself
    double beta2 = 0.999;       // how much v keeps of itself
    double eps = 1e-8;          // keeps a weight without gradient from moving by 0/0
    double weight_decay = 0.01; // for the tensors that decay
    long applied = 0;           // t: steps taken; skipped ones do not count

    int moments() const { return 2; } // numbers a weight: m and v

    /// One step; arguments, errors and bits as adamw::step, on moments that begin() has set. A
    /// gradient of 2e19 or more has a square that is infinite: it throws then, with a part done.
    template <class T, class G>
    void step(const cpu& on, const layout& map, const block_moments<T>& own, const pieces<G>& grads,
              double factor, double lr) {
        static_assert(std::is_same_v<wide_t<T>, float>, "8-bit moments are rounded from fp32");
        optimizer_state<T> rest = own;
        rest.m = rest.v = {};
        check_step("adam8bit", map, rest, grads, factor, lr, 0);
        check_adam("adam8bit", *this);
        moment_sizes sizes;
        const std::vector<moment_part> parts = moment_parts(map, own.weights, sizes);
        own.check_sizes("adam8bit", sizes);
        ++applied;
        const auto numbers = numbers_of<float>(*this, factor, lr, applied);
        const float decay = float(lr * weight_decay);
        on.pool.for_each(parts.size(), [&](std::size_t task, int) {
            const moment_part& x = parts[task];
            std::size_t at = x.at, block = x.block, room = moment_block - x.cell;
            for (std::size_t i = x.begin, n; i < x.end; i += n, at += n, ++block) {
                n = std::min(x.end - i, std::exchange(room, moment_block));
                one_block(own, x, i, n, at, block, grads[x.piece].data.data() + i, numbers,
                          map.tensors[x.tensor].decays ? decay : 0.0f);
            }
        });
    }

    template <class T>
    void step(const cpu& on, const layout& map, const block_moments<T>& own,
              const owned_gradients<T>& grads, double factor, double lr) {
        grads.visit([&](const auto& parts) { step(on, map, own, parts, factor, lr); });
    }

private:
    template <class T, class G>
    void one_block(const block_moments<T>& own, const moment_part& x, std::size_t i, std::size_t n,
                   std::size_t at, std::size_t block, const G* g,
                   const adam_numbers<float>& numbers, float decay) const {
        float m_room[moment_block], v_room[moment_block], direction[moment_block];
        float wide[moment_block], copy[moment_block];
        wide[0] = 0; // g++ warns of an n of 0
        T* const weights = own.weights[x.piece].data.data() + i;
        float* p = copy;
        if (own.master.empty())
            cast(weights, copy, n);
        else
            update_parts::prefetch<1>(p = own.master[x.piece].data.data() + i, n);
        update_parts::prefetch<0>(g, n);
        update_parts::prefetch<1>(weights, n);

        float* const m = x.low ? m_room : own.m.data() + at;
        float* const v = x.low ? v_room : own.v.data() + at;
        if (x.low) {
            dequantize_block(signed_map, own.m_codes.data() + at, own.m_absmax.data()[block], m, n);
            dequantize_block(unsigned_map, own.v_codes.data() + at, own.v_absmax.data()[block], v,
                             n);
        }
        update_moments(m, v, update_parts::in_wide(g, n, wide), n, numbers);
        directions(direction, m, v, n, numbers); // of the moments before they are rounded
        adamw_parts::move(p, direction, n, numbers.rate, decay);
        if (x.low) {
            own.m_absmax.data()[block] = quantize_block(signed_map, m, own.m_codes.data() + at, n);
            own.v_absmax.data()[block] =
                quantize_block(unsigned_map, v, own.v_codes.data() + at, n);
        }
        store<T>(own,
                 {p, nullptr, nullptr, nullptr, weights, n, own.weights[x.piece].begin + i, at,
                  x.tensor, 0, decay != 0},
                 applied);
    }
};

} // namespace mpt
