// SPDX-License-Identifier: MIT
// mutant: every copy is waited for at once
// fails: each part travels while the next is updated
//< step
    for (int k = 0; k < parts; ++k) {
        h.update(k, k % 2);
        h.start_copy(k, k % 2);
        h.wait(k % 2);
    }
