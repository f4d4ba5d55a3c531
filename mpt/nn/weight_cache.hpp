// SPDX-License-Identifier: MIT
/// @file weight_cache.hpp
/// Weights cast to 16 bits, kept until they change.                        tier 4, needs:
/// base/memory.hpp nn/params.hpp nn/precision_policy.hpp
///
/// Idea     All micro-batches of a window, and backward, read the weights that forward has cast.
///          So a tensor is cast once, at its first use after a change, and a tied one once for both
///          of its users: tensors are told apart by name, not by address (a gathered unit moves).
/// Formula  bytes = sizeof(Low) * elements of the tensors that sites under `low` read
/// Costs    a read and a write a weight and step, instead of one a micro-batch and pass
/// Breaks   an optimizer's step without changed(): the model goes on with the weights before it
/// Source   PyTorch, ATen/autocast_mode.cpp (cached until the outermost autocast ends)
/// See      autocast.hpp (its user), tests/nn/autocast_test.cpp (a stale cache is caught)
#pragma once
#include "mpt/base/memory.hpp"         // buffer, memory
#include "mpt/nn/params.hpp"           // layout, tensor_info
#include "mpt/nn/precision_policy.hpp" // site, precision

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mpt {

template <class Low>
class weight_cache {
public:
    weight_cache() = default;
    /// For the weights that sites[i] with runs[i] = low read. Throws where `map` lacks one.
    weight_cache(memory& mem, const std::vector<site>& sites, const std::vector<precision>& runs,
                 const layout& map) {
        std::size_t total = 0;
        for (std::size_t i = 0; i < sites.size(); ++i)
            for (const std::string& name : sites[i].tensors) {
                const auto t =
                    std::find_if(map.tensors.begin(), map.tensors.end(),
                                 [&](const tensor_info& info) { return info.name == name; });
                check(t != map.tensors.end(), "weight cache: ", sites[i].name, " reads ", name,
                      ", which the layout does not have; give sites and layout of one model");
                if (runs[i] != precision::low || kept_.count(name)) continue;
                kept_[name] = {total, t->size, false};
                total += t->size;
            }
        copies_ = buffer<Low>(mem, kind::temp, total, "weights in 16 bits");
    }

    /// The weights are others now.
    void changed() {
        for (auto& k : kept_) k.second.fresh = false;
    }

    /// Cast w, the tensor's fp32 values, unless that was done. Returns whether it was done now.
    template <class Ops>
    bool refresh(const Ops& ops, const std::string& name, device_span<const float> w) {
        if (std::exchange(kept_.at(name).fresh, true)) return false;
        ops.cast(copy(name), w);
        return true;
    }

    /// What the latest refresh() of the tensor has made.
    device_span<Low> copy(const std::string& name) {
        const kept& k = kept_.at(name);
        return copies_.span().subspan(k.begin, k.size);
    }

    std::size_t size() const { return copies_.size(); } // elements

private:
    struct kept {
        std::size_t begin, size; // elements of copies_
        bool fresh;
    };
    std::map<std::string, kept> kept_;
    buffer<Low> copies_;
};

} // namespace mpt
