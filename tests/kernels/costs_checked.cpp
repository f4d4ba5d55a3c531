// SPDX-License-Identifier: MIT
// What the cards of the kernels say under Costs, counted: the sectors that warps ask for, times 32.
#include "mpt/kernels/adamw8bit.cuh"
#include "mpt/kernels/cast.cuh"
#include "mpt/kernels/column_sums.cuh"
#include "mpt/kernels/cross_entropy.cuh"
#include "mpt/kernels/dropout.cuh"
#include "mpt/kernels/embedding.cuh"
#include "mpt/kernels/gelu.cuh"
#include "mpt/kernels/inspect.cuh"
#include "mpt/kernels/layernorm.cuh"
#include "mpt/kernels/reduce.cuh"
#include "mpt/kernels/residual_scale.cuh"
#include "mpt/kernels/softmax.cuh"
#include "mpt/numeric/dynamic_map.hpp"
#include "mpt/simt/counting.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

using namespace rig;

namespace {

constexpr std::size_t n = 8192; // elements
constexpr int rows = 16, columns = 512;

// "" where run() asks for so many bytes an element, and in all for at most so many sectors more.
template <class F>
std::string off(double reads, double writes, F run, std::size_t more_read = 0,
                std::size_t more_written = 0) {
    mpt::simt::counting counting;
    run();
    const auto wrong = [&](double formula, unsigned long long sectors, std::size_t more) {
        const double least = formula * double(n) / 32;
        return double(sectors) < least || double(sectors) > least + double(more);
    };
    const auto& found = counting.totals();
    if (!wrong(reads, found.global_load_sectors, more_read) &&
        !wrong(writes, found.global_store_sectors, more_written))
        return "";
    std::ostringstream s;
    s << 32. * double(found.global_load_sectors) / n << " bytes an element read, "
      << 32. * double(found.global_store_sectors) / n << " written; expected " << reads << ", "
      << writes << " and at most " << more_read << ", " << more_written << " sectors; found "
      << found.global_load_sectors << ", " << found.global_store_sectors;
    return s.str();
}

template <class T>
std::vector<host_t<T>> some(std::size_t count = n, std::uint32_t which = 1) {
    return checks::numbers<host_t<T>>(count, which);
}
std::vector<int> some_words(int count, int V) {
    std::vector<int> w;
    for (int i = 0; i < count; ++i) w.push_back(11 * i % V);
    return w;
}
template <class T>
constexpr double size = sizeof(T);

} // namespace

TEST_CASE_TEMPLATE("fill, add, sums over a window", T, float, __half, __nv_bfloat16) {
    array<T> x(some<T>()), y(some<T>());
    array<float> sums(some<float>());
    CHECK(off(0, size<T>, [&] { fill<T>(y, from_float<T>(1), n, stream()); }) == "");
    CHECK(off(2 * size<T>, size<T>, [&] { add<T>(y, x, y, n, stream()); }) == "");
    CHECK(off(size<T>, 4, [&] { add_to_sums<T>(sums, x, n, true, stream()); }) == "");
    CHECK(off(4 + size<T>, 4, [&] { add_to_sums<T>(sums, x, n, false, stream()); }) == "");
}

// The sabotage twin: an element off, a warp's load touches a sector more.
TEST_CASE_TEMPLATE("one element off: more sectors, and it is noticed", T, float, __half) {
    array<T> x(some<T>(), 1), y(some<T>(), 1);
    CHECK(off(0, size<T>, [&] { fill<T>(y, from_float<T>(1), n, stream()); }) != "");
    CHECK(off(2 * size<T>, size<T>, [&] { add<T>(y, x, y, n, stream()); }) != "");
    const std::size_t warps = n / 32, more = warps; // a request a warp and array
    CHECK(off(
              2 * size<T>, size<T>, [&] { add<T>(y, x, y, n, stream()); }, 2 * more, more) == "");
    CHECK(off(
              2 * size<T>, size<T>, [&] { add<T>(y, x, y, n, stream()); }, 2 * more, 0) != "");
    CHECK(off(
              4 * size<T>, size<T>, [&] { add<T>(y, x, y, n, stream()); }, n, n) != ""); // too few
}

TEST_CASE("casts") {
    array<float> f(some<float>());
    array<__half> h(some<__half>());
    array<__nv_bfloat16> b(some<__nv_bfloat16>());
    CHECK(off(4, 2, [&] { cast<__half, float>(h, f, n, stream()); }) == "");
    CHECK(off(2, 4, [&] { cast<float, __half>(f, h, n, stream()); }) == "");
    CHECK(off(2, 2, [&] { cast<__nv_bfloat16, __half>(b, h, n, stream()); }) == "");
}

