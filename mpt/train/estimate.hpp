// SPDX-License-Identifier: MIT
/// @file estimate.hpp
/// The bytes of a training run by kind and place, before it is started.    tier 5, needs:
/// base/amount.hpp base/ledger.hpp nn/model_size.hpp
///
/// Idea     What is kept for a parameter, times the parameters that a rank keeps it for: all P, or
///          its shard. ZeRO-1 shards what the optimizer keeps, 2 gradients too, 3 weights too.
/// Formula  16 bits, Adam, one micro-batch: 16 = 2 + 2 + 12 bytes a parameter; with N ranks
///          4 + 12/N, 2 + 14/N, 16/N. Several micro-batches: + 4 for fp32 sums, of the shard only
///          where each micro-batch is reduced (and stage > 0). Then activations, temp, data, and
///          what is whole for a while: model_size.hpp
/// Costs    memory: none
/// Breaks   a formula that leaves out the sums, or the master, is believed: hold it against the
///          ledger.  Bytes of communication libraries, of fragments and of the program: not here
/// Source   Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 3 and figure 1; Ren et al.
///          2021, ZeRO-Offload, arXiv:2101.06840; 8-bit Adam: Dettmers et al., arXiv:2110.02861
/// See      deepspeed_estimate.hpp, advise.hpp, chapters/11_estimate.cpp,
///          tests/train/estimate_test.cpp
#pragma once
#include "mpt/base/amount.hpp"   // amount, div_up
#include "mpt/base/ledger.hpp"   // kind, place
#include "mpt/nn/model_size.hpp" // model_size

#include <array>
#include <cstddef>

namespace mpt {

enum class optimizer_kind {
    adamw,    // 8 bytes: m and v in fp32. Adam and LAMB as well
    adam8,    // 2.03: m and v in a byte each, an fp32 scale for 256 of them; 8 for `wide` tensors
    adam16,   // 4: m and v in bf16
    momentum, // 4: SGD with momentum
    sgd       // 0
};

/// When the gradients of a window's micro-batches are reduced over the ranks.
enum class reduce_when {
    usual, // once in stages 0 and 1, every in 2 and 3
    once,  // summed on the rank, whole, and reduced at the window's end: fewest bytes sent
    every  // each one as it comes, so that a rank sums its shard only
};

/// Where the optimizer's states lie, and the gradients.
enum class offload_to {
    none, // on the device
    host, // both in host memory
    file  // gradients in host memory, states in a file; in stage 3 the weights' shard as well
};

struct training_plan {
    std::size_t weight = 2; // bytes of a weight, and of a gradient
    bool master = true;     // fp32 weights beside them
    optimizer_kind optimizer = optimizer_kind::adamw;
    int ranks = 1;
    int stage = 0; // of ZeRO; 0: plain data parallelism
    int micro_batches = 1;
    reduce_when reduce = reduce_when::usual;
    offload_to offload = offload_to::none;
    bool ahead = false; // one unit travels while another computes (dist/zero2.hpp, zero3.hpp)

    bool reduces_every() const {
        return reduce == reduce_when::every || (reduce == reduce_when::usual && stage >= 2);
    }
};

/// Bytes of one rank.
struct estimate {
    std::array<std::array<std::size_t, kinds>, places> bytes{};

    std::size_t& at(kind k, place p = place::device) {
        return bytes[std::size_t(p)][std::size_t(k)];
    }
    std::size_t at(kind k, place p = place::device) const {
        return bytes[std::size_t(p)][std::size_t(k)];
    }
    std::size_t total(place p = place::device) const {
        amount sum;
        for (const std::size_t b : bytes[std::size_t(p)]) sum = sum + b;
        return sum.n;
    }
};

/// m and v of all parameters, or of a shard, the N-th part of them.
inline amount moment_bytes(const model_size& m, optimizer_kind o, amount held, amount N) {
    switch (o) {
    case optimizer_kind::adamw:
        return held * 8;
    case optimizer_kind::adam8: {
        const std::size_t wide = div_up(m.wide, N).n;
        return amount(wide) * 8 + amount(held.n - wide) * 2 + div_up(m.blocks8, N) * 2 * 4;
    }
    case optimizer_kind::adam16:
    case optimizer_kind::momentum:
        return held * 4;
    default:
        return 0;
    }
}

/// Gradients, and weights where they are gathered, of units that are whole for a while.
inline std::size_t whole_at_a_time(const model_size& m, bool gathers, bool ahead, bool sums) {
    if (!ahead) return gathers ? m.in_flight : m.grads_in_flight;
    if (gathers) return sums ? m.coming.all : m.both.all;
    return sums ? m.grads_in_flight : m.going.grads;
}

/// Throws one line where the plan makes no sense.
inline estimate estimate_bytes(const model_size& m, const training_plan& p) {
    check(p.ranks >= 1, "estimate: ", p.ranks, " ranks; wanted 1 or more");
    check(p.stage >= 0 && p.stage <= 3, "estimate: ZeRO stage ", p.stage, "; choose 0 to 3");
    check(p.micro_batches >= 1, "estimate: ", p.micro_batches, " micro-batches; wanted 1 or more");
    const bool away = p.offload != offload_to::none, filed = p.offload == offload_to::file;
    const place optimizer = filed ? place::file : away ? place::host : place::device;
    const place grads = away ? place::host : place::device;

    const amount P = m.parameters(), shard = m.shard(p.ranks), s = p.weight;
    //! [estimate]
    const auto held = [&](int from) { return p.stage >= from ? shard : P; }; // sharded from stage
    estimate e;
    e.at(kind::weights, filed && p.stage == 3 ? place::file : place::device) = (held(3) * s).n;
    if (!away || p.micro_batches == 1) // else they are added to the sums as they arrive
        e.at(kind::grads, grads) = (held(2) * s).n;
    if (p.micro_batches > 1) e.at(kind::sums, grads) = ((p.reduces_every() ? held(1) : P) * 4).n;
    if (p.master)
        e.at(kind::master, optimizer) = (held(1) * 4).n;
    else if (away)
        e.at(kind::master, optimizer) = (held(1) * s).n; // it updates its own weights
    e.at(kind::moments, optimizer) =
        moment_bytes(m, p.optimizer, held(1), p.stage >= 1 ? p.ranks : 1).n;
    const bool gathers = p.stage == 3 && (p.ranks > 1 || filed); // one rank has its weights
    const bool reduces = away || (p.stage >= 2 && p.ranks > 1);
    const bool sums = p.micro_batches > 1 && !p.reduces_every(); // whole, and reduced instead
    if (sums && p.stage >= 2 && p.ranks > 1 && !away) e.at(kind::grads) = 0;
    if (gathers || reduces) e.at(kind::comm) = (s * whole_at_a_time(m, gathers, p.ahead, sums)).n;
    e.at(kind::activations) = m.activations;
    e.at(kind::temp) = m.temp;
    e.at(kind::data) = m.data;
    return e;
    //! [estimate]
}

} // namespace mpt
