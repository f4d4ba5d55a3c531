// SPDX-License-Identifier: MIT
// Random numbers and data across ranks: N ranks draw what one draws on the joined batch.
//
// broken: --sabotage same-data => [FAILS] 4 ranks draw the 16 rows of the joined batch, each once
// broken: --sabotage same-dropout => [FAILS] ... and its dropout masks, bit for bit
// broken: --sabotage same-dropout => [FAILS] no two ranks drop the same activations
// broken: --sabotage own-init => [FAILS] rank 1's first weights are not rank 0's
// broken: --sabotage own-init => [FAILS] after 20 steps rank 1's weights are not rank 0's
// broken: --sabotage mean-of-means => [FAILS] 30 over 30 tokens and 30 over 10 make a mean of 2
// broken: --sabotage mean-of-means => [FAILS] the gradient is the joined batch's, to rounding
// with: --ranks 3 --steps 3 => [holds] 3 ranks draw the 12 rows of the joined batch, each once
#include "common/args.hpp"     // arguments: the flags
#include "common/claims.hpp"   // claims: what is proved
#include "common/gpt_run.hpp"  // gpt_run, windows: model, buffers, text
#include "common/on_ranks.hpp" // on_ranks: what each rank returns

#include "mpt/comm/communicator.hpp" // communicator: sum, all_reduce
#include "mpt/train/adamw.hpp"       // adamw: step
#include "mpt/train/clip.hpp"        // clip_factor
#include "mpt/train/inspect.hpp"     // inspect, norm

#include <numeric>

struct options {
    std::string sabotage = "none", data;
    int ranks = 4;
    long steps = 20;
};

constexpr int M = 2, B = 2, T = 64; // a rank's window: micro-batches of rows of tokens

// What a rank has drawn and made, for the reader outside.
struct seen {
    std::vector<long> samples;             // row numbers in the joined batch
    std::vector<std::vector<int>> inputs;  // of each micro-batch (rows,T)
    std::vector<std::vector<float>> masks; // dropout of ones, layer 1 (rows,T)
    std::vector<float> first, last;        // weights, before and after
    std::vector<float> gradient;           // of the first step, over all ranks
    double loss = 0, tokens = 0;           // mean of the first step, and over how many targets
};

void look(gpt_run<float>& run, const window& w, seen& s) {
    for (const mpt::batch& b : w) {
        const std::size_t n = b.inputs.size();
        mpt::buffer<float> ones(run.mem, mpt::kind::temp, n, "ones");
        run.ops.fill(ones.span(), 1.0f);
        //! [mask]
        const mpt::dropout_key key{0, 1, b.step, b.sample}; // seed, layer, step, sample: no rank
        run.ops.dropout_forward<float>(ones.span(), ones.span(), run.model.config.dropout, key,
                                       {b.B, std::size_t(b.T)});
        //! [mask]
        s.inputs.emplace_back(n), s.masks.emplace_back(n);
        run.ops.copy_to_host(s.inputs.back(), b.inputs);
        run.ops.copy_to_host(s.masks.back(), ones.span());
    }
}

// rows: of a micro-batch, on each rank.
seen train(mpt::communicator& comm, int rows, const options& o) {
    mpt::gpt_config config;
    config.layers = 2, config.channels = 64, config.context = T, config.dropout = 0.2f;
    gpt_run<float> run(config, rows, M, 1);
    //! [place]
    run.start(1); // the same first weights everywhere: no rank in their address
    windows data(run.ops, run.mem, o.data, M, rows, T, comm.rank(), comm.size());
    //! [place]
    windows alone(run.ops, run.mem, o.data, M, rows, T);
    if (o.sabotage == "own-init") run.start(1 + std::uint64_t(comm.rank()));
    windows& mine = o.sabotage == "same-data" ? alone : data;
    const auto shorten = [&](long row, std::span<int> targets) { // rank r learns 64 >> r tokens
        for (int t = T >> (row / B % o.ranks); t < T; ++t)
            targets[std::size_t(t)] = mpt::ignored_target;
    };

    seen s;
    s.first = run.on_host(run.weights);
    mpt::adamw adam;
    //! [step]
    for (long step = 0; step < o.steps; ++step) {
        window now = mine.make(step, M, shorten);
        double tokens = comm.sum(double(now.tokens)); // on all ranks, before the first backward
        //! [step]
        if (step == 0)
            for (const mpt::batch& b : now)
                for (int row = 0; row < rows; ++row) s.samples.push_back(b.sample + row);
        if (o.sabotage == "mean-of-means") tokens = double(now.tokens) * comm.size();
        if (o.sabotage == "same-dropout")
            for (mpt::batch& b : now.micro_batches) b.sample = long(b.micro) * rows;
        if (step == 0) look(run, now, s);
        //! [sum]
        double loss = 0;
        for (const mpt::batch& b : now) {
            loss += run.model.forward(run.strategy, run.weights, b, run.acts) / tokens;
            run.model.backward(run.strategy, run.weights, b, run.acts, float(1 / tokens),
                               run.grads);
        }
        const auto g = run.strategy.finish(run.grads); // the sum over my window ...
        comm.all_reduce(run.grads.sum);                // ... and now over all ranks
        loss = comm.sum(loss);
        //! [sum]
        if (step == 0) s.gradient = run.on_host(run.grads.sum), s.loss = loss, s.tokens = tokens;
        const double factor = mpt::clip_factor(mpt::norm(mpt::inspect(run.ops, g)), 1);
        adam.step(run.ops, run.model.map, run.owned, g, factor, 3e-3);
    }
    s.last = run.on_host(run.weights);
    return s;
}

