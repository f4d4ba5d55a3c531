// SPDX-License-Identifier: MIT
#include "mpt/train/adam8bit.hpp"

#include "mpt/base/memory.hpp"
#include "mpt/nn/checkpointing.hpp"
#include "mpt/nn/gpt_layout.hpp"
#include "mpt/nn/model_size.hpp"
#include "mpt/train/adamw.hpp"
#include "mpt/train/master_weights.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

// Tensors in 8 bits that begin at element 0, at a multiple of 256 and beside one; small ones
// between them; an embedding; one just below and one just at the limit.
layout mixed(std::size_t large = 5003) {
    layout map;
    map.add_unit("a");
    map.tensors[std::size_t(map.add("a.wte", {71, 64}, 1))].looked_up = true;
    map.add("a.gain", {64}, 0, 1);
    map.add("a.w", {4096, 1}, 1);
    map.add("a.one", {1}, 0);
    map.add_unit("b");
    map.add("b.below", {4095, 1}, 1);
    map.add("b.b", {13}, 0);
    map.add("b.w", {large, 1}, 1);
    map.add("b.w2", {2, 2053}, 1);
    return map;
}

template <class T>
struct learner {
    explicit learner(layout l, int threads = 2, std::optional<std::uint64_t> seed = {})
        : map(std::move(l)), machine(threads), rounding_seed(seed),
          weights(rig::numbers<T>(1, map.size(), 1)),
          sizes(sizes_of_moments(map, rig::by_unit<T>(map, weights.data()))),
          master(seed ? 0 : master_size<T>(map.size())), m(sizes.wide), v(sizes.wide),
          m_absmax(sizes.blocks), v_absmax(sizes.blocks), m_codes(sizes.codes),
          v_codes(sizes.codes) {
        for (std::size_t i = 0; i < master.size(); ++i) master[i] = widen(weights[i]);
        own().begin();
    }
    block_moments<T> own() {
        const pieces<T> mine = rig::by_unit<T>(map, weights.data());
        block_moments<T> s;
        if (rounding_seed)
            s.rounding_seed = rounding_seed;
        else
            s.master = master_of<T>(rig::span(master), mine);
        s.m = rig::span(m), s.v = rig::span(v), s.weights = mine;
        s.m_codes = rig::span(m_codes), s.v_codes = rig::span(v_codes);
        s.m_absmax = rig::span(m_absmax), s.v_absmax = rig::span(v_absmax);
        return s;
    }
    template <class G>
    void step(const std::vector<G>& g, double factor, double lr) {
        opt.step(machine.on, map, own(), rig::by_unit<const G>(map, g.data()), factor, lr);
    }
    float p(std::size_t i) const { return master.empty() ? widen(weights[i]) : master[i]; }
    std::uint64_t state() const {
        return rig::digest(
                   weights,
                   rig::digest(
                       master,
                       rig::digest(
                           m,
                           rig::digest(
                               v, rig::digest(m_codes,
                                              rig::digest(v_codes,
                                                          rig::digest(m_absmax,
                                                                      rig::digest(v_absmax)))))))) ^
               std::uint64_t(opt.applied);
    }

    layout map;
    rig::machine machine;
    adam8bit opt;
    std::optional<std::uint64_t> rounding_seed;
    std::vector<T> weights;
    moment_sizes sizes;
    std::vector<float> master, m, v, m_absmax, v_absmax;
    std::vector<std::uint8_t> m_codes, v_codes;
};

// ---- the published algorithm in fp64 ----

// An entry of a map by its definition, in fp64; not what the header computes.
std::vector<double> entries(bool has_sign) {
    std::vector<double> all{0, 1};
    for (int i = 0; i < 7; ++i) {
        const int n = 1 << (has_sign ? i : i + 1);
        for (int j = 0; j < n; ++j) {
            const double middle = (0.1 + 0.9 * (j + 0.5) / n) * std::pow(10.0, i - 6);
            all.push_back(middle);
            if (has_sign) all.push_back(-middle);
        }
    }
    std::sort(all.begin(), all.end());
    return all;
}

