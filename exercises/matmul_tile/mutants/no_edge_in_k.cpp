// SPDX-License-Identifier: MIT
// mutant: rows and columns of c have their guard, the last tile along k has none
// fails: edges anywhere
//< step
        const int q = p0 + across, r = p0 + down;
        u[down * tile + across] = i < m ? a[i * k + q] : 0;
        v[down * tile + across] = j < n ? b[r * n + j] : 0;
        __syncthreads();
        for (int p = 0; p < tile; ++p) sum += u[down * tile + p] * v[p * tile + across];
        __syncthreads();
