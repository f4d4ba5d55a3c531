// SPDX-License-Identifier: MIT
// cast.cpp -- whole arrays from fp32 to 16 and 8 bits and back: against b += a, against one element
// at a time, and stochastic against nearest.
#include "common.hpp"

#include "mpt/numeric/cast.hpp"       // cast, cast_streaming, convert
#include "mpt/numeric/fp8.hpp"        // e4m3, e5m2
#include "mpt/numeric/rounding.hpp"   // bits_of, round_shift, bit_layout
#include "mpt/numeric/stochastic.hpp" // cast_stochastic

#include <type_traits>

namespace {

constexpr const char* about =
    "Casts of 100 million elements between fp32 and 16 bits, 6 bytes an element, against\n"
    "b += a on arrays of the same length (12 bytes an element); plain and streaming stores.\n"
    "Between fp32 and fp8, 5 bytes an element, against the same loop one element at a time.\n"
    "Stochastic rounding against nearest: its rate is the goal's part of nearest's, or more.";

// The pool's threads each take a part of n elements.
template <class F>
void each_range(mpt::thread_pool& pool, std::size_t n, F f) {
    pool.for_ranges(n, std::size_t(1) << 16,
                    [&](std::size_t begin, std::size_t end, int) { f(begin, end - begin); });
}

template <class S, class D>
void bench_pair(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem,
                bench::stream_add& limit, std::size_t n) {
    const std::string row = std::string(mpt::name<S>()) + " to " + mpt::name<D>();
    const std::string plain = row + ", plain stores", streaming = row + ", streaming stores";
    if (!table.wants(plain) && !table.wants(streaming)) return;
    const auto from = bench::numbers<S>(pool, mem, n, 1, [](float x) { return mpt::narrow<S>(x); });
    mpt::buffer<D> to(mem, mpt::kind::data, n, "the result");
    const auto each = [&](auto f) {
        each_range(pool, n, [&](std::size_t at, std::size_t count) {
            f(from.span().data() + at, to.span().data() + at, count);
        });
    };
    const double gb = 6e-9 * double(n);
    table.compare(plain, "GB/s", 0.60, {"", gb, [&] { each(mpt::cast<S, D>); }}, limit.as_side());
    table.compare(streaming, "GB/s", 0.80, {"", gb, [&] { each(mpt::cast_streaming<S, D>); }},
                  limit.as_side());
}

// One element, in integer registers. Narrowing with branches: most numbers are normal, and the
// rest need not be computed for them, as it is by mpt's scalar types (for the sake of vectors).
template <class D, class S>
inline D scalar(S x) {
    if constexpr (std::is_same_v<D, float>) {
        return mpt::convert<D>(x);
    } else {
        using to = mpt::bit_layout<D::exponent_bits, D::mantissa_bits>;
        const std::uint32_t bits = mpt::bits_of(x), a = bits & mpt::fp32_magnitude;
        if (a < to::rebias + (1u << 23) || a > mpt::fp32_infinity) return mpt::convert<D>(x);
        const std::uint32_t code = mpt::round_shift(a - to::rebias, to::dropped);
        return D::from_bits(
            std::uint8_t((bits >> 24 & 0x80) | (code < D::max_code ? code : D::max_code)));
    }
}
#if defined(__clang__)
#define ONE_BY_ONE
#define NO_VECTORS _Pragma("clang loop vectorize(disable) interleave(disable)")
#else
#define ONE_BY_ONE __attribute__((noinline, optimize("no-tree-vectorize", "no-tree-slp-vectorize")))
#define NO_VECTORS
#endif
template <class S, class D>
ONE_BY_ONE void one_by_one(const S* MPT_RESTRICT src, D* MPT_RESTRICT dst, std::size_t n) {
    NO_VECTORS
    for (std::size_t i = 0; i < n; ++i) dst[i] = scalar<D>(src[i]);
}
#undef ONE_BY_ONE
#undef NO_VECTORS

template <class S, class D>
void bench_eight_bits(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem,
                      std::size_t n) {
    constexpr bool widens = std::is_same_v<D, float>; // arrays of this size, 4 bytes written
    const std::string row = std::string(mpt::name<S>()) + " to " + mpt::name<D>() +
                            (widens ? ", streaming, of scalar" : ", of scalar");
    if (!table.wants(row)) return;
    const auto from = bench::numbers<S>(pool, mem, n, 1, [](float x) { return mpt::narrow<S>(x); });
    mpt::buffer<D> to(mem, mpt::kind::data, n, "the result");
    const auto each = [&](auto f) {
        each_range(pool, n, [&](std::size_t at, std::size_t count) {
            f(from.span().data() + at, to.span().data() + at, count);
        });
    };
    const double gb = 5e-9 * double(n);
    const auto ours = widens ? mpt::cast_streaming<S, D> : mpt::cast<S, D>;
    table.compare(row, "GB/s", 4, {"", gb, [&] { each(ours); }},
                  {"one by one", gb, [&] { each(one_by_one<S, D>); }});
}

template <class D>
void bench_stochastic(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem,
                      std::size_t n) {
    const std::string row = std::string("fp32 to ") + mpt::name<D>() + ", stochastic";
    if (!table.wants(row)) return;
    const auto from = bench::numbers(pool, mem, n);
    mpt::buffer<D> to(mem, mpt::kind::data, n, "the result");
    const double gb = (4 + sizeof(D)) * 1e-9 * double(n);
    std::uint32_t step = 0;
    const auto stochastic = [&] {
        ++step;
        each_range(pool, n, [&](std::size_t at, std::size_t count) {
            mpt::cast_stochastic(from.span().data() + at, to.span().data() + at, count, 2026, step,
                                 at);
        });
    };
    const auto nearest = [&] {
        each_range(pool, n, [&](std::size_t at, std::size_t count) {
            mpt::cast(from.span().data() + at, to.span().data() + at, count);
        });
    };
    table.compare(row, "GB/s", 0.33, {"", gb, stochastic}, {"to nearest", gb, nearest});
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "cast", about);
    return bench::guarded("cast", [&] {
        bench::table table(o, "cast");
        mpt::thread_pool pool(o.threads);
        mpt::memory mem;
        const std::size_t n = o.size<std::size_t>(100'000'000, 100'000);
        bench::stream_add limit(pool, mem, n);
        bench_pair<float, mpt::fp16>(table, pool, mem, limit, n);
        bench_pair<mpt::fp16, float>(table, pool, mem, limit, n);
        bench_pair<float, mpt::bf16>(table, pool, mem, limit, n);
        bench_pair<mpt::bf16, float>(table, pool, mem, limit, n);
        bench_eight_bits<float, mpt::e4m3>(table, pool, mem, n);
        bench_eight_bits<float, mpt::e5m2>(table, pool, mem, n);
        bench_eight_bits<mpt::e4m3, float>(table, pool, mem, n);
        bench_eight_bits<mpt::e5m2, float>(table, pool, mem, n);
        bench_stochastic<mpt::bf16>(table, pool, mem, n);
        bench_stochastic<mpt::fp16>(table, pool, mem, n);
        bench_stochastic<mpt::e4m3>(table, pool, mem, n);
        bench_stochastic<mpt::e5m2>(table, pool, mem, n);
    });
}
