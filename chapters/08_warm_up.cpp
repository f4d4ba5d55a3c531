// SPDX-License-Identifier: MIT
// What warm-up cures, and what else does: 24 narrow blocks, at a high rate from the first step on.
//
// broken: --part warm-up --warm-up 0 => [FAILS] warm-up lets the model with layer norms learn
// broken: --part tfixup --rate 0.05 => [FAILS] T-Fixup learns without warm-up
// broken: --part scales --start 1 => [FAILS] ReZero, without layer norms, bears 6 times the rate
#include "common/args.hpp"     // arguments: the flags
#include "common/claims.hpp"   // claims: what is proved
#include "common/gpt_run.hpp"  // gpt_run, windows: model, buffers, text
#include "common/plot.hpp"     // plot: the losses
#include "common/progress.hpp" // progress: on stderr

#include "mpt/nn/model_size.hpp" // activation_bytes
#include "mpt/train/adamw.hpp"   // adamw: step
#include "mpt/train/clip.hpp"    // clip_factor
#include "mpt/train/inspect.hpp" // inspect, norm

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>

struct options {
    int layers = 24, threads = 0;
    long steps = 200, warm_up = 50;
    double rate = 0.005, start = 0;
    std::string part = "all", plot, data;
};

constexpr int B = 8, T = 32; // rows of tokens

//! [kinds]
struct recipe {
    const char *name, *part;         // of the chapter
    bool layer_norm, tfixup, scales; // the model's
    bool warm_up;
    double rates; // times --rate
};
constexpr recipe recipes[] = {
    {"layer norms", "", true, false, false, false, 1},
    {"with warm-up", "warm-up", true, false, false, true, 1},
    {"T-Fixup, rate x 0.6", "tfixup", false, true, false, false, 0.6},
    {"GPT-2's weights, x 0.6", "tfixup", false, false, false, false, 0.6},
    {"with branches from 0", "scales", true, false, true, false, 1},
    {"ReZero, rate x 6", "scales", false, false, true, false, 6},
};

mpt::gpt_config config(const options& o, const recipe& r) {
    mpt::gpt_config c;
    c.layers = o.layers, c.heads = c.kv_heads = 2, c.channels = 32, c.context = T;
    c.layer_norm = r.layer_norm;
    c.tfixup = r.tfixup;
    c.residual_scale = r.scales; // x += alpha branch, and alpha is learnt
    c.residual_start = float(o.start);
    return c;
}
//! [kinds]

struct outcome {
    double held_out = NAN; // where the gradients left the numbers
    double worst = 0;      // training loss of a twentieth of the run
    std::size_t parameters = 0, kept = 0;
    bool equal = false; // activations in the ledger = formula
    curve losses;
};

//! [run]
/// AdamW at one rate; the gradient's length is clipped at 1.
outcome learn(const options& o, const recipe& r, progress& bar, long done) {
    const mpt::gpt_config c = config(o, r);
    gpt_run<float> run(c, B, 1, o.threads);
    windows data(run.ops, run.mem, o.data, 1, B, T);
    mpt::adamw adamw{.beta2 = 0.95, .weight_decay = 0.1};
    outcome end;
    end.losses.name = r.name;
    end.parameters = run.P, end.kept = run.mem.books.now(mpt::kind::activations);
    end.equal = end.kept == mpt::activation_bytes(c, run.acts.plan, B * T, sizeof(float));
    const long part = std::max(1L, o.steps / 20);
    double sum = 0;
    for (long step = 0; step < o.steps; ++step) {
        const window now = data(step); // one micro-batch
        sum += run.loss(now);
        run.model.backward(run.strategy, run.weights, now.micro_batches[0], run.acts,
                           1.0f / float(now.tokens), run.grads);
        const auto g = run.strategy.finish(run.grads);
        const mpt::health health = mpt::inspect(run.ops, g);
        if (!health.finite) return end;
        const bool rises = r.warm_up && step < o.warm_up;
        const double lr = o.rate * r.rates * (rises ? double(step + 1) / double(o.warm_up) : 1);
        adamw.step(run.ops, run.model.map, run.owned, g, mpt::clip_factor(mpt::norm(health), 1),
                   lr);
        run.strategy.publish(run.weights);
        bar.show(done + step + 1, r.name);
        if ((step + 1) % part != 0) continue;
        const double mean = sum / double(part);
        end.losses.points.push_back({double(step + 1), mean < 5 ? mean : NAN}); // else a gap
        end.worst = std::max(end.worst, mean);
        sum = 0;
    }
    end.held_out = run.loss(data.held_out());
    return end;
}
//! [run]

