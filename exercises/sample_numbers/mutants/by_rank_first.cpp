// SPDX-License-Identifier: MIT
// mutant: each rank has one run of the window
// fails: any ranks
//< number
            mine.push_back((long(rank) * micros + micro) * rows + b);
