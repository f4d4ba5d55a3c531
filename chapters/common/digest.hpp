// SPDX-License-Identifier: MIT
// digest.hpp -- all 2^32 floats through a conversion, and every code that comes out in one number.
#pragma once
#include "progress.hpp" // progress: on stderr

#include "mpt/base/thread_pool.hpp" // thread_pool: for_each
#include "mpt/numeric/cast.hpp"     // cast; fp16, bf16, tf32
#include "mpt/numeric/fp4_fp6.hpp"  // e2m1, e2m3, e3m2
#include "mpt/numeric/fp8.hpp"      // e4m3, e5m2
#include "mpt/numeric/rounding.hpp" // float_of

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

//! [fnv]
// FNV-1a, 64 bits: for each byte, hash = (hash ^ byte) * prime.
struct fnv1a {
    static constexpr std::uint64_t offset = 0xCBF29CE484222325, prime = 0x100000001B3;
    template <class Bits>
    static std::uint64_t add(std::uint64_t hash, Bits code) {
        for (unsigned byte = 0; byte < sizeof code; ++byte) // the lowest first
            hash = (hash ^ (code >> 8 * byte & 0xFF)) * prime;
        return hash;
    }
};
//! [fnv]

// One conversion to T, and the hash of all the codes that it has made.
template <class T>
struct digest {
    static constexpr std::size_t block = 2048; // floats at once: so many stay in the first cache
    const char* name;
    void (*convert)(const float* in, T* out, std::size_t n) = mpt::cast<float, T>;
    std::uint64_t hash = fnv1a::offset;
    T out[block] = {};

    void print() const { std::printf("%s %016" PRIx64 "\n", name, hash); }
};

// How far several sweeps are, together.
class sweeps {
public:
    static constexpr int parts = 128; // of a sweep
    explicit sweeps(int count) : bar_(count * parts) {}
    void part_done() {
        const std::lock_guard hold(lock_);
        bar_.show(++done_, "of all floats");
    }

private:
    std::mutex lock_;
    progress bar_;
    long done_ = 0;
};

//! [sweep]
// Every float, in the order of its bits, through every conversion in d. A hash waits for its own
// last byte; so several advance side by side, in one loop, and the processor has always one to do.
// flip: the float (its bits) whose codes get a wrong bit; 2^32 and above: none.
template <class... T>
void sweep(sweeps& all, std::uint64_t flip, digest<T>&... d) {
    constexpr std::uint64_t block = 2048, part = (1ull << 32) / sweeps::parts;
    std::vector<float> in(block);
    for (std::uint64_t first = 0; first < 1ull << 32; first += block) {
        for (std::uint64_t i = 0; i < block; ++i) in[i] = mpt::float_of(std::uint32_t(first + i));
        (d.convert(in.data(), d.out, block), ...);
        if (flip / block == first / block) ((d.out[flip % block].bits ^= 1), ...);

        std::uint64_t hash[] = {d.hash...}; // in registers
        for (std::uint64_t i = 0; i < block; ++i) {
            std::size_t k = 0;
            ((hash[k] = fnv1a::add(hash[k], d.out[i].bits), ++k), ...);
        }
        std::size_t k = 0;
        ((d.hash = hash[k++]), ...);
        if ((first + block) % part == 0) all.part_done();
    }
}
//! [sweep]

template <class T>
void unsaturated(const float* in, T* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = T::unsaturated(in[i]);
}

// which: "all" or "mx". Two sweeps at a time, with about as many bytes to hash in each.
inline void all_digests(const std::string& which, bool sabotage, int threads) {
    const std::uint64_t flip = sabotage ? 0x3F800000 : 1ull << 32; // 1.0, or none
    mpt::thread_pool pool(threads);
    sweeps all(2);
    if (which == "mx") {
        digest<mpt::e2m1> e2m1{"e2m1"};
        digest<mpt::e3m2> e3m2{"e3m2"};
        digest<mpt::e2m3> e2m3{"e2m3"};
        pool.for_each(2, [&](std::size_t part, int) {
            part == 0 ? sweep(all, flip, e2m1, e3m2) : sweep(all, flip, e2m3);
        });
        e2m1.print(), e3m2.print(), e2m3.print();
        return;
    }
    digest<mpt::fp16> fp16{"fp16"};
    digest<mpt::bf16> bf16{"bf16"};
    digest<mpt::tf32> tf32{"tf32"};
    digest<mpt::e4m3> e4m3{"e4m3", unsaturated<mpt::e4m3>}, e4m3_sat{"e4m3_sat"};
    digest<mpt::e5m2> e5m2{"e5m2", unsaturated<mpt::e5m2>}, e5m2_sat{"e5m2_sat"};
    pool.for_each(2, [&](std::size_t part, int) {
        part == 0 ? sweep(all, flip, tf32, e4m3, e4m3_sat)
                  : sweep(all, flip, fp16, bf16, e5m2, e5m2_sat);
    });
    fp16.print(), bf16.print(), tf32.print();
    e4m3.print(), e4m3_sat.print(), e5m2.print(), e5m2_sat.print();
}
