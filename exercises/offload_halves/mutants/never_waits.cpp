// SPDX-License-Identifier: MIT
// mutant: a buffer is written to while its weights leave
// fails: the device has every part's new weights
//< step
    for (int k = 0; k < parts; ++k) {
        h.update(k, k % 2);
        h.start_copy(k, k % 2);
    }
    h.wait(0), h.wait(1);