TEST_CASE_TEMPLATE("dropout, residual, gelu", T, float, __half) {
    array<T> x(some<T>()), b(some<T>()), y(n);
    const dropout_args drop{0.25f, 7};
    CHECK(off(size<T>, size<T>, [&] { dropout<T>(y, x, drop, 16, n / 16, stream()); }) == "");
    CHECK(off(2 * size<T>, size<T>, [&] { residual<T>(y, x, b, drop, 16, n / 16, stream()); }) ==
          "");
    CHECK(off(size<T>, size<T>, [&] { gelu_forward<T>(y, x, n, stream()); }) == "");
    CHECK(off(2 * size<T>, size<T>, [&] { gelu_backward<T>(y, b, x, n, stream()); }) == "");
}

// Four neighbours are one thread's, one by one: a warp touches the sectors of all at each of them.
TEST_CASE_TEMPLATE("a learnable factor", T, float, __half) {
    array<T> x(some<T>()), b(some<T>()), y(n), alpha(some<T>(1)), dalpha(1);
    scratch room(scaled_residual_backward_bytes(n));
    const dropout_args drop{0.25f, 7};
    scaled_residual_args<T> f;
    f.out = y, f.x = x, f.branch = b, f.alpha = alpha, f.drop = drop;
    f.samples = 16, f.per_sample = n / 16;
    const std::size_t blocks = partial_blocks(n);
    CHECK(off(
              4 * 2 * size<T>, 4 * size<T>, [&] { scaled_residual_forward<T>(f, stream()); },
              n / 128) == ""); // alpha, a warp
    scaled_residual_backward_args<T> g;
    g.dbranch = y, g.dalpha = dalpha, g.dout = x, g.branch = b, g.alpha = alpha, g.drop = drop;
    g.samples = 16, g.per_sample = n / 16, g.scratch = room;
    CHECK(off(
              4 * 2 * size<T>, 4 * size<T>, [&] { scaled_residual_backward<T>(g, stream()); },
              8 * blocks + blocks, blocks + 1) == "");
}

TEST_CASE_TEMPLATE("inspect; sums of an array and of columns", T, float, __half) {
    array<T> x(some<T>()), y(columns);
    array<float> f(some<float>());
    array<double> sum_of(1);
    scratch room(std::max({inspect_bytes(n), sum_bytes(n), column_sums_bytes(rows, columns)}));
    array<inspect_result> found(1);
    const std::size_t blocks = partial_blocks(n);
    CHECK(off(
              size<T>, 0, [&] { inspect<T>(found, x, n, room, stream()); }, 3 * blocks,
              2 * blocks + 1) == "");
    CHECK(off(
              4, 0, [&] { sum(sum_of, f, n, room, stream()); }, blocks, blocks + 1) == "");
    const std::size_t parts = std::size_t(column_sum_parts(rows)) * columns * 4 / 32;
    CHECK(off(
              size<T>, 0, [&] { column_sums<T>(y, x, rows, columns, room, stream()); }, parts,
              parts + columns * sizeof(T) / 32) == "");
}

TEST_CASE_TEMPLATE("softmax, layer norm", T, float, __half) {
    array<T> x(some<T>()), dy(some<T>(n, 2)), y(n), dx(n), gamma(some<T>(columns)),
        beta(some<T>(columns)), dgamma(columns), dbeta(columns);
    array<float> mean(rows), rstd(rows);
    scratch room(layernorm_backward_bytes(rows, columns));
    CHECK(off(2 * size<T>, size<T>, [&] { softmax_forward<T>(y, x, rows, columns, stream()); }) ==
          "");
    const layernorm_forward_args<T> f{y, mean, rstd, x, gamma, beta, rows, columns};
    CHECK(off(
              5 * size<T>, size<T>, [&] { layernorm_forward<T>(f, stream()); }, 0, 2 * rows) == "");
    layernorm_backward_args<T> b{dx,   dgamma, dbeta, dy,      x,     gamma,
                                 mean, rstd,   rows,  columns, false, room};
    // beside rows: mean and rstd, a warp; two sums a column of two parts of the rows; the results
    const std::size_t sums = 2 * 2 * columns * 4 / 32, results = 2 * columns * sizeof(T) / 32;
    const std::size_t of_rows = 2 * rows * columns / 128, of_columns = 2 * rows * columns / 32;
    CHECK(off(
              6 * size<T>, size<T>, [&] { layernorm_backward<T>(b, stream()); }, of_rows + sums,
              4 * sums + results) == ""); // four columns are a thread's, one by one
    CHECK(off(
              8 * size<T>, size<T>, [&] { layernorm_backward_apart<T>(b, stream()); },
              of_rows + of_columns + sums, sums + results) == "");
}

