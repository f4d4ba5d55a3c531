// SPDX-License-Identifier: MIT
// kept_moments.hpp -- what an optimizer keeps of the gradients between steps, in any of its forms.
#pragma once
#include "mpt/base/memory.hpp"         // memory, buffer
#include "mpt/train/adam8bit.hpp"      // adam8bit: step
#include "mpt/train/adamw_bf16.hpp"    // adamw_bf16: step
#include "mpt/train/block_moments.hpp" // block_moments, sizes_of_moments
#include "mpt/train/estimate.hpp"      // optimizer_kind
#include "mpt/train/lamb.hpp"          // lamb: step
#include "mpt/train/update_pass.hpp"   // optimizer_state

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

struct kept_moments {
    /// Of the parameters that a rank owns; of the pieces only the sizes count. seed: of the bits
    /// that round moments in bf16.
    kept_moments(mpt::memory& mem, const mpt::layout& map, mpt::optimizer_kind kind,
                 std::uint64_t seed, const mpt::pieces<float>& owned)
        : kept_moments(mem, kind, mpt::size_of(owned), seed, sizes(map, kind, owned),
                       sizes(map, kind, all_of(map)).codes > 0) {}
    /// Of all parameters, on one rank.
    kept_moments(mpt::memory& mem, const mpt::layout& map, mpt::optimizer_kind kind,
                 std::uint64_t seed)
        : kept_moments(mem, map, kind, seed, all_of(map)) {}

    static mpt::moment_sizes sizes(const mpt::layout& map, mpt::optimizer_kind kind,
                                   const mpt::pieces<float>& owned) {
        return kind == mpt::optimizer_kind::adam8 ? mpt::sizes_of_moments(map, owned)
                                                  : mpt::moment_sizes{};
    }

    /// Before the first step. Ops: the operations, for the filling.
    template <class Ops>
    void begin(const Ops& ops) {
        ops.fill(m_codes.span(), std::uint8_t(mpt::signed_map.zero));
        ops.fill(v_codes.span(), std::uint8_t(mpt::unsigned_map.zero));
        for (mpt::buffer<float>* x : {&m, &v, &m_absmax, &v_absmax}) ops.fill(x->span(), 0.0f);
        for (mpt::buffer<mpt::bf16>* x : {&m_low, &v_low}) ops.fill(x->span(), mpt::bf16());
    }

    /// One step of `rule` on weights and master of `own`. add: as strategy::add_shards, for a rule
    /// with sums of its own.
    template <class Rule, class T, class G, class Add>
    void step(Rule& rule, const mpt::cpu& on, const mpt::layout& map,
              const mpt::optimizer_state<T>& own, const G& grads, double factor, double lr,
              Add add) {
        if constexpr (std::is_same_v<Rule, mpt::adam8bit>) {
            mpt::block_moments<T> state{own, {}, {}, {}, {}};
            fill(state);
            rule.step(on, map, state, grads, factor, lr);
        } else if constexpr (std::is_same_v<Rule, mpt::adamw_bf16>) {
            rule.step(on, map, mpt::bf16_moments<T>{own, m_low.span(), v_low.span(), seed}, grads,
                      factor, lr);
        } else {
            mpt::optimizer_state<T> state = own;
            state.m = m.span(), state.v = v.span();
            if constexpr (std::is_same_v<Rule, mpt::lamb>)
                rule.step(on, map, state, grads, factor, lr, add);
            else
                rule.step(on, map, state, grads, factor, lr);
        }
    }
    /// ... on one rank.
    template <class Rule, class T, class G>
    void step(Rule& rule, const mpt::cpu& on, const mpt::layout& map,
              const mpt::optimizer_state<T>& own, const G& grads, double factor, double lr) {
        step(rule, on, map, own, grads, factor, lr, [](std::span<double>) {});
    }

