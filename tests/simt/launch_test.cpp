// SPDX-License-Identifier: MIT
// Launches that a device would refuse, and pointers that it could not follow.
#include "mpt/kernels/launch.cuh"
#include "mpt/simt/device_buffer.hpp"
#include "tests/simt/refusal.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace mpt::kernels;
using refusal::lacks;

namespace {

__global__ void add_kernel(float* y, const float* x, int n, double times) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] += float(times) * (x ? x[i] : 1.0f);
}
template <class T, int N>
__global__ void sized_kernel(T* y) {
    y[threadIdx.x] = T(N);
}
__global__ void nothing_kernel() {}
__global__ void leaves_kernel() {
    for (int i = 0; threadIdx.x < 32 && i < 3; ++i) __syncthreads();
}
__global__ void nested_kernel() { mpt::launch<nothing_kernel>({1, 1}); }
__global__ void shared_kernel(unsigned char* to, int n) {
    auto* s = mpt::dynamic_shared<unsigned char>();
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
        s[i] = static_cast<unsigned char>(i);
    __syncthreads();
    if (threadIdx.x == 0) *to = s[n - 1];
}

std::string refused(mpt::launch_config c) {
    return refusal::of([&] { mpt::launch<nothing_kernel>(c); });
}

} // namespace

TEST_CASE("the limits of a device, each with kernel, value and limit") {
    const std::string k = "launch of ", name = "nothing_kernel: ";
    CHECK(lacks(refused({0, 1}), k, name, "grid.x is 0; the device takes 1 to 2147483647") == "");
    CHECK(lacks(refused({dim3(1, 0), 1}), name, "grid.y is 0; the device takes 1 to 65535") == "");
    CHECK(lacks(refused({dim3(1, 65536), 1}), name, "grid.y is 65536") == "");
    CHECK(lacks(refused({dim3(1, 1, 65536), 1}), name, "grid.z is 65536") == "");
    CHECK(lacks(refused({dim3(1u << 31), 1}), name, "grid.x is 2147483648") == "");
    CHECK(lacks(refused({1, 0}), name, "block.x is 0; the device takes 1 to 1024") == "");
    CHECK(lacks(refused({1, 1025}), name, "block.x is 1025") == "");
    CHECK(lacks(refused({1, dim3(1, 1, 65)}), name, "block.z is 65; the device takes 1 to 64") ==
          "");
    CHECK(lacks(refused({1, dim3(32, 33)}), name, "threads of a block is 1056") == "");
    CHECK(lacks(refused({1, dim3(1024, 1024, 64)}), name, "threads of a block is 67108864") == "");
    CHECK(lacks(refused({1, 1, 227 * 1024 + 1}), name,
                "dynamic shared memory in bytes is 232449; the device takes 0 to 232448") == "");
    settings().max_shared_bytes = 48 * 1024; // what is there without being asked for
    CHECK(lacks(refused({1, 1, 48 * 1024 + 1}), name, "takes 0 to 49152") == "");
    settings().max_shared_bytes = 227 * 1024;
    for (const mpt::launch_config& c :
         {mpt::launch_config{1, 1024}, mpt::launch_config{1, dim3(4, 4, 64)},
          mpt::launch_config{dim3(1, 65535), 1}, mpt::launch_config{dim3(1, 1, 65535), 1},
          mpt::launch_config{1, 1, 227 * 1024}})
        CHECK(refused(c) == "nothing was thrown");
}

TEST_CASE("all of the dynamic shared memory is there") {
    device_buffer<unsigned char> to(1);
    mpt::launch<shared_kernel>({1, 64, 227 * 1024}, to.data(), 227 * 1024);
    CHECK(to.read()[0] == (227 * 1024 - 1) % 256);
    CHECK(reinterpret_cast<std::uintptr_t>(block::here().dynamic_shared()) % 128 == 0);
}

