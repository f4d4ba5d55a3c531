// SPDX-License-Identifier: MIT
// ZeRO-Offload: chapter 25.
//
// The optimizer's states lie on the host, and the CPU updates them part by part. The new weights of
// a part have to go to the device, and the link is slow: part k is to travel while part k + 1 is
// updated. Two buffers are enough, if none is written to before its last weights have left.
#include "exercise.hpp"

void step(const host& h, int parts) {
    //< step: about 6 lines
    for (int k = 0; k < parts; ++k) {
        h.wait(k % 2); // part k - 2 has left
        h.update(k, k % 2);
        h.start_copy(k, k % 2);
    }
    h.wait(0), h.wait(1);
    //> throw exercise::todo("step");
}
