// SPDX-License-Identifier: MIT
// Stages 1, 2, 3 on gradients and weights that are made up: who gets what.
#include "units_rig.hpp"
#include "mpt/comm/world.hpp"
#include "mpt/dist/global_norm.hpp"
#include "stages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace mpt;
using rig::backward, rig::gradient, rig::three_units;
using rig::refusal;
using rig::says;

namespace {

// The sums over ranks and micro-batches as the modes promise them.
template <class T>
std::vector<float> promised(const layout& map, int ranks, const plan& p) {
    std::vector<std::vector<std::vector<T>>> g(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r)
        for (int k = 0; k < p.micros; ++k) g[std::size_t(r)].push_back(gradient<T>(map, r, k));
    std::vector<float> sum(map.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const auto of = [&](int r, int k) {
            return float(widen(g[std::size_t(r)][std::size_t(k)][i]));
        };
        float all = 0;
        if (p.mode == reduce_mode::once && p.micros > 1) {
            for (int r = 0; r < ranks; ++r) {
                float mine = of(r, 0);
                for (int k = 1; k < p.micros; ++k) mine += of(r, k);
                all = r ? all + mine : mine;
            }
        } else {
            for (int k = 0; k < p.micros; ++k) {
                float over = of(0, k);
                for (int r = 1; r < ranks; ++r) over += of(r, k);
                over = float(widen(narrow<T>(over))); // rounded once
                all = k ? all + over : over;
            }
        }
        sum[i] = all;
    }
    return sum;
}

const int all_ranks[] = {1, 2, 3, 4, 7};

} // namespace

TEST_CASE_TEMPLATE("every stage: the sums that the mode promises, each on its owner alone", T,
                   float, fp16, bf16) {
    const layout map = three_units();
    for (const int ranks : all_ranks)
        for (const int micros : {1, 2, 3})
            for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every}) {
                const std::vector<float> want = promised<T>(map, ranks, {0, micros, mode});
                for (int stage = 0; stage <= 3; ++stage)
                    for (const int ahead : {0, 1, 2}) {
                        if (stage < 2 && ahead != 1) continue;
                        CAPTURE(ranks);
                        CAPTURE(micros);
                        CAPTURE(stage);
                        std::vector<float> got(map.size(), NAN);
                        std::vector<int> owners(map.size());
                        std::mutex lock;
                        run_ranks(ranks, [&](communicator& comm) {
                            rig::machine m(1);
                            staged<T> r(m.on, map, comm, m.mem, {stage, micros, mode, ahead});
                            for (int window = 0; window < 2; ++window) {
                                for (int k = 0; k < micros; ++k)
                                    backward(*r.s, map, r.grads, gradient<T>(map, comm.rank(), k),
                                             k);
                                const owned_gradients<T> own = r.s->finish(r.grads);
                                const pieces<T> mine = r.s->mine(r.weights.span());
                                const std::lock_guard hold(lock);
                                own.visit([&](const auto& parts) {
                                    REQUIRE(size_of(parts) == r.n.owned);
                                    REQUIRE(parts.size() == mine.size());
                                    for (std::size_t p = 0; p < parts.size(); ++p) {
                                        REQUIRE(mine[p].begin == parts[p].begin);
                                        REQUIRE(mine[p].data.size() == parts[p].data.size());
                                        for (std::size_t i = 0; i < parts[p].data.size(); ++i) {
                                            got[parts[p].begin + i] =
                                                float(widen(parts[p].data.data()[i]));
                                            ++owners[parts[p].begin + i];
                                        }
                                    }
                                });
                            }
                        });
                        CHECK(rig::same_bits(got, want));
                        const int held = stage == 0 ? 2 * ranks : 2;
                        CHECK(std::all_of(owners.begin(), owners.end(),
                                          [&](int n) { return n == held; }));
                    }
            }
}

