// SPDX-License-Identifier: MIT
/// @file nvfp4.hpp
/// NVFP4: 16 numbers of 4 bits, an e4m3 scale, and one for the tensor.      tier 1, needs:
/// base/qualifiers.hpp numeric/fp4_fp6.hpp numeric/fp8.hpp numeric/mx.hpp numeric/rounding.hpp
///
/// Idea     A scale with a mantissa brings amax of its block to 6, the largest e2m1, where a power
///          of two leaves it anywhere from 4 to 8. But e4m3 has a short range, so one fp32 scale
///          moves the whole tensor there: the block with the tensor's amax gets the largest, 448.
/// Formula  s_tensor = amax_tensor / (6 * 448);  s_block = e4m3(amax_block / 6 / s_tensor);
///          element = e2m1(x / (s_block s_tensor));  v = element s_block s_tensor
/// Costs    4 + 8/16 = 4.5 bits an element, and 4 bytes a tensor
/// Breaks   two flows of the same formula: they round in other places, and near a tie a code
///          differs, so name the flow. A block below 2^-10 / 448 of the tensor's amax vanishes.
/// Source   NVIDIA 2025, Pretraining Large Language Models with NVFP4, arXiv:2509.25149
/// See      mx.hpp, tests/numeric/nvfp4_test.cpp, chapters/02_formats.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/fp4_fp6.hpp"  // e2m1
#include "mpt/numeric/fp8.hpp"      // e4m3
#include "mpt/numeric/mx.hpp"       // block_amax
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, fp32_infinity

#include <cstddef>
#include <cstdint>

namespace mpt {

/// Where the formula is rounded.
enum class nvfp4_flow {
    exact,             // each result once, from its exact value
    paper,             // fp32 operations in the order of the paper
    transformer_engine // the same, but amax_block (S (1/6)) instead of (amax_block / 6) S
};

struct nvfp4_tensor_scale {
    float decode = 1; // s_tensor, which is stored
    float encode = 1; // about 1 / decode; exact does not use it
};

struct nvfp4_block {
    static constexpr int size = 16;
    e4m3 scale; // never negative
    e2m1 elements[size];
};

inline constexpr double nvfp4_bits = 4 + 8.0 / nvfp4_block::size;

/// Largest finite magnitude of a tensor: a NaN poisons its block, not all of them.
MPT_HOST_DEVICE constexpr float finite_amax(const float* x, std::size_t n) {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t a = bits_of(x[i]) & fp32_magnitude;
        most = a > most && a < fp32_infinity ? a : most;
    }
    return float_of(most);
}

/// Infinity becomes the largest float.
MPT_HOST_DEVICE constexpr float at_most_max(float x) {
    return bits_of(x) == fp32_infinity ? float_of(fp32_infinity - 1) : x;
}

/// amax: of the whole tensor. 0: nothing to scale.
MPT_HOST_DEVICE constexpr nvfp4_tensor_scale nvfp4_scale(float amax,
                                                         nvfp4_flow flow = nvfp4_flow::paper) {
    constexpr float top = e2m1::max * e4m3::max; // 2688
    nvfp4_tensor_scale s;
    if (amax == 0) return s;
    if (flow == nvfp4_flow::exact) {
        s.decode = amax / top;
        if (s.decode < 0x1p-126f) s.decode = 0x1p-126f; // no subnormal scale
    } else {
        s.encode = at_most_max(top / amax);
        s.decode = 1.0f / s.encode; // subnormal below amax = 2688 * 2^-126: not with flush-to-zero
    }
    return s;
}

/// The code c whose value(c) * unit is nearest to a, both not negative; ties to the even code, past
/// the largest the largest. Exact: middle * unit has at most 5 + 2 + 24 bits, a double holds 53.
template <class T>
MPT_HOST_DEVICE constexpr std::uint8_t nearest_multiple(double a, double unit) {
    std::uint8_t code = 0;
    for (; code < T::max_code; ++code) {
        const double here = float(T::from_bits(code));
        const double next = float(T::from_bits(std::uint8_t(code + 1)));
        const double middle = (here + next) / 2 * unit;
        if (a < middle || (a == middle && code % 2 == 0)) break;
    }
    return code;
}

/// n <= 16 numbers along the axis that a product sums over; missing ones are 0. A NaN or an
/// infinity makes all of the block NaN: scale 7F, codes 0.
MPT_HOST_DEVICE constexpr nvfp4_block nvfp4_quantize(const float* x, nvfp4_tensor_scale tensor,
                                                     int n = nvfp4_block::size,
                                                     nvfp4_flow flow = nvfp4_flow::paper) {
    nvfp4_block block{}; // zeros
    const float amax = block_amax(x, n);
    if (bits_of(amax) >= fp32_infinity) {
        block.scale = e4m3::from_bits(e4m3::nan_code);
        return block;
    }
    if (flow == nvfp4_flow::exact) {
        block.scale = e4m3::from_bits(nearest_multiple<e4m3>(amax, 6.0 * tensor.decode));
        const double unit = double(float(block.scale)) * tensor.decode;
        for (int i = 0; i < n; ++i) {
            const std::uint32_t a = bits_of(x[i]) & fp32_magnitude;
            const std::uint32_t sign = bits_of(x[i]) >> 31 << e2m1::layout::sign;
            const std::uint32_t code = unit == 0 ? 0 : nearest_multiple<e2m1>(float_of(a), unit);
            block.elements[i] = e2m1::from_bits(std::uint8_t(sign | code));
        }
        return block;
    }
    block.scale = e4m3(flow == nvfp4_flow::paper ? amax / 6.0f * tensor.encode
                                                 : amax * (tensor.encode * (1.0f / 6.0f)));
    const float unit = float(block.scale) * tensor.decode;
    const float encode = unit == 0 ? float_of(fp32_infinity - 1) : at_most_max(1.0f / unit);
    for (int i = 0; i < n; ++i) block.elements[i] = e2m1(x[i] * encode);
    return block;
}

/// The first n numbers again: element * scale is exact, the last product is rounded.
MPT_HOST_DEVICE constexpr void nvfp4_dequantize(const nvfp4_block& block, nvfp4_tensor_scale tensor,
                                                float* x, int n = nvfp4_block::size) {
    for (int i = 0; i < n; ++i)
        x[i] = float(block.elements[i]) * float(block.scale) * tensor.decode;
}

} // namespace mpt
