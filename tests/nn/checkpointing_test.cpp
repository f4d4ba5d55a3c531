// SPDX-License-Identifier: MIT
#include "mpt/nn/checkpointing.hpp"
#include "checks.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/loops.hpp"
#include "tests/dist/hiding_rank.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <string>

using namespace mpt;

namespace {

gpt_config small(int layers, float dropout = 0, int heads = 2, int kv_heads = 1) {
    gpt_config c;
    c.layers = layers, c.heads = heads, c.kv_heads = kv_heads;
    c.channels = 12, c.context = 7, c.vocabulary = 19, c.dropout = dropout;
    return c;
}

// loops that do something wrong, or count, in a forward that backward has asked for.
struct meddler : loops {
    using loops::loops;
    enum kind_of { nothing, masks, layernorm, linear, attention, residual, gelu } wrong = nothing;
    bool in_backward = false;
    mutable std::set<int> drawn_anew;                       // layers of dropout keys
    mutable double in_blocks = 0, again = 0, both_ways = 0; // products' multiply-adds

    dropout_key key(dropout_key k) const { // of a recomputation that does not draw the same again
        if (wrong == masks && in_backward) drawn_anew.insert(k.layer), k.step += 1;
        return k;
    }
    dropout_key backward_key(dropout_key k) const { // backward through the masks last drawn
        if (drawn_anew.count(k.layer)) k.step += 1;
        return k;
    }
    bool skips(kind_of what) const { return wrong == what && in_backward; }
    void count(double forward, double backward) const {
        both_ways += backward + (in_backward ? 0 : forward);
        again += in_backward ? forward : 0;
    }
    static double products(linear_shape s) { return double(s.rows) * s.in * s.out; }
    static double products(attention_shape s) { // a product: T (T + 1) / 2 scores of each head
        return double(s.B) * s.heads * s.head_dim * s.T * (s.T + 1) / 2;
    }

