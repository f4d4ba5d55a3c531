// SPDX-License-Identifier: MIT
// Activation checkpointing: blocks keep their input and run forward again, to the same bits.
//
// broken: --sabotage new-masks --pairs 1 => [FAILS] gradients with every plan = those without
// broken: --sabotage new-masks --pairs 1 => [FAILS] losses of 40 steps with every:1 = those without
// broken: --sabotage not-run-again --pairs 1 => [FAILS] gradients with every plan = those without
// broken: --sabotage not-run-again --pairs 1 => [FAILS] losses of 40 steps with every:1 = those
// with: --precision fp16 --pairs 1 => [holds] gradients with every plan = those without
// with: --layers 5 --pairs 1 => [holds] activations measured = formula, every plan
#include "common/args.hpp"    // arguments: the flags
#include "common/claims.hpp"  // claims: what is proved
#include "common/counted.hpp" // counted: operations that count their products
#include "common/gpt_run.hpp" // gpt_run, windows: model, buffers, text
#include "common/plot.hpp"    // plot: memory and time over k

#include "mpt/nn/checkpointing.hpp" // checkpointing: every, sqrt, chosen
#include "mpt/train/clip.hpp"       // clip_factor
#include "mpt/train/inspect.hpp"    // inspect, norm

#include <cstring>
#include <ctime>

struct choices {
    std::string precision = "fp32", sabotage = "none", plot;
    int layers = 12, pairs = 7, threads = 0;
    float dropout = 0.2f;
    long steps = 40;
};

//! [formula]
template <class T>
double bytes_of(const mpt::gpt_config& c, const mpt::checkpointing& plan, int tokens) {
    const double N = plan.rooms(), R = plan.segments_again(); // rooms, inputs kept
    const double C = c.channels, Q = c.qkv(), V = c.vocabulary, H = c.heads;
    return tokens * (sizeof(T) * (2 * C + V + N * (13 * C + Q) + R * C) + 4 * (4 + N * (4 + H)));
}
double products_of(const mpt::gpt_config& c, const mpt::checkpointing& plan, int tokens) {
    const double C = c.channels, Q = c.qkv(), T = c.context;
    const double block = C * Q + 9 * C * C + C * (T + 1); // forward of a block, a token
    const double last = 4 * C * C; // its last product gives what the next segment kept as input
    return tokens * (plan.blocks_again() * block - plan.segments_again() * last);
}
//! [formula]

// What a plan costs.
struct row {
    std::string name;
    double bytes, products, time; // activations, run again, of both ways as a share
    bool bytes_hold, products_hold, same_bits;
};

