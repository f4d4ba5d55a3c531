// SPDX-License-Identifier: MIT
/// @file precision_bisect.hpp
/// Which operation breaks in 16 bits, and the policy that mends it.        tier 4, needs:
/// nn/drift.hpp nn/precision_policy.hpp
///
/// Idea     Give one operation after the other back to fp32, one at a time, and look how far the
///          run now gets before it leaves its bounds. The one that gets farthest is the culprit.
///          What it no longer overflows may overflow in its readers, so the search goes on from
///          there, until all is within bounds: the culprit and its readers are an island of fp32.
/// Formula  better = the first site out of bounds lies later; at the same site: it is less far out
/// Costs    a forward pass a site and round; a round an operation of the cure
/// Breaks   a batch that does not show the fault: bisect on the one that did
/// See      drift.hpp (the bounds), chapters/06_precision_policy.cpp (--bisect),
///          tests/nn/precision_bisect_test.cpp
#pragma once
#include "mpt/nn/drift.hpp"            // compare, drift_bounds, first_beyond
#include "mpt/nn/precision_policy.hpp" // precision_policy, site

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace mpt {

/// What became of a run under a policy.
struct outcome {
    std::size_t first = 0; // site that is out of bounds; the number of sites where none is
    double worst = 0;      // largest relative drift of a site, in its bound: good up to 1
    bool good() const { return worst <= 1; }
    bool better(const outcome& other) const {
        return first != other.first ? first > other.first : worst < other.worst;
    }
};

/// The outcome of the run that ops has just done. low, exact: results() of it, and of all-fp32.
template <class Low, class Ops>
outcome judge(const Ops& ops, const std::vector<std::vector<float>>& low,
              const std::vector<std::vector<float>>& exact) {
    const std::vector<double> bounds = drift_bounds<Low>(ops);
    std::vector<drift> drifts;
    outcome o;
    for (std::size_t i = 0; i < low.size(); ++i) {
        drifts.push_back(compare<Low>(low[i], exact[i]));
        if (drifts[i].relative > 0) o.worst = std::max(o.worst, drifts[i].relative / bounds[i]);
    }
    o.first = first_beyond(drifts, bounds);
    return o;
}

struct trial {
    std::string site; // the one that ran in fp32
    outcome result;
};
struct diagnosis {
    outcome before, after;          // under the policy, and under the cure
    std::vector<std::string> sites; // the culprit, then who must go with it; none: nothing is wrong
    std::vector<trial> ranking;     // one operation in fp32 each, the best first
    precision_policy cure;
};

/// run(policy) -> outcome. `from` is the policy that went wrong.
template <class Run>
diagnosis bisect(const precision_policy& from, const std::vector<site>& sites, Run run) {
    diagnosis d{run(from), {}, {}, {}, from};
    d.after = d.before;
    while (!d.after.good()) {
        const std::vector<precision> runs = d.cure.resolve(sites);
        std::vector<trial> round;
        for (std::size_t i = 0; i < sites.size(); ++i) {
            if (runs[i] == precision::fp32) continue;
            precision_policy one = d.cure;
            round.push_back({sites[i].name, run(one.set(sites[i].name, precision::fp32))});
        }
        std::stable_sort(round.begin(), round.end(),
                         [](const trial& a, const trial& b) { return a.result.better(b.result); });
        if (d.ranking.empty()) d.ranking = round;
        if (round.empty() || !round[0].result.better(d.after)) break; // no single one helps
        d.sites.push_back(round[0].site);
        d.cure.set(round[0].site, precision::fp32);
        d.after = round[0].result;
    }
    return d;
}

} // namespace mpt