    template <class T>
    void linear_forward(device_span<T> y, device_view<T> x, device_view<T> w, device_view<T> bias,
                        linear_shape s) const {
        count(bias.empty() ? 0 : products(s), 0); // the head has no bias
        if (!skips(linear)) loops::linear_forward<T>(y, x, w, bias, s);
    }
    template <class T>
    void linear_backward(device_span<T> dx, device_span<T> dw, device_span<T> dbias,
                         device_view<T> dy, device_view<T> x, device_view<T> w,
                         linear_shape s) const {
        count(0, dbias.empty() ? 0 : 2 * products(s));
        loops::linear_backward<T>(dx, dw, dbias, dy, x, w, s);
    }
    template <class T>
    void attention_forward(device_span<T> out, device_span<wide_t<T>> lse, device_view<T> qkv,
                           attention_shape s, float p, dropout_key k) const {
        count(2 * products(s), 0);
        if (!skips(attention)) loops::attention_forward<T>(out, lse, qkv, s, p, key(k));
    }
    template <class T>
    void attention_backward(device_span<T> dqkv, device_view<T> dout, device_view<T> qkv,
                            device_view<T> out, device_view<wide_t<T>> lse, attention_shape s,
                            float p, dropout_key k) const {
        count(0, 5 * products(s));
        loops::attention_backward<T>(dqkv, dout, qkv, out, lse, s, p, backward_key(k));
    }
    template <class T>
    void layernorm_forward(device_span<T> y, device_span<wide_t<T>> mean,
                           device_span<wide_t<T>> rstd, device_view<T> x, device_view<T> gamma,
                           device_view<T> beta, layernorm_shape s) const {
        if (!skips(layernorm)) loops::layernorm_forward<T>(y, mean, rstd, x, gamma, beta, s);
    }
    template <class T>
    void gelu_forward(device_span<T> y, device_view<T> x) const {
        if (!skips(gelu)) loops::gelu_forward<T>(y, x);
    }
    template <class T>
    void residual_forward(device_span<T> out, device_view<T> x, device_view<T> branch, float p,
                          dropout_key k, dropout_shape s) const {
        if (!skips(residual)) loops::residual_forward<T>(out, x, branch, p, key(k), s);
    }
    template <class T>
    void dropout_backward(device_span<T> dx, device_view<T> dy, float p, dropout_key k,
                          dropout_shape s) const {
        loops::dropout_backward<T>(dx, dy, p, backward_key(k), s);
    }
};

// Counts acquires, and how many units are held at a time.
template <class T>
struct counting_rank : hiding_rank<T> {
    using hiding_rank<T>::hiding_rank;
    std::vector<int> acquired; // units in order
    int held = 0, most = 0;
    device_span<const T> acquire(device_span<const T> weights, int unit) override {
        acquired.push_back(unit);
        most = std::max(most, ++held);
        return hiding_rank<T>::acquire(weights, unit);
    }
    void release(int unit) override {
        --held;
        hiding_rank<T>::release(unit);
    }
};

template <class T>
struct outcome {
    std::vector<T> micro;
    std::vector<float> sum;
    double loss = 0;
    bool operator==(const outcome& o) const {
        return loss == o.loss && checks::same_bits(micro, o.micro) && checks::same_bits(sum, o.sum);
    }
};

// A window of micro-batches, on weights that are hidden where they are not acquired.
template <class T>
struct run {
    run(const gpt_config& c, const checkpointing& plan, int threads = 2, int B = 2)
        : pool(threads), ops(pool, mem, gpt_scratch<T>(c, B, c.context)), model(c, ops, 7),
          weights(model.map.size()), s(ops, model.map, checks::span(weights)),
          acts(mem, c, B, c.context, plan) {
        std::vector<float> values(weights.size());
        initial_values(model.map, 3, 0, values);
        for (std::size_t i = 0; i < values.size(); ++i)
            weights[i] = narrow<T>(wide_t<T>(values[i] * 5 + 0.05 * std::sin(double(i))));
    }
    outcome<T> window(int micros = 1) {
        outcome<T> r;
        r.micro.resize(weights.size());
        if (micros > 1) r.sum.assign(weights.size(), std::numeric_limits<float>::quiet_NaN());
        gradients<T> g{checks::span(r.micro), checks::span(r.sum)};
        const std::size_t n = acts.n();
        for (int micro = 0; micro < micros; ++micro) {
            const auto inputs = checks::tokens(n, std::uint32_t(2 * micro), 19);
            const auto targets = checks::tokens(n, std::uint32_t(2 * micro + 1), 19);
            const batch b{checks::span(inputs), checks::span(targets), acts.B, acts.T_, micro, 5,
                          2 + micro * acts.B};
            ops.in_backward = false;
            r.loss += model.forward(s, s.hidden(), b, acts);
            ops.in_backward = true;
            model.backward(s, s.hidden(), b, acts, 0.25f, g);
        }
        s.finish(g);
        return r;
    }

    memory mem;
    thread_pool pool;
    meddler ops;
    gpt<T, meddler> model;
    std::vector<T> weights;
    counting_rank<T> s;
    gpt_acts<T> acts;
};

std::vector<checkpointing> plans(int layers) {
    std::vector<checkpointing> all{checkpointing::none(layers), checkpointing::sqrt(layers)};
    for (int k = 1; k <= layers; ++k) all.push_back(checkpointing::every(k, layers));
    for (int l = 0; l < layers; ++l) all.push_back(checkpointing::chosen({l}, layers));
    std::vector<int> third;
    for (int l = 0; l < layers; l += 3) third.push_back(l);
    all.push_back(checkpointing::chosen(third, layers));
    return all;
}

std::string refusal(const std::string& words, int blocks) {
    try {
        checkpointing::parse(words, blocks);
    } catch (const error& e) {
        return e.what();
    }
    return "not refused";
}
std::string shape(const checkpointing& plan) { // "0-2 again, 2-5"
    std::string text;
    for (const segment& g : plan.segments)
        text += (text.empty() ? "" : ", ") + std::to_string(g.begin) + "-" + std::to_string(g.end) +
                (g.again ? " again" : "");
    return text;
}

} // namespace

