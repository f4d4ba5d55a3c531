// SPDX-License-Identifier: MIT
// optimizer.hpp -- the run's optimizer and learning rate, chosen by --optimizer and --schedule.
#pragma once
#include "options.hpp"

#include "../common/kept_moments.hpp"

#include "mpt/dist/offload.hpp"       // offload, updates_in_parts
#include "mpt/dist/offload_place.hpp" // require_offloadable
#include "mpt/train/adam.hpp"         // adam: step
#include "mpt/train/adamw.hpp"        // adamw: step
#include "mpt/train/lamb.hpp"         // lamb: step
#include "mpt/train/schedule.hpp"     // schedule
#include "mpt/train/sgd.hpp"          // sgd: step
#include "mpt/train/warmup.hpp"       // warmup_lr

#include <algorithm>
#include <functional>
#include <string>
#include <variant>

/// One of them, by the verbs that all have.
class optimizer {
public:
    explicit optimizer(const options& o) {
        if (o.moments == "bf16") which_.emplace<mpt::adamw_bf16>();
        if (o.optimizer == "adam8bit") which_.emplace<mpt::adam8bit>();
        if (o.optimizer == "adam") which_.emplace<mpt::adam>();
        if (o.optimizer == "sgd") which_.emplace<mpt::sgd>().momentum = o.momentum;
        if (o.optimizer == "lamb") which_.emplace<mpt::lamb>();
        std::visit(
            [&](auto& x) {
                x.weight_decay = o.weight_decay;
                if constexpr (requires { x.beta1; }) x.beta1 = o.beta1, x.beta2 = o.beta2;
            },
            which_);
    }

    long& applied() { // steps taken
        return std::visit([](auto& x) -> long& { return x.applied; }, which_);
    }
    long applied() const { return const_cast<optimizer*>(this)->applied(); }
    mpt::optimizer_kind kind() const { // what it keeps
        using k = mpt::optimizer_kind;
        if (std::holds_alternative<mpt::adam8bit>(which_)) return k::adam8;
        if (std::holds_alternative<mpt::adamw_bf16>(which_)) return k::adam16;
        const int numbers = std::visit([](const auto& x) { return x.moments(); }, which_);
        return numbers == 2 ? k::adamw : numbers == 1 ? k::momentum : k::sgd;
    }
    /// add: makes sums over what this rank owns those over all ranks, where the rule has any.
    template <class T, class Add>
    void step(const mpt::cpu& on, const mpt::layout& map, const mpt::optimizer_state<T>& own,
              kept_moments& kept, const mpt::owned_gradients<T>& g, double factor, double lr,
              Add add) {
        std::visit([&](auto& x) { kept.step(x, on, map, own, g, factor, lr, add); }, which_);
    }

    /// ... on the host, of states that are away.
    template <class T>
    void step(const mpt::cpu& host, const mpt::layout& map, mpt::offload<T>& away,
              const mpt::owned_gradients<T>& g, double factor, double lr) {
        std::visit(
            [&]<class Rule>(Rule& x) {
                if constexpr (mpt::updates_in_parts<Rule, T>)
                    away.step(x, host, map, g, factor, lr);
                else
                    mpt::require_offloadable<Rule, T>("this optimizer"); // as options.cpp did
            },
            which_);
    }
    /// Throws one line unless --offload can take its states. name: the option that chose it.
    void require_offloadable(const std::string& name) const {
        std::visit([&]<class Rule>(const Rule&) { mpt::require_offloadable<Rule, float>(name); },
                   which_);
    }

private:
    std::variant<mpt::adamw, mpt::adam, mpt::sgd, mpt::lamb, mpt::adam8bit, mpt::adamw_bf16> which_;
};

/// The rate of the step after so many applied ones.
inline std::function<double(long)> learning_rate(const options& o) {
    const long twentieth = o.warmup < 0 ? o.steps / 20 : o.warmup;
    if (o.schedule == "constant") return mpt::schedule::constant(o.lr);
    if (o.schedule == "cosine")
        return mpt::schedule{o.lr, o.min_lr < 0 ? o.lr / 10 : o.min_lr, twentieth, o.steps};
    return mpt::warmup_lr{std::max(0.0, double(o.min_lr)), o.lr, std::max(2L, twentieth),
                          o.schedule == "warmup-linear" ? mpt::warmup_lr::rise::linear
                                                        : mpt::warmup_lr::rise::logarithmic};
}
