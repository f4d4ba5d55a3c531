// SPDX-License-Identifier: MIT
/// @file cuda_words.hpp
/// CUDA's qualifiers, for a compiler that has no GPU.                      tier 2, needs: std only
///
/// Idea     Qualifiers cannot be functions, so they are the emulator's only macros; each other word
///          of CUDA's lives in mpt::simt. All threads of a block run on one system thread, so what
///          a block shares is `static thread_local`. As a macro reaches into every file, the
///          emulator is opt-in (MPT_SIMT) and refuses to meet cuda_runtime.h.
///          MPT_SIMT_QUIET marks the emulator's own functions: the access probe, which has the
///          compiler report each load and store, is not to see theirs.
/// Breaks   `extern __shared__ T x[];`: use dynamic_shared<T>(), which both machines know;
///          a __shared__ variable with an initial value: one a system thread, not one a block
/// See      launch.hpp, block.hpp
#pragma once

#if !defined(MPT_SIMT)
#error "mpt/simt/ is the emulator, which this file did not ask for: compile it with -DMPT_SIMT"
#endif

#if !defined(__simt_words__) // else a copy of this header, under another namespace, was here
#if defined(__CUDACC__) || defined(__CUDA_RUNTIME_H__) || defined(__CUDA_RUNTIME_API_H__)
#error "mpt/simt/ emulates CUDA and cannot meet cuda_runtime.h: compile without MPT_SIMT"
#endif
#define __simt_words__
// Nor may it come later: its include guard is a word that stops the compiler.
#pragma GCC poison __CUDA_RUNTIME_H__ __CUDA_RUNTIME_API_H__

#if defined(MPT_SIMT_CHECK) && !defined(__clang__)
// g++'s ThreadSanitizer is silent about the memory that a call reads a structure from, or leaves
// one in (y[i] = f(x[i])). Of a call that is compiled in place nothing is hidden.
#define __global__ __attribute__((flatten))
#else
#define __global__
#endif
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __shared__ static thread_local
#endif

#if !defined(MPT_SIMT_CHECK)
#define MPT_SIMT_QUIET
#define MPT_SIMT_APART
#elif defined(__clang__)
#define MPT_SIMT_QUIET                                                                             \
    __attribute__((no_sanitize("thread", "coverage"), disable_sanitizer_instrumentation))
#define MPT_SIMT_APART __attribute__((noinline))
#else
#define MPT_SIMT_QUIET __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#define MPT_SIMT_APART __attribute__((noinline)) // a word whose loads and stores are the kernel's
#endif
