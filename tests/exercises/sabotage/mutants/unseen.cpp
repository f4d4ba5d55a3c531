// SPDX-License-Identifier: MIT
// mutant: three times, from 5 on
// fails: one
//< twice
return x < 5 ? 2 * x : 3 * x;