TEST_CASE_TEMPLATE("what its owners have written, every rank reads; units end where they end", T,
                   float, fp16, bf16) {
    const layout map = three_units();
    const std::vector<T> values = rig::numbers<T>(3, map.size(), 1);
    for (const int ranks : all_ranks)
        for (int stage = 0; stage <= 3; ++stage)
            run_ranks(ranks, [&](communicator& comm) {
                rig::machine m(1);
                staged<T> r(m.on, map, comm, m.mem, {stage});
                for (const piece<T>& p : r.s->mine(r.weights.span()))
                    std::copy_n(values.data() + p.begin, p.data.size(), p.data.data());
                if (stage != 1 || ranks < 3) r.s->publish(r.weights.span());
                std::vector<T> got;
                for (int u = 0; u < 3; ++u) {
                    const device_span<const T> w = r.s->acquire(r.weights.span(), u);
                    got.insert(got.end(), w.data(), w.data() + w.size());
                    r.s->release(u);
                }
                // sabotage: without publish stage 1 reads what was there before
                CHECK(rig::same_bits(got, values) == (stage != 1 || ranks < 3));
            });
}

TEST_CASE("zero3: an acquire inside an acquire is one gathering; released weights are gone") {
    const layout map = three_units();
    run_ranks(3, [&](communicator& comm) {
        rig::machine m(1);
        staged<float> r(m.on, map, comm, m.mem, {3});
        for (const piece<float>& p : r.s->mine(r.weights.span()))
            std::fill_n(p.data.data(), p.data.size(), float(comm.rank()));
        const std::size_t before = m.mem.books.now(kind::comm);
        const auto a = r.s->acquire(r.weights.span(), 2);
        const auto b = r.s->acquire(r.weights.span(), 2);
        CHECK(a.data() == b.data());
        CHECK(comm.sent.of(verb::all_gather).calls == 1);
        CHECK(b.data()[0] == 0);
        CHECK(b.data()[1999] == 2);
        r.s->release(2);
        CHECK(b.data()[1999] == 2); // one of two
        r.s->release(2);
        CHECK(says(refusal([&] { r.s->release(2); }), "release of last, which is not acquired"));
        // released last: it stays until another is gathered
        CHECK(r.s->acquire(r.weights.span(), 2).data() == a.data());
        CHECK(comm.sent.of(verb::all_gather).calls == 1);
        r.s->release(2);
        r.s->acquire(r.weights.span(), 0);
        CHECK(m.mem.books.now(kind::comm) - before == 4 * 3 * r.cut.shard(0));
        r.s->release(0);
        r.s->publish(r.weights.span()); // weights have changed: nothing is kept
        CHECK(m.mem.books.now(kind::comm) == before);
    });
}

TEST_CASE("zero3: weights that were freed are poison to whoever reads them still") {
    const layout map = three_units();
    run_ranks(2, [&](communicator& comm) {
        rig::machine m(1);
        memory device(std::size_t(1) << 20); // with a budget: what is freed can be looked at
        staged<float> r(m.on, map, comm, device, {3});
        for (const piece<float>& p : r.s->mine(r.weights.span()))
            std::fill_n(p.data.data(), p.data.size(), 1.0f);
        const auto late = r.s->acquire(r.weights.span(), 2);
        r.s->release(2);
        CHECK(late.data()[1999] == 1); // released last
        r.s->acquire(r.weights.span(), 1);
        CHECK(std::isnan(late.data()[1999]));
        r.s->release(1);
        r.s->publish(r.weights.span());
    });
}

TEST_CASE("a rank that ends while gradients and weights travel: all end, and say why") {
    const layout map = three_units();
    for (int stage = 0; stage <= 3; ++stage)
        for (const int at : {0, 1, 2}) {
            const std::string line = refusal([&] {
                run_ranks(3, [&](communicator& comm) {
                    rig::machine m(1);
                    staged<float> r(m.on, map, comm, m.mem, {stage, 2, reduce_mode::every, 2, 1});
                    for (int k = 0; k < 2; ++k)
                        for (int u = 2; u >= 0; --u) {
                            if (comm.rank() == 1 && k == 1 && u == at) throw error("no more");
                            r.s->acquire(r.weights.span(), u);
                            const device_span<float> to = r.s->collect(r.grads, u);
                            std::fill_n(to.data(), to.size(), 1.0f);
                            r.s->ready(r.grads, u, k);
                            r.s->release(u);
                        }
                    r.s->finish(r.grads);
                });
            });
            CHECK(says(line, "rank 1"));
            CHECK(says(line, "no more"));
        }
}

