// SPDX-License-Identifier: MIT
// memory_plan.hpp -- the bytes that a run will hold, by formula, to stand beside the ledger's.
#pragma once
#include "mpt/base/ledger.hpp"      // kind, to_string
#include "mpt/nn/checkpointing.hpp" // checkpointing: rooms, segments_again
#include "mpt/nn/gpt_layout.hpp"    // gpt_config

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
    std::size_t size;    // bytes of a weight
    bool master;         // fp32 beside it
    std::size_t moments; // numbers of the optimizer
};

/// scratch: bytes of all workers' scratch.
inline memory_plan plan_memory(const mpt::gpt_config& c, const mpt::checkpointing& acts,
                               const parameter_cost& each, int micro_batches, int batch,
                               std::size_t scratch) {
    const std::size_t size = each.size;
    const std::size_t V = std::size_t(c.vocabulary), C = std::size_t(c.channels);
    const std::size_t Q = std::size_t(c.qkv()), L = std::size_t(c.layers), H = std::size_t(c.heads);
    const std::size_t P =
        V * C + std::size_t(c.context) * C + 2 * C + L * (Q * C + Q + 9 * C * C + 10 * C);
    const std::size_t n = std::size_t(batch) * std::size_t(c.context);
    const std::size_t N = std::size_t(acts.rooms()), R = std::size_t(acts.segments_again());
    memory_plan p;
    const auto set = [&](mpt::kind k, std::size_t bytes, std::string why) {
        p.bytes[std::size_t(k)] = bytes;
        p.why[std::size_t(k)] = std::move(why);
    };
    const std::string s = std::to_string(size);
    set(mpt::kind::weights, size * P, s + " a parameter");
    set(mpt::kind::grads, size * P, s + " a parameter");
    if (micro_batches > 1) set(mpt::kind::sums, 4 * P, "4 a parameter: gradients summed in fp32");
    if (each.master) set(mpt::kind::master, 4 * P, "4 a parameter: fp32 master weights");
    if (each.moments > 0)
        set(mpt::kind::moments, 4 * each.moments * P,
            each.moments == 2 ? "8 a parameter: Adam's m and v in fp32"
                              : "4 a parameter: the momentum in fp32");
    const std::string rooms = R ? std::to_string(N) : "L";
    set(mpt::kind::activations,
        n * (size * (2 * C + V + N * (13 * C + Q) + R * C) + 4 * (4 + N * (4 + H))),
        "tokens x (" + s + " (2C + V + " + rooms + " (13C + Q)" +
            (R ? " + " + std::to_string(R) + " C" : "") + ") + 4 (4 + " + rooms + " (4 + heads)))" +
            (R ? ", " + std::to_string(acts.blocks_again()) + " blocks run again" : ""));
    set(mpt::kind::temp, n * size * 6 * C + scratch,
        "tokens x " + s + " x 6C, and " + std::to_string(scratch) + " of scratch");
    set(mpt::kind::data, 2 * n * 4, "2 x 4 a token of the batch");
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
