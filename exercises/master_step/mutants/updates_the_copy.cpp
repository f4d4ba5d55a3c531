// SPDX-License-Identifier: MIT
// mutant: the step is taken on the bf16 weights
// fails: small steps add up
//< step
        const float g = float(grads[i]) * factor;
        weights[i] = mpt::bf16(float(weights[i]) - rate * g);
        master[i] = float(weights[i]);
