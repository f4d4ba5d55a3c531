// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/kernels.hpp" // counted

#include "mpt/simt/device_buffer.hpp" // device_buffer

#include <array>
#include <vector>

using namespace grade;
using mpt::simt::access_counts;

namespace {

unsigned long long tile() { return static_cast<unsigned long long>(exercise::parameter("tile")); }

// Whole numbers of -8 to 8: their sums are exact in any order, so not one product may be missing.
std::vector<float> whole(std::size_t n) {
    std::vector<float> x(n);
    for (float& v : x) v = float(any().between(-8, 8));
    return x;
}

// Runs one product, holds it against the plain loop in fp64 and returns what it asked of memory.
// Each of k products and each of k - 1 sums is rounded by at most 2^-24 of the sum of magnitudes.
access_counts right(int m, int n, int k, std::vector<float> (*draw)(std::size_t)) {
    const std::vector<float> x = draw(std::size_t(m * k)), y = draw(std::size_t(k * n));
    mpt::simt::device_buffer<float> a(x), b(y), c{std::size_t(m * n)};
    const access_counts counts =
        counted([&] { product(c.data(), a.data(), b.data(), m, n, k, int(tile())); });
    const std::vector<float> found = c.read();
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            double sum = 0, size = 0;
            for (int p = 0; p < k; ++p) {
                const double add = double(x[std::size_t(i * k + p)]) * y[std::size_t(p * n + j)];
                sum += add, size += std::abs(add);
            }
            within(mpt::join("c[", i, "][", j, "] of ", m, " x ", n, ", k = ", k),
                   found[std::size_t(i * n + j)], sum, draw == whole ? 0 : (k + 1) * 0x1p-24 * size,
                   draw == whole ? "whole numbers add up exactly"
                                 : "k + 1 roundings of the sum of magnitudes",
                   "row i of a times column j of b");
        }
    return counts;
}
std::vector<float> ordinary(std::size_t n) { return any().list(n); }

void at_most(const std::string& what, unsigned long long found, unsigned long long most,
             const std::string& why) {
    if (found > most) throw wrong{what, "", text(found), mpt::join(most, " or fewer"), "", why};
}

} // namespace

PART("every element is its sum", 4) {
    const int t = int(tile());
    right(t, 2 * t, t, whole); // one tile of k
    right(2 * t, t, t, ordinary);
}
PART("edges anywhere", 3) {
    for (const auto& [m, n, k] :
         {std::array{1, 1, 1}, {1, 33, 31}, {31, 1, 33}, {33, 31, 37}, {2, 3, 67}, {5, 7, 0}}) {
        right(m, n, k, whole);
        right(m, n, k, ordinary);
    }
}
PART("no race, with two barriers a tile", 3) {
    const int t = int(tile());
    const access_counts counts = right(t, 2 * t, 3 * t, whole); // a race is thrown
    at_most("barriers of 2 blocks with 3 tiles each", counts.barriers, 2 * 3 * 2,
            "one when the tiles are whole, one when all are done with them");
}
PART("memory is read by tiles", 4) {
    const int t = int(tile());
    const access_counts counts = right(t, 2 * t, 3 * t, whole);
    at_most(mpt::join("sectors read for 2 blocks, 3 tiles each of a and of b, ", t, " x ", t),
            counts.global_load_sectors, 2 * 3 * 2 * tile() * tile() / 8,
            "each number of a tile is fetched once a block, 8 numbers that lie side by side a "
            "sector");
}
