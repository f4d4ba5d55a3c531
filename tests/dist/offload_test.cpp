// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "mpt/comm/world.hpp"
#include "mpt/dist/ddp.hpp"
#include "mpt/train/adam.hpp"
#include "mpt/train/adam8bit.hpp"
#include "mpt/train/adamw.hpp"
#include "mpt/train/adamw_bf16.hpp"
#include "mpt/train/lamb.hpp"
#include "mpt/train/sgd.hpp"
#include "offload_rig.hpp"

#include <functional>
#include <memory>
#include <thread>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

enum class where { host, file };
constexpr std::size_t part = 1024; // elements: several a unit
constexpr int steps = 3;

template <class T>
std::unique_ptr<state_store<T>>
make_store(where to, memory& mem, const layout& map, const pieces<T>& mine, int moments,
           const std::string& folder, int buffers = 2, int rank = 0) {
    if (to == where::host) return std::make_unique<host_states<T>>(mem, mine, moments, part);
    return std::make_unique<file_states<T>>(
        mem, map, mine, moments,
        file_settings{.folder = folder, .rank = rank, .part = part, .buffers = buffers});
}

// One rank whose gradients leave every micro-batch; or, `once`, at the end of the window.
template <class T, class Rule>
rig::outcome<T> alone(where to, Rule rule, int micros, bool once, int buffers = 2,
                      transfer_calls calls = {}) {
    const layout map = rig::edges();
    rig::machine m(2);
    rig::folder files;
    transfers copies(calls);
    auto weights = rig::first_weights<T>(map);
    const std::vector<T> at_first = weights;
    std::unique_ptr<strategy<T>> s;
    if (once)
        s = std::make_unique<one_rank<T>>(m.on, map);
    else
        s = std::make_unique<leaving_rank<T>>(m.on, map, m.mem, copies);
    const pieces<T> mine = s->mine(rig::span(weights));
    const auto store = make_store<T>(to, m.mem, map, mine, rule.moments(), files.path, buffers);
    offload<T> o(m.mem, mine, *store, copies);
    o.begin(rig::first_master(at_first));

    std::vector<T> micro(once || micros == 1 ? map.size() : 0), host_micro(map.size());
    std::vector<float> sum(micros > 1 ? map.size() : 0, NAN), host_sum(sum.size(), NAN);
    gradients<T> grads{rig::span(micro), rig::span(sum)};
    rig::offloaded_steps(o, map, rule, 0, steps, [&](int step) {
        for (int k = 0; k < micros; ++k) rig::backward(*s, map, grads, step, k);
        const owned_gradients<T> own = s->finish(grads);
        return once ? leave(copies, own, rig::span(host_micro), rig::span(host_sum)) : own;
    });
    CHECK(copies.bytes_in() == steps * map.size() * sizeof(T));
    CHECK(copies.bytes_out() ==
          steps * map.size() *
              (once ? micros > 1 ? 4 : sizeof(T) : std::size_t(micros) * sizeof(T)));
    return rig::everything(o, weights, rule.moments());
}

template <class T, class Rule>
rig::outcome<T> none(Rule rule, int micros) {
    const layout map = rig::edges();
    rig::machine m(2);
    one_rank<T> s(m.on, map);
    return rig::plain(s, map, rule, micros, steps);
}

} // namespace

TEST_CASE_TEMPLATE("none = host = file on one rank, and the bytes that travel", T, float, fp16,
                   bf16) {
    const adamw rule{.weight_decay = 0.1};
    for (const int micros : {1, 2, 3, 4}) {
        const auto want = none<T>(rule, micros);
        for (const where to : {where::host, where::file})
            for (const bool once : {false, true}) CHECK(alone<T>(to, rule, micros, once) == want);
    }
}

