// SPDX-License-Identifier: MIT
#include "mpt/kernels/residual_scale.cuh"
#include "mpt/nn/residual_scale.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

struct shape {
    int samples;
    std::size_t per_sample;
};
const shape shapes[] = {{1, 1}, {3, 31}, {2, 33}, {5, 257}, {2, 1600}, {3, 1601}, {6, 5000}};

dropout_args args_of(float p) { return {p, 0x123456789ABCDEF0u, 3, 40, 1000}; }
mpt::dropout_key key_of(const dropout_args& a) { return {a.seed, a.layer, a.step, a.sample}; }

} // namespace

TEST_CASE_TEMPLATE("forward has the bits of the loop, in place, too", T, float, __half,
                   __nv_bfloat16) {
    using H = host_t<T>;
    for (const shape& s : shapes)
        for (const float p : {0.0f, 0.3f}) {
            const std::size_t n = std::size_t(s.samples) * s.per_sample;
            const auto x = checks::numbers<H>(n, 1), b = checks::numbers<H>(n, 2);
            const std::vector<H> alpha{mpt::narrow<H>(-0.7f)};
            std::vector<H> expected(n);
            checks::machine m;
            mpt::scaled_residual_forward<H>(m.on, checks::span(expected), checks::span(x),
                                            checks::span(b), checks::span(alpha), p,
                                            key_of(args_of(p)), {s.samples, s.per_sample});
            const array<T> on_x(x), on_b(b), on_alpha(alpha);
            array<T> out(n);
            scaled_residual_forward<T>(
                {out, on_x, on_b, on_alpha, args_of(p), s.samples, s.per_sample}, stream());
            CHECK(difference(out.read(), expected) == "");
            const array<T> again(x);
            scaled_residual_forward<T>(
                {again, again, on_b, on_alpha, args_of(p), s.samples, s.per_sample}, stream());
            CHECK(difference(again.read(), expected) == "");
            scaled_residual_forward<T>(
                {on_b, on_x, on_b, on_alpha, args_of(p), s.samples, s.per_sample}, stream());
            CHECK(difference(on_b.read(), expected) == "");
        }
}

TEST_CASE_TEMPLATE("backward: dbranch has the bits of the loop, dalpha is right to its roundings",
                   T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const shape& s : shapes)
        for (const float p : {0.0f, 0.3f}) {
            const std::size_t n = std::size_t(s.samples) * s.per_sample;
            const auto d = checks::numbers<H>(n, 1), b = checks::numbers<H>(n, 2);
            const std::vector<H> alpha{mpt::narrow<H>(-0.7f)};
            std::vector<H> dbranch(n), dalpha(1);
            checks::machine m;
            mpt::scaled_residual_backward<H>(m.on, checks::span(dbranch), checks::span(dalpha),
                                             checks::span(d), checks::span(b), checks::span(alpha),
                                             p, key_of(args_of(p)), {s.samples, s.per_sample});
            // fp64, of the mask as fp32 applies it
            double sum = 0, magnitudes = 0;
            std::vector<float> wide(n), kept(n);
            for (std::size_t i = 0; i < n; ++i) wide[i] = float(mpt::widen(d[i]));
            mpt::dropout_forward<float>(m.on, checks::span(kept), checks::span(wide), p,
                                        key_of(args_of(p)), {s.samples, s.per_sample});
            for (std::size_t i = 0; i < n; ++i) {
                const double term = double(kept[i]) * double(mpt::widen(b[i]));
                sum += term, magnitudes += std::fabs(term);
            }
            const array<T> on_d(d), on_b(b), on_alpha(alpha);
            array<T> to(n), sums(1);
            const scratch room(scaled_residual_backward_bytes(n));
            scaled_residual_backward<T>({to, sums, on_d, on_b, on_alpha, args_of(p), s.samples,
                                         s.per_sample, room},
                                        stream());
            CHECK(difference(to.read(), dbranch) == "");
            // a product in fp32, the sum in fp64, which is rounded to fp32 and to T
            const auto bound = [&](std::size_t) { return 2 * 0x1p-24 * magnitudes; };
            CHECK(difference(sums.read(), {sum}, bound) == "");
            if (p > 0 && n > 1000) { // sabotage: a gradient that forgets the mask
                double without = 0;
                for (std::size_t i = 0; i < n; ++i)
                    without += double(wide[i]) * double(mpt::widen(b[i]));
                CHECK(difference(sums.read(), {without}, bound) != "");
            }
        }
}
