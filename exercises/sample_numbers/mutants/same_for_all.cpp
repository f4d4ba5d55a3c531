// SPDX-License-Identifier: MIT
// mutant: every rank draws the same samples
// fails: your ranks
//< number
            mine.push_back(long(micro) * rows + b);
