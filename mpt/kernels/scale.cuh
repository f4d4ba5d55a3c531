// SPDX-License-Identifier: MIT
/// @file scale.cuh
/// What a training step decides, decided on the device.                    tier 3, needs:
/// kernels/adamw.cuh kernels/dropout.cuh kernels/inspect.cuh
///
/// Idea     Was a gradient infinite? How long were they, so how much are they shortened, what is
///          the rate? A host that asks waits for the device each step. Here one thread answers
///          where the numbers lie: before backward it writes the seed, behind inspect the numbers
///          of AdamW and found_inf, which AdamW reads, and at the end it moves the loss scale and
///          the counts, and leaves a row for the host, who may read it a step late.
/// Formula  seed = S / tokens;  factor = min(1, max_norm / (norm + 1e-6)) / S;  the rates of
///          train/schedule.hpp and warmup.hpp, Adam's corrections of adam_moments.hpp and the rule
///          of numeric/loss_scale_rule.hpp, in fp64 and rounded once, as there
/// Costs    launches of one thread: three a step and one for each piece of the gradients; 168 bytes
/// Breaks   an optimizer that does not look at found_inf: a skipped step would write NaN
/// See      train/adamw.hpp and loss_scale.hpp (the host), chapters/18_fused_step.cpp,
///          tests/kernels/scale_test.cpp
#pragma once
#include "mpt/kernels/adamw.cuh"   // adamw_numbers
#include "mpt/kernels/dropout.cuh" // dropout_place
#include "mpt/kernels/inspect.cuh" // inspect_result

#include <cmath>
#include <cstddef>

