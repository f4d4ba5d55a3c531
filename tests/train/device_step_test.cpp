// SPDX-License-Identifier: MIT
// The step on kernels against the step on loops: the same weights, moments and scale.
#include "mpt/dist/one_rank.hpp"
#include "mpt/nn/loops.hpp"
#include "mpt/train/adam8bit.hpp"
#include "mpt/train/adamw.hpp"
#include "mpt/train/clip.hpp"
#include "mpt/train/device_step.hpp"
#include "mpt/train/inspect.hpp"
#include "mpt/train/kernel_pass.hpp"
#include "mpt/train/loss_scale.hpp"
#include "mpt/train/master_weights.hpp"
#include "mpt/train/schedule.hpp"
#include "tests/nn/checks.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>

using namespace mpt;

namespace {

// Three units; tensors that decay and do not, small ones and one that moments keep in 8 bits.
layout map_of() {
    layout map;
    map.add_unit("embedding");
    map.tensors[std::size_t(map.add("wte", {50, 33}, 0.1f))].looked_up = true;
    map.add("bias", {33}, 0.1f);
    map.add_unit("block");
    map.add("matrix", {257, 33}, 0.1f); // 8481 elements: 34 blocks, the first and last short
    map.add("gain", {257}, 0.1f);
    map.add_unit("other");
    map.add("head", {31, 7}, 0.1f);
    return map;
}

struct numbers_of_step {
    double loss, norm, rate;
    float scale;
    bool applied;
};

// The plain loop's run: `steps` steps on the gradients `grads(step)`.
template <class T>
struct host_run {
    static constexpr int window = 2;
    explicit host_run(bool low, bool stochastic)
        : low(low), map(map_of()), P(map.size()), m(2), weights(checks::numbers<T>(P, 1, 0.1)),
          master(stochastic ? 0 : master_size<T>(P)), moments1(P), moments2(P) {
        for (std::size_t i = 0; i < master.size(); ++i) master[i] = float(widen(weights[i]));
        rule.weight_decay = rule8.weight_decay = 0.1;
        rule.beta2 = rule8.beta2 = 0.95;
        sizes = sizes_of_moments(map, pieces<T>{{checks::span(weights), 0}});
        codes1.resize(sizes.codes), codes2.resize(sizes.codes);
        max1.resize(sizes.blocks), max2.resize(sizes.blocks);
        if (low) moments1.resize(sizes.wide), moments2.resize(sizes.wide);
        if (stochastic) seed = 77;
        state(*this, [](auto& v) { return checks::span(v); }).begin();
    }
    // What an optimizer is given, with the spans of at(vector).
    template <class At>
    static block_moments<T> state(host_run& h, At at) {
        one_rank<T> rank(h.m.on, h.map);
        block_moments<T> s;
        s.weights = rank.mine(at(h.weights));
        if (!h.seed) s.master = master_of(at(h.master), s.weights);
        s.rounding_seed = h.seed;
        s.m = at(h.moments1), s.v = at(h.moments2);
        s.m_codes = at(h.codes1), s.v_codes = at(h.codes2);
        s.m_absmax = at(h.max1), s.v_absmax = at(h.max2);
        return s;
    }
    bool low;
    layout map;
    std::size_t P;
    checks::machine m;
    std::vector<T> weights;
    std::vector<float> master, moments1, moments2, max1, max2;
    std::vector<std::uint8_t> codes1, codes2;
    std::optional<std::uint64_t> seed;
    moment_sizes sizes;
    adamw rule;
    adam8bit rule8;
    loss_scale scale;
    schedule rate{1e-2, 1e-3, 3, 20};
};

// Gradients of micro-batch `micro`, scaled; in some steps one element is infinite.
template <class T>
std::vector<T> gradient(std::size_t n, long step, int micro, float S) {
    std::vector<T> g = checks::numbers<T>(n, std::uint32_t(100 + 2 * step + micro), 1e-2 * S);
    if (step % 4 == 2) g[n / 2 + 3] = narrow<T>(HUGE_VALF);
    return g;
}

// Arrays of the host with a place in the device's memory each, found by their address.
struct arrays {
    arrays(const kernel_ops& ops, memory& mem) : ops(ops), mem(mem) {}

    template <class X>
    device_span<X> at(std::vector<X>& v) {
        if (v.empty()) return {};
        if (!places.count(v.data())) {
            const auto room = std::make_shared<buffer<X>>(mem, kind::temp, v.size(), "an array");
            ops.copy_to_device(room->span(), std::span<const X>(v));
            back.push_back([this, room, &v] { ops.copy_to_host(std::span<X>(v), room->span()); });
            places[v.data()] = room->span().data();
        }
        return {static_cast<X*>(places[v.data()]), v.size()};
    }
    void bring_back() const {
        for (const auto& copy : back) copy();
    }

