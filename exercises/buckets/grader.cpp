// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <algorithm>

using namespace grade;

namespace {

std::vector<int> draw(int layers) {
    std::vector<int> sizes;
    for (int k = 0; k < layers; ++k) sizes.push_back(any().between(1, 90));
    return sizes;
}
std::string said(const std::vector<int>& sizes) {
    std::string text = "layers of";
    for (const int s : sizes) text += " " + std::to_string(s);
    return text;
}
std::string said(const bucket& b) { return mpt::join("layers ", b.first, " to ", b.last); }

} // namespace

PART("which layers go together", 4) {
    const int limit = int(exercise::parameter("limit"));
    for (int round = 0; round < 30; ++round) {
        const std::vector<int> sizes = draw(any().between(1, 12));
        const std::vector<bucket> found = plan(sizes, limit);
        int layer = int(sizes.size()) - 1;
        for (const bucket& b : found) {
            equals("where a bucket ends, " + said(sizes), b.last, layer,
                   "behind the one before it, going down");
            int held = 0, first = layer;
            while (first >= 0 && (first == layer || held + sizes[std::size_t(first)] <= limit))
                held += sizes[std::size_t(first--)];
            equals("where it begins, " + said(sizes), b.first, first + 1,
                   mpt::join("as many as fit in ", limit, " elements, at least one"));
            layer = first;
        }
        equals("layers without a bucket, " + said(sizes), layer + 1, 0, "every layer has one");
    }
    equals("buckets of layers that are all too large", plan({200, 300}, limit).size(),
           std::size_t(2), "one each");
}
PART("each leaves as soon as it is full", 3) {
    const std::vector<int> sizes = draw(10);
    const std::vector<bucket> all = plan(sizes, int(exercise::parameter("limit")));
    std::vector<bucket> launched;
    launcher l(all, [&](const bucket& b) { launched.push_back(b); });
    for (int layer = 9; layer >= 0; --layer) {
        l.ready(layer);
        std::size_t full = 0;
        for (const bucket& b : all) full += b.first >= layer;
        equals(mpt::join("buckets launched when layer ", layer, " is ready, ", said(sizes)),
               launched.size(), full,
               "those whose gradients are all there: not later, so that the rest of backward hides "
               "them");
    }
    for (std::size_t k = 0; k < all.size(); ++k)
        equals("order of the launches", said(launched[k]), said(all[k]), "the plan's");
}
PART("gradients that arrive in another order", 3) {
    for (int round = 0; round < 20; ++round) {
        const std::vector<int> sizes = draw(9);
        const std::vector<bucket> all = plan(sizes, int(exercise::parameter("limit")));
        std::vector<int> order;
        for (int k = 8; k >= 0; --k) order.push_back(k);
        for (std::size_t k = order.size() - 1; k > 0; --k)
            std::swap(order[k], order[std::size_t(any().between(0, int(k)))]);
        std::vector<bucket> launched;
        launcher l(all, [&](const bucket& b) { launched.push_back(b); });
        for (const int layer : order) l.ready(layer);
        equals("buckets launched", launched.size(), all.size(), "each once");
        for (std::size_t k = 0; k < all.size(); ++k)
            equals(
                "launch " + std::to_string(k), said(launched[k]), said(all[k]),
                "ranks that launch in the order of arrival add unlike buckets, or wait for ever");
    }
}
