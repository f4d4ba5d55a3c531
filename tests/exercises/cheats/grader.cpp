// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

PART("one", 1) { equals("twice 1", twice(1), 2, "it is"); }
PART("any", 2) {
    const int x = any().between(2, 1000);
    equals(mpt::join("twice ", x), twice(x), 2 * x, "it is");
}
