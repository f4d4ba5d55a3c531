// SPDX-License-Identifier: MIT
// A transpose through shared memory: chapter 14.
//
// Read by rows and written by columns, each warp's write touches 32 sectors. So a block of 32 x 8
// threads loads a tile of 32 x 32 by rows, waits, and writes the tile's transpose by rows as well:
// the turn happens in shared memory. There a column of 32 words would lie in one bank: a row of 33
// words moves each to its own.
#include "exercise.hpp"

#include "mpt/kernels/launch.cuh" // __global__, launch

using namespace mpt::kernels;

template <class T>
__global__ void transpose_kernel(T* out, const T* in, int rows, int columns) {
    //< tile: its shape in shared memory, one line
    __shared__ T tile[32][33];
    //> __shared__ T tile[32][32];
    const int x = int(blockIdx.x * 32 + threadIdx.x), y = int(blockIdx.y * 32 + threadIdx.y);
    for (int j = 0; j < 32; j += 8)
        if (x < columns && y + j < rows)
            tile[threadIdx.y + unsigned(j)][threadIdx.x] = in[(y + j) * columns + x];
    //< turn: wait, and write the tile's transpose by rows, about 6 lines
    __syncthreads();
    const int u = int(blockIdx.y * 32 + threadIdx.x), v = int(blockIdx.x * 32 + threadIdx.y);
    for (int j = 0; j < 32; j += 8)
        if (u < rows && v + j < columns)
            out[(v + j) * rows + u] = tile[threadIdx.x][threadIdx.y + unsigned(j)];
    //>
}

void transpose(float* out, const float* in, int rows, int columns) {
    const dim3 grid{unsigned(columns + 31) / 32, unsigned(rows + 31) / 32, 1};
    mpt::launch<transpose_kernel<float>>({grid, dim3{32, 8, 1}, 0, nullptr}, out, in, rows,
                                         columns);
}
