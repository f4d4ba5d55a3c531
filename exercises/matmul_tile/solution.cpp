// SPDX-License-Identifier: MIT
// A matrix product by tiles in shared memory: chapter 16, step 3.
//
// A thread that fetches its row of a and its column of b from memory fetches what its neighbours
// fetch, too. So a block of tile x tile threads goes along k in steps of `tile`. In each, every
// thread fetches one number of a and one of b into shared memory, neighbours (`across`) side by
// side; all wait until the tiles are whole; each adds up `tile` products; and all wait again. Where
// a tile hangs over the edge of a or b, it holds zeros. Your tile's side is `tile`.
#include "exercise.hpp"

#include "mpt/kernels/launch.cuh" // __global__, launch, dynamic_shared

using namespace mpt::kernels; // threadIdx, __syncthreads

template <class T>
__global__ void product_kernel(T* c, const T* a, const T* b, int m, int n, int k, int tile) {
    T* u = mpt::dynamic_shared<T>(); // (tile, tile) of a, by rows
    T* v = u + tile * tile;          // (tile, tile) of b, by rows
    const int across = int(threadIdx.x), down = int(threadIdx.y);
    const int i = int(blockIdx.y) * tile + down, j = int(blockIdx.x) * tile + across; // of c
    T sum = 0;
    for (int p0 = 0; p0 < k; p0 += tile) {
        //< step: fetch two tiles, wait, add up, wait, about 6 lines
        const int q = p0 + across, r = p0 + down; // column of a, row of b
        u[down * tile + across] = i < m && q < k ? a[i * k + q] : 0;
        v[down * tile + across] = r < k && j < n ? b[r * n + j] : 0;
        __syncthreads(); // the tiles are whole
        for (int p = 0; p < tile; ++p) sum += u[down * tile + p] * v[p * tile + across];
        __syncthreads(); // all are done with them
        //>
    }
    if (i < m && j < n) c[i * n + j] = sum;
}

void product(float* c, const float* a, const float* b, int m, int n, int k, int tile) {
    const unsigned side = unsigned(tile);
    const dim3 grid{(unsigned(n) + side - 1) / side, (unsigned(m) + side - 1) / side, 1};
    mpt::launch<product_kernel<float>>(
        {grid, dim3{side, side, 1}, 2 * side * side * sizeof(float), nullptr}, c, a, b, m, n, k,
        tile);
}
