// SPDX-License-Identifier: MIT
#include "theirs/kernels/device.cuh"
#include "user.cuh"

#include "theirs/kernels/launch.cuh"

__global__ void more(float* x) { *x += 1; }

int main() {
    user::buffer<float> x(std::vector<float>{5});
    std::printf("%s\n", theirs::kernels::device_name().c_str());
    theirs::kernels::recorded_work work; // the second run is recorded, the third replays it
    for (int i = 0; i < 3; ++i)
        work.run(user::stream(), [&] { more<<<1, 1, 0, user::stream()>>>(x.p); });
    return user::same(x, {8}) || !work.recorded();
}