    /// One step by the device's own numbers: AdamW, with moments in 32 or in 8 bits.
    template <class Step, class T, class G>
    void on_device(Step& step, const mpt::layout& map, const mpt::optimizer_state<T>& own,
                   const G& grads) {
        if (m_codes.size() > 0) {
            mpt::block_moments<T> state{own, {}, {}, {}, {}};
            fill(state);
            return step.adam8bit(map, state, grads);
        }
        mpt::optimizer_state<T> state = own;
        state.m = m.span(), state.v = v.span();
        step.adamw(map, state, grads);
    }

    /// How many entries a buffer has for some parameters: one each, or this of their moment_sizes.
    using entries = std::size_t mpt::moment_sizes::*;

    /// f(name, buffer, entries). A name that ends in a point stands before those of the tensors,
    /// which lie in the buffer as in the layout; else the buffer is one tensor of its own.
    template <class F>
    void each(F f) {
        using s = mpt::moment_sizes;
        if (in_blocks) {
            f("m_in_32_bits", m.span(), &s::wide);
            f("v_in_32_bits", v.span(), &s::wide);
            f("m_codes", m_codes.span(), &s::codes);
            f("v_codes", v_codes.span(), &s::codes);
            f("m_absmax", m_absmax.span(), &s::blocks);
            f("v_absmax", v_absmax.span(), &s::blocks);
        } else if (kind == mpt::optimizer_kind::adam16) {
            f("m.", m_low.span(), entries());
            f("v.", v_low.span(), entries());
        } else if (kind != mpt::optimizer_kind::sgd) {
            f("m.", m.span(), entries());
            if (kind != mpt::optimizer_kind::momentum) f("v.", v.span(), entries());
        }
    }

    /// In fp32, of a parameter, where it keeps no others.
    int numbers() const {
        return kind == mpt::optimizer_kind::adamw      ? 2
               : kind == mpt::optimizer_kind::momentum ? 1
                                                       : 0;
    }

    mpt::optimizer_kind kind;
    bool in_blocks;                             // some, on this rank or another, are in 8 bits
    mpt::buffer<float> m, v;                    // in 32 bits
    mpt::buffer<std::uint8_t> m_codes, v_codes; // in 8
    mpt::buffer<float> m_absmax, v_absmax;
    mpt::buffer<mpt::bf16> m_low, v_low; // in 16
    std::uint64_t seed;

private:
    static mpt::pieces<float> all_of(const mpt::layout& map) {
        return {{{nullptr, map.size()}, 0}};
    }

    kept_moments(mpt::memory& mem, mpt::optimizer_kind kind, std::size_t P, std::uint64_t seed,
                 const mpt::moment_sizes& s, bool in_blocks)
        : kind(kind), in_blocks(in_blocks),
          m(mem, mpt::kind::moments, wide(kind, P, s, false), "first moments"),
          v(mem, mpt::kind::moments, wide(kind, P, s, true), "second moments"),
          m_codes(mem, mpt::kind::moments, s.codes, "codes of first moments"),
          v_codes(mem, mpt::kind::moments, s.codes, "codes of second moments"),
          m_absmax(mem, mpt::kind::moments, s.blocks, "absmax of first moments"),
          v_absmax(mem, mpt::kind::moments, s.blocks, "absmax of second moments"),
          m_low(mem, mpt::kind::moments, kind == mpt::optimizer_kind::adam16 ? P : 0, "bf16 m"),
          v_low(mem, mpt::kind::moments, kind == mpt::optimizer_kind::adam16 ? P : 0, "bf16 v"),
          seed(seed) {}

    static std::size_t wide(mpt::optimizer_kind kind, std::size_t P, const mpt::moment_sizes& s,
                            bool second) {
        if (kind == mpt::optimizer_kind::adamw) return P;
        if (kind == mpt::optimizer_kind::adam8) return s.wide;
        return kind == mpt::optimizer_kind::momentum && !second ? P : 0;
    }
    template <class T>
    void fill(mpt::block_moments<T>& s) {
        s.m = m.span(), s.v = v.span();
        s.m_codes = m_codes.span(), s.v_codes = v_codes.span();
        s.m_absmax = m_absmax.span(), s.v_absmax = v_absmax.span();
    }
};
