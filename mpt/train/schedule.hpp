// SPDX-License-Identifier: MIT
/// @file schedule.hpp
/// The learning rate: warm-up, then a cosine down to its minimum.     tier 5, needs: base/error.hpp
///
/// Idea     Small steps while AdamW's moments settle, then large ones, then ever smaller ones.
/// Formula  it < w: lr (it + 1) / (w + 1);   it > d: min_lr;   else
///          min_lr + (1 + cos(pi (it - w) / (d - w))) / 2 (lr - min_lr);   d = 0: lr after warm-up
/// Breaks   counting attempted steps: with steps skipped at the start (the loss scale comes down)
///          the first applied step would already miss a part of the warm-up
/// Source   Loshchilov and Hutter 2017, SGDR, arXiv:1608.03983; nanoGPT, train.py, get_lr
/// See      loss_scale.hpp (who skips), warmup.hpp (DeepSpeed's warm-up),
///          tests/train/schedule_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <cmath>

namespace mpt {

struct schedule {
    double lr = 6e-4;     // the highest
    double min_lr = 6e-5; // from step `decay` on
    long warmup = 0;      // w: applied steps with a rate below lr
    long decay = 0;       // d: applied steps until min_lr; 0: constant after the warm-up

    static schedule constant(double lr) { return {lr, lr, 0, 0}; }

    /// The rate of the step after `applied` ones; skipped steps do not count.
    double operator()(long applied) const {
        if (applied < warmup) return lr * double(applied + 1) / double(warmup + 1);
        if (decay == 0) return lr;
        if (applied > decay) return min_lr;
        if (decay <= warmup) return lr; // no room for the cosine: nanoGPT has 0/0 here
        const double pi = 3.14159265358979323846;
        const double ratio = double(applied - warmup) / double(decay - warmup);
        return min_lr + 0.5 * (1.0 + std::cos(pi * ratio)) * (lr - min_lr);
    }

    /// Throws one line for values that make no schedule.
    void validate() const {
        check(std::isfinite(lr) && lr > 0, "schedule: a learning rate of ", lr,
              "; give a number above 0, such as 6e-4");
        check(min_lr >= 0 && min_lr <= lr, "schedule: a smallest rate of ", min_lr,
              " under a rate of ", lr, "; give a number from 0 to the rate");
        check(warmup >= 0, "schedule: a warm-up of ", warmup, " steps; give 0 or more");
        check(decay == 0 || decay >= warmup, "schedule: the rate is down after ", decay,
              " steps, before the warm-up of ", warmup, " ends; shorten the warm-up");
    }
};

} // namespace mpt