TEST_CASE("plans: segments in order, the last one kept") {
    CHECK(shape(checkpointing::none(3)) == "0-1, 1-2, 2-3");
    CHECK(shape(checkpointing::every(1, 3)) == "0-1 again, 1-2 again, 2-3");
    CHECK(shape(checkpointing::every(2, 5)) == "0-2 again, 2-4 again, 4-5");
    CHECK(shape(checkpointing::every(3, 5)) == "0-3 again, 3-5");
    CHECK(shape(checkpointing::every(5, 5)) == "0-5");
    CHECK(shape(checkpointing::sqrt(1)) == "0-1");
    CHECK(shape(checkpointing::sqrt(12)) == "0-3 again, 3-6 again, 6-9 again, 9-12");
    CHECK(shape(checkpointing::sqrt(6)) == "0-2 again, 2-4 again, 4-6"); // 2.4
    CHECK(shape(checkpointing::sqrt(7)) == "0-3 again, 3-6 again, 6-7"); // 2.6
    CHECK(shape(checkpointing::chosen({3, 0}, 4)) == "0-1 again, 1-2, 2-3, 3-4");
    CHECK(shape(checkpointing::chosen({}, 2)) == "0-1, 1-2");
    for (const int L : {1, 2, 5, 12, 48, 97}) {
        for (int k = 1; k <= L; ++k) {
            const checkpointing p = checkpointing::every(k, L);
            CHECK(p.rooms() == k);
            CHECK(p.segments_again() == (L + k - 1) / k - 1);
            CHECK(p.blocks_again() == (L - 1) / k * k);
            CHECK(p.blocks() == L);
        }
        CHECK(checkpointing::none(L).rooms() == L);
        CHECK(checkpointing::none(L).segments_again() == 0);
    }
    // Block 0 borrows the room of block 1 while that is not used: 4 rooms for 5 blocks.
    CHECK(checkpointing::chosen({0}, 5).rooms() == 4);
    CHECK(checkpointing::chosen({0, 2}, 5).rooms() == 3);
    CHECK(checkpointing::chosen({4}, 5).rooms() == 5); // the last one: nothing to save
}

TEST_CASE("plans from words, and the words that are refused") {
    CHECK(shape(checkpointing::parse("none", 2)) == "0-1, 1-2");
    CHECK(shape(checkpointing::parse("every:2", 4)) == "0-2 again, 2-4");
    CHECK(shape(checkpointing::parse("sqrt", 4)) == "0-2 again, 2-4");
    CHECK(shape(checkpointing::parse("blocks:1,0", 3)) == "0-1 again, 1-2 again, 2-3");
    CHECK(shape(checkpointing::parse("blocks:1", 3)) == "0-1, 1-2 again, 2-3");

    CHECK(refusal("every:13", 12) ==
          "checkpointing every:13: the model has 12 blocks; choose segments of 1 to 12");
    CHECK(refusal("blocks:0,12", 12) ==
          "checkpointing blocks:12: the model has 12 blocks; choose from 0 to 11");
    CHECK(refusal("blocks:2,0,2", 12) ==
          "checkpointing blocks: 2 is there twice; name each block once");
    CHECK(refusal("0,2", 12) == "checkpointing 0,2: write blocks:0,2");
    CHECK(refusal("none", 0) == "checkpointing: a model of 0 blocks; wanted 1 or more");
    for (const char* words :
         {"", "all", "every", "every:", "every:x", "every:2,3", "every: 2", "every:99999999999",
          "sqrt:2", "blocks:", "blocks:1,", "blocks:,1", "blocks:1;2", "None"})
        CHECK(refusal(words, 12) == "checkpointing " + std::string(words) +
                                        ": wanted none, every:K for segments of K blocks, sqrt, or "
                                        "blocks:0,2,5");
    for (const char* words : {"every:0", "every:-1", "blocks:-1"})
        CHECK(refusal(words, 12).find("the model has 12 blocks") != std::string::npos);
}

