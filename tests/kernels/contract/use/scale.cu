// SPDX-License-Identifier: MIT
#include "theirs/kernels/scale.cuh"
#include "user.cuh"

int main() { // a step whose gradients are not finite halves the scale
    using namespace theirs::kernels;
    step_state start = {};
    start.scale = 1024;
    user::buffer<step_state> state({start});
    user::buffer<inspect_result> found({inspect_result{0, 3, 17}});
    user::buffer<double> losses(std::vector<double>{2.5});
    step_rules rules;
    begin_step(state.p, rules, user::stream());
    add_found(state.p, found.p, 100, user::stream());
    decide(state.p, rules, user::stream());
    end_step(state.p, rules, losses.p, 1, user::stream());
    const step_state s = state.host()[0];
    std::printf("S %g, %llu not finite, the first is %llu, applied %d, loss %g\n", s.scale,
                s.row.bad, s.row.first_bad, s.row.applied, s.row.loss);
    return !(s.scale == 512 && s.row.bad == 3 && s.row.first_bad == 117 && s.row.applied == 0 &&
             s.row.loss == 2.5);
}
