// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

struct state {
    std::vector<float> master;
    std::vector<mpt::bf16> weights;
};

state fresh(std::size_t n) {
    state s{any().list(n), {}};
    for (const float x : s.master) s.weights.push_back(mpt::bf16(x));
    return s;
}

} // namespace

PART("the master takes the step in fp32", 3) {
    for (const std::size_t n : {0u, 1u, 7u, 64u, 101u}) {
        state s = fresh(n);
        const std::vector<float> before = s.master;
        const float scale = std::ldexp(1.0f, any().between(0, 16)), rate = 0.01f;
        std::vector<mpt::bf16> g;
        std::vector<double> want;
        for (std::size_t i = 0; i < n; ++i) {
            g.push_back(mpt::bf16(any().number(scale)));
            want.push_back(double(before[i]) - 0.01 * double(float(g[i])) / double(scale));
        }
        step(s.master, s.weights, g, scale, rate);
        for (std::size_t i = 0; i < n; ++i) {
            // the product and the difference are each rounded once, the rate itself is an fp32
            const double size =
                std::abs(double(before[i])) + 0.01 * std::abs(double(float(g[i]))) / scale;
            within("master", s.master[i], want[i], 4 * 0x1p-24 * size, "4 roundings of fp32",
                   "unscaled and applied in fp32", mpt::join("element ", i, " of ", n));
        }
    }
}

PART("small steps add up", 3) {
    std::vector<float> master{1.0f};
    std::vector<mpt::bf16> weights{mpt::bf16(1.0f)}, g{mpt::bf16(1.0f)};
    for (int k = 0; k < 100; ++k) step(master, weights, g, 1, 1e-4f);
    // each of 100 differences is rounded once, by at most half of 2^-24 of 1
    within("the master after a hundred steps of 1e-4 down from 1", master[0], 0.99,
           100 * 0x1p-25 + 1e-7, "100 roundings, and 1e-4 is not exact in fp32",
           "bf16 alone would stay at 1");
    equals("its bf16 copy", float(weights[0]), float(mpt::bf16(master[0])),
           "the master, rounded once");
}

PART("weights are the rounded master", 2) {
    state s = fresh(33);
    std::vector<mpt::bf16> g;
    for (int i = 0; i < 33; ++i) g.push_back(mpt::bf16(any().number()));
    step(s.master, s.weights, g, 1024, 0.5f);
    for (std::size_t i = 0; i < 33; ++i)
        equals(mpt::join("weight ", i, " of 33"), float(s.weights[i]),
               float(mpt::bf16(s.master[i])), "rounded once, to nearest");
}
