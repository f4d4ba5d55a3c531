// SPDX-License-Identifier: MIT
#include "mpt/kernels/inspect.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace rig;

namespace {

template <class G>
inspect_result look(const std::vector<host_t<G>>& g, std::size_t offset = 0) {
    const array<G> on(g, offset);
    const scratch room(inspect_bytes(g.size()));
    array<unsigned char> result(sizeof(inspect_result));
    inspect<G>(reinterpret_cast<inspect_result*>(result.data()), on, g.size(), room, stream());
    const auto bytes = result.read();
    inspect_result r;
    std::memcpy(&r, bytes.data(), sizeof r);
    return r;
}

// What inspect must find, an element at a time.
template <class H>
inspect_result seen(const std::vector<H>& g) {
    inspect_result r{0, 0, 0};
    for (std::size_t i = 0; i < g.size(); ++i) {
        const double x = double(mpt::widen(g[i]));
        r.squares += x * x;
        if (std::isfinite(x)) continue;
        if (r.bad++ == 0) r.first_bad = i;
    }
    return r;
}

template <class G>
void check_squares(const std::vector<host_t<G>>& g, std::size_t offset) {
    const inspect_result found = look<G>(g, offset), wanted = seen(g);
    CHECK(found.bad == 0);
    CHECK(found.first_bad == 0);
    // In fp32 a pack of 8 squares of 16-bit numbers, which are exact, and 7 sums; or of 4 that are
    // rounded, and 3 sums. All terms are positive, so a term meets 7 roundings at most. Above it
    // fp64: a thread's packs, a block, the blocks, and as many as elements in `wanted`.
    CHECK(std::fabs(found.squares - wanted.squares) <=
          (7 * 0x1p-24 + double(2 * g.size()) * 0x1p-53) * wanted.squares);
    const inspect_result again = look<G>(g, offset);
    CHECK(std::memcmp(&again.squares, &found.squares, sizeof(double)) == 0);
}

} // namespace

TEST_CASE_TEMPLATE("squares of any length, at any address", G, float, __half, __nv_bfloat16) {
    for (const std::size_t n : {0, 1, 31, 33, 257, 1600, 1601, 9001})
        for (const std::size_t offset : {0, 1})
            check_squares<G>(checks::numbers<host_t<G>>(n, 1, 0.3), offset);
}

TEST_CASE("squares beyond the range of fp32") {
    for (const double size : {1e-30, 1e-18, 1e19, 3e37}) {
        check_squares<float>(checks::numbers<float>(1601, 2, size), 0);
        check_squares<__nv_bfloat16>(checks::numbers<mpt::bf16>(1601, 2, size), 0);
    }
    // one large among small: its pack is infinite in fp32
    auto g = checks::numbers<float>(1601, 3, 1e-3);
    g[700] = 2e19f;
    check_squares<float>(g, 0);
    check_squares<float>(std::vector<float>(1000), 0); // zeros
}

TEST_CASE_TEMPLATE("every bad element is counted, and the first is named", G, float, __half,
                   __nv_bfloat16) {
    using H = host_t<G>;
    const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    const std::size_t n = 30001; // 8 blocks
    for (const std::size_t offset : {0, 1})
        for (const auto& places : {std::vector<std::size_t>{0}, {n - 1}, {29999, 17},
                                   {4095, 4096, 12345, 30000}, {1024, 1023, 1022, 1021}}) {
            auto g = checks::numbers<H>(n, 4);
            float bad = inf;
            for (const std::size_t i : places) {
                g[i] = mpt::narrow<H>(bad);
                bad = bad == inf ? -inf : bad == -inf ? nan : inf;
            }
            const inspect_result found = look<G>(g, offset), wanted = seen(g);
            CHECK(found.bad == wanted.bad);
            CHECK(found.first_bad == wanted.first_bad);
        }
}

TEST_CASE("the same bits in any order of threads") {
    auto g = checks::numbers<float>(9001, 5);
    g[8000] = g[77] = g[500] = INFINITY;
    CHECK(in_all_orders([&] {
              const inspect_result r = look<float>(g);
              return std::vector<std::size_t>{std::size_t(r.bad), std::size_t(r.first_bad)};
          }) == "");
    g[8000] = g[77] = g[500] = 3;
    CHECK(in_all_orders([&] { return std::vector<double>{look<float>(g).squares}; }) == "");
}
