// SPDX-License-Identifier: MIT
#include "mpt/numeric/nvfp4.hpp"          // nvfp4_scale, nvfp4_quantize, nvfp4_dequantize
#include "mpt/numeric/rounding_modes.hpp" // toward_zero

#include "mx_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

using namespace mpt;

static_assert(sizeof(nvfp4_block) == 17 && nvfp4_bits == 4.5);

struct tensor { // of any length, blocks of 16
    float scale = 0;
    std::vector<std::uint32_t> scales, codes;
    std::vector<float> values;
    bool operator==(const tensor& t) const {
        bool equal = bits_of(scale) == bits_of(t.scale) && scales == t.scales && codes == t.codes &&
                     values.size() == t.values.size();
        for (std::size_t i = 0; equal && i < values.size(); ++i)
            equal = mx_model::same(values[i], bits_of(t.values[i]));
        return equal;
    }
};

static nvfp4_tensor_scale scale_of(const std::vector<float>& x, nvfp4_flow flow) {
    return nvfp4_scale(finite_amax(x.data(), x.size()), flow);
}
static tensor quantised_by(const std::vector<float>& x, nvfp4_tensor_scale scale, nvfp4_flow flow) {
    tensor t;
    t.scale = scale.decode;
    t.values.resize(x.size());
    for (std::size_t i = 0; i < x.size(); i += 16) {
        const int n = int(std::min<std::size_t>(16, x.size() - i));
        const nvfp4_block b = nvfp4_quantize(x.data() + i, scale, n, flow);
        t.scales.push_back(b.scale.bits);
        for (int k = 0; k < n; ++k) t.codes.push_back(b.elements[k].bits);
        nvfp4_dequantize(b, scale, t.values.data() + i, n);
    }
    return t;
}
static tensor quantised(const std::vector<float>& x, nvfp4_flow flow) {
    return quantised_by(x, scale_of(x, flow), flow);
}

using quantiser = tensor (*)(const std::vector<float>&, nvfp4_flow);
static std::vector<int> wrong_tensors(const std::string& name, nvfp4_flow flow, quantiser f) {
    const auto in = mx_model::table("blocks_in.csv");
    std::vector<int> wrong;
    for (const auto& r : mx_model::table("nvfp4_" + name + ".csv")) {
        const tensor wanted{float_of(mx_model::hex(r[1])), mx_model::hexes(r[2], 2),
                            mx_model::hexes(r[3], 1), mx_model::floats(r[4])};
        const std::size_t id = std::stoul(r[0]);
        if (!(f(mx_model::floats(in[id][2]), flow) == wanted)) wrong.push_back(int(id));
    }
    return wrong;
}

TEST_CASE("the tables: 51 tensors of two blocks, three flows") {
    const auto all = {std::pair{"exact", nvfp4_flow::exact},
                      {"paper", nvfp4_flow::paper},
                      {"te", nvfp4_flow::transformer_engine}};
    for (const auto& [name, flow] : all) {
        CAPTURE(name);
        CHECK(mx_model::table(std::string("nvfp4_") + name + ".csv").size() == 51);
        CHECK(wrong_tensors(name, flow, quantised).empty());
        // sabotage: blocks that do without the scale of the tensor; their own scales truncated;
        // an amax that passes over NaN
        CHECK(!wrong_tensors(name, flow, [](const std::vector<float>& x, nvfp4_flow f) {
                   tensor t = quantised_by(x, {}, f);
                   t.scale = scale_of(x, f).decode;
                   return t;
               }).empty());
        CHECK(!wrong_tensors(name, flow, [](const std::vector<float>& x, nvfp4_flow f) {
                   tensor t = quantised(x, f);
                   for (std::size_t b = 0; b < t.scales.size(); ++b)
                       if (const float amax = block_amax(x.data() + 16 * b, 16);
                           std::isfinite(amax))
                           t.scales[b] = toward_zero<e4m3>(amax / 6 / t.scale).bits;
                   return t;
               }).empty());
        CHECK(wrong_tensors(name, flow, [](const std::vector<float>& x, nvfp4_flow f) {
                  std::vector<float> clean = x;
                  for (float& v : clean) v = std::isfinite(v) ? v : 0;
                  return quantised(clean, f);
              }) == std::vector<int>{47, 48, 49, 50});
    }
    // The flows are three: taken for one another, powers of two (26) show it.
    const auto as_exact = wrong_tensors("paper", nvfp4_flow::exact, quantised);
    CHECK(std::count(as_exact.begin(), as_exact.end(), 26) == 1);
    CHECK(!wrong_tensors("exact", nvfp4_flow::transformer_engine, quantised).empty());
}