TEST_CASE("activations by the ledger = the formula of the plan, now and at the peak") {
    for (const int L : {1, 2, 5, 12}) {
        std::size_t fewest = std::numeric_limits<std::size_t>::max(), all = 0;
        for (const checkpointing& plan : plans(L)) {
            // What must be alive at once, found by going through both passes: a segment and the
            // blocks kept before it, while it is computed, first and again.
            std::size_t N = 0, kept = 0, R = 0;
            for (const segment& g : plan.segments) {
                N = std::max(N, kept + std::size_t(g.size()));
                (g.again ? R : kept) += g.again ? 1 : std::size_t(g.size());
            }
            const gpt_config c = small(L);
            run<fp16> r(c, plan, 1, 3);
            const std::size_t C = 12, Q = 24, V = 19, H = 2, n = 3 * 7;
            const std::size_t bytes =
                n * (2 * (2 * C + V + N * (13 * C + Q) + R * C) + 4 * (4 + N * (4 + H)));
            r.window(2);
            CHECK(r.mem.books.peak(kind::activations) == bytes);
            CHECK(r.mem.books.now(kind::activations) == bytes);
            if (all == 0) all = bytes; // plans() begins with none
            fewest = std::min(fewest, bytes);
        }
        CHECK((L == 1 ? fewest == all : fewest < all));
    }
}

TEST_CASE_TEMPLATE("checkpointing on = off, bit for bit: loss, gradients, sums", T, float, fp16,
                   bf16) {
    for (const float dropout : {0.0f, 0.2f})
        for (const int micros : {1, 2})
            for (const int L : {1, 2, 5}) {
                const gpt_config c = small(L, dropout, 4, 2);
                const outcome<T> off = run<T>(c, {}, 2).window(micros);
                int threads = 0;
                for (const checkpointing& plan : plans(L)) {
                    CAPTURE(shape(plan));
                    run<T> on(c, plan, 1 + threads++ % 3);
                    CHECK(on.window(micros) == off);
                    CHECK(on.window(micros) == off); // nothing is left behind from the first
                }
            }
}

TEST_CASE("the same on 1, 2 and 3 threads, for every plan of a deeper model, in fp64 too") {
    const gpt_config c = small(7, 0.1f);
    const outcome<double> off = run<double>(c, {}, 2).window(3);
    for (const checkpointing& plan : plans(7))
        for (const int threads : {1, 2, 3}) CHECK(run<double>(c, plan, threads).window(3) == off);
}

TEST_CASE("sabotage: a recomputation that is not the same shows in the gradients") {
    const gpt_config c = small(5, 0.2f);
    const outcome<fp16> off = run<fp16>(c, {}).window();
    const auto differs = [&](meddler::kind_of wrong) {
        bool all = true;
        for (const checkpointing& plan :
             {checkpointing::every(1, 5), checkpointing::every(2, 5), checkpointing::sqrt(5),
              checkpointing::chosen({1, 2}, 5)}) {
            run<fp16> r(c, plan);
            r.ops.wrong = wrong;
            all &= !(r.window() == off);
        }
        return all;
    };
    CHECK(differs(meddler::masks)); // drawn anew, as where a generator has moved on
    // What another block left in the room is read.
    CHECK(differs(meddler::layernorm));
    CHECK(differs(meddler::linear));
    CHECK(differs(meddler::attention));
    CHECK(differs(meddler::residual));
    CHECK(differs(meddler::gelu));
    CHECK(!differs(meddler::nothing));

    run<fp16> skipped(c, checkpointing::every(2, 5)); // a segment that is not run again at all
    skipped.acts.plan.segments[0].again = false;
    CHECK(!(skipped.window() == off));
    run<fp16> late(c, checkpointing::every(2, 5)); // rooms of a block that is still needed
    late.acts.block[1] = late.acts.block[0];
    CHECK(!(late.window() == off));
}

