// SPDX-License-Identifier: MIT
// gradient_sizes.hpp -- the gradients of one window in fp16 at any scale, beside a twin in fp32: a
// table of what is lost, and a histogram.
#pragma once
#include "gpt_run.hpp" // gpt_run, window
#include "plot.hpp"    // plot
#include "watched.hpp" // watched, binades

#include "mpt/base/error.hpp" // check, join
#include "mpt/nn/drift.hpp"   // compare: shares of zeros, subnormal numbers, infinities

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

struct gradients_seen {
    std::vector<float> acts, weights; // in the order in which backward stored them
};

// All gradients of a window at scale S.
template <class Scalar>
gradients_seen backward_at(gpt_run<Scalar, watched>& run, const window& w, float S) {
    gradients_seen all;
    run.ops.seen = &all.acts;
    all.weights = run.gradient(run.strategy, w, [&](auto&) { return S / float(w.tokens); });
    run.ops.seen = nullptr;
    return all;
}

struct gradient_sizes {
    // The twin gets the same weights, exactly.
    gradient_sizes(gpt_run<mpt::fp16, watched>& low, gpt_run<float, watched>& twin, window on)
        : run(low), data(std::move(on)) {
        twin.ops.cast(twin.weights, run.weights);
        exact = backward_at(twin, data, 1);
        std::printf("\n%10s %25s %18s %25s\n%10s %7s %10s %8s %8s %7s %10s %8s\n", "",
                    "activations: %", "number", "weights: %", "scale", "zeroed", "subnormal", "inf",
                    "NaN", "zeroed", "subnormal", "not finite");
    }

    //! [row]
    // Prints the row of scale S; what became of the activations' gradients.
    mpt::drift row(float S) {
        const gradients_seen low = backward_at(run, data, S);
        const mpt::drift a = mpt::compare<mpt::fp16>(low.acts, exact.acts);
        const mpt::drift w = mpt::compare<mpt::fp16>(low.weights, exact.weights);
        std::printf("%10s %7.3f %10.3f %8zu %8zu %7.3f %10.3f %8zu\n",
                    mpt::join("2^", std::log2(S)).c_str(), a.underflow, a.subnormal, a.inf, a.nan,
                    w.underflow, w.subnormal, w.inf + w.nan);
        return a;
    }
    //! [row]

    void draw(const std::string& file, float unscaled, float found) const {
        curve limits{"limits of fp16", {}, curve::line};
        for (const double x : {-24, -14, 16}) // smallest, smallest normal, infinite
            for (const double y : {0.0, 12.0, double(NAN)}) limits.points.push_back({x, y});
        const plot p{"Gradients of a small GPT and the range of fp16",
                     "log2 |gradient|",
                     "percent",
                     {{"activations, 2^-10", binades(exact.acts, unscaled), curve::line},
                      {"weights, 2^-10", binades(exact.weights, unscaled), curve::line},
                      {"activations, scale found", binades(exact.acts, found), curve::line},
                      limits}};
        mpt::check(p.save(file), "--histogram ", file,
                   ": cannot be written; give a file in a folder that exists");
    }

    gpt_run<mpt::fp16, watched>& run;
    window data;
    gradients_seen exact;
};
