// SPDX-License-Identifier: MIT
// ZeRO-1: each rank takes the step for its part only, and keeps the optimizer's state of that part.
//
// broken: --sabotage stale-weights => [FAILS] after step 1 rank 1's weights are not rank 0's
// broken: --sabotage local-norm => [FAILS] zero1 = ddp, bit for bit, reduced once and every
// broken: --sabotage local-norm => [holds] after each of 6 steps all ranks have the same weights
// broken: --sabotage no-agreement => rank 0 calls all_gather of 5376 fp16, rank 2 agree of 1 fp64
// with: --ranks 3 => [holds] zero1 = ddp, bit for bit, reduced once and every micro-batch
#include "common/args.hpp"       // arguments: the flags
#include "common/stage_runs.hpp" // beside_ddp, told

using mpt::fp16;

struct options {
    std::string sabotage = "none";
    int ranks = 4;
};

void break_it(ranks_run<fp16>& run, const std::string& how) {
    //! [sabotage]
    if (how == "stale-weights") run.publish = [] {}; // the step is taken; nobody is told
    if (how == "local-norm")                         // each rank clips by what it owns
        run.clip = [&](double, const mpt::health& mine) {
            return mpt::clip_factor(mpt::norm(mine) / run.scale.value, 1);
        };
    if (how == "no-agreement") { // each rank decides by what it owns
        run.agree = [](bool finite) { return finite; };
        run.clip = [](double, auto&) { return 1; }; // which refuses a norm of NaN
    }
    //! [sabotage]
}

// Bytes a parameter of master and moments, for more and more ranks.
bool over_ranks() {
    std::printf("%-8s %10s %12s %10s\n", "ranks", "4 + 12/N", "measured", "of 16");
    bool equal = true;
    for (const int N : {1, 2, 3, 4, 8}) {
        rank_plan p;
        p.stage = 1, p.M = 1, p.B = 1, p.steps = 1, p.overflow = -1;
        const auto found = stage_run(N, p, [](auto&) {});
        double bytes = 0;
        for (const trained& t : found)
            bytes += double(t.at(mpt::kind::weights) + t.at(mpt::kind::grads) +
                            t.at(mpt::kind::master) + t.at(mpt::kind::moments));
        const double P = double(found[0].P), pad = double(found[0].padded) - P;
        equal &= bytes == 4 * N * (P + pad) + 12 * P;
        std::printf("%-8d %10.4f %12.4f %9.1f%%\n", N, 4 + 12.0 / N, bytes / N / P,
                    100 * bytes / N / P / 16);
    }
    std::printf("\n");
    return equal;
}

int zero1(const options& o) {
    claims claim;
    rank_plan p;
    p.stage = 1;
    std::printf("one step, reduced once, on rank 0:\n");
    for (const std::string& line : told(o.ranks, p)) std::printf("  %s\n", line.c_str());
    std::printf("\n");
    // expect: [holds] after each of 6 steps all ranks have the same weights, bit for bit
    // expect: [holds] zero1 = ddp, bit for bit, reduced once and every micro-batch
    // expect: [holds] rank 1 overflows in step 4, in a part that another owns: all ranks skip it
    // expect: [holds] 4 + 12/N bytes a parameter, and fp32 sums: measured = formula
    // expect: [holds] elements sent: measured = formula, reduced once and every micro-batch
    beside_ddp(claim, o.ranks, p, "4 + 12/N", [&](auto& run) { break_it(run, o.sabotage); });
    // expect: [holds] on 1, 2, 3, 4 and 8 ranks: 16, 10, 8, 7 and 5.5 bytes, and padding
    claim(over_ranks(), "on 1, 2, 3, 4 and 8 ranks: 16, 10, 8, 7 and 5.5 bytes, and padding");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "22_zero1", "ZeRO-1: the optimizer's state in N parts.");
    args.add("--ranks", o.ranks, "threads, each a rank", 3, 8);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "stale-weights", "local-norm", "no-agreement"});
    return args.run([&] { return zero1(o); });
}