struct model {
    // sabotage, each a thing that another program does or has done
    bool m_unsigned = false;   // the unsigned map for m too
    bool over_tensors = false; // blocks of 256 from end to end of a unit
    bool nearest_only = false; // signs not kept
    std::size_t shorter = 256; // maps of so many entries

    std::vector<double> p, m, v; // of all elements; in 8 bits: as they are read back
    std::vector<int> mc, vc;
    std::vector<double> signed_entries = entries(true), unsigned_entries = entries(false);
    long t = 0, decided = 0, close = 0, wrong = 0;

    explicit model(const learner<float>& l)
        : p(l.weights.begin(), l.weights.end()), m(p.size()), v(p.size()), mc(p.size()),
          vc(p.size()) {}

    // The decision for q; where q is within `off` of the middle between two entries, `seen` may be
    // either: then it is taken, and counted as close.
    int decide(const std::vector<double>& map, double q, double off, int seen, bool keep) {
        const auto code = [&](double x) {
            const auto last = map.begin() + long(std::min(map.size(), shorter));
            const auto above = std::lower_bound(map.begin(), last, x);
            long c = above - map.begin();
            if (above == last)
                --c;
            else if (c > 0 && (x - map[std::size_t(c - 1)] < *above - x ||
                               (x - map[std::size_t(c - 1)] == *above - x && x > 0)))
                --c;
            if (keep && !nearest_only && x < 0 && map[std::size_t(c)] == 0) --c;
            return int(c);
        };
        ++decided;
        const int right = code(q);
        if (right == seen) return right;
        if (code(q - off) == seen || code(q + off) == seen) return ++close, seen;
        ++wrong;
        return right;
    }

    // f(elements of a block, number of its first code)
    template <class F>
    void blocks(const layout& map, F f) {
        std::size_t at = 0;
        for (const unit_info& u : map.units) {
            std::vector<std::size_t> block;
            std::size_t cell = 0;
            int tensor = -1;
            for (std::size_t k = 0; k < map.tensors.size(); ++k) {
                const tensor_info& x = map.tensors[k];
                if (x.begin < u.begin || x.begin >= u.end || x.size < 4096 || x.looked_up) continue;
                for (std::size_t i = x.begin; i < x.begin + x.size; ++i) {
                    const bool another = over_tensors
                                             ? block.size() == 256
                                             : (i - u.begin) / 256 != cell || int(k) != tensor;
                    if (another && !block.empty()) f(block, at), at += block.size(), block.clear();
                    block.push_back(i);
                    cell = (i - u.begin) / 256, tensor = int(k);
                }
            }
            if (!block.empty()) f(block, at), at += block.size();
        }
    }

    void step(const adam8bit& o, const layout& map, const std::vector<double>& g, double lr,
              const learner<float>& seen) {
        ++t;
        std::vector<double> sizes(p.size()); // what has been added up to m
        for (const tensor_info& x : map.tensors)
            for (std::size_t i = x.begin; i < x.begin + x.size; ++i) {
                sizes[i] = std::abs(m[i]) + std::abs(g[i]);
                m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
                v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
                if (x.decays) p[i] *= 1 - lr * o.weight_decay;
                p[i] -= lr * m[i] / (1 - std::pow(o.beta1, double(t))) /
                        (std::sqrt(v[i] / (1 - std::pow(o.beta2, double(t)))) + o.eps);
            }
        // fp32 of the other side: v, a sum of positive numbers, is off by at most 2 more ulp a step
        // (its entry times absmax, the sum) and g^2 by 3; m by 2 of what was added up to it, of
        // which a tenth is forgotten in each step: below 2^-20 of the larger of |m| and |g|.
        const double drift = std::ldexp(double(2 * t + 4), -24);
        blocks(map, [&](const std::vector<std::size_t>& block, std::size_t at) {
            double mm = 0, vv = 0;
            for (const std::size_t i : block)
                mm = std::max(mm, std::abs(m[i])), vv = std::max(vv, v[i]);
            for (std::size_t k = 0; k < block.size(); ++k) {
                const std::size_t i = block[k];
                const auto& map_m = m_unsigned ? unsigned_entries : signed_entries;
                const double q = mm > 0 ? m[i] / mm : 0, w = vv > 0 ? v[i] / vv : 0;
                mc[i] =
                    decide(map_m, q, std::ldexp(sizes[i] / (mm > 0 ? mm : 1) + std::abs(q), -20),
                           seen.m_codes[at + k], !m_unsigned);
                vc[i] = decide(unsigned_entries, w, 2 * drift * w, seen.v_codes[at + k], false);
                m[i] = map_m[std::size_t(mc[i])] * mm;
                v[i] = unsigned_entries[std::size_t(vc[i])] * vv;
            }
        });
    }
};