TEST_CASE_TEMPLATE("cross-entropy", T, float, __half) {
    array<T> x(some<T>()), dx(n);
    array<float> losses(rows), lse(rows);
    array<int> targets(some_words(rows, columns));
    const auto sectors = std::size_t(8 * rows);
    const cross_entropy_forward_args<T> f{losses, lse, x, targets, rows, columns};
    CHECK(off(
              size<T>, 0, [&] { cross_entropy_forward<T>(f, stream()); }, sectors, 2 * rows) == "");
    const cross_entropy_backward_args<T> b{dx, x, lse, targets, 1, nullptr, rows, columns};
    CHECK(off(
              size<T>, size<T>, [&] { cross_entropy_backward<T>(b, stream()); }, sectors) == "");
    const cross_entropy_args<T> a{losses, lse, x, targets, 1, nullptr, rows, columns};
    CHECK(off(
              2 * size<T>, size<T>, [&] { cross_entropy<T>(a, stream()); }, sectors, 2 * rows) ==
          "");
}

TEST_CASE_TEMPLATE("embedding", T, float, __half) {
    constexpr int B = 4, time = 16, C = 128, V = 40;
    const std::vector<int> tokens = some_words(B * time, V);
    array<T> y(some<T>()), wte(some<T>(V * C)), wpe(some<T>(time * C));
    array<int> at(tokens);
    scratch room(embedding_backward_bytes(B, time));
    const auto forward = [&] { embedding_forward<T>({y, at, wte, wpe, B, time, C, V}, stream()); };
    const auto backward = [&] {
        embedding_backward<T>({wte, wpe, y, at, B, time, C, V, room}, stream());
    };
    CHECK(off(2 * size<T>, size<T>, forward, B * time) == ""); // a token a row
    // all V words occur: their rows are read and written; the rows of wpe are written. Tokens are
    // sorted, in a few sectors a position.
    const double occur = size<T> * V * C / n, positions = size<T> * time * C / n;
    CHECK(off(2 * size<T> + occur, occur + positions, backward, 8 * B * time, 2 * B * time) == "");
}

template <class T, class G>
void adamw_asks(bool master) {
    array<float> p(some<float>()), m(some<float>()), v(some<float>());
    array<T> w(some<T>());
    array<G> g(some<G>());
    adamw_args<T, G> a;
    a.p = master ? p.data() : nullptr, a.m = m, a.v = v, a.g = g, a.n = n;
    a.weights = w;
    if constexpr (std::is_same_v<T, float>) a.weights = p; // the master itself
    a.numbers = {1, 0.1f, 0.05f, 0.001f, 1, 1e-8f, 0, 1};
    const bool apart = static_cast<const void*>(a.weights) != a.p;
    const double state = master ? 12 : 8, copy = apart ? size<T> : 0;
    CHECK(off(state + size<G> + (master ? 0 : size<T>), state + copy,
              [&] { adamw(a, stream()); }) == "");
}
TEST_CASE("AdamW: 28 bytes; 22 without a master") {
    adamw_asks<float, float>(true);   // 12 + 4, 12
    adamw_asks<__half, __half>(true); // 12 + 2, 12 + 2
    adamw_asks<__nv_bfloat16, __nv_bfloat16>(true);
    adamw_asks<__half, __half>(false); // 8 + 2 + 2, 8 + 2
}

template <class T, class G>
void adamw8bit_asks(bool master) {
    array<float> p(some<float>());
    array<T> w(some<T>());
    array<G> g(some<G>());
    array<std::uint8_t> m(std::vector<std::uint8_t>(n, 127)), v(std::vector<std::uint8_t>(n, 0));
    array<float> m_max(std::vector<float>(n / 256, 1)), v_max(std::vector<float>(n / 256, 1));
    const auto entries = [](const auto& map) { return std::vector<float>(map.begin(), map.end()); };
    array<float> signed_map(entries(mpt::signed_map.value)),
        unsigned_map(entries(mpt::unsigned_map.value));
    adamw8bit_args<T, G> a;
    a.rest.p = master ? p.data() : nullptr, a.rest.g = g, a.rest.weights = w, a.rest.n = n;
    a.rest.numbers = {1, 0.1f, 0.05f, 0.001f, 1, 1e-8f, 0, 1};
    a.m_codes = m, a.v_codes = v, a.m_absmax = m_max, a.v_absmax = v_max;
    a.signed_map = signed_map, a.unsigned_map = unsigned_map;
    const double before = master ? 4 : size<T>, after = (master ? 4 : 0) + size<T>;
    // absmax: of 256 elements, twice, once a warp. The maps: 5.5 KB a block of threads
    const std::size_t blocks = n / 256 / 4, absmax = 2 * n / 32, maps = blocks * 5500 / 32;
    CHECK(off(
              before + 2 + size<G>, after + 2, [&] { adamw8bit(a, stream()); }, absmax + maps,
              2 * n / 256) == "");
}
TEST_CASE("AdamW with moments in 8 bits: 16 bytes, and of the cache absmax and the maps") {
    adamw8bit_asks<__half, __half>(true);  // 4 + 2 + 2, 4 + 2 + 2
    adamw8bit_asks<__half, float>(true);   // 4 + 2 + 4, 4 + 2 + 2
    adamw8bit_asks<__half, __half>(false); // 2 + 2 + 2, 2 + 2
}
