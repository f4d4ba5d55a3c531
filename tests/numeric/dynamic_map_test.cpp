// SPDX-License-Identifier: MIT
#include "mpt/numeric/dynamic_map.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

using namespace mpt;

namespace {

// entries whose bits differ from those of a file "index,value,fp32_hex"
template <class Map>
int differing(const Map& map, const std::string& name) {
    std::string path = __FILE__;
    path = path.substr(0, path.rfind('/')) + "/../cases/formats/" + name;
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    int wrong = 0, rows = 0;
    while (std::getline(in, line)) {
        int index = -1;
        unsigned bits = 0;
        if (std::sscanf(line.c_str(), "%d,%*[^,],%x", &index, &bits) != 2 || index != rows)
            return -1;
        wrong += bits_of(map.value[std::size_t(rows++)]) != bits;
    }
    return rows == 256 ? wrong : -1;
}

// The nearest of the first `entries`, by looking at each of them; of two the one nearer to 0.
template <class Map>
int nearest(const Map& map, float q, int entries = 256) {
    int best = 0;
    for (int c = 1; c < entries; ++c) {
        const double now = std::abs(double(map.value[std::size_t(c)]) - double(q)),
                     was = std::abs(double(map.value[std::size_t(best)]) - double(q));
        if (now < was || (now == was && std::abs(map.value[std::size_t(c)]) <
                                            std::abs(map.value[std::size_t(best)])))
            best = c;
    }
    return best;
}

// Numbers where a decision may go wrong: on and beside every middle, entry and edge of a bucket.
template <class Map>
std::vector<float> hard(const Map& map) {
    std::vector<float> q{0.0f, -0.0f, 1e-45f, 1e-38f, 1.0f};
    const auto around = [&](float x) {
        for (const float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, 2.0f)}) q.push_back(y);
    };
    for (int c = map.zero; c < 255; ++c) {
        const double a = double(map.value[std::size_t(c)]),
                     b = double(map.value[std::size_t(c + 1)]);
        around(float((a + b) / 2));
        around(float(a));
    }
    for (std::uint32_t b = map.low - 100; b < map.high; ++b) around(float_of(b << map.shift));
    for (std::size_t i = 0, n = q.size(); i < n; ++i) q.push_back(-q[i]);
    while (q.back() < -1) q.pop_back();
    return q;
}

template <class Map>
int wrong(const Map& map, int entries = 256) {
    int n = 0;
    for (const float q : hard(map))
        if (q >= map.value[0] - 0.01f) n += map.code(q) != nearest(map, q, entries);
    return n;
}

// What the wide loops and the plain one make of n numbers.
template <class Map>
int loops_differ(const Map& map, std::size_t n, bool keep_sign) {
    std::vector<float> x(n), back(n);
    std::vector<std::uint8_t> codes(n);
    for (std::size_t i = 0; i < n; ++i) {
        const float size = std::pow(10.0f, -8 * float(i * 7919 % 1009) / 1009);
        x[i] = 3 * size * (map.zero && i % 3 == 1 ? -1.0f : 1.0f);
    }
    const float absmax = quantize_block(map, x.data(), codes.data(), n);
    dequantize_block(map, codes.data(), absmax, back.data(), n);
    int differ = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const int c = map.code(x[i] / absmax, keep_sign);
        differ += c != codes[i] || back[i] != map.value[std::size_t(c)] * absmax;
    }
    return differ;
}

} // namespace

TEST_CASE("both maps are those of the files, bit for bit") {
    CHECK(differing(signed_map, "dynmap_signed.csv") == 0);
    CHECK(differing(unsigned_map, "dynmap_unsigned.csv") == 0);
    CHECK(signed_map.value[0] == -0.99296875f);
    CHECK(signed_map.value[127] == 0);
    CHECK(unsigned_map.value[1] == 3.25e-7f);
    CHECK(signed_map.value[255] == 1);
    CHECK(differing(signed_map, "dynmap_unsigned.csv") > 250); // sabotage: the other map
}

TEST_CASE("entries ascend; each decade has twice the entries of the one below") {
    for (std::size_t c = 1; c < 256; ++c) {
        CHECK(signed_map.value[c - 1] < signed_map.value[c]);
        CHECK(unsigned_map.value[c - 1] < unsigned_map.value[c]);
    }
    for (int i = 0; i < 7; ++i) {
        int n = 0, positive = 0;
        for (std::size_t c = 0; c < 256; ++c) {
            const auto inside = [&](float x) {
                return x > 0.999 * std::pow(10, i - 7) && x < 0.999 * std::pow(10, i - 6);
            };
            n += inside(unsigned_map.value[c]);
            positive += inside(signed_map.value[c]);
        }
        CHECK(n == 2 << i);
        CHECK(positive == 1 << i);
    }
}

