// SPDX-License-Identifier: MIT
// mutant: squares are rounded to fp16
// fails: squares beyond 65504
//< norm
    float mean = 0;
    mpt::fp16 squares(0.0f);
    for (const mpt::fp16 v : x) mean += float(v);
    mean /= n;
    for (const mpt::fp16 v : x)
        squares = mpt::fp16(float(squares) + (float(v) - mean) * (float(v) - mean));
    const float scale = 1 / std::sqrt(float(squares) / n + eps);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = mpt::fp16((float(x[i]) - mean) * scale);
