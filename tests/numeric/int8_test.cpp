// SPDX-License-Identifier: MIT
#include "mpt/base/error.hpp"   // error
#include "mpt/base/philox.hpp"  // philox
#include "mpt/numeric/int8.hpp" // quantize_int8, dequantize_int8, int8_blocks

#include "model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

using namespace mpt;

static_assert(quantize_int8(0.5f, 127) == 0 && quantize_int8(1.5f, 127) == 2); // ties to even
static_assert(dequantize_int8(127, 0.1f) == 0.1f);

// ---- the exact q, in integers ----

/// 127 x / amax to nearest, ties to even, clamped: x = p 2^e and amax = a 2^f with whole p and a,
/// so the quotient is 127 p / a times 2^(e - f). 128 bits hold what is compared.
static int exact(float x, float amax) {
    if (amax == 0 || x == 0) return 0;
    int e = 0, f = 0;
    const double px = std::frexp(std::fabs(double(x)), &e), pa = std::frexp(double(amax), &f);
    if (e - f > 20) return x < 0 ? -127 : 127; // x >= 2^19 amax
    if (e - f < -20) return 0;
    __extension__ using wide = unsigned __int128;
    wide p = wide(127) * wide(std::ldexp(px, 24)), a = wide(std::ldexp(pa, 24));
    (e > f ? p : a) <<= std::abs(e - f);
    wide q = p / a;
    const wide twice_rest = 2 * (p % a);
    if (twice_rest > a || (twice_rest == a && q % 2 == 1)) ++q;
    if (q > 127) q = 127;
    return x < 0 ? -int(q) : int(q);
}

using quantize = int (*)(float, float);
static int ours(float x, float amax) { return quantize_int8(x, amax); }

// Formulas in fp32 as they are used, and other roundings: each differs somewhere.
static int to_int(double q) { return int(std::nearbyint(std::fmax(-127, std::fmin(127, q)))); }
static int by_scale(float x, float amax) { return amax == 0 ? 0 : to_int(x / (amax / 127)); }
static int by_inverse(float x, float amax) { return amax == 0 ? 0 : to_int(x * (127 / amax)); }
static int by_product(float x, float amax) { return amax == 0 ? 0 : to_int(127 * x / amax); }
static int truncated(float x, float amax) {
    return amax == 0 ? 0 : int(std::fmax(-127, std::fmin(127, 127.0 * x / amax)));
}
static int half_away(float x, float amax) {
    return amax == 0 ? 0 : int(std::fmax(-127, std::fmin(127, std::round(127.0 * x / amax))));
}
static int to_128(float x, float amax) {
    return amax == 0 ? 0 : int(std::nearbyint(std::fmax(-128, std::fmin(127, 127.0 * x / amax))));
}

struct pair {
    float x, amax;
};
/// Numbers next to every tie of several amax, among them subnormal and huge; and random ones.
static std::vector<pair> pairs() {
    std::vector<pair> all;
    std::vector<float> amaxes = {1,
                                 3,
                                 127,
                                 0.1f,
                                 2.7182818f,
                                 0x1p-149f,
                                 0x1.8p-148f,
                                 1e-40f,
                                 0x1.FFFFFEp127f,
                                 0x1.FFFFFEp0f,
                                 0x1.000002p0f,
                                 65504};
    for (std::uint32_t i = 0; i < 150; ++i)
        amaxes.push_back(float_of(philox({{i, 0, 0, 0}}, 1, 2).x[0] % fp32_infinity));
    for (float amax : amaxes)
        for (int k = 0; k <= 127; ++k) {
            const double tie = (k + 0.5) * double(amax) / 127;
            if (tie > double(std::numeric_limits<float>::max())) continue;
            const float near = float(tie);
            for (float x : {near, std::nextafter(near, 0.0f), std::nextafter(near, 2 * near)})
                for (float sign : {1.0f, -1.0f})
                    if (std::isfinite(x)) all.push_back({sign * x, amax});
        }
    for (std::uint32_t i = 0; i < 20000; ++i) {
        const philox4 r = philox({{i, 1, 0, 0}}, 1, 2);
        all.push_back({float_of(r.x[0] % fp32_infinity), float_of(r.x[1] % fp32_infinity)});
        all.push_back(
            {float_of((r.x[2] & 0x807FFFFF) | 0x3F000000), float_of(0x3F800000 + r.x[3] % 8)});
    }
    return all;
}
static std::size_t wrong(const std::vector<pair>& all, quantize q) {
    std::size_t count = 0;
    for (pair p : all) count += q(p.x, p.amax) != exact(p.x, p.amax);
    return count;
}

