// SPDX-License-Identifier: MIT
/// @file site_calls.hpp
/// Which of a model's operations is calling.                               tier 4, needs:
/// nn/precision_policy.hpp
///
/// Idea     A list of operations is called without a name. In a forward pass the order tells it; in
///          backward what the call shares with its forward: a key, a pointer to what forward kept
///          for it, or a number. Blocks that backward runs again (checkpointing) begin with an
///          input that was kept, so their first call is known by its key, the next by the order.
/// Costs    a look into a map a call; nothing an element
/// Breaks   two operations of one kind with one key; a model that calls in changing order: refused
/// See      gpt_sites.hpp (the order), autocast.hpp (its user), tests/nn/autocast_test.cpp
#pragma once
#include "mpt/nn/precision_policy.hpp" // site, operation

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace mpt {

class site_calls {
public:
    site_calls() = default;
    explicit site_calls(std::vector<site> order) : sites_(std::move(order)) {}

    const std::vector<site>& sites() const { return sites_; }

    /// The site of a call in forward, also in one that backward makes again.
    std::size_t forward(operation op, const void* key) {
        check(!sites_.empty(), "autocast: no policy, so no operation is named; call use() first");
        if (op == sites_[0].op && op != sites_[next_].op) next_ = 0; // the last pass was broken off
        const std::size_t site =
            next_ == 0 && op != sites_[0].op ? again(op, key) : in_order(op, sites_[next_]);
        return called_[{op, key}] = site;
    }
    /// Where the site's result lies: the next operation reads it. The last of a block is not run
    /// again for backward, which finds it all the same.
    void result(std::size_t site, const void* y) {
        if (site + 1 < sites_.size()) called_[{sites_[site + 1].op, y}] = site + 1;
    }
    bool ran(operation op, const void* key) const { return called_.count({op, key}) > 0; }
    std::size_t backward(operation op, const void* key) const {
        check(ran(op, key), "autocast: backward of ", to_string(op),
              " whose forward did not run; run forward first, on the same activations");
        return called_.at({op, key});
    }

private:
    std::size_t in_order(operation op, const site& s) {
        check(op == s.op, "autocast: call ", next_, " of the forward pass is ", to_string(op),
              ", the list of sites has ", s.name, " (", to_string(s.op),
              "); give the sites of the model that runs");
        again_ = sites_.size();
        return std::exchange(next_, (next_ + 1) % sites_.size());
    }
    std::size_t again(operation op, const void* key) {
        if (again_ >= sites_.size() || op != sites_[again_].op) {
            check(ran(op, key), "autocast: ", to_string(op),
                  " begins the forward pass, the list of sites begins with ", sites_[0].name, " (",
                  to_string(sites_[0].op), "); give the sites of the model that runs");
            again_ = called_.at({op, key});
        }
        return again_++;
    }

    std::vector<site> sites_;
    std::map<std::pair<operation, const void*>, std::size_t> called_;
    std::size_t next_ = 0;  // site of the next call in order
    std::size_t again_ = 0; // ... of the next that backward makes; sites_.size(): none yet
};

} // namespace mpt