TEST_CASE("pointers: device and pinned memory and null pass, host memory and freed memory do not") {
    std::vector<float> host(64, 1.0f);
    device_buffer<float> y(std::vector<float>(64, 2.0f)), x(std::vector<float>(64, 3.0f));
    const float *from = x.data(), *none = nullptr, *on_host = host.data();
    mpt::launch<add_kernel>({1, 64}, y.data(), from, 64, 2);
    mpt::launch<add_kernel>({1, 64}, y.data(), none, 64, 2);
    float* pinned = nullptr;
    REQUIRE(cudaMallocHost(&pinned, 256) == cudaSuccess);
    for (int i = 0; i < 64; ++i) pinned[i] = 4;
    mpt::launch<add_kernel>({1, 64}, y.data(), pinned + 0, 64, 1);
    CHECK(y.read() == std::vector<float>(64, 2 + 6 + 2 + 4));

    CHECK(lacks(refusal::of([&] { mpt::launch<add_kernel>({1, 64}, y.data(), on_host, 64, 2); }),
                "argument 2 of kernel ", "add_kernel is host memory") == "");
    CHECK(lacks(refusal::of([&] { mpt::launch<add_kernel>({1, 64}, host.data(), from, 64, 2); }),
                "argument 1 of kernel ", "add_kernel is host memory") == "");
    int here = 0;
    CHECK(lacks(refusal::of([&] { mpt::launch<sized_kernel<int, 1>>({1, 1}, &here); }),
                "argument 1", "host memory") == "");
    float* gone = nullptr;
    REQUIRE(cudaMalloc(&gone, 256) == cudaSuccess);
    cudaFree(gone);
    CHECK(lacks(refusal::of([&] { mpt::launch<add_kernel>({1, 64}, gone, from, 64, 2); }),
                "argument 1 of kernel ", "add_kernel points into memory that was freed") == "");
    cudaFreeHost(pinned);
    CHECK(y.read() == std::vector<float>(64, 14)); // refused before any thread ran
}

TEST_CASE("arguments are converted to what the kernel takes, and the kernel is known by its name") {
    device_buffer<float> y(std::vector<float>(3, 1.0f));
    mpt::launch<add_kernel>({1, 32}, y.data(), nullptr, std::size_t(3), 2);
    CHECK(y.read() == std::vector<float>(3, 3.0f));
    device_buffer<short> s(1);
    mpt::launch<sized_kernel<short, 42>>({1, 1}, s.data());
    CHECK(s.read()[0] == 42);
    const std::string name(kernel_name<sized_kernel<short, 42>>());
    CHECK(name.find("sized_kernel") != name.npos);
    CHECK(name.find("Kernel") == name.npos);
    CHECK(std::string(kernel_name<nothing_kernel>()).find("nothing_kernel") != std::string::npos);
}

TEST_CASE("numbers from the environment") {
    const auto with = [](const char* text) {
        setenv("MPT_SIMT_TEST", text, 1);
        return setting_from_environment("MPT_SIMT_TEST", 5, 1, 100);
    };
    unsetenv("MPT_SIMT_TEST");
    CHECK(setting_from_environment("MPT_SIMT_TEST", 5, 1, 100) == 5);
    CHECK(with("1") == 1);
    CHECK(with("100") == 100);
    for (const char* wrong : {"", "0", "101", "-1", "7x", " 7", "many", "99999999999"})
        CHECK(lacks(refusal::of([&] { with(wrong); }), "MPT_SIMT_TEST='", wrong,
                    "': wanted is a number from 1 to 100") == "");
}

TEST_CASE("a launch in the course of another error, which fails") {
    struct launches { // in its destructor
        std::string& text;
        ~launches() {
            text = refusal::of([] { mpt::launch<leaves_kernel>({1, 64}); });
        }
    };
    std::string text;
    try {
        const launches l{text};
        throw 1;
    } catch (int) {
    }
    CHECK(lacks(text, "leaves_kernel: Barrier error detected", "32 exited threads") == "");
    device_buffer<float> y(std::vector<float>(64, 1.0f)); // no thread is still in the other kernel
    mpt::launch<add_kernel>({1, 64}, y.data(), nullptr, 64, 2);
    CHECK(y.read() == std::vector<float>(64, 3.0f));
}

TEST_CASE("a launch inside of a kernel, and several host threads that launch") {
    CHECK(lacks(refusal::of([] { mpt::launch<nested_kernel>({1, 1}); }), "nothing_kernel",
                "inside a kernel") == "");
    settings().threads = 2;
    std::vector<std::thread> hosts;
    std::atomic<int> right = 0;
    for (int h = 0; h < 4; ++h)
        hosts.emplace_back([&right, h] {
            device_buffer<float> y(std::vector<float>(500, 0.0f));
            for (int round = 0; round < 20; ++round)
                mpt::launch<add_kernel>({10, 50}, y.data(), nullptr, 500, h);
            right += y.read() == std::vector<float>(500, 20.0f * float(h));
        });
    for (std::thread& t : hosts) t.join();
    CHECK(right == 4);
}