// The joined batch's order: micro-batch by micro-batch, in each rank by rank.
template <class V>
V joined(const std::vector<seen>& ranks, std::vector<V> seen::*part) {
    V all;
    for (std::size_t micro = 0; micro < M; ++micro)
        for (const seen& r : ranks) {
            const V& p = (r.*part)[micro];
            all.insert(all.end(), p.begin(), p.end());
        }
    return all;
}

// Two ranks: losses of 30 over 30 tokens and of 30 over 10.
double mean_of_two(bool of_means) {
    return on_ranks(2, [&](mpt::communicator& comm) {
        const double loss = 30, tokens = comm.rank() == 0 ? 30 : 10;
        if (of_means) return comm.sum(loss / tokens) / comm.size();
        //! [mean]
        return comm.sum(loss) / comm.sum(tokens);
        //! [mean]
    })[0];
}

int ranks(const options& o) {
    const int N = o.ranks;
    //! [two ways]
    const auto many = on_ranks(N, [&](auto& comm) { return train(comm, B, o); });
    const auto one = on_ranks(1, [&](auto& comm) {
        return train(comm, N * B, {"none", o.data, N, 1});
    });
    //! [two ways]
    std::vector<long> rows, all(std::size_t(N * M * B));
    std::printf("%6s  %-24s %s\n", "rank", "rows of micro-batch 0", "of micro-batch 1");
    for (int r = 0; r < N; ++r) {
        const std::vector<long>& s = many[std::size_t(r)].samples;
        std::printf("%6d  %2ld %-21ld %2ld %ld\n", r, s[0], s[1], s[2], s[3]);
        rows.insert(rows.end(), s.begin(), s.end());
    }
    std::sort(rows.begin(), rows.end());
    std::iota(all.begin(), all.end(), 0);

    const double away = apart(many[0].gradient, one[0].gradient);
    const double bound = 2 * one[0].tokens * 0x1p-24;
    std::printf("\nloss of the first step: %.6f on %d ranks, %.6f on one\n"
                "|gradient - joined batch's| = %.1e |it|; rounding explains up to %.1e\n\n",
                many[0].loss, N, one[0].loss, away, bound);

    claims claim;
    const auto agree = [&](std::vector<float> seen::*weights, const std::string& when) {
        int other = 0;
        for (int r = N; r-- > 1;)
            if (many[std::size_t(r)].*weights != many[0].*weights) other = r;
        claim(other == 0, other
                              ? mpt::join(when, "rank ", other, "'s ", when.empty() ? "first " : "",
                                          "weights are not rank 0's")
                              : mpt::join(when, "all ranks have the same weights, bit for bit"));
    };
    bool differ = true;
    for (std::size_t r = 1; r < many.size(); ++r)
        for (std::size_t q = 0; q < r; ++q) differ &= many[r].masks[0] != many[q].masks[0];
    const double mean = mean_of_two(o.sabotage == "mean-of-means");
    // expect: [holds] 4 ranks draw the 16 rows of the joined batch, each once
    claim(rows == all && joined(many, &seen::inputs) == joined(one, &seen::inputs),
          mpt::join(N, " ranks draw the ", all.size(), " rows of the joined batch, each once"));
    // expect: [holds] ... and its dropout masks, bit for bit
    claim(joined(many, &seen::masks) == joined(one, &seen::masks),
          "... and its dropout masks, bit for bit");
    // expect: [holds] no two ranks drop the same activations
    claim(differ, "no two ranks drop the same activations");
    // expect: [holds] all ranks have the same weights, bit for bit
    agree(&seen::first, "");
    // expect: [holds] after 20 steps all ranks have the same weights, bit for bit
    agree(&seen::last, mpt::join("after ", o.steps, " steps "));
    // expect: [holds] the gradient is the joined batch's, to rounding
    claim(away <= bound, "the gradient is the joined batch's, to rounding");
    // expect: [holds] 30 over 30 tokens and 30 over 10 make a mean of 1.5
    claim(mean == 1.5, mpt::join("30 over 30 tokens and 30 over 10 make a mean of ", mean));
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "20_ranks",
                   "Random numbers and data across ranks: a small GPT on threads that are ranks.");
    args.add("--ranks", o.ranks, "threads, each a rank", 2, 16);
    args.add("--steps", o.steps, "training steps", 1);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "same-data", "same-dropout", "own-init", "mean-of-means"});
    args.add_data(o.data);
    return args.run([&] { return ranks(o); });
}
