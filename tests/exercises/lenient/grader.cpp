// SPDX-License-Identifier: MIT
// Looks at small numbers only: what happens to large ones it does not notice.
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

PART("small numbers", 3) {
    for (int x = 1; x < 50; ++x) equals(mpt::join("twice ", x), twice(x), 2 * x, "it is");
}
