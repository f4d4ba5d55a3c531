// SPDX-License-Identifier: MIT
// The whole step: a GPT in 16 bits, with all that the chapters before have shown.
//
// broken: --sabotage schedule-runs-ahead --steps 40 => [FAILS] skipped steps cost no warm-up
// broken: --scale 1e9 --steps 40 => 10 steps in a row skipped at the fixed scale 1e+09
// with: --precision fp32 --steps 40 => [holds] peak bytes measured = bytes by formula
// cuda: --steps 20 --batch 2 --context 16 --layers 1 --channels 32
// with: --precision bf16 --steps 40 => [holds] peak bytes measured = bytes by formula
#include "common/args.hpp"     // arguments: the flags
#include "common/claims.hpp"   // claims: what is proved
#include "common/gpt_run.hpp"  // gpt_run, windows: model, buffers, text
#include "common/plot.hpp"     // plot: the loss
#include "common/progress.hpp" // progress: on stderr
#include "train/generate.hpp"  // generate: a sample

#include "mpt/train/adamw.hpp"      // adamw: step
#include "mpt/train/bigram.hpp"     // bigram_entropy
#include "mpt/train/clip.hpp"       // clip_factor
#include "mpt/train/estimate.hpp"   // estimate_bytes
#include "mpt/train/inspect.hpp"    // inspect, norm, describe
#include "mpt/train/loss_scale.hpp" // loss_scale: seed, update; check_loss
#include "mpt/train/schedule.hpp"   // schedule

struct choices {
    std::string precision = "fp16", sabotage = "none", plot, data;
    long steps = 1000;
    int micro_batches = 2, batch = 4, context = 64, layers = 2, channels = 64, threads = 0;
    double lr = 3e-3, clip = 1;
    float scale = 0; // 0: dynamic
};

//! [formula]
// The bytes of the run by kind, as chapter 11 says them before a run starts.
template <class T>
mpt::estimate formula(const gpt_run<T, here>& run, const choices& o) {
    const mpt::gpt_config& c = run.model.config;
    const auto keep_all = mpt::checkpointing::none(c.layers);
    mpt::model_size size = mpt::size_of_gpt(c, keep_all, o.batch, o.context, sizeof(T));
    size.temp += run.template gpt_scratch_bytes<T>(c, o.batch);
    size.data *= std::size_t(o.micro_batches); // `windows` has all of a window
    mpt::training_plan plan;                   // AdamW, one rank
    plan.weight = sizeof(T), plan.micro_batches = o.micro_batches;
    plan.master = sizeof(T) < 4; // fp32 weights are their own
    return mpt::estimate_bytes(size, plan);
}
//! [formula]

