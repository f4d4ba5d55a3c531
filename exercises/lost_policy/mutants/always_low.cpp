// SPDX-License-Identifier: MIT
// mutant: bf16 whatever was asked for
// fails: fp32 stays fp32, also after bf16
//< state
float part(std::span<const float> a, std::span<const float> b, precision) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += rounded(a[i], precision::bf16) * rounded(b[i], precision::bf16);
    return sum;
}