template <class T>
int train(const choices& o) {
    mpt::gpt_config c;
    c.layers = o.layers, c.channels = 64, c.context = 64;
    c.dropout = o.dropout;
    const int B = 4, n = B * c.context, L = o.layers;
    gpt_run<T, counted> run(c, B, 1, o.threads);
    run.ops.new_masks = o.sabotage == "new-masks";
    windows data(run.ops, run.mem, "", 1, B, c.context);

    //! [both ways]
    const auto both_ways = [&](mpt::gpt_acts<T>& acts, const window& w) { // of one micro-batch
        const mpt::batch& b = *w.begin();
        run.ops.begin(false);
        const double loss = run.model.forward(run.strategy, run.weights, b, acts);
        run.ops.begin(true);
        run.model.backward(run.strategy, run.weights, b, acts, 1.0f / float(n), run.grads);
        return loss / n;
    };
    //! [both ways]
    const auto gradient = [&] {
        std::vector<T> host(run.P);
        run.ops.copy_to_host(host, run.grads.micro);
        return host;
    };
    const window first = data(0);
    run.loss(first); // forward alone
    const double forward = run.ops.products.blocks;
    run.ops.products = {};
    both_ways(run.acts, first);
    const auto whole = run.ops.products;
    const std::vector<T> plain = gradient();

    const auto break_it = [&](mpt::gpt_acts<T>& acts) {
        if (o.sabotage != "not-run-again") return;
        for (mpt::segment& g : acts.plan.segments) g.again = false;
    };
    //! [measure]
    const auto measure = [&](const std::string& name, const mpt::checkpointing& plan) {
        mpt::memory mem; // with a ledger of its own
        mpt::gpt_acts<T> acts(mem, c, B, c.context, plan);
        break_it(acts);
        run.ops.products = {};
        both_ways(acts, first);
        const double bytes = double(mem.books.peak(mpt::kind::activations));
        const double again = run.ops.products.again;
        const bool same = std::memcmp(gradient().data(), plain.data(), run.P * sizeof(T)) == 0;
        double least[2] = {1e300, 1e300}; // with the plan, without: in turn, least disturbed
        for (int i = 0; i < 2 * o.pairs; ++i) {
            const std::clock_t began = std::clock(); // CPU time: others on the machine cost none
            both_ways(i % 2 ? run.acts : acts, first);
            least[i % 2] = std::min(least[i % 2], double(std::clock() - began));
        }
        const double bytes_then = bytes_of<T>(c, plan, n), again_then = products_of(c, plan, n);
        std::printf("%-12s %10.0f %10.0f %11.0f %11.0f %7.1f%% %7.2f\n", name.c_str(), bytes,
                    bytes_then, again, again_then, 100 * again / whole.blocks, least[0] / least[1]);
        return row{
            name, bytes, again, least[0] / least[1], bytes == bytes_then, again == again_then,
            same};
    };
    //! [measure]
    std::printf("%d blocks, dropout %g, %s\n"
                "products inside blocks %.0f, %.1f%% of them in forward; in the head %.0f\n\n"
                "%-12s %10s %10s %11s %11s %8s %7s\n",
                L, double(o.dropout), o.precision.c_str(), whole.blocks,
                100 * forward / whole.blocks, whole.head, "plan", "bytes", "formula", "run again",
                "formula", "share", "time");
    //! [plans]
    std::vector<row> rows;
    for (int k = 1; k <= L; ++k)
        rows.push_back(measure(mpt::join("every:", k), mpt::checkpointing::every(k, L)));
    std::vector<int> even;
    for (int l = 0; l < L; l += 2) even.push_back(l);
    rows.push_back(measure("sqrt", mpt::checkpointing::sqrt(L)));
    rows.push_back(measure("blocks:0,2..", mpt::checkpointing::chosen(even, L)));
    rows.push_back(measure("none", mpt::checkpointing::none(L)));
    //! [plans]

    //! [training]
    const auto learn = [&](const mpt::checkpointing& plan) { // the loss of every step
        mpt::gpt_acts<T> acts(run.mem, c, B, c.context, plan);
        break_it(acts);
        run.start();
        mpt::adamw adam;
        std::vector<double> losses;
        for (long step = 0; step < o.steps; ++step) {
            losses.push_back(both_ways(acts, data(step)));
            const auto g = run.strategy.finish(run.grads);
            const double norm = mpt::norm(mpt::inspect(run.ops, g));
            adam.step(run.ops, run.model.map, run.owned, g, mpt::clip_factor(norm, 1), 3e-3);
        }
        return losses;
    };
    const std::vector<double> off = learn(mpt::checkpointing::none(L));
    const std::vector<double> on = learn(mpt::checkpointing::every(1, L));
    //! [training]
    std::printf("\nloss of step %ld: %.4f without, %.4f with every:1\n\n", o.steps, off.back(),
                on.back());
    if (!o.plot.empty()) {
        curve memory{"memory", {}}, time{"time", {}, curve::dots}, counted{"products", {}};
        for (int k = 1; k <= L; ++k) {
            const row& r = rows[std::size_t(k) - 1];
            memory.points.push_back({k, 100 * r.bytes / rows.back().bytes});
            time.points.push_back({k, 100 * r.time});
            counted.points.push_back({k, 100 + 100 * r.products / (whole.blocks + whole.head)});
        }
        const plot p{mpt::join("Checkpointing ", L, " blocks: memory and time over k"),
                     "k, blocks a segment",
                     "percent of what it takes without",
                     {memory, time, counted},
                     true};
        mpt::check(p.save(o.plot), "--plot ", o.plot,
                   ": cannot be written; give a file in a folder that exists");
    }

    claims claim;
    const auto all = [&](auto holds) { return std::all_of(rows.begin(), rows.end(), holds); };
    // expect: [holds] activations measured = formula, every plan
    claim(all([](const row& r) { return r.bytes_hold; }),
          "activations measured = formula, every plan");
    // expect: [holds] products run again = formula, less than a third of those inside blocks
    claim(all([&](const row& r) { return r.products_hold && r.products < whole.blocks / 3; }),
          "products run again = formula, less than a third of those inside blocks");
    // expect: [holds] gradients with every plan = those without, bit for bit
    claim(all([](const row& r) { return r.same_bits; }),
          "gradients with every plan = those without, bit for bit");
    // expect: [holds] losses of 40 steps with every:1 = those without, bit for bit
    claim(on == off,
          mpt::join("losses of ", o.steps, " steps with every:1 = those without, bit for bit"));
    return claim.status();
}

int main(int argc, char** argv) {
    choices o;
    arguments args(argc, argv, "09_checkpointing",
                   "Activation checkpointing: less memory, more time, the same bits.");
    args.add("--precision", o.precision, "of weights and activations", {"fp32", "fp16", "bf16"});
    args.add("--layers", o.layers, "blocks", 2, 100);
    args.add("--dropout", o.dropout, "share of activations dropped", 0, 0.99);
    args.add("--steps", o.steps, "training steps, with and without", 1);
    args.add("--pairs", o.pairs, "times that each plan is timed", 1, 1000);
    args.add("--sabotage", o.sabotage, "break it", {"none", "new-masks", "not-run-again"});
    args.add("--plot", o.plot, "draw memory and time over k into this SVG file");
    args.add_threads(o.threads);
    return args.run([&] {
        if (o.precision == "fp32") return train<float>(o);
        return o.precision == "fp16" ? train<mpt::fp16>(o) : train<mpt::bf16>(o);
    });
}
