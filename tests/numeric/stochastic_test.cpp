// SPDX-License-Identifier: MIT
#include "mpt/numeric/fp8.hpp"        // e4m3, e5m2
#include "mpt/numeric/scalar.hpp"     // fp16, bf16, tf32
#include "mpt/numeric/stochastic.hpp" // stochastic, stochastic_stream, cast_stochastic

#include "model.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace mpt;

static_assert(stochastic<bf16>(1 + 0x1p-8f, 0x7FFFFFFF).bits == 0x3F80);
static_assert(stochastic<bf16>(1 + 0x1p-8f, 0x80000000).bits == 0x3F81);

template <class T>
using rounding = T (*)(float, std::uint32_t);

// ---- one number, with given random bits ----

template <class T>
static std::size_t wrong(const std::vector<float>& inputs, rounding<T> round) {
    const model::shape f = model::shape_of<T>();
    std::size_t count = 0;
    std::uint32_t draw = 0;
    for (float x : inputs) {
        const philox4 random = philox({{draw++, 0, 0, 0}}, 5, 6);
        const std::uint32_t rs[6] = {0,           0xFFFFFFFF,  0x7FFFFFFF,
                                     0x80000000u, random.x[0], random.x[1] & 0xFFFF0000};
        for (std::uint32_t r : rs) {
            const T is = round(x, r);
            if (!std::isfinite(x)) {
                count += is.bits != T(x).bits;
            } else {
                const double value = model::value(model::code(is), f);
                count += value != model::stochastic(double(x), f, r) ||
                         std::signbit(value) != std::signbit(x);
            }
        }
    }
    return count;
}

template <class T>
static void check_format(std::uint32_t stride) {
    CAPTURE(std::string(name<T>()));
    const auto inputs = model::inputs(model::shape_of<T>(), stride, 5000);
    CHECK(wrong<T>(inputs, stochastic<T>) == 0);
    // sabotage: each must be found out
    CHECK(wrong<T>(inputs, [](float x, std::uint32_t) { return T(x); }) > 0);
    CHECK(wrong<T>(inputs, [](float x, std::uint32_t r) { return stochastic<T>(x, ~r); }) > 0);
    CHECK(wrong<T>(inputs, [](float x, std::uint32_t r) {
              return stochastic<T>(x, r < 0xFFFFFFFF ? r + 1 : r); // P(up) off by 2^-32
          }) > 0);
    CHECK(wrong<T>(inputs, [](float x, std::uint32_t r) { // NaN as if it were a number
              const std::uint32_t a = bits_of(x) & fp32_magnitude;
              return a > fp32_infinity ? overflowed<T>() : stochastic<T>(x, r);
          }) > 0);
}

TEST_CASE("with given random bits the model's number, in every format") {
    check_format<fp16>(7);
    check_format<bf16>(7);
    check_format<tf32>(37);
    check_format<e4m3>(1);
    check_format<e5m2>(1);
}

TEST_CASE("the table for bf16, by 16 random bits") {
    struct row {
        std::uint32_t in, r, out;
    };
    std::vector<row> rows;
    const auto r = model::table("sr_bf16.csv", 1), out = model::table("sr_bf16.csv", 2);
    CHECK(r.size() == 45);
    CHECK(out.size() == 45);
    std::size_t bad = 0, sabotage = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
        const float x = float_of(r[i].in);
        bad += stochastic<bf16>(x, r[i].out << 16).bits != out[i].out;
        sabotage += bf16(x).bits != out[i].out;
    }
    CHECK(bad == 0);
    CHECK(sabotage > 0);
}

// ---- right on average ----

/// The mean over every r that can make a difference, 2^dropped of them. Exact: all results lie on
/// two neighbours of T, so that the sum needs at most 24 + 24 bits.
template <class T>
static double mean(float x, rounding<T> round) {
    constexpr int dropped = 23 - format<T>::mantissa_bits;
    double sum = 0;
    for (std::uint32_t k = 0; k < (1u << dropped); ++k)
        sum += double(static_cast<float>(round(x, k << (32 - dropped))));
    return sum / (1u << dropped);
}