TEST_CASE("none = host = file with every optimizer that updates in parts") {
    const auto same = [](auto rule) {
        const auto want = none<bf16>(rule, 2);
        CHECK(alone<bf16>(where::host, rule, 2, false) == want);
        CHECK(alone<bf16>(where::file, rule, 2, false) == want);
        auto other = rule;
        other.weight_decay += 0.01;
        CHECK(!(none<bf16>(other, 2) == want)); // what is compared depends on the rule
    };
    same(adam{.weight_decay = 0.1});
    same(sgd{.nesterov = true});
    same(sgd{.momentum = 0});
}

TEST_CASE("any number of buffers: the same bits") {
    const auto want = none<fp16>(adamw{}, 2);
    for (const int buffers : {1, 2, 3, 4, 5, 40}) // 40: more than there are parts
        CHECK(alone<fp16>(where::file, adamw{}, 2, false, buffers) == want);
}

TEST_CASE("others are refused when compiled") {
    static_assert(updates_in_parts<adamw, fp16> && updates_in_parts<adam, float> &&
                  updates_in_parts<sgd, bf16>);
    static_assert(!updates_in_parts<lamb, fp16>);     // lengths of whole tensors come first
    static_assert(!updates_in_parts<adam8bit, fp16>); // moments in other forms
    static_assert(!updates_in_parts<adamw_bf16, bf16>);
}

TEST_CASE_TEMPLATE("none = host = file under ddp, either way to reduce", T, float, fp16, bf16) {
    const layout map = rig::edges();
    for (const int ranks : {1, 2, 3, 4})
        for (const int micros : {1, 2, 3, 4})
            for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every}) {
                if (!std::is_same_v<T, bf16> && (ranks != 3 || micros == 3)) continue; // time
                rig::folder files;
                run_ranks(ranks, [&](communicator& comm) {
                    rig::machine m(1);
                    ddp<T> s(m.on, map, comm, micros, mode, 5000);
                    const auto want = rig::plain(s, map, adamw{}, micros, steps, comm.rank());
                    for (const where to : {where::host, where::file}) {
                        transfers copies;
                        const host_sums<T> sums(m.mem, copies, 700); // no multiple of anything
                        ddp<T, host_sums<T>> away(sums, map, comm, micros, mode, 5000);
                        auto weights = rig::first_weights<T>(map);
                        const std::vector<T> at_first = weights;
                        const pieces<T> mine = away.mine(rig::span(weights));
                        const auto store =
                            make_store<T>(to, m.mem, map, mine, 2, files.path, 2, comm.rank());
                        offload<T> o(m.mem, mine, *store, copies);
                        o.begin(rig::first_master(at_first));
                        std::vector<T> micro(map.size());
                        std::vector<float> sum(map.size(), NAN); // of a window of one, too
                        gradients<T> grads{rig::span(micro), rig::span(sum)};
                        adamw rule;
                        rig::offloaded_steps(o, map, rule, 0, steps, [&](int step) {
                            for (int k = 0; k < micros; ++k)
                                rig::backward(away, map, grads, step, k, comm.rank());
                            return away.finish(grads);
                        });
                        CHECK(rig::everything(o, weights, 2) == want);
                        CHECK(copies.bytes_out() ==
                              std::size_t(steps * micros) * map.size() * sizeof(T));
                        CHECK(copies.bytes_in() == steps * map.size() * sizeof(T));
                    }
                });
            }
}

