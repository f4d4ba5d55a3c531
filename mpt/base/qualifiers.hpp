// SPDX-License-Identifier: MIT
/// @file qualifiers.hpp
/// The two words that compilers spell differently.                         tier 0, needs: std only
///
/// Idea     MPT_HOST_DEVICE lets one function serve host code and kernels: nvcc wants to be told,
///          g++ and clang++ see an empty word. MPT_RESTRICT promises that pointers do not overlap,
///          so that a loop can be vectorised; C++ has no word for it, all compilers have this one.
/// Breaks   overlapping arrays behind MPT_RESTRICT: the loop may read what it has just written
/// See      numeric/fp16.hpp, numeric/cast.hpp
#pragma once

#if defined(__CUDACC__)
#define MPT_HOST_DEVICE __host__ __device__
#else
#define MPT_HOST_DEVICE
#endif

#define MPT_RESTRICT __restrict__
