// SPDX-License-Identifier: MIT
// mutant: what AdamW writes is forgotten
// fails: fused
//< fused
    return u.gradient + (u.gradient + 12);
