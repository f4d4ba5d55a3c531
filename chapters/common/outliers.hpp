// SPDX-License-Identifier: MIT
// outliers.hpp -- blocks of numbers through int8, MX and NVFP4, and what one large number among
// them does to the others.
#pragma once
#include "mpt/base/philox.hpp"     // philox, normal_pair
#include "mpt/numeric/fp4_fp6.hpp" // e2m1, e2m3, e3m2
#include "mpt/numeric/fp8.hpp"     // e4m3, e5m2
#include "mpt/numeric/int8.hpp"    // quantize_int8, dequantize_int8
#include "mpt/numeric/mx.hpp"      // mx_quantize, mx_dequantize
#include "mpt/numeric/nvfp4.hpp"   // nvfp4_scale, nvfp4_quantize, nvfp4_dequantize

#include <array>
#include <cmath>
#include <cstdint>

//! [blocks]
// One block of 32 in and out of a format.
template <class T>
void through_mx(const float* x, float* y) {
    mpt::mx_dequantize(mpt::mx_quantize<T>(x, 32, mpt::mx_rule::rceil), y);
}
inline void through_nvfp4(const float* x, float* y) { // two blocks of 16
    const mpt::nvfp4_tensor_scale tensor = mpt::nvfp4_scale(mpt::finite_amax(x, 32));
    for (int i = 0; i < 32; i += 16)
        mpt::nvfp4_dequantize(mpt::nvfp4_quantize(x + i, tensor), tensor, y + i);
}
inline void through_int8(const float* x, float* y) { // scale amax / 127
    const float amax = mpt::block_amax(x, 32);
    for (int i = 0; i < 32; ++i) y[i] = mpt::dequantize_int8(mpt::quantize_int8(x[i], amax), amax);
}
// Of 1000 blocks of normal numbers, with element 7 made `outlier`: how far are the 31 others off?
// Root of the sum of squares, by that of the numbers; in percent.
inline double others_off(unsigned seed, double outlier, void (*through)(const float*, float*)) {
    double off = 0, all = 0;
    for (std::uint32_t block = 0; block < 1000; ++block) {
        float x[32], y[32];
        for (std::uint32_t i = 0; i < 32; ++i) {
            const mpt::philox4 r = mpt::philox({{i, block, 0, 0}}, seed, 3);
            x[i] = float(mpt::normal_pair(r.x[0], r.x[1]).first);
        }
        x[7] = float(outlier);
        through(x, y);
        for (int i = 0; i < 32; ++i)
            if (i != 7) off += std::pow(double(y[i]) - x[i], 2), all += double(x[i]) * x[i];
    }
    return 100 * std::sqrt(off / all);
}
//! [blocks]

struct block_format {
    const char* name;
    double bits; // an element, with its part of the scale
    void (*through)(const float* x, float* y);
};
inline std::array<block_format, 8> block_formats() {
    using namespace mpt;
    return {{{"int8, amax / 127", 8 + 32 / 32., through_int8}, // a float a block
             {"MXINT8", mx_bits<mxint8>, through_mx<mxint8>},
             {"MXFP8 e4m3", mx_bits<e4m3>, through_mx<e4m3>},
             {"MXFP8 e5m2", mx_bits<e5m2>, through_mx<e5m2>},
             {"MXFP6 e2m3", mx_bits<e2m3>, through_mx<e2m3>},
             {"MXFP6 e3m2", mx_bits<e3m2>, through_mx<e3m2>},
             {"MXFP4 e2m1", mx_bits<e2m1>, through_mx<e2m1>},
             {"NVFP4", nvfp4_bits, through_nvfp4}}};
}
