// SPDX-License-Identifier: MIT
#include "mpt/kernels/attention.cuh"
#include "mpt/kernels/elementwise.cuh"
#include "mpt/nn/attention.hpp"
#include "tests/kernels/attentions.hpp"

#include <doctest/doctest.h>

using namespace attentions;

namespace {

// Around the tiles of 32 and 64; one head and groups; Tq and Tk apart; head_dim that is no multiple
// of 4; gaps and odd addresses.
const kind kinds[] = {{1, 1, 1, 1, 1, 1},
                      {2, 2, 2, 2, 1, 3},
                      {1, 31, 31, 4, 2, 8},
                      {1, 33, 33, 2, 2, 33, true, 0, 3},
                      {1, 63, 63, 2, 1, 16, false},
                      {2, 64, 64, 1, 1, 64, true, 0, 8},
                      {1, 65, 65, 3, 1, 80, true, 0, 0, 1},
                      {1, 129, 129, 2, 1, 12},
                      {1, 7, 70, 2, 1, 20},
                      {1, 1, 257, 2, 2, 32},
                      {1, 70, 7, 2, 1, 20},
                      {1, 65, 33, 2, 1, 128, false, 0, 4},
                      {1, 34, 34, 1, 1, 128}};

} // namespace

TEST_CASE_TEMPLATE("attention and its gradients", T, float, __half, __nv_bfloat16) {
    for (const kind& is : kinds) {
        if (probed && is.Tq * is.Tk * is.D > 70000) continue; // time
        problem<T> p(is, 1);
        p.run(attention_forward_fma<T>, attention_backward_fma<T>);
        std::string what = p.compare(false);
        CHECK_MESSAGE(what == "", "multiply-adds: ", text(is), ": ", what);
        if (sizeof(T) == 4) continue;
        p.run();
        what = p.compare();
        CHECK_MESSAGE(what == "", "tensor cores: ", text(is), ": ", what);
    }
}

TEST_CASE_TEMPLATE("dropout drops what the loops drop", T, float, __half, __nv_bfloat16) {
    for (const kind& is :
         {kind{2, 33, 33, 4, 2, 8, true, 0.3f}, kind{1, 64, 64, 2, 1, 40, true, 0.5f},
          kind{1, 6, 43, 2, 1, 8, false, 0.1f}}) {
        problem<T> p(is, 1);
        p.run();
        const std::string what = p.compare();
        CHECK_MESSAGE(what == "", text(is), ": ", what);
        kind other = is; // the sabotage: without it the numbers are others
        other.p = 0;
        p.is = other;
        CHECK(p.compare() != "");
    }
}

TEST_CASE_TEMPLATE("dropout's step and sample may lie in device memory", T, float, __half) {
    problem<T> p({1, 35, 35, 2, 1, 8, true, 0.4f}, 1);
    p.placed = true;
    p.run();
    CHECK(p.compare() == "");
}

