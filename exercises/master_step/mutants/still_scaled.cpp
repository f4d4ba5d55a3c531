// SPDX-License-Identifier: MIT
// mutant: the gradient is applied with its scale
// fails: the master takes the step in fp32
//< step
        master[i] -= rate * float(grads[i]);
        weights[i] = mpt::bf16(master[i]);
