// SPDX-License-Identifier: MIT
// mlp_run.hpp -- what surrounds the step of a chapter's MLP: the model and all that training it
// reads and writes, in one ledger.
#pragma once
#include "machine.hpp"   // machine: what computes; alone: a strategy that shares with nobody
#include "next_byte.hpp" // next_byte: the data

#include "mpt/base/memory.hpp"          // memory, buffer
#include "mpt/nn/loops.hpp"             // loops: the operations
#include "mpt/nn/mlp.hpp"               // mlp: forward, backward
#include "mpt/train/adamw.hpp"          // adamw_state
#include "mpt/train/master_weights.hpp" // master_of, cast

#include <cstdint>
#include <vector>

//! [run]
template <class T, class Ops = mpt::loops> // T: of weights, gradients and activations
struct mlp_run : machine<Ops> {
    using machine<Ops>::mem;
    using wide = mpt::wide_t<T>; // of the optimizer: fp32

    // copy: temp where the fp32 copy of 16-bit weights lasts for a step only, as in chapter 3.
    mlp_run(int rows, int threads, std::uint64_t seed, mpt::kind copy = mpt::kind::master)
        : machine<Ops>(threads), ops(this->template for_layers<T>(widths(), rows)),
          model(widths(), ops), strategy(ops, model.map), P(model.map.size()),
          weights_(mem, mpt::kind::weights, P, "weights"),
          grads_(mem, mpt::kind::grads, P, "gradients"),
          master_(mem, copy, mpt::master_size<T>(P), "fp32 copy of the weights"),
          m_(mem, mpt::kind::moments, P, "Adam's m"), v_(mem, mpt::kind::moments, P, "Adam's v"),
          targets_(mem, mpt::kind::data, std::size_t(rows), "next bytes"),
          acts(mem, model.widths, rows), targets(targets_.span()),
          weights(weights_.span()), grads{grads_.span(), {}} {
        const mpt::pieces<T> mine = strategy.mine(weights); // alone: all of them
        owned = {mpt::master_of(master_.span(), mine), m_.span(), v_.span(), mine};
        for (const mpt::piece<wide>& p : owned.master) { // the first weights, in fp32 ...
            std::vector<float> first(p.data.size());
            mpt::initial_values(model.map, seed, p.begin, first);
            ops.copy_to_device(p.data, std::vector<wide>(first.begin(), first.end()));
        }
        if constexpr (!mpt::own_master<T>) mpt::cast(ops, owned.master, owned.weights); // ... in T
        ops.fill(owned.m, 0);
        ops.fill(owned.v, 0);
    }

    static std::vector<int> widths() { return {next_byte::features, 256, next_byte::classes}; }

    Ops ops;
    mpt::mlp<T, Ops> model;
    alone<T, Ops> strategy;
    const std::size_t P; // parameters

private:
    mpt::buffer<T> weights_, grads_;
    mpt::buffer<wide> master_, m_, v_; // no master where T is fp32: fp32 weights are their own
    mpt::buffer<int> targets_;

public:
    mpt::mlp_acts<T> acts;         // acts.x[0]: the features (rows,64)
    mpt::device_span<int> targets; // (rows)
    mpt::device_span<T> weights;   // (P)
    mpt::gradients<T> grads;
    mpt::adamw_state<T> owned; // what the optimizer reads and updates
    //! [run]

    // The mean loss of 16 parts of the held-out text.
    double held_out_loss(next_byte& data) {
        constexpr int parts = 16;
        double sum = 0;
        for (int part = 0; part < parts; ++part) {
            data.held_out(ops, part, parts, acts.x[0].span(), targets);
            sum += model.forward(strategy, weights, targets, acts);
        }
        return sum / (double(acts.rows) * parts);
    }
};

// The elements of a device's span, on the host.
template <class Ops, class T>
std::vector<std::remove_const_t<T>> on_host(const Ops& ops, mpt::device_span<T> from) {
    std::vector<std::remove_const_t<T>> to(from.size());
    ops.copy_to_host(to, from);
    return to;
}

// How many elements of two arrays differ.
template <class T>
std::size_t differing(const std::vector<T>& a, const std::vector<T>& b) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < a.size(); ++i) n += mpt::widen(a[i]) != mpt::widen(b[i]);
    return n;
}
