// SPDX-License-Identifier: MIT
// Stalled updates: 16-bit weights updated in place forget every step that is too small for them.
//
// broken: --format fp32 --steps 20 => [FAILS] fp32: 8192 of 8192 weights moved
// broken: --lr 0.1 --steps 20 => [FAILS] bf16: 8192 of 8192 weights moved
// broken: --format fp16 => [FAILS] trained in place, fp16 ends at least 0.1 nats above fp32
// with: --format fp16 --lr 2e-5 => [holds] fp16: 0 of 8192 weights moved
// with: --format fp16 --lr 2e-5 => [holds] |weight / update| from 4096 on: all updates lost
#include "common/args.hpp"         // arguments: the flags
#include "common/claims.hpp"       // claims: what is proved
#include "common/lost_updates.hpp" // lost_updates: what rounding undoes, counted
#include "common/mlp_run.hpp"      // mlp_run: model and buffers; next_byte: the data
#include "common/progress.hpp"     // progress: on stderr

#include "mpt/train/adamw.hpp"          // adamw: step
#include "mpt/train/clip.hpp"           // clip_factor
#include "mpt/train/inspect.hpp"        // inspect, norm
#include "mpt/train/loss_scale.hpp"     // check_loss
#include "mpt/train/master_weights.hpp" // cast: weights to fp32

using mpt::bf16, mpt::fp16;

struct options {
    std::string format = "bf16";
    long steps = 300;
    double lr = 1e-4;
    int rows = 256; // examples a step
    unsigned seed = 1;
    int threads = 0;
    std::string data;
};

//! [one]
// A weight of 1 after 100 updates of -u: widened, lessened, rounded again.
template <class T>
float after_100(
    float u, T (*round)(float) = [](float x) { return mpt::narrow<T>(x); }) {
    T w = round(1.0f);
    for (int i = 0; i < 100; ++i) w = round(mpt::widen(w) - u);
    return mpt::widen(w);
}
bf16 truncated(float x) { return bf16::from_bits(std::uint16_t(mpt::bits_of(x) >> 16)); }
//! [one]

//! [array]
// How many of 8192 weights between 1 and 2 move in 100 steps of AdamW, whose gradients are all 1:
// it asks each weight to move by lr, every time.
template <class T>
std::size_t moved_of_8192(const mpt::cpu& on, double lr) {
    constexpr std::size_t n = 8192;
    mpt::layout map;
    map.add_unit("array");
    map.add("array", {n}, 0); // one dimension: no weight decay
    std::vector<T> weights(n), ones(n, mpt::narrow<T>(1));
    std::vector<float> wide(n), m(n), v(n);
    for (std::size_t i = 0; i < n; ++i) weights[i] = mpt::narrow<T>(1 + float(i) / float(n));
    const std::vector<T> before = weights;
    const mpt::pieces<T> mine{{{weights.data(), n}, 0}}, g{{{ones.data(), n}, 0}};
    const mpt::adamw_state<T> own{{{{wide.data(), n}, 0}}, {m.data(), n}, {v.data(), n}, mine};
    mpt::adamw adam;
    for (int step = 0; step < 100; ++step) {
        mpt::cast(on, mine, own.master); // fp32 knows what the weights still know, no more
        adam.step(on, map, own, g, 1, lr);
    }
    return differing(before, weights);
}
//! [array]

// Train in T, in place. Returns the held-out loss.
template <class T>
double train(const options& o, next_byte& data, lost_updates<T>& updates) {
    mlp_run<T> run(o.rows, o.threads, o.seed, mpt::kind::temp);
    const std::vector<T> first = on_host(run.ops, run.weights);
    std::vector<T> before, after;
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

        before = on_host(run.ops, run.weights);
        mpt::cast(run.ops, run.owned.weights, run.owned.master); // new: fp32 for one step only
        adam.step(run.ops, run.model.map, run.owned, g, factor, o.lr); // ... rounded into weights
        run.strategy.publish(run.weights);
        //! [step]
        after = on_host(run.ops, run.weights);
        std::vector<float> wanted;
        for (const auto& p : run.owned.master)
            for (const float w : on_host(run.ops, p.data)) wanted.push_back(w);
        updates.count(before, wanted, after);
        bar.show(step + 1, mpt::join(mpt::name<T>(), " loss ", loss));
    }
    bar.finish();
    const double held_out = run.held_out_loss(data);
    std::printf("%s in place: %6zu of %zu weights moved, held-out loss %.3f\n", mpt::name<T>(),
                differing(first, after), run.P, held_out);
    return held_out;
}

template <class T>
int stalled_updates(const options& o) {
    claims claim;
    std::printf("a weight of 1 after 100 updates\n%8s %12s %12s %12s %16s\n", "of", "fp32", "fp16",
                "bf16", "bf16 truncated");
    // expect: -0.0001 0.98999834 1.00000000 1.00000000 0.60937500
    // expect: -0.0006 0.94000196 0.95117188 1.00000000 0.60937500
    for (const float u : {1e-4f, 6e-4f})
        std::printf("%8g %12.8f %12.8f %12.8f %16.8f\n", double(-u), double(after_100<float>(u)),
                    double(after_100<fp16>(u)), double(after_100<bf16>(u)),
                    double(after_100<bf16>(u, truncated)));
    std::printf("\n");

    next_byte data(o.data, o.seed);
    lost_updates<T> low;
    lost_updates<float> full;
    const double low_loss = train<T>(o, data, low), full_loss = train<float>(o, data, full);
    std::printf("\n");
    low.print();
    std::printf("\n");

    mpt::thread_pool pool(o.threads);
    mpt::memory mem;
    const std::size_t moved = moved_of_8192<T>(mpt::cpu(pool, mem, 0), o.lr);
    // expect: [holds] bf16: 0 of 8192 weights moved
    claim(moved == 0,
          mpt::join(mpt::name<T>(), ": ", moved, " of 8192 weights moved by 100 steps"));
    // expect: [holds] |weight / update| below 256: no update lost
    claim(low.asked[0] > 0 && low.lost[0] == 0,
          mpt::join("|weight / update| below ", low.edge, ": no update lost"));
    // expect: [holds] |weight / update| from 512 on: all updates lost
    claim(low.asked[2] > 0 && low.lost[2] == low.asked[2],
          mpt::join("|weight / update| from ", 2 * low.edge, " on: all updates lost"));
    // expect: [holds] trained in place, bf16 ends at least 0.1 nats above fp32
    claim(low_loss > full_loss + 0.1,
          mpt::join("trained in place, ", mpt::name<T>(), " ends at least 0.1 nats above fp32"));
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "03_stalled_updates",
                   "What rounding does to updates: 16-bit weights, updated in place.");
    args.add("--format", o.format, "of the weights", {"bf16", "fp16", "fp32"});
    args.add("--steps", o.steps, "training steps", 1);
    args.add("--lr", o.lr, "learning rate: about what a step moves a weight by", 0);
    args.add("--rows", o.rows, "examples a step", 1, 65536);
    args.add("--seed", o.seed, "of weights and data order", 0);
    args.add_data(o.data);
    args.add_threads(o.threads);
    return args.run([&] {
        if (o.format == "fp32") return stalled_updates<float>(o);
        return o.format == "fp16" ? stalled_updates<fp16>(o) : stalled_updates<bf16>(o);
    });
}
