// SPDX-License-Identifier: MIT
#include "theirs/kernels/sort.cuh"
#include "user.cuh"

int main() {
    using namespace theirs::kernels;
    user::buffer<int> keys({300, 7, 300, -1, 0}), positions(5);
    user::buffer<char> scratch(sort_bytes(keys.n));
    const sorted s = sort_positions(keys.p, keys.n, 301, scratch.p, user::stream());
    user::ok(cudaMemcpyAsync(positions.p, s.positions, 5 * sizeof(int), cudaMemcpyDeviceToDevice,
                             user::stream()));
    return user::same(positions, {4, 1, 0, 2, 3}); // -1 is no key: last
}
