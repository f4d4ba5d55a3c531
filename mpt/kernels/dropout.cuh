// SPDX-License-Identifier: MIT
/// @file dropout.cuh
/// Zero a random part of the elements; the same part again in backward.    tier 3, needs:
/// kernels/random.cuh kernels/scalar.cuh
///
/// Idea     The masks of nn/dropout.hpp, bit for bit: no mask is stored, whoever knows an element's
///          address draws it again. A counter of Philox makes 4 words, so a thread takes the 4
///          elements, or 8 of 16 bits, that belong to its counters. residual adds the straight
///          path in the same pass, rounded once.
/// Formula  y = keep ? x / (1 - p) : 0,  keep = (word >> 8) >= p 2^24,
///          counter = (e / 4, sample, step, layer);  residual: out = x + dropout(branch)
/// Costs    bytes an element: dropout 1 read, 1 write; residual 2 reads, 1 write
/// Breaks   step and sample by value in a graph that is captured once: every step drops the same.
///          There `place` points at them in device memory
/// See      nn/dropout.hpp (where an element's number comes from), random.cuh,
///          tests/kernels/dropout_test.cpp
#pragma once
#include "mpt/kernels/random.cuh" // philox
#include "mpt/kernels/scalar.cuh" // pack, load, store, fit, to_float, from_float

namespace mpt::kernels {

struct dropout_place { // which mask, where a step is a graph: written before each launch
    long long step;
    long long sample;
};

struct dropout_args {
    float p = 0;            // the part that is dropped, 0 or more and less than 1
    std::uint64_t seed = 0; // key
    int layer = 0;          // each use in a model has its own
    long step = 0;          // attempted steps before this one
    long sample = 0;        // row 0's number in the whole window
    const dropout_place* place = nullptr; // on the device: added to step and sample
};

/// What a kernel needs of the args.
struct dropout_mask {
    float scale;        // 1 / (1 - p)
    std::int32_t least; // kept: words whose upper 24 bits are not below p 2^24
    std::uint32_t key0, key1, layer, step, sample;
    const dropout_place* place;

    /// With `place` looked up: do this once a thread.
    __device__ dropout_mask placed() const {
        dropout_mask m = *this;
        if (place) {
            m.step += std::uint32_t(place->step);
            m.sample += std::uint32_t(place->sample);
        }
        return m;
    }
    /// The four words of elements 4 c to 4 c + 3 of one sample.
    __device__ random4 words(int row, std::uint32_t c) const {
        return philox({{c, sample + std::uint32_t(row), step, layer}}, key0, key1);
    }
    __device__ float apply(float x, std::uint32_t word) const {
        return std::int32_t(word >> 8) >= least ? __fmul_rn(x, scale) : 0.0f;
    }
};

inline dropout_mask mask_of(const dropout_args& a) {
    return {1.0f / (1.0f - a.p), std::int32_t(std::ceil(a.p * 0x1p24f)), std::uint32_t(a.seed),
            std::uint32_t(a.seed >> 32), std::uint32_t(a.layer), std::uint32_t(a.step),
            std::uint32_t(a.sample), a.place};
}

/// grid.x over a sample's elements, grid.y over samples. x may be null: no straight path. `packs`:
/// all rows begin where packs may be loaded. `drops`: p is not 0.
template <class T, bool packs, bool drops>
__global__ void dropout_kernel(T* out, const T* x, const T* branch, dropout_mask mask, int samples,
                               size_t per_sample) {
    constexpr int width = pack_width(sizeof(T)); // 4 or 8: one counter or two
    const dropout_mask m = mask.placed();
    const size_t step = size_t(gridDim.x) * blockDim.x * width;
    for (int row = int(blockIdx.y); row < samples; row += int(gridDim.y)) {
        const size_t start = size_t(row) * per_sample;
        for (size_t e = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * width; e < per_sample;
             e += step) {
            const int count = per_sample - e < size_t(width) ? int(per_sample - e) : width;
            const size_t at = start + e;
            pack<T, width> b{}, straight{};
            if (packs && count == width) {
                b = load<width>(branch + at);
                if (x) straight = load<width>(x + at);
            } else {
                for (int k = 0; k < count; ++k) b.x[k] = branch[at + size_t(k)];
                for (int k = 0; x && k < count; ++k) straight.x[k] = x[at + size_t(k)];
            }
            for (int k = 0; k < width; k += 4) {
                random4 r{};
                if (drops) r = m.words(row, std::uint32_t((e + size_t(k)) / 4));
                for (int j = 0; j < 4; ++j) {
                    float y = to_float(b.x[k + j]);
                    if (drops) y = m.apply(y, r.x[j]);
                    if (x) y = __fadd_rn(y, to_float(straight.x[k + j])); // not fused with scale
                    b.x[k + j] = from_float<T>(y);
                }
            }
            if (packs && count == width)
                store(out + at, b);
            else
                for (int k = 0; k < count; ++k) out[at + size_t(k)] = b.x[k];
        }
    }
}

// ---- launchers ---------------------------------------------------------------------------------

/// out = x + dropout(branch), rounded once; all (samples, per_sample). out may be x or branch.
template <class T>
void residual(T* out, const T* x, const T* branch, const dropout_args& args, int samples,
              size_t per_sample, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(T));
    constexpr unsigned threads = 256;
    if (samples == 0 || per_sample == 0) return;
    const dim3 grid(blocks_for(per_sample, threads * w),
                    unsigned(samples < 65535 ? samples : 65535));
    const dropout_mask mask = mask_of(args);
    const bool packs = fit<w>(out, x, branch) && per_sample % w == 0;
    const auto go = [&](auto kernel_packs, auto kernel_drops) {
        launch<dropout_kernel<T, kernel_packs.value, kernel_drops.value>>(
            {grid, threads, 0, stream}, out, x, branch, mask, samples, per_sample);
    };
    if (args.p > 0)
        packs ? go(std::true_type(), std::true_type()) : go(std::false_type(), std::true_type());
    else
        packs ? go(std::true_type(), std::false_type()) : go(std::false_type(), std::false_type());
}

/// y = dropout(x); p = 0 copies. y may be x. Backward is the same: dx = dropout(dy).
template <class T>
void dropout(T* y, const T* x, const dropout_args& args, int samples, size_t per_sample,
             cudaStream_t stream) {
    residual<T>(y, nullptr, x, args, samples, per_sample, stream);
}

} // namespace mpt::kernels
