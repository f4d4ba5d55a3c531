// SPDX-License-Identifier: MIT
// The training step in fp32: forward, backward, inspect, clip, update; every line is explained.
//
// broken: --steps 20 --seed-sum => [FAILS] 0 of 24 gradients agree
// broken: --steps 20 --lr 1e30 => loss is NaN
// cuda: --steps 60 --rows 64
// broken: --steps 1 => [FAILS] the held-out loss is below the unigram entropy
#include "common/args.hpp"     // arguments: the flags
#include "common/claims.hpp"   // claims: what is proved
#include "common/mlp_run.hpp"  // mlp_run: model and buffers; next_byte: the data
#include "common/progress.hpp" // progress: on stderr

#include "mpt/train/adamw.hpp"      // adamw: step
#include "mpt/train/clip.hpp"       // clip_factor
#include "mpt/train/inspect.hpp"    // inspect, norm
#include "mpt/train/loss_scale.hpp" // check_loss
#include "mpt/train/schedule.hpp"   // schedule

struct options {
    long steps = 500;
    int rows = 256; // examples a step
    double lr = 3e-3, clip = 1;
    unsigned seed = 1;
    int threads = 0;
    std::string data;
    bool seed_sum = false;
};

//! [difference]
// How many of 24 gradients, six of every tensor, are what the loss itself says: the same model in
// fp64, at weight + h and at weight - h.
int agreeing(const std::vector<float>& gradient, next_byte& data, const options& o) {
    mlp_run<double> exact(o.rows, o.threads, o.seed);
    std::vector<double> w = on_host(exact.ops, exact.weights);
    data.window(exact.ops, 0, exact.acts.x[0].span(), exact.targets);
    const auto loss_at = [&](std::size_t i, double weight) {
        std::swap(w[i], weight);
        exact.ops.copy_to_device(exact.weights, w);
        std::swap(w[i], weight);
        return exact.model.forward(exact.strategy, exact.weights, exact.targets, exact.acts) /
               o.rows;
    };
    int agree = 0;
    std::printf("%-16s %8s %14s %14s\n", "tensor", "element", "backward", "difference");
    for (const mpt::tensor_info& t : exact.model.map.tensors)
        for (std::size_t k = 0; k < 6; ++k) {
            const std::size_t i = t.begin + t.size * (2 * k + 1) / 12;
            constexpr double h = 1e-4; // its error: h^2 by the curve, 1e-15 / h by rounding
            const double expected = (loss_at(i, w[i] + h) - loss_at(i, w[i] - h)) / (2 * h);
            // Sums of 256 terms in fp32, each rounded by 6e-8, which may cancel.
            const bool close = std::abs(gradient[i] - expected) <= 1e-4 * std::abs(expected) + 1e-7;
            agree += close;
            if (k == 0)
                std::printf("%-16s %8zu %14.5e %14.5e\n", t.name.c_str(), i - t.begin,
                            double(gradient[i]), expected);
        }
    std::printf("\n");
    return agree;
}
//! [difference]

//! [bytes]
// Is the ledger's book what the formulas say?
bool bytes_equal(mlp_run<float, here>& run) {
    const auto& w = run.model.widths; // features, hidden, classes
    const std::size_t rows = std::size_t(run.acts.rows), kept = std::size_t(w[0] + 2 * w[1] + w[2]);
    const mpt::ledger& book = run.mem.books;
    bool equal = true;
    std::printf("%-12s %12s %12s   formula\n", "bytes", "measured", "computed");
    const auto line = [&](mpt::kind k, std::size_t computed, const char* formula) {
        std::printf("%-12s %12zu %12zu   %s\n", to_string(k), book.peak(k), computed, formula);
        equal &= book.peak(k) == computed;
    };
    line(mpt::kind::weights, 4 * run.P, "4 P");
    line(mpt::kind::grads, 4 * run.P, "4 P");
    line(mpt::kind::master, 0, "0: fp32 weights are their own master");
    line(mpt::kind::moments, 8 * run.P, "4 P for m, 4 P for v");
    line(mpt::kind::activations, 4 * rows * (kept + 2),
         "4 rows (features + 2 hidden + classes + 2)");
    std::printf("\n");
    return equal;
}
//! [bytes]

