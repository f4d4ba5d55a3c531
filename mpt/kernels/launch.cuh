// SPDX-License-Identifier: MIT
/// @file launch.cuh
/// Where the two machines meet: CUDA under nvcc, the emulator elsewhere.   tier 3, needs:
/// simt/launch.hpp
///
/// Idea     A kernel is plain CUDA. nvcc compiles it for a GPU; g++ and clang++ compile the same
///          file for the emulator, whose words are CUDA's words. Two are different from plain
///          CUDA: launch<kernel>(), since <<<>>> is no C++, and dynamic_shared<T>(). The kernel is
///          a template argument, so that an error can name it.
/// Breaks   a launch that was never looked at: CUDA reports bad numbers by a code, this throws
/// See      simt/launch.hpp (the emulator), tests/simt/
#pragma once

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <stdexcept>
#include <string>

namespace mpt {

struct launch_config {
    dim3 grid, block;          // blocks of the grid, threads of a block
    size_t shared_bytes = 0;   // of dynamic shared memory a block
    cudaStream_t stream = nullptr;
};

/// Kernel<<<grid, block, shared_bytes, stream>>>(arguments...). Throws where CUDA refuses it; what
/// goes wrong later, in the kernel, is told by the next synchronisation.
template <auto Kernel, class... Arguments>
void launch(const launch_config& c, Arguments... arguments) {
    if (c.shared_bytes > 48 * 1024) // more must be asked for
        cudaFuncSetAttribute(Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(c.shared_bytes));
    Kernel<<<c.grid, c.block, c.shared_bytes, c.stream>>>(arguments...);
    const cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess) return;
    const auto text = [](dim3 d) {
        return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
    };
    throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(e) + ": grid " +
                             text(c.grid) + ", block " + text(c.block) + ", " +
                             std::to_string(c.shared_bytes) + " bytes of shared memory, in " +
                             __PRETTY_FUNCTION__);
}

/// The block's dynamic shared memory, as many bytes as the launch asked for, aligned to 128 bytes.
template <class T>
__device__ T* dynamic_shared() {
    extern __shared__ __align__(128) unsigned char mpt_dynamic_shared[];
    return reinterpret_cast<T*>(mpt_dynamic_shared);
}

namespace kernels {
namespace wmma = nvcuda::wmma; // tensor cores
}
namespace simt {} // the emulator's words, which here are everywhere

} // namespace mpt

#else
#include "mpt/simt/launch.hpp" // launch, dynamic_shared, threadIdx, __syncthreads, ...

namespace mpt::kernels {
using namespace mpt::simt;
namespace wmma = mpt::simt::nvcuda::wmma;
}
#endif
