// SPDX-License-Identifier: MIT
#include "mpt/nn/autocast.hpp"
#include "checks.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/gpt_sites.hpp"
#include "mpt/nn/mlp.hpp"
#include "tests/dist/hiding_rank.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace mpt;

namespace {

constexpr int B = 2;

gpt_config config(float dropout = 0, int kv_heads = 2, int layers = 2) {
    gpt_config c;
    c.layers = layers, c.heads = 4, c.kv_heads = kv_heads, c.channels = 20, c.context = 13;
    c.vocabulary = 37, c.dropout = dropout;
    return c;
}

// A model in T with weights that bend everything, and a batch with ignored targets.
template <class T, class Ops>
struct rig {
    explicit rig(const gpt_config& c, int threads = 2, const checkpointing& plan = {})
        : c(c), pool(threads), ops(pool, mem, gpt_scratch<T>(c, B, c.context)), model(c, ops, 7),
          weights(model.map.size()), grads(weights.size()),
          strategy(ops, model.map, checks::span(weights)), acts(mem, c, B, c.context, plan) {
        fresh_weights(3);
        inputs = checks::tokens(acts.n(), 1, c.vocabulary);
        targets = checks::tokens(acts.n(), 2, c.vocabulary);
        for (std::size_t i = 2; i < acts.n(); i += 5) targets[i] = ignored_target;
    }
    void fresh_weights(std::uint64_t seed) {
        std::vector<float> values(weights.size());
        initial_values(model.map, seed, 0, values);
        for (std::size_t i = 0; i < values.size(); ++i)
            weights[i] = narrow<T>(wide_t<T>(values[i] * 5 + 0.05 * std::sin(double(i))));
    }
    void use(const std::string& policy) {
        ops.use(precision_policy::parse(policy), gpt_sites(c), model.map,
                gpt_autocast_room<fp16>(c, B, c.context));
    }
    batch window() const {
        return {checks::span(inputs), checks::span(targets), B, c.context, 0, 5, 2};
    }
    double forward() { return model.forward(strategy, strategy.hidden(), window(), acts); }
    // Loss, activations, gradients of activations, gradients: all numbers of a step, as fp32.
    std::vector<float> numbers(float seed = 2) {
        std::vector<float> all = {float(forward())};
        const auto keep = [&](auto x) {
            for (std::size_t i = 0; i < x.size(); ++i) all.push_back(float(widen(x.data()[i])));
        };
        keep(acts.embedded);
        for (const auto& b : acts.block)
            keep(b.h1), keep(b.qkv), keep(b.att), keep(b.mid), keep(b.h2), keep(b.fc), keep(b.gelu),
                keep(b.out), keep(b.mean1), keep(b.rstd2), keep(b.lse);
        keep(acts.last), keep(acts.logits), keep(acts.losses), keep(acts.lse);
        gradients<T> g{checks::span(grads), {}};
        model.backward(strategy, strategy.hidden(), window(), acts, seed, g);
        strategy.finish(g);
        keep(acts.logits), keep(acts.dres), keep(checks::span(grads));
        return all;
    }

    const gpt_config c;
    memory mem;
    thread_pool pool;
    Ops ops;
    gpt<T, Ops> model;
    std::vector<T> weights, grads;
    hiding_rank<T> strategy; // a cached cast must not outlive a change, nor need the address
    gpt_acts<T> acts;
    std::vector<int> inputs, targets;
};

template <class Low>
using cast_rig = rig<float, autocast<Low>>;

} // namespace

TEST_CASE("all-fp32 is gpt<float>, bit for bit") {
    for (const float dropout : {0.0f, 0.25f}) {
        rig<float, loops> plain(config(dropout));
        cast_rig<fp16> cast(config(dropout));
        cast.use("all-fp32");
        CHECK(checks::same_bits(cast.numbers(), plain.numbers()));
        CHECK(cast.ops.casts().empty());
    }
}

