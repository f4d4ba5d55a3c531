// SPDX-License-Identifier: MIT
// Kernels that are right: the checks have nothing to say, whatever the order of the threads.
#include "mpt/kernels/launch.cuh"

#include <cstddef>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace {

using namespace mpt::simt;
using mpt::launch;

__global__ void sum_of_warps(float* out, const float* in, int n) {
    __shared__ float of_warp[32];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        v += in[i];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xFFFFFFFF, v, d);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    v = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xFFFFFFFF, v, d);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

// A warp's own part of shared memory, ordered by __syncwarp alone.
__global__ void tree_of_a_warp(float* out, const float* in) {
    __shared__ float s[128];
    float* const mine = s + threadIdx.x / 32 * 32;
    const int lane = threadIdx.x % 32;
    mine[lane] = in[threadIdx.x];
    __syncwarp();
    for (int d = 16; d > 0; d /= 2) {
        if (lane < d) mine[lane] += mine[lane + d];
        __syncwarp();
    }
    if (lane == 0) out[threadIdx.x / 32] = mine[0];
}

// Half a warp meets by a mask, then the other half: orders are handed on from lane to lane.
__global__ void halves_of_a_warp(float* out, const float* in) {
    __shared__ float s[32];
    const int lane = threadIdx.x;
    s[lane] = in[lane];
    __syncwarp(lane < 16 ? 0x0000FFFF : 0xFFFF0000);
    const float near = s[lane ^ 1];
    __syncwarp(); // now all
    out[lane] = near + s[31 - lane];
}

__global__ void transposed(float* out, const float* in, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void histogram(unsigned* counts, const unsigned char* in, int n) {
    unsigned* mine = mpt::dynamic_shared<unsigned>();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&mine[in[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (mine[i]) atomicAdd(&counts[i], mine[i]);
}

// Every thread's number is part of the block's; one thread fences and counts for all of them.
__global__ void last_block(float* out, const float* in, float* parts, unsigned* done) {
    __shared__ bool last;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = 2 * in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b * blockDim.x + threadIdx.x];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) *done = 0; // for the next launch
}
// Here each thread fences what it wrote, and the barrier comes after.
__global__ void last_block_too(float* out, const float* in, float* parts, unsigned* done) {
    __shared__ unsigned ticket;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = 2 * in[blockIdx.x * blockDim.x + threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) ticket = atomicAdd(done, 1u);
    __syncthreads();
    if (ticket != gridDim.x - 1) return;
    float sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b * blockDim.x + threadIdx.x];
    out[threadIdx.x] = sum;
}

// Neighbours of two bytes in one word, by different threads and by different blocks.
__global__ void halves(__half* out, const __half* in, int n) {
    __shared__ __half s[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? in[i] : __half(0.0f);
    s[threadIdx.x] = __half(2 * float(s[threadIdx.x]));
    if (i < n) out[i] = s[threadIdx.x];
}

// Two buffers in turn: one barrier a round is enough.
__global__ void two_buffers(float* out, const float* in, int rounds) {
    __shared__ float s[2][64];
    float sum = 0;
    for (int r = 0; r < rounds; ++r) {
        s[r % 2][threadIdx.x] = in[r * 64 + threadIdx.x];
        __syncthreads();
        sum += s[r % 2][63 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}

struct many {
    float4* out;
    const float4* in;
    const float* table;
    int n;
};
__constant__ const float factors[4] = {1, 2, 3, 4};
__device__ [[gnu::noinline]] float4 times(const float4& v, const float* by) {
    return make_float4(v.x * by[0], v.y * by[1], v.z * by[2], v.w * by[3]);
}
__global__ void vectors(many m) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float local[4];
    for (int k = 0; k < 4; ++k) local[k] = factors[k] + __ldg(m.table + (i + k) % 4);
    if (i < m.n) m.out[i] = times(m.in[i], local);
}

template <class T>
struct on_device {
    explicit on_device(std::size_t n) : size(n) { cudaMalloc(&data, n * sizeof(T)); }
    explicit on_device(const std::vector<T>& v) : on_device(v.size()) {
        cudaMemcpy(data, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    }
    on_device(const on_device&) = delete;
    on_device& operator=(const on_device&) = delete;
    ~on_device() { cudaFree(data); }
    std::vector<T> read() const {
        std::vector<T> v(size);
        cudaMemcpy(v.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost);
        return v;
    }
    T* data = nullptr;
    std::size_t size;
};

std::vector<float> numbers(std::size_t n) {
    std::vector<float> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = float(int(i * 7 % 23)) - 11;
    return v;
}

struct seeded { // an order of threads, for one test
    explicit seeded(unsigned seed) { settings().order_seed = seed; }
    ~seeded() { settings().order_seed = 0; }
};

} // namespace

TEST_CASE("right kernels are clean in four orders") {
    for (const unsigned seed : {0u, 1u, 2u, 3u}) {
        const seeded order(seed);
        CAPTURE(seed);
        const on_device<float> in(numbers(4096)), out(4096);
        const std::vector<float> x = in.read();
        launch<sum_of_warps>({3, 128}, out.data, in.data, 1601);
        launch<tree_of_a_warp>({1, 128}, out.data, in.data);
        float sum = 0;
        for (int i = 0; i < 32; ++i) sum += x[std::size_t(i)];
        CHECK(out.read()[0] == sum);
        launch<halves_of_a_warp>({1, 32}, out.data, in.data);
        CHECK(out.read()[5] == x[4] + x[26]);
        launch<transposed>({{2, 2}, {32, 32}}, out.data, in.data, 47);
        CHECK(out.read()[47 * 3 + 40] == x[47 * 40 + 3]);

        const on_device<unsigned char> bytes(std::vector<unsigned char>(1000, 7));
        const on_device<unsigned> counts(256);
        cudaMemset(counts.data, 0, 256 * sizeof(unsigned));
        launch<histogram>({3, 96, 256 * sizeof(unsigned)}, counts.data, bytes.data, 1000);
        CHECK(counts.read()[7] == 1000);

        const on_device<float> parts(256);
        const on_device<unsigned> done(std::vector<unsigned>{0});
        launch<last_block>({4, 64}, out.data, in.data, parts.data, done.data);
        CHECK(out.read()[9] == 2 * (x[9] + x[73] + x[137] + x[201]));
        CHECK(done.read()[0] == 0);
        launch<last_block_too>({4, 64}, out.data, in.data, parts.data, done.data);

        const on_device<__half> from(std::vector<__half>(101, __half(3.0f))), to(101);
        launch<halves>({4, 27}, to.data, from.data, 101);
        CHECK(float(to.read()[100]) == 6);
        launch<two_buffers>({1, 64}, out.data, in.data, 5);

        many m{reinterpret_cast<float4*>(out.data), reinterpret_cast<const float4*>(in.data),
               in.data, 77};
        launch<vectors>({3, 32}, m);
        CHECK(out.read()[4 * 70] == x[4 * 70] * (1 + x[2]));
    }
}

TEST_CASE("pinned memory is the host's, and a kernel's") {
    float* pinned = nullptr;
    cudaMallocHost(&pinned, 64 * sizeof(float));
    for (int i = 0; i < 64; ++i) pinned[i] = float(i);
    const on_device<float> out(64);
    launch<two_buffers>({1, 64}, out.data, pinned, 1);
    CHECK(out.read()[0] == 63);
    cudaFreeHost(pinned);
}