// Gradients over four powers of ten, with signs that come and go, some of them 0.
std::vector<float> uneven(std::size_t n, std::uint32_t step) {
    std::vector<float> g(n);
    for (std::size_t i = 0; i < n; ++i) {
        const float size = std::pow(10.0f, -4 * float(i * 31 % 97) / 97);
        g[i] = (i + step) % 11 == 0 ? 0 : size * (rig::number(100 + step, i) + 0.3f * float(i % 3));
    }
    return g;
}

struct outcome {
    double wrong, close, apart; // shares of the decisions; |p - model| / |model|
};
template <class Spoil>
outcome against_model(long steps, Spoil spoil) {
    learner<float> l(mixed());
    model q(l);
    spoil(q);
    for (long step = 0; step < steps; ++step) {
        const std::vector<float> g = uneven(l.map.size(), std::uint32_t(step));
        std::vector<double> wide;
        for (const float x : g) wide.push_back(double(x) / 64);
        l.step(g, 1.0 / 64, 1e-3);
        q.step(l.opt, l.map, wide, 1e-3, l);
    }
    double apart = 0, length = 0;
    for (std::size_t i = 0; i < q.p.size(); ++i) {
        apart += std::pow(double(l.weights[i]) - q.p[i], 2);
        length += q.p[i] * q.p[i];
    }
    const double n = double(q.decided);
    return {double(q.wrong) / n, double(q.close) / n, std::sqrt(apart / length)};
}

} // namespace

// No decision may differ but where the model itself is within fp32's error of a middle: that is
// 2 * 2^-20 of entries about 2^-6 of themselves apart, 1e-4 of all, and in most of those both sides
// agree. p is rounded in each of 120 steps, as adamw_test.cpp counts it: sqrt(120) * 0.41 * 2^-24 =
// 2.7e-7; the step, 1e-3 to 1e-2 of p, brings 2^-20 of its own at most: 1e-8.
TEST_CASE("120 steps: every code is that of the published algorithm in fp64, and so are weights") {
    const outcome right = against_model(120, [](model&) {});
    CHECK(right.wrong == 0);
    CHECK(right.close < 1e-4);
    CHECK(right.apart < 1e-6);
}
TEST_CASE("sabotage: the same check catches another map, other blocks, a sign that flips") {
    CHECK(against_model(8, [](model& q) { q.m_unsigned = true; }).wrong > 0.1);
    CHECK(against_model(8, [](model& q) { q.over_tensors = true; }).wrong > 0.01);
    CHECK(against_model(8, [](model& q) { q.nearest_only = true; }).wrong > 0);
    CHECK(against_model(8, [](model& q) { q.shorter = 255; }).wrong > 0);
}

