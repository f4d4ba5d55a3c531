// SPDX-License-Identifier: MIT
// mutant: never returns
// fails: one
//< head
#include <unistd.h>
//< twice
for (;;) pause();
return x;
