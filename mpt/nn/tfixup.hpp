// SPDX-License-Identifier: MIT
/// @file tfixup.hpp
/// First values that make layer norms and warm-up needless.              tier 4, needs: std only
///
/// Idea     Adam's first steps move every weight by about the rate. Without layer norms the output
///          then moves by a sum over the branches of three products of their matrices' squared
///          sizes; with these values that sum is at most 1, however deep the model is.
/// Formula  Xavier's deviation sqrt(2 / (in + out)), times the factor for v, attention's out and
///          both matrices of the MLP; embeddings factor / sqrt(C); q and k as Xavier says.
///          3 factor^4 branches = 1: a decoder with cross attention has 3 N: (9 N)^-1/4
/// Breaks   a GPT has 2 N branches, (6 N)^-1/4 would do; the published factor is kept: sum 2/3
/// Source   Huang et al. 2020, ICML, Improving Transformer Optimization Through Better
///          Initialization; Glorot and Bengio 2010 (the variance, drawn as normal numbers here)
/// See      gpt_layout.hpp (who draws), residual_scale.hpp, tests/nn/tfixup_test.cpp
#pragma once
#include <cmath>
#include <cstddef>

namespace mpt {

/// Deviation of a matrix (out, in).
inline float xavier(std::size_t out, std::size_t in) {
    return float(std::sqrt(2.0 / double(out + in)));
}

/// The decoder's factor, of N layers. N 6: 0.36889.
inline double tfixup_decoder(int layers) { return std::pow(9.0 * layers, -0.25); }

/// The encoder's, beside a decoder of N layers, too, and embeddings of that one's factor. N 6:
/// 0.42809. f = 0.67 N^-1/4 solves 2 N (2 (9 N)^-1/2 f^2 + f^4) = 1.
inline double tfixup_encoder(int layers) { return 0.67 * std::pow(double(layers), -0.25); }

} // namespace mpt
