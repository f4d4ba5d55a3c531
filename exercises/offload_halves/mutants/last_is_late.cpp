// SPDX-License-Identifier: MIT
// mutant: nobody waits for the last two
// fails: when the step returns nothing is on its way
//< step
    for (int k = 0; k < parts; ++k) {
        h.wait(k % 2);
        h.update(k, k % 2);
        h.start_copy(k, k % 2);
    }
