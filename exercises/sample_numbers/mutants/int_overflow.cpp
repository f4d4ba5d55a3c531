// SPDX-License-Identifier: MIT
// mutant: the product is taken in 32 bits
// fails: numbers beyond 32 bits
//< number
            mine.push_back(long(int(unsigned(micro * ranks + rank) * unsigned(rows)) + b));
