// SPDX-License-Identifier: MIT
// ZeRO-3: weights, too, in N parts: a unit's are whole while they are used; what fits then.
//
// broken: --sabotage no-release => zero3: embedding is still acquired at the window's end
// broken: --sabotage stale-weights => [FAILS] zero3 = ddp, bit for bit, reduced once and every
// broken: --ahead 0 --device-memory 9000 => [FAILS] each unit but the first is on its way before
// broken: --ahead 0 --device-memory 9000 => [FAILS] ddp, zero1 and zero2 do not fit into 9000 KB
// with: --ranks 3 --recompute => [holds] zero3 = ddp, bit for bit, reduced once and every
// with: --ranks 3 --recompute => [holds] every unit is gathered twice a micro-batch
#include "common/args.hpp"       // arguments: the flags
#include "common/stage_runs.hpp" // beside_ddp
#include "common/timeline.hpp"   // timeline: what is whole when

#include <map>

using mpt::communicator, mpt::fp16;

struct options {
    std::string sabotage = "none", svg;
    int ranks = 4, ahead = 1;
    bool recompute = false;
    std::size_t memory = 8000; // KB a rank
};

//! [watched]
// A note of what happens: the model uses a unit, zero3 gathers and frees.
enum class does { use, done, gather, free_weights, collect, free_gradients };
struct event {
    does what;
    int unit;
};
struct watched : around<fp16> {
    using around<fp16>::around;
    std::vector<event> seen;
    mpt::device_span<const fp16> acquire(mpt::device_span<const fp16> weights, int unit) override {
        seen.push_back({does::use, unit}); // asked for; inside, the next is gathered
        return around<fp16>::acquire(weights, unit);
    }
    void release(int unit) override {
        seen.push_back({does::done, unit});
        around<fp16>::release(unit);
    }
    mpt::device_span<fp16> collect(mpt::gradients<fp16>& grads, int unit) override {
        seen.push_back({does::collect, unit});
        return around<fp16>::collect(grads, unit);
    }
};
//! [watched]

//! [faults]
struct holds_on : around<fp16> { // wrong: nothing is given back
    using around<fp16>::around;
    void release(int) override {}
};
struct remembers : around<fp16> { // wrong: weights of the first step for ever
    using around<fp16>::around;
    std::map<int, std::vector<fp16>> first;
    mpt::device_span<const fp16> acquire(mpt::device_span<const fp16> weights, int unit) override {
        const auto now = around<fp16>::acquire(weights, unit);
        auto& old = first[unit];
        if (old.empty()) old.assign(now.data(), now.data() + now.size());
        return {old.data(), old.size()};
    }
};
//! [faults]

void break_it(ranks_run<fp16>& run, const std::string& how) {
    if (how == "no-release")
        run.wrap([](auto inner) { return std::make_unique<holds_on>(std::move(inner)); });
    if (how == "stale-weights")
        run.wrap([](auto inner) { return std::make_unique<remembers>(std::move(inner)); });
}

// ---- one micro-batch: what is whole when ----

std::vector<event> one_window(communicator& comm, const rank_plan& p) {
    ranks_run<fp16> run(comm, ranks_model(), p);
    windows data(run.ops, run.mem, "", p.M, p.B, 64, comm.rank(), comm.size());
    run.step(data(0)); // from here on it knows which unit comes next
    watched* w = nullptr;
    run.wrap([&](auto inner) {
        auto made = std::make_unique<watched>(std::move(inner));
        w = made.get();
        return made;
    });
    run.narrate().tell = [&](const std::string& line) {
        const auto& units = run.model.map.units;
        for (int u = 0; u < int(units.size()); ++u) {
            const std::string& name = units[std::size_t(u)].name;
            if (line.find(name) == std::string::npos) continue;
            if (line.find("gathers the weights") != std::string::npos)
                w->seen.push_back({does::gather, u});
            if (line.find("frees the weights") != std::string::npos)
                w->seen.push_back({does::free_weights, u});
            if (line.find("frees the gradients") != std::string::npos)
                w->seen.push_back({does::free_gradients, u});
        }
    };
    run.step(data(1));
    run.narrate().tell = nullptr;
    return w->seen;
}

void draw(const std::vector<event>& seen, const mpt::layout& map, const std::string& path) {
    timeline t{
        "ZeRO-3: what is whole on rank 0 in one micro-batch",
        "events in order: forward grey, backward green; whole weights blue, whole gradients orange",
        {},
        {}};
    t.lanes = {"uses"};
    for (const mpt::unit_info& u : map.units) t.lanes.push_back(u.name);
    const std::size_t units = map.units.size();
    std::vector<std::size_t> open_weights(units), open_gradients(units);
    std::size_t use = 0;
    double at = 0;
    bool backward = false;
    for (const event& e : seen) {
        const std::size_t u = std::size_t(e.unit);
        const auto begin = [&](std::size_t lane, std::size_t colour, auto part) {
            const bool uses = lane == 0;
            t.spans.push_back({lane, at, at, "", colour, part});
            if (uses) t.spans.back().label = u == 0 ? "e" : std::to_string(u - 1);
            return t.spans.size() - 1;
        };
        if (e.what == does::collect) backward = true;
        if (e.what == does::use) use = begin(0, backward ? 2 : 4, span_of_time::all);
        if (e.what == does::gather) open_weights[u] = begin(1 + u, 0, span_of_time::upper);
        if (e.what == does::collect) open_gradients[u] = begin(1 + u, 1, span_of_time::lower);
        at += 1;
        if (e.what == does::done) t.spans[use].to = at;
        if (e.what == does::free_weights) t.spans[open_weights[u]].to = at;
        if (e.what == does::free_gradients) t.spans[open_gradients[u]].to = at;
    }
    mpt::check(t.save(path), "--svg ", path, ": cannot be written; give another path");
}

