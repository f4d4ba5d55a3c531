// SPDX-License-Identifier: MIT
// One planted fault of each kind, and the same kernel repaired: faults KIND and KIND.repaired
// print what the checks say of one launch. The tests compare that with the lines marked here.
#include "mpt/kernels/launch.cuh"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace faults {

using namespace mpt::simt;

// ---- memcheck ----

template <bool Repaired>
__global__ void past_the_end(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (Repaired ? i < n : i <= n) y[i] = x[i % n]; // LINE past_the_end
}

template <bool Repaired>
__global__ void read_before(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int left = Repaired && i == 0 ? 0 : i - 1;
    y[i] = x[left] + // LINE read_before
           x[i];
}

template <bool Repaired>
__global__ void misaligned(float4* y, const float* x) {
    const float* from = x + (Repaired ? 4 : 1) * threadIdx.x;
    y[threadIdx.x] = *reinterpret_cast<const float4*>(from); // LINE misaligned
}

// Structures that a call takes from memory and leaves there, with nothing between.
struct quad {
    float x[4];
};
template <class Q>
__device__ Q turned(Q q, int times) {
    for (int k = 0; k < times; ++k) q = {q.x[1], q.x[2], q.x[3], q.x[0]};
    return q;
}
template <bool Repaired>
__global__ void structure_left(quad* y, const quad* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (Repaired ? i < n : i <= n) y[i] = turned(x[i % n], i); // LINE structure_left
}
template <bool Repaired>
__global__ void structure_taken(quad* y, const quad* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (Repaired ? i < n : i <= n) y[i % n] = turned(x[i], i); // LINE structure_taken
}

struct pointers {
    float* y;
    const float* x;
};
__global__ void of_pointers(pointers p) {
    p.y[threadIdx.x] = p.x[threadIdx.x]; // LINE after_free LINE host LINE null
}

template <bool Repaired>
__global__ void shared_end(float* y) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t + (Repaired ? 0 : 1)] = float(t); // LINE shared_end
    __syncthreads();
    y[t] = s[t ? t : 1 - Repaired];
}

// What lies behind an array may be another one. If that is another kernel's, it is known.
template <bool Repaired>
__global__ void other_kernels_array(float* y) {
    __shared__ float s[64];
    float* const first = s;
    for (int i = threadIdx.x; i < (Repaired ? 64 : 4096); i += blockDim.x)
        first[i] = 0; // LINE other_kernels_array
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

template <bool Repaired>
__global__ void dynamic_end(float* y) {
    float* s = mpt::dynamic_shared<float>();
    const int t = threadIdx.x;
    s[t] = float(t); // LINE dynamic_end
    __syncthreads();
    y[t] = s[63 - t];
}

// ---- initcheck ----

template <bool Repaired>
__global__ void not_written(float* y, const float* x, float* scratch) {
    const int t = threadIdx.x;
    if (Repaired || t != 5) scratch[t] = x[t];
    y[t] = scratch[t]; // LINE not_written
}

template <bool Repaired>
__global__ void shared_not_written(float* y, const float* x) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    if (Repaired || t < 63) s[t] = x[t];
    __syncthreads();
    y[t] = s[63 - t]; // LINE shared_not_written
}

// ---- racecheck ----

template <bool Repaired>
__global__ void no_barrier(float* y, const float* x) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = x[t]; // LINE no_barrier.other
    if (Repaired) __syncthreads();
    y[t] = s[63 - t]; // LINE no_barrier
}

// Every thread writes the same value: the answer is right, and it is a race.
template <bool Repaired>
__global__ void same_value(float* y, const float* x) {
    __shared__ float s;
    if (!Repaired || threadIdx.x == 0) s = x[0]; // LINE same_value
    __syncthreads();
    y[threadIdx.x] = s;
}

// A shuffle waits for the lanes, but orders no memory.
template <bool Repaired>
__global__ void shuffle_is_no_barrier(float* y, const float* x) {
    __shared__ float s[32];
    const int t = threadIdx.x;
    s[t] = x[t];
    const float other = __shfl_xor_sync(0xFFFFFFFF, x[t], 1);
    if (Repaired) __syncwarp();
    y[t] = s[t ^ 1] - other; // LINE shuffle_is_no_barrier
}

// __syncwarp orders the lanes of its mask, not the two warps.
template <bool Repaired>
__global__ void warp_barrier_only(float* y, const float* x) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    y[t] = s[Repaired ? t ^ 1 : t ^ 32]; // LINE warp_barrier_only
}

// The next round overwrites what a slower thread still reads: a barrier is missing at its end.
template <bool Repaired>
__global__ void next_round(float* y, const float* x) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    float sum = 0;
    for (int round = 0; round < 3; ++round) {
        s[t] = x[t] + float(round); // LINE next_round
        __syncthreads();
        sum += s[63 - t];
        if (Repaired) __syncthreads();
    }
    y[t] = sum;
}

// Two halves share a word, and are no race; two threads that pack into one half are.
template <bool Repaired>
__global__ void halves(float* y, const float* x) {
    __shared__ unsigned short s[64];
    const int t = threadIdx.x;
    s[Repaired ? t : t / 2] = static_cast<unsigned short>(x[t]); // LINE halves
    __syncthreads();
    y[t] = s[t / 2];
}

