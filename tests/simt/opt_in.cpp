// SPDX-License-Identifier: MIT
// Compiled by itself, in ways that must not compile: see CMakeLists.txt.
#if defined(BEFORE)
#include <cuda_runtime.h>
#endif
#include "mpt/simt/launch.hpp"
#if defined(AFTER)
#include <cuda_runtime.h>
#endif
#if defined(MACROS) // the emulator's words are no macros but in its namespace
int dim3, threadIdx, atomicAdd, cudaMalloc, warpSize, half, launch;
#endif

int main() {}
