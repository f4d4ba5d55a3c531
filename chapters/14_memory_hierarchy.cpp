// SPDX-License-Identifier: MIT
// The memory hierarchy: sectors, banks, tiles; what a warp asks for, and what has to be moved.
//
// broken: --sabotage out-of-bounds => Invalid __global__ write of size 4 bytes
// broken: --sabotage out-of-bounds => chapters/14_memory_hierarchy.cpp:33
// broken: --sabotage misaligned => is misaligned
// broken: --sabotage uninitialized => Uninitialized __global__ memory read of size 4 bytes
// broken: --sabotage race => Race reported between
// broken: --sabotage race => chapters/14_memory_hierarchy.cpp:72
// broken: --size 100 => --size 100: wanted a multiple of 32
// with: --size 96 --plot sectors.svg => [holds] transposed in tiles: 4 sectors a load, 4 a store
// cuda: --size 64
#include "common/args.hpp"       // arguments: the flags
#include "common/claims.hpp"     // claims: what is proved
#include "common/cost_table.hpp" // cost_table: a line a kernel
#include "common/device.hpp"     // array, cost_of: the emulator or a GPU
#include "common/plot.hpp"       // plot: sectors over stride

#include "mpt/kernels/scalar.cuh" // blocks_for

#include <numeric>

struct options {
    std::string sabotage = "none", plot;
    int size = on_gpu ? 4096 : 64; // of the matrix; the other arrays have as many elements
};

//! [strided]
// Neighbouring threads load floats that lie `stride` apart.
__global__ void strided(float* y, const float* x, unsigned n, unsigned stride, unsigned first) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = x[first + i * stride];
}
//! [strided]