TEST_CASE("which tensors: 4096 elements and more, but no embedding; the bytes are the formula's") {
    const learner<float> l(mixed());
    CHECK(l.sizes.codes == 4096 + 5003 + 4106);
    CHECK(l.sizes.wide == 71 * 64 + 64 + 1 + 4095 + 13);
    // a.w begins at 4608 = 18 * 256: 16 blocks. In unit b, which begins at 8705, b.w begins at 4108
    // = 16 * 256 + 12 and ends at 9111 = 35 * 256 + 151: 20. b.w2 up to 13217 = 51 * 256 + 161: 17
    CHECK(l.sizes.blocks == 16 + 20 + 17);
    memory mem;
    const buffer<std::uint8_t> mc(mem, kind::moments, l.sizes.codes, "m"),
        vc(mem, kind::moments, l.sizes.codes, "v");
    const buffer<float> ma(mem, kind::moments, l.sizes.blocks, "m"),
        va(mem, kind::moments, l.sizes.blocks, "v"), m(mem, kind::moments, l.sizes.wide, "m"),
        v(mem, kind::moments, l.sizes.wide, "v");
    CHECK(mem.books.now(kind::moments) == l.sizes.bytes());

    layout one; // nothing but whole blocks
    one.add_unit("u");
    one.add("w", {64, 256}, 1);
    const pieces<float> all{{{nullptr, 64 * 256}, 0}};
    CHECK(double(sizes_of_moments(one, all).bytes()) / (64 * 256) == 2.03125);

    for (const int channels : {128, 36, 100, 4}) { // the estimate's formula counts the same
        gpt_config c;
        c.channels = channels, c.vocabulary = 1001, c.context = 33;
        gpt_tensors names;
        const layout gpt = gpt_layout(c, names);
        const moment_sizes s = sizes_of_moments(gpt, pieces<float>{{{nullptr, gpt.size()}, 0}});
        const model_size m = size_of_gpt(c, checkpointing::parse("none", c.layers), 1, 1, 2);
        CHECK(s.wide == m.wide);
        CHECK(s.blocks == m.blocks8);
        CHECK(s.wide + s.codes == gpt.size());
    }
    gpt_tensors t;
    const layout gpt = gpt_layout({}, t);
    for (const tensor_info& x : gpt.tensors) {
        CHECK(x.looked_up == (x.name == "wte.weight" || x.name == "wpe.weight"));
        const bool matrix = x.shape.size() == 2 && !x.looked_up;
        CHECK(in_8_bits(x) == matrix); // biases of 128 channels are all below 4096
    }
}

TEST_CASE("what stays in 32 bits does what AdamW does, bit for bit") {
    layout map; // nothing but small tensors and an embedding
    map.add_unit("u");
    map.tensors[std::size_t(map.add("wte", {100, 64}, 1))].looked_up = true;
    map.add("w", {4095, 1}, 1);
    learner<float> l(map);
    std::vector<float> w = l.weights, m(map.size()), v(map.size());
    adamw plain;
    const auto mine = rig::by_unit<float>(map, w.data());
    for (std::uint32_t step = 0; step < 20; ++step) {
        const auto g = uneven(map.size(), step);
        l.step(g, 0.5, 1e-3);
        plain.step(l.machine.on, map,
                   adamw_state<float>{mine, rig::span(m), rig::span(v), mine, {}},
                   rig::by_unit<const float>(map, g.data()), 0.5, 1e-3);
    }
    CHECK(rig::same_bits(l.weights, w));
    CHECK(rig::same_bits(l.m, m));
    learner<float> eight(mixed()); // sabotage: in 8 bits they differ
    std::vector<float> w8 = eight.weights, m8(w8.size()), v8(w8.size());
    const auto mine8 = rig::by_unit<float>(eight.map, w8.data());
    adamw other;
    for (std::uint32_t step = 0; step < 2; ++step) {
        const auto g = uneven(w8.size(), step);
        eight.step(g, 0.5, 1e-3);
        other.step(l.machine.on, eight.map,
                   adamw_state<float>{mine8, rig::span(m8), rig::span(v8), mine8, {}},
                   rig::by_unit<const float>(eight.map, g.data()), 0.5, 1e-3);
    }
    CHECK_FALSE(rig::same_bits(eight.weights, w8));
}

TEST_CASE_TEMPLATE("weights are the master rounded, in the same pass", T, fp16, bf16) {
    learner<T> l(mixed(20011));
    for (std::uint32_t step = 0; step < 3; ++step)
        l.step(rig::numbers<T>(3 + step, l.map.size(), 1), 1, 0.1);
    std::size_t wrong = 0, same = 0;
    const std::vector<T> before = rig::numbers<T>(1, l.map.size(), 1);
    for (std::size_t i = 0; i < l.weights.size(); ++i) {
        wrong += l.weights[i].bits != T(l.master[i]).bits;
        same += l.weights[i].bits == before[i].bits;
    }
    CHECK(wrong == 0);
    CHECK(same < 10);
}

