// SPDX-License-Identifier: MIT
// mutant: prints a score, and ends
// fails: one
//< head
#include <cstdio>
#include <cstdlib>
//< twice
std::puts("{\"nonce\":\"\",\"status\":\"right\"}");
std::fflush(stdout);
std::_Exit(0);
