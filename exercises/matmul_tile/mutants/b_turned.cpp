// SPDX-License-Identifier: MIT
// mutant: the tile of b is stored transposed and read as if it were not
// fails: every element is its sum
//< step
        const int q = p0 + across, r = p0 + down;
        u[down * tile + across] = i < m && q < k ? a[i * k + q] : 0;
        v[across * tile + down] = r < k && j < n ? b[r * n + j] : 0;
        __syncthreads();
        for (int p = 0; p < tile; ++p) sum += u[down * tile + p] * v[p * tile + across];
        __syncthreads();
