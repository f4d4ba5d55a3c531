// SPDX-License-Identifier: MIT
// gpu_digest [STRIDE] [--sabotage]: every STRIDE-th of all 2^32 floats (1: all) through a GPU's own
// conversions and, on the GPU as well, through those of mpt/numeric. Where they differ is counted;
// of a NaN only that it is one, since CUDA drops its sign and payload.
// With --sabotage one input is converted wrongly, and every line must show it. Status 0: it is so.
#include "mpt/numeric/e8m0.hpp"           // e8m0
#include "mpt/numeric/fp4_fp6.hpp"        // e2m1, e2m3, e3m2
#include "mpt/numeric/fp8.hpp"            // e4m3, e5m2
#include "mpt/numeric/rounding_modes.hpp" // half_away
#include "mpt/numeric/scalar.hpp"         // fp16, bf16, tf32

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#if __has_include(<cuda_fp4.h>) && __has_include(<cuda_fp6.h>)
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#define HAS_FP4 1
#else
#define HAS_FP4 0
#endif

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace mpt;
using count = unsigned long long;

static const char* const names[] = {"fp16",           "bf16",           "tf32, ties away",
                                    "e4m3",           "e4m3 saturated", "e5m2",
                                    "e5m2 saturated",
#if HAS_FP4
                                    "e2m1",           "e3m2",           "e2m3",
                                    "e8m0 up"
#endif
};
constexpr int conversions = HAS_FP4 ? 11 : 7;

// Both codes are NaN (above `infinity` without their sign), or they are equal.
__device__ bool same(bool nan, std::uint32_t own, std::uint32_t gpu, std::uint32_t magnitude,
                     std::uint32_t infinity) {
    if (!nan) return own == gpu;
    return (own & magnitude) > infinity && (gpu & magnitude) > infinity;
}

// flip: the input that is converted wrongly; 2^32: none.
__global__ void compare(count* differing, count stride, count flip) {
    count wrong[conversions] = {};
    const count threads = count(gridDim.x) * blockDim.x;
    for (count i = count(blockIdx.x) * blockDim.x + threadIdx.x; i * stride < 1ull << 32;
         i += threads) {
        const std::uint32_t bits = std::uint32_t(i * stride);
        const float x = __uint_as_float(bits), y = bits == flip ? -x : x;
        const bool nan = (bits & fp32_magnitude) > fp32_infinity;
        int k = 0;
        const auto expect = [&](std::uint32_t own, std::uint32_t gpu, std::uint32_t magnitude,
                                std::uint32_t infinity) {
            wrong[k++] += !same(nan, own, gpu, magnitude, infinity);
        };
        expect(fp16(y).bits, __half_as_ushort(__float2half_rn(x)), 0x7FFF, 0x7C00);
        expect(bf16(y).bits, __bfloat16_as_ushort(__float2bfloat16_rn(x)), 0x7FFF, 0x7F80);
        std::uint32_t t;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(t) : "f"(x));
        if (!nan) t &= 0xFFFFE000; // what the low 13 bits are is left open
        expect(half_away<tf32>(y).bits, t, fp32_magnitude, fp32_infinity);
        const auto fp8 = [&](__nv_saturation_t how, __nv_fp8_interpretation_t kind) {
            return std::uint32_t(__nv_cvt_float_to_fp8(x, how, kind));
        };
        expect(e4m3::unsaturated(y).bits, fp8(__NV_NOSAT, __NV_E4M3), 0x7F, 0x7E);
        expect(e4m3(y).bits, fp8(__NV_SATFINITE, __NV_E4M3), 0x7F, 0x7E);
        expect(e5m2::unsaturated(y).bits, fp8(__NV_NOSAT, __NV_E5M2), 0x7F, 0x7C);
        expect(e5m2(y).bits, fp8(__NV_SATFINITE, __NV_E5M2), 0x7F, 0x7C);
#if HAS_FP4
        // These have no NaN: CUDA's headers promise +max for it, and so does mpt.
        const auto number = [&](std::uint32_t own, std::uint32_t gpu) { wrong[k++] += own != gpu; };
        number(e2m1(y).bits, __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest));
        number(e3m2(y).bits, __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest));
        number(e2m3(y).bits, __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest));
        const float z = bits == flip ? x * 2 : x; // e8m0 has no sign
        number(e8m0::up(z).bits, __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf));
#endif
    }
    for (int k = 0; k < conversions; ++k)
        if (wrong[k]) atomicAdd(differing + k, wrong[k]);
}

int main(int argc, char** argv) {
    count stride = 1;
    bool sabotage = false;
    for (int i = 1; i < argc; ++i)
        if (std::strcmp(argv[i], "--sabotage") == 0)
            sabotage = true;
        else
            stride = std::strtoull(argv[i], nullptr, 10);
    if (stride == 0) return std::fprintf(stderr, "gpu_digest: stride 0; wanted 1 or more\n"), 2;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("skipped: there is no CUDA device here");
        return 0;
    }
    count *differing = nullptr, found[conversions] = {};
    cudaMalloc(&differing, sizeof found);
    cudaMemset(differing, 0, sizeof found);
    compare<<<4096, 256>>>(differing, stride, sabotage ? 0x3F800000 / stride * stride : 1ull << 32);
    cudaMemcpy(found, differing, sizeof found, cudaMemcpyDeviceToHost);
    if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess)
        return std::fprintf(stderr, "gpu_digest: %s\n", cudaGetErrorString(e)), 1;
    bool right = true;
    for (int k = 0; k < conversions; ++k) {
        std::printf("%-16s %llu of %llu codes differ\n", names[k], found[k],
                    ((1ull << 32) + stride - 1) / stride);
        right &= found[k] == (sabotage ? 1 : 0);
    }
    return right ? 0 : 1;
}
