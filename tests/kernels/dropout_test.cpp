// SPDX-License-Identifier: MIT
#include "mpt/kernels/dropout.cuh"
#include "mpt/nn/dropout.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

struct shape {
    int samples;
    std::size_t per_sample, offset; // offset: elements by which the arrays are off 16 bytes
};
const shape shapes[] = {{1, 1, 0},    {3, 31, 0},  {2, 33, 1},   {5, 257, 0},
                        {2, 1600, 0}, {2, 1600, 2}, {3, 1601, 0}, {0, 7, 0}, {7, 0, 0}};

dropout_args args_of(float p) { return {p, 0x123456789ABCDEF0u, 3, 40, 1000}; }
mpt::dropout_key key_of(const dropout_args& a) { return {a.seed, a.layer, a.step, a.sample}; }

template <class H>
std::vector<H> by_loop(const std::vector<H>* x, const std::vector<H>& branch,
                       const dropout_args& a, const shape& s) {
    static checks::machine m;
    std::vector<H> y(branch.size());
    if (x)
        mpt::residual_forward<H>(m.on, checks::span(y), checks::span(*x), checks::span(branch),
                                 a.p, key_of(a), {s.samples, s.per_sample});
    else
        mpt::dropout_forward<H>(m.on, checks::span(y), checks::span(branch), a.p, key_of(a),
                                {s.samples, s.per_sample});
    return y;
}

} // namespace

TEST_CASE_TEMPLATE("dropout and residual: the bits of the plain loops", T, float, __half,
                   __nv_bfloat16) {
    using H = host_t<T>;
    for (const shape& s : shapes)
        for (const float p : {0.0f, 0.1f, 0.5f, 0.999f}) {
            const std::size_t n = std::size_t(s.samples) * s.per_sample;
            const auto x = checks::numbers<H>(n, 1), b = checks::numbers<H>(n, 2);
            const array<T> on_x(x, s.offset), on_b(b, s.offset);
            array<T> y(n, s.offset), out(n, s.offset);
            dropout<T>(y, on_b, args_of(p), s.samples, s.per_sample, stream());
            CHECK(difference(y.read(), by_loop<H>(nullptr, b, args_of(p), s)) == "");
            residual<T>(out, on_x, on_b, args_of(p), s.samples, s.per_sample, stream());
            CHECK(difference(out.read(), by_loop(&x, b, args_of(p), s)) == "");
            const array<T> again(x, s.offset);
            residual<T>(again.data(), again, on_b, args_of(p), s.samples, s.per_sample, stream());
            CHECK(difference(again.read(), by_loop(&x, b, args_of(p), s)) == "");
            residual<T>(on_b.data(), on_x, on_b, args_of(p), s.samples, s.per_sample, stream());
            CHECK(difference(on_b.read(), by_loop(&x, b, args_of(p), s)) == ""); // in place
        }
}

TEST_CASE("step and sample from the device: the masks of their sums") {
    const shape s{3, 257, 0};
    const auto b = checks::numbers<float>(3 * 257, 2);
    const array<float> on(b);
    array<float> y(b.size());
    array<unsigned char> place(sizeof(dropout_place));
    const dropout_place now{2, 64};
    std::vector<unsigned char> bytes(sizeof now);
    std::memcpy(bytes.data(), &now, sizeof now);
    place.write(bytes);
    dropout_args a = args_of(0.3f), sum = a;
    a.place = reinterpret_cast<const dropout_place*>(place.data());
    dropout<float>(y, on, a, s.samples, s.per_sample, stream());
    sum.step += 2;
    sum.sample += 64;
    CHECK(difference(y.read(), by_loop<float>(nullptr, b, sum, s)) == "");
    CHECK(difference(y.read(), by_loop<float>(nullptr, b, args_of(0.3f), s)) != ""); // sabotage
}

namespace {

// Sabotage: x scale + straight as one operation, as nvcc would have it.
__global__ void fused_kernel(float* out, const float* x, const float* b, dropout_mask mask, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const bool keep = mask.apply(1, mask.words(0, unsigned(i) / 4).x[i % 4]) != 0;
    out[i] = keep ? fmaf(b[i], mask.scale, x[i]) : x[i];
}

} // namespace

TEST_CASE("a fused multiply-add has other bits: the comparison would see it") {
    const shape s{1, 1600, 0};
    const auto x = checks::numbers<float>(1600, 1), b = checks::numbers<float>(1600, 2);
    const array<float> on_x(x), on_b(b);
    array<float> out(1600);
    mpt::launch<fused_kernel>({13, 128, 0, stream()}, out.data(),
                              static_cast<const float*>(on_x.data()),
                              static_cast<const float*>(on_b.data()), mask_of(args_of(0.3f)), 1600);
    CHECK(difference(out.read(), by_loop(&x, b, args_of(0.3f), s)) != "");
}
