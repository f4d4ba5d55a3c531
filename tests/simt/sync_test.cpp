// SPDX-License-Identifier: MIT
// Barriers and masks that are used wrongly: found, and named by kernel, block, thread and line.
#include "mpt/kernels/launch.cuh"
#include "mpt/simt/device_buffer.hpp"
#include "tests/simt/refusal.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace mpt::kernels;
using refusal::lacks;

namespace {

const std::string here = "sync_test.cpp:";

constexpr int two_barriers = __LINE__ + 3;
__global__ void two_barriers_kernel() {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

constexpr int early_return = __LINE__ + 3;
__global__ void early_return_kernel(int n) {
    if (int(threadIdx.x) >= n) return;
    __syncthreads();
}

constexpr int one_more = __LINE__ + 3;
__global__ void one_more_kernel(int rounds) { // the first warp goes round once more
    for (int i = 0; i < rounds + (threadIdx.y < 4); ++i)
        __syncthreads();
}

constexpr int other_kind = __LINE__ + 2;
__global__ void other_kind_kernel() {
    if (threadIdx.x % 2) __syncthreads(); else __syncthreads_count(1);
}

constexpr int gone_lane = __LINE__ + 3;
__global__ void gone_lane_kernel(float* to, int n) {
    if (int(threadIdx.x) >= n) return;
    to[threadIdx.x] = __shfl_down_sync(0xFFFFFFFF, float(threadIdx.x), 1);
}

constexpr int not_named = __LINE__ + 2;
__global__ void not_named_kernel(unsigned* to) {
    to[threadIdx.x] = __ballot_sync(0x0000FFFF, 1);
}

constexpr int parted = __LINE__ + 3;
__global__ void parted_kernel(unsigned* to) { // the other half never comes
    if (threadIdx.x < 16)
        to[threadIdx.x] = __ballot_sync(0xFFFFFFFF, 1);
    else
        __syncthreads();
}

constexpr int masks = __LINE__ + 2;
__global__ void masks_kernel() { // lane 0 waits for 1, which waits for all
    __syncwarp(threadIdx.x == 0 ? 0x00000003 : 0xFFFFFFFF);
}

constexpr int half_a_tile = __LINE__ + 4;
__global__ void half_a_tile_kernel(float* c) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    if (threadIdx.x < 16) wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
__global__ void partial_tile_kernel(float* c) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
__global__ void tile_kernel(float* c, int offset, unsigned pitch) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::store_matrix_sync(c + (threadIdx.x == 5 ? offset : 0), sum, pitch, wmma::mem_row_major);
}

int alive = 0; // objects on the stacks of threads
struct counted {
    counted() { __atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED); }
    ~counted() { __atomic_fetch_add(&alive, -1, __ATOMIC_RELAXED); }
};
__global__ void throwing_kernel(int who) {
    counted mine;
    std::vector<int> more(100); // the heap, too, gets its memory back
    __syncthreads();
    if (int(threadIdx.x) == who) throw std::out_of_range("thread " + std::to_string(more.size()));
    __syncthreads();
}
__global__ void catching_kernel(int* to) { // an exception that stays inside of its thread
    try {
        if (threadIdx.x % 3 == 0) throw int(threadIdx.x);
        to[threadIdx.x] = -1;
    } catch (int i) {
        to[threadIdx.x] = i;
    }
    __syncthreads();
    const int next = to[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
    to[threadIdx.x] = next;
}

} // namespace

TEST_CASE("a barrier on two lines") {
    const std::string text = refusal::of([] { mpt::launch<two_barriers_kernel>({1, 64}); });
    CHECK(lacks(text, "two_barriers_kernel: Barrier error detected. Divergent thread(s) in block",
                "block (0,0,0), thread (32,0,0)", here, two_barriers + 2,
                "thread (0,0,0) and 31 more at __syncthreads()", here, two_barriers) == "");
    mpt::launch<two_barriers_kernel>({1, 32}); // where all take the same one it is no fault
}

TEST_CASE("a barrier that threads do not reach") {
    const std::string text = refusal::of([] { mpt::launch<early_return_kernel>({2, 64}, 50); });
    CHECK(lacks(text, "early_return_kernel: Barrier error detected. Divergent thread(s) in block",
                "14 exited threads", "block (", "thread (0,0,0) and 49 more at __syncthreads()",
                here, early_return, "thread (50,0,0) and 13 more exited") == "");
    mpt::launch<early_return_kernel>({2, 64}, 64);

    const std::string more = refusal::of([] { mpt::launch<one_more_kernel>({1, dim3(8, 8)}, 3); });
    CHECK(lacks(more, "Divergent thread(s) in block, 32 exited threads",
                "thread (0,0,0) and 31 more at __syncthreads()", here, one_more,
                "thread (0,4,0) and 31 more exited") == "");
    mpt::launch<one_more_kernel>({1, 32}, 3);
}

TEST_CASE("barriers of two kinds") {
    const std::string text = refusal::of([] { mpt::launch<other_kind_kernel>({1, 64}); });
    CHECK(lacks(text, "Divergent thread(s) in block", "thread (1,0,0)", here, other_kind,
                "at __syncthreads_count()", "at __syncthreads()") == "");
}

