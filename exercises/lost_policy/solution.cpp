// SPDX-License-Identifier: MIT
// A policy that is lost: chapter 6.
//
// "Autocast works in the main thread and does nothing in my workers": in several frameworks the
// precision is a thread-local setting, which a new thread begins without. The code between the
// markers sets such a variable and starts threads. Mend it: a policy is a value, so hand it over.
#include "exercise.hpp"

#include "mpt/numeric/bf16.hpp" // bf16

#include <algorithm>

float rounded(float x, precision how) { return how == precision::bf16 ? float(mpt::bf16(x)) : x; }

//< state: what dot and its threads share
float part(std::span<const float> a, std::span<const float> b, precision how) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += rounded(a[i], how) * rounded(b[i], how);
    return sum;
}
//> thread_local precision current = precision::fp32;
//> float part(std::span<const float> a, std::span<const float> b) {
//>     float sum = 0;
//>     for (std::size_t i = 0; i < a.size(); ++i)
//>         sum += rounded(a[i], current) * rounded(b[i], current);
//>     return sum;
//> }

float dot(std::span<const float> a, std::span<const float> b, precision how, int threads) {
    const std::size_t each = (a.size() + std::size_t(threads) - 1) / std::size_t(threads);
    std::vector<float> sums(static_cast<std::size_t>(threads));
    std::vector<std::thread> workers;
    //< workers: about 6 lines
    for (int t = 0; t < threads; ++t)
        workers.emplace_back([&, t] {
            const std::size_t from = std::min(a.size(), each * std::size_t(t));
            const std::size_t n = std::min(each, a.size() - from);
            sums[std::size_t(t)] = part(a.subspan(from, n), b.subspan(from, n), how);
        });
    //> current = how;
    //> for (int t = 0; t < threads; ++t)
    //>     workers.emplace_back([&, t] {
    //>         const std::size_t from = std::min(a.size(), each * std::size_t(t));
    //>         const std::size_t n = std::min(each, a.size() - from);
    //>         sums[std::size_t(t)] = part(a.subspan(from, n), b.subspan(from, n));
    //>     });
    for (std::thread& w : workers) w.join();
    float sum = 0;
    for (const float s : sums) sum += s;
    return sum;
}
