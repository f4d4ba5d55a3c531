// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

void moves(const std::vector<float>& truth, float scale, double max_norm) {
    std::vector<float> w = any().list(truth.size()), grads, before = w;
    for (const float g : truth) grads.push_back(g * scale); // powers of two: exact
    const std::vector<float> kept = grads;
    const outcome o = step(w, grads, scale, max_norm, 0.5f);
    double squares = 0;
    for (const float g : truth) squares += double(g) * double(g);
    const double norm = std::sqrt(squares), clip = std::min(1.0, max_norm / (norm + 1e-6));
    equals("is a finite step applied", o.applied, true, "nothing is wrong with its gradients");
    within(mpt::join("the norm with scale ", scale), o.norm, norm, 1e-12 * norm, "fp64 roundings",
           "the norm of what the loss really says, whatever the scale");
    for (std::size_t i = 0; i < w.size(); ++i) {
        const double move = 0.5 * clip * truth[i];
        within(mpt::join("how far w moved, with scale ", scale, " and max_norm ", max_norm),
               double(before[i]) - double(w[i]), move,
               0x1p-24 * std::abs(before[i]) + 4 * 0x1p-24 * std::abs(move), "5 roundings of fp32",
               "clipped by the true norm", mpt::join("element ", i, " of ", w.size()));
    }
    same<float>("the gradients after the step", grads, kept, "they are only read");
}

} // namespace

PART("the step does not depend on the scale", 4) {
    for (const float scale : {1.0f, 8.0f, 65536.0f}) {
        moves({0.3f, 0.4f}, scale, 1); // not clipped
        moves({3, 4}, scale, 1);       // clipped to a fifth
        moves(any().list(37), scale, 1e9);
        moves(any().list(37), scale, 1e-3);
    }
}
PART("a step that is not finite changes nothing", 3) {
    for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
        std::vector<float> w{1, 2, 3}, grads{0.5f, bad, 1}, before = w;
        equals(mpt::join("is a step with a gradient of ", bad, " applied"),
               step(w, grads, 2, 1, 0.1f).applied, false, "it would make NaN of the weights");
        same<float>("w after a skipped step", w, before, "skipping means: not a bit changes");
    }
}
PART("the norm that is told is the true one", 1) {
    std::vector<float> w(2), grads{3 * 1024.0f, 4 * 1024.0f};
    near<double>("the norm of 3, 4 at scale 1024", step(w, grads, 1024, 1, 0).norm, 5, 4,
                 "a log with 5120 in it would be read as an explosion");
}
