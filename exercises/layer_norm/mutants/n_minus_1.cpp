// SPDX-License-Identifier: MIT
// mutant: the variance of a sample, divided by n - 1
// fails: ordinary rows
//< norm
    float mean = 0, variance = 0;
    for (const mpt::fp16 v : x) mean += float(v);
    mean /= n;
    for (const mpt::fp16 v : x) variance += (float(v) - mean) * (float(v) - mean);
    const float scale = 1 / std::sqrt(variance / (n - 1) + eps);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = mpt::fp16((float(x[i]) - mean) * scale);
