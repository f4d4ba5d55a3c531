// SPDX-License-Identifier: MIT
// The rule itself, at its edges and the same on every machine. Sequences of updates, and the models
// they agree with: tests/train/loss_scale_test.cpp, device_scale_test.cpp.
#include "mpt/numeric/loss_scale_rule.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

using namespace mpt;

namespace {

struct result {
    float scale;
    int good;
    scale_event event;
};
result once(float scale, int good, bool finite, const loss_scale_rule& rule) {
    const scale_event e = update_scale(scale, good, finite, rule);
    return {scale, good, e};
}

} // namespace

TEST_CASE("each event, and what it leaves behind") {
    const loss_scale_rule rule{2, 0.5, 3, 1};
    CHECK(once(8, 0, true, rule).event == scale_event::none);
    CHECK(once(8, 0, true, rule).good == 1);
    const result grew = once(8, 2, true, rule), shrank = once(8, 2, false, rule);
    CHECK(grew.event == scale_event::grew);
    CHECK(grew.scale == 16);
    CHECK(grew.good == 0);
    CHECK(shrank.event == scale_event::shrank);
    CHECK(shrank.scale == 4);
    CHECK(shrank.good == 0);
    const result stuck = once(1, 2, false, rule);
    CHECK(stuck.event == scale_event::stuck);
    CHECK(stuck.scale == 1);
    CHECK(stuck.good == 0);
    CHECK(once(1.5f, 0, false, rule).scale == 1); // not below the minimum
    CHECK(once(1.5f, 0, false, {2, 0.5, 3, 0}).scale == 0.75f);
}

TEST_CASE("the scale grows to the last float below infinity, and no further") {
    const float most = std::numeric_limits<float>::max();
    const auto grown = [](float from, double growth) {
        return once(from, 0, true, {growth, 0.5, 1, 1});
    };
    CHECK(grown(0x1p126f, 2).scale == 0x1p127f);
    CHECK(grown(0x1p127f, 2).event == scale_event::capped);
    CHECK(grown(0x1p127f, 2).scale == 0x1p127f);
    // products that round to the largest float, and the first that rounds to infinity
    CHECK(grown(0x1p126f, 0x1.fffffep0 * 2).scale == most);
    CHECK(grown(0x1p126f, 0x1.fffffefffffp0 * 2).scale == most);
    CHECK(grown(0x1p126f, 0x1.ffffffp0 * 2).event == scale_event::capped);
    CHECK(std::isinf(float(0x1.ffffffp127))); // sabotage: what a bound one step later lets through
    CHECK(grown(1, 1e308 * 10).event == scale_event::capped);
    CHECK(grown(1, std::numeric_limits<double>::quiet_NaN()).event == scale_event::capped);
}

TEST_CASE("products are rounded once, from double") {
    int apart = 0;
    for (int i = 1; i < 2000; ++i) {
        const float scale = 1.0f + float(i) / 1024;
        const double growth = 1 + double(i) / 3000;
        CHECK(once(scale, 0, true, {growth, 0.5, 1, 1}).scale == float(double(scale) * growth));
        apart += float(double(scale) * growth) != scale * float(growth);
    }
    CHECK(apart > 100); // sabotage: factors in fp32 are another rule
}

TEST_CASE("the state on the device: 24 bytes, one update") {
    CHECK(sizeof(scale_state) == 24);
    const loss_scale_rule rule{2, 0.5, 2, 2};
    scale_state s{6, inverse_scale(6), 1, 1, 0, 0};
    update_scale(s, rule);
    CHECK(s.scale == 3);
    CHECK(s.inverse == float(1.0 / 3.0));
    CHECK(s.found_inf == 0);
    CHECK(s.growth_tracker == 0);
    CHECK(s.skipped == 1);
    CHECK(s.stuck == 0);
    s.found_inf = 1, update_scale(s, rule);
    s.found_inf = 1, update_scale(s, rule);
    CHECK(s.scale == 2);
    CHECK(s.skipped == 3);
    CHECK(s.stuck == 1);
    update_scale(s, rule);
    update_scale(s, rule);
    CHECK(s.scale == 4);
    CHECK(s.skipped == 3);
}

TEST_CASE("a hundred thousand updates have the same bits on every machine") {
    const auto digest = [](double growth) {
        scale_state s{65536, inverse_scale(65536), 0, 0, 0, 0};
        const loss_scale_rule rule{growth, 0.37, 2, 0.001f};
        std::uint64_t h = 14695981039346656037u;
        std::uint32_t random = 1;
        for (int i = 0; i < 100000; ++i) {
            random = random * 1664525 + 1013904223;
            s.found_inf = (random >> 16) % 3 == 0 ? 1.0f : 0.0f;
            update_scale(s, rule);
            for (const float x : {s.scale, s.inverse}) {
                std::uint32_t bits;
                std::memcpy(&bits, &x, sizeof bits);
                h = (h ^ bits) * 1099511628211u;
            }
        }
        return h;
    };
    CHECK(digest(5.3) == 4938946453408019596u);
    CHECK(digest(5.3) != digest(5.300001));
}
