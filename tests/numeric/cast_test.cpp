// SPDX-License-Identifier: MIT
#include "mpt/numeric/cast.hpp" // cast, cast_streaming, widen, narrow, round_tf32
#include "mpt/numeric/fp8.hpp"  // e4m3, e5m2

#include "model.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace mpt;

template <class T>
static T pattern(std::uint32_t bits) { // any bits, also NaN: elements are compared as memory
    const std::uint64_t twice = bits * 0x100000001ull; // a double has 8 bytes
    T x;
    std::memcpy(&x, &twice, sizeof(T));
    return x;
}

/// Elements at which fn(src, dst, n) and the scalar conversion differ in any bit, or that fn wrote
/// outside of [0, n): over every n up to 67, and starts that no vector is aligned to.
template <class S, class D, class Cast>
static std::size_t faults(Cast fn) {
    std::size_t count = 0;
    std::uint32_t draw = 0;
    for (std::size_t n = 0; n <= 67; ++n)
        for (std::size_t from = 0; from < 3; ++from)
            for (std::size_t to = 0; to < 3; ++to) {
                std::vector<S> src(from + n);
                for (S& x : src) {
                    const philox4 random = philox({{draw++, 0, 0, 0}}, 11, 12);
                    std::uint32_t bits = random.x[0];
                    if (random.x[1] % 4 == 0) bits |= 0x7F807F80; // infinities, NaNs
                    if (random.x[1] % 4 == 1) bits &= 0x807F807F; // tiny numbers
                    if (random.x[1] % 4 == 2) bits = (bits & 0xFFFF0000) | 0x8000; // ties
                    x = pattern<S>(bits);
                }
                const D untouched = pattern<D>(0xA5A5A5A5);
                std::vector<D> dst(to + n + 20, untouched), wanted = dst;
                for (std::size_t i = 0; i < n; ++i) wanted[to + i] = convert<D>(src[from + i]);
                fn(src.data() + from, dst.data() + to, n);
                for (std::size_t i = 0; i < dst.size(); ++i)
                    count += std::memcmp(&dst[i], &wanted[i], sizeof(D)) != 0;
            }
    return count;
}

template <class S, class D>
static void check_pair() {
    CAPTURE(name<S>());
    CAPTURE(name<D>());
    CHECK(faults<S, D>([](const S* s, D* d, std::size_t n) { cast(s, d, n); }) == 0);
    CHECK(faults<S, D>([](const S* s, D* d, std::size_t n) { cast_streaming(s, d, n); }) == 0);
}

TEST_CASE("cast has the bits of the scalar conversion, at every length and alignment") {
    check_pair<float, fp16>();
    check_pair<fp16, float>();
    check_pair<float, bf16>();
    check_pair<bf16, float>();
    check_pair<float, e4m3>();
    check_pair<e4m3, float>();
    check_pair<float, e5m2>();
    check_pair<e5m2, float>();
    check_pair<bf16, e4m3>();
    check_pair<fp16, bf16>();
    check_pair<bf16, fp16>();
    check_pair<float, tf32>();
    check_pair<float, float>();
    check_pair<double, double>();
    check_pair<bf16, double>();
}

TEST_CASE("sabotage: the same check finds a wrong tail, a wrong NaN, a store past the end") {
    CHECK(faults<float, bf16>([](const float* s, bf16* d, std::size_t n) {
              cast(s, d, n);
              for (std::size_t i = n - n % 16; i < n; ++i)
                  d[i].bits = std::uint16_t(bits_of(s[i]) >> 16);
          }) > 0);
    CHECK(faults<float, fp16>([](const float* s, fp16* d, std::size_t n) {
              cast(s, d, n);
              for (std::size_t i = 0; i < n; ++i)
                  if (std::isnan(s[i])) d[i].bits = 0x7E00; // NaN, but not this one
          }) > 0);
    CHECK(faults<float, e4m3>([](const float* s, e4m3* d, std::size_t n) {
              for (std::size_t i = 0; i < n; ++i) d[i] = e4m3::unsaturated(s[i]);
          }) > 0);
    CHECK(faults<fp16, float>([](const fp16* s, float* d, std::size_t n) {
              cast(s, d, n);
              if (n == 64) d[n] = 0;
          }) > 0);
}

