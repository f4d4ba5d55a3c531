// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <algorithm>

using namespace grade;

namespace {

void tried(const std::vector<float>& scores, const std::vector<float>& values, int tile,
           const char* what) {
    running r{-HUGE_VALF, 0, 0};
    for (std::size_t i = 0; i < scores.size(); i += std::size_t(tile)) {
        const std::size_t n = std::min(std::size_t(tile), scores.size() - i);
        add_tile(r, std::span(scores).subspan(i, n), std::span(values).subspan(i, n));
    }
    double most = -HUGE_VAL, sum = 0, out = 0, size = 0;
    for (const float s : scores) most = std::max(most, double(s));
    for (std::size_t i = 0; i < scores.size() && most > -HUGE_VAL; ++i) {
        const double e = std::exp(double(scores[i]) - most);
        sum += e, out += e * values[i], size += e * std::abs(values[i]);
    }
    const double want = sum > 0 ? out / sum : 0;
    // exponents err by half an ulp of up to 100, each of up to `tiles` shrinkings rounds twice
    const double roundings = 2.0 * double(scores.size()) / tile + 110;
    within(mpt::join(what, ", tiles of ", tile), result(r), want,
           roundings * 0x1p-24 * (sum > 0 ? size / sum : 0),
           mpt::join(roundings, " roundings of the magnitudes"),
           "the softmax of the whole row, times the values");
}

} // namespace

PART("the same as with the whole row at hand", 4) {
    for (const int tile : {int(exercise::parameter("tile")), 1, 2, 7, 64})
        for (const std::size_t n : {1u, 5u, 33u, 64u}) {
            std::vector<float> scores = any().list(n, 8);
            tried(scores, any().list(n), tile, "random scores");
            std::sort(scores.begin(), scores.end());
            tried(scores, any().list(n), tile, "scores that only rise");
        }
}
PART("large scores", 2) {
    tried({80, 100, 95, 99.5f}, {1, 2, 3, 4}, int(exercise::parameter("tile")), "scores near 100");
    tried({-1000, -1001, -1002}, {1, 2, 3}, 1, "scores near -1000");
}
PART("masked scores", 3) {
    const float none = -HUGE_VALF;
    const int tile = int(exercise::parameter("tile"));
    tried({none, none, none, none, 1, 2}, {9, 9, 9, 9, 1, 2}, tile, "a row that begins masked");
    tried({1, none, 2, none}, {1, 9, 2, 9}, tile, "some masked");
}
PART("a row that is masked throughout", 1) {
    const float none = -HUGE_VALF;
    running r{none, 0, 0};
    const float scores[] = {none, none, none}, values[] = {1, 2, 3};
    add_tile(r, scores, values);
    equals("the result", result(r), 0.0f, "0 and not 0/0: nothing was to be seen");
}
