// SPDX-License-Identifier: MIT
// mutant: mean of squares minus square of the mean
// fails: a large mean
//< norm
    float mean = 0, squares = 0;
    for (const mpt::fp16 v : x) mean += float(v), squares += float(v) * float(v);
    mean /= n;
    const float scale = 1 / std::sqrt(squares / n - mean * mean + eps);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = mpt::fp16((float(x[i]) - mean) * scale);
