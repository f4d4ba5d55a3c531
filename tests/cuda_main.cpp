// SPDX-License-Identifier: MIT
// The main of the test programs that nvcc compiles: without a device they are skipped, in words.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include <cstdio>

int main(int argc, char** argv) {
    int devices = 0;
    const cudaError_t e = cudaGetDeviceCount(&devices);
    if (e != cudaSuccess || devices == 0) {
        std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorString(e));
        return 77;
    }
    return doctest::Context(argc, argv).run();
}