int step_in_fp32(const options& o) {
    claims claim;
    next_byte data(o.data, o.seed);
    mlp_run<float, here> run(o.rows, o.threads, o.seed);
    mpt::adamw adam;
    const mpt::schedule rate{o.lr, o.lr / 10, o.steps / 20, o.steps};
    std::vector<float> first_gradient;
    progress bar(o.steps);
    std::printf("%8s %10s %10s %10s\n", "step", "loss", "norm", "rate");
    //! [step]
    for (long step = 0; step < o.steps; ++step) {
        data.window(run.ops, step, run.acts.x[0].span(), run.targets);
        const double loss =
            run.model.forward(run.strategy, run.weights, run.targets, run.acts) / o.rows;
        mpt::check_loss(loss, step + 1); // NaN ends the run here, before it is in the weights

        const float seed = o.seed_sum ? 1.0f : 1.0f / float(o.rows); // d(mean loss) / d(one loss)
        run.model.backward(run.strategy, run.weights, run.targets, run.acts, seed, run.grads);
        const auto g = run.strategy.finish(run.grads);

        const mpt::health health = mpt::inspect(run.ops, g); // one read: finite? how long?
        mpt::check(health.finite, "step ", step + 1, ": ", mpt::describe(health, run.model.map));
        const double factor = mpt::clip_factor(mpt::norm(health), o.clip);
        const double lr = rate(adam.applied);
        adam.step(run.ops, run.model.map, run.owned, g, factor, lr);
        run.strategy.publish(run.weights); // alone: nobody waits for the new weights
        //! [step]
        if (step == 0) first_gradient = on_host(run.ops, run.grads.micro);
        if (step == 0 || (step + 1) % std::max(1L, o.steps / 5) == 0)
            std::printf("%8ld %10.3f %10.3f %10.1e\n", step + 1, loss, mpt::norm(health), lr);
        bar.show(step + 1, mpt::join("loss ", loss));
    }
    bar.finish();

    const double held_out = run.held_out_loss(data), unigram = data.unigram_entropy();
    std::printf(
        "\nnats a byte of the held-out text: %.3f; without a model %.3f; by the frequency of "
        "bytes %.3f\n\n",
        held_out, std::log(256.0), unigram);
    const int agree = agreeing(first_gradient, data, o);
    const bool equal = bytes_equal(run);

    // expect: [holds] the held-out loss is below the unigram entropy
    claim(held_out < unigram, "the held-out loss is below the unigram entropy");
    // expect: [holds] 24 of 24 gradients agree with a finite difference in fp64
    claim(agree == 24, mpt::join(agree, " of 24 gradients agree with a finite difference in fp64"));
    // expect: [holds] bytes measured = bytes computed; 16 a parameter = 4 + 4 + 8
    claim(equal, "bytes measured = bytes computed; 16 a parameter = 4 + 4 + 8");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "01_step",
                   "The training step in fp32: an MLP learns to tell the next byte of a text\n"
                   "from the bits of the last 8.");
    args.add("--steps", o.steps, "training steps", 1);
    args.add("--rows", o.rows, "examples a step", 1, 65536);
    args.add("--lr", o.lr, "learning rate after warm-up", 0);
    args.add("--clip", o.clip, "longest gradient; 0: any", 0);
    args.add("--seed", o.seed, "of weights and data order", 0);
    args.add("--seed-sum", o.seed_sum, "break it: backward starts from 1, not from 1 / rows");
    args.add_data(o.data);
    args.add_threads(o.threads);
    return args.run([&] { return step_in_fp32(o); });
}
