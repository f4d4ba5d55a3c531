// SPDX-License-Identifier: MIT
#include "mpt/kernels/rank_order_sum.cuh"
#include "mpt/comm/rank_order_sum.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

// The sum of `ranks` ranks' numbers as rank `rank` takes it on the device, and on the host.
template <class T>
void same_on_both(int ranks, int rank, std::size_t n, std::size_t stride, std::size_t offset) {
    using H = host_t<T>;
    std::vector<std::vector<H>> all;
    std::vector<const H*> parts;
    std::vector<H> rows(std::size_t(ranks) * stride, H(std::numeric_limits<float>::quiet_NaN()));
    for (int r = 0; r < ranks; ++r) {
        all.push_back(checks::numbers<H>(n, std::uint32_t(r + 1), r % 2 ? 1e-3 : 100));
        if (r != rank) // the own row is not read
            std::copy(all.back().begin(), all.back().end(),
                      rows.begin() + std::ptrdiff_t(r * stride));
    }
    for (const auto& x : all) parts.push_back(x.data());
    std::vector<H> wanted(n);
    mpt::sum_in_rank_order(std::span<const H* const>(parts), wanted.data(), n);

    array<T> own(all[std::size_t(rank)], offset), others(rows, 0), out(n, offset);
    rank_order_sum<T>(own, rank, others, stride, ranks, out, n, stream());
    CHECK(difference(out.read(), wanted) == "");
    rank_order_sum<T>(own, rank, others, stride, ranks, own.data(), n, stream()); // in place
    CHECK(difference(own.read(), wanted) == "");
}

} // namespace

TEST_CASE_TEMPLATE("the bits of the loop, for every rank", T, float, __half, __nv_bfloat16) {
    for (const int ranks : {1, 2, 3, 8})
        for (const std::size_t n : {0, 1, 33, 257, 1600})
            for (const int rank : {0, ranks - 1})
                for (const std::size_t offset : {0, 1})
                    same_on_both<T>(ranks, rank, n, n + offset, offset);
}

TEST_CASE("another order has other bits") {
    const std::vector<float> own = {1e8f}, rows = {1e8f, 1, -1e8f, 1}; // of ranks 0 to 3
    const array<float> mine(own, 0), others(rows, 0);
    array<float> out(1, 0);
    rank_order_sum<float>(mine, 0, others, 1, 4, out, 1, stream());
    CHECK(out.read()[0] == 1); // (1e8 + 1) - 1e8 + 1: the first 1 is lost
    const array<float> swapped(std::vector<float>{1e8f, -1e8f, 1, 1}, 0);
    rank_order_sum<float>(mine, 0, swapped, 1, 4, out, 1, stream());
    CHECK(out.read()[0] == 2);
}
