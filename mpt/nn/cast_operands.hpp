// SPDX-License-Identifier: MIT
/// @file cast_operands.hpp
/// The operands of one operation, cast for it and back.                    tier 4, needs:
/// base/memory.hpp nn/precision_policy.hpp nn/weight_cache.hpp
///
/// Idea     One body calls the operation for both types: o.read(x), o.write(y), o.weight(0, w) are
///          the model's fp32 arrays themselves where T is float; else copies in T, in a room that
///          is used again by the next operation, and finish() widens what was written.
/// Costs    sizeof(T) bytes an element of the operation's operands, all at once
/// Breaks   finish() forgotten: the model's arrays stay as they were
/// See      autocast.hpp (its user), gpt_sites.hpp (how much room), tests/nn/autocast_test.cpp
#pragma once
#include "mpt/base/memory.hpp"         // device_span
#include "mpt/nn/precision_policy.hpp" // site
#include "mpt/nn/weight_cache.hpp"     // weight_cache

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace mpt {

/// T: float or Low.
template <class T, class Low, class Ops>
class cast_operands {
    static constexpr bool as_is = std::is_same_v<T, float>;
    using in = device_span<const float>;
    using out = device_span<float>;

public:
    cast_operands(const Ops& ops, device_span<Low> room, weight_cache<Low>& weights, const site& at)
        : ops_(ops), room_(room), weights_(weights), site_(at) {}

    device_span<const T> read(in x) {
        if constexpr (as_is)
            return x;
        else
            return filled(take(x.size()), x);
    }
    /// y has the result after finish(). An empty y stays empty: it is not wanted.
    device_span<T> write(out y) {
        if constexpr (as_is)
            return y;
        else
            return written_.emplace_back(y, take(y.size())).second;
    }
    /// For an operation that adds to y, in T.
    device_span<T> update(out y) {
        if constexpr (as_is)
            return y;
        else
            return filled(write(y), y);
    }
    /// For a term that finish() adds to y in fp32. Called before the others: the room is aligned.
    device_span<T> add(out y) {
        if constexpr (as_is) {
            return y;
        } else {
            const device_span<Low> place = take(y.size() * sizeof(float) / sizeof(Low));
            sum_ = y, term_ = {reinterpret_cast<float*>(place.data()), y.size()};
            return written_.emplace_back(term_, take(y.size())).second;
        }
    }
    /// The site's tensor number i, or none where the operation is given none.
    device_span<const T> weight(std::size_t i, in w) {
        if constexpr (as_is)
            return w;
        else
            return w.empty() ? device_span<const T>() : weights_.copy(site_.tensors[i]);
    }

    void finish() {
        if constexpr (!as_is)
            for (auto& [to, from] : written_)
                if (!to.empty()) ops_.cast(to, from);
        if (!sum_.empty()) ops_.template add<float>(sum_, sum_, term_);
    }

private:
    device_span<T> filled(device_span<T> place, in from) {
        if (!from.empty()) ops_.cast(place, from);
        return place;
    }
    device_span<Low> take(std::size_t n) {
        used_ += n;
        check(used_ <= room_.size(), "autocast: ", site_.name, " wants ", used_,
              " elements of room, ", room_.size(),
              " are reserved; reserve what gpt_autocast_room() says");
        return room_.subspan(used_ - n, n);
    }

    const Ops& ops_;
    device_span<Low> room_;
    weight_cache<Low>& weights_;
    const site& site_;
    std::size_t used_ = 0; // elements of the room
    std::vector<std::pair<out, device_span<T>>> written_;
    out sum_, term_;
};

} // namespace mpt