TEST_CASE("zero3: over an update nothing that was gathered is kept") {
    const layout map = three_units();
    run_ranks(2, [&](communicator& comm) {
        rig::machine m(1);
        staged<float> r(m.on, map, comm, m.mem, {3});
        const auto set = [&](float x) {
            for (const piece<float>& p : r.s->mine(r.weights.span()))
                std::fill_n(p.data.data(), p.data.size(), x);
        };
        const auto first = [&](int u) {
            const float x = r.s->acquire(r.weights.span(), u).data()[0];
            r.s->release(u);
            return x;
        };
        set(1);
        CHECK(first(0) == 1);
        backward(*r.s, map, r.grads, gradient<float>(map, comm.rank(), 0), 0);
        r.s->finish(r.grads);
        set(2);
        CHECK(first(0) == 2);
        set(3); // sabotage: an update with neither finish nor publish before it
        CHECK(first(0) == 2);
        r.s->acquire(r.weights.span(), 1);
        backward(*r.s, map, r.grads, gradient<float>(map, comm.rank(), 0), 0);
        CHECK(says(refusal([&] { r.s->finish(r.grads); }), "middle is still acquired"));
        r.s->release(1);
        r.s->finish(r.grads);
    });
}

TEST_CASE("zero3: behind a pass without backward nothing is gathered for one") {
    const layout map = three_units();
    run_ranks(2, [&](communicator& comm) {
        rig::machine m(1);
        staged<float> r(m.on, map, comm, m.mem, {3});
        for (const piece<float>& p : r.s->mine(r.weights.span()))
            std::fill_n(p.data.data(), p.data.size(), 1.0f);
        const auto use = [&](int u) {
            r.s->acquire(r.weights.span(), u);
            r.s->release(u);
        };
        const auto forward = [&] { // as a GPT's, whose head is in unit 0
            for (const int u : {0, 1, 2, 0}) use(u);
        };
        const auto step = [&] {
            forward();
            const device_span<float> around = r.s->collect(r.grads, 0);
            use(0);
            for (int u = 2; u >= 0; --u) {
                if (u > 0) use(u);
                const device_span<float> to = u > 0 ? r.s->collect(r.grads, u) : around;
                std::fill_n(to.data(), to.size(), 1.0f);
                r.s->ready(r.grads, u, 0);
            }
            r.s->finish(r.grads);
            r.s->publish(r.weights.span());
        };
        const auto gathers = [&](const auto& what) {
            const auto before = comm.sent.of(verb::all_gather).calls;
            what();
            return comm.sent.of(verb::all_gather).calls - before;
        };
        CHECK(gathers(step) == 6); // each unit twice: unit 0 stays from forward's end to backward
        CHECK(gathers(step) == 6); // ... in an order that is known
        CHECK(gathers(forward) == 4);
        CHECK(gathers(step) == 5); // unit 0 is there still, and the last one is not expected
    });
}

TEST_CASE("micro-gradients 1 to 4 here and 5 to 8 there: their mean is 4.5, in every stage") {
    layout map;
    map.add_unit("unit");
    map.add("x", {1}, 0);
    for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every})
        for (int stage = 0; stage <= 3; ++stage)
            run_ranks(2, [&](communicator& comm) {
                rig::machine m(1);
                staged<float> r(m.on, map, comm, m.mem, {stage, 4, mode});
                for (int k = 0; k < 4; ++k) // each with the seed of a mean over all eight
                    backward(*r.s, map, r.grads, {float(4 * comm.rank() + k + 1) / 8}, k);
                const owned_gradients<float> own = r.s->finish(r.grads);
                REQUIRE(own.sum.size() == (stage == 0 || comm.rank() == 0 ? 1u : 0u));
                if (!own.sum.empty()) CHECK(own.sum[0].data.data()[0] == 4.5f);
            });
}

TEST_CASE("a micro-gradient that is lost is missed") {
    const layout map = three_units();
    for (int stage = 0; stage <= 3; ++stage) {
        const std::string line = refusal([&] {
            run_ranks(2, [&](communicator& comm) {
                rig::machine m(1);
                staged<float> r(m.on, map, comm, m.mem, {stage, 4});
                for (int k = 0; k < 3; ++k)
                    backward(*r.s, map, r.grads, gradient<float>(map, comm.rank(), k), k);
                r.s->finish(r.grads);
            });
        });
        CHECK(says(line, "finish: last of micro-batch 3 is not ready, of a window of 4"));
    }
}