template <bool Repaired>
__global__ void between_blocks(float* y, const float* x) {
    const float v = x[threadIdx.x];
    if (Repaired)
        atomicAdd(y, v);
    else if (threadIdx.x == 0)
        *y += v; // LINE between_blocks
}

// "The last block is done" without the fence: its counter says so, its numbers need not be there.
template <bool Repaired>
__global__ void no_fence(float* y, const float* x, float* parts, unsigned* done) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = x[blockIdx.x];
        if (Repaired) __threadfence();
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x != 0) return;
    float sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b]; // LINE no_fence
    *y = sum;
}

// ---- synccheck ----

template <bool Repaired>
__global__ void half_the_block(float* y) {
    if (Repaired || threadIdx.x < 32) __syncthreads(); // LINE half_the_block
    y[threadIdx.x] = 1;
}

template <class Launch>
void run(const std::string& kind, Launch&& launch) {
    try {
        launch();
        std::printf("%s: clean\n", kind.c_str());
    } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
    }
}

template <bool Repaired>
bool run(const std::string& kind) {
    float *x, *y, *scratch, *gone;
    unsigned* done;
    cudaMalloc(&x, 64 * 4 * sizeof(float));
    cudaMalloc(&y, 64 * 4 * sizeof(float));
    cudaMalloc(&scratch, 64 * sizeof(float));
    cudaMalloc(&gone, 64 * sizeof(float));
    cudaMalloc(&done, sizeof *done);
    std::vector<float> host(64 * 4);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = float(i % 7) - 3;
    cudaMemcpy(x, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(y, 0, sizeof(float));
    cudaMemset(done, 0, sizeof *done);
    auto* const quads = reinterpret_cast<quad*>(y);
    const auto* const from = reinterpret_cast<const quad*>(x);
    const auto is = [&](const char* name) { return kind == name; };
    using mpt::launch;
    if (is("past_the_end"))
        run(kind, [&] { launch<past_the_end<Repaired>>({3, 96}, y, x, 256); });
    else if (is("read_before"))
        run(kind, [&] { launch<read_before<Repaired>>({2, 40}, y, x, 64); });
    else if (is("structure_left"))
        run(kind, [&] { launch<structure_left<Repaired>>({1, 96}, quads, from, 64); });
    else if (is("structure_taken"))
        run(kind, [&] { launch<structure_taken<Repaired>>({1, 96}, quads, from, 64); });
    else if (is("misaligned"))
        run(kind, [&] { launch<misaligned<Repaired>>({1, 32}, reinterpret_cast<float4*>(y), x); });
    else if (is("after_free")) {
        cudaMemcpy(gone, x, 64 * sizeof(float), cudaMemcpyDeviceToDevice);
        if (!Repaired) cudaFree(gone);
        run(kind, [&] { launch<of_pointers>({1, 64}, pointers{y, gone}); });
    } else if (is("host"))
        run(kind, [&] { launch<of_pointers>({1, 64}, pointers{y, Repaired ? x : host.data()}); });
    else if (is("null"))
        run(kind, [&] { launch<of_pointers>({1, 64}, pointers{y, Repaired ? x : nullptr}); });
    else if (is("other_kernels_array"))
        run(kind, [&] { launch<other_kernels_array<Repaired>>({1, 64}, y); });
    else if (is("halves"))
        run(kind, [&] { launch<halves<Repaired>>({1, 64}, y, x); });
    else if (is("shared_end"))
        run(kind, [&] { launch<shared_end<Repaired>>({1, 64}, y); });
    else if (is("dynamic_end"))
        run(kind, [&] {
            launch<dynamic_end<Repaired>>({1, 64, (Repaired ? 64 : 60) * sizeof(float)}, y);
        });
    else if (is("not_written"))
        run(kind, [&] { launch<not_written<Repaired>>({1, 64}, y, x, scratch); });
    else if (is("shared_not_written"))
        run(kind, [&] { launch<shared_not_written<Repaired>>({1, 64}, y, x); });
    else if (is("no_barrier"))
        run(kind, [&] { launch<no_barrier<Repaired>>({1, 64}, y, x); });
    else if (is("same_value"))
        run(kind, [&] { launch<same_value<Repaired>>({1, 8}, y, x); });
    else if (is("shuffle_is_no_barrier"))
        run(kind, [&] { launch<shuffle_is_no_barrier<Repaired>>({1, 32}, y, x); });
    else if (is("warp_barrier_only"))
        run(kind, [&] { launch<warp_barrier_only<Repaired>>({1, 64}, y, x); });
    else if (is("next_round"))
        run(kind, [&] { launch<next_round<Repaired>>({1, 64}, y, x); });
    else if (is("between_blocks"))
        run(kind, [&] { launch<between_blocks<Repaired>>({2, 32}, y, x); });
    else if (is("no_fence"))
        run(kind, [&] { launch<no_fence<Repaired>>({4, 32}, y, x, scratch, done); });
    else if (is("half_the_block"))
        run(kind, [&] { launch<half_the_block<Repaired>>({1, 64}, y); });
    else
        return false;
    return true;
}

} // namespace faults

int main(int argc, char** argv) {
    std::string kind = argc == 2 ? argv[1] : "";
    const std::size_t dot = kind.find(".repaired");
    const bool known =
        dot == kind.npos ? faults::run<false>(kind) : faults::run<true>(kind.substr(0, dot));
    if (!known) std::printf("faults: no fault is called '%s'\n", kind.c_str());
    return known ? 0 : 2;
}
