// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

void tried(std::vector<float> p, const std::vector<float>& u, const std::vector<std::size_t>& ends,
           double rate) {
    const std::vector<float> before = p;
    const std::vector<double> ratios = lamb_step(p, u, ends, rate);
    equals("how many ratios", ratios.size(), ends.size(), "one a tensor");
    std::size_t begin = 0;
    for (std::size_t t = 0; t < ends.size(); begin = ends[t++]) {
        double pp = 0, uu = 0;
        for (std::size_t i = begin; i < ends[t]; ++i)
            pp += double(before[i]) * double(before[i]), uu += double(u[i]) * double(u[i]);
        const double want = pp > 0 && uu > 0 ? std::sqrt(pp / uu) : 1;
        within(mpt::join("ratio of tensor ", t, " of ", ends.size()), ratios[t], want, 1e-6 * want,
               "sums of fp32 squares, in fp64", "its own lengths, not those of the whole");
        for (std::size_t i = begin; i < ends[t]; ++i) {
            const double move = rate * want * u[i];
            within(mpt::join("p in tensor ", t), p[i], before[i] - move,
                   0x1p-23 * (std::abs(before[i]) + std::abs(move)), "two roundings of fp32",
                   "p -= rate * ratio * u", mpt::join("element ", i));
        }
    }
}

} // namespace

PART("each tensor by its own lengths", 3) {
    std::vector<float> p = any().list(70), u = any().list(70);
    for (std::size_t i = 20; i < 40; ++i) p[i] *= 1000; // a tensor that is much larger
    tried(p, u, {20, 40, 41, 70}, 0.01);
    tried({3, 4}, {1, -1}, {2}, 0.01);
}
PART("tensors of zeros", 2) { tried({0, 0, 1, 2}, {1, 1, 0, 0}, {2, 4}, 0.5); }
PART("an empty tensor, and none", 1) {
    tried({1, 2}, {1, 1}, {1, 1, 2}, 0.1);
    tried({}, {}, {}, 0.1);
}
