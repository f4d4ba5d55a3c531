// SPDX-License-Identifier: MIT
// What fits: the largest model and the largest batch under one budget, technique by technique,
// found by trying, beside what the estimate says.
//
// broken: --sabotage forget-activations --device-memory 1000 => [FAILS] largest batch
// broken: --sabotage forget-flight --device-memory 1000 => [FAILS] largest model
// broken: --device-memory 100 => not one block of it fits: activations asks
// with: --ranks 3 --device-memory 1000 => [holds] largest model: found by trying = predicted
// picture: --svg fits.svg => docs/images/chapter_27_fits.svg
#include "common/args.hpp"        // arguments: the flags
#include "common/claims.hpp"      // claims: what is proved
#include "common/offload_run.hpp" // offload_run: one rank, states here or on the host
#include "common/pair_bars.hpp"   // pair_bars: the figure
#include "common/ranks_run.hpp"   // ranks_run: one of N ranks

#include <cstdio>

struct options {
    std::string sabotage = "none", svg;
    std::size_t memory = 2000; // KB of each device
    int ranks = 4;
};

//! [ways]
struct way {
    std::string name;
    std::size_t bytes = 2; // of a weight
    int stage = 0;         // of ZeRO
    bool recompute = false, away = false;
};
const std::vector<way> ways = {{"fp32", 4},
                               {"fp16"},
                               {"fp16, checkpointed", 2, 0, true},
                               {"ZeRO-1", 2, 1},
                               {"ZeRO-2", 2, 2},
                               {"ZeRO-3", 2, 3},
                               {"ZeRO-3, checkpointed", 2, 3, true},
                               {"offloaded", 2, 0, false, true},
                               {"offloaded, checkpointed", 2, 0, true, true}};
//! [ways]

mpt::gpt_config model_of(int blocks) {
    mpt::gpt_config c;
    c.layers = blocks, c.channels = 32, c.context = 32;
    return c;
}
mpt::checkpointing plan_of(const way& w, int blocks) {
    return w.recompute ? mpt::checkpointing::every(1, blocks) : mpt::checkpointing::none(blocks);
}

//! [predicted]
// Bytes of a device, before anything runs.
std::size_t predicted(const options& o, const way& w, int blocks, int rows) {
    const mpt::gpt_config c = model_of(blocks);
    const auto plan = plan_of(w, blocks);
    mpt::model_size size = mpt::size_of_gpt(c, plan, rows, c.context, w.bytes);
    mpt::training_plan p;
    p.weight = w.bytes, p.master = w.bytes < 4, p.stage = w.stage;
    p.ranks = w.stage > 0 ? o.ranks : 1;
    p.offload = w.away ? mpt::offload_to::host : mpt::offload_to::none;
    p.ahead = true; // one unit travels while another computes
    if (w.stage > 0) {
        const std::size_t whole = 256 * std::size_t(o.ranks); // shards of 256s: padding
        for (std::size_t& u : size.units) u = (u + whole - 1) / whole * whole;
        size.going = mpt::units_in_flight(plan, size.units[0], size.units[1], false, true);
        size.both = mpt::units_in_flight(plan, size.units[0], size.units[1], true, true);
    }
    if (o.sabotage == "forget-activations") size.activations = 0;
    if (o.sabotage == "forget-flight") size.going = size.both = {};
    return mpt::estimate_bytes(size, p).total();
}
//! [predicted]

//! [tried]
struct refusal {
    std::string what;       // "second moments asks 392832"; "": it fits
    bool in_pieces = false; // so much is free, but not in one place
};
// A step or two, with nothing but the budget.
template <class T>
refusal tried(const options& o, const way& w, int blocks, int rows) {
    const mpt::gpt_config c = model_of(blocks);
    const std::size_t budget = 1000 * o.memory;
    const std::string refused = error_of([&] {
        if (w.stage == 0) {
            offload_plan p;
            p.when = w.away ? leaves::each : leaves::never, p.budget = budget;
            p.M = 1, p.B = rows, p.keep = plan_of(w, blocks), p.overflow = -1;
            offload_run<T> run(c, p);
            windows data(run.ops, run.mem, "", 1, rows, c.context);
            run.step(data(0));
            return;
        }
        if constexpr (!mpt::own_master<T>) { // fp32 is tried alone
            rank_plan p;
            p.stage = w.stage, p.M = 1, p.B = rows, p.recompute = w.recompute, p.overflow = -1;
            p.budget =
                budget + (mpt::gpt_scratch<T>(c, rows, c.context) + 63) / 64 * 64; // the CPU's
            mpt::run_ranks(o.ranks, [&](mpt::communicator& comm) {
                ranks_run<T> run(comm, c, p);
                windows data(run.ops, run.mem, "", 1, rows, c.context, comm.rank(), comm.size());
                run.step(data(0)); // zero3 learns the order of units ...
                run.step(data(1)); // ... and from now on gathers ahead
            });
        }
    });
    if (refused.empty()) return {};
    const std::size_t from = refused.find("memory: "), asks = refused.find(" asks ");
    const std::size_t held = refused.find(" are held and ");
    mpt::check(from != refused.npos && asks != refused.npos && held != refused.npos, refused);
    const std::size_t wanted = std::stoul(refused.substr(asks + 6));
    const std::size_t left = std::stoul(refused.substr(held + 14));
    return {mpt::join(refused.substr(from + 8, asks - from - 8), " asks ", wanted), wanted <= left};
}
//! [tried]

