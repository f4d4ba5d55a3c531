// SPDX-License-Identifier: MIT
// Prints what the conversions make of a great many inputs, as one number a format. The same lines
// must come out of every build: with F16C and AVX2, without, and on arm64 (digest.txt).
// As C++17, so that numeric/ is run as such, too.
#include "mpt/base/philox.hpp"        // philox, uniform01, normal_pair
#include "mpt/numeric/cast.hpp"       // cast, cast_streaming, round_tf32
#include "mpt/numeric/fp8.hpp"        // e4m3, e5m2
#include "mpt/numeric/stochastic.hpp" // cast_stochastic

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace mpt;

struct fnv1a { // Fowler, Noll, Vo: 64 bits, over bytes
    std::uint64_t value = 0xCBF29CE484222325;
    template <class T>
    void add(const T* data, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            unsigned char bytes[sizeof(T)];
            std::memcpy(bytes, data + i, sizeof(T));
            for (unsigned char b : bytes) value = (value ^ b) * 0x100000001B3; // little endian
        }
    }
    void print(const char* what) const { std::printf("%-18s %016" PRIx64 "\n", what, value); }
};

// Every 1021st bit pattern of fp32; and around every multiple of 2^12, where all codes of bf16,
// tf32 and fp16 (but its subnormals, which the first sweep meets often) have their ties.
static std::vector<float> sweep() {
    std::vector<float> all;
    for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 1021)
        all.push_back(float_of(std::uint32_t(bits)));
    for (std::uint32_t high = 0; high < (1u << 20); ++high)
        for (std::uint32_t bits : {(high << 12) - 1, high << 12, (high << 12) + 1})
            all.push_back(float_of(bits));
    return all;
}

template <class T>
static void narrowing(const char* what, const std::vector<float>& in) {
    std::vector<T> out(in.size()), streamed(in.size());
    cast(in.data(), out.data(), in.size());
    cast_streaming(in.data(), streamed.data(), in.size());
#if defined(MPT_SABOTAGE) // one code of 7 million: the comparison must notice
    out[in.size() / 2].bits ^= 1;
#endif
    fnv1a hash;
    hash.add(out.data(), out.size());
    hash.add(streamed.data(), streamed.size());
    hash.print(what);
}

template <class T>
static void widening(const char* what) {
    std::vector<T> in(65536); // of 8 bits each code many times
    std::vector<float> out(in.size());
    for (std::uint32_t code = 0; code < 65536; ++code) in[code].bits = decltype(T::bits)(code);
    fnv1a hash;
    cast(in.data(), out.data(), in.size());
    hash.add(out.data(), out.size());
    cast_streaming(in.data(), out.data(), in.size());
    hash.add(out.data(), out.size());
    hash.print(what);
}

template <class T>
static void drawing(const char* what, const std::vector<float>& in) {
    std::vector<T> out(in.size() / 8);
    std::vector<float> some(out.size());
    for (std::size_t i = 0; i < some.size(); ++i) some[i] = in[8 * i + i % 7];
    cast_stochastic(some.data(), out.data(), out.size(), 0x123456789ABCDEF0, 7, 1000);
    fnv1a hash;
    hash.add(out.data(), out.size());
    hash.print(what);
}

int main() {
#if defined(__x86_64__) && defined(__AVX2__)
    if (!__builtin_cpu_supports("avx2")) {
        std::puts("skipped: compiled for AVX2, which this CPU lacks");
        return 77;
    }
#endif
    const std::vector<float> in = sweep();
    narrowing<fp16>("fp32 to fp16", in);
    narrowing<bf16>("fp32 to bf16", in);
    widening<fp16>("fp16 to fp32");
    widening<bf16>("bf16 to fp32");
    narrowing<e4m3>("fp32 to e4m3", in);
    narrowing<e5m2>("fp32 to e5m2", in);
    widening<e4m3>("e4m3 to fp32");
    widening<e5m2>("e5m2 to fp32");
    drawing<fp16>("stochastic fp16", in);
    drawing<bf16>("stochastic bf16", in);
    drawing<e4m3>("stochastic e4m3", in);
    drawing<e5m2>("stochastic e5m2", in);

    std::vector<float> rounded(in.size());
    round_tf32(in.data(), rounded.data(), in.size());
    fnv1a tf32_hash, philox_hash, normal_hash;
    tf32_hash.add(rounded.data(), rounded.size());
    tf32_hash.print("fp32 to tf32");

    for (std::uint32_t i = 0; i < 100000; ++i) {
        const philox4 r = philox({{i, i >> 3, 1, ~i}}, 2026, i * 7);
        const float u = uniform01(r.x[1]);
        const normal2 n = normal_pair(r.x[2], r.x[3]);
        philox_hash.add(r.x, 4);
        philox_hash.add(&u, 1);
        normal_hash.add(&n.first, 1);
        normal_hash.add(&n.second, 1);
    }
    philox_hash.print("philox, uniform01");
    normal_hash.print("normal_pair");
}