namespace mpt::kernels {

// ---- rules: the same for the whole run, passed by value ----------------------------------------

struct rate_rule { // of the step after so many applied ones
    enum { constant, cosine, linear, logarithmic } shape = constant;
    double rate = 0;      // the highest
    double least = 0;     // cosine: at the end; linear, logarithmic: at first
    long long warmup = 0; // applied steps
    long long decay = 0;  // cosine: until `least`; 0: constant after the warm-up
};

__device__ inline double rate_after(const rate_rule& r, long long applied) {
    if (r.shape == rate_rule::constant) return r.rate;
    if (r.shape != rate_rule::cosine) {
        if (applied >= r.warmup) return r.rate;
        const double share = r.shape == rate_rule::linear
                                 ? double(applied) / double(r.warmup)
                                 : log(double(applied + 1)) / log(double(r.warmup));
        return r.least + share * (r.rate - r.least);
    }
    if (applied < r.warmup) return r.rate * double(applied + 1) / double(r.warmup + 1);
    if (r.decay == 0) return r.rate;
    if (applied > r.decay) return r.least;
    if (r.decay <= r.warmup) return r.rate;
    const double pi = 3.14159265358979323846;
    const double ratio = double(applied - r.warmup) / double(r.decay - r.warmup);
    return r.least + 0.5 * (1.0 + cos(pi * ratio)) * (r.rate - r.least);
}

struct scale_rule { // train/loss_scale.hpp says what they are
    bool dynamic = true;
    double growth = 2, backoff = 0.5;
    int interval = 2000;
    float minimum = 1;
};

struct step_rules {
    rate_rule rate;
    scale_rule scale;
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
    double max_norm = 0; // of the gradients; 0: any
    double tokens = 1;   // targets of a window
};

// ---- device memory -----------------------------------------------------------------------------

/// What the host is told of a step: 64 bytes.
struct step_row {
    double loss;                       // mean over the window's tokens
    double norm;                       // of the gradients, unscaled, before clipping
    double rate;                       // of learning
    unsigned long long bad, first_bad; // gradients not finite, and the first of them
    float scale;                       // S that this step was made with
    int applied;                       // 0: skipped
    unsigned bad_blocks;               // of 8-bit moments that could not be rounded: an error
    int bad_elsewhere;                 // 1: no gradient of this rank is among the bad ones
    int stop;                          // ranks whose host wants no more steps
};

struct step_state {
    float scale, inverse;         // S, 1/S
    float found_inf;              // 1: a gradient of this step is not finite; AdamW reads it
    int growth_tracker;           // finite steps since S last changed
    int skipped, stuck;           // steps lost to overflow; of them at the smallest scale
    long long attempted, applied; // steps before this one
    double squares;               // of this step's gradients
    adamw_numbers numbers;        // AdamW reads them
    float seed;                   // backward's
    dropout_place place;          // of this step's masks
    step_row row;
};

__device__ inline void move_scale(step_state& s, const scale_rule& r) {
    const bool finite = s.found_inf == 0;
    s.skipped += finite ? 0 : 1;
    if (!r.dynamic) return;
    if (!finite) {
        s.growth_tracker = 0;
        if (r.minimum > 0 && s.scale <= r.minimum) {
            ++s.stuck; // the host throws when it hears of it
        } else {
            const float smaller = float(double(s.scale) * r.backoff);
            s.scale = smaller > r.minimum ? smaller : r.minimum;
        }
    } else if (s.growth_tracker < r.interval - 1) {
        ++s.growth_tracker;
    } else {
        s.growth_tracker = 0;
        const double larger = double(s.scale) * r.growth;
        if (larger < 0x1.ffffffp127) s.scale = float(larger); // infinity from there on
    }
    s.inverse = float(1.0 / double(s.scale)); // fp64: fp32's division may be an approximation
}

// ---- kernels of one thread ---------------------------------------------------------------------
// S is step_state: as templates they may stand in a header.

template <class S>
__global__ void begin_step_kernel(S* s, step_rules rules) {
    s->found_inf = 0;
    s->squares = 0;
    s->seed = float(double(s->scale) / rules.tokens);
    s->place = dropout_place{s->attempted, 0};
    s->row.bad = 0;
    s->row.bad_blocks = 0;
    s->row.bad_elsewhere = 0;
    s->row.stop = 0;
}

// A piece of the gradients has been looked at; it begins at element `begin` of all.
template <class S>
__global__ void add_found_kernel(S* s, const inspect_result* found, unsigned long long begin) {
    s->squares += found->squares;
    if (found->bad == 0) return;
    if (s->row.bad == 0) s->row.first_bad = begin + found->first_bad;
    s->row.bad += found->bad;
    s->found_inf = 1;
}

// What this rank has found, to be added up over ranks: squares, and how many are not finite; and
// whether its host wants to stop, which ranks do at the same step or not at all.
template <class S>
__global__ void give_found_kernel(const S* s, double* sums, bool stop) {
    sums[0] = s->squares;
    sums[1] = double(s->row.bad);
    sums[2] = stop ? 1 : 0;
}
// ... and what all have found. The first that is not finite may be another rank's.
template <class S>
__global__ void take_found_kernel(S* s, const double* sums) {
    s->squares = sums[0];
    s->row.bad_elsewhere = sums[1] > 0 && s->row.bad == 0;
    s->row.bad = static_cast<unsigned long long>(sums[1]);
    s->found_inf = sums[1] > 0 ? 1.0f : 0.0f;
    s->row.stop = int(sums[2]);
}

template <class S>
__global__ void decide_kernel(S* s, step_rules rules) {
    const double scale = s->scale, t = double(s->applied + 1);
    const double norm = sqrt(s->squares) / scale;
    const double clip =
        rules.max_norm == 0 ? 1.0 : fmin(1.0, rules.max_norm / (norm + 1e-6)); // NaN: skipped
    const double rate = rate_after(rules.rate, s->applied);
    adamw_numbers& n = s->numbers;
    n.factor = float(clip / scale);
    n.keep1 = float(1 - rules.beta1);
    n.keep2 = float(1 - rules.beta2);
    n.rate = float(rate / (1 - pow(rules.beta1, t)));
    n.correction = float(1 / sqrt(1 - pow(rules.beta2, t)));
    n.eps = float(rules.eps);
    n.decay = float(rate * rules.weight_decay);
    n.t = static_cast<unsigned>(s->applied + 1);
    s->row.norm = norm;
    s->row.rate = rate;
    s->row.scale = s->scale;
    s->row.applied = s->found_inf == 0;
}

template <class S>
__global__ void end_step_kernel(S* s, step_rules rules, const double* losses, int micro_batches) {
    double loss = 0;
    for (int i = 0; i < micro_batches; ++i) loss += losses[i];
    s->row.loss = loss / rules.tokens;
    ++s->attempted;
    s->applied += s->found_inf == 0 ? 1 : 0;
    move_scale(*s, rules.scale);
}

// ---- launchers ---------------------------------------------------------------------------------

/// Before the first backward of a window.
inline void begin_step(step_state* s, const step_rules& rules, cudaStream_t stream) {
    launch<begin_step_kernel<step_state>>({1, 1, 0, stream}, s, rules);
}
/// Behind inspect() of a piece that begins at element `begin` of all gradients.
inline void add_found(step_state* s, const inspect_result* found, size_t begin,
                      cudaStream_t stream) {
    launch<add_found_kernel<step_state>>({1, 1, 0, stream}, s, found,
                                         static_cast<unsigned long long>(begin));
}
/// With ranks, behind inspect(): three sums of this rank, and, when they are those of all, back.
constexpr int found_sums = 3;
inline void give_found(const step_state* s, double* sums, bool stop, cudaStream_t stream) {
    launch<give_found_kernel<step_state>>({1, 1, 0, stream}, s, sums, stop);
}
inline void take_found(step_state* s, const double* sums, cudaStream_t stream) {
    launch<take_found_kernel<step_state>>({1, 1, 0, stream}, s, sums);
}
/// When all pieces have been looked at: the optimizer's numbers.
inline void decide(step_state* s, const step_rules& rules, cudaStream_t stream) {
    launch<decide_kernel<step_state>>({1, 1, 0, stream}, s, rules);
}
/// Behind the optimizer: counts, the row, the loss scale. losses: of each micro-batch, the sum.
inline void end_step(step_state* s, const step_rules& rules, const double* losses,
                     int micro_batches, cudaStream_t stream) {
    launch<end_step_kernel<step_state>>({1, 1, 0, stream}, s, rules, losses, micro_batches);
}

} // namespace mpt::kernels
