// SPDX-License-Identifier: MIT
// mutant: the sum is rounded to bf16 as well
// fails: bf16 in every thread
//< state
float part(std::span<const float> a, std::span<const float> b, precision how) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum = rounded(sum + rounded(a[i], how) * rounded(b[i], how), how);
    return sum;
}
