// SPDX-License-Identifier: MIT
/// @file column_sums.cuh
/// The sums of a matrix's columns: the gradient of a bias.                 tier 3, needs:
/// kernels/scalar.cuh
///
/// Idea     Neighbouring threads take neighbouring columns, so that a warp reads whole sectors,
///          and eight warps of a block take a row each: eight partial sums a column, added in
///          shared memory in a fixed order. Few columns make few blocks: then the rows are cut,
///          too, and a second kernel adds the parts.
/// Formula  y[j] = round( sum over i of x[i][j] ), in fp32: parts of rows in order, and in a part
///          rows r, r + 8, ... , then the eight
/// Costs    one read of x. scratch: 4 bytes a column and part
/// Breaks   float atomics: another order, another sum, each time
/// See      nn/linear.hpp (the loop), tests/kernels/column_sums_test.cpp
#pragma once
#include "mpt/kernels/scalar.cuh" // to_float, from_float, blocks_for

namespace mpt::kernels {

constexpr int sum_rows = 8; // of a block, beside 32 columns

/// Parts that the rows are cut into: of 64 rows at least, and not more than 64 parts.
inline int column_sum_parts(int rows) {
    const int parts = (rows + 63) / 64;
    return parts < 1 ? 1 : parts < 64 ? parts : 64;
}
inline size_t column_sums_bytes(int rows, int columns) {
    return size_t(column_sum_parts(rows)) * size_t(columns) * sizeof(float);
}

// grid (columns / 32, parts), block (32, 8). sums (parts, columns)
template <class T>
__global__ void column_parts_kernel(float* sums, const T* x, int rows, int columns, int of_part) {
    __shared__ float part[sum_rows][33];
    const int j = int(blockIdx.x * 32 + threadIdx.x), line = int(threadIdx.y);
    const int begin = int(blockIdx.y) * of_part;
    const int end = rows - begin < of_part ? rows : begin + of_part;
    float sum = 0;
    if (j < columns)
        for (int i = begin + line; i < end; i += sum_rows)
            sum += to_float(x[size_t(i) * size_t(columns) + size_t(j)]);
    part[line][threadIdx.x] = sum;
    __syncthreads();
    if (line > 0 || j >= columns) return;
    for (int k = 1; k < sum_rows; ++k) sum += part[k][threadIdx.x];
    sums[size_t(blockIdx.y) * size_t(columns) + size_t(j)] = sum;
}

template <class T>
__global__ void add_column_parts_kernel(T* y, const float* sums, int parts, int columns) {
    const int j = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (j >= columns) return;
    float sum = 0;
    for (int p = 0; p < parts; ++p) sum += sums[size_t(p) * size_t(columns) + size_t(j)];
    y[j] = from_float<T>(sum);
}

/// y (columns) = the sums of the columns of x (rows, columns). scratch: column_sums_bytes().
template <class T>
void column_sums(T* y, const T* x, int rows, int columns, void* scratch, cudaStream_t stream) {
    if (columns == 0) return;
    const int parts = column_sum_parts(rows), of_part = (rows + parts - 1) / parts;
    float* const sums = static_cast<float*>(scratch);
    launch<column_parts_kernel<T>>(
        {{blocks_for(size_t(columns), 32), unsigned(parts)}, {32, sum_rows}, 0, stream}, sums, x,
        rows, columns, of_part);
    launch<add_column_parts_kernel<T>>({blocks_for(size_t(columns), 256), 256, 0, stream}, y, sums,
                                       parts, columns);
}

} // namespace mpt::kernels
