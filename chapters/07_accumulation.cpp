// SPDX-License-Identifier: MIT
// Gradient accumulation: a window of micro-batches is one large batch, in a part of its memory.
//
// broken: --mean-of-means => [FAILS] 10 over 10 tokens and 6 over 2 make a mean of 2
// broken: --mean-of-means => [FAILS] the window's gradient is the large batch's, to rounding
// broken: --full-count => [FAILS] a last window of 3 micro-batches has 0.75 of its length
// broken: --sum-in fp16 => [FAILS] the window's gradient is the large batch's, to rounding
// broken: --sum-in bf16 => [FAILS] the window's gradient is the large batch's, to rounding
#include "common/args.hpp"     // arguments: the flags
#include "common/claims.hpp"   // claims: what is proved
#include "common/gpt_run.hpp"  // gpt_run, windows: model, buffers, text
#include "common/low_sums.hpp" // sums_in, sum_of_ones: running sums in 16 bits
#include "common/progress.hpp" // progress: on stderr

#include "mpt/nn/batch.hpp"         // ignored_target
#include "mpt/train/adamw.hpp"      // adamw: step
#include "mpt/train/clip.hpp"       // clip_factor
#include "mpt/train/inspect.hpp"    // inspect, norm
#include "mpt/train/loss_scale.hpp" // check_loss
#include "mpt/train/schedule.hpp"   // schedule

#include <functional>
#include <numeric>

using mpt::bf16, mpt::fp16, mpt::kind;

struct options {
    long steps = 80;
    bool mean_of_means = false, full_count = false;
    std::string sum_in = "fp32", data;
    int threads = 0;
};

constexpr int M = 4, B = 2, T = 64; // a window: micro-batches of rows of tokens

//! [seed]
// What backward of micro-batch b starts from: 1 over the tokens of the whole window.
float seed(const window& w, const mpt::batch& b, const options& o) {
    if (o.mean_of_means) // wrong: each micro-batch over its own tokens, then the mean of these
        return float(1 / (double(w.valid[std::size_t(b.micro)]) * double(w.valid.size())));
    if (o.full_count) return 1.0f / float(M * B * T); // wrong: over those of a full window
    return 1.0f / float(w.tokens);
}
//! [seed]

//! [means]
// The mean loss of two micro-batches of 10 rows: 10 targets of loss 1 each; 2 of loss 3 each, the
// other 8 ignored.
double two_micro_batches(gpt_run<float>& run, const options& o) {
    std::vector<float> x(40, 0), losses(20); // (20,2) logits {0, x}: -log softmax[0] = log(1 + e^x)
    for (std::size_t i = 0; i < 20; ++i) x[2 * i + 1] = std::log(std::exp(i < 10 ? 1.f : 3.f) - 1);
    std::vector<int> targets(20, mpt::ignored_target);
    std::fill_n(targets.begin(), 12, 0);
    mpt::buffer<float> logits(run.mem, kind::temp, 40, "logits");
    mpt::buffer<float> loss(run.mem, kind::temp, 20, "losses");
    mpt::buffer<float> lse(run.mem, kind::temp, 20, "log of the sum of exp");
    mpt::buffer<int> target(run.mem, kind::temp, 20, "targets");
    run.ops.copy_to_device(logits.span(), x);
    run.ops.copy_to_device(target.span(), targets);
    run.ops.cross_entropy_forward(loss.span(), lse.span(), logits.span(), target.span(), 20, 2);
    run.ops.copy_to_host(losses, loss.span());
    const double first = std::accumulate(losses.begin(), losses.begin() + 10, 0.0);
    const double second = std::accumulate(losses.begin() + 10, losses.end(), 0.0);
    std::printf("%8s %8s %8s\n%8.4f %8d %8.4f\n%8.4f %8d %8.4f\n%8.4f %8d %8.4f\n\n", "losses",
                "targets", "mean", first, 10, first / 10, second, 2, second / 2, first + second, 12,
                (first + second) / 12);
    return o.mean_of_means ? (first / 10 + second / 2) / 2 : (first + second) / 12;
}
//! [means]

