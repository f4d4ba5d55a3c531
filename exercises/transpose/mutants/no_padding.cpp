// SPDX-License-Identifier: MIT
// mutant: a tile of 32 x 32: a column in one bank
// fails: no two lanes want one bank
//< tile
    __shared__ T tile[32][32];
