// SPDX-License-Identifier: MIT
// memory_plan.hpp -- the bytes that a run will hold, by formula, to stand beside the ledger's.
#pragma once
#include "mpt/base/ledger.hpp"      // kind, to_string
#include "mpt/nn/checkpointing.hpp" // checkpointing: rooms, segments_again
#include "mpt/nn/gpt_layout.hpp"    // gpt_config
#include "mpt/nn/model_size.hpp"    // size_of_gpt
#include "mpt/train/estimate.hpp"   // estimate_bytes

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

struct memory_plan {
    std::array<std::size_t, mpt::kinds> bytes{};
    std::array<std::string, mpt::kinds> why{};

    std::size_t total() const {
        std::size_t sum = 0;
        for (const std::size_t b : bytes) sum += b;
        return sum;
    }
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
    std::size_t tokens = 0;  // on their way to it, beside the batch
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
    const mpt::estimate bytes = mpt::estimate_bytes(size, plan);
    memory_plan p;
    for (int k = 0; k < mpt::kinds; ++k) p.bytes[std::size_t(k)] = bytes.at(mpt::kind(k));
    p.bytes[std::size_t(mpt::kind::data)] += machine.tokens;

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
    why(mpt::kind::data) = std::string("2 x 4 a token of the batch") +
                           (machine.tokens ? ", and of two windows" : "");
    return p;
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
