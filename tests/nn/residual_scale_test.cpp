// SPDX-License-Identifier: MIT
#include "mpt/nn/residual_scale.hpp"
#include "checks.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using namespace checks;

namespace {

const dropout_key key{0x123456789ABCDEFull, 3, 5, 8};

template <class T>
struct rig {
    rig(dropout_shape shape, float p, double start, int threads = 2)
        : s(shape), p(p), m(threads), x(numbers<T>(size(), 1)), branch(numbers<T>(size(), 2)),
          dout(numbers<T>(size(), 3)), alpha{narrow<T>(wide_t<T>(start))}, out(size()),
          dbranch(size()), dalpha(1) {}
    std::size_t size() const { return std::size_t(s.samples) * s.per_sample; }
    void forward() {
        scaled_residual_forward<T>(m.on, span(out), span(x), span(branch), span(alpha), p, key, s);
    }
    void backward() {
        scaled_residual_backward<T>(m.on, span(dbranch), span(dalpha), span(dout), span(branch),
                                    span(alpha), p, key, s);
    }
    double loss() { // whose gradient in out is dout
        forward();
        return dot(doubles(out), doubles(dout));
    }
    dropout_shape s;
    float p;
    machine m;
    std::vector<T> x, branch, dout, alpha, out, dbranch, dalpha;
};

// One sample, a row shorter than a block; blocks that do not divide; more blocks than parts.
const dropout_shape shapes[] = {{1, 1}, {3, 7}, {2, 1025}, {5, 13 * 1024 + 3}};

} // namespace

TEST_CASE("gradients of branch and alpha equal finite differences, in fp64") {
    for (const dropout_shape s : {shapes[0], shapes[1], shapes[2]})
        for (const float p : {0.0f, 0.3f})
            for (const double start : {0.0, 1.0, -0.7}) {
                rig<double> r(s, p, start);
                r.backward();
                CHECK(gradient_error(r.branch, r.dbranch, [&] { return r.loss(); }) <
                      gradient_tolerance);
                CHECK(gradient_error(r.alpha, r.dalpha, [&] { return r.loss(); }) <
                      gradient_tolerance);
            }
}

TEST_CASE("sabotage: a gradient of alpha that forgets the mask is caught") {
    rig<double> r(shapes[2], 0.3f, 0.5);
    r.dalpha[0] = dot(r.dout, r.branch);
    CHECK(gradient_error(r.alpha, r.dalpha, [&] { return r.loss(); }) > 1e3 * gradient_tolerance);
}

TEST_CASE("alpha 0 passes x, alpha 1 is the plain sum, bit for bit; out may be x") {
    for (const float p : {0.0f, 0.3f}) {
        rig<fp16> r(shapes[2], p, 0);
        r.forward();
        CHECK(same_bits(r.out, r.x));
        r.alpha[0] = fp16(1.0f);
        r.forward();
        std::vector<fp16> plain(r.size());
        residual_forward<fp16>(r.m.on, span(plain), span(r.x), span(r.branch), p, key, r.s);
        CHECK(same_bits(r.out, plain));
        scaled_residual_forward<fp16>(r.m.on, span(r.x), span(r.x), span(r.branch), span(r.alpha),
                                      p, key, r.s);
        CHECK(same_bits(r.x, plain));
        r.alpha[0] = fp16(1.001f); // the sabotage: the next number
        r.forward();
        CHECK(!same_bits(r.out, plain));
    }
}

TEST_CASE("the same bits on 1, 2 and 3 threads, and as near to fp64 as its order promises") {
    // A block's sum: 32 lanes of 32 terms, each term rounded once: at most 32 + 5 + 1 roundings of
    // fp32 on a way, 2 more for 1 / (1 - p); what blocks add in fp64 is below that. Then once
    // to T.
    const auto check_format = [](auto scalar) {
        using T = decltype(scalar);
        for (const dropout_shape s : shapes) {
            rig<T> one(s, 0.2f, 0.3, 1);
            one.backward();
            for (const int threads : {2, 3}) {
                rig<T> r(s, 0.2f, 0.3, threads);
                r.backward();
                CHECK(same_bits(r.dalpha, one.dalpha));
                CHECK(same_bits(r.dbranch, one.dbranch));
            }
            rig<double> exact(s, 0.2f, 0.3);
            exact.branch = doubles(one.branch), exact.dout = doubles(one.dout);
            exact.backward();
            double absolute = 0; // of the terms, the dropped ones as well
            for (std::size_t i = 0; i < one.size(); ++i)
                absolute += std::fabs(exact.branch[i] * exact.dout[i]) / 0.8;
            const double u = double(format<T>::epsilon) / 2;
            CHECK(std::fabs(double(widen(one.dalpha[0])) - exact.dalpha[0]) <=
                  40 * 0x1p-24 * absolute + u * std::fabs(exact.dalpha[0]));
        }
    };
    check_format(float());
    check_format(fp16());
    check_format(bf16());
}

TEST_CASE("no rows; sizes that do not fit are refused") {
    rig<float> none({0, 5}, 0, 1);
    none.backward();
    CHECK(none.dalpha[0] == 0);
    rig<float> r({1, 3}, 0, 1);
    r.alpha.resize(2);
    CHECK_THROWS_WITH_AS(r.forward(), "residual scale: 2 numbers; wanted is 1 for a branch", error);
    CHECK_THROWS_AS(r.backward(), error);
    r.alpha.resize(1);
    r.dout.resize(2);
    CHECK_THROWS_WITH_AS(r.backward(), doctest::Contains("arrays of 3 and 2"), error);
}
