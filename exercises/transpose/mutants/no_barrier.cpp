// SPDX-License-Identifier: MIT
// mutant: no barrier between loading and turning
// fails: every element is where it belongs
//< turn
    const int u = int(blockIdx.y * 32 + threadIdx.x), v = int(blockIdx.x * 32 + threadIdx.y);
    for (int j = 0; j < 32; j += 8)
        if (u < rows && v + j < columns)
            out[(v + j) * rows + u] = tile[threadIdx.x][threadIdx.y + unsigned(j)];