TEST_CASE("all-low is gpt<fp16> and gpt<bf16>, bit for bit: every value and gradient of a step") {
    const auto same = [](auto low, const gpt_config& c) {
        using Low = decltype(low);
        rig<Low, loops> real(c);
        cast_rig<Low> cast(c);
        cast.use("all-low");
        const auto want = real.numbers();
        CHECK(checks::same_bits(cast.numbers(), want));
        cast.use("autocast"); // the sabotage: another policy
        CHECK(!checks::same_bits(cast.numbers(), want));
    };
    for (const gpt_config& c : {config(), config(0.25f), config(0, 1)}) {
        same(fp16(), c);
        same(bf16(), c);
    }
}

TEST_CASE("checkpointed blocks, which run again in backward, keep their names and precision") {
    for (const float dropout : {0.0f, 0.25f}) {
        const gpt_config c = config(dropout, 2, 5);
        // Blocks of different precision, so that a block taken for another shows.
        const std::string policy = "autocast,h.3.mlp.c_proj=fp32,h.1.attn.c_attn=fp32,h.0.ln_2=low";
        cast_rig<fp16> kept(c);
        kept.use(policy);
        kept.numbers();
        for (const char* plan : {"every:1", "every:2", "every:3", "blocks:0,3"}) {
            cast_rig<fp16> again(c, 2, checkpointing::parse(plan, 5));
            again.use(policy);
            again.numbers();
            CHECK(checks::same_bits(again.grads, kept.grads));
            again.use("all-low");
            again.numbers();
            rig<fp16, loops> real(c);
            real.numbers();
            CHECK(checks::doubles(again.grads) == checks::doubles(real.grads));
            CHECK(!checks::same_bits(again.grads, kept.grads)); // the sabotage: another policy
        }
    }
}

TEST_CASE("sabotage: a cast left out, and weights that are cast once for ever, are caught") {
    struct leaves_out : autocast<fp16> { // c_fc's input is not rounded
        using autocast<fp16>::autocast;
        void linear_forward(device_span<float> y, device_span<const float> x,
                            device_span<const float> w, device_span<const float> bias,
                            linear_shape s) {
            autocast<fp16>::linear_forward(y, x, w, bias, s); // as it should be, in the list's eyes
            if (s.out == 4 * s.in) loops::linear_forward<float>(y, x, w, bias, s);
        }
    };
    rig<fp16, loops> real(config());
    rig<float, leaves_out> wrong(config());
    wrong.use("all-low");
    CHECK(!checks::same_bits(wrong.numbers(), real.numbers()));

    cast_rig<fp16> cast(config());
    cast.use("all-low");
    cast.numbers();
    real.fresh_weights(4), cast.fresh_weights(4); // as an optimizer's step would
    const auto want = real.numbers();
    CHECK(!checks::same_bits(cast.numbers(), want)); // nobody said so: stale
    cast.ops.weights_changed();
    CHECK(checks::same_bits(cast.numbers(), want));
}