//! [packs]
// A load and a store of a thread move a float, a float2 or a float4.
template <class Pack>
__global__ void copy_packs(Pack* y, const Pack* x, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
//! [packs]

//! [banks]
// The 32 lanes of a warp read words of shared memory that lie `stride` apart.
__global__ void banks(float* y, unsigned stride) {
    __shared__ float row[32 * 33];
    for (unsigned i = threadIdx.x; i < 32 * 33; i += 32) row[i] = float(i);
    __syncthreads();
    y[threadIdx.x] = row[threadIdx.x * stride];
}
//! [banks]

//! [transpose]
// Version 1: rows are read, columns written: 32 sectors a store.
__global__ void transpose_naive(float* y, const float* x, unsigned n) {
    const unsigned column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    y[column * n + row] = x[row * n + column];
}
// Version 2: through a tile in shared memory, which is turned around there; rows are read and rows
// are written. Version 3, pad 1: the tile's rows are 33 words long, so that a column lies in 32
// different banks.
template <int pad>
__global__ void transpose_tiled(float* y, const float* x, unsigned n, bool wait) {
    __shared__ float tile[32][32 + pad];
    const unsigned left = blockIdx.x * 32, top = blockIdx.y * 32;
    tile[threadIdx.y][threadIdx.x] = x[(top + threadIdx.y) * n + left + threadIdx.x];
    if (wait) __syncthreads();
    // the tile goes to where its mirror image lies
    y[(left + threadIdx.y) * n + top + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
//! [transpose]

void strides(const options& o, unsigned n, claims& claim) {
    const array<float> x(std::size_t(n) * 32 + 8), y(n);
    if (o.sabotage != "uninitialized")
        ok(cudaMemset(x.data(), 0, x.size() * sizeof(float)), "cudaMemset");
    const unsigned threads = o.sabotage == "out-of-bounds" ? n + 1 : n; // one too many for y
    const cost_table t("loads, a float a thread", 8 * n);
    curve counted{"counted", {}, curve::dots}, formula{"min(4 stride, 32)", {}};
    bool exact = true;
    const auto run = [&](unsigned stride, unsigned first) {
        return cost_of([&] {
            mpt::launch<strided>({blocks_for(threads, 256), 256}, y.data(), x.data(), threads,
                                 stride, first);
        });
    };
    for (unsigned stride = 1; stride <= 32; ++stride) {
        const costs c = run(stride, 0);
        if ((stride & (stride - 1)) == 0 || stride == 3) t.row(mpt::join("stride ", stride), c);
        exact = exact && c.sectors_a_load() == std::min(4 * stride, 32u);
        counted.points.push_back({stride, c.sectors_a_load()});
        formula.points.push_back({stride, std::min(4 * stride, 32u)});
    }
    const costs one_off = run(1, 1), eight_off = run(1, 8);
    t.row("from element 1 on", one_off);
    t.row("from element 8 on", eight_off);
    if (on_gpu) return;
    // expect: [holds] a warp's load with stride s: min(4 s, 32) sectors, s from 1 to 32
    claim(exact, "a warp's load with stride s: min(4 s, 32) sectors, s from 1 to 32");
    // expect: [holds] off by one float: 5 sectors; by eight, which are a sector: 4 again
    claim(one_off.sectors_a_load() == 5 && eight_off.sectors_a_load() == 4,
          "off by one float: 5 sectors; by eight, which are a sector: 4 again");
    const plot p{"Sectors of a warp's load", "stride, floats", "sectors of 32 bytes",
                 {formula, counted}, true};
    mpt::check(o.plot.empty() || p.save(o.plot), "--plot ", o.plot,
               ": cannot be written; give a file in a folder that exists");
}

template <class Pack>
costs packs(const cost_table& t, const array<float>& y, const array<float>& x, int off) {
    const auto n = unsigned(y.size() * sizeof(float) / sizeof(Pack));
    const costs c = cost_of([&] {
        mpt::launch<copy_packs<Pack>>({blocks_for(n, 256), 256},
                                      reinterpret_cast<Pack*>(y.data()),
                                      reinterpret_cast<const Pack*>(x.data() + off), n);
    });
    t.row(mpt::join(sizeof(Pack), " bytes a thread"), c);
    return c;
}

void wide(const options& o, unsigned n, claims& claim) {
    const std::vector<float> host = random_numbers(n + 4, false);
    const array<float> x(host), y(n);
    const cost_table t("copies", 8 * n);
    const int off = o.sabotage == "misaligned" ? 1 : 0;
    const costs one = packs<float>(t, y, x, 0), two = packs<float2>(t, y, x, 0),
                four = packs<float4>(t, y, x, off);
    // expect: [holds] copied in packs of 4, the same numbers
    claim(y.read() == std::vector<float>(host.begin(), host.end() - 4),
          "copied in packs of 4, the same numbers");
    if (on_gpu) return;
    // expect: [holds] 16 bytes a thread: the same sectors, a quarter of the requests
    claim(four.global_load_sectors == one.global_load_sectors &&
              one.global_load_requests == 4 * four.global_load_requests &&
              one.global_load_requests == 2 * two.global_load_requests,
          "16 bytes a thread: the same sectors, a quarter of the requests");
}

void shared(claims& claim) {
    if (on_gpu) return; // 32 lanes are too few to be timed
    const array<float> y(32);
    std::printf("\n%-24s %10s\n", "shared memory, a column", "wavefronts");
    bool exact = true;
    for (unsigned stride = 1; stride <= 33; ++stride) {
        const costs c = cost_of([&] { mpt::launch<banks>({1, 32}, y.data(), stride); });
        if ((stride & (stride - 1)) == 0 || stride == 33)
            std::printf("stride %-17u %10llu\n", stride, c.shared_load_wavefronts);
        exact = exact && c.shared_load_requests == 1 &&
                c.shared_load_wavefronts == std::gcd(stride, 32u);
    }
    // expect: [holds] words of stride s lie gcd(s, 32) in a bank: 32 of stride 32, one of stride 33
    claim(exact, "words of stride s lie gcd(s, 32) in a bank: 32 of stride 32, one of stride 33");
}

void transposed(const options& o, claims& claim) {
    const auto n = unsigned(o.size);
    const std::vector<float> host = random_numbers(std::size_t(n) * n, false);
    const array<float> x(host);
    std::vector<float> mirrored(host.size());
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) mirrored[j * n + i] = host[i * n + j];

    const cost_table t(mpt::join("transposed, ", n, " x ", n), 8 * host.size());
    const mpt::launch_config how{dim3(n / 32, n / 32), dim3(32, 32)};
    const bool wait = o.sabotage != "race";
    bool same = true;
    const auto step = [&](const char* name, auto run) {
        const array<float> y(host.size());
        const costs c = cost_of([&] { run(y.data()); });
        t.row(name, c);
        same = same && y.read() == mirrored;
        return c;
    };
    const costs naive = step("1 naive", [&](float* y) {
        mpt::launch<transpose_naive>(how, y, x.data(), n);
    });
    const costs tiled = step("2 tile[32][32]", [&](float* y) {
        mpt::launch<transpose_tiled<0>>(how, y, x.data(), n, wait);
    });
    const costs padded = step("3 tile[32][33]", [&](float* y) {
        mpt::launch<transpose_tiled<1>>(how, y, x.data(), n, wait);
    });
    // expect: [holds] three times the transposed matrix, bit for bit
    claim(same, "three times the transposed matrix, bit for bit");
    if (on_gpu) return;
    // expect: [holds] naively 4 sectors a load and 32 a store
    claim(naive.sectors_a_load() == 4 && naive.sectors_a_store() == 32,
          "naively 4 sectors a load and 32 a store");
    // expect: [holds] transposed in tiles: 4 sectors a load, 4 a store
    claim(tiled.sectors_a_load() == 4 && tiled.sectors_a_store() == 4 &&
              padded.sectors_a_store() == 4,
          "transposed in tiles: 4 sectors a load, 4 a store");
    // expect: [holds] a column of tile[32][32]: 32 wavefronts; of tile[32][33]: 1
    claim(tiled.shared_load_wavefronts == 32 * tiled.shared_load_requests &&
              padded.shared_load_wavefronts == padded.shared_load_requests &&
              padded.shared_store_conflicts == 0,
          "a column of tile[32][32]: 32 wavefronts; of tile[32][33]: 1");
    std::printf("\nversion 2 by Nsight Compute's names\n");
    for (const auto& m : costs::metrics())
        if (*m.name && tiled.*m.member)
            std::printf("%-60s %8llu\n", m.name, tiled.*m.member);
}

int hierarchy(const options& o) {
    std::printf("on: %s\n", device_name().c_str());
    mpt::check(o.size % 32 == 0, "--size ", o.size, ": wanted a multiple of 32, a tile's side");
    claims claim;
    const unsigned n = unsigned(o.size) * unsigned(o.size);
    strides(o, n, claim);
    wide(o, n, claim);
    shared(claim);
    transposed(o, claim);
    return claim.status();
}

// picture: --plot sectors.svg => docs/images/chapter_14_sectors.svg
int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "14_memory_hierarchy", "The memory hierarchy.");
    args.add("--size", o.size, "rows and columns of the matrix; elements: its square", 32, 8192);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "out-of-bounds", "misaligned", "uninitialized", "race"});
    args.add("--plot", o.plot, "draw sectors over the stride into this SVG file");
    return args.run([&] { return hierarchy(o); });
}
