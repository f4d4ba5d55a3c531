// SPDX-License-Identifier: MIT
// device_buffer in host code that is one source for the emulator and for CUDA.
#include "mpt/kernels/launch.cuh"
#include "mpt/simt/device_buffer.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <utility>
#include <vector>

using namespace mpt::kernels;

namespace {

__global__ void scale_kernel(double* x, int n, double by) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[i] *= by;
}

} // namespace

TEST_CASE("to the device, through a kernel, and back") {
    std::vector<double> host(333);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = 0.5 * double(i) - 3;
    mpt::device_buffer<double> x(host), other;
    mpt::launch<scale_kernel>({3, 128}, x.data(), 333, -2.0);
    other = std::move(x);
    CHECK(x.data() == nullptr);
    CHECK(other.size() == 333);
    CHECK(other.bytes() == 333 * 8);
    CHECK(other.span().size() == 333);
    for (double& v : host) v *= -2.0;
    CHECK(other.read() == host);
    other.fill(0);
    CHECK(other.read() == std::vector<double>(333, 0.0));
    CHECK(mpt::device_buffer<int>(0).read().empty());
    CHECK_THROWS_AS(other.write({1.0}), std::runtime_error);
    CHECK_THROWS_AS(mpt::device_buffer<double>(std::size_t(1) << 50), std::runtime_error);
}
