// SPDX-License-Identifier: MIT
/// @file device_properties.hpp
/// What cudaGetDeviceProperties says of the emulator.                      tier 2, needs:
/// base/error.hpp simt/device_memory.hpp simt/runtime_errors.hpp
///
/// Idea     One device, number 0, with the limits of compute capability 9.0 (settings.hpp has those
///          that a launch is held to).
/// Source   CUDA Runtime API reference, Device Management
/// See      runtime.hpp, occupancy.hpp, tests/simt/memory_test.cpp
#pragma once
#include "mpt/base/error.hpp"          // join
#include "mpt/simt/device_memory.hpp"  // device_memory: total
#include "mpt/simt/runtime_errors.hpp" // cudaError_t, runtime_failure

#include <cstddef>
#include <cstdio>

namespace mpt::simt {

struct cudaDeviceProp {
    char name[256];
    std::size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount, warpSize;
    int maxThreadsPerBlock, maxThreadsPerMultiProcessor, regsPerBlock;
    int maxThreadsDim[3], maxGridSize[3];
    int l2CacheSize, memoryBusWidth;
};
inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
    if (device == 0) return cudaSuccess;
    return runtime_failure(cudaErrorInvalidDevice,
                           join("invalid device ordinal: ", device, "; the emulator is device 0"));
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    if (const cudaError_t e = cudaSetDevice(device)) return e;
    *p = {};
    std::snprintf(p->name, sizeof p->name, "mpt emulator");
    p->totalGlobalMem = device_memory::total;
    p->sharedMemPerBlock = 48 * 1024;
    p->sharedMemPerBlockOptin = 227 * 1024;
    p->major = 9;
    p->multiProcessorCount = 1;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->regsPerBlock = 65536;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    return cudaSuccess;
}

} // namespace mpt::simt
