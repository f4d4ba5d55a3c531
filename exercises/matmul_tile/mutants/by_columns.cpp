// SPDX-License-Identifier: MIT
// mutant: neighbours fetch numbers of b that lie below each other
// fails: memory is read by tiles
//< step
        const int q = p0 + across, w = j - across + down; // row of b; its column
        u[down * tile + across] = i < m && q < k ? a[i * k + q] : 0;
        v[across * tile + down] = q < k && w < n ? b[q * n + w] : 0;
        __syncthreads();
        for (int p = 0; p < tile; ++p) sum += u[down * tile + p] * v[p * tile + across];
        __syncthreads();