TEST_CASE("the casts at each boundary, in their order") {
    cast_rig<fp16> f(config());
    f.use("autocast,h.1.*.*=fp32,h.1.attn=fp32");
    f.numbers();
    std::vector<std::string> lines;
    for (const inserted_cast& c : f.ops.casts()) lines.push_back(c.text());
    const std::string keeps = ", kept until the weights change";
    // n = 26 tokens, C = 20, Q = 40, H = 80, V = 37
    const std::vector<std::string> want = {
        "h.0.ln_1 -> h.0.attn.c_attn: 520 values, fp32 to fp16",
        "h.0.attn.c_attn.weight -> h.0.attn.c_attn: 800 values, fp32 to fp16" + keeps,
        "h.0.attn.c_attn.bias -> h.0.attn.c_attn: 40 values, fp32 to fp16" + keeps,
        "h.0.attn.c_proj.weight -> h.0.attn.c_proj: 400 values, fp32 to fp16" + keeps,
        "h.0.attn.c_proj.bias -> h.0.attn.c_proj: 20 values, fp32 to fp16" + keeps,
        "h.0.attn.c_proj -> h.0.add_1: 520 values, fp16 to fp32",
        "h.0.ln_2 -> h.0.mlp.c_fc: 520 values, fp32 to fp16",
        "h.0.mlp.c_fc.weight -> h.0.mlp.c_fc: 1600 values, fp32 to fp16" + keeps,
        "h.0.mlp.c_fc.bias -> h.0.mlp.c_fc: 80 values, fp32 to fp16" + keeps,
        "h.0.mlp.c_proj.weight -> h.0.mlp.c_proj: 1600 values, fp32 to fp16" + keeps,
        "h.0.mlp.c_proj.bias -> h.0.mlp.c_proj: 20 values, fp32 to fp16" + keeps,
        "h.0.mlp.c_proj -> h.0.add_2: 520 values, fp16 to fp32",
        "ln_f -> lm_head: 520 values, fp32 to fp16",
        "wte.weight -> lm_head: 740 values, fp32 to fp16" + keeps,
        "lm_head -> loss: 962 values, fp16 to fp32",
        // backward: a gradient has the type of its tensor
        "loss -> lm_head: 962 gradients, fp32 to fp16",
        "lm_head -> ln_f: 520 gradients, fp16 to fp32",
        "h.1.ln_1 -> h.0.mlp.c_proj: 520 gradients, fp32 to fp16",
        "h.0.mlp.c_fc -> h.0.ln_2: 520 gradients, fp16 to fp32",
        "h.0.ln_2 -> h.0.attn.c_proj: 520 gradients, fp32 to fp16",
        "h.0.attn.c_attn -> h.0.ln_1: 520 gradients, fp16 to fp32",
    };
    CHECK(lines.size() == want.size());
    for (std::size_t i = 0; i < std::min(lines.size(), want.size()); ++i)
        CHECK(lines[i] == want[i]);

    f.numbers(); // the second micro-batch of a window: the weights' casts are kept
    CHECK(std::count_if(f.ops.casts().begin(), f.ops.casts().end(),
                        [](const inserted_cast& c) { return c.weight; }) == 0);
    CHECK(f.ops.casts().size() == want.size() - 9);
}

TEST_CASE("a low layer norm leaves the gradient of an fp32 stream in fp32") {
    // The stream's gradient has more bits than fp16's 11; a sum kept in fp16 would not.
    const auto bits_lost = [](const std::string& policy) {
        cast_rig<fp16> f(config());
        f.use(policy);
        f.numbers(64);
        std::size_t lost = 0;
        for (std::size_t i = 0; i < f.acts.dres.size(); ++i) {
            const float d = f.acts.dres.data()[i];
            lost += float(fp16(d)) != d;
        }
        return lost;
    };
    CHECK(bits_lost("autocast,layernorm=low") > 400); // of 520
    CHECK(bits_lost("all-low") == 0);
    CHECK(bits_lost("autocast") > 400);
    CHECK(bits_lost("all-low,layernorm=fp32") == 0); // an fp32 gradient of a low stream is rounded
}

TEST_CASE("bytes equal the formula, and no byte less would do") {
    for (const gpt_config& c : {config(), config(0.1f, 1)}) {
        cast_rig<fp16> f(c);
        const std::size_t before = f.mem.books.now(kind::temp);
        f.use("autocast");
        std::size_t low = 0; // weights and biases of the linear layers, and the tied table
        for (const tensor_info& t : f.model.map.tensors)
            if (t.name.find(".ln_") == std::string::npos && t.name.find("ln_f") != 0 &&
                t.name != "wpe.weight")
                low += t.size;
        const std::size_t room = gpt_autocast_room<fp16>(c, B, c.context);
        CHECK(f.mem.books.now(kind::temp) == before + 2 * (room + low));
        f.use("all-fp32");
        CHECK(f.mem.books.now(kind::temp) == before + 2 * room);
        f.use("all-low");
        CHECK(f.mem.books.now(kind::temp) == before + 2 * (room + f.model.map.size()));
        CHECK_NOTHROW(f.numbers());
        f.ops.use(precision_policy::all_low(), gpt_sites(c), f.model.map, room - 1);
        CHECK_THROWS_WITH_AS(f.numbers(),
                             doctest::Contains("reserve what gpt_autocast_room() says"), error);
    }
}

