// SPDX-License-Identifier: MIT
/// @file grad_scaler.hpp
/// Several optimizers at one loss scale: the order of the calls.           tier 5, needs:
/// base/error.hpp nn/cpu.hpp nn/params.hpp numeric/scalar.hpp train/inspect.hpp
/// train/loss_scale.hpp
///
/// Idea     unscale and step once for each optimizer, then update once for all. In another order
///          something is divided twice or stepped twice, and nothing crashes; so each optimizer has
///          a stage, and a call out of order is an error. A skip is the optimizer's own; the scale
///          hears of all.
/// Formula  READY -unscale-> UNSCALED -step-> STEPPED;  update: all READY again
///          finite for the update = all optimizers finite;  inverse = float(1 / double(S))
/// Breaks   fp16 gradients unscaled where they lie: what scaling saved underflows after all.
///          Ranks that did not agree: set health.finite = comm.all(health.finite) before unscale
/// Source   PyTorch, torch/amp/grad_scaler.py: stages, order, and the words of the errors
/// See      loss_scale.hpp (one optimizer needs no more), tests/train/grad_scaler_test.cpp
#pragma once
#include "mpt/base/error.hpp"       // check, error
#include "mpt/nn/cpu.hpp"           // cpu
#include "mpt/nn/params.hpp"        // pieces
#include "mpt/numeric/scalar.hpp"   // fp16, widen, narrow
#include "mpt/train/inspect.hpp"    // health
#include "mpt/train/loss_scale.hpp" // loss_scale: update, seed, state

#include <map>
#include <string>
#include <string_view>
#include <type_traits>

namespace mpt {

/// Scale: loss_scale, hysteresis_scale, or what has their verbs. An optimizer is any object that
/// stays where it is; only its address is used.
template <class Scale = loss_scale>
struct grad_scaler {
    Scale scale;         // when S moves
    bool enabled = true; // false: S is 1, every step is taken, nothing is kept

    float value() const { return enabled ? scale.value : 1.0f; }
    float seed(long tokens) const {
        return enabled ? scale.seed(tokens) : loss_scale::fixed(1).seed(tokens);
    }
    /// What the optimizer multiplies its gradients with as it reads them.
    float inverse() const { return inverse_scale(value()); }

    /// The gradients of `optimizer` were looked at and are handed over, still scaled: step() may
    /// follow, and clipping may come between, by norm(h) * inverse().
    template <class Optimizer>
    void unscale(const Optimizer& optimizer, const health& h, std::string_view found = {}) {
        if (!enabled) return;
        record& r = ready(optimizer);
        r.at = stage::unscaled;
        r.finite = h.finite;
        if (!h.finite && found_.empty()) found_ = found;
    }

    /// The same, and divides the gradients where they lie, for optimizers that know no factor.
    template <class Optimizer, class G>
    void unscale_(const cpu& on, const Optimizer& optimizer, const pieces<G>& grads,
                  const health& h, std::string_view found = {}) {
        static_assert(!std::is_const_v<G>, "unscale_ writes into the gradients");
        if (!enabled) return;
        ready(optimizer);
        if constexpr (std::is_same_v<G, fp16>)
            throw error("loss scale: Attempting to unscale FP16 gradients. They would underflow; "
                        "call unscale(optimizer, inspect(...)) and give the optimizer inverse()");
        const auto factor = wide_t<G>(inverse());
        for (const piece<G>& p : grads)
            on.pool.for_ranges(p.data.size(), block_size, [&](std::size_t i, std::size_t end, int) {
                G* const g = p.data.data();
                for (; i < end; ++i) g[i] = narrow<G>(wide_t<G>(widen(g[i]) * factor));
            });
        unscale(optimizer, h, found);
    }

    /// May this optimizer take its step? Not where its own gradients are not finite.
    template <class Optimizer>
    bool step(const Optimizer& optimizer) {
        if (!enabled) return true;
        record& r = of_[&optimizer];
        check(r.at != stage::stepped, "loss scale: step() has already been called since the last "
              "update(). Call update() once after the steps of all optimizers");
        check(r.at == stage::unscaled, "loss scale: No inf checks were recorded for this "
              "optimizer. Call unscale(optimizer, inspect(...)) before step()");
        r.at = stage::stepped;
        return r.finite;
    }

    /// Both at once: unscales first where that has not been done.
    template <class Optimizer>
    bool step(const Optimizer& optimizer, const health& h, std::string_view found = {}) {
        if (enabled && of_[&optimizer].at == stage::ready) unscale(optimizer, h, found);
        return step(optimizer);
    }

    /// Once after all steps; true where every optimizer's gradients were finite. Legal without a
    /// step: where one was left out, every optimizer is READY again all the same.
    bool update() {
        if (!enabled) return true;
        bool checked = false, finite = true;
        for (const auto& [optimizer, r] : of_) {
            if (r.at == stage::ready) continue;
            checked = true;
            finite = finite && r.finite;
        }
        check(checked, "loss scale: No inf checks were recorded prior to update. Call "
              "unscale(optimizer, inspect(...)) and step(optimizer) first");
        const std::string found = found_;
        begin_again(); // also where the scale throws
        return scale.update(finite, found);
    }

    /// S from here on; its tracker stays. Throws, with S as it was, for one that scales nothing.
    void update(float new_scale) {
        if (!enabled) return;
        Scale other = scale;
        other.value = new_scale;
        other.validate();
        scale = other;
        begin_again();
    }

    /// Empty where it is not enabled, and refused as that where it is.
    scale_words state() const { return enabled ? scale.state() : scale_words{}; }
    void restore(const scale_words& saved) {
        if (!enabled) return;
        check(!saved.empty(),
              "loss scale: The source state dict is empty, possibly because it was saved from a "
              "disabled instance of GradScaler. Begin with a new scale, or with enabled = false");
        scale.restore(saved);
        begin_again();
    }

private:
    enum class stage { ready, unscaled, stepped };
    struct record {
        stage at = stage::ready;
        bool finite = true;
    };

    record& ready(const auto& optimizer) {
        record& r = of_[&optimizer];
        check(r.at != stage::unscaled, "loss scale: unscale_() has already been called on this "
              "optimizer since the last update(). Gradients are divided once a window: call it "
              "after the last micro-batch only");
        check(r.at != stage::stepped, "loss scale: unscale_() is being called after step(). Call "
              "unscale, then step, then update()");
        return r;
    }
    void begin_again() {
        of_.clear();
        found_.clear();
    }

    std::map<const void*, record> of_; // the optimizers of this iteration
    std::string found_;                // the first that was not finite
};

} // namespace mpt