TEST_CASE("bytes by kind and place = formula") {
    const layout map = rig::edges();
    const std::size_t P = map.size();
    for (const where to : {where::host, where::file}) {
        memory mem(64 << 10); // P is 13 826: the plain run's 20 bytes a parameter do not fit
        thread_pool pool(1);
        const cpu on(pool, mem, 0);
        rig::folder files;
        transfers copies;
        buffer<fp16> weights(mem, kind::weights, P, "weights");
        leaving_rank<fp16> s(on, map, mem, copies);
        const pieces<fp16> mine = s.mine(weights.span());
        const auto store = make_store<fp16>(to, mem, map, mine, 2, files.path, 3);
        {
            offload<fp16> o(mem, mine, *store, copies);
            buffer<float> sum(mem, kind::sums, P, "sums", place::host);
            const auto first = rig::first_weights<fp16>(map);
            o.begin(rig::first_master(first));
            adamw rule;
            gradients<fp16> grads{{}, sum.span()};
            rig::offloaded_steps(o, map, rule, 0, 2, [&](int step) {
                for (int k = 0; k < 2; ++k) rig::backward(s, map, grads, step, k);
                return s.finish(grads);
            });
            const auto& units = map.units;
            const std::size_t slots =
                units[0].size() + units[2].size() + std::max(units[1].size(), units[3].size());
            CHECK(mem.books.peak_total() == 2 * P + 2 * slots);
            CHECK(mem.books.peak(kind::comm) == 2 * slots);

            const std::size_t on_their_way = 2 * (1 << 16) + 2 * 2 * part;
            const std::size_t host = mem.books.peak_total(place::host);
            if (to == where::host) {
                CHECK(mem.books.now(kind::master, place::host) == 4 * P);
                CHECK(mem.books.now(kind::moments, place::host) == 8 * P);
                CHECK(host == 12 * P + 4 * P + on_their_way);
            } else {
                CHECK(mem.books.now(kind::master, place::file) == 4 * P);
                CHECK(mem.books.now(kind::moments, place::file) == 8 * P);
                const std::size_t record = state_file::record_bytes(12 * part);
                CHECK(host == 3 * (record + 4096) + 4 * P + on_their_way);
                std::size_t on_disk = 0;
                for (const auto& f : std::filesystem::directory_iterator(files.path))
                    on_disk += f.file_size();
                CHECK(on_disk == 12 * P + dynamic_cast<file_states<fp16>&>(*store).padding());
            }
        }
    }
    rig::machine m;
    CHECK(says(refusal([&] {
                   memory small(64 << 10);
                   buffer<fp16> w(small, kind::weights, P, "weights"),
                       g(small, kind::grads, P, "gradients");
                   buffer<float> master(small, kind::master, P, "fp32 master weights");
               }),
               "fp32 master weights asks 55304 bytes"));
}

TEST_CASE("a host buffer gives its memory back, files are gone") {
    const layout map = rig::edges();
    rig::folder files;
    memory mem;
    {
        std::vector<float> w(map.size());
        const pieces<float> mine = rig::by_unit(map, w.data());
        file_states<float> store(mem, map, mine, 2, {.folder = files.path, .part = part});
        CHECK(files.files() == map.units.size());
        CHECK(mem.books.total(place::file) == 12 * map.size());
    }
    CHECK(files.files() == 0);
    CHECK(mem.books.total(place::file) == 0);
    CHECK(mem.books.total(place::host) == 0);
}

TEST_CASE("states saved from one store and restored in the other go on with the same bits") {
    const layout map = rig::edges();
    rig::machine m(1);
    const auto want = none<fp16>(adamw{}, 1);
    for (const where from : {where::host, where::file}) {
        const where to = from == where::host ? where::file : where::host;
        rig::folder files, others;
        transfers copies;
        auto weights = rig::first_weights<fp16>(map);
        const std::vector<fp16> at_first = weights;
        leaving_rank<fp16> s(m.on, map, m.mem, copies);
        const pieces<fp16> mine = s.mine(rig::span(weights));
        std::vector<fp16> micro(map.size());
        gradients<fp16> grads{rig::span(micro), {}};
        const auto window = [&](int step) {
            rig::backward(s, map, grads, step, 0);
            return s.finish(grads);
        };
        adamw rule;
        rig::outcome<fp16> saved;
        {
            const auto store = make_store<fp16>(from, m.mem, map, mine, 2, files.path);
            offload<fp16> o(m.mem, mine, *store, copies);
            o.begin(rig::first_master(at_first));
            rig::offloaded_steps(o, map, rule, 0, 2, window);
            saved = rig::everything(o, weights, 2);
            CHECK(rig::everything(o, weights, 2) == saved); // saving changes nothing
        }
        const auto store = make_store<fp16>(to, m.mem, map, mine, 2, others.path);
        offload<fp16> o(m.mem, mine, *store, copies);
        o.copy_from({saved.master, saved.m, saved.v});
        rig::offloaded_steps(o, map, rule, 2, steps - 2, window);
        CHECK(rig::everything(o, weights, 2) == want);
    }
}