template <class T>
static void check_mean() {
    CAPTURE(std::string(name<T>()));
    const T one_more = T::from_bits(decltype(T::bits)(T(1.0f).bits + 1));
    for (float x : {1.0f + 0x1p-23f, 1.2345678f, -100.7f, static_cast<float>(one_more)}) {
        CHECK(mean<T>(x, stochastic<T>) == double(x));
        if (x == 1.2345678f) { // sabotage
            CHECK(mean<T>(x, [](float v, std::uint32_t) { return T(v); }) != double(x));
            CHECK(mean<T>(x, [](float v, std::uint32_t r) {
                      return stochastic<T>(v, r | 0x80000000u);
                  }) != double(x));
        }
    }
}

TEST_CASE("the mean over all random bits is the number itself, exactly") {
    check_mean<bf16>();
    check_mean<fp16>();
    check_mean<tf32>();
    check_mean<e4m3>();
    check_mean<e5m2>();
}

TEST_CASE("below the smallest number of the format: 2^-32 is the resolution of the probability") {
    const float x = 0x1p-12f; // of e4m3's smallest, 2^-9: 1/8
    CHECK(stochastic<e4m3>(x, 0xE0000000u - 1).bits == 0);
    CHECK(stochastic<e4m3>(x, 0xE0000000u).bits == 1);
    CHECK(stochastic<e4m3>(0x1p-41f, 0xFFFFFFFF).bits == 1); // 2^-32 of a step: one r of all
    CHECK(stochastic<e4m3>(0x1p-41f, 0xFFFFFFFE).bits == 0);
    CHECK(stochastic<e4m3>(0x1p-42f, 0xFFFFFFFF).bits == 0); // less: never
    CHECK(stochastic<fp16>(0x1p-149f, 0xFFFFFFFF).bits == 0);
}

TEST_CASE("at the upper end: what the constructor makes of an overflow") {
    const float x = std::numeric_limits<float>::max();
    CHECK(stochastic<bf16>(x, 0).bits == 0x7F7F);
    CHECK(stochastic<bf16>(x, 0xFFFF0000).bits == 0x7F80);
    CHECK(stochastic<fp16>(65519.0f, 0xFFFFFFFF).bits == 0x7C00);
    CHECK(stochastic<e4m3>(-479.0f, 0xFFFFFFFF).bits == 0xFE);
    CHECK(stochastic<e5m2>(1e30f, 0).bits == 0x7B);
}

// ---- a sum of small steps ----

TEST_CASE("updates of 1/128 of a step: nearest loses all, stochastic keeps them on average") {
    // 1000 weights at 1.0, 1000 updates of -2^-15 each: bf16s below 1 are 2^-8 apart, so each
    // is 1/128 of a step, and nearest never moves. Stochastic: a weight moves by K steps, K of
    // mean 1000/128 and variance at most that. The mean of 1000 weights: deviation below
    // sqrt(7.8 / 1000) = 0.088 steps; 5 deviations are 0.44 steps.
    bf16 nearest(1.0f);
    for (int i = 0; i < 1000; ++i) nearest = bf16(float(nearest) - 0x1p-15f);
    CHECK(float(nearest) == 1.0f);

    std::vector<bf16> w(1000, bf16(1.0f));
    std::vector<float> moved(w.size());
    for (std::uint32_t step = 0; step < 1000; ++step) {
        for (std::size_t i = 0; i < w.size(); ++i) moved[i] = float(w[i]) - 0x1p-15f;
        cast_stochastic(moved.data(), w.data(), w.size(), 2026, step, 0);
    }
    double sum = 0;
    for (bf16 x : w) sum += float(x);
    CHECK(std::fabs((1 - sum / 1000) * 256 - 1000.0 / 128) < 0.44);

    std::vector<bf16> same(1000, bf16(1.0f)); // sabotage: the same r in every step
    for (std::uint32_t step = 0; step < 1000; ++step) {
        for (std::size_t i = 0; i < w.size(); ++i) moved[i] = float(same[i]) - 0x1p-15f;
        cast_stochastic(moved.data(), same.data(), same.size(), 2026, 7, 0);
    }
    std::size_t stuck = 0;
    for (bf16 x : same) stuck += float(x) == 1.0f;
    CHECK(stuck > 978); // only those move that drew the last 128th: 992.2 stay, deviation 2.8
}