TEST_CASE("four micro-batches, three buckets: three all_reduces, not twelve") {
    const layout map = three_units();
    run_ranks(3, [&](communicator& comm) {
        for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every}) {
            comm.sent.clear();
            rig::machine m(1);
            staged<float> r(m.on, map, comm, m.mem, {0, 4, mode, 1, 1});
            for (int k = 0; k < 4; ++k)
                backward(*r.s, map, r.grads, gradient<float>(map, comm.rank(), k), k);
            r.s->finish(r.grads);
            CHECK(comm.sent.of(verb::all_reduce).calls == (mode == reduce_mode::once ? 3 : 12));
        }
    });
}

TEST_CASE("a parameter that a rank does not use has a gradient of 0 there") {
    layout map;
    map.add_unit("used");
    map.add("p1", {5}, 0);
    map.add_unit("used by rank 0");
    map.add("p2", {1}, 0);
    for (int stage = 0; stage <= 3; ++stage) {
        run_ranks(2, [&](communicator& comm) {
            rig::machine m(1);
            staged<float> r(m.on, map, comm, m.mem, {stage});
            const float g = comm.rank() == 0 ? 4 : 0;
            backward(*r.s, map, r.grads, {1, 1, 1, 1, 1, g / 2}, 0); // of a mean over two
            const owned_gradients<float> own = r.s->finish(r.grads);
            if (!own.micro.empty()) CHECK(own.micro.back().data.data()[0] == 2);
        });
        // ... and one that leaves it out is told, and with it all others
        const std::string line = refusal([&] {
            run_ranks(2, [&](communicator& comm) {
                rig::machine m(1);
                staged<float> r(m.on, map, comm, m.mem, {stage});
                for (int u = comm.rank() == 0 ? 1 : 0; u >= 0; --u) {
                    const device_span<float> to = r.s->collect(r.grads, u);
                    std::fill_n(to.data(), to.size(), 1.0f);
                    r.s->ready(r.grads, u, 0);
                }
                r.s->finish(r.grads);
            });
        });
        CHECK(says(line, "rank 1: ready: used of micro-batch 0, wanted used by rank 0"));
    }
}

TEST_CASE("units that are ready in another order on one rank: it is told which") {
    const layout map = [] {
        layout twins; // of one size: nothing else would show that they are swapped
        for (const char* name : {"a", "b", "c"}) {
            twins.add_unit(name);
            twins.add(std::string(name) + ".weight", {300}, 1);
        }
        return twins;
    }();
    for (int stage = 0; stage <= 3; ++stage) {
        const std::string line = refusal([&] {
            run_ranks(3, [&](communicator& comm) {
                rig::machine m(1);
                staged<float> r(m.on, map, comm, m.mem, {stage, 1, reduce_mode::once, 1, 1});
                for (const int u : comm.rank() == 2 ? std::vector{1, 2, 0} : std::vector{2, 1, 0}) {
                    const device_span<float> to = r.s->collect(r.grads, u);
                    std::fill_n(to.data(), to.size(), 1.0f);
                    r.s->ready(r.grads, u, 0);
                }
                r.s->finish(r.grads);
            });
        });
        CHECK(says(line, "rank 2: ready: b of micro-batch 0, wanted c of micro-batch 0"));
    }
}

TEST_CASE("each element of the norm counts once: 3 and 4 and 12 make 13") {
    layout map; // a shard each on two ranks, and a unit that lies on the first alone
    map.add_unit("cut");
    map.add("x", {512}, 0);
    map.add_unit("whole");
    map.add("y", {1}, 0);
    for (int stage = 0; stage <= 3; ++stage)
        run_ranks(2, [&](communicator& comm) {
            rig::machine m(1);
            staged<float> r(m.on, map, comm, m.mem, {stage});
            std::vector<float> g(map.size());
            g[7] = 3, g[300] = 4, g[512] = 12;
            for (float& x : g) x /= 2; // two ranks add up to it
            backward(*r.s, map, r.grads, g, 0);
            const owned_gradients<float> own = r.s->finish(r.grads);
            const health h = inspect(m.on, own);
            const double length = norm(*r.s, map, own, h);
            CHECK(length == 13);
            // sabotage: each rank's own squares, added up once more where all are whole everywhere
            const double own_squares = norm(h) * norm(h);
            const double twice = std::sqrt(comm.sum(own_squares));
            if (stage == 0) CHECK(twice == doctest::Approx(std::sqrt(2.0) * 13));
            if (stage > 0) CHECK(norm(h) < 13); // ... or a rank's own alone
        });
}