TEST_CASE("the plain loop gives the same") {
    const mpt::attention_shape s{2, 65, 4, 2, 20};
    const std::size_t width = mpt::qkv_width(s), rows = 2 * 65;
    const auto qkv = checks::numbers<float>(rows * width, 5);
    const auto dout = checks::numbers<float>(rows * mpt::heads_width(s), 6);
    std::vector<float> out(dout.size()), lse(rows * 4), dqkv(qkv.size());
    checks::machine m;
    mpt::attention_forward<float>(m.on, checks::span(out), checks::span(lse), checks::span(qkv), s,
                                  0.2f, {11, 1, 2, 3});
    mpt::attention_backward<float>(m.on, checks::span(dqkv), checks::span(dout), checks::span(qkv),
                                   checks::span(out), checks::span(lse), s, 0.2f, {11, 1, 2, 3});
    // the same arrays, as a layer of a model has them: q, k, v side by side
    const array<float> x(qkv), go(dout);
    array<float> y(out.size()), sums(lse.size()), gx(qkv.size());
    const scratch room(attention_backward_bytes(2, 4, 65));
    attention_backward_args<float> a;
    attention_args<float>& f = a.forward;
    f.q = x, f.k = x.data() + 80, f.v = x.data() + 120, f.out = y, f.lse = sums;
    f.B = 2, f.Tq = f.Tk = 65, f.heads = 4, f.kv_heads = 2, f.head_dim = 20;
    f.q_stride = f.kv_stride = width, f.out_stride = 80;
    f.drop.p = 0.2f, f.drop.seed = 11, f.drop.layer = 1, f.drop.step = 2, f.drop.sample = 3;
    a.dout = go, a.dq = gx, a.dk = gx.data() + 80, a.dv = gx.data() + 120, a.scratch = room;
    attention_forward(f, stream());
    attention_backward(a, stream());
    // Both are off by some 100 roundings of numbers of size up to 8 (compare() has the exact sum).
    const auto near = [](std::size_t) { return 100 * 8 * 0x1p-24; };
    CHECK(difference(y.read(), checks::doubles(out), near) == "");
    CHECK(difference(sums.read(), checks::doubles(lse), near) == "");
    CHECK(difference(gx.read(), checks::doubles(dqkv), near) == "");
}

TEST_CASE("the definition by hand: three queries and keys of two") {
    // q, k, v, dout; scale 1/sqrt(2); results from an independent implementation in fp64
    const std::vector<float> q{1, 0, 0.5, -1, 2, 1}, k{1, 1, 0, 2, -1, 0.5}, v{1, 2, 3, -1, 0, 1},
        dout{1, 0, 0, 1, 1, 1};
    const auto close = [](std::size_t) { return 8 * 0x1p-23; }; // some roundings of numbers up to 3
    const auto run = [&](kind is) {
        problem<float> p(is, 1);
        p.q = q, p.k = k, p.v = v, p.dout = dout;
        p.run();
        return p;
    };
    const problem<float> full = run({1, 3, 3, 1, 1, 2, false});
    CHECK(difference(full.out, {1.427961574439142, 1.007984525732842, 0.9952479515946691,
                                1.1501383113118036, 1.61556835779185, 1.0090335393870948},
                     close) == "");
    CHECK(difference(full.lse, {1.258797203834439, 0.3635132582889653, 2.549571902013722}, close) ==
          "");
    CHECK(difference(full.dq, {-0.0329079960729088, 0.38638427882778026, 0.3297621602791598,
                               -0.2387808551949341, 0.20404662636334053, -0.12637398058546023},
                     close) == "");
    CHECK(difference(full.dk, {0.31834144605225473, -0.12039207019328088, -0.09661655531115666,
                               0.1150686064707428, -0.22172489074109744, 0.005323463722538355},
                     close) == "");
    CHECK(difference(full.dv, {1.227622811964359, 1.139829634173947, 0.605302373422211,
                               0.49032889173752414, 0.16707481461342996, 0.3698414740885291},
                     close) == "");
    const problem<float> causal = run({1, 3, 3, 1, 1, 2});
    CHECK(difference(causal.out, {1.0, 2.0, 1.514366630453614, 1.2284500543195789, 1.61556835779185,
                                  1.0090335393870948},
                     close) == "");
    CHECK(difference(causal.lse,
                     {0.7071067811865475, -0.05624740283687252, 2.549571902013722}, close) == "");
    CHECK(difference(causal.dq, {0.0, 0.0, 0.4052571606126827, -0.4052571606126825,
                                 0.20404662636334053, -0.12637398058546023},
                     close) == "");
    CHECK(difference(causal.dk, {0.5485837164107187, -0.23227959256049402, -0.4864455997884143,
                                 0.2633486508716461, -0.06213811662230373, -0.031069058311151865},
                     close) == "");
    CHECK(difference(causal.dv, {1.6516474667489969, 1.39446415152219, 0.321306963680951,
                                 0.5784902789077581, 0.02704556957005193, 0.02704556957005193},
                     close) == "");
}

