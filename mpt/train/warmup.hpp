// SPDX-License-Identifier: MIT
/// @file warmup.hpp
/// The learning rate: up from a minimum, then constant.               tier 5, needs: base/error.hpp
///
/// Idea     A large batch allows a large rate, but not at once: the first gradients are steep, and
///          Adam's v has seen few of them. So the rate begins small and rises over w steps, by
///          equal parts, or as the logarithm of the step: most of the way in the first few.
/// Formula  i = applied steps;  i >= w: max;  else min + share (max - min),
///          share = ln(i + 1) / ln(w), or linear i / w
/// Breaks   min = 0, the default: the first step has rate 0 and moves nothing.  w < 2: ln(1) is 0.
///          Nothing comes down after the warm-up; schedule.hpp has the cosine
/// Source   DeepSpeed, deepspeed/runtime/lr_schedules.py, WarmupLR; Goyal et al. 2017,
///          arXiv:1706.02677, section 2.2 (gradual warm-up)
/// See      schedule.hpp, tests/train/warmup_test.cpp, chapters/08_optimizers.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <cmath>

namespace mpt {

struct warmup_lr {
    enum class rise { logarithmic, linear };

    double min_lr = 0;             // warmup_min_lr: before the first step
    double max_lr = 1e-3;          // warmup_max_lr: from step w on
    long steps = 1000;             // w, warmup_num_steps: applied steps
    rise type = rise::logarithmic; // warmup_type

    /// The rate of the step after `applied` ones; skipped steps do not count.
    double operator()(long applied) const {
        if (applied >= steps) return max_lr;
        const double share = type == rise::linear
                                 ? double(applied) / double(steps)
                                 : std::log(double(applied + 1)) / std::log(double(steps));
        return min_lr + share * (max_lr - min_lr);
    }

    /// Throws one line for values that make no schedule.
    void validate() const {
        check(std::isfinite(max_lr) && max_lr > 0, "warmup: a largest rate of ", max_lr,
              "; give a number above 0, such as 1e-3");
        check(min_lr >= 0 && min_lr <= max_lr, "warmup: from a rate of ", min_lr, " up to ", max_lr,
              "; give a smallest rate from 0 to the largest");
        check(steps >= 2, "warmup: ", steps, " steps; give 2 or more, ln(1) = 0 would divide");
    }
};

} // namespace mpt