double length(const std::vector<float>& x) {
    return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

int accumulation(const options& o) {
    mpt::gpt_config config;
    config.layers = 2, config.channels = 64, config.context = T;
    gpt_run<float> run(config, B, M, o.threads);       // M micro-batches of B rows
    gpt_run<float> large(config, M * B, 1, o.threads); // one batch of M * B rows
    windows data(run.ops, run.mem, o.data, M, B, T);
    windows joined(large.ops, large.mem, o.data, 1, M * B, T);
    sums_in strategy(run, o.sum_in);
    //! [lengths]
    const auto shorten = [](long row, std::span<int> targets) { // 64, 32, 16, 8 tokens are learned
        for (int t = T >> (row / B); t < T; ++t) targets[std::size_t(t)] = mpt::ignored_target;
    };
    //! [lengths]

    mpt::adamw adam;
    const mpt::schedule rate{4e-3, 4e-4, o.steps / 20, o.steps};
    progress bar(o.steps);
    std::printf("%8s %14s %8s %8s\n", "step", "micro-batches", "targets", "loss");
    //! [step]
    for (long step = 0; step < o.steps; ++step) {
        const bool last = step + 1 == o.steps; // 3 micro-batches are left over
        const window now = data.make(step, last ? M - 1 : M, shorten);
        double loss = 0;
        for (const mpt::batch& b : now) {
            loss += run.model.forward(strategy, run.weights, b, run.acts) / double(now.tokens);
            run.model.backward(strategy, run.weights, b, run.acts, seed(now, b, o), run.grads);
        } // each unit's gradient was added to its fp32 sum as soon as it was ready
        mpt::check_loss(loss, step + 1);
        const auto g = strategy.finish(run.grads);
        const mpt::health health = mpt::inspect(run.ops, g);
        mpt::check(health.finite, "step ", step + 1, ": ", mpt::describe(health, run.model.map));
        const double factor = mpt::clip_factor(mpt::norm(health), 1);
        adam.step(run.ops, run.model.map, run.owned, g, factor, rate(adam.applied));
        strategy.publish(run.weights);
        //! [step]
        if (step == 0 || last || (step + 1) % std::max(1L, o.steps / 4) == 0)
            std::printf("%8ld %14zu %8ld %8.3f\n", step + 1, now.valid.size(), now.tokens, loss);
        bar.show(step + 1, mpt::join("loss ", loss));
    }
    std::printf("held-out loss %.3f\n\n", run.loss(data.held_out()));

    //! [equal]
    large.ops.cast(large.weights, run.weights);
    const auto in_parts = [&](const window& w) {
        return run.gradient(strategy, w, [&](const mpt::batch& b) { return seed(w, b, o); });
    };
    const auto as_one = [&](const window& w) {
        return large.gradient(large.strategy, w, [&](auto&) { return 1.0f / float(w.tokens); });
    };
    const auto no_fourth = [](long row, std::span<int> targets) {
        if (row >= (M - 1) * B) std::fill(targets.begin(), targets.end(), mpt::ignored_target);
    };
    const window w = data.make(0, M, shorten);
    const auto parts = in_parts(w), whole = as_one(joined.make(0, 1, shorten));
    const auto three = in_parts(data.make(0, M - 1, no_fourth)); // a window that ends early
    const auto empty = in_parts(data.make(0, M, no_fourth));     // ... one without targets follows
    const auto whole_three = as_one(joined.make(0, 1, no_fourth));
    //! [equal]
    std::vector<float> off(parts.size());
    std::transform(parts.begin(), parts.end(), whole.begin(), off.begin(), std::minus());
    std::size_t differ = 0;
    for (std::size_t i = 0; i < three.size(); ++i) differ += three[i] != empty[i];
    const double away = length(off) / length(whole), bound = 2 * double(w.tokens) * 0x1p-24;
    const double mean = two_micro_batches(run, o), share = length(three) / length(whole_three);
    std::printf("|window - large batch| = %.1e |large batch|; rounding explains up to %.1e\n", away,
                bound);
    std::printf("4096 x 1.0 in fp32: %g, in fp16: %g, in bf16: %g\n\n", sum_of_ones<float>(),
                sum_of_ones<fp16>(), sum_of_ones<bf16>());

    //! [bytes]
    std::printf("%-12s %12s %12s\n", "bytes", "window", "large batch");
    const mpt::ledger &small_books = run.mem.books, &large_books = large.mem.books;
    for (const kind k : {kind::grads, kind::sums, kind::activations})
        std::printf("%-12s %12zu %12zu\n", to_string(k), small_books.peak(k), large_books.peak(k));
    const bool more = small_books.peak(kind::sums) == 4 * run.P + large_books.peak(kind::sums);
    const bool quarter =
        M * small_books.peak(kind::activations) == large_books.peak(kind::activations);
    //! [bytes]

    std::printf("\n");
    claims claim;
    const auto shown = [](double x) { return std::round(x * 1e4) / 1e4; };
    // expect: [holds] 10 over 10 tokens and 6 over 2 make a mean of 1.3333
    claim(std::abs(mean - 16.0 / 12) < 1e-4,
          mpt::join("10 over 10 tokens and 6 over 2 make a mean of ", shown(mean)));
    // expect: [holds] the window's gradient is the large batch's, to rounding
    claim(away <= bound, "the window's gradient is the large batch's, to rounding");
    // expect: [holds] a last window of 3 micro-batches has 1 of its length
    claim(std::abs(share - 1) < 1e-4,
          mpt::join("a last window of 3 micro-batches has ", shown(share), " of its length"));
    // expect: [holds] a micro-batch without targets changes 0 of 120576 gradients
    claim(differ == 0,
          mpt::join("a micro-batch without targets changes ", differ, " of ", run.P, " gradients"));
    // expect: [holds] 4096 ones: 4096 in fp32, 2048 in fp16, 256 in bf16
    claim(sum_of_ones<float>() == 4096 && sum_of_ones<fp16>() == 2048 && sum_of_ones<bf16>() == 256,
          "4096 ones: 4096 in fp32, 2048 in fp16, 256 in bf16");
    // expect: [holds] a quarter of the activations, for 4 bytes a parameter more
    claim(more && quarter, "a quarter of the activations, for 4 bytes a parameter more");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "07_accumulation",
                   "Gradient accumulation: a small GPT learns from texts of different lengths, in "
                   "windows of 4 micro-batches, in fp32.");
    args.add("--steps", o.steps, "training steps", 20);
    args.add("--mean-of-means", o.mean_of_means, "break it: divide by a micro-batch's own tokens");
    args.add("--full-count", o.full_count, "break it: divide by the tokens of a full window");
    args.add("--sum-in", o.sum_in, "break it: round the sums", {"fp32", "fp16", "bf16"});
    args.add_data(o.data);
    args.add_threads(o.threads);
    return args.run([&] { return accumulation(o); });
}