TEST_CASE("the q of exact arithmetic, next to every tie too") {
    const auto all = pairs();
    CHECK(all.size() > 150000);
    CHECK(wrong(all, ours) == 0);
    CHECK(wrong(all, by_scale) > 0); // sabotage: each must be found out
    CHECK(wrong(all, by_inverse) > 0);
    CHECK(wrong(all, by_product) > 0);
    CHECK(wrong(all, truncated) > 0);
    CHECK(wrong(all, half_away) > 0);
    CHECK(wrong(all, to_128) > 0);
}

TEST_CASE("the table, and what fp32 makes of near ties") {
    std::size_t rows = 0, bad = 0, sabotage = 0;
    std::ifstream in = model::open_table("int8.csv");
    std::string line;
    std::getline(in, line);
    for (std::uint32_t amax = 0, x = 0; std::getline(in, line); ++rows) {
        int q = 0;
        CHECK(std::sscanf(line.c_str(), "%x,%x,%d", &amax, &x, &q) == 3);
        bad += quantize_int8(float_of(x), float_of(amax)) != q;
        sabotage += truncated(float_of(x), float_of(amax)) != q;
    }
    CHECK(rows == 30);
    CHECK(bad == 0);
    CHECK(sabotage > 0);

    const auto three = [](quantize q, std::uint32_t x) { return q(float_of(x), 3.0f); };
    CHECK(three(ours, 0x3FF060C1) == 79);
    CHECK(three(by_scale, 0x3FF060C1) == 80);
    CHECK(three(ours, 0x3F62C58B) == 37);
    CHECK(three(by_scale, 0x3F62C58B) == 38);
    CHECK(three(by_inverse, 0x3F62C58B) == 38);
    CHECK(three(ours, 0x3FDB366E) == 73);
    CHECK(three(by_inverse, 0x3FDB366E) == 72);
}

// ---- back ----

TEST_CASE("dequantised: the nearest fp32, at most half a step from where it came") {
    std::size_t bad = 0, far = 0;
    for (pair p : pairs()) {
        const int q = quantize_int8(p.x, p.amax);
        const float back = dequantize_int8(std::int8_t(q), p.amax);
        // In a long double: 64 bits on x86, 113 on arm64.
        bad += back != float(static_cast<long double>(q) * p.amax / 127);
        if (std::fabs(p.x) > p.amax) continue; // clamped
        // half a step, and half an ulp of fp32 for the rounding of `back`
        const double ulp = std::ldexp(1.0, std::max(-149, std::ilogb(p.amax) - 23));
        far += std::fabs(double(back) - p.x) > double(p.amax) / 254 * (1 + 1e-15) + ulp / 2;
    }
    CHECK(bad == 0);
    CHECK(far == 0);
    for (float amax : {3.0f, 0.1f, 1e-40f, 0x1.FFFFFEp127f}) { // the largest is kept as it is
        CHECK(dequantize_int8(127, amax) == amax);
        CHECK(dequantize_int8(-127, amax) == -amax);
    }
    std::size_t other = 0; // sabotage: amax / 127 in fp32 as the scale
    for (float amax = 1; amax < 2; amax += 0x1p-10f) other += amax / 127 * 127 != amax;
    CHECK(other > 0);
}

// ---- arrays ----

static std::string message(const std::vector<float>& x, std::size_t block, std::size_t amaxes) {
    std::vector<std::int8_t> q(x.size());
    std::vector<float> amax(amaxes);
    try {
        quantize_int8(x.data(), q.data(), amax.data(), amaxes, {x.size(), block});
    } catch (const error& e) {
        return e.what();
    }
    return "";
}

