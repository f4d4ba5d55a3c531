// SPDX-License-Identifier: MIT
/// @file bigram.hpp
/// What counting pairs can predict: the line a model must pass.       tier 5, needs: train/data.hpp
///
/// Idea     Count which token follows which in the training part, predict the held-out part with
///          that. A model that does not beat it has learned no more than pairs.
/// Formula  p(b|a) = (max(n(ab) - D, 0) + D * kinds(a) * q(b)) / n(a);  q(b) where a is new
///          q(b) = (n(b) + 1) / (n + V), or Kneser and Ney's: (kinds before b + 1) / (kinds + V)
///          kinds(a): different tokens seen after a.  D and q: those of `tried` that do best on the
///          held-out part itself, which favours the bigram, so that to beat it means something
/// Costs    memory: about 32 bytes a different pair.  compute: some 100 ns a token
/// Breaks   the empirical entropy of held-out pairs is not this: no predictor knows those counts
/// Source   Ney, Essen, Kneser 1994, On structuring probabilistic dependences in stochastic
///          language modelling (absolute discounting); Kneser, Ney 1995 (q by kinds)
/// See      tests/train/bigram_test.cpp
#pragma once
#include "mpt/train/data.hpp" // token_data, check

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace mpt {

struct bigram {
    double nats = 0;         // mean of -ln p over the held-out pairs
    double discount = 0;     // D of the best
    bool kneser_ney = false; // q of the best
};

/// The bigram's loss on the held-out part, comparable with a model's validation loss.
inline bigram bigram_entropy(const token_data& data) {
    constexpr std::array tried{0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
    const std::vector<std::uint16_t>& t = data.tokens;
    const std::size_t end = data.train_end, V = std::size_t(data.vocabulary);
    check(end >= 2 && t.size() >= end + 2, "data ", data.name, ": ", end, " tokens to train and ",
          t.size() - end,
          " held out, wanted at least 2 of each to count pairs; give a longer file");

    const auto pair = [&](std::size_t i) { return std::uint32_t(t[i - 1]) << 16 | t[i]; };
    std::unordered_map<std::uint32_t, double> pairs; // n(ab), by a * 2^16 + b
    std::vector<double> n(V), n_before(V), kinds_after(V), kinds_before(V);
    for (std::size_t i = 0; i < end; ++i) n[t[i]] += 1;
    for (std::size_t i = 1; i < end; ++i) {
        n_before[t[i - 1]] += 1;
        if ((pairs[pair(i)] += 1) > 1) continue;
        kinds_after[t[i - 1]] += 1;
        kinds_before[t[i]] += 1;
    }

    std::array<double, 2 * tried.size()> sum{}; // of -ln p, by D and q
    for (std::size_t i = end + 1; i < t.size(); ++i) {
        const auto found = pairs.find(pair(i));
        const double ab = found == pairs.end() ? 0 : found->second;
        const std::size_t a = t[i - 1], b = t[i];
        const double q[2] = {(n[b] + 1) / (double(end) + double(V)),
                             (kinds_before[b] + 1) / (double(pairs.size()) + double(V))};
        for (std::size_t k = 0; k < sum.size(); ++k) {
            const double D = tried[k / 2];
            const double seen = std::max(ab - D, 0.0) + D * kinds_after[a] * q[k % 2];
            sum[k] -= std::log(n_before[a] > 0 ? seen / n_before[a] : q[k % 2]);
        }
    }
    const std::size_t best = std::size_t(std::min_element(sum.begin(), sum.end()) - sum.begin());
    return {sum[best] / double(t.size() - end - 1), tried[best / 2], best % 2 == 1};
}

} // namespace mpt
