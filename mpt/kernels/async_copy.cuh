// SPDX-License-Identifier: MIT
/// @file async_copy.cuh
/// From memory to shared memory without a detour through registers.        tier 3, needs:
/// kernels/launch.cuh
///
/// Idea     The copy is ordered and runs on while the thread computes. Copies are closed into
///          groups; a thread waits until all but its newest n groups have arrived. A barrier after
///          that makes the block's copies visible to all of it.
/// Breaks   reading before wait_copies and the barrier: what lay there before is read. Cards before
///          8.0 and the emulator copy at once, so only a newer card (or its tools) shows the fault
/// Source   PTX ISA, data movement: cp.async
/// See      kernels/matmul_wmma.cuh
#pragma once
#include "mpt/kernels/launch.cuh" // __device__

namespace mpt::kernels {

/// The 16 bytes `to`, in shared memory, become the first n of `from`, then zeros. Both addresses
/// divide by 16; n = 0 reads nothing.
__device__ inline void copy_16(void* to, const void* from, int n) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned shared = unsigned(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(n)
                 : "memory");
#else
    if (n == 16)
        *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
    else
        for (int i = 0; i < 16; ++i)
            static_cast<char*>(to)[i] = i < n ? static_cast<const char*>(from)[i] : char(0);
#endif
}

/// What was ordered since the last call becomes a group (perhaps an empty one).
__device__ inline void close_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Wait for all groups of this thread but the newest `Running`.
template <int Running>
__device__ void wait_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(Running) : "memory");
#endif
}

} // namespace mpt::kernels
