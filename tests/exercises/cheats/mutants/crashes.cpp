// SPDX-License-Identifier: MIT
// mutant: writes where nothing is
// fails: one
//< head
#include <csignal>
//< twice
std::raise(SIGSEGV);
return x;
