// SPDX-License-Identifier: MIT
// mutant: registers are one pool, not four parts
// fails: each limit
//< by_registers
    const int a_warp = (registers_a_thread * 32 + 255) / 256 * 256;
    return m.registers / (a_warp * warps_of(threads));
