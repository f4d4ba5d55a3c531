// SPDX-License-Identifier: MIT
/// @file hiding_rank.hpp
/// One rank that hides what is not held, as ZeRO-3 does: weights, and gradients not yet written.
///
/// Idea     Weights are handed out as copies, each time elsewhere, and poisoned on release;
///          gradients are collected in places that hold NaN until written. So a model that reads
///          weights it has not acquired or has given back, writes weights, or leaves a gradient
///          unwritten computes NaN or is refused, though on one rank nothing would show. With a
///          model that keeps the protocol every bit is that of one_rank, windows included.
/// Breaks   the weights passed to the model are not looked at: pass hidden(), which is all NaN
/// See      one_rank_test.cpp (each breach shows), tests/nn/mlp_test.cpp, tests/nn/gpt_test.cpp
#pragma once
#include "mpt/base/error.hpp"
#include "mpt/dist/one_rank.hpp"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace mpt {

template <class T>
class hiding_rank : public one_rank<T> {
public:
    /// weights: the real ones, host-readable, which only this strategy reads.
    hiding_rank(const cpu& on, const layout& map, device_span<const T> weights)
        : one_rank<T>(on, map), map_(map), weights_(weights), nothing_(map.size()),
          unit_(map.units.size()) {
        poison(nothing_);
        for (std::size_t u = 0; u < unit_.size(); ++u) {
            for (std::vector<T>* room : {&unit_[u].copy[0], &unit_[u].copy[1], &unit_[u].grads}) {
                room->resize(map.units[u].size());
                poison(*room);
            }
        }
    }

    /// What to pass for the weights where a model asks for them.
    device_span<const T> hidden() const { return {nothing_.data(), nothing_.size()}; }

    device_span<const T> acquire(device_span<const T> weights, int unit) override {
        check(weights.size() == map_.size(), "hidden: acquire of ", name(unit), " with ",
              weights.size(), " of ", map_.size(), " weights");
        state& u = unit_[std::size_t(unit)];
        if (u.held++ == 0) { // gathered anew, into other memory than last time
            u.now = 1 - u.now;
            const device_span<const T> from = real(unit);
            if (!from.empty()) std::memcpy(room(u).data(), from.data(), from.bytes());
        }
        return {room(u).data(), room(u).size()};
    }

    void release(int unit) override {
        state& u = unit_[std::size_t(unit)];
        check(u.held > 0, "hidden: release of ", name(unit), ", which is not acquired");
        check(same(room(u), real(unit)), "hidden: the weights of ", name(unit), " were written to");
        if (--u.held == 0) poison(room(u));
    }

    device_span<T> collect(gradients<T>&, int unit) override {
        state& u = unit_[std::size_t(unit)];
        u.collected = true;
        return {u.grads.data(), u.grads.size()};
    }

    void ready(gradients<T>& grads, int unit, int micro) override {
        state& u = unit_[std::size_t(unit)];
        check(u.collected, "hidden: ready of ", name(unit), " without collect");
        check(micro == u.done, "hidden: ready of ", name(unit), " for micro-batch ", micro,
              ", wanted ", u.done, ": once each, in order");
        const device_span<T> to = one_rank<T>::collect(grads, unit);
        if (!to.empty()) std::memcpy(to.data(), u.grads.data(), to.bytes());
        poison(u.grads);
        u.collected = false;
        ++u.done;
        order_.push_back(unit);
        one_rank<T>::ready(grads, unit, micro);
    }

    /// The units that were ready since the last finish, in order.
    const std::vector<int>& order() const { return order_; }

    owned_gradients<T> finish(gradients<T>& grads) override {
        for (std::size_t i = 0; i < unit_.size(); ++i) {
            const state& u = unit_[i];
            check(u.held == 0, "hidden: ", name(int(i)), " is still acquired at a window's end");
            check(u.done > 0 && u.done == unit_[0].done && !u.collected, "hidden: ", name(int(i)),
                  " was ready ", u.done, " times in a window, ", name(0), " ", unit_[0].done);
        }
        for (state& u : unit_) u.done = 0;
        order_.clear();
        return one_rank<T>::finish(grads);
    }

private:
    struct state {
        std::vector<T> copy[2]; // where acquire puts the weights, in turn
        std::vector<T> grads;
        int now = 0, held = 0, done = 0;
        bool collected = false;
    };

    std::vector<T>& room(state& u) { return u.copy[u.now]; }
    const std::string& name(int unit) const { return map_.units[std::size_t(unit)].name; }
    device_span<const T> real(int unit) const {
        const unit_info& u = map_.units[std::size_t(unit)];
        return weights_.subspan(u.begin, u.size());
    }
    static bool same(const std::vector<T>& copy, device_span<const T> from) {
        return from.empty() || std::memcmp(copy.data(), from.data(), from.bytes()) == 0;
    }
    static void poison(std::vector<T>& x) { // 0xFF: NaN in every format
        if (!x.empty()) std::memset(static_cast<void*>(x.data()), 0xFF, x.size() * sizeof(T));
    }

    const layout& map_;
    device_span<const T> weights_;
    std::vector<T> nothing_;
    std::vector<state> unit_;
    std::vector<int> order_;
};

} // namespace mpt