template <class T>
int train(const choices& o) {
    mpt::gpt_config config;
    config.layers = o.layers, config.channels = o.channels, config.context = o.context;
    gpt_run<T, here> run(config, o.batch, o.micro_batches, o.threads);
    windows data(run.ops, run.mem, o.data, o.micro_batches, o.batch, o.context);
    const auto [ops, model, strategy, acts] = std::tie(run.ops, run.model, run.strategy, run.acts);
    const auto [weights, grads, own] = std::tie(run.weights, run.grads, run.owned);
    const double pairs = mpt::bigram_entropy(data.text).nats;
    std::printf("a GPT in %s: %zu parameters, %d x %d x %d tokens a step, on %s\n",
                o.precision.c_str(), run.P, o.micro_batches, o.batch, o.context,
                run.name().c_str());

    //! [state]
    mpt::loss_scale scale = o.scale > 0 ? mpt::loss_scale::fixed(o.scale) : mpt::loss_scale();
    if (o.precision != "fp16")
        scale = mpt::loss_scale::fixed(1); // the range of fp32
    else if (o.scale == 0)
        scale.value = 0x1p24f, scale.interval = 100;
    mpt::adamw adam;
    adam.beta2 = 0.95, adam.weight_decay = 0.1;
    const mpt::schedule rate{o.lr, o.lr / 10, o.steps / 20, o.steps};
    //! [state]
    progress bar(o.steps);
    curve losses{"training loss", {}, curve::faint};
    double first_rate = 0;
    //! [step]
    for (long step = 0; step < o.steps; ++step) {
        const window now = data(step); // micro-batches, and the targets of all of them
        const float S = scale.value;
        double loss = 0;
        for (const mpt::batch& b : now) { // gradient accumulation
            loss += model.forward(strategy, weights, b, acts) / double(now.tokens);
            model.backward(strategy, weights, b, acts, scale.seed(now.tokens), grads);
        }
        mpt::check_loss(loss, step + 1);
        const auto g = strategy.finish(grads);           // the fp32 sums, still scaled
        const mpt::health health = mpt::inspect(ops, g); // one read: finite?  squares
        if (scale.update(health.finite, mpt::describe(health, model.map))) {
            const double norm = mpt::norm(health) / S;
            const double factor = mpt::clip_factor(norm, o.clip) / S; // unscale and clip, in fp32
            const double lr = rate(o.sabotage == "schedule-runs-ahead" ? step : adam.applied);
            adam.step(ops, model.map, own, g, factor, lr); // fp32 master, rounded into the weights
            strategy.publish(weights);                     // to the other ranks, had we any
            //! [step]
            if (adam.applied == 1) first_rate = lr;
        }
        if (!scale.last.why.empty()) std::printf("%s\n", scale.last.line(step + 1).c_str());
        losses.points.push_back({double(step + 1), loss});
        bar.show(step + 1, mpt::join("loss ", loss, "  scale ", S));
    }
    const double held_out = run.loss(data.held_out());
    std::printf("\nheld-out loss %.3f nats a byte, bigram entropy %.3f\n", held_out, pairs);

    std::printf("\n%-12s %12s %12s\n", "bytes", "measured", "formula");
    const mpt::ledger& books = run.mem.books;
    const mpt::estimate said = formula(run, o);
    bool equal = books.peak_total() == said.total(); // before the sample needs room of its own
    for (int i = 0; i < mpt::kinds; ++i) {
        const mpt::kind k = mpt::kind(i);
        const std::size_t bytes = said.at(k);
        if (bytes > 0) std::printf("%-12s %12zu %12zu\n", to_string(k), books.at_peak(k), bytes);
        equal &= books.at_peak(k) == bytes;
    }
    std::printf("%-12s %12zu %12zu\n\n", "all", books.peak_total(), said.total());

    std::vector<int> text;
    for (const char c : std::string("The ")) text.push_back(c);
    std::string written = "The ";
    generate(model, run.mem, strategy, mpt::device_span<const T>(weights), text, {200},
             [&written](int token) { written += char(token); });
    std::printf("%s\n\n", written.c_str());
    if (!o.plot.empty()) {
        const plot p{"A small GPT learns in " + o.precision,
                     "step",
                     "nats a byte",
                     {losses, {"bigram entropy", {{0, pairs}}, curve::level}}};
        mpt::check(p.save(o.plot), "--plot ", o.plot,
                   ": cannot be written; give a file in a folder that exists");
    }

    claims claim;
    // expect: 120576 parameters, 2 x 4 x 64 tokens a step
    // expect: [holds] peak bytes measured = bytes by formula
    claim(equal, "peak bytes measured = bytes by formula");
    // expect: [holds] skipped steps cost no warm-up
    claim(first_rate == rate(0),
          "skipped steps cost no warm-up: the first step taken has its first rate");
    // expect: [holds] the held-out loss is below
    if (o.steps >= 500) claim(held_out < pairs, "the held-out loss is below the bigram entropy");
    return claim.status();
}

int main(int argc, char** argv) {
    choices o;
    arguments args(argc, argv, "28_gpt", "The whole step: a small GPT in 16 bits learns to write.");
    args.add("--precision", o.precision, "of weights and activations", {"fp32", "fp16", "bf16"});
    args.add("--steps", o.steps, "training steps", 20);
    args.add("--micro-batches", o.micro_batches, "a step", 1, 64);
    args.add("--batch", o.batch, "rows a micro-batch", 1, 1024);
    args.add("--context", o.context, "tokens a row", 2, 4096);
    args.add("--layers", o.layers, "blocks", 1, 100);
    args.add("--channels", o.channels, "width, a multiple of 4 heads", 4, 4096);
    args.add("--lr", o.lr, "learning rate after warm-up", 0);
    args.add("--clip", o.clip, "longest gradient; 0: any", 0);
    args.add("--scale", o.scale, "fix the loss scale of fp16; 0: dynamic", 0);
    args.add("--sabotage", o.sabotage, "break it", {"none", "schedule-runs-ahead"});
    args.add("--plot", o.plot, "draw the loss into this SVG file");
    args.add_data(o.data);
    args.add_threads(o.threads);
    return args.run([&] {
        if (o.precision == "fp32") return train<float>(o);
        return o.precision == "fp16" ? train<mpt::fp16>(o) : train<mpt::bf16>(o);
    });
}
