// SPDX-License-Identifier: MIT
// mutant: a thread_local variable, set by the caller
// fails: bf16 in every thread
//< state
thread_local precision current = precision::fp32;
float part(std::span<const float> a, std::span<const float> b) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += rounded(a[i], current) * rounded(b[i], current);
    return sum;
}
//< workers
    current = how;
    for (int t = 0; t < threads; ++t)
        workers.emplace_back([&, t] {
            const std::size_t from = std::min(a.size(), each * std::size_t(t));
            const std::size_t n = std::min(each, a.size() - from);
            sums[std::size_t(t)] = part(a.subspan(from, n), b.subspan(from, n));
        });