    const kernel_ops& ops;
    memory& mem;
    std::map<const void*, void*> places;
    std::vector<std::function<void()>> back; // each keeps its room
};

template <class T>
void compare(bool low, bool stochastic, int micro_batches) {
    CAPTURE(low);
    CAPTURE(stochastic);
    CAPTURE(micro_batches);
    constexpr long steps = 11;
    host_run<T> host(low, stochastic), start(low, stochastic);
    host.scale.value = start.scale.value = 256;
    host.scale.interval = 3;
    const double tokens = 40, max_norm = 1.5;

    // ---- the device's memory, as the host's at the start
    device_queue q;
    memory mem(0, device_memory(), pinned_memory());
    const kernel_ops ops(q, mem, std::size_t(1) << 16);
    arrays there(ops, mem);
    const auto at = [&](auto& v) { return there.at(v); };
    const block_moments<T> on_device_state = host_run<T>::state(start, at);
    optimizer_state<T> wide = on_device_state;
    std::vector<T> micro(start.P);
    std::vector<float> sums(micro_batches > 1 ? start.P : 0);
    gradients<T> grads{at(micro), at(sums)};
    one_rank<T, kernel_ops> rank(ops, start.map);
    step_rules how;
    how.rate = {rate_rule::cosine, 1e-2, 1e-3, 3, 20};
    how.beta1 = 0.9, how.beta2 = 0.95, how.weight_decay = 0.1, how.max_norm = max_norm;
    how.tokens = tokens;
    const std::size_t before = mem.books.now(kind::temp);
    device_step step(ops, mem, how, micro_batches, host.scale, 0, 0, low);
    CHECK(mem.books.now(kind::temp) - before == device_step::bytes(micro_batches, low));
    std::vector<float> losses = checks::numbers<float>(40, 9);
    const auto on_losses = at(losses);

    // ---- the loops' memory
    one_rank<T> host_rank(host.m.on, host.map);
    std::vector<T> host_micro(host.P);
    std::vector<float> host_sums(sums.size());
    gradients<T> host_grads{checks::span(host_micro), checks::span(host_sums)};

    for (long i = 0; i < steps; ++i) {
        const float S = host.scale.value;
        const long asked = q.account.waits;
        step.begin();
        double loss = 0;
        for (int k = 0; k < micro_batches; ++k) {
            const auto g = gradient<T>(host.P, i, k, S);
            ops.copy_to_device(grads.micro, std::span<const T>(g));
            kernel_ops here_ops_are_shared = {q, mem, 4096};
            here_ops_are_shared.places = step.places(k);
            CHECK(here_ops_are_shared.sum(on_losses) == 0);
            host_micro = g;
            for (int u = 0; u < 3; ++u) {
                rank.ready(grads, u, k);
                host_rank.ready(host_grads, u, k);
            }
            for (const float x : losses) loss += double(x);
        }
        const auto own = rank.finish(grads);
        const long waits = q.account.waits;
        step.inspect(own);
        step.decide();
        if (low)
            step.adam8bit(start.map, on_device_state, own);
        else
            step.adamw(start.map, wide, own);
        step.end();
        step.tell(i);
        CHECK(q.account.waits == waits);       // not for the device
        CHECK(waits == asked + micro_batches); // the copies of this test
        const step_row row = step.told(i);

        const auto host_own = host_rank.finish(host_grads);
        const health h = inspect(host.m.on, host_own);
        const double norm = mpt::norm(h) / S,
                     lr = host.rate(host.low ? host.rule8.applied : host.rule.applied);
        const bool applied = host.scale.update(h.finite);
        if (applied) {
            const double factor = clip_factor(norm, max_norm) / S;
            const auto s = host_run<T>::state(host, [](auto& v) { return checks::span(v); });
            if (low)
                host.rule8.step(host.m.on, host.map, s, host_own, factor, lr);
            else
                host.rule.step(host.m.on, host.map, optimizer_state<T>(s), host_own, factor, lr);
        }
        REQUIRE((row.applied != 0) == applied);
        REQUIRE(row.scale == S);
        REQUIRE(row.bad == h.bad);
        if (h.bad) REQUIRE(row.first_bad == h.first_bad);
        REQUIRE(row.bad_blocks == 0);
        REQUIRE(row.loss == doctest::Approx(loss / tokens).epsilon(1e-14));
        REQUIRE(row.rate == doctest::Approx(lr).epsilon(1e-14));
        if (applied) REQUIRE(row.norm == doctest::Approx(norm).epsilon(1e-5)); // squares in fp32
    }
    there.bring_back();
    // The factor of a clipped step holds the norm, whose squares are added in another order: 1e-6
    // of each gradient; a weight moves by it times the rate, 11 times. So codes may be neighbours.
    const auto near = [&](const auto& a, const auto& b, double bound) {
        double worst = 0;
        for (std::size_t i = 0; i < a.size(); ++i)
            worst = std::max(worst, std::fabs(double(widen(a[i])) - double(widen(b[i]))));
        return worst <= bound;
    };
    if (!stochastic) CHECK(near(start.master, host.master, low ? 1e-3 : 1e-6));
    CHECK(near(start.weights, host.weights, std::max(low ? 1e-3 : 1e-6, checks::ulp<T>(0.5))));
    if (!low) CHECK(near(start.moments1, host.moments1, 1e-7));
    std::size_t moved = 0;
    const auto first = checks::numbers<T>(host.P, 1, 0.1);
    for (std::size_t i = 0; i < host.P; ++i) moved += widen(first[i]) != widen(start.weights[i]);
    CHECK(double(moved) > 0.9 * double(host.P)); // the step did something
}

} // namespace

