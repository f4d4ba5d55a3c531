// SPDX-License-Identifier: MIT
#include "mpt/kernels/sort.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace rig;

namespace {

// keys and positions, one behind the other.
std::vector<int> sort_on_device(const std::vector<int>& keys, int most) {
    const std::size_t n = keys.size();
    const array<int> on(keys);
    array<int> room(sort_bytes(n) / sizeof(int));
    const sorted s = sort_positions(on, n, most, room.data(), stream());
    const auto all = room.read();
    std::vector<int> result;
    for (const int* from : {s.keys, s.positions})
        result.insert(result.end(), all.begin() + (from - room.data()),
                      all.begin() + (from - room.data()) + long(n));
    return result;
}

std::vector<int> expected(std::vector<int> keys, int most) {
    for (int& k : keys)
        if (k < 0 || k > most) k = most;
    std::vector<int> positions(keys.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::stable_sort(positions.begin(), positions.end(), [&](int a, int b) {
        return keys[std::size_t(a)] < keys[std::size_t(b)];
    });
    std::vector<int> result;
    for (const int p : positions) result.push_back(keys[std::size_t(p)]);
    result.insert(result.end(), positions.begin(), positions.end());
    return result;
}

} // namespace

TEST_CASE("sorted, and equal keys in the order they had") {
    for (const std::size_t n : {0, 1, 31, 33, 257, 1600, 1601})
        for (const int most : {1, 7, 255, 256, 50257, 1 << 20, 1 << 30}) {
            auto keys = checks::tokens(n, std::uint32_t(most), most);
            if (n > 40) keys[3] = -5, keys[30] = most, keys[40] = 0x7FFFFFFF; // none of them
            CHECK(difference(sort_on_device(keys, most), expected(keys, most)) == "");
        }
}

TEST_CASE("the same in any order of threads") {
    const auto keys = checks::tokens(1601, 5, 40);
    CHECK(in_all_orders([&] { return sort_on_device(keys, 40); }) == "");
}

#if !defined(__CUDACC__)
namespace {

// Sabotage: places by atomics. Sorted, but equal keys come as their threads do.
__global__ void atomic_places_kernel(int* positions, int* next, const int* keys, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) positions[atomicAdd(&next[keys[i]], 1)] = i;
}

} // namespace

TEST_CASE("places by atomics depend on the order of threads: the comparison would see it") {
    const std::vector<int> keys(257, 0);
    CHECK(in_all_orders([&] {
              const array<int> on(keys);
              array<int> positions(257), next(std::vector<int>{0});
              mpt::launch<atomic_places_kernel>({3, 96, 0, stream()}, positions.data(),
                                                next.data(), static_cast<const int*>(on.data()),
                                                257);
              return positions.read();
          }) != "");
}
#endif
