// SPDX-License-Identifier: MIT
/// @file qualifiers.hpp
/// The words that compilers spell differently.                             tier 0, needs: std only
///
/// Idea     MPT_HOST_DEVICE lets one function serve host code and kernels: nvcc wants to be told,
///          g++ and clang++ see an empty word. MPT_RESTRICT promises that pointers do not overlap,
///          so that a loop can be vectorised; C++ has no word for it, all compilers have this one.
///          MPT_UNROLL(n) stands before a host loop; nvcc, which does not know the word, leaves it.
/// Breaks   overlapping arrays behind MPT_RESTRICT: the loop may read what it has just written
/// See      numeric/fp16.hpp, numeric/cast.hpp
#pragma once

#if defined(__CUDACC__)
#define MPT_HOST_DEVICE __host__ __device__
#define MPT_UNROLL(n)
#else
#define MPT_HOST_DEVICE
#define MPT_PRAGMA(words) _Pragma(#words)
#define MPT_UNROLL(n) MPT_PRAGMA(GCC unroll n)
#endif

#define MPT_RESTRICT __restrict__
