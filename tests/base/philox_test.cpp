// SPDX-License-Identifier: MIT
#include "mpt/base/philox.hpp" // philox, uniform01, normal_pair

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

using namespace mpt;

struct known_answer {
    philox4 counter;
    std::uint32_t key0, key1;
    philox4 output;
};
static constexpr std::uint32_t ones = 0xFFFFFFFF;
static constexpr known_answer known[] = { // published with the generator
    {{{0, 0, 0, 0}}, 0, 0, {{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}}},
    {{{ones, ones, ones, ones}}, ones, ones, {{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}}},
    {{{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}}, 0xA4093822, 0x299F31D0, // digits of pi
     {{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}}},
};
static_assert(philox({{0, 0, 0, 0}}, 0, 0).x[0] == 0x6627E8D5);

template <class Generator>
static int wrong(Generator generator) {
    int count = 0;
    for (const known_answer& k : known) {
        const philox4 is = generator(k.counter, k.key0, k.key1);
        count += std::memcmp(&is, &k.output, sizeof is) != 0;
    }
    return count;
}

TEST_CASE("the known answers") {
    CHECK(wrong(philox) == 0);
}

TEST_CASE("sabotage: swapped keys, a swapped counter, a turned result are found") {
    CHECK(wrong([](philox4 c, std::uint32_t a, std::uint32_t b) { return philox(c, b, a); }) > 0);
    CHECK(wrong([](philox4 c, std::uint32_t a, std::uint32_t b) {
              std::swap(c.x[0], c.x[2]);
              return philox(c, a, b);
          }) > 0);
    CHECK(wrong([](philox4 c, std::uint32_t a, std::uint32_t b) {
              c = philox(c, a, b);
              return philox4{{c.x[1], c.x[2], c.x[3], c.x[0]}};
          }) > 0);
}

TEST_CASE("uniform01 is below 1 and has 24 bits") {
    CHECK(uniform01(0) == 0.0f);
    CHECK(uniform01(0xFF) == 0.0f);
    CHECK(uniform01(0x100) == 0x1p-24f);
    CHECK(uniform01(0x80000000) == 0.5f);
    CHECK(uniform01(0xFFFFFFFF) == 1 - 0x1p-24f);
}

TEST_CASE("uniform numbers: mean 1/2, variance 1/12") {
    double sum = 0, squares = 0;
    const int n = 50000;
    for (int i = 0; i < n; ++i)
        for (std::uint32_t word : philox({{std::uint32_t(i), 5, 0, 0}}, 1, 2).x) {
            const double centred = uniform01(word) - 0.5;
            sum += centred;
            squares += centred * centred;
        }
    const double mean = sum / (4 * n), variance = squares / (4 * n);
    CHECK(std::fabs(mean) < 4 * std::sqrt(1.0 / 12 / (4 * n))); // 4 standard errors
    CHECK(std::fabs(variance - 1.0 / 12) < 4 * std::sqrt(1.0 / 180 / (4 * n)));
}

/// The largest distance of fn(a, b) from Box and Muller's formula by the C library, relative to
/// the radius, over corners and random words.
template <class Normal>
static double worst(Normal fn) {
    double error = 0;
    const auto look = [&](std::uint32_t a, std::uint32_t b) {
        const double radius = std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32));
        const double angle = 6.283185307179586476925 * 0x1p-32 * b;
        const normal2 is = fn(a, b);
        error = std::max(error, std::fabs(is.first - radius * std::cos(angle)) / radius);
        error = std::max(error, std::fabs(is.second - radius * std::sin(angle)) / radius);
    };
    for (std::uint32_t i = 0; i < 64; ++i)
        for (std::uint32_t j = 0; j < 64; ++j) {
            look(i, j << 26);                     // u near 0
            look(~i, (j << 26) + 0x1FFFFFFF);     // u near 1
            look((1u << (i % 32)) - 1, (j << 29) - j); // powers of two; around eighths of a turn
        }
    for (std::uint32_t i = 0; i < 50000; ++i) {
        const philox4 r = philox({{i, 0, 0, 0}}, 3, 4);
        look(r.x[0], r.x[1]);
        look(r.x[2], r.x[3]);
    }
    return error;
}

TEST_CASE("normal_pair is Box and Muller's formula to 2e-15") {
    CHECK(worst(normal_pair) < 2e-15);
    CHECK(worst([](std::uint32_t a, std::uint32_t b) { // sabotage: float instead of double
              const normal2 n = normal_pair(a, b);
              return normal2{double(float(n.first)), double(float(n.second))};
          }) > 2e-15);
    CHECK(worst([](std::uint32_t a, std::uint32_t b) { return normal_pair(a + 1, b); }) > 2e-15);
}

TEST_CASE("normal numbers: mean 0, variance 1, fourth moment 3, never past 6.77") {
    double sum = 0, squares = 0, fourth = 0, largest = 0;
    const int n = 100000;
    for (int i = 0; i < n; ++i) {
        const philox4 r = philox({{std::uint32_t(i), 0, 0, 0}}, 9, 9);
        const normal2 pair = normal_pair(r.x[0], r.x[1]);
        for (double z : {pair.first, pair.second}) {
            sum += z;
            squares += z * z;
            fourth += z * z * z * z;
            largest = std::max(largest, std::fabs(z));
        }
    }
    const double error = 4 / std::sqrt(2.0 * n); // 4 standard errors of a mean of variance 1
    CHECK(std::fabs(sum / (2 * n)) < error);
    CHECK(std::fabs(squares / (2 * n) - 1) < error * std::sqrt(2.0));
    CHECK(std::fabs(fourth / (2 * n) - 3) < error * std::sqrt(96.0));
    CHECK(largest > 4);
    CHECK(normal_pair(0, 0).first < 6.77);
    CHECK(normal_pair(0, 0).first > 6.76);
}

TEST_CASE("the bits of a normal number, the same on every machine") {
    const normal2 n = normal_pair(0x6627E8D5, 0xE169C58D);
    std::uint64_t first, second;
    std::memcpy(&first, &n.first, 8);
    std::memcpy(&second, &n.second, 8);
    CHECK(first == 0x3FEFB7665DC75752ull);
    CHECK(second == 0xBFED96D5FF1F1A43ull);
}
