// SPDX-License-Identifier: MIT
/// @file drift.hpp
/// How far a run in 16 bits is from the same run in fp32, site by site.    tier 4, needs:
/// base/device_span.hpp nn/precision_policy.hpp numeric/scalar.hpp
///
/// Idea     Numbers that rounding alone moves point where the exact ones do. What overflows, is
///          flushed to zero or is cancelled away shows at the first site that is farther off than
///          the roundings before it explain; behind it everything is.
/// Formula  relative = |low - exact| / |exact| (lengths);  bound = u sqrt(3 low sites so far)
///          u = epsilon / 2; each low site rounds its input, its weights and its result
/// Costs    both runs' results of every site in fp32, on the host
/// Breaks   roundings of one sign, as of a running sum kept in 16 bits: they grow with k itself
/// Source   Ipsen and Zhou 2019, Probabilistic Error Analysis for Inner Products, arXiv:1906.10465
///          (roundings as independent random numbers: their squares add)
/// See      precision_bisect.hpp, chapters/06_precision_policy.cpp, tests/nn/drift_test.cpp
#pragma once
#include "mpt/base/device_span.hpp"    // device_span, check
#include "mpt/nn/precision_policy.hpp" // site
#include "mpt/numeric/scalar.hpp"      // format

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace mpt {

struct drift {
    double cosine = 1;       // of the angle between low and exact; NaN where low is not finite
    double relative = 0;     // |low - exact| / |exact|; infinite where low is not finite
    double max_relative = 0; // largest |low - exact| / largest |exact|
    // Shares of the numbers that are not zero in fp32, in percent:
    double overflow = 0;  // infinite or NaN
    double underflow = 0; // zero
    double subnormal = 0; // not zero, but with fewer bits than the format has
    std::size_t inf = 0, nan = 0;
    bool inf_first = false; // before any NaN
};

/// low: as Low stored them, widened. exact: the same numbers in fp32.
template <class Low>
drift compare(std::span<const float> low, std::span<const float> exact) {
    check(low.size() == exact.size(), "drift: ", low.size(), " numbers against ", exact.size(),
          "; compare the same tensor of two runs");
    drift d;
    double count = 0, both = 0, lows = 0, exacts = 0, off = 0, worst = 0, largest = 0;
    for (std::size_t i = 0; i < low.size(); ++i) {
        const double x = double(exact[i]), y = double(low[i]);
        both += x * y, lows += y * y, exacts += x * x, off += (y - x) * (y - x);
        worst = std::max(worst, std::abs(y - x)), largest = std::max(largest, std::abs(x));
        if (exact[i] == 0) continue;
        ++count;
        d.underflow += low[i] == 0;
        d.subnormal += low[i] != 0 && std::abs(low[i]) < format<Low>::min_normal;
        d.inf_first |= d.nan == 0 && std::isinf(low[i]);
        d.inf += std::isinf(low[i]);
        d.nan += std::isnan(low[i]);
    }
    const double percent = 100 / std::max(count, 1.0);
    d.overflow = double(d.inf + d.nan) * percent;
    d.underflow *= percent, d.subnormal *= percent;
    constexpr double infinite = std::numeric_limits<double>::infinity();
    if (!std::isfinite(off)) {
        d.cosine = std::numeric_limits<double>::quiet_NaN();
        d.relative = d.max_relative = infinite;
    } else if (off > 0) {
        d.cosine = both / std::sqrt(lows * exacts);
        d.relative = exacts > 0 ? std::sqrt(off / exacts) : infinite;
        d.max_relative = largest > 0 ? worst / largest : infinite;
    }
    return d;
}

/// Every site's result in one forward pass, in fp32: run() calls the model's forward once.
/// Ops: autocast.
template <class Ops, class Run>
std::vector<std::vector<float>> results(Ops& ops, Run run) {
    std::vector<std::vector<float>> all(ops.sites().size());
    ops.watch = [&](std::size_t site, device_span<const float> y) {
        all[site].resize(y.size());
        ops.copy_to_host(all[site], y);
    };
    run();
    ops.watch = {};
    return all;
}

/// Largest `relative` that rounding explains, for each site of the run that ops has just done.
template <class Low, class Ops>
std::vector<double> drift_bounds(const Ops& ops) {
    std::vector<double> bounds;
    double roundings = 0;
    for (std::size_t i = 0; i < ops.sites().size(); ++i) {
        roundings += ops.ran_low(i) ? 3 : 0;
        bounds.push_back(double(format<Low>::epsilon) / 2 * std::sqrt(roundings));
    }
    return bounds;
}

/// The first site that is farther off than its bound; bounds.size() where none is.
inline std::size_t first_beyond(const std::vector<drift>& drifts,
                                const std::vector<double>& bounds) {
    std::size_t i = 0;
    while (i < bounds.size() && drifts[i].relative <= bounds[i]) ++i;
    return i;
}

/// How far the mean loss may be off where the logits are `relative` off. A token's loss moves by
/// (softmax - target) . error: independent errors, times a vector of length sqrt(2) at most.
inline double loss_bound(double relative, std::span<const float> logits) {
    double square = 0;
    for (const float x : logits) square += double(x) * double(x);
    return std::sqrt(2.0) * relative * std::sqrt(square / double(logits.size()));
}

} // namespace mpt
