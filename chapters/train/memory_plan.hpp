// SPDX-License-Identifier: MIT
// memory_plan.hpp -- the bytes that a run will hold, by formula, to stand beside the ledger's.
#pragma once
#include "mpt/base/ledger.hpp"         // kind, to_string
#include "mpt/dist/strategy_sizes.hpp" // strategy_sizes, partition
#include "mpt/nn/checkpointing.hpp"    // checkpointing: rooms, segments_again
#include "mpt/nn/gpt_layout.hpp"       // gpt_config
#include "mpt/nn/model_size.hpp"       // size_of_gpt, units_in_flight
#include "mpt/train/block_moments.hpp" // moment_sizes
#include "mpt/train/estimate.hpp"      // estimate_bytes

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

struct memory_plan {
    mpt::estimate bytes;                       // by kind and place
    std::array<std::string, mpt::kinds> why{}; // of those on the device

    std::size_t total(mpt::place p = mpt::place::device) const { return bytes.total(p); }
};

/// What a parameter costs besides its gradient.
struct parameter_cost {
    std::size_t size; // bytes of a weight
    bool master;      // fp32 beside it
    mpt::optimizer_kind optimizer;
};

inline std::string why_moments(const mpt::model_size& m, mpt::optimizer_kind kind) {
    switch (kind) {
    case mpt::optimizer_kind::adamw:
        return "8 a parameter: Adam's m and v in fp32";
    case mpt::optimizer_kind::adam8:
        return "2 a parameter, 8 a block of 256 (" + std::to_string(m.blocks8) +
               "); 8 a parameter of embeddings and small tensors (" + std::to_string(m.wide) + ")";
    case mpt::optimizer_kind::adam16:
        return "4 a parameter: Adam's m and v in bf16";
    default:
        return "4 a parameter: the momentum in fp32";
    }
}

/// What the machine needs beside the model, and its name.
struct machine_bytes {
    std::string name;        // for the report
    std::size_t scratch = 0; // of all its operations
    std::size_t tokens = 0;  // on their way to it, beside the batch: here and on the host
    std::size_t rows = 0;    // on the host: what it tells of the steps
};

/// The estimate of a run on one rank, and why in words.
inline memory_plan plan_memory(const mpt::gpt_config& c, const mpt::checkpointing& acts,
                               const parameter_cost& each, int micro_batches, int batch,
                               const machine_bytes& machine) {
    mpt::model_size size = mpt::size_of_gpt(c, acts, batch, c.context, each.size);
    size.temp += machine.scratch;
    mpt::training_plan plan;
    plan.weight = each.size, plan.master = each.master, plan.micro_batches = micro_batches;
    plan.optimizer = each.optimizer;
    memory_plan p{mpt::estimate_bytes(size, plan), {}};
    p.bytes.at(mpt::kind::data) += machine.tokens;
    p.bytes.at(mpt::kind::data, mpt::place::host) += machine.tokens;
    p.bytes.at(mpt::kind::temp, mpt::place::host) += machine.rows;

    const auto why = [&](mpt::kind k) -> std::string& { return p.why[std::size_t(k)]; };
    const int R = acts.segments_again();
    const std::string s = std::to_string(each.size), rooms = R ? std::to_string(acts.rooms()) : "L";
    why(mpt::kind::weights) = why(mpt::kind::grads) = s + " a parameter";
    why(mpt::kind::sums) = "4 a parameter: gradients summed in fp32";
    why(mpt::kind::master) = "4 a parameter: fp32 master weights";
    why(mpt::kind::moments) = why_moments(size, each.optimizer);
    const std::string stream = c.layer_norm ? "2C" : "C", statistics = c.layer_norm ? "4 + " : "";
    const std::string block = std::to_string(11 + 2 * c.norms() + 2 * c.scales()) + "C";
    why(mpt::kind::activations) =
        "tokens x (" + s + " (" + stream + " + V + " + rooms + " (" + block + " + Q)" +
        (R ? " + " + std::to_string(R) + " C" : "") + ") + 4 (" + (c.layer_norm ? "4" : "2") +
        " + " + rooms + " (" + statistics + "heads)))" +
        (R ? ", " + std::to_string(acts.blocks_again()) + " blocks run again" : "");
    why(mpt::kind::temp) =
        "tokens x " + s + " x 6C, and " + std::to_string(machine.scratch) + " of scratch";
    why(mpt::kind::data) =
        std::string("2 x 4 a token of the batch") + (machine.tokens ? ", and of two windows" : "");
    return p;
}

/// What a rank holds of a model that several share, and of which stage.
struct rank_share {
    int stage = 0, ranks = 1;
    mpt::strategy_sizes n;      // elements, padded where they travel
    mpt::moment_sizes low;      // of what it owns, where moments are in 8 bits
    std::size_t in_flight = 0;  // elements of units that are whole for a while, at most
    std::size_t parameters = 0; // of the whole model
};

/// ... of them in stages 2 and 3, padded. every: each micro-batch is reduced, a block's gradients
/// while the next are computed. ahead: the next block's weights are gathered meanwhile; not in the
/// first micro-batch, nor after a validation. away: weights are elsewhere than on the device.
inline std::size_t whole_units(int stage, const mpt::partition& cut, const mpt::checkpointing& acts,
                               bool every, bool ahead, bool away = false) {
    if (stage < 2 || (cut.ranks() == 1 && !away)) return 0;
    const auto whole = [&](int unit) { return std::size_t(cut.ranks()) * cut.shard(unit); };
    const mpt::flight f = mpt::units_in_flight(acts, whole(0), whole(1), ahead, every);
    return stage == 2 ? f.grads : f.all;
}

/// The plan of one rank becomes that of this one.
inline void share_out(memory_plan& p, const rank_share& r, const parameter_cost& each) {
    const auto set = [&](mpt::kind k, std::size_t bytes, bool shared) {
        p.bytes.at(k) = bytes;
        std::string& why = p.why[std::size_t(k)];
        if (shared) why += ", of a shard, about 1/" + std::to_string(r.ranks);
    };
    using k = mpt::optimizer_kind;
    const std::size_t P = r.parameters;
    const std::size_t wide = each.optimizer == k::adamw                                     ? 8
                             : each.optimizer == k::adam16 || each.optimizer == k::momentum ? 4
                                                                                            : 0;
    set(mpt::kind::weights, each.size * r.n.weights, r.stage == 3);
    set(mpt::kind::grads, each.size * r.n.micro, r.stage >= 2);
    set(mpt::kind::sums, 4 * r.n.sum, r.stage >= 1 && r.n.sum < P);
    set(mpt::kind::master, each.master ? 4 * r.n.owned : 0, r.stage >= 1);
    set(mpt::kind::moments, each.optimizer == k::adam8 ? r.low.bytes() : wide * r.n.owned,
        r.stage >= 1);
    set(mpt::kind::comm, each.size * r.in_flight, false);
    p.why[std::size_t(mpt::kind::comm)] =
        std::string("units that are whole for a while: gradients") +
        (r.stage == 3 ? " and weights" : "");
}

/// "12.3 MB" and the like, in powers of 1000.
inline std::string human(double bytes) {
    const char* units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) bytes /= 1000, ++unit;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}