int warm_up(const options& o) {
    const auto wanted = [&](const recipe& r) {
        return o.part == "all" || !*r.part || o.part == r.part;
    };
    progress bar(o.steps * std::count_if(std::begin(recipes), std::end(recipes), wanted));
    std::map<std::string, outcome> all;
    plot p{mpt::join(o.layers, " blocks at a high rate; what is above 5 is left out"),
           "step",
           "nats a byte",
           {}};
    std::printf("%d blocks of 32 channels, AdamW at %g for %ld steps\n%-32s %10s %12s %8s %8s\n",
                o.layers, o.rate, o.steps, "", "parameters", "activations", "worst", "held out");
    bool equal = true;
    for (const recipe& r : recipes) {
        if (!wanted(r)) continue;
        const outcome now = learn(o, r, bar, long(all.size()) * o.steps);
        std::printf("%-32s %10zu %12zu %8.2f %8.3f\n", r.name, now.parameters, now.kept, now.worst,
                    now.held_out);
        equal &= now.equal;
        if (&r != &recipes[3]) p.curves.push_back(now.losses); // five colours
        all[r.name] = now;
    }
    bar.finish();
    std::printf("\n");
    mpt::check(o.plot.empty() || p.save(o.plot), "--plot ", o.plot,
               ": cannot be written; give a file in a folder that exists");
    claims claim;
    const auto learns = [&](const recipe& r, const std::string& text) {
        if (wanted(r)) claim(all[r.name].held_out < all["layer norms"].held_out - 0.15, text);
    };
    // expect: [holds] warm-up lets the model with layer norms learn
    learns(recipes[1], "warm-up lets the model with layer norms learn");
    // expect: [holds] T-Fixup learns without warm-up and without layer norms
    learns(recipes[2], "T-Fixup learns without warm-up and without layer norms");
    // expect: [holds] ... which GPT-2's first weights do less
    if (wanted(recipes[3]))
        claim(all[recipes[2].name].held_out < all[recipes[3].name].held_out - 0.1,
              "... which GPT-2's first weights do less");
    // expect: [holds] branches that begin at 0 learn without warm-up
    learns(recipes[4], "branches that begin at 0 learn without warm-up");
    // expect: [holds] ReZero, without layer norms, bears 6 times the rate
    learns(recipes[5], "ReZero, without layer norms, bears 6 times the rate");
    // expect: [holds] activations measured = formula
    claim(equal, "activations measured = formula, with and without layer norms and scales");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "08_warm_up",
                   "What warm-up cures in a deep model, and what else does: T-Fixup's first "
                   "weights, branches that begin at 0.");
    args.add("--part", o.part, "what to run beside layer norms alone",
             {"all", "warm-up", "tfixup", "scales"});
    args.add("--layers", o.layers, "blocks", 1, 200);
    args.add("--steps", o.steps, "training steps", 20);
    args.add("--rate", o.rate, "learning rate", 0);
    args.add("--warm-up", o.warm_up, "steps, of the run that has it", 0);
    args.add("--start", o.start, "first value of the branches' factors", -100, 100);
    args.add("--plot", o.plot, "draw the losses into this SVG file");
    args.add_data(o.data);
    args.add_threads(o.threads);
    return args.run([&] { return warm_up(o); });
}