TEST_CASE("all 65,536 codes widen as arrays, and narrow back") {
    std::vector<fp16> half(65536), half_back(65536);
    std::vector<bf16> brain(65536), brain_back(65536);
    std::vector<float> wide(65536);
    for (std::uint32_t c = 0; c < 65536; ++c) {
        half[c].bits = std::uint16_t(c);
        brain[c].bits = std::uint16_t(c);
    }
    std::size_t bad = 0;
    cast(half.data(), wide.data(), wide.size());
    cast(wide.data(), half_back.data(), wide.size());
    for (std::uint32_t c = 0; c < 65536; ++c) {
        bad += bits_of(wide[c]) != bits_of(float(half[c]));
        bad += half_back[c].bits != (std::isnan(wide[c]) ? c | 0x200 : c);
    }
    cast(brain.data(), wide.data(), wide.size());
    cast(wide.data(), brain_back.data(), wide.size());
    for (std::uint32_t c = 0; c < 65536; ++c) {
        bad += bits_of(wide[c]) != bits_of(float(brain[c]));
        bad += brain_back[c].bits != (std::isnan(wide[c]) ? c | 0x40 : c);
    }
    CHECK(bad == 0);
}

template <class T>
static void as_they_are(std::vector<T>&) {}
template <class T>
static void one_wrong(std::vector<T>& codes) { // sabotage
    codes[777].bits ^= 1;
}

// All codes, each four times or more, at different places of 16.
template <class T>
static std::size_t wrong_eights(void (*spoil)(std::vector<T>&) = as_they_are<T>) {
    std::vector<T> codes(1028), back(1028);
    std::vector<float> wide(1028);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i].bits = std::uint8_t(i * 5 / 4);
    std::size_t bad = 0;
    cast(codes.data(), wide.data(), wide.size());
    cast(wide.data(), back.data(), wide.size());
    spoil(back);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        bad += bits_of(wide[i]) != bits_of(float(codes[i]));
        bad += back[i].bits != T(float(codes[i])).bits;
    }
    return bad;
}

TEST_CASE("all 256 codes widen as arrays, and narrow back") {
    CHECK(wrong_eights<e4m3>() == 0);
    CHECK(wrong_eights<e5m2>() == 0);
    CHECK(wrong_eights<e4m3>(one_wrong<e4m3>) == 1);
}

template <class T>
static std::size_t wrong_narrowing(void (*spoil)(std::vector<T>&) = as_they_are<T>) {
    const std::vector<float> in = model::inputs(model::shape_of<T>(), 1, 20000);
    std::vector<T> out(in.size());
    cast(in.data(), out.data(), in.size());
    spoil(out);
    std::size_t bad = 0;
    for (std::size_t i = 0; i < in.size(); ++i) bad += out[i].bits != T(in[i]).bits;
    return bad;
}

TEST_CASE("every tie of fp8 narrows as arrays as it does alone") {
    CHECK(wrong_narrowing<e4m3>() == 0);
    CHECK(wrong_narrowing<e5m2>() == 0);
    CHECK(wrong_narrowing<e5m2>(one_wrong<e5m2>) == 1);
}

TEST_CASE("ties, neighbours of ties and random floats narrow as arrays as they do alone") {
    for (const model::shape f : {model::shape_of<fp16>(), model::shape_of<bf16>()}) {
        const std::vector<float> in = model::inputs(f, 3, 20000);
        std::vector<fp16> half(in.size());
        std::vector<bf16> brain(in.size());
        std::vector<float> tf(in.size());
        cast(in.data(), half.data(), in.size());
        cast(in.data(), brain.data(), in.size());
        round_tf32(in.data(), tf.data(), in.size());
        std::size_t bad = 0;
        for (std::size_t i = 0; i < in.size(); ++i) {
            bad += half[i].bits != fp16(in[i]).bits;
            bad += brain[i].bits != bf16(in[i]).bits;
            bad += bits_of(tf[i]) != bits_of(round_tf32(in[i]));
        }
        CHECK(bad == 0);
    }
}

TEST_CASE("what is wide already is not copied") {
    const float plain[3] = {1, 2, 3};
    const fp16 half[3] = {fp16(1.0f), fp16(2.0f), fp16(3.0f)};
    float scratch[3] = {};
    CHECK(widen(plain, 3, scratch) == plain);
    CHECK(scratch[0] == 0);
    CHECK(widen(half, 3, scratch) == scratch);
    CHECK(scratch[2] == 3);
    const double deep[1] = {0.1};
    CHECK(widen(deep, 1, static_cast<double*>(nullptr)) == deep);
}

TEST_CASE("narrow rounds, or copies, or does nothing") {
    float wide[3] = {1 + 0x1p-9f, 2, 3}, other[3];
    bf16 brain[3];
    narrow(wide, brain, 3);
    CHECK(float(brain[0]) == 1.0f);
    narrow<float>(wide, wide, 3);
    narrow<float>(wide, other, 3);
    CHECK(other[0] == 1 + 0x1p-9f);
    narrow<float>(nullptr, nullptr, 0);
    round_tf32(wide, wide, 3); // in place
    CHECK(wide[0] == 1 + 0x1p-9f);
}

TEST_CASE("streaming is for what would not stay in a cache") {
    CHECK(!streaming_pays(1 << 20));
    CHECK(streaming_pays(std::size_t(600) << 20)); // 100 million elements
}
