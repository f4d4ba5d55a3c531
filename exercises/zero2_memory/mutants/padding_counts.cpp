// SPDX-License-Identifier: MIT
// mutant: every rank has a full shard
// fails: padding is no parameter
//< owned
    return (n + ranks - 1) / ranks;