TEST_CASE("a mask that names a lane which has exited, or not the caller") {
    device_buffer<float> to(64);
    const std::string text =
        refusal::of([&] { mpt::launch<gone_lane_kernel>({1, 32}, to.data(), 20); });
    CHECK(lacks(text, "gone_lane_kernel: Barrier error detected. Divergent thread(s) in warp",
                "lane 20 is named in the mask and has exited", "block (0,0,0)",
                "__shfl_down_sync(0xffffffff)", here, gone_lane) == "");
    mpt::launch<gone_lane_kernel>({1, 64}, to.data(), 32); // a whole warp may leave

    device_buffer<unsigned> votes(64);
    const std::string out =
        refusal::of([&] { mpt::launch<not_named_kernel>({1, 32}, votes.data()); });
    CHECK(lacks(out, "not_named_kernel: Barrier error detected. Invalid arguments", "lane 16",
                "thread (16,0,0)", here, not_named) == "");
    mpt::launch<not_named_kernel>({1, 16}, votes.data());
}

TEST_CASE("lanes that wait for each other in different places") {
    device_buffer<unsigned> to(64);
    const std::string text = refusal::of([&] { mpt::launch<parted_kernel>({1, 32}, to.data()); });
    CHECK(lacks(text, "Divergent thread(s) in block",
                "thread (0,0,0) and 15 more at __ballot_sync(0xffffffff)", here, parted,
                "thread (16,0,0) and 15 more at __syncthreads()") == "");
    mpt::launch<parted_kernel>({1, 16}, to.data());

    const std::string unlike = refusal::of([] { mpt::launch<masks_kernel>({1, 32}); });
    CHECK(lacks(unlike, "Divergent thread(s) in warp", "thread (0,0,0) at __syncwarp(0x3)", here,
                masks, "thread (1,0,0) and 30 more at __syncwarp(0xffffffff)") == "");
}

TEST_CASE("a tile without all 32 lanes, or of several matrices, or out of line") {
    device_buffer<float> c(512);
    const std::string half =
        refusal::of([&] { mpt::launch<half_a_tile_kernel>({1, 32}, c.data()); });
    CHECK(lacks(half, "Divergent thread(s) in warp", "lane 16 is named in the mask and has exited",
                "store_matrix_sync", here, half_a_tile) == "");
    const std::string few =
        refusal::of([&] { mpt::launch<partial_tile_kernel>({1, 24}, c.data()); });
    CHECK(lacks(few, "partial_tile_kernel", "Divergent thread(s) in warp", "all 32 lanes",
                "ffffff") == "");
    mpt::launch<tile_kernel>({1, 32}, c.data(), 0, 16u);
    const std::string other =
        refusal::of([&] { mpt::launch<tile_kernel>({1, 32}, c.data(), 8, 16u); });
    CHECK(lacks(other, "tile_kernel", "lane 5 names another matrix") == "");
    const std::string odd =
        refusal::of([&] { mpt::launch<tile_kernel>({1, 32}, c.data(), 1, 16u); });
    CHECK(lacks(odd, "tile_kernel", "thread (5,0,0)", here, "divide by 32 bytes") == "");
    const std::string pitch =
        refusal::of([&] { mpt::launch<tile_kernel>({1, 32}, c.data(), 0, 18u); });
    CHECK(lacks(pitch, "pitch 18") == "");
}

TEST_CASE("an exception in a thread ends the launch; stacks are unwound, all is as before") {
    for (const int threads : {1, 2}) {
        settings().threads = threads;
        for (const int who : {0, 31, 32, 63}) {
            std::string text;
            try {
                mpt::launch<throwing_kernel>({3, 64}, who);
            } catch (const std::out_of_range& e) { // as it was thrown
                text = e.what();
            }
            CHECK(text == "thread 100");
            CHECK(alive == 0);
            mpt::launch<throwing_kernel>({3, 64}, -1);
            CHECK(alive == 0);
        }
    }
    device_buffer<int> to(96);
    mpt::launch<catching_kernel>({1, 96}, to.data());
    const auto found = to.read();
    for (int i = 0; i < 96; ++i) {
        const int next = (i + 1) % 96;
        CHECK(found[std::size_t(i)] == (next % 3 == 0 ? next : -1));
    }
}

__global__ void two_files_kernel() { // the same line of two files
    if (threadIdx.x % 64 < 32)
#line 1000 "one.cuh"
        __syncthreads();
    else
#line 1000 "other.cuh"
        __syncthreads();
}
#line 1000 "sync_test.cpp"

TEST_CASE("a barrier on the same line of two files") {
    const std::string text = refusal::of([] { mpt::launch<two_files_kernel>({1, 64}); });
    CHECK(lacks(text, "Divergent thread(s) in block", "at __syncthreads() one.cuh:1000",
                "at __syncthreads() other.cuh:1000") == "");
    mpt::launch<two_files_kernel>({1, 32});
}