TEST_CASE("two threads with two policies do not disturb each other") {
    const auto alone = [](const std::string& policy) {
        cast_rig<fp16> f(config(), 1);
        f.use(policy);
        return f.numbers();
    };
    const std::string policies[2] = {"autocast", "all-low"};
    const std::vector<float> want[2] = {alone(policies[0]), alone(policies[1])};
    CHECK(!checks::same_bits(want[0], want[1]));
    // The list gets its policy here and runs there: a policy kept in a thread-local would be lost.
    cast_rig<fp16> lists[2] = {cast_rig<fp16>(config(), 1), cast_rig<fp16>(config(), 1)};
    int wrong[2] = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) lists[t].use(policies[t]);
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i)
                wrong[t] += !checks::same_bits(lists[t].numbers(), want[t]);
        });
    for (std::thread& t : threads) t.join();
    CHECK(wrong[0] == 0);
    CHECK(wrong[1] == 0);
}

TEST_CASE("refusals: no policy, the sites of another model, backward without forward") {
    cast_rig<fp16> f(config());
    CHECK_THROWS_WITH_AS(f.forward(), doctest::Contains("no operation is named; call use() first"),
                         error);
    CHECK_THROWS_WITH_AS(f.use(""), doctest::Contains("names no operation"), error);
    CHECK_THROWS_WITH_AS(f.use("autocast,lm_haed=fp32"), doctest::Contains("there are"), error);
    f.use("autocast");
    gradients<float> g{checks::span(f.grads), {}};
    CHECK_THROWS_WITH_AS(
        f.model.backward(f.strategy, f.strategy.hidden(), f.window(), f.acts, 1, g),
        doctest::Contains("whose forward did not run"), error);
    gpt_config other = config(0.1f); // has one more site
    f.ops.use(precision_policy::autocast(), gpt_sites(other), f.model.map, 100000);
    CHECK_THROWS_WITH_AS(f.forward(),
                         "autocast: call 1 of the forward pass is layernorm, the list of sites "
                         "has drop (dropout); give the sites of the model that runs",
                         error);
    std::vector<site> headless = gpt_sites(config());
    headless.erase(headless.begin());
    f.ops.use(precision_policy::autocast(), headless, f.model.map, 100000);
    CHECK_THROWS_WITH_AS(f.forward(),
                         "autocast: embedding begins the forward pass, the list of sites begins "
                         "with h.0.ln_1 (layernorm); give the sites of the model that runs",
                         error);
    other = config();
    other.layers = 3;
    CHECK_THROWS_WITH_AS(
        f.ops.use(precision_policy::autocast(), gpt_sites(other), f.model.map, 100000),
        doctest::Contains("h.2.ln_1 reads h.2.ln_1.weight, which the layout does not have"), error);
}

TEST_CASE("a pass that was broken off does not shift the names of the next") {
    cast_rig<fp16> f(config());
    f.use("autocast");
    const auto want = f.numbers();
    const layout& map = f.model.map;
    const auto unit = device_span<const float>(checks::span(f.weights)).first(map.units[0].size());
    f.ops.embedding_forward(f.acts.embedded, checks::span(f.inputs),
                            view(map, unit, f.model.tensors.wte),
                            view(map, unit, f.model.tensors.wpe), {B, f.c.context, 20, 37});
    CHECK(checks::same_bits(f.numbers(), want));
}

