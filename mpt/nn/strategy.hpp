// SPDX-License-Identifier: MIT
/// @file strategy.hpp
/// What a model and a training step ask of a data-parallel strategy.       tier 4, needs:
/// base/device_span.hpp nn/params.hpp
///
/// Idea     Forward and backward name the unit they are about to use, have used, or have made the
///          gradient of; the step says when the window is done and when the weights are new. One
///          rank, DDP and ZeRO-1, 2, 3 differ only in what they do at these calls:
///
///              acquire, release   zero3 gathers the unit, and frees it after use
///              ready              ddp all-reduces it, in buckets; zero1 to zero3 reduce-scatter it
///              finish             wait for what ready() began
///              publish            zero1 and zero2 gather the new weights
/// Costs    one virtual call a unit, none an element
/// Breaks   acquire without release (zero3 would hold the whole model), ready before the unit's
///          last gradient (the tied embedding's comes last of all)
/// See      dist/one_rank.hpp, gpt.hpp and mlp.hpp (who call it), tests/dist/one_rank_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span
#include "mpt/nn/params.hpp"        // pieces

#include <span>

namespace mpt {

/// Gradients of a window on their way: backward writes a micro-batch's, `ready` adds them up.
template <class T>
struct gradients {
    device_span<T> micro;   // the micro-batch at hand, in the weights' format, flat
    device_span<float> sum; // fp32 over the window; empty where the window is one micro-batch
};

/// The gradients of a window that this rank owns, still scaled: in T, or in fp32 where several
/// micro-batches were summed. Exactly one of the two lists is filled.
template <class T>
struct owned_gradients {
    pieces<const T> micro;
    pieces<const float> sum;

    /// f(pieces<const T>) or f(pieces<const float>)
    template <class F>
    auto visit(F f) const {
        return sum.empty() ? f(micro) : f(sum);
    }
};

template <class T>
class strategy {
public:
    virtual ~strategy() = default;

    /// The unit's weights, whole, until release. `weights`: what this rank keeps.
    virtual device_span<const T> acquire(device_span<const T> weights, int unit) = 0;
    virtual void release(int unit) = 0;

    /// Where backward writes the unit's gradient of this micro-batch.
    virtual device_span<T> collect(gradients<T>& grads, int unit) = 0;
    /// The unit's gradient of micro-batch `micro` is complete.
    virtual void ready(gradients<T>& grads, int unit, int micro) = 0;

    /// Wait for everything ready() began; the part of the gradients that this rank owns.
    virtual owned_gradients<T> finish(gradients<T>& grads) = 0;
    /// The part of the weights that this rank updates.
    virtual pieces<T> mine(device_span<T> weights) = 0;
    /// The owners have updated their parts: make `weights` what acquire() expects.
    virtual void publish(device_span<T> weights) = 0;

    /// Numbers summed over what this rank owns become those over all. Every rank calls it.
    virtual void add_shards(std::span<double> sums) = 0;
};

} // namespace mpt
