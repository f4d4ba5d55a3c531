// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/gelu.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using namespace checks;

namespace {

double definition(double x) { // GPT-2's form
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.141592653589793) * (x + 0.044715 * x * x * x)));
}

template <class T>
std::vector<T> forward(machine& m, const std::vector<T>& x) {
    std::vector<T> y(x.size());
    gelu_forward<T>(m.on, span(y), span(x));
    return y;
}
template <class T>
std::vector<T> backward(machine& m, const std::vector<T>& dy, const std::vector<T>& x) {
    std::vector<T> dx(x.size());
    gelu_backward<T>(m.on, span(dx), span(dy), span(x));
    return dx;
}

// The fp32 inside: u has 4 roundings of relative size 2^-24, e^-2u multiplies those by 2u and adds
// 1 ulp, the rest is 4 roundings: (8|u| + 8) 2^-24 |y| at most, and s below 2^-126 may be 0. Then
// one rounding to T: 0.5 ulp. (What is exact is y = x/(1 + e^-2u): 1 + tanh u cancels.)
template <class T>
double error_in_ulps(const std::vector<T>& y, const std::vector<T>& x) {
    std::vector<double> want, slack;
    for (const double v : doubles(x)) {
        const double u = 0.79788456080286536 * (v + 0.044715 * v * v * v);
        want.push_back(v / (1 + std::exp(-2 * u)));
        slack.push_back((8 * std::fabs(u) + 8) * 0x1p-24 * std::fabs(want.back()) +
                        0x1p-126 * std::fabs(v));
    }
    return worst_ulps(y, want, slack);
}

} // namespace

TEST_CASE("gelu forward is GPT-2's formula") {
    machine m;
    for (const std::size_t n : {1, 3, 1024, 1025, 40001}) {
        const auto x = numbers(n, 1, 2), y = forward(m, x);
        double worst = 0;
        for (std::size_t i = 0; i < n; ++i)
            worst = std::max(worst, std::fabs(y[i] - definition(x[i])));
        CHECK(worst < 1e-15);
    }
}

TEST_CASE("gelu backward is its derivative") {
    machine m;
    for (const std::size_t n : {1, 7, 400}) {
        auto x = numbers(n, 1, 2);
        const auto dy = numbers(n, 2), dx = backward(m, dy, x);
        const auto loss = [&] { return dot(dy, forward(m, x)); };
        CHECK(gradient_error(x, dx, loss) < gradient_tolerance);
        if (n == 400) { // the sabotage: the term with du/dx left out
            std::vector<double> wrong(n);
            for (std::size_t i = 0; i < n; ++i) wrong[i] = dy[i] * definition(x[i]) / x[i];
            CHECK(gradient_error(x, wrong, loss) > 1e-2);
        }
    }
}

TEST_CASE("fp16 and bf16 are rounded once") {
    machine m;
    const auto h = numbers<fp16>(5000, 1, 3);
    const auto y = forward(m, h);
    CHECK(error_in_ulps(y, h) <= 0.5);
    const auto b = numbers<bf16>(5000, 1, 3);
    CHECK(error_in_ulps(forward(m, b), b) <= 0.5);

    std::vector<fp16> twice; // the sabotage: first to 13 bits, then to 11
    for (std::size_t i = 0; i < h.size(); ++i) {
        std::uint32_t code;
        const float exact = float(definition(float(h[i])));
        std::memcpy(&code, &exact, 4);
        code = (code + 0x3FF) & 0xFFFFF800; // up
        float rounded;
        std::memcpy(&rounded, &code, 4);
        twice.push_back(fp16(rounded));
    }
    CHECK(error_in_ulps(twice, h) > 0.5);
}

TEST_CASE("gelu far out: 0 or x, slopes 0 or 1, nothing that is not finite") {
    machine m;
    for (const float far : {50.0f, 1e10f, 1e30f}) {
        const std::vector<float> x = {far, -far}, one = {1, 1};
        const auto y = forward(m, x), dx = backward(m, one, x);
        CHECK(y[0] == far);
        CHECK(y[1] == 0);
        CHECK(dx[0] == 1);
        CHECK(dx[1] == 0);
    }
    const std::vector<fp16> large = {fp16(65504.0f), fp16(-65504.0f)}; // squares pass fp16's range
    CHECK(float(forward(m, large)[0]) == 65504);
    CHECK(float(backward(m, large, large)[0]) == 65504);
    CHECK(float(backward(m, large, large)[1]) == 0);
}

TEST_CASE("gelu has the same bits for 1, 2 and 3 threads, and in place") {
    machine one(1), two(2), three(3);
    const auto x = numbers<bf16>(70001, 1), dy = numbers<bf16>(70001, 2);
    const auto y = forward(one, x), dx = backward(one, dy, x);
    CHECK(same_bits(y, forward(two, x)));
    CHECK(same_bits(y, forward(three, x)));
    CHECK(same_bits(dx, backward(two, dy, x)));
    auto place = dy;
    gelu_backward<bf16>(three.on, span(place), span(place), span(x));
    CHECK(same_bits(dx, place));
}

TEST_CASE("arrays of different sizes are refused") {
    machine m;
    std::vector<float> a(3), b(4);
    CHECK_THROWS_WITH_AS(gelu_forward<float>(m.on, span(a), span(b)),
                         "gelu: y has 3 elements, x 4; they must agree", error);
}
