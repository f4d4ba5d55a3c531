// SPDX-License-Identifier: MIT
// mutant: ends the program as if all were well
// fails: one
//< head
#include <cstdlib>
//< twice
std::exit(0);
