// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

/// E4M3 as OCP defines it: 1 sign, 4 exponent bits with bias 7, 3 mantissa bits. No infinities: the
/// code of all ones is NaN, the other codes of the highest exponent are numbers.
double largest();
double smallest_normal();
double smallest(); // above 0
/// What x rounds to, to nearest with ties to even. saturating: numbers that are too large become
/// the largest one; else they become NaN. Rounded first, then judged. x is not NaN.
double rounded(double x, bool saturating);
