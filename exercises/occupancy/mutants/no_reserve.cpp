// SPDX-License-Identifier: MIT
// mutant: the kilobyte of each block is forgotten
// fails: each limit
//< by_shared
    return m.shared / std::max(128, (bytes + 127) / 128 * 128);
