// SPDX-License-Identifier: MIT
// Master weights: 16-bit weights compute, fp32 weights learn; the loss falls as in fp32.
//
// broken: --no-master => [FAILS] bf16 with a master ends within 1 % of fp32
// broken: --no-master => [FAILS] 12 bytes a parameter = 2 + 2 + 0 + 8
// with: --format fp16 --lr 2e-5 => [holds] fp16 with a master ends within 1 % of fp32
#include "common/args.hpp"     // arguments: the flags
#include "common/claims.hpp"   // claims: what is proved
#include "common/mlp_run.hpp"  // mlp_run: model and buffers; next_byte: the data
#include "common/plot.hpp"     // plot: the loss curves
#include "common/progress.hpp" // progress: on stderr

#include "mpt/train/adamw.hpp"          // adamw: step
#include "mpt/train/clip.hpp"           // clip_factor
#include "mpt/train/inspect.hpp"        // inspect, norm
#include "mpt/train/loss_scale.hpp"     // check_loss
#include "mpt/train/master_weights.hpp" // cast: weights to fp32

using mpt::bf16, mpt::fp16, mpt::kind;

struct options {
    std::string format = "bf16", svg;
    long steps = 300;
    double lr = 1e-4;
    int rows = 256; // examples a step
    unsigned seed = 1;
    int threads = 0;
    std::string data;
    bool no_master = false;
};

struct outcome {
    curve losses;                                // of training, the mean of 10 steps a point
    double held_out = 0;                         // loss after training
    std::size_t moved = 0, P = 0;                // weights (as T) that are not what they were
    std::size_t states[4] = {}, activations = 0; // bytes: a parameter of each kind; a row

    std::size_t state_bytes() const { return states[0] + states[1] + states[2] + states[3]; }
    void print() const {
        std::printf("%-16s %8zu of %zu %10.3f %6zu = %zu + %zu + %zu + %zu %12zu\n",
                    losses.name.c_str(), moved, P, held_out, state_bytes(), states[0], states[1],
                    states[2], states[3], activations);
    }
};

template <class T>
outcome train(const options& o, next_byte& data, const std::string& name, bool keep_master) {
    mlp_run<T> run(o.rows, o.threads, o.seed, keep_master ? kind::master : kind::temp);
    const std::vector<T> first = on_host(run.ops, run.weights);
    outcome result;
    result.losses.name = name;
    double sum = 0;
    mpt::adamw adam;
    progress bar(o.steps);
    //! [step]
    for (long step = 0; step < o.steps; ++step) {
        data.window(run.ops, step, run.acts.x[0].span(), run.targets);
        const double loss =
            run.model.forward(run.strategy, run.weights, run.targets, run.acts) / o.rows;
        mpt::check_loss(loss, step + 1);
        const float seed = 1.0f / float(o.rows);
        run.model.backward(run.strategy, run.weights, run.targets, run.acts, seed, run.grads);
        const auto g = run.strategy.finish(run.grads);
        const mpt::health health = mpt::inspect(run.ops, g);
        mpt::check(health.finite, "step ", step + 1, ": ", mpt::describe(health, run.model.map));
        const double factor = mpt::clip_factor(mpt::norm(health), 1);

        if (!keep_master) mpt::cast(run.ops, run.owned.weights, run.owned.master); // chapter 3
        adam.step(run.ops, run.model.map, run.owned, g, factor, o.lr); // master, then weights
        run.strategy.publish(run.weights);
        //! [step]
        sum += loss;
        if ((step + 1) % 10 == 0) {
            result.losses.points.push_back({double(step + 1), sum / 10});
            sum = 0;
        }
        bar.show(step + 1, mpt::join(name, ": loss ", loss));
    }
    bar.finish();
    result.held_out = run.held_out_loss(data);
    result.moved = differing(first, on_host(run.ops, run.weights));
    //! [bytes]
    result.P = run.P;
    const kind kinds[4] = {kind::weights, kind::grads, kind::master, kind::moments};
    for (int i = 0; i < 4; ++i) result.states[i] = run.mem.books.peak(kinds[i]) / run.P;
    result.activations = run.mem.books.peak(kind::activations) / std::size_t(o.rows);
    //! [bytes]
    result.print();
    return result;
}

template <class T>
int master_weights(const options& o) {
    claims claim;
    next_byte data(o.data, o.seed);
    const std::string format = mpt::name<T>();
    std::printf("%-16s %17s %10s %22s %12s\n", "", "weights moved", "held out", "bytes a parameter",
                "acts a row");
    const outcome full = train<float>(o, data, "fp32", true);
    const outcome in_place = train<T>(o, data, format + " in place", false);
    const outcome mixed =
        train<T>(o, data, format + (o.no_master ? ", no master" : " and master"), !o.no_master);
    std::printf("bytes a parameter = weights + gradients + master + moments\n\n");

    const auto near = [&](const outcome& r) {
        return std::abs(r.held_out - full.held_out) <= 0.01 * full.held_out;
    };
    // expect: [holds] bf16 in place does not end within 1 % of fp32
    claim(!near(in_place), format + " in place does not end within 1 % of fp32");
    // expect: [holds] bf16 with a master ends within 1 % of fp32
    claim(near(mixed), format + " with a master ends within 1 % of fp32");
    // expect: [holds] with a master, a quarter of all weights moves that did not without
    claim(mixed.moved >= in_place.moved + mixed.P / 4,
          "with a master, a quarter of all weights moves that did not without");
    // expect: [holds] 16 bytes a parameter = 2 + 2 + 4 + 8, as many as in fp32
    claim(mixed.state_bytes() == 16 && full.state_bytes() == 16,
          mpt::join(mixed.state_bytes(), " bytes a parameter = ", mixed.states[0], " + ",
                    mixed.states[1], " + ", mixed.states[2], " + ", mixed.states[3],
                    mixed.states[2] ? ", as many as in fp32" : ": the steps have no memory"));
    // expect: [holds] 1672 bytes of activations a row, 3336 in fp32
    claim(mixed.activations == 1672 && full.activations == 3336,
          mpt::join(mixed.activations, " bytes of activations a row, ", full.activations,
                    " in fp32"));

    if (!o.svg.empty()) {
        const plot picture{
            "Loss with and without fp32 master weights, learning rate " + mpt::shortest(o.lr),
            "step",
            "nats a byte",
            {full.losses, in_place.losses, {mixed.losses.name, mixed.losses.points, curve::dots}}};
        mpt::check(picture.save(o.svg), o.svg, ": cannot be written; give another path to --svg");
    }
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "04_master_weights",
                   "16-bit weights with and without an fp32 master copy, beside fp32.");
    args.add("--format", o.format, "of weights, gradients and activations", {"bf16", "fp16"});
    args.add("--no-master", o.no_master, "break it: the master is forgotten after every step");
    args.add("--steps", o.steps, "training steps", 1);
    args.add("--lr", o.lr, "learning rate: about what a step moves a weight by", 0);
    args.add("--rows", o.rows, "examples a step", 1, 65536);
    args.add("--seed", o.seed, "of weights and data order", 0);
    args.add("--svg", o.svg, "draw the three loss curves into this file");
    args.add_data(o.data);
    args.add_threads(o.threads);
    return args.run(
        [&] { return o.format == "fp16" ? master_weights<fp16>(o) : master_weights<bf16>(o); });
}
