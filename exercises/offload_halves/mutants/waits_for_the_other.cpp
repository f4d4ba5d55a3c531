// SPDX-License-Identifier: MIT
// mutant: the wait is for the part before, not for the one that had the buffer
// fails: each part travels while the next is updated
//< step
    for (int k = 0; k < parts; ++k) {
        h.wait((k + 1) % 2);
        h.update(k, k % 2);
        h.start_copy(k, k % 2);
    }
    h.wait(0), h.wait(1);
