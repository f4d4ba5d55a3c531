// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

// Micro-batches whose sum-of-losses gradients are known.
struct window {
    std::vector<long> tokens;
    std::vector<std::vector<float>> gradient; // of the sum of losses, for seed 1
    std::vector<int> calls;

    backward run() {
        return [this](int micro, float seed) {
            calls.push_back(micro);
            std::vector<mpt::bf16> g;
            for (const float x : gradient[std::size_t(micro)]) g.push_back(mpt::bf16(x * seed));
            return g;
        };
    }
};

window draw(int micros, std::size_t n) {
    window w;
    for (int k = 0; k < micros; ++k) {
        w.tokens.push_back(any().between(1, 50));
        w.gradient.push_back(any().list(n, float(w.tokens.back())));
    }
    return w;
}

} // namespace

PART("every token of the window weighs the same", 4) {
    for (const int micros : {1, 2, 3, 5, 7}) {
        window w = draw(micros, 11);
        const std::vector<float> found = window_gradient(w.run(), w.tokens, 512);
        long all = 0;
        for (const long n : w.tokens) all += n;
        equals("how many gradients", found.size(), std::size_t(11), "as many as a micro-batch has");
        for (std::size_t i = 0; i < 11; ++i) {
            double want = 0, size = 0;
            for (const auto& g : w.gradient)
                want += 512.0 * g[i] / double(all), size += 512.0 * std::abs(g[i]) / double(all);
            within(mpt::join("gradient of ", micros, " micro-batches"), found[i], want,
                   (0x1p-8 + (micros + 2) * 0x1p-24) * size,
                   "bf16's half step of every summand, and the roundings of the sum",
                   "sum of the tokens' gradients over the tokens of the window",
                   mpt::join("element ", i, " of 11"));
        }
    }
}

PART("the example: losses 10 over 10 tokens and 6 over 2", 1) {
    window w;
    w.tokens = {10, 2};
    w.gradient = {{10}, {6}};
    // 10/12 and 6/12 in bf16
    const float want = float(mpt::bf16(10 * (1.0f / 12))) + float(mpt::bf16(6 * (1.0f / 12)));
    equals("the mean", window_gradient(w.run(), w.tokens, 1).at(0), want,
           "16/12 and not (1 + 3)/2");
}

PART("the sum is fp32", 2) {
    window w;
    for (int k = 0; k < 4096; ++k) w.tokens.push_back(1), w.gradient.push_back({1});
    equals("4096 micro-batches that give 1 each", window_gradient(w.run(), w.tokens, 4096).at(0),
           4096.0f, "in bf16 the sum stops at 256");
}

PART("each micro-batch is run once, also one without targets", 1) {
    window w = draw(3, 2);
    w.tokens[1] = 0, w.gradient[1] = {0, 0};
    const std::vector<float> found = window_gradient(w.run(), w.tokens, 1);
    equals("calls", w.calls.size(), std::size_t(3), "once each");
    for (int k = 0; k < 3; ++k)
        equals("order of the calls", w.calls[std::size_t(k)], k, "as they come");
    for (const float x : found)
        equals("is the gradient a number", std::isfinite(x), true, "0 tokens of one of three");
}