void story(const options& o, rank_plan p, claims& claim) {
    p.M = 1, p.mode = mpt::reduce_mode::every, p.overflow = -1;
    mpt::gpt_tensors tensors;
    const mpt::layout map = mpt::gpt_layout(ranks_model(), tensors);
    const auto found = on_ranks(o.ranks, [&](communicator& comm) { return one_window(comm, p); });
    std::vector<int> gathers(map.units.size()), here(map.units.size());
    int late = 0;
    constexpr const char* words[] = {"uses",    "has used",           "  gathers",
                                     "  frees", "makes gradients of", "  frees gradients of"};
    std::printf("a window of one micro-batch, on rank 0:\n");
    for (const event& e : found[0]) {
        const std::size_t u = std::size_t(e.unit);
        if (e.what != does::done)
            std::printf("  %s %s\n", words[int(e.what)], map.units[u].name.c_str());
        if (e.what == does::use) late += here[u] == 0;
        if (e.what == does::gather) ++gathers[u], here[u] = 1;
        if (e.what == does::free_weights) here[u] = 0;
    }
    std::printf("\n");
    if (!o.svg.empty()) draw(found[0], map, o.svg);
    // expect: [holds] every unit is gathered twice a micro-batch, the embedding for all its uses
    claim(std::all_of(gathers.begin(), gathers.end(), [](int n) { return n == 2; }),
          "every unit is gathered twice a micro-batch, the embedding for all its uses");
    // expect: [holds] each unit but the first is on its way before it is asked for
    claim(late == 1, "each unit but the first is on its way before it is asked for");
}

// ---- the same budget for all ----

void ladder(const options& o, claims& claim) {
    mpt::gpt_config c;
    c.layers = 12, c.channels = 64, c.context = 32;
    bool fits[4];
    std::printf("4 ranks, %zu KB each:\n", o.memory);
    for (int stage = 0; stage < 4; ++stage) {
        rank_plan p;
        p.stage = stage, p.B = 1, p.steps = 2, p.mode = mpt::reduce_mode::every, p.overflow = -1;
        p.budget = o.memory * 1000;
        std::vector<trained> found;
        const std::string error = error_of(
            [&] { found = on_ranks(4, [&](auto& comm) { return train_rank<fp16>(comm, c, p); }); });
        fits[stage] = error.empty();
        if (fits[stage])
            std::printf("  %s  trains, loss %.4f -> %.4f; at most %zu bytes\n", stage_name(stage),
                        found[0].losses[0], found[0].losses[1], found[0].peak);
        else
            std::printf("  %s  %s\n", stage_name(stage), error.c_str());
    }
    std::printf("\n");
    // expect: [holds] ddp, zero1 and zero2 do not fit into 8000 KB a rank; zero3 trains
    claim(!fits[0] && !fits[1] && !fits[2] && fits[3],
          mpt::join("ddp, zero1 and zero2 do not fit into ", o.memory, " KB a rank; zero3 trains"));
}

int zero3(const options& o) {
    claims claim;
    rank_plan p;
    p.stage = 3, p.ahead = o.ahead, p.recompute = o.recompute;
    story(o, p, claim);
    // expect: [holds] after each of 6 steps all ranks have the same weights, bit for bit
    // expect: [holds] zero3 = ddp, bit for bit, reduced once and every micro-batch
    // expect: [holds] rank 1 overflows in step 4, in a part that another owns: all ranks skip it
    // expect: [holds] 16/N bytes a parameter, and fp32 sums: measured = formula
    // expect: [holds] elements sent: measured = formula, reduced once and every micro-batch
    const both_modes found =
        beside_ddp(claim, o.ranks, p, "16/N", [&](auto& run) { break_it(run, o.sabotage); });

    //! [flight]
    mpt::gpt_tensors t;
    const mpt::layout map = mpt::gpt_layout(ranks_model(), t);
    const mpt::partition cut(map, o.ranks);
    const std::size_t N = std::size_t(o.ranks), a = std::size_t(o.ahead);
    const std::size_t U = N * cut.shard(0), B = N * cut.shard(1); // with padding
    const std::size_t whole = std::max(2 * U + a * B, U + (1 + a) * B + (1 + a) * B);
    //! [flight]
    const std::size_t seen = found.every[0].at(mpt::kind::comm);
    std::printf("weights and gradients whole for a while: %zu bytes, by formula %zu\n\n", seen,
                whole * sizeof(fp16));
    // expect: [holds] whole for a while: U + 4 B weights and gradients, measured = formula
    claim(seen == whole * sizeof(fp16), mpt::join("whole for a while: U + ", 2 * (1 + a),
                                                  " B weights and gradients, measured = formula"));
    ladder(o, claim);
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "24_zero3", "ZeRO-3: the weights in N parts; one budget for all.");
    args.add("--ranks", o.ranks, "threads, each a rank", 3, 8);
    args.add("--ahead", o.ahead, "units gathered before they are asked for", 0, 1);
    args.add("--recompute", o.recompute, "blocks run again in backward, on one gather");
    args.add("--device-memory", o.memory, "KB a rank, for the ladder of 4 ranks", 1);
    args.add("--sabotage", o.sabotage, "break it", {"none", "no-release", "stale-weights"});
    args.add("--svg", o.svg, "draw what is whole when into this file");
    return args.run([&] { return zero3(o); });
}