TEST_CASE("a rank that owns nothing counts its steps") {
    rig::machine m(1);
    transfers copies;
    host_states<fp16> store(m.mem, {}, 2);
    offload<fp16> o(m.mem, {}, store, copies);
    adamw rule;
    o.step(rule, m.on, layout{}, pieces<const float>{}, 1.0, 1e-3);
    CHECK(rule.applied == 1);
}

TEST_CASE("refusals") {
    const layout map = rig::edges();
    rig::machine m(1);
    transfers copies;
    std::vector<fp16> w(map.size()), g(map.size());
    const pieces<fp16> mine = rig::by_unit(map, w.data());
    CHECK(says(refusal([&] { host_states<fp16>(m.mem, mine, 2, 100); }),
               "states: parts of 100 elements; wanted a multiple of 256"));
    CHECK(says(refusal([&] { host_states<fp16>(m.mem, mine, 3); }), "3 moments a weight"));
    CHECK(says(
        refusal([&] { file_states<fp16>(m.mem, map, mine, 2, {.folder = ".", .buffers = 0}); }),
        "states: 0 buffers, wanted 1 or more"));
    CHECK(says(refusal([&] { file_states<fp16>(m.mem, map, mine, 2, {.folder = "nowhere"}); }),
               "states nowhere/rank0-piece0.states: cannot be made (No such file or directory)"));
    host_states<fp16> store(m.mem, mine, 2, part);
    offload<fp16> o(m.mem, mine, store, copies);
    sgd other;
    CHECK(says(refusal([&] {
                   o.step(other, m.on, map, rig::by_unit<const fp16>(map, g.data()), 1.0, 1e-3);
               }),
               "the optimizer keeps 1 numbers a weight, the store 2"));
    adamw rule;
    CHECK(says(refusal([&] { o.step(rule, m.on, map, pieces<const fp16>{}, 1.0, 1e-3); }),
               "offload: weights and gradients: 4 pieces against 0"));
    const double nan = NAN;
    CHECK(says(refusal([&] {
                   o.step(rule, m.on, map, rig::by_unit<const fp16>(map, g.data()), nan, 1e-3);
               }),
               "adamw: factor nan"));
    CHECK(rule.applied == 0);
    o.step(rule, m.on, map, rig::by_unit<const fp16>(map, g.data()), 1.0, 1e-3); // nothing was lost
    CHECK(rule.applied == 1);
}

// ---- sabotage: copies that come late ---------------------------------------------------------

namespace {

// Copies as a caller would see them who did not wait: each is done when the next one is asked for.
struct late {
    struct copy {
        void* to = nullptr;
        const void* from = nullptr;
        std::size_t bytes = 0;
    };
    std::shared_ptr<copy> before = std::make_shared<copy>();
    void operator()(void* to, const void* from, std::size_t n) const {
        if (before->bytes) std::memcpy(before->to, before->from, before->bytes);
        *before = {to, from, n};
    }
};

} // namespace

TEST_CASE("sabotage: gradients or weights that arrive after somebody waited for them" *
          doctest::skip(rig::watched)) {
    const auto want = none<fp16>(adamw{}, 2);
    transfer_calls late_out, late_in;
    late_out.out = late();
    late_in.in = late();
    CHECK(alone<fp16>(where::host, adamw{}, 2, false) == want);
    CHECK(!(alone<fp16>(where::host, adamw{}, 2, false, 2, late_out) == want));
    CHECK(!(alone<fp16>(where::host, adamw{}, 2, false, 2, late_in) == want));
}
