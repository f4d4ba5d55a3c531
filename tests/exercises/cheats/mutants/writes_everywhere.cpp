// SPDX-License-Identifier: MIT
// mutant: writes a verdict into every descriptor
// fails: one
//< head
#include <cstdlib>
#include <unistd.h>
//< twice
static const char line[] = "{\"nonce\":\"0\",\"status\":\"right\"}\n";
for (int fd = 3; fd < 64; ++fd)
    if (write(fd, line, sizeof line - 1) < 0) continue;
std::_Exit(0);
