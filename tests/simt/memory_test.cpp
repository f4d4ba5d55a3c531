// SPDX-License-Identifier: MIT
// Device memory, copies, streams and events of the emulator.
#include "mpt/simt/device_buffer.hpp"
#include "mpt/simt/runtime.hpp"
#include "tests/simt/refusal.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace mpt::simt;
using refusal::lacks;

namespace {

std::string said(cudaError_t e) { return cudaGetErrorString(e); }

} // namespace

TEST_CASE("an allocation: aligned, poisoned, of its very size, known by any address in it") {
    const auto& memory = device_memory::here();
    const std::size_t before = memory.held(memory_kind::device);
    for (const std::size_t bytes : {std::size_t(1), std::size_t(1000), std::size_t(4096),
                                    std::size_t(4097), std::size_t(5) << 20}) {
        unsigned char* p = nullptr;
        REQUIRE(cudaMalloc(&p, bytes) == cudaSuccess);
        CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
        for (std::size_t i = 0; i < bytes; i += 97) CHECK(p[i] == 0xFF);
        CHECK(memory.held(memory_kind::device) == before + bytes);
        const allocation* a = memory.find(p + bytes / 2);
        REQUIRE(a != nullptr);
        CHECK(a->bytes == bytes);
        CHECK(a->begin == reinterpret_cast<std::uintptr_t>(p));
        CHECK(memory.find(p + bytes) == a); // one behind: still his page, or the one that guards it
        CHECK(memory.holds(p, bytes));
        CHECK(memory.holds(p + bytes - 1, 1));
        CHECK(!memory.holds(p, bytes + 1));
        CHECK(!memory.holds(p + bytes, 1));
        CHECK(memory.holds(p + bytes, 0));
        CHECK(cudaFree(p) == cudaSuccess);
        CHECK(memory.find(p) == a); // remembered
        CHECK(a->freed);
        CHECK(!memory.holds(p, 1));
    }
    CHECK(memory.held(memory_kind::device) == before);
    int on_stack = 0;
    CHECK(memory.find(&on_stack) == nullptr);
    CHECK(memory.find(nullptr) == nullptr);
}

TEST_CASE("addresses are not given out again, also when regions are used up") {
    unsigned char* first = nullptr;
    REQUIRE(cudaMalloc(&first, 100) == cudaSuccess);
    cudaFree(first);
    constexpr std::size_t piece = 256 << 20;
    for (std::size_t taken = 0; taken <= device_memory::first_region; taken += piece) {
        unsigned char* p = nullptr;
        REQUIRE(cudaMalloc(&p, piece) == cudaSuccess);
        CHECK(p != first);
        CHECK(device_memory::here().find(p)->bytes == piece);
        cudaFree(p);
    }
    CHECK(device_memory::here().find(first)->freed);
}

TEST_CASE("what is no allocation cannot be freed") {
    int host = 0;
    float *p = nullptr, *pinned = nullptr;
    REQUIRE(cudaMalloc(&p, 64) == cudaSuccess);
    REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
    for (void* wrong : {static_cast<void*>(&host), static_cast<void*>(p + 1),
                        static_cast<void*>(pinned)}) {
        CHECK(cudaFree(wrong) == cudaErrorInvalidValue);
        CHECK(lacks(said(cudaErrorInvalidValue), "cudaFree", "not the beginning") == "");
    }
    CHECK(cudaFreeHost(p) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaSuccess); // told once
    CHECK(cudaFree(nullptr) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaFree(p) == cudaErrorInvalidValue); // twice
}

TEST_CASE("more than the device has") {
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    CHECK(total == device_memory::total);
    void* p = &free;
    CHECK(cudaMalloc(&p, free + 1) == cudaErrorMemoryAllocation);
    CHECK(p == nullptr);
    const std::string text = said(cudaErrorMemoryAllocation);
    CHECK(lacks(text, "out of memory: cudaMalloc asks ", free + 1) == "");
    CHECK(cudaMalloc(&p, ~std::size_t(0)) == cudaErrorMemoryAllocation);
    CHECK(cudaMalloc(static_cast<void**>(nullptr), 4) == cudaErrorInvalidValue);
    CHECK(cudaMalloc(&p, 0) == cudaSuccess);
    CHECK(p == nullptr);
}

