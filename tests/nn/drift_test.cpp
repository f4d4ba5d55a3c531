// SPDX-License-Identifier: MIT
#include "mpt/nn/drift.hpp"
#include "checks.hpp"

#include <doctest/doctest.h>

using namespace mpt;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float none = std::numeric_limits<float>::quiet_NaN();

template <class Low = fp16>
drift of(std::vector<float> low, std::vector<float> exact) {
    return compare<Low>(low, exact);
}

} // namespace

TEST_CASE("drift: angle, length, largest error, by hand") {
    const drift same = of({3, -4}, {3, -4});
    CHECK(same.cosine == 1);
    CHECK(same.relative == 0);
    CHECK(same.max_relative == 0);
    const drift turned = of({4, 3}, {3, -4}); // a right angle
    CHECK(turned.cosine == 0);
    CHECK(turned.relative == doctest::Approx(std::sqrt(2.0)));
    CHECK(turned.max_relative == doctest::Approx(7.0 / 4));
    const drift longer = of({6, -8}, {3, -4}); // a cosine does not see a length
    CHECK(longer.cosine == doctest::Approx(1));
    CHECK(longer.relative == doctest::Approx(1));
    CHECK(of({0, 0}, {0, 0}).relative == 0);
    CHECK(std::isinf(of({0, 1}, {0, 0}).relative));
    CHECK(of({}, {}).relative == 0);
    CHECK_THROWS_WITH_AS(of({1}, {1, 2}),
                         "drift: 1 numbers against 2; compare the same tensor of two runs", error);
}

TEST_CASE("drift: shares of what is not zero in fp32; overflow and underflow are told apart") {
    //                   exact zero  kept  flushed  subnormal  overflow    made of it
    const drift d = of({1, 0.5f, 0, 0x1p-15f, inf, none}, {0, 0.5f, 1e-9f, 0x1p-15f, 1e6f, 2});
    CHECK(d.underflow == 20);
    CHECK(d.subnormal == 20);
    CHECK(d.overflow == 40);
    CHECK(d.inf == 1);
    CHECK(d.nan == 1);
    CHECK(d.inf_first);
    CHECK(std::isinf(d.relative));
    CHECK(std::isnan(d.cosine));
    CHECK(!of({none, inf}, {1, 1}).inf_first);
    CHECK(of<bf16>({0x1p-15f}, {0x1p-15f}).subnormal == 0); // bf16's range is fp32's
    // The smallest normal number has all bits, the one below it one less; signs do not matter.
    const float normal = format<fp16>::min_normal, below = normal - 0x1p-24f;
    CHECK(of({normal, -normal, below, -below}, {normal, -normal, below, -below}).subnormal == 50);
}

TEST_CASE("drift of one rounding is a third of u, and below its bound u") {
    // The error of a rounding is uniform in half an ulp each way, an ulp is eps to eps/2 of the
    // number: rms u / sqrt(3) times 0.5 to 1. 10000 numbers: within a few percent of the mean.
    const auto x = checks::numbers<float>(10000, 1);
    std::vector<float> low;
    for (const float v : x) low.push_back(float(fp16(v)));
    const double u = 0x1p-11;
    const drift d = of(low, x);
    CHECK(d.relative < u / std::sqrt(3.0));
    CHECK(d.relative > u / std::sqrt(12.0));
    for (float& v : low) v = float(fp16(v * 1.001f)); // the sabotage: one part in a thousand more
    CHECK(of(low, x).relative > u);
}

TEST_CASE("the bound of a site: u for a rounding, three of them at each site that has run low") {
    struct list { // what drift_bounds asks of autocast
        std::vector<bool> low;
        const std::vector<bool>& sites() const { return low; }
        bool ran_low(std::size_t i) const { return low[i]; }
    };
    const std::vector<double> bounds = drift_bounds<fp16>(list{{false, true, false, true}});
    CHECK(bounds.size() == 4);
    CHECK(bounds[0] == 0);
    CHECK(bounds[1] == doctest::Approx(0x1p-11 * std::sqrt(3.0)));
    CHECK(bounds[2] == bounds[1]);
    CHECK(bounds[3] == doctest::Approx(0x1p-11 * std::sqrt(6.0)));
    CHECK(drift_bounds<bf16>(list{{true}})[0] == doctest::Approx(0x1p-8 * std::sqrt(3.0)));
}

TEST_CASE("the first site that is out of its bound") {
    std::vector<drift> drifts(3);
    drifts[0].relative = 0, drifts[1].relative = 0.1, drifts[2].relative = INFINITY;
    CHECK(first_beyond(drifts, {0, 0.1, 1}) == 2);
    CHECK(first_beyond(drifts, {0, 0.09, 1}) == 1);
    drifts[2].relative = 1;
    CHECK(first_beyond(drifts, {0, 0.1, 1}) == 3); // none
}

TEST_CASE("the loss moves less than its bound when all logits do, and more when one is lost") {
    const int V = 50, rows = 40;
    const auto x = checks::numbers<float>(V * rows, 2, 3);
    const auto targets = checks::tokens(rows, 4, V);
    const auto loss = [&](const std::vector<float>& logits) {
        double sum = 0;
        for (std::size_t r = 0; r < rows; ++r) {
            double z = 0;
            for (std::size_t j = 0; j < V; ++j) z += std::exp(double(logits[r * V + j]));
            sum += std::log(z) - double(logits[r * V + std::size_t(targets[r])]);
        }
        return sum / rows;
    };
    std::vector<float> low;
    for (const float v : x) low.push_back(float(bf16(v)));
    const double bound = loss_bound(of<bf16>(low, x).relative, x);
    CHECK(std::abs(loss(low) - loss(x)) < bound);
    for (std::size_t r = 0; r < rows; ++r) low[r * V + std::size_t(targets[r])] = 0;
    CHECK(std::abs(loss(low) - loss(x)) > bound);
}
