// SPDX-License-Identifier: MIT
// mutant: the next tile is fetched over one that is still being read
// fails: no race, with two barriers a tile
//< step
        const int q = p0 + across, r = p0 + down;
        u[down * tile + across] = i < m && q < k ? a[i * k + q] : 0;
        v[down * tile + across] = r < k && j < n ? b[r * n + j] : 0;
        __syncthreads();
        for (int p = 0; p < tile; ++p) sum += u[down * tile + p] * v[p * tile + across];
