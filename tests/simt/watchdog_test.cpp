// SPDX-License-Identifier: MIT
// Kernels that never end: the watchdog names who runs and who waits where.
#include "mpt/kernels/launch.cuh"
#include "mpt/simt/device_buffer.hpp"
#include "tests/simt/refusal.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace mpt::kernels;
using refusal::lacks;

namespace {

constexpr int endless = __LINE__ + 4;
__global__ void endless_kernel(const int* flag) { // thread 3 never meets its barrier
    if (threadIdx.x == 3)
        while (*const_cast<const volatile int*>(flag) == 0) {}
    __syncthreads();
}
constexpr int in_circles = __LINE__ + 3;
__global__ void in_circles_kernel(const int* flag) { // all wait, again and again
    while (*flag == 0)
        __syncwarp();
}
__global__ void after_wait_kernel(const int* flag) {
    __syncthreads();
    if (threadIdx.x == 40)
        while (*const_cast<const volatile int*>(flag) == 0) {}
}
__global__ void add_kernel(int* x) {
    __syncthreads();
    atomicAdd(x, 1);
}

} // namespace

TEST_CASE("a kernel that never meets its barrier") {
    settings().watch_seconds = 0.25;
    settings().threads = 1;
    device_buffer<int> flag(std::vector<int>{0}), x(std::vector<int>{0});
    const int* f = flag.data();
    for (int round = 1; round <= 2; ++round) {
        const std::string text = refusal::of([&] { mpt::launch<endless_kernel>({2, 64}, f); });
        CHECK(lacks(text, "endless_kernel: block (0,0,0) runs for more than 0.25 seconds",
                    "thread (0,0,0) and 2 more at __syncthreads()", "watchdog_test.cpp:", endless,
                    "thread (3,0,0) running", "thread (4,0,0) and 59 more not begun") == "");
        const std::string again = refusal::of([&] { mpt::launch<in_circles_kernel>({1, 32}, f); });
        CHECK(lacks(again, "in_circles_kernel: block (0,0,0) runs for more than 0.25 seconds",
                    "__syncwarp", "watchdog_test.cpp:", in_circles) == "");
        const std::string later = refusal::of([&] { mpt::launch<after_wait_kernel>({1, 64}, f); });
        CHECK(lacks(later, "thread (40,0,0) running, last seen at __syncthreads()") == "");
        mpt::launch<add_kernel>({3, 1024}, x.data()); // the emulator is as before
        CHECK(x.read()[0] == round * 3 * 1024);
    }
    settings().threads = 2; // one of two blocks
    const std::string text = refusal::of([&] { mpt::launch<endless_kernel>({2, 64}, f); });
    CHECK(lacks(text, "endless_kernel: block (", "thread (3,0,0) running") == "");
    flag.write({1});
    mpt::launch<endless_kernel>({2, 64}, f);
    settings().watch_seconds = 60;
}