TEST_CASE_TEMPLATE("eleven steps, three of them skipped: as the loops", T, float, fp16, bf16) {
    compare<T>(false, false, 1);
    compare<T>(true, false, 1);
    compare<T>(false, false, 2);
    if constexpr (!own_master<T>) {
        compare<T>(false, true, 1);
        compare<T>(true, true, 2);
    }
}

TEST_CASE_TEMPLATE("the host decides: the same finding, and the loops' bits", T, float, fp16,
                   bf16) {
    for (const bool stochastic : {false, true}) {
        if (stochastic && own_master<T>) continue;
        CAPTURE(stochastic);
        host_run<T> host(false, stochastic), start(false, stochastic);
        device_queue q;
        memory mem(0, device_memory(), pinned_memory());
        const kernel_ops ops(q, mem, inspect_scratch(host.P));
        arrays there(ops, mem);
        const auto at = [&](auto& v) { return there.at(v); };
        const optimizer_state<T> away = host_run<T>::state(start, at);
        one_rank<T, kernel_ops> rank(ops, start.map);
        one_rank<T> host_rank(host.m.on, host.map);
        std::vector<T> micro(host.P), host_micro(host.P);
        gradients<T> grads{at(micro), {}}, host_grads{checks::span(host_micro), {}};
        for (long i = 0; i < 4; ++i) { // one of them overflows
            const std::vector<T> drawn = gradient<T>(host.P, i, 0, 256);
            host_micro = drawn; // into the room that host_grads knows
            ops.copy_to_device(grads.micro, std::span<const T>(host_micro));
            const auto g = rank.finish(grads), host_g = host_rank.finish(host_grads);
            const health h = inspect(ops, g), expected = inspect(host.m.on, host_g);
            REQUIRE(h.finite == expected.finite);
            REQUIRE(h.finite == (i != 2));
            CHECK(h.count == expected.count);
            CHECK(h.bad == expected.bad);
            CHECK(h.first_bad == expected.first_bad);
            if (!h.finite) continue;
            // blocks of squares within 9 * 2^-24 here and 7 * 2^-24 there, the root half of it
            CHECK(norm(h) == doctest::Approx(norm(expected)).epsilon(16 * 0x1p-24));
            const double factor = clip_factor(norm(expected) / 256, 0.5) / 256;
            start.rule.step(ops, start.map, away, g, factor, 1e-2);
            host.rule.step(host.m.on, host.map,
                           optimizer_state<T>(
                               host_run<T>::state(host, [](auto& v) { return checks::span(v); })),
                           host_g, factor, 1e-2);
        }
        there.bring_back();
        CHECK(start.rule.applied == 3);
        const auto same = [](const auto& a, const auto& b) {
            return a.size() == b.size() &&
                   (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
        };
        CHECK(same(start.weights, host.weights));
        CHECK(same(start.master, host.master));
        CHECK(same(start.moments1, host.moments1));
        CHECK(same(start.moments2, host.moments2));
        CHECK(!same(start.weights, checks::numbers<T>(host.P, 1, 0.1)));
        CHECK_THROWS_WITH(start.rule.step(ops, start.map, away, rank.finish(grads), NAN, 1e-2),
                          doctest::Contains("adamw"));
        CHECK(start.rule.applied == 3); // nothing changed
    }
}

TEST_CASE("where the first bad one lies is said in the flat buffer, behind a gap, too") {
    device_queue q;
    memory mem(0, device_memory(), pinned_memory());
    const kernel_ops ops(q, mem, inspect_scratch(1000));
    std::vector<float> x = checks::numbers<float>(1000, 3, 0.1);
    x[300] = x[700] = INFINITY; // the first one is nobody's
    arrays there(ops, mem);
    const device_span<const float> all(there.at(x));
    owned_gradients<float> g;
    g.micro = {{all.subspan(0, 100), 0}, {all.subspan(600, 300), 600}};
    const health h = inspect(ops, g);
    CHECK(h.first_bad == 700);
    CHECK(h.bad == 1);
    CHECK(h.count == 400);
    CHECK(h.squares.size() == 2);
}

TEST_CASE("pieces side by side are one; with a gap they are not") {
    float x[20];
    const pieces<float> apart{{{x, 5}, 0}, {{x + 5, 5}, 5}, {{x + 12, 3}, 10}, {{x + 15, 2}, 20}};
    const auto all = joined(apart);
    REQUIRE(all.size() == 3);
    CHECK(all[0].data.size() == 10);
    CHECK(all[1].data.data() == x + 12);
    CHECK(all[2].begin == 20); // side by side in memory, not in the model
}

TEST_CASE("runs of tensors that decay alike") {
    const layout map = map_of();
    std::vector<std::array<std::size_t, 3>> runs;
    by_decay(map, 10, map.size(), [&](std::size_t from, std::size_t to, bool decays) {
        runs.push_back({from, to, decays});
    });
    const std::size_t wte = 50 * 33, matrix = wte + 33, gain = matrix + 257 * 33;
    const std::vector<std::array<std::size_t, 3>> expected{{10, wte, 1},
                                                           {wte, matrix, 0},
                                                           {matrix, gain, 1},
                                                           {gain, gain + 257, 0},
                                                           {gain + 257, map.size(), 1}};
    CHECK(runs == expected);
}

namespace {

// Another rank beside this one, which has found the same in its shards.
struct twin_rank : communicator {
    explicit twin_rank(const kernel_ops& ops) : communicator(0, 2), ops(ops) {}
    std::vector<double> gather(std::span<const double>) override { return {}; }
    std::unique_ptr<communicator> split(int, int) override { return nullptr; }
    handle start(const collective& c) override {
        check(c.what == verb::all_reduce && c.type == element::fp64, "twin: what else?");
        std::vector<double> numbers(c.count);
        const device_span<double> there(static_cast<double*>(c.out), c.count);
        ops.copy_to_host(std::span<double>(numbers), there);
        for (double& x : numbers) x *= 2;
        ops.copy_to_device(there, std::span<const double>(numbers));
        ++calls;
        return {};
    }
    const kernel_ops& ops;
    int calls = 0;
};

} // namespace

TEST_CASE("with ranks the norm, what is not finite and the losses are those of all") {
    struct {
        device_queue q;
        memory mem{0, device_memory(), pinned_memory()};
        const kernel_ops ops{q, mem, std::size_t(1) << 16};
    } rig;
    const layout map = map_of();
    twin_rank comm(rig.ops);
    one_rank<float, kernel_ops> shards(rig.ops, map);
    for (const bool overflow : {false, true}) {
        step_rules rules;
        rules.tokens = 4;
        device_step step(rig.ops, rig.mem, rules, 1, loss_scale(), 0, 0, false, 2);
        CHECK(device_step::bytes(1, false, 2) == device_step::bytes(1, false) + 24);
        std::vector<float> g = checks::numbers<float>(map.size(), 3, 0.1);
        double squares = 0;
        for (const float x : g) squares += double(x) * double(x);
        if (overflow) g[7] = INFINITY;
        buffer<float> grads(rig.mem, kind::grads, map.size(), "gradients");
        rig.ops.copy_to_device(grads.span(), std::span<const float>(g));
        gradients<float> all{grads.span(), {}};
        step.begin();
        const std::vector<double> loss{6};
        rig.ops.copy_to_device(device_span<double>(step.places(0).loss, 1),
                               std::span<const double>(loss));
        step.inspect(shards.finish(all));
        step.share(comm, overflow);
        step.decide();
        step.end();
        step.tell(0);
        const step_row row = step.told(0);
        CHECK(row.loss == 2 * 6.0 / 4);
        CHECK(row.applied == !overflow);
        CHECK(row.bad == (overflow ? 2 : 0));
        CHECK(row.bad_elsewhere == 0);
        CHECK(row.stop == (overflow ? 2 : 0));
        if (!overflow) // block sums of squares are within 9 * 2^-24, their root within half of it
            CHECK(row.norm * 65536 == doctest::Approx(std::sqrt(2 * squares)).epsilon(9 * 0x1p-24));
    }
    CHECK(comm.calls == 2); // found and losses together, twice
    step_rules rules;
    device_step alone(rig.ops, rig.mem, rules, 1, loss_scale(), 0, 0);
    CHECK_THROWS_WITH(alone.share(comm, false), doctest::Contains("say how many ranks"));
}
