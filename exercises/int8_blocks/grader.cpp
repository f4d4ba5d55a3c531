// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

struct stored {
    std::vector<std::int8_t> codes;
    std::vector<float> absmax, back;
};

stored through(const std::vector<float>& x, int block) {
    stored s;
    s.codes.assign(x.size(), 99);
    s.absmax.assign((x.size() + std::size_t(block) - 1) / std::size_t(block), -1);
    s.back.resize(x.size());
    quantize(s.codes, s.absmax, x, block);
    restore(s.back, s.codes, s.absmax, block);
    return s;
}

void tried(const std::vector<float>& x, int block) {
    const stored s = through(x, block);
    for (std::size_t b = 0; b < s.absmax.size(); ++b) {
        const std::size_t begin = b * std::size_t(block),
                          end = std::min(x.size(), begin + std::size_t(block));
        float most = 0;
        for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(x[i]));
        equals(mpt::join("absmax of block ", b, " of ", s.absmax.size()), s.absmax[b], most,
               "the largest magnitude of these numbers");
        for (std::size_t i = begin; i < end; ++i) {
            const int want = most == 0 ? 0 : int(std::nearbyint(127 * double(x[i]) / double(most)));
            equals(mpt::join("code of element ", i, " of ", x.size(), " in blocks of ", block),
                   int(s.codes[i]), want, "the nearest of 127 steps to the block's absmax");
            within("what comes back", s.back[i], x[i], most / 254.0 * (1 + 1e-6),
                   "half a step of its block", "codes / 127 * absmax",
                   mpt::join("element ", i, " of ", x.size()));
        }
    }
}

} // namespace

PART("your block size", 3) {
    const int block = int(exercise::parameter("block"));
    for (const int n : {1, block - 1, block, block + 1, 5 * block + 7})
        tried(any().list(std::size_t(n)), block);
}
PART("other sizes, and nothing at all", 2) {
    for (const int block : {1, 7, 256}) tried(any().list(1000), block);
    tried({1, -0.5f, 0.1f}, 3); // the largest is 1
    tried({}, 16);
}
PART("an outlier spoils its own block alone", 2) {
    const int block = int(exercise::parameter("block"));
    std::vector<float> x = any().list(std::size_t(3 * block), 1e-3f);
    x[std::size_t(block) + 3] = 100;
    tried(x, block);
}
PART("a block of zeros", 1) { tried(std::vector<float>(70), 32); }
