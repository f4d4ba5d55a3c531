// SPDX-License-Identifier: MIT
// Buckets: chapter 21.
//
// One message a layer costs too many messages; one for everything cannot start before backward has
// ended. So layers are put together, from the last to the first, as long as they fit, and a bucket
// begins to travel when it is full while backward goes on with the layers before. All ranks have
// to launch the same buckets in the same order: also when gradients of two layers are ready the
// other way round. Your limit is `limit` elements.
#include "exercise.hpp"

#include <utility>

std::vector<bucket> plan(const std::vector<int>& sizes, int limit) {
    std::vector<bucket> all;
    int held = 0; // elements of the last bucket
    for (int layer = int(sizes.size()) - 1; layer >= 0; --layer) {
        const int size = sizes[std::size_t(layer)];
        //< plan: about 5 lines
        if (all.empty() || held + size > limit) {
            all.push_back({layer, layer});
            held = 0;
        }
        all.back().first = layer;
        held += size;
        //> throw exercise::todo("plan");
    }
    (void)held;
    return all;
}

launcher::launcher(std::vector<bucket> plan, std::function<void(const bucket&)> launch)
    : plan_(std::move(plan)), launch_(std::move(launch)) {
    for (const bucket& b : plan_) missing_.push_back(b.last - b.first + 1);
}

void launcher::ready(int layer) {
    //< ready: about 6 lines
    for (std::size_t k = 0; k < plan_.size(); ++k)
        if (layer >= plan_[k].first && layer <= plan_[k].last) --missing_[k];
    while (next_ < plan_.size() && missing_[next_] == 0) launch_(plan_[next_++]);
    //> throw exercise::todo("ready");
}