TEST_CASE_TEMPLATE("the same bits for any number of threads, with a master and without", T, float,
                   fp16, bf16) {
    const auto run = [](int threads, float last, std::optional<std::uint64_t> seed) {
        learner<T> l(mixed(100003), threads, seed);
        for (std::uint32_t step = 0; step < 3; ++step) {
            std::vector<T> g = rig::numbers<T>(step, l.map.size(), 1);
            g.back() = narrow<T>(wide_t<T>(last));
            l.step(g, 0.5, 1e-3);
        }
        return l.state();
    };
    std::vector<std::optional<std::uint64_t>> seeds{{}};
    if (!own_master<T>) seeds.push_back(7);
    for (const auto& seed : seeds) {
        const std::uint64_t one = run(1, 1, seed);
        for (const int threads : {2, 3, 5}) CHECK(run(threads, 1, seed) == one);
        CHECK(run(1, 1.5f, seed) != one); // the digest sees one gradient
    }
}

TEST_CASE("shards that end at multiples of 256 keep the bits of the whole") {
    const layout map = mixed(20011);
    const auto run = [&](const std::vector<std::size_t>& ends) {
        learner<float> l(map);
        std::vector<float> g = uneven(map.size(), 1);
        for (int step = 0; step < 3; ++step) {
            l.opt.applied = step;
            std::size_t at = 0;
            moment_sizes done;
            for (const std::size_t end : ends) { // one rank after the other, each with its own
                block_moments<float> own;
                own.master = own.weights = {{{l.weights.data() + at, end - at}, at}};
                const moment_sizes s = sizes_of_moments(map, own.weights);
                l.m_absmax.resize(std::max(l.m_absmax.size(), done.blocks + s.blocks));
                l.v_absmax.resize(l.m_absmax.size());
                own.m = {l.m.data() + done.wide, s.wide}, own.v = {l.v.data() + done.wide, s.wide};
                own.m_codes = {l.m_codes.data() + done.codes, s.codes};
                own.v_codes = {l.v_codes.data() + done.codes, s.codes};
                own.m_absmax = {l.m_absmax.data() + done.blocks, s.blocks};
                own.v_absmax = {l.v_absmax.data() + done.blocks, s.blocks};
                l.opt.applied = step;
                l.opt.step(l.machine.on, map, own,
                           pieces<const float>{{{g.data() + at, end - at}, at}}, 1, 1e-3);
                done.codes += s.codes, done.blocks += s.blocks, done.wide += s.wide;
                at = end;
            }
        }
        return rig::digest(l.weights, rig::digest(l.m_codes, rig::digest(l.m)));
    };
    const std::size_t n = map.size();
    const std::uint64_t whole = run({n});
    CHECK(run({256 * 20, n}) == whole);
    CHECK(run({256, 256 * 31, 8705 + 256 * 50, n}) == whole);
    CHECK(run({4608, 8705 + 4108, n}) == whole); // a tensor's edge is a block's too
    CHECK(run({256 * 20 + 100, n}) != whole); // sabotage: an edge inside a cell of a.w
}

TEST_CASE("the same bits with any instructions") { // this file is also built without -march=native
    std::uint64_t h = 0;
    const auto add = [&h](auto&& l) {
        using T = std::decay_t<decltype(l.weights[0])>;
        for (std::uint32_t step = 0; step < 5; ++step)
            l.step(rig::numbers<T>(step, l.map.size(), 1), 0.37, 1e-3);
        h = h * 31 + l.state();
    };
    add(learner<float>(mixed()));
    add(learner<fp16>(mixed()));
    add(learner<bf16>(mixed(), 2, 5));
    CHECK(h == 6474417414333402296u);
}

