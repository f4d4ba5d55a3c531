// SPDX-License-Identifier: MIT
// What a program does with the findings of the checks.
#include "mpt/kernels/launch.cuh"

#include <cstddef>
#include <doctest/doctest.h>
#include <string>

namespace {

using namespace mpt::simt;
using mpt::launch;

template <int Lines>
__global__ void many_races(float* y) {
    if constexpr (Lines > 0) {
        y[Lines] = 1; // every block, each time another instruction
        many_races<Lines - 1>(y);
    }
}
__global__ void past_the_end(float* y, int n) {
    __shared__ float s[32];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x + n] = s[31 - threadIdx.x];
    __syncthreads();
}

struct fixture {
    fixture() {
        cudaMalloc(&y, 64 * sizeof(float));
        cudaMemset(y, 0, 64 * sizeof(float));
    }
    ~fixture() { cudaFree(y); }
    float* y = nullptr;
};

std::string error_of(float* y, int n) {
    try {
        launch<past_the_end>({2, 32}, y, n);
    } catch (const mpt::error& e) {
        return e.what();
    }
    return "";
}
std::size_t lines_with(const std::string& text, const std::string& word) {
    std::size_t n = 0;
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
    return n;
}

} // namespace

TEST_CASE_FIXTURE(fixture, "an error shows ten findings and counts the rest") {
    std::string text;
    try {
        launch<many_races<12>>({2, 1}, y);
    } catch (const mpt::error& e) {
        text = e.what();
    }
    CHECK(text.find("many_races") != text.npos);
    CHECK(text.find(": 12 errors\n") != text.npos);
    CHECK(lines_with(text, "Race reported between") == 10);
    CHECK(text.substr(text.size() - 10) == "and 2 more");
}

TEST_CASE_FIXTURE(fixture, "findings are collected, and the launch does not throw") {
    {
        collecting found;
        launch<many_races<3>>({4, 1}, y);
        REQUIRE(found.findings().size() == 3);
        const finding& f = found.findings()[0];
        CHECK(f.check == "racecheck");
        CHECK(f.at.file.substr(f.at.file.rfind('/') + 1) == "checks_test.cpp");
        CHECK(f.at.line == 17);
        CHECK(f.count == 3); // blocks 1, 2, 3 with the one before
        launch<past_the_end>({2, 32}, y, 40);
        REQUIRE(found.findings().size() == 4);
        CHECK(found.findings()[3].check == "memcheck");
        CHECK(found.findings()[3].kernel.find("past_the_end") != std::string::npos);
        found.clear();
        launch<past_the_end>({1, 32}, y, 32);
        CHECK(found.findings().empty());
    }
    CHECK(error_of(y, 40) != "");
}

TEST_CASE_FIXTURE(fixture, "an access that is refused does not happen, and the next launch runs") {
    float guard[4] = {};
    for (int again = 0; again < 3; ++again) {
        const std::string text = error_of(y, 48); // the threads before it wait at a barrier
        CHECK(text.find("by thread (16,0,0) in block (0,0,0)") != text.npos);
        CHECK(text.find("is 1 bytes after the nearest allocation") != text.npos);
    }
    cudaMemcpy(guard, y, sizeof guard, cudaMemcpyDeviceToHost);
    CHECK(guard[0] == 0);
    launch<past_the_end>({1, 32}, y, 32);
}

TEST_CASE_FIXTURE(fixture, "checks can be switched off: all, or one kind") {
    settings().checks = false;
    CHECK_NOTHROW(launch<many_races<3>>({4, 1}, y));
    settings().checks = true;
    checks().which.races = false;
    CHECK_NOTHROW(launch<many_races<3>>({4, 1}, y));
    CHECK(error_of(y, 40) != "");
    checks().which.races = true;
    CHECK_THROWS_AS(launch<many_races<3>>({4, 1}, y), mpt::error);

    float* fresh = nullptr;
    cudaMalloc(&fresh, 64 * sizeof(float));
    checks().which.uninitialized = false;
    CHECK(error_of(fresh, 32).find("Uninitialized") == std::string::npos);
    checks().which.uninitialized = true;
    cudaFree(fresh);
    cudaMalloc(&fresh, 64 * sizeof(float));
    CHECK(error_of(fresh, 32).find("Uninitialized __global__ memory read of size 4 bytes") !=
          std::string::npos);
    cudaMemset(fresh, 0, 64 * sizeof(float));
    CHECK(error_of(fresh, 32).find("Uninitialized") == std::string::npos);
    cudaMemset(fresh, 0xFF, 64 * sizeof(float)); // poison
    CHECK(error_of(fresh, 32).find("Uninitialized") != std::string::npos);
    cudaFree(fresh);
}
