// SPDX-License-Identifier: MIT
// mutant: recomputed operations count as progress
// fails: the share of the machine
//< mfu
    return with_checkpointing(m) * tokens / peak;