TEST_CASE("without dropout other masks are no matter, so the checks above see masks") {
    const gpt_config c = small(5);
    run<float> r(c, checkpointing::every(1, 5));
    r.ops.wrong = meddler::masks;
    CHECK(r.window() == run<float>(c, {}).window());
}

TEST_CASE("the gradient goes through the mask of the loss (openai/guided-diffusion 167)") {
    // x = 1, dropout 0.5: y = 2 * mask; dy = 1: dx = 2 * mask, of the same mask.
    checks::machine m;
    const dropout_shape rows{3, 1001};
    const std::vector<float> ones(3003, 1);
    const dropout_key key{7, 2, 5, 4};
    const auto through = [&](dropout_key k, bool backward) {
        std::vector<float> y(ones.size());
        if (backward)
            dropout_backward<float>(m.on, checks::span(y), checks::span(ones), 0.5f, k, rows);
        else
            dropout_forward<float>(m.on, checks::span(y), checks::span(ones), 0.5f, k, rows);
        return y;
    };
    const std::vector<float> y = through(key, false);
    CHECK(std::count(y.begin(), y.end(), 2.0f) + std::count(y.begin(), y.end(), 0.0f) == 3003);
    CHECK(std::count(y.begin(), y.end(), 2.0f) > 1300); // 1501.5, deviation 27.4: 7 of them
    CHECK(std::count(y.begin(), y.end(), 2.0f) < 1700);
    CHECK(through(key, false) == y); // forward again
    CHECK(through(key, true) == y);  // backward
    const dropout_key moved_on{7, 2, 6, 4};
    CHECK(through(moved_on, true) != y); // sabotage: what a generator would draw next
}

TEST_CASE("one acquire of a unit serves its recomputation and its backward") {
    for (const int L : {2, 5})
        for (const checkpointing& plan : plans(L)) {
            run<float> r(small(L), plan, 1);
            r.window();
            CHECK(int(r.s.acquired.size()) == 3 + 2 * L);
            CHECK(std::count(r.s.acquired.begin(), r.s.acquired.end(), 0) == 3); // head: its own
            for (int l = 0; l < L; ++l)
                CHECK(std::count(r.s.acquired.begin(), r.s.acquired.end(), 1 + l) == 2);
            int longest = 1; // units held at a time: a segment's
            for (const segment& g : plan.segments)
                if (g.again) longest = std::max(longest, g.size());
            CHECK(r.s.most == longest);
            CHECK(r.s.held == 0);
        }
}

TEST_CASE("products run again = blocks run again, without the last product of each segment") {
    const double C = 12, Q = 24, T = 7, n = 2 * 7;
    const double end = 4 * C * C, attention = (T + 1) / 2 * C; // a token, one product
    const double forward = Q * C + 9 * C * C + 2 * attention;
    for (const int L : {1, 2, 5, 12})
        for (const checkpointing& plan : plans(L)) {
            run<bf16> r(small(L), plan, 1);
            r.window();
            CHECK(r.ops.again == n * (plan.blocks_again() * forward - plan.segments_again() * end));
            CHECK(r.ops.both_ways ==
                  n * L * (3 * (Q * C + 9 * C * C) + 7 * attention)); // as without checkpointing
            CHECK(r.ops.again < r.ops.both_ways / 3);
        }
}

TEST_CASE("a plan for another model is refused") {
    CHECK_THROWS_WITH_AS(
        run<float>(small(3), checkpointing::none(4)),
        "gpt: checkpointing for 4 blocks in a model of 3; make the plan for this model", error);
}