TEST_CASE("known codes; an outlier takes the digits of its neighbours") {
    const std::vector<float> x{1, -.5f, 1e-3f, 0, 1e-7f, -.1f};
    const std::vector<int> want{255, 35, 142, 127, 127, 64};
    const std::vector<float> value{1, -.50078125f, .00094375f, 0, 0, -.09859375f};
    std::vector<std::uint8_t> codes(6);
    std::vector<float> back(6);
    CHECK(quantize_block(signed_map, x.data(), codes.data(), 6) == 1);
    dequantize_block(signed_map, codes.data(), 1, back.data(), 6);
    for (std::size_t i = 0; i < 6; ++i) {
        CHECK(codes[i] == want[i]);
        CHECK(back[i] == value[i]);
    }
    const std::vector<float> outlier{100, .001f};
    CHECK(quantize_block(signed_map, outlier.data(), codes.data(), 2) == 100);
    dequantize_block(signed_map, codes.data(), 100, back.data(), 2);
    CHECK(codes[1] == 130);
    CHECK(back[0] == 100);
    CHECK(back[1] == doctest::Approx(0.000775).epsilon(1e-6)); // .001 alone with 1: .00094375
}

TEST_CASE("every code is the nearest entry, on all sides of all decisions") {
    CHECK(wrong(signed_map) == 0);
    CHECK(wrong(unsigned_map) == 0);
    // sabotage: a map that ends at entry 249; the top of the range has no code
    CHECK(wrong(signed_map, 250) > 0);
    CHECK(wrong(unsigned_map, 250) > 0);
}

TEST_CASE("a sign is kept: what is below 0 does not become 0") {
    int flips = 0, plain = 0;
    for (const float q : hard(signed_map)) {
        const auto sign_of = [](float x) { return (x > 0) - (x < 0); };
        const auto at = [&](bool keep) {
            return sign_of(signed_map.value[std::size_t(signed_map.code(q, keep))]);
        };
        flips += q < 0 && at(true) != -1;
        flips += q > 0 && at(true) == -1;
        plain += q < 0 && at(false) != -1;
        if (q == 0) CHECK(signed_map.code(q, true) == 127); // -0 too
    }
    CHECK(flips == 0);
    CHECK(plain > 0); // sabotage: nearest alone
    CHECK(signed_map.code(-1e-9f, true) == 126);
    CHECK(signed_map.code(1e-9f, true) == 127); // as bitsandbytes: only a negative one is moved
}

TEST_CASE("blocks of any length, by any loop") {
    for (const std::size_t n : {1u, 7u, 8u, 15u, 16u, 17u, 31u, 255u, 256u}) {
        CHECK(loops_differ(signed_map, n, true) == 0);
        CHECK(loops_differ(unsigned_map, n, true) == 0);
    }
    CHECK(loops_differ(signed_map, 256, false) > 0); // sabotage: the sign not kept
    // the ends of the map in the wide loop: -1 is the lowest entry, -0 is 0, little below 0 is not
    std::vector<float> ends(16, -1.0f);
    ends[1] = -0.0f, ends[2] = -1e-9f, ends[3] = 1e-9f, ends[4] = -0.997f, ends[5] = 1;
    std::vector<std::uint8_t> at(16);
    quantize_block(signed_map, ends.data(), at.data(), 16);
    CHECK(at == std::vector<std::uint8_t>{0, 127, 126, 127, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    CHECK(quantize_block(signed_map, nullptr, nullptr, 0) == 0);
    const float zeros[3] = {0, -0.0f, 0};
    std::uint8_t codes[3];
    CHECK(quantize_block(signed_map, zeros, codes, 3) == 0);
    CHECK(codes[1] == 127);
    const float tiny[2] = {1e-45f, -1e-45f}; // the smallest subnormal numbers
    CHECK(quantize_block(signed_map, tiny, codes, 2) == 1e-45f);
    CHECK(codes[0] == 255);
    CHECK(codes[1] == 0);
}

TEST_CASE("the error of a number, in parts of it") {
    // half a step of the top decade, .9 / 64 / 2 of q >= .1 (unsigned .9 / 128 / 2): 7 % at its
    // low end and 0.7 % at 1
    for (int i = 1000; i <= 9900; ++i) {
        const float q = float(i) / 10000;
        CHECK(std::abs(signed_map.value[std::size_t(signed_map.code(q))] - q) <=
              0.9f / 128 + 1e-7f);
        CHECK(std::abs(unsigned_map.value[std::size_t(unsigned_map.code(q))] - q) <=
              0.9f / 256 + 1e-7f);
    }
}

TEST_CASE("what is not finite has no code: one line, nothing written") {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
        const float x[3] = {1, bad, 2};
        std::uint8_t codes[3] = {9, 9, 9};
        std::string said;
        try {
            quantize_block(signed_map, x, codes, 3);
        } catch (const error& e) {
            said = e.what();
        }
        CHECK(said.find("dynamic_map: a block with ") == 0);
        CHECK(said.find("only finite numbers have a code") != std::string::npos);
        CHECK(codes[0] == 9);
    }
}
