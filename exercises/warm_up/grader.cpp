// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

const char* formula = "the three cases of the statement";

double expected(const schedule& s, long it) {
    const double pi = 3.14159265358979323846;
    if (it < s.warmup) return s.rate * double(it + 1) / double(s.warmup + 1);
    if (it > s.decay) return s.least;
    return s.least + 0.5 * (1 + std::cos(pi * double(it - s.warmup) / double(s.decay - s.warmup))) *
                         (s.rate - s.least);
}

} // namespace

PART("your warm-up", 2) {
    schedule s;
    s.warmup = exercise::parameter("warmup"), s.decay = 10 * s.warmup;
    for (long it = 0; it <= s.warmup; ++it)
        near<double>(mpt::join("rate of the step after ", it, ", warm-up ", s.warmup),
                     rate_of(s, it), expected(s, it), 8, formula);
}
PART("the cosine and its end", 2) {
    const schedule paper{6e-4, 6e-5, 2000, 600000};
    for (const long it : {0L, 1999L, 2000L, 301000L, 600000L, 600001L, 10000000L})
        near<double>(mpt::join("rate of the step after ", it), rate_of(paper, it),
                     expected(paper, it), 8, formula);
    near<double>("halfway down", rate_of(paper, 301000), 3.3e-4, 8, "the mean of both rates");
}
PART("skipped steps do not count", 2) {
    schedule s;
    s.rate = 1e-3, s.warmup = 9, s.decay = 100;
    const std::vector<double> used = rates(s, {false, false, false, true, true});
    equals("how many rates", used.size(), std::size_t(5), "one an attempt");
    for (std::size_t i = 0; i < 5; ++i)
        near<double>(mpt::join("rate of attempt ", i + 1, " after three skipped ones"), used[i],
                     i < 4 ? 1e-4 : 2e-4, 8, "the first step that is applied uses the first rate");
}
