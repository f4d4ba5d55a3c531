// SPDX-License-Identifier: MIT
/// @file deepspeed_estimate.hpp
/// What DeepSpeed's own estimators say, part by part.                   tier 5, needs: std only
///
/// Idea     The same states counted by others: their optimizer copies 16-bit gradients to fp32
///          before the step, so 4 bytes more a parameter; and their host memory has room to spare.
/// Formula  P parameters, G ranks in all, g a machine, n machines, L those of the largest layer
///          ZeRO-2  GPU 2 P + 18 P / G;  machine 4 P g 1.5
///          ... optimizer offloaded: GPU 2 P;  machine P max(4 G, 16) 1.5
///          ZeRO-3  GPU 4 L + 18 P / G;  machine 4 L g 1.5
///          ... optimizer offloaded: GPU 4 L + 2 P / G;  machine 16 P / n 1.5
///          ... weights as well: GPU 4 L;  machine 18 P / n 1.5
/// Breaks   their documentation says 4 P + 16 P / G for ZeRO-2, as the code did before gradients
///          were sharded there; their "GB" are 2^30 bytes
/// Source   DeepSpeed, estimate_zero2_model_states_mem_needs in runtime/zero/stage_1_and_2.py, and
///          estimate_zero3_... in runtime/zero/stage3.py, with zero_init
/// See      estimate.hpp, tests/train/estimate_test.cpp
#pragma once
#include <algorithm>

namespace mpt {

struct deepspeed_need {
    double weights, grads, grads32, states, layer; // bytes a GPU by what they are for
    double machine;                                // bytes of host memory a machine
    double gpu() const { return weights + grads + grads32 + states + layer; }
};

/// Ranks are gpus * machines. `offload`: of the optimizer's states and gradients to the host.
inline deepspeed_need deepspeed_zero2(double P, int gpus, int machines, bool offload) {
    const double G = double(gpus) * machines;
    if (offload) return {2 * P, 0, 0, 0, 0, P * std::max(4 * G, 16.0) * 1.5};
    return {2 * P, 2 * P / G, 4 * P / G, 12 * P / G, 0, 4 * P * gpus * 1.5};
}

/// L: parameters of the largest layer; its weights and gradients are whole for a while.
/// `offload_weights` only together with `offload`.
inline deepspeed_need deepspeed_zero3(double P, double L, int gpus, int machines, bool offload,
                                      bool offload_weights) {
    const double G = double(gpus) * machines, layer = 4 * L;
    if (offload_weights) return {0, 0, 0, 0, layer, 18 * P / machines * 1.5};
    if (offload) return {2 * P / G, 0, 0, 0, layer, 16 * P / machines * 1.5};
    return {2 * P / G, 0, 4 * P / G, 12 * P / G, layer, 4 * L * gpus * 1.5};
}

} // namespace mpt
