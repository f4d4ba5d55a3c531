// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

void tried(const std::vector<float>& wide, const char* what) {
    std::vector<mpt::fp16> x, y;
    for (const float v : wide) x.push_back(mpt::fp16(v)), y.push_back(mpt::fp16(-99.0f));
    double mean = 0, variance = 0, largest = 0;
    for (const mpt::fp16 v : x)
        mean += float(v), largest = std::max(largest, std::abs(double(float(v))));
    mean /= double(x.size());
    for (const mpt::fp16 v : x) variance += (float(v) - mean) * (float(v) - mean);
    variance /= double(x.size());
    normalise(y, x, 1e-5f);
    const double scale = 1 / std::sqrt(variance + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double want = (float(x[i]) - mean) * scale;
        // y is rounded to fp16; the mean errs by n roundings of fp32 of the largest, times the
        // scale
        const double most = 0x1p-11 * std::abs(want) +
                            0x1p-24 * double(x.size() + 4) * (largest * scale + std::abs(want));
        within(mpt::join(what, ", a row of ", x.size()), float(y[i]), want, most,
               "fp16's half step and the roundings of fp32 sums",
               "everything between load and store is fp32", mpt::join("element ", i));
    }
}

} // namespace

PART("ordinary rows", 2) {
    for (const std::size_t n : {1u, 2u, 33u, 768u}) tried(any().list(n, 3), "ordinary numbers");
}
PART("squares beyond 65504", 3) {
    tried({300, -300, 300, -300}, "+-300");
    std::vector<float> x;
    for (int i = 0; i < 257; ++i) x.push_back(20000 * any().number());
    tried(x, "numbers up to 20000");
}
PART("a large mean", 3) {
    std::vector<float> x;
    for (int i = 0; i < 64; ++i) x.push_back(1000 + float(any().between(0, 4)) * 0.5f);
    tried(x, "1000 and a little");
}