TEST_CASE("copies go where their kind says, and nowhere else") {
    std::vector<int> host(100), back(100);
    for (int i = 0; i < 100; ++i) host[std::size_t(i)] = i * i;
    int *a = nullptr, *b = nullptr, *pinned = nullptr;
    REQUIRE(cudaMalloc(&a, 400) == cudaSuccess);
    REQUIRE(cudaMalloc(&b, 400) == cudaSuccess);
    REQUIRE(cudaMallocHost(&pinned, 400) == cudaSuccess);
    CHECK(cudaMemcpy(a, host.data(), 400, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(cudaMemcpyAsync(b, a, 400, cudaMemcpyDeviceToDevice, nullptr) == cudaSuccess);
    CHECK(cudaMemcpy(pinned, b, 400, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(cudaMemcpy(back.data(), pinned, 400, cudaMemcpyHostToHost) == cudaSuccess);
    CHECK(back == host);
    CHECK(cudaMemset(a, 0, 200) == cudaSuccess);
    CHECK(cudaMemcpy(back.data(), a, 400, cudaMemcpyDefault) == cudaSuccess);
    CHECK(back[49] == 0);
    CHECK(back[50] == 2500);

    const auto refuse = [](void* to, const void* from, std::size_t n, cudaMemcpyKind kind) {
        const cudaError_t e = cudaMemcpy(to, from, n, kind);
        return e == cudaSuccess ? std::string("done") : said(e);
    };
    const auto h2d = cudaMemcpyHostToDevice;
    const auto d2h = cudaMemcpyDeviceToHost;
    CHECK(lacks(refuse(back.data(), host.data(), 400, h2d), "the target", "is host memory") == "");
    CHECK(lacks(refuse(a, b, 400, h2d), "the source", "is device memory") == "");
    CHECK(lacks(refuse(back.data(), host.data(), 400, d2h), "the source", "is host memory") == "");
    CHECK(lacks(refuse(a, b, 400, d2h), "the target", "is device memory") == "");
    CHECK(lacks(refuse(a, host.data(), 404, h2d), "404 bytes pass the allocation of 400") == "");
    CHECK(lacks(refuse(a + 1, host.data(), 400, h2d), "400 bytes pass the allocation") == "");
    CHECK(lacks(refuse(a, nullptr, 400, h2d), "the source is null") == "");
    CHECK(lacks(refuse(a, b, 4, cudaMemcpyKind(7)), "invalid copy direction") == "");
    CHECK(lacks(said(cudaMemset(host.data(), 0, 4)), "cudaMemset: the target", "host") == "");
    CHECK(refuse(nullptr, nullptr, 0, h2d) == "done");
    cudaFree(b);
    CHECK(lacks(refuse(a, b, 400, cudaMemcpyDeviceToDevice), "the source", "freed") == "");
    cudaFree(a);
    cudaFreeHost(pinned);
    cudaGetLastError();
}

TEST_CASE("streams, events and the device") {
    cudaStream_t stream = nullptr;
    cudaEvent_t from = nullptr, to = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaEventCreate(&from) == cudaSuccess);
    REQUIRE(cudaEventCreate(&to) == cudaSuccess);
    float ms = -1;
    CHECK(cudaEventElapsedTime(&ms, from, to) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventRecord(from, stream) == cudaSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(cudaEventRecord(to, stream) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(stream, to) == cudaSuccess);
    CHECK(cudaEventSynchronize(to) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&ms, from, to) == cudaSuccess);
    CHECK(ms >= 2);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    cudaStreamDestroy(stream);

    int count = 0;
    CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
    CHECK(count == 1);
    CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    cudaDeviceProp p;
    REQUIRE(cudaGetDeviceProperties(&p, 0) == cudaSuccess);
    CHECK(p.warpSize == 32);
    CHECK(p.maxThreadsPerBlock == 1024);
    CHECK(std::strlen(p.name) > 0);
}

TEST_CASE("a buffer owns its memory, and moves") {
    const std::size_t before = device_memory::here().held(memory_kind::device);
    {
        mpt::device_buffer<float> a(std::vector<float>{1, 2, 3});
        mpt::device_buffer<float> b = std::move(a);
        CHECK(a.size() == 0);
        CHECK(b.read() == std::vector<float>{1, 2, 3});
        b.fill(0);
        CHECK(b.read() == std::vector<float>(3, 0.0f));
        CHECK(lacks(refusal::of([&] { b.write({1, 2}); }), "2 elements for a buffer of 3") == "");
        b = mpt::device_buffer<float>(5);
        CHECK(std::isnan(b.read()[4]));
        CHECK(device_memory::here().held(memory_kind::device) == before + 20);
        mpt::device_buffer<float> none(0);
        CHECK(none.data() == nullptr);
        CHECK(none.read().empty());
        CHECK(lacks(refusal::of([] { mpt::device_buffer<double> most(~std::size_t(0) / 8); }),
                    "device_buffer: out of memory") == "");
    }
    CHECK(device_memory::here().held(memory_kind::device) == before);
}