//! [largest]
// The largest n from 1 on that fits, where n + 1 does not; 0: none. fits(n) falls once.
template <class Fits>
int largest(Fits fits) {
    int yes = 0, no = 1;
    while (fits(no)) yes = no, no *= 2;
    while (no - yes > 1) {
        const int half = yes + (no - yes) / 2;
        (fits(half) ? yes : no) = half;
    }
    return yes;
}
//! [largest]

struct limit {
    int found, said;
    refusal next; // of one more
    bool as_said() const { return found == said || (found + 1 == said && next.in_pieces); }
};
// size(n): blocks and rows.
template <class Size>
limit limit_of(const options& o, const way& w, Size size) {
    limit l;
    int smallest = 0;
    l.said = largest(
        [&](int n) { return predicted(o, w, size(n).first, size(n).second) <= 1000 * o.memory; });
    l.found = largest([&](int n) {
        const auto [blocks, rows] = size(n);
        const refusal r =
            w.bytes == 4 ? tried<float>(o, w, blocks, rows) : tried<mpt::fp16>(o, w, blocks, rows);
        if (!r.what.empty() && (smallest == 0 || n < smallest)) smallest = n, l.next = r;
        return r.what.empty();
    });
    return l;
}

std::string shown(const refusal& r) { return r.what + (r.in_pieces ? ", free in pieces" : ""); }

int what_fits(const options& o) {
    constexpr int fixed_blocks = 4;
    std::printf("%zu KB a device; 1 row of 32 tokens, or %d blocks; ZeRO: %d ranks\n\n", o.memory,
                fixed_blocks, o.ranks);
    std::printf("%-24s %6s %10s  %-34s %5s %10s  %s\n", "", "blocks", "predicted", "one more asks",
                "rows", "predicted", "one more asks");
    pair_bars figure{mpt::join("What fits into ", o.memory, " KB"),
                     "bar: found by trying; mark: predicted by the estimate",
                     {"largest model, blocks", "largest batch, rows a rank"},
                     {}};
    bool models = true, batches = true;
    std::vector<limit> model, batch;
    for (const way& w : ways) {
        const std::string name = w.stage > 0 ? mpt::join(w.name, " of ", o.ranks) : w.name;
        std::fprintf(stderr, "trying %s\n", name.c_str());
        const limit m = limit_of(o, w, [](int n) { return std::pair(n, 1); });
        mpt::check(m.found > 0, name, ": not one block of it fits: ", m.next.what, " bytes of ",
                   1000 * o.memory, "; give more --device-memory");
        const limit b = limit_of(o, w, [&](int n) { return std::pair(int(fixed_blocks), n); });
        std::printf("%-24s %6d %10d  %-34s %5d %10d  %s\n", w.name.c_str(), m.found, m.said,
                    shown(m.next).c_str(), b.found, b.said, shown(b.next).c_str());
        figure.rows.push_back(
            {w.name, {double(m.found), double(b.found)}, {double(m.said), double(b.said)}});
        models &= m.as_said(), batches &= b.as_said();
        model.push_back(m), batch.push_back(b);
    }
    std::printf("\n");
    if (!o.svg.empty())
        mpt::check(figure.save(o.svg), "--svg ", o.svg, ": cannot be written; give another path");

    claims claim;
    // expect: fp16 7 7 second moments asks 443648 6 6 second moments asks 240384
    // expect: offloaded, checkpointed 67 67 gradients of a unit asks 25408 24 24 gradients
    // expect: [holds] largest model: found by trying = predicted, 9 ways
    claim(models, mpt::join("largest model: found by trying = predicted, ", ways.size(), " ways"));
    // expect: [holds] largest batch: found by trying = predicted, 9 ways
    claim(batches, mpt::join("largest batch: found by trying = predicted, ", ways.size(), " ways"));
    const limit &zero3 = batch[5], &again = batch[6];
    // expect: [holds] ZeRO-3 alone runs out of activations: checkpointing gives it twice the rows
    claim(again.found >= 2 * zero3.found,
          "ZeRO-3 alone runs out of activations: checkpointing gives it twice the rows or more");
    // expect: [holds] offloaded, one device holds more blocks than each of the ranks of ZeRO-2
    claim(model[7].found > model[4].found,
          "offloaded, one device holds more blocks than each of the ranks of ZeRO-2");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "27_what_fits", "The largest model and batch under one budget.");
    args.add("--device-memory", o.memory, "KB of each device", 1, 1 << 20);
    args.add("--ranks", o.ranks, "of ZeRO, threads", 2, 8);
    args.add("--sabotage", o.sabotage, "break the prediction",
             {"none", "forget-activations", "forget-flight"});
    args.add("--svg", o.svg, "draw the table into this file");
    return args.run([&] { return what_fits(o); });
}
