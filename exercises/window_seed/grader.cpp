// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <numeric>

using namespace grade;

PART("the scale over the tokens of the whole window", 3) {
    for (int round = 0; round < 20; ++round) {
        std::vector<long> tokens(std::size_t(any().between(1, 6)));
        for (long& n : tokens) n = any().between(1, 4000);
        const float scale = std::ldexp(1.0f, any().between(0, 16));
        const long all = std::accumulate(tokens.begin(), tokens.end(), 0L);
        equals(mpt::join("seed of scale ", scale, " and ", all, " tokens"),
               window_seed(scale, tokens), float(double(scale) / double(all)),
               "one division, over all tokens of the window");
    }
}

PART("a micro-batch without targets adds nothing", 1) {
    const long tokens[] = {0, 30, 0, 10};
    equals("seed of scale 80 and 0, 30, 0, 10 tokens", window_seed(80, tokens), 2.0f,
           "it adds 0 to the sum of losses and 0 to the count");
    refuses(
        "a window without any target", [] { window_seed(1, {}); }, "no target tokens",
        "0/0 is not a number");
}
