// SPDX-License-Identifier: MIT
#include "mpt/kernels/launch.cuh"
#include "mpt/train/token_feed.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace mpt::kernels {

// sums[step] = sum of k-th token times (k + 1), of inputs and targets, by one thread, slowly.
template <class Int>
__global__ void weigh_kernel(Int* sums, const int* inputs, const int* targets, int n, int step) {
    Int sum = 0;
    for (int k = 0; k < n; ++k) sum += Int(k + 1) * (inputs[k] + 1000 * targets[k]);
    sums[step] = sum;
}

void weigh(long long* sums, const int* inputs, const int* targets, int n, int step,
           cudaStream_t stream) {
    launch<weigh_kernel<long long>>({1, 1, 0, stream}, sums, inputs, targets, n, step);
}

} // namespace mpt::kernels

using namespace mpt;

static int token(long step, int k, bool target) { return int(step * 31 + k * 7 + target) % 251; }

TEST_CASE("each step finds its own window, and nobody waits for the device") {
    const device_queue q;
    memory mem(0, device_memory(), pinned_memory());
    constexpr int n = 513, steps = 11;
    token_feed feed(q, mem, n);
    CHECK(mem.books.now(kind::data) == token_feed::bytes(n));
    buffer<long long> sums(mem, kind::temp, steps, "sums");
    for (long step = 0; step < steps; ++step) {
        const host_account before = q.account;
        for (int k = 0; k < n; ++k) feed.inputs(step)[std::size_t(k)] = token(step, k, false);
        for (int k = 0; k < n; ++k) feed.targets(step)[std::size_t(k)] = token(step, k, true);
        feed.send(step);
        kernels::weigh(sums.span().data(), feed.device_inputs(step).data(),
                       feed.device_targets(step).data(), n, int(step), q.work);
        feed.over(step);
        CHECK(q.account.copies_in == before.copies_in + 1);
        CHECK(q.account.bytes_in == before.bytes_in + 2 * n * sizeof(int));
        CHECK(q.account.waits_for_marks == before.waits_for_marks + (step < 2 ? 0 : 1));
        CHECK(q.account.waits == 0);
    }
    std::vector<long long> found(steps);
    q.copy_out(found.data(), sums.span().data(), steps * sizeof(long long), q.work);
    q.wait();
    for (long step = 0; step < steps; ++step) {
        long long expected = 0;
        for (int k = 0; k < n; ++k)
            expected += (k + 1) * (token(step, k, false) + 1000LL * token(step, k, true));
        CHECK(found[std::size_t(step)] == expected);
    }
}