TEST_CASE("gradients summed in fp32 step 16-bit weights") {
    learner<fp16> from_sum(mixed()), from_half(mixed());
    const std::vector<fp16> half = rig::numbers<fp16>(3, from_sum.map.size(), 1);
    std::vector<float> sum;
    for (const fp16 g : half) sum.push_back(float(g));
    from_half.step(half, 0.25, 1e-2);
    owned_gradients<fp16> g;
    g.sum = rig::by_unit<const float>(from_sum.map, sum.data());
    from_sum.opt.step(from_sum.machine.on, from_sum.map, from_sum.own(), g, 0.25, 1e-2);
    CHECK(from_sum.state() == from_half.state());
}

TEST_CASE("no gradient, no step: codes of 0 stay, nothing is 0/0") {
    learner<fp16> l(mixed());
    l.opt.weight_decay = 0;
    const std::vector<float> before = l.master;
    for (int i = 0; i < 10; ++i) l.step(std::vector<fp16>(l.map.size()), 1, 1e-3);
    CHECK(rig::same_bits(l.master, before));
    CHECK(std::all_of(l.m_codes.begin(), l.m_codes.end(), [](int c) { return c == 127; }));
    CHECK(std::all_of(l.v_codes.begin(), l.v_codes.end(), [](int c) { return c == 0; }));
}

// A row of two: the gradient of one is a thousandth of the other's, then stops.
TEST_CASE("one large gradient in a block: v of the others is 0, and their steps are m / eps") {
    const auto step_of = [](bool embedding, float large) {
        layout map;
        map.add_unit("u");
        map.tensors[std::size_t(map.add("w", {4096, 1}, 1))].looked_up = embedding;
        learner<float> l(map);
        l.opt.weight_decay = 0;
        std::vector<float> g(4096, 0.0f);
        g[0] = large, g[1] = 1e-3f;
        l.step(g, 1, 1e-3);
        const float before = l.weights[1];
        g[1] = 0;
        l.step(g, 1, 1e-3);
        return std::abs(l.weights[1] - before);
    };
    // the second step by the formula: m = .9 * .1 g / .19, v = .999 * .001 g^2 / .002: 0.67 lr
    CHECK(step_of(true, 10) == doctest::Approx(0.67e-3).epsilon(0.02));
    CHECK(step_of(false, 0.01f) == doctest::Approx(0.67e-3).epsilon(0.1));
    CHECK(step_of(false, 10) > 1); // a thousand times lr and more
}

TEST_CASE("what cannot be stepped is refused, and nothing is changed") {
    learner<fp16> l(mixed());
    std::vector<fp16> g = rig::numbers<fp16>(3, l.map.size(), 1);
    const std::uint64_t before = l.state();
    const auto with = [&](auto change) {
        block_moments<fp16> s = l.own();
        change(s);
        return refusal([&] {
            l.opt.step(l.machine.on, l.map, s, rig::by_unit<const fp16>(l.map, g.data()), 1, 1e-3);
        });
    };
    CHECK(says(refusal([&] { l.step(g, NAN, 1e-3); }), "adam8bit: factor nan"));
    CHECK(says(with([](auto& s) { s.master.clear(); }),
               "adam8bit: weights of fp16 without a master"));
    CHECK(says(with([](auto& s) { s.m_codes = s.m_codes.subspan(0, 5); }),
               "adam8bit: 8-bit codes of m and v: 5 and 13205; allocate 13205 each"));
    CHECK(says(with([](auto& s) { s.v_absmax = {}; }), "adam8bit: blocks of m and v: 53 and 0"));
    CHECK(says(with([](auto& s) { s.v = {}; }), "adam8bit: 32-bit moments of m and v: 8717 and 0"));
    l.opt.beta2 = 1;
    CHECK(says(refusal([&] { l.step(g, 1, 1e-3); }), "adam8bit: beta1 0.9, beta2 1,"));
    CHECK(l.state() == before);
    // what inspect() keeps away: an infinite gradient, or one with an infinite square
    l.opt.beta2 = 0.999;
    g[5000] = fp16(INFINITY);
    CHECK(says(refusal([&] { l.step(g, 1, 1e-3); }), "dynamic_map: a block with inf"));
}
