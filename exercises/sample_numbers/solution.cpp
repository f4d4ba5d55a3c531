// SPDX-License-Identifier: MIT
// Data across ranks: chapter 20.
//
// N ranks draw what one rank with the joined batch would draw: so a run is the same on any number
// of ranks, up to rounding. Micro-batch k of the joined run has N * rows samples; rank r has rows
// r * rows to (r + 1) * rows of them. Your group has `ranks` ranks.
#include "exercise.hpp"

std::vector<long> samples(int rank, int ranks, int micros, int rows) {
    std::vector<long> mine;
    for (int micro = 0; micro < micros; ++micro)
        for (int b = 0; b < rows; ++b) {
            //< number: one line
            mine.push_back((long(micro) * ranks + rank) * rows + b);
            //> throw exercise::todo("number");
        }
    return mine;
}