TEST_CASE("long rows: the largest score comes late, sums stay in range") {
    // Scores up to about 60: e^60 squared would overflow a float if the largest were not taken off.
    kind is{1, 129, 129, 1, 1, 16};
    problem<float> p(is, 1, 4);
    p.run();
    const reference w = p.wanted();
    CHECK(*std::max_element(w.lse.begin(), w.lse.end()) > 40);
    CHECK(p.compare() == "");
    problem<__half> h({1, 65, 65, 1, 1, 64}, 1); // q k = 64 * 40 * 40 = 102400, past fp16's range
    std::fill(h.q.begin(), h.q.end(), mpt::fp16(40.0f));
    std::fill(h.k.begin(), h.k.end(), mpt::fp16(40.0f));
    h.run();
    for (const mpt::fp16 x : h.out) CHECK(std::isfinite(float(x)));
    CHECK(h.lse[0] == doctest::Approx(12800));
}

TEST_CASE_TEMPLATE("any order of threads gives the same bits", T, float, __nv_bfloat16) {
    problem<T> p({1, 35, 35, 4, 2, 9, true, 0.2f}, 1);
    const std::string what = in_all_orders([&] {
        p.run();
        auto all = p.out;
        for (const auto* more : {&p.dq, &p.dk, &p.dv})
            all.insert(all.end(), more->begin(), more->end());
        return all;
    });
    CHECK(what == "");
}

TEST_CASE("shapes that are not handled are refused by name; nothing to do is done") {
    const auto said = [](kind is) -> std::string {
        attention_args<float> x;
        x.B = is.B, x.Tq = is.Tq, x.Tk = is.Tk;
        x.heads = is.heads, x.kv_heads = is.kv_heads, x.head_dim = is.D;
        try {
            attention_forward(x, stream());
            attention_backward_args<float> y;
            y.forward = x;
            attention_backward(y, stream());
        } catch (const std::exception& e) {
            return e.what();
        }
        return "";
    };
    CHECK(said({1, 1, 1, 1, 1, 129}) ==
          "attention: head_dim is 129; wanted is 1 to 128: use more, narrower heads");
    CHECK(said({1, 1, 1, 1, 1, 0}) ==
          "attention: head_dim is 0; wanted is 1 to 128: use more, narrower heads");
    CHECK(said({1, 1, 1, 6, 4, 8}) ==
          "attention: 6 query heads and 4 key/value heads; the latter must divide the former");
    CHECK(said({0, 5, 5, 1, 1, 8}) == "");
    CHECK(said({1, 0, 0, 1, 1, 8}) == "");
}

TEST_CASE("the comparison can fail: another mask, scale, group or value") {
    const kind right{1, 33, 40, 4, 2, 8};
    problem<float> p(right, 1);
    p.run();
    CHECK(p.compare() == "");
    for (int wrong = 0; wrong < 4; ++wrong) {
        problem<float> q = p;
        if (wrong == 0) q.is.causal = false;
        if (wrong == 1) q.is.scale = 0.3f;
        if (wrong == 2) std::swap(q.k[0], q.k[8]); // the two kv heads of the first position
        if (wrong == 3) q.v[5] += 0.001f;
        CAPTURE(wrong);
        CHECK(q.compare() != "");
    }
}

TEST_CASE("sabotage: what is written into the gap behind a position is seen") {
    problem<float> p({1, 3, 3, 1, 1, 2, true, 0, 2}, 1);
    CHECK_NOTHROW(p.run());
    const auto too_far = [](attention_args<float> x, cudaStream_t s) {
        attention_forward(x, s);
        fill(x.out + x.out_stride + 2, 1.0f, 1, s); // position 1, behind its head of 2
    };
    CHECK_THROWS(p.run(too_far));
}
