// SPDX-License-Identifier: MIT
// mutant: written by columns, without the tile
// fails: whole sectors, both ways
//< turn
    __syncthreads();
    for (int j = 0; j < 32; j += 8)
        if (x < columns && y + j < rows)
            out[x * rows + y + j] = tile[threadIdx.y + unsigned(j)][threadIdx.x];