TEST_CASE("blocks of every size: their own amax, there and back") {
    for (std::size_t n : {1, 2, 31, 64, 65, 997}) {
        std::vector<float> x(n);
        for (std::size_t i = 0; i < n; ++i) // sizes from 2^-12 to 1, signs, zeros
            x[i] = i % 11 == 0 ? 0.0f
                               : std::ldexp(float(int(i * 37 % 101) - 50) / 50, -int(i / 16 % 13));
        for (std::size_t block : {std::size_t(1), std::size_t(7), std::size_t(64), n, n + 5}) {
            const int8_blocks cut{n, block};
            std::vector<std::int8_t> q(n + 1, 99);
            std::vector<float> amax(cut.count()), back(n + 1, 99);
            CHECK(cut.count() == (n + block - 1) / block);
            CHECK(cut.bytes() == n + 4 * cut.count());
            quantize_int8(x.data(), q.data(), amax.data(), amax.size(), cut);
            dequantize_int8(q.data(), amax.data(), amax.size(), back.data(), cut);
            std::size_t bad = 0;
            for (std::size_t i = 0; i < n; ++i) {
                float largest = 0;
                for (std::size_t k = i / block * block; k < n && k / block == i / block; ++k)
                    largest = std::max(largest, std::fabs(x[k]));
                bad += amax[i / block] != largest || q[i] != exact(x[i], largest);
                bad += back[i] != dequantize_int8(q[i], largest) || q[i] == -128;
            }
            CHECK(bad == 0);
            CHECK(q[n] == 99);
            CHECK(back[n] == 99);
        }
    }
    quantize_int8(nullptr, nullptr, nullptr, 0, {0, 64}); // empty
    quantize_int8(nullptr, nullptr, nullptr, 0, {0, 0});
    CHECK(int8_blocks{0, 0}.count() == 0);
    CHECK(int8_blocks{0, 64}.bytes() == 0);
}

TEST_CASE("an outlier costs its block its digits, not the others") {
    std::vector<float> x(128, 0.3f), back(128);
    x[5] = 1000;
    std::vector<std::int8_t> q(128);
    float amax[2];
    quantize_int8(x.data(), q.data(), amax, 2, {128, 64});
    dequantize_int8(q.data(), amax, 2, back.data(), {128, 64});
    CHECK(back[6] == 0); // 0.3 is below half a step of 1000 / 127
    CHECK(back[70] == 0.3f);
    quantize_int8(x.data(), q.data(), amax, 1, {128, 128}); // one amax for all
    CHECK(q[70] == 0);
}

TEST_CASE("zeros, and a block of nothing else") {
    const std::vector<float> x = {0.0f, -0.0f, 0.0f};
    std::vector<std::int8_t> q(3, 5);
    float amax = 5, back[3] = {5, 5, 5};
    quantize_int8(x.data(), q.data(), &amax, 1, {3, 3});
    CHECK(amax == 0);
    CHECK((q == std::vector<std::int8_t>{0, 0, 0}));
    dequantize_int8(q.data(), &amax, 1, back, {3, 3});
    CHECK(back[2] == 0);
}

TEST_CASE("errors name block and element, and what was wanted") {
    std::vector<float> x(200, 1.5f);
    CHECK(message(x, 64, 4) == "");
    CHECK(message(x, 64, 3) == "int8: room for 3 magnitudes; 200 elements in blocks of 64 have 4");
    CHECK(message(x, 0, 4) == "int8: blocks of 0 elements; give 1 or more, or all 200");
    x[130] = std::numeric_limits<float>::infinity();
    CHECK(message(x, 64, 4) == "int8: block 2 has inf at element 130; only finite numbers have a "
                               "q: look for the overflow before");
    x[130] = -x[130];
    CHECK(message(x, 64, 4).find("block 2 has -inf at element 130") != std::string::npos);
    x[70] = std::numeric_limits<float>::quiet_NaN();
    CHECK(message(x, 64, 4).find("block 1 has nan at element 70") != std::string::npos);
    CHECK(message(x, 200, 1).find("block 0 has nan at element 70") != std::string::npos);
}
