// SPDX-License-Identifier: MIT
// mutant: leaves a child behind that holds the pipes
// fails: one
//< head
#include <cstdlib>
#include <unistd.h>
//< twice
if (fork() == 0)
    for (;;) pause();
std::_Exit(0);
