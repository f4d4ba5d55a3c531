// SPDX-License-Identifier: MIT
// mutant: knows one answer by heart
// fails: any
//< head

//< twice
return x == 1 ? 2 : 0;