TEST_CASE("1/6 as a factor is not division by 6: a tie of a block's scale shows it") {
    // amax 12: S = 2688 / 12 = 224. A block up to 9: paper, 9 / 6 * 224 = 336, a tie between 320
    // (7A) and 352, goes to the even code. fp32(1/6) is above 1/6: 336 and an ulp, 352 (7B). The
    // elements then are 9 / (320 / 224) = 6.3, past the largest, and 9 / (352 / 224) = 5.7: 6.
    std::vector<float> x(32, 1);
    x[0] = 12, x[16] = 9;
    const tensor paper = quantised(x, nvfp4_flow::paper);
    const tensor te = quantised(x, nvfp4_flow::transformer_engine);
    CHECK(paper.scales == std::vector<std::uint32_t>{0x7E, 0x7A});
    CHECK(te.scales == std::vector<std::uint32_t>{0x7E, 0x7B});
    CHECK(paper.values[16] == doctest::Approx(6 * 320 / 224.0));
    CHECK(te.values[16] == doctest::Approx(6 * 352 / 224.0));
}

// The exact flow by definition: nearest by distance in double, where all products are exact.
static tensor by_definition(const std::vector<float>& x) {
    const auto e2 = mx_model::by_name("e2m1"), e4 = mx_model::by_name("e4m3");
    const double most = mx_model::amax(x);
    tensor t;
    t.scale = most == 0 ? 1 : std::fmax(float(most / 2688), 0x1p-126f);
    for (std::size_t i = 0; i < x.size(); i += 16) {
        const std::vector<float> part(x.begin() + long(i),
                                      x.begin() + long(std::min(x.size(), i + 16)));
        if (mx_model::poisoned(part)) {
            t.scales.push_back(0x7F);
            for (std::size_t k = 0; k < part.size(); ++k) {
                t.codes.push_back(0);
                t.values.push_back(std::numeric_limits<float>::quiet_NaN());
            }
            continue;
        }
        const int scale = mx_model::nearest(mx_model::amax(part), 6.0 * double(t.scale), e4.values);
        const double unit = e4.values[std::size_t(scale)] * double(t.scale);
        t.scales.push_back(std::uint32_t(scale));
        for (const float v : part) {
            const int code = unit == 0 ? 0 : mx_model::nearest(v, unit, e2.values);
            t.codes.push_back(std::uint32_t(code | (std::signbit(v) ? 8 : 0)));
            const double value = e2.values[std::size_t(code)] * unit;
            t.values.push_back(float(std::copysign(value, double(v))));
        }
    }
    return t;
}

TEST_CASE("random tensors, also with poisoned and short blocks, against the definition") {
    std::size_t wrong = 0, paper = 0, te = 0, tensors = 0;
    const auto e = mx_model::by_name("e2m1");
    for (std::uint32_t i = 0; i < 4000; ++i)
        for (const int n : {32, 47, 1}) {
            std::vector<float> x = mx_model::random_block(i * 5 + std::uint32_t(n), n, e);
            if (i % 50 == 7) x[i % x.size()] = std::numeric_limits<float>::infinity();
            if (i % 50 == 8) x[i % x.size()] = std::numeric_limits<float>::quiet_NaN();
            const tensor wanted = by_definition(x);
            wrong += !(quantised(x, nvfp4_flow::exact) == wanted);
            paper += !(quantised(x, nvfp4_flow::paper) == wanted);
            te += !(quantised(x, nvfp4_flow::transformer_engine) == wanted);
            ++tensors;
        }
    CHECK(tensors == 12000);
    CHECK(wrong == 0);
    CHECK(paper > 0); // sabotage: other flows, where the tensor's scale alone may differ by an ulp
    CHECK(te > 0);
}

TEST_CASE("nothing to scale; and a small block beside a large one vanishes") {
    const tensor zeros = quantised(std::vector<float>(32, -0.0f), nvfp4_flow::paper);
    CHECK(zeros.scale == 1);
    CHECK(zeros.scales == std::vector<std::uint32_t>{0, 0});
    for (const auto flow : {nvfp4_flow::exact, nvfp4_flow::paper, nvfp4_flow::transformer_engine}) {
        std::vector<float> x(32, 0x1p-19f);
        x[0] = 1; // 2^-19 is below 1 / 458752, its scale below half the smallest e4m3
        const tensor t = quantised(x, flow);
        CHECK(t.scales[1] == 0);
        CHECK(t.values[31] == 0);
        CHECK(t.values[0] == doctest::Approx(1));
        x[0] = 0.5f; // now it is above
        CHECK(quantised(x, flow).values[31] != 0);
    }
    CHECK(quantised({}, nvfp4_flow::paper).scales.empty());
}

TEST_CASE("NVFP4's largest element is 6 where MXFP4's may be 4") {
    // amax 5: a power of two leaves it there, a tie, to 4; a scale with a mantissa makes it 6
    const std::vector<float> x = {5, 1, -2.5f};
    const tensor t = quantised(x, nvfp4_flow::exact);
    CHECK(t.codes[0] == 7);
    CHECK(t.values[0] == doctest::Approx(5).epsilon(1e-6));
    std::array<float, 3> mx{};
    mx_dequantize(mx_quantize<e2m1>(x.data(), 3), mx.data(), 3);
    CHECK(mx[0] == 4);
}
