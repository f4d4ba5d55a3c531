// SPDX-License-Identifier: MIT
#include "exercise.hpp"

//< head: what the cheats need
//>

int twice(int x) {
    //< twice: one line
    return 2 * x;
    //> throw exercise::todo("twice");
}