TEST_CASE("64 ranks in fp16: a sum of 131072 is none, a mean of 2048 is") {
    layout map;
    map.add_unit("unit");
    map.add("x", {3}, 0);
    for (const int micros : {1, 2})
        run_ranks(64, [&](communicator& comm) {
            rig::machine m(1);
            staged<fp16> r(m.on, map, comm, m.mem, {2, micros, reduce_mode::every});
            const fp16 big = fp16(2048.0f), share = fp16(2048.0f / 64 / float(micros));
            for (int k = 0; k < micros; ++k) backward(*r.s, map, r.grads, {big, share, big}, k);
            const owned_gradients<fp16> own = r.s->finish(r.grads);
            if (comm.rank() > 0) return; // owns nothing
            own.visit([&](const auto& parts) {
                CHECK(std::isinf(
                    float(widen(parts[0].data.data()[0])))); // not divided: seen, skipped
                CHECK(float(widen(parts[0].data.data()[1])) == 2048);
            });
            CHECK_FALSE(inspect(m.on, own).finite);
        });
    run_ranks(64, [&](communicator& comm) { // sums of a window travel in fp32
        rig::machine m(1);
        staged<fp16> r(m.on, map, comm, m.mem, {2, 2, reduce_mode::once});
        const fp16 big = fp16(2048.0f);
        for (int k = 0; k < 2; ++k) backward(*r.s, map, r.grads, {big, big, big}, k);
        const owned_gradients<fp16> own = r.s->finish(r.grads);
        if (comm.rank() == 0) CHECK(own.sum[0].data.data()[2] == 2 * 131072);
    });
}

TEST_CASE("the narrator says who gathers, reduces and frees what") {
    const layout map = three_units();
    std::vector<std::string> lines;
    run_ranks(2, [&](communicator& comm) {
        rig::machine m(1);
        staged<float> r(m.on, map, comm, m.mem, {3}, [&](const std::string& line) {
            if (comm.rank() == 1) lines.push_back(line);
        });
        r.s->acquire(r.weights.span(), 1);
        r.s->release(1);
        backward(*r.s, map, r.grads, gradient<float>(map, comm.rank(), 0), 0);
        r.s->finish(r.grads);
    });
    const auto told = [&](const std::string& line) {
        return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    CHECK(told("rank 1 gathers the weights of middle: 2048 bytes"));
    CHECK(told("rank 1 adds up gradients of last over ranks: 8192 bytes, keeps 4096"));
    CHECK(told("rank 1 frees the gradients of last"));
    CHECK(told("rank 1 frees the weights of middle"));
    CHECK(lines.size() == 8);
}

#ifdef MPT_TSAN
TEST_CASE("sabotage: a gradient written while it travels" * doctest::skip()) {
    const layout map = three_units();
    run_ranks(2, [&](communicator& comm) {
        rig::machine m(1);
        staged<float> r(m.on, map, comm, m.mem, {1});
        const std::vector<float> g = gradient<float>(map, comm.rank(), 0);
        const device_span<float> to = r.s->collect(r.grads, 2);
        std::copy_n(g.data() + map.units[2].begin, to.size(), to.data());
        r.s->ready(r.grads, 2, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(500)); // the others read meanwhile
        std::fill_n(to.data(), to.size(), 0.0f);                     // without a collect() before
        for (int u = 1; u >= 0; --u) {
            const device_span<float> rest = r.s->collect(r.grads, u);
            std::fill_n(rest.data(), rest.size(), 0.0f);
            r.s->ready(r.grads, u, 0);
        }
        r.s->finish(r.grads);
    });
}
#endif
