// SPDX-License-Identifier: MIT
// mutant: the weights are rounded before the step
// fails: weights are the rounded master
//< step
        const float g = float(grads[i]) * factor;
        weights[i] = mpt::bf16(master[i]);
        master[i] -= rate * g;
