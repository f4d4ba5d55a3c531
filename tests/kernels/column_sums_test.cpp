// SPDX-License-Identifier: MIT
#include "mpt/kernels/column_sums.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

struct shape {
    int rows, columns;
    std::size_t offset; // elements by which x is off 16 bytes
};
const shape shapes[] = {{1, 1, 0},     {31, 33, 0},  {33, 31, 1}, {257, 257, 0}, {65, 1600, 0},
                        {3, 1601, 1},  {1600, 3, 0}, {1601, 7, 1}, {0, 33, 0},   {7, 0, 0},
                        {5000, 1, 0}}; // past 64 parts of 64 rows

template <class H>
std::vector<double> by_fp64(const std::vector<H>& x, const shape& s, bool magnitudes = false) {
    std::vector<double> sums(std::size_t(s.columns), 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double e = double(mpt::widen(x[i]));
        sums[i % sums.size()] += magnitudes ? std::fabs(e) : e;
    }
    return sums;
}

template <class T>
std::vector<host_t<T>> on_device(const std::vector<host_t<T>>& x, const shape& s) {
    const array<T> in(x, s.offset);
    array<T> y(std::size_t(s.columns), s.offset);
    const scratch room(column_sums_bytes(s.rows, s.columns));
    column_sums<T>(y, in, s.rows, s.columns, room, stream());
    return y.read();
}

// Roundings that a term may meet: its eighth of a part (79 rows at most here, so 10), the eight,
// the parts.
double bound_of(const shape& s, double magnitudes) {
    const int parts = column_sum_parts(s.rows);
    return ((s.rows / parts + 1) / sum_rows + 1 + sum_rows + parts) * 0x1p-24 * magnitudes;
}

} // namespace

TEST_CASE_TEMPLATE("the sums of columns, to the roundings of their order", T, float, __half,
                   __nv_bfloat16) {
    using H = host_t<T>;
    for (const shape& s : shapes) {
        const auto x = checks::numbers<H>(std::size_t(s.rows) * std::size_t(s.columns), 4);
        const auto magnitudes = by_fp64(x, s, true);
        CHECK(difference(on_device<T>(x, s), by_fp64(x, s), [&](std::size_t j) {
                  return bound_of(s, magnitudes[j]);
              }) == "");
    }
}

TEST_CASE("sabotage: a row that is left out, or taken twice, is seen") {
    const shape s{257, 33, 0};
    auto x = checks::numbers<float>(257 * 33, 4);
    const auto right = by_fp64(x, s), magnitudes = by_fp64(x, s, true);
    const auto bound = [&](std::size_t j) { return bound_of(s, magnitudes[j]); };
    for (const float factor : {0.0f, 2.0f}) {
        auto wrong = x;
        for (std::size_t j = 0; j < 33; ++j) wrong[200 * 33 + j] *= factor;
        CHECK(difference(on_device<float>(wrong, s), right, bound) != "");
    }
}
