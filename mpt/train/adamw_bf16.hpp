// SPDX-License-Identifier: MIT
/// @file adamw_bf16.hpp
/// AdamW that remembers its moments in bf16, rounded stochastically.        tier 5, needs:
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp numeric/bf16.hpp numeric/cast.hpp
/// numeric/scalar.hpp numeric/stochastic.hpp train/adam_moments.hpp train/adamw.hpp
/// train/update_pass.hpp
///
/// Idea     bf16 has fp32's range, so moments need no scale; but only 8 bits, and a step changes v
///          by 1/1000 of itself at most where gradients are small: nearest undoes all of these.
///          Stochastic rounding lets one in a few change v by a whole bf16 step: right on average.
/// Formula  adamw.hpp's, with m = stochastic(m), v = stochastic(v) after the step; random bits by
///          (seed, t, element), other ones for m, v and weights
/// Costs    memory: 4 bytes a parameter.  traffic: 20 bytes = 2 * (4 + 2 + 2) + 4 (as adamw.hpp)
/// Breaks   nearest: with beta2 = .999 v never falls, for half a step of bf16 is 1/512 to 1/256
/// Source   Gupta et al. 2015, arXiv:1502.02551 (the rounding); Zamirai et al. 2021,
///          arXiv:2010.06192 (weights so rounded)
/// See      adam8bit.hpp (half as many bytes), tests/train/adamw_bf16_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"             // cpu
#include "mpt/nn/params.hpp"          // pieces, layout
#include "mpt/nn/strategy.hpp"        // owned_gradients
#include "mpt/numeric/bf16.hpp"       // bf16
#include "mpt/numeric/cast.hpp"       // cast
#include "mpt/numeric/scalar.hpp"     // wide_t
#include "mpt/numeric/stochastic.hpp" // cast_stochastic
#include "mpt/train/adam_moments.hpp" // update_moments, directions
#include "mpt/train/adamw.hpp"        // adamw_parts::move
#include "mpt/train/update_pass.hpp"  // for_chunks, store

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mpt {

/// m and v of optimizer_state stay empty.
template <class T>
struct bf16_moments : optimizer_state<T> {
    device_span<bf16> m_low, v_low; // packed (blocks.hpp); zero before the first step
    std::uint64_t moments_seed = 0; // the same on ranks that keep the same moments
};

struct adamw_bf16 {
    double beta1 = 0.9;         // how much m keeps of itself
    double beta2 = 0.999;       // how much v keeps of itself
    double eps = 1e-8;          // keeps a weight without gradient from moving by 0/0
    double weight_decay = 0.01; // for the tensors that decay
    long applied = 0;           // t: steps taken; skipped ones do not count

    int moments() const { return 2; } // numbers a weight: m and v

    /// One step; arguments, errors and bits as adamw::step.
    template <class T, class G>
    void step(const cpu& on, const layout& map, const bf16_moments<T>& own, const pieces<G>& grads,
              double factor, double lr) {
        static_assert(std::is_same_v<wide_t<T>, float>, "moments are rounded from fp32");
        check_step("adamw_bf16", map, static_cast<const optimizer_state<T>&>(own), grads, factor,
                   lr, 0);
        check_adam("adamw_bf16", *this);
        const std::size_t size = size_of(own.weights);
        check(own.m_low.size() == size && own.v_low.size() == size, "adamw_bf16: ", size,
              " weights, ", own.m_low.size(), " first and ", own.v_low.size(),
              " second moments in bf16; allocate ", size, " of each");
        ++applied;
        const auto numbers = numbers_of<float>(*this, factor, lr, applied);
        const float decay = float(lr * weight_decay);
        const std::uint32_t t = std::uint32_t(applied);
        for_chunks(on, map, static_cast<const optimizer_state<T>&>(own), grads,
                   [&](const chunk<T>& c) {
                       float m[chunk<T>::most], v[chunk<T>::most], direction[chunk<T>::most];
                       bf16* const m_low = own.m_low.data() + c.packed;
                       bf16* const v_low = own.v_low.data() + c.packed;
                       cast(m_low, m, c.n);
                       cast(v_low, v, c.n);
                       update_moments(m, v, c.g, c.n, numbers);
                       directions(direction, m, v, c.n, numbers); // before they are rounded
                       adamw_parts::move(c.p, direction, c.n, numbers.rate, c.decays ? decay : 0);
                       cast_stochastic(m, m_low, c.n, own.moments_seed ^ of_m, t, c.first);
                       cast_stochastic(v, v_low, c.n, own.moments_seed ^ of_v, t, c.first);
                       store(own, c, applied);
                   });
    }

    template <class T>
    void step(const cpu& on, const layout& map, const bf16_moments<T>& own,
              const owned_gradients<T>& grads, double factor, double lr) {
        grads.visit([&](const auto& parts) { step(on, map, own, parts, factor, lr); });
    }

private:
    static constexpr std::uint64_t of_m = 0x6D00000000000000, of_v = 0x7600000000000000; // 'm', 'v'
};

} // namespace mpt
