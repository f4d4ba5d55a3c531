// SPDX-License-Identifier: MIT
// One rank as strict as many: a unit's weights exist from acquire to release, elsewhere they
// are NaN; acquire twice, release without acquire, a gradient reported twice or never are errors. A
// model that is right here is right under ZeRO-3.
#pragma once
#include "mpt/nn/strategy.hpp"

#include <cstring>
#include <vector>

template <class T>
class strict_one_rank : public mpt::strategy<T> {
public:
    explicit strict_one_rank(const mpt::layout& map) : map_(map), copies_(map.units.size()) {}

    mpt::device_span<const T> acquire(mpt::device_span<const T> weights, int unit) override {
        const mpt::unit_info& u = map_.units[std::size_t(unit)];
        std::vector<T>& copy = copies_[std::size_t(unit)];
        mpt::check(!held(unit), "unit ", u.name, " is acquired twice");
        if (copy.empty()) copy.resize(u.size() + 1); // one more, so that an empty unit has a place
        std::copy_n(weights.data() + u.begin, u.size(), copy.data());
        held_.push_back(unit);
        return {copy.data(), u.size()};
    }
    void release(int unit) override {
        mpt::check(held(unit), "unit ", map_.units[std::size_t(unit)].name, " was not acquired");
        std::erase(held_, unit);
        std::vector<T>& copy = copies_[std::size_t(unit)]; // kept, so that reading it is no fault,
        std::memset(copy.data(), 0xFF, copy.size() * sizeof(T)); // but a NaN
    }

    mpt::device_span<T> collect(mpt::gradients<T>& grads, int unit) override {
        return part(grads.micro, unit);
    }
    void ready(mpt::gradients<T>&, int unit, int) override {
        for (const int before : reported_)
            mpt::check(before != unit, "unit ", map_.units[std::size_t(unit)].name,
                       " reports its gradient twice");
        reported_.push_back(unit);
    }
    mpt::owned_gradients<T> finish(mpt::gradients<T>& grads) override {
        mpt::check(reported_.size() == map_.units.size(), reported_.size(), " of ",
                   map_.units.size(), " units reported");
        reported_.clear();
        return {parts(mpt::device_span<const T>(grads.micro)), {}};
    }
    mpt::pieces<T> mine(mpt::device_span<T> weights) override { return parts(weights); }
    void publish(mpt::device_span<T>) override {}

    const std::vector<int>& held() const { return held_; }         // acquired, not released
    const std::vector<int>& reported() const { return reported_; } // since finish, in order
    void forget() { reported_.clear(); }

private:
    bool held(int unit) const {
        for (const int h : held_)
            if (h == unit) return true;
        return false;
    }
    template <class E>
    mpt::device_span<E> part(mpt::device_span<E> flat, int unit) const {
        const mpt::unit_info& u = map_.units[std::size_t(unit)];
        return flat.subspan(u.begin, u.size());
    }
    template <class E>
    mpt::pieces<E> parts(mpt::device_span<E> flat) const {
        mpt::pieces<E> all;
        for (std::size_t u = 0; u < map_.units.size(); ++u)
            all.push_back({part(flat, int(u)), map_.units[u].begin});
        return all;
    }

    const mpt::layout& map_;
    std::vector<std::vector<T>> copies_;
    std::vector<int> held_, reported_;
};
