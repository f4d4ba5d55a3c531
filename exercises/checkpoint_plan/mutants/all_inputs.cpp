// SPDX-License-Identifier: MIT
// mutant: the input of the last segment is kept as well
// fails: bytes held with segments of k
//< held
    return segments(c, k) * c.input + k * c.room;