TEST_CASE("calls: blocks run again are found afresh, also after a backward that was broken off") {
    const std::vector<site> sites = {{operation::embedding, "e", {}},
                                     {operation::layernorm, "a", {}},
                                     {operation::linear, "b", {}},
                                     {operation::layernorm, "c", {}},
                                     {operation::linear, "d", {}}};
    const int keys[5] = {};
    site_calls calls(sites);
    const auto pass = [&] {
        for (std::size_t i = 0; i < sites.size(); ++i)
            CHECK(calls.forward(sites[i].op, &keys[i]) == i);
    };
    pass();
    CHECK(calls.forward(operation::layernorm, &keys[1]) == 1); // backward begins with "a" ...
    CHECK(calls.forward(operation::linear, &keys[2]) == 2);    // ... and ends before "c"
    pass();
    CHECK(calls.forward(operation::layernorm, &keys[1]) == 1); // "a" again, and not "c"
    CHECK(calls.forward(operation::linear, &keys[2]) == 2);
    CHECK(calls.backward(operation::linear, &keys[2]) == 2);
}

TEST_CASE("use() forgets who wrote what: what lies where an old result lay is an input") {
    const std::vector<site> sites = {{operation::gelu, "act.0", {}},
                                     {operation::gelu, "act.1", {}}};
    memory mem;
    thread_pool pool(1);
    autocast<fp16> ops(pool, mem, std::size_t(1) << 20);
    std::vector<float> x = checks::numbers<float>(7, 1), y(7), z(7);
    const auto pass = [&](std::vector<float>& from, std::vector<float>& to) {
        ops.use(precision_policy::all_low(), sites, layout(), 14);
        ops.gelu_forward(checks::span(y), checks::span(from));
        ops.gelu_forward(checks::span(to), checks::span(y));
        CHECK(ops.casts().size() == 1);
        CHECK(ops.casts().front().text() == "input -> act.0: 7 values, fp32 to fp16");
    };
    pass(x, z);
    pass(z, x); // z was a result in 16 bits; the model that is used now has not written it
}

TEST_CASE("another model: an MLP, with a list of sites made by hand") {
    const std::vector<int> widths = {6, 11, 7, 5};
    const std::vector<site> sites = {
        {operation::linear, "layer.0", {"layer.0.weight", "layer.0.bias"}},
        {operation::gelu, "act.0", {}},
        {operation::linear, "layer.1", {"layer.1.weight", "layer.1.bias"}},
        {operation::gelu, "act.1", {}},
        {operation::linear, "layer.2", {"layer.2.weight", "layer.2.bias"}},
        {operation::cross_entropy, "loss", {}}};
    const auto targets = checks::tokens(9, 2, 5);
    const auto step = [&](auto scalar, auto& ops) {
        using T = decltype(scalar);
        mlp<T, std::remove_reference_t<decltype(ops)>> model(widths, ops);
        if constexpr (std::is_same_v<T, float>)
            ops.use(precision_policy::all_low(), sites, model.map, 1000);
        const auto w = checks::numbers<bf16>(model.map.size(), 1), x = checks::numbers<bf16>(54, 4);
        std::vector<T> weights(w.size()), grads(w.size());
        memory mem;
        mlp_acts<T> acts(mem, widths, 9);
        std::transform(w.begin(), w.end(), weights.begin(), [](bf16 v) { return T(float(v)); });
        std::transform(x.begin(), x.end(), acts.x[0].span().data(),
                       [](bf16 v) { return T(float(v)); });
        one_rank<T> rank(ops, model.map);
        gradients<T> g{checks::span(grads), {}};
        for (int pass = 0; pass < 2; ++pass) { // the second begins where the first has ended
            model.forward(rank, checks::span(weights), checks::span(targets), acts);
            model.backward(rank, checks::span(weights), checks::span(targets), acts, 1, g);
        }
        return checks::doubles(grads);
    };
    memory mem;
    thread_pool pool(2);
    loops plain(pool, mem, std::size_t(16) << 20);
    autocast<fp16> cast(pool, mem, std::size_t(16) << 20);
    CHECK(step(0.0f, cast) == step(fp16(0.0f), plain));
    CHECK(cast.casts().front().text() == "input -> layer.0: 54 values, fp32 to fp16");
}
