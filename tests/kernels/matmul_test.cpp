// SPDX-License-Identifier: MIT
#include "mpt/kernels/matmul.cuh"
#include "tests/kernels/products.hpp"
#if defined(MPT_SIMT_CHECK)
#include "mpt/simt/counting.hpp"
#endif

#include <doctest/doctest.h>

using namespace products;

namespace {

template <class T>
struct step {
    const char* name;
    typename problem<T>::step run;
};
template <class T>
std::vector<step<T>> steps() {
    return {{"naive", matmul_naive<T>},
            {"coalesced", matmul_coalesced<T>},
            {"tiled", matmul_tiled<T>},
            {"registers", matmul_registers<T>}};
}

// What matmul_registers takes where there are 128 such tiles and more.
template <class T>
void tiles_of_128(matmul_args<T> x, cudaStream_t s) {
    mpt::launch<matmul_registers_kernel<T, 8>>(
        {{tiles_of(x.n, 128), tiles_of(x.m, 128)}, 256, 0, s}, with_leading(x));
}

} // namespace

TEST_CASE_TEMPLATE("each step gives the product", T, float, __half, __nv_bfloat16) {
    for (const kind& is : kinds()) {
        problem<T> p(is);
        for (const step<T>& s : steps<T>()) {
            const std::string what = p.check(s.run);
            CHECK_MESSAGE(what == "", s.name, ": ", text(is), ": ", what);
        }
    }
}

TEST_CASE_TEMPLATE("tiles of 128", T, float, __half, __nv_bfloat16) {
    for (int lies = 0; lies < 4; lies += probed ? 3 : 1) {
        problem<T> p({130, 264 - 130 * (lies % 2), probed ? 9 : 70, lies % 2 == 1, lies / 2 == 1,
                      true, lies == 2, lies * 4});
        CHECK(p.check(tiles_of_128<T>) == "");
    }
}

TEST_CASE("any order of threads gives the same bits") {
    problem<__half> p({33, 67, 36, false, true, true, true});
    for (const step<__half>& s : steps<__half>())
        CHECK(in_all_orders([&] { return p.run(s.run, p.args()); }) == "");
}

TEST_CASE("tf32: the operands are rounded, and that shows") {
    problem<float> p({33, 31, 65, false, true, true, true, 0, true});
    for (const step<float>& s : steps<float>()) {
        CHECK(p.check(s.run) == "");
        matmul_args<float> full = p.args();
        full.tf32 = false;
        CHECK(p.compare(p.run(s.run, full)) != "");
    }
}

TEST_CASE("nothing to do, and sums of nothing") {
    problem<float> p({5, 3, 0, false, false, true, true});
    for (const step<float>& s : steps<float>()) {
        CHECK(p.check(s.run) == ""); // k = 0: bias and the old c
        matmul_args<float> empty = p.args();
        empty.m = 0;
        CHECK(difference(p.run(s.run, empty), p.c_host) == "");
        empty.m = 5, empty.n = 0;
        CHECK(difference(p.run(s.run, empty), p.c_host) == "");
    }
}

TEST_CASE("NaN and infinity go through") {
    problem<float> p({33, 33, 33});
    auto a = p.a_host;
    a[5 * 33 + 2] = HUGE_VALF, a[7 * 33 + 3] = NAN;
    p.a.write(a);
    for (const bool tf32 : {false, true})
        for (const step<float>& s : steps<float>()) {
            matmul_args<float> x = p.args();
            x.tf32 = tf32;
            const auto c = p.run(s.run, x);
            CHECK(std::isinf(c[5 * 33]));
            CHECK(std::isnan(c[7 * 33 + 32]));
            CHECK(std::isfinite(c[6 * 33 + 32]));
        }
}

TEST_CASE("the comparison can fail: each thing that an argument says, said wrong") {
    problem<__half> p({33, 33, 33, true, false, true, true});
    for (const step<__half>& s : steps<__half>()) {
        CHECK(p.check(s.run) == "");
        for (int wrong = 0; wrong < 5; ++wrong) {
            matmul_args<__half> x = p.args();
            if (wrong == 0) x.a_transposed = false;
            if (wrong == 1) x.b_transposed = true;
            if (wrong == 2) x.bias = nullptr;
            if (wrong == 3) x.accumulate = false;
            if (wrong == 4) x.k = 32;
            CAPTURE(wrong);
            CHECK(p.compare(p.run(s.run, x)) != "");
        }
    }
}

#if defined(MPT_SIMT_CHECK)
TEST_CASE("each step asks less of the memory than the one before") {
    problem<float> p({64, 64, 64});
    mpt::simt::counting count;
    const auto counts_of = [&](problem<float>::step f) {
        count.clear();
        f(p.args(), stream());
        wait();
        return count.totals();
    };
    // A warp's requests, one of a and one of b for each k: 4096 elements of c are 128 warps.
    const auto naive = counts_of(matmul_naive<float>);
    CHECK(naive.global_load_requests == 128 * 64 * 2);
    CHECK(naive.sectors_a_load() == 16.5); // a: 32 rows, 32 sectors; b: all the same element, 1
    CHECK(naive.sectors_a_store() == 32);
    const auto coalesced = counts_of(matmul_coalesced<float>);
    CHECK(coalesced.global_load_requests == naive.global_load_requests);
    CHECK(coalesced.sectors_a_load() == 2.5); // a: 1; b: 32 neighbours, 4
    CHECK(coalesced.sectors_a_store() == 4);
    // An element of a tile of 32 serves 32 threads.
    const auto tiled = counts_of(matmul_tiled<float>);
    CHECK(tiled.global_load_requests == naive.global_load_requests / 32);
    CHECK(tiled.sectors_a_load() == 4);
    CHECK(tiled.shared_load_requests == naive.global_load_requests);
    CHECK(tiled.shared_load_conflicts + tiled.shared_store_conflicts == 0);
    // One block: each element comes once, in packs of four. 4 + 4 numbers of a tile, a pack each,
    // serve 16 products.
    const auto registers = counts_of(matmul_registers<float>);
    CHECK(registers.global_load_requests == 2 * 64 * 64 / 32 / 4);
    CHECK(registers.shared_load_requests == 8 * 64 * (1 + 1)); // 8 warps, 64 k
    CHECK(registers.shared_load_conflicts == 0);
    for (const bool a : {false, true}) // nor however the operands lie, nor with tiles of 128
        for (const bool b : {false, true}) {
            problem<float> q({128, 128, 16, a, b});
            for (const auto f : {matmul_registers<float>, tiles_of_128<float>}) {
                count.clear();
                f(q.args(), stream());
                wait();
                CHECK(count.totals().shared_load_conflicts == 0);
                // where both run along k, single numbers are stored, down the tile
                if (!a && b) CHECK(count.totals().shared_store_conflicts == 0);
            }
        }
}
#endif