// ---- arrays ----

template <class T>
static void check_array() {
    CAPTURE(std::string(name<T>()));
    std::vector<float> x = model::inputs(model::shape_of<T>(), sizeof(T) == 1 ? 1 : 997, 2000);
    const std::uint64_t seed = 0x123456789ABCDEFull;
    const auto element = [&](std::size_t i, std::uint64_t e) {
        return stochastic<T>(x[i], stochastic_stream{seed, 3}.bits(e));
    };
    std::vector<T> whole(x.size()), cut(x.size());
    const std::uint64_t first = (1ull << 39) - 5000; // the counter's upper word is used, too
    cast_stochastic(x.data(), whole.data(), x.size(), seed, 3, first);
    std::size_t bad = 0;
    for (std::size_t i = 0; i < x.size(); ++i) bad += whole[i].bits != element(i, first + i).bits;
    CHECK(bad == 0);

    // cut into parts of every length up to 300: the same bits
    std::size_t at = 0;
    for (std::size_t n = 0; at < x.size(); n = (n + 1) % 301) {
        const std::size_t part = n < x.size() - at ? n : x.size() - at;
        cast_stochastic(x.data() + at, cut.data() + at, part, seed, 3, first + at);
        at += part;
    }
    std::size_t different = 0, other_step = 0, other_seed = 0, shifted = 0;
    for (std::size_t i = 0; i < x.size(); ++i) different += whole[i].bits != cut[i].bits;
    CHECK(different == 0);

    // sabotage: another step, another seed, addresses that begin anew with every part
    cast_stochastic(x.data(), cut.data(), x.size(), seed, 4, first);
    for (std::size_t i = 0; i < x.size(); ++i) other_step += whole[i].bits != cut[i].bits;
    cast_stochastic(x.data(), cut.data(), x.size(), seed + (1ull << 32), 3, first);
    for (std::size_t i = 0; i < x.size(); ++i) other_seed += whole[i].bits != cut[i].bits;
    cast_stochastic(x.data(), cut.data(), x.size(), seed, 3, first + 1);
    for (std::size_t i = 0; i < x.size(); ++i) shifted += whole[i].bits != cut[i].bits;
    CHECK(other_step > 0);
    CHECK(other_seed > 0);
    CHECK(shifted > 0);
}

TEST_CASE("an array is rounded by the addresses of its elements, however it is cut") {
    check_array<bf16>();
    check_array<fp16>();
    check_array<e4m3>();
    check_array<e5m2>();
    check_array<tf32>();
    cast_stochastic<bf16>(nullptr, nullptr, 0, 1, 2, 3);
}

TEST_CASE("the random bits: all different counters, all halves used, bits about even") {
    // 2^14 elements: 2^14 halves. Each of 16 bits is set about half the time: binomial, deviation
    // sqrt(2^14) / 2 = 64; 5 deviations.
    int ones[16] = {};
    std::uint32_t low = 0;
    std::vector<std::uint32_t> all;
    for (std::uint64_t e = 0; e < (1u << 14); ++e) {
        const std::uint32_t r = stochastic_stream{42, 1}.bits(e);
        low += r & 0xFFFF;
        all.push_back(r >> 16);
        for (int b = 0; b < 16; ++b) ones[b] += r >> (16 + b) & 1;
    }
    CHECK(low == 0);
    for (int count : ones) CHECK(std::abs(count - (1 << 13)) < 320);
    std::size_t repeats = 0; // neighbours and the same place of the next block: not equal too often
    for (std::size_t e = 128; e < all.size(); ++e)
        repeats += (all[e] == all[e - 1]) + (all[e] == all[e - 16]) + (all[e] == all[e - 128]);
    CHECK(repeats < 10); // 3 * 2^14 / 2^16 = 0.75 expected
}
