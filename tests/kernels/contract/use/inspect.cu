// SPDX-License-Identifier: MIT
#include "theirs/kernels/inspect.cuh"
#include "user.cuh"

int main() {
    std::vector<float> numbers(5000, 2);
    numbers[4321] = NAN;
    user::buffer<float> g(numbers);
    user::buffer<char> scratch(theirs::kernels::inspect_bytes(g.n));
    user::buffer<theirs::kernels::inspect_result> result(1);
    theirs::kernels::inspect(result.p, g.p, g.n, scratch.p, user::stream());
    const auto found = result.host()[0];
    std::printf("%llu not finite, the first is %llu\n", found.bad, found.first_bad);
    return !(found.bad == 1 && found.first_bad == 4321);
}
