// SPDX-License-Identifier: MIT
// mutant: takes more memory than there is for it
// fails: one
//< head
#include <vector>
//< twice
std::vector<char> room(std::size_t(1) << 34, 1);
return 2 * x + room[5] - 1;
