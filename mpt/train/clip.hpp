// SPDX-License-Identifier: MIT
/// @file clip.hpp
/// No step longer than max_norm: one factor for all gradients.        tier 5, needs: base/error.hpp
///
/// Idea     One outlier batch must not throw the weights far away: where the gradient of the whole
///          model is longer than max_norm, it is shortened to that length, its direction kept.
/// Formula  factor = min(1, max_norm / (norm + 1e-6)),  norm = |unscaled gradient of all ranks|
///          in the step: clip_factor(norm(health) / S, max_norm) / S, applied by the optimizer
/// Breaks   the norm of gradients that are still scaled: g = [.3,.4] at S = 65536 becomes
///          [9.2e-6, 1.2e-5] and training all but stops; elements of two ranks, counted twice
/// Source   Pascanu et al. 2013, arXiv:1211.5063; 1e-6 as torch.nn.utils.clip_grad_norm_
/// See      inspect.hpp (norm), adamw.hpp (applies it), tests/train/clip_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <algorithm>
#include <cmath>

namespace mpt {

/// max_norm 0: off. Throws where the norm is not finite (such a step is to be skipped, not clipped)
/// or max_norm is negative.
inline double clip_factor(double norm, double max_norm) {
    check(std::isfinite(norm) && norm >= 0, "clip: a gradient norm of ", norm,
          "; skip the step where loss_scale.update says false, before clipping");
    check(max_norm >= 0, "clip: a largest norm of ", max_norm, "; give 0 (off) or more, such as 1");
    return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
}

} // namespace mpt
