// SPDX-License-Identifier: MIT
// Every member of the list of kernels against the member of the same name of the loops.
#include "mpt/nn/kernels.hpp"
#include "mpt/train/grad_accum.hpp"
#include "tests/nn/checks.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>

using namespace mpt;
using checks::numbers;

namespace {

// Where a call runs: at(v) is vector v there; back() brings what was changed.
struct on_loops {
    explicit on_loops(bool tf32 = false) : pool(2), ops(pool, mem, std::size_t(16) << 20, tf32) {}
    memory mem;
    thread_pool pool;
    loops ops;
    template <class X>
    device_span<X> at(std::vector<X>& v) {
        return checks::span(v);
    }
};
struct on_kernels {
    explicit on_kernels(bool tf32 = false)
        : mem(0, device_memory()), ops(queue, mem, std::size_t(1) << 18, tf32) {}
    device_queue queue;
    memory mem;
    kernel_ops ops;
    template <class X>
    device_span<X> at(std::vector<X>& v) {
        if (v.empty()) return {};
        auto& room = rooms[v.data()];
        if (!room) {
            const auto made = std::make_shared<buffer<X>>(mem, kind::temp, v.size(), "an array");
            ops.copy_to_device(made->span(), std::span<const X>(v));
            changed.push_back(
                [this, made, &v] { ops.copy_to_host(std::span<X>(v), made->span()); });
            room = made;
        }
        return static_cast<buffer<X>*>(room.get())->span();
    }
    void back() {
        for (const auto& copy : changed) copy();
    }
    std::map<const void*, std::shared_ptr<void>> rooms;
    std::vector<std::function<void()>> changed;
};

// f on both, from the same data; what the kernels left is `found`, what the loops left `expected`.
template <class Data, class F>
struct twice {
    twice(const Data& data, F f) : found(data), expected(data) {
        on_loops a;
        f(a, expected);
        on_kernels b;
        f(b, found);
        b.back();
        ran = b.ops.ran;
    }
    Data found, expected;
    std::map<std::string_view, long> ran;
};

// Both round once to T what is the same but for `slack`: they differ by an ulp of T at most.
template <class T>
bool agree(const std::vector<T>& found, const std::vector<T>& expected, double slack) {
    const double worst = checks::worst_ulps(found, checks::doubles(expected),
                                            std::vector<double>(found.size(), slack));
    if (worst <= 1) return true;
    MESSAGE("worst: ", worst, " ulps past ", slack);
    return false;
}
template <class T, class Ops>
void accumulate_on(const Ops& ops, device_span<float> sum, device_span<T> grads, bool first) {
    if constexpr (std::is_same_v<Ops, loops>)
        accumulate<T>(ops, sum, grads, first);
    else
        kernels::add_to_sums(sum.data(), viewed<T>(grads), sum.size(), first, ops.queue.work);
}

constexpr double e = 0x1p-24; // a rounding in fp32, of a number of size 1


// All that the layers read and write, in one bag; a test fills what it needs.
template <class T>
struct arrays {
    std::vector<T> x, w, b, y, dy, dx, dw, db;
    std::vector<float> mean, rstd;
    std::vector<int> tokens;
};

} // namespace

#define MPT_TYPES float, fp16, bf16

TEST_CASE_TEMPLATE("linear, with and without bias and dx", T, MPT_TYPES) {
    for (const linear_shape s : {linear_shape{1, 1, 1}, {33, 31, 65}, {70, 257, 3}, {5, 33, 129}})
        for (const bool more : {true, false}) {
            const std::size_t R = std::size_t(s.rows), I = std::size_t(s.in);
            const std::size_t O = std::size_t(s.out);
            arrays<T> d;
            d.x = numbers<T>(R * I, 1), d.w = numbers<T>(O * I, 2, 0.1);
            d.dy = numbers<T>(R * O, 4), d.y.resize(R * O), d.dw.resize(O * I);
            if (more) d.b = numbers<T>(O, 3), d.dx.resize(R * I), d.db.resize(O);
            const twice t(d, [&](auto& on, arrays<T>& d) {
                on.ops.template linear_forward<T>(on.at(d.y), on.at(d.x), on.at(d.w), on.at(d.b),
                                                  s);
                on.ops.template linear_backward<T>(on.at(d.dx), on.at(d.dw), on.at(d.db),
                                                   on.at(d.dy), on.at(d.x), on.at(d.w), s);
            });
            // n terms of mean magnitude `size`: each of two sums is off by n roundings of n size
            const auto slack = [](std::size_t n, double size) {
                return 2 * double(n) * e * double(n) * size;
            };
            CHECK(agree(t.found.y, t.expected.y, slack(I + 1, 0.1)));
            CHECK(agree(t.found.dw, t.expected.dw, slack(R, 1)));
            CHECK(agree(t.found.dx, t.expected.dx, slack(O, 0.1)));
            CHECK(agree(t.found.db, t.expected.db, slack(R, 1)));
            CHECK(t.ran.at("linear_forward") == 1);
            CHECK(t.ran.at("linear_backward") == 1);
        }
}

TEST_CASE("linear in tf32: operands rounded as the loops round them") {
    const linear_shape s{33, 64, 40};
    arrays<float> d;
    d.x = numbers<float>(33 * 64, 1), d.w = numbers<float>(40 * 64, 2), d.y.resize(33 * 40);
    const auto f = [&](auto& on, arrays<float>& d) {
        on.ops.template linear_forward<float>(on.at(d.y), on.at(d.x), on.at(d.w), {}, s);
    };
    arrays<float> rounded = d, plain = d, kernels = d;
    on_loops a(true), b(false);
    f(a, rounded), f(b, plain);
    on_kernels c(true);
    f(c, kernels), c.back();
    CHECK(agree(kernels.y, rounded.y, 2 * 64 * e * 64));
    CHECK(checks::worst_ulps(kernels.y, checks::doubles(plain.y),
                             std::vector<double>(plain.y.size(), 2 * 64 * e * 64)) > 100);
}

TEST_CASE_TEMPLATE("gelu", T, MPT_TYPES) {
    for (const std::size_t n : {1u, 31u, 257u, 1601u}) {
        arrays<T> d;
        d.x = numbers<T>(n, 1, 3), d.dy = numbers<T>(n, 2), d.y.resize(n), d.dx.resize(n);
        const twice t(d, [&](auto& on, arrays<T>& d) {
            on.ops.template gelu_forward<T>(on.at(d.y), on.at(d.x));
            on.ops.template gelu_backward<T>(on.at(d.dx), on.at(d.dy), on.at(d.x));
        });
        // some ten operations on numbers up to 12, each rounded, and two forms of e^x
        CHECK(agree(t.found.y, t.expected.y, 20 * e * 12));
        CHECK(agree(t.found.dx, t.expected.dx, 20 * e * 12));
    }
}

TEST_CASE_TEMPLATE("layernorm, its gradient in place of dx and added to it", T, MPT_TYPES) {
    for (const layernorm_shape s : {layernorm_shape{1, 1}, {33, 31}, {7, 257}, {3, 1600}})
        for (const bool accumulate : {false, true}) {
            const std::size_t R = std::size_t(s.rows), C = std::size_t(s.channels);
            arrays<T> d;
            d.x = numbers<T>(R * C, 1, 1, 0.5), d.w = numbers<T>(C, 2, 0.3, 1);
            d.b = numbers<T>(C, 3, 0.3), d.dy = numbers<T>(R * C, 4), d.dx = numbers<T>(R * C, 5);
            d.y.resize(R * C), d.dw.resize(C), d.db.resize(C), d.mean.resize(R), d.rstd.resize(R);
            const twice t(d, [&](auto& on, arrays<T>& d) {
                on.ops.template layernorm_forward<T>(on.at(d.y), on.at(d.mean), on.at(d.rstd),
                                                     on.at(d.x), on.at(d.w), on.at(d.b), s);
                on.ops.template layernorm_backward<T>(on.at(d.dx), on.at(d.dw), on.at(d.db),
                                                      on.at(d.dy), on.at(d.x), on.at(d.w),
                                                      on.at(d.mean), on.at(d.rstd), s, accumulate);
            });
            // sums of C terms of size 1 over C: C roundings of 1; times rstd, for C = 1 316
            const double wide = C == 1 ? 316 : 4, slack = (double(C) + 30) * e * wide * wide;
            CHECK(agree(t.found.mean, t.expected.mean, slack));
            CHECK(agree(t.found.rstd, t.expected.rstd, slack * wide));
            CHECK(agree(t.found.y, t.expected.y, slack));
            CHECK(agree(t.found.dx, t.expected.dx, slack));
            CHECK(agree(t.found.dw, t.expected.dw, slack * double(R)));
            CHECK(agree(t.found.db, t.expected.db, 2 * e * double(R * R) * 4));
        }
}

TEST_CASE_TEMPLATE("embedding: positions behind T become 0", T, MPT_TYPES) {
    const embedding_shape s{3, 11, 33, 17};
    const std::size_t n = 3 * 11 * 33;
    arrays<T> d;
    d.w = numbers<T>(17 * 33, 1), d.b = numbers<T>(20 * 33, 2), d.dy = numbers<T>(n, 3);
    d.dw = numbers<T>(17 * 33, 4), d.db.resize(20 * 33), d.y.resize(n);
    d.tokens = checks::tokens(33, 5, 17);
    const twice t(d, [&](auto& on, arrays<T>& d) {
        on.ops.template embedding_forward<T>(on.at(d.y), on.at(d.tokens), on.at(d.w), on.at(d.b),
                                             s);
        on.ops.template embedding_backward<T>(on.at(d.dw), on.at(d.db), on.at(d.dy),
                                              on.at(d.tokens), s);
    });
    CHECK(checks::same_bits(t.found.y, t.expected.y)); // one sum
    CHECK(agree(t.found.dw, t.expected.dw, 2 * 33 * e * 33));
    CHECK(agree(t.found.db, t.expected.db, 2 * 3 * e * 3 * 4));
}

TEST_CASE_TEMPLATE("attention, heads that share keys, dropout", T, MPT_TYPES) {
    for (const attention_shape s :
         {attention_shape{1, 1, 1, 1, 1}, {2, 33, 4, 2, 8}, {1, 70, 3, 1, 33}, {2, 5, 2, 2, 64}})
        for (const float p : {0.0f, 0.25f}) {
            const std::size_t n = std::size_t(s.B) * std::size_t(s.T);
            arrays<T> d;
            d.x = numbers<T>(n * qkv_width(s), 1), d.dy = numbers<T>(n * heads_width(s), 2);
            d.dx.resize(d.x.size()), d.y.resize(d.dy.size());
            d.mean.resize(n * std::size_t(s.heads));
            const dropout_key key{9, 2, 3, 4};
            const twice t(d, [&](auto& on, arrays<T>& d) {
                on.ops.template attention_forward<T>(on.at(d.y), on.at(d.mean), on.at(d.x), s, p,
                                                     key);
                on.ops.template attention_backward<T>(on.at(d.dx), on.at(d.dy), on.at(d.x),
                                                      on.at(d.y), on.at(d.mean), s, p, key);
            });
            // Scores: sums of D terms of size 4 / sqrt(D); e^score moves by its error; then sums
            // of T such terms. `out` is rounded to T before backward reads it: half an ulp of 4,
            // in a difference that is summed over D and over T. On tensor cores the probabilities,
            // and the gradients of the scores (up to 8 of them), are rounded to T, too: half an ulp
            // u of each, independent, so 4 deviations u / sqrt(3) of a sum over the queries of a
            // group, whose probabilities for one key add up to 4 a head at most.
            const double u = sizeof(T) == 2 ? checks::ulp<T>(1.0) / 2 : 0;
            const double of_parts = 32 * u * std::sqrt(4.0 / 3 * s.heads / s.kv_heads);
            const double D = s.head_dim, terms = D + s.T + 40;
            const double of_out = 4 * checks::ulp<T>(1.0) * std::sqrt(D) * 2;
            const double forward = terms * e * 16 * std::sqrt(D);
            CHECK(agree(t.found.mean, t.expected.mean, forward));
            CHECK(agree(t.found.y, t.expected.y, forward * 4 + 4 / (1 - p) * u));
            CHECK(agree(t.found.dx, t.expected.dx,
                        (forward * 16 + of_out) * std::sqrt(D) + of_parts / (1 - p)));
            CHECK(t.ran.at("attention_backward") == 1);
        }
}

TEST_CASE_TEMPLATE("dropout and residuals: the bits of the loops", T, MPT_TYPES) {
    const dropout_shape s{3, 257};
    const std::size_t n = 3 * 257;
    for (const float p : {0.0f, 0.25f}) {
        arrays<T> d;
        d.x = numbers<T>(n, 1), d.w = numbers<T>(n, 2), d.b = numbers<T>(1, 3, 0.1, 0.7);
        d.y.resize(n), d.dx.resize(n), d.dy.resize(n), d.dw.resize(n), d.db.resize(1);
        const dropout_key key{0x123456789ABCull, 2, 3, 4};
        const twice t(d, [&](auto& on, arrays<T>& d) {
            on.ops.template dropout_forward<T>(on.at(d.y), on.at(d.x), p, key, s);
            on.ops.template dropout_backward<T>(on.at(d.dx), on.at(d.w), p, key, s);
            on.ops.template residual_forward<T>(on.at(d.dy), on.at(d.x), on.at(d.w), p, key, s);
            on.ops.template scaled_residual_forward<T>(on.at(d.x), on.at(d.x), on.at(d.w),
                                                       on.at(d.b), p, key, s);
            on.ops.template scaled_residual_backward<T>(on.at(d.dw), on.at(d.db), on.at(d.dy),
                                                        on.at(d.w), on.at(d.b), p, key, s);
            on.ops.template add<T>(on.at(d.w), on.at(d.w), on.at(d.x));
        });
        CHECK(checks::same_bits(t.found.y, t.expected.y));
        CHECK(checks::same_bits(t.found.dx, t.expected.dx));
        CHECK(checks::same_bits(t.found.dy, t.expected.dy));
        CHECK(checks::same_bits(t.found.x, t.expected.x));
        CHECK(checks::same_bits(t.found.dw, t.expected.dw));
        CHECK(checks::same_bits(t.found.w, t.expected.w));
        CHECK(agree(t.found.db, t.expected.db, 1024 * e * double(n))); // the loop: blocks in fp32
        for (const char* name : {"dropout_forward", "dropout_backward", "residual_forward", "add",
                                 "scaled_residual_forward", "scaled_residual_backward"})
            CHECK(t.ran.at(name) == 1);
    }
}

TEST_CASE_TEMPLATE("cross-entropy, and its gradient in the logits' place", T, MPT_TYPES) {
    for (const int V : {1, 31, 257, 1601}) {
        const int rows = 7;
        arrays<T> d;
        d.x = numbers<T>(std::size_t(rows * V), 1, 2), d.dx.resize(d.x.size());
        d.mean.resize(7), d.rstd.resize(7), d.tokens = checks::tokens(7, 5, V);
        d.tokens[3] = ignored_target;
        const twice t(d, [&](auto& on, arrays<T>& d) {
            const auto logits = on.at(d.x);
            on.ops.cross_entropy_forward(on.at(d.mean), on.at(d.rstd), logits, on.at(d.tokens),
                                         rows, V);
            on.ops.template cross_entropy_backward<T>(on.at(d.dx), logits, on.at(d.rstd),
                                                      on.at(d.tokens), 8.0f, rows, V);
            on.ops.template cross_entropy_backward<T>(logits, logits, on.at(d.rstd),
                                                      on.at(d.tokens), 8.0f, rows, V);
        });
        const double slack = (V + 20) * e * 8;
        CHECK(agree(t.found.mean, t.expected.mean, slack));
        CHECK(agree(t.found.rstd, t.expected.rstd, slack));
        CHECK(agree(t.found.dx, t.expected.dx, slack * 8));
        CHECK(agree(t.found.x, t.expected.x, slack * 8));
    }
}

TEST_CASE_TEMPLATE("fill, cast, sums over a window, and the sum", T, MPT_TYPES) {
    for (const std::size_t n : {1u, 33u, 1601u, 9000u}) {
        arrays<T> d;
        d.mean = numbers<float>(n, 1), d.y.resize(n), d.x.resize(n), d.rstd.resize(n, NAN);
        double sums[2];
        int i = 0;
        const twice t(d, [&](auto& on, arrays<T>& d) {
            on.ops.fill(on.at(d.x), narrow<T>(2.75f));
            on.ops.cast(on.at(d.y), on.at(d.mean));
            accumulate_on<T>(on.ops, on.at(d.rstd), on.at(d.y), true);
            accumulate_on<T>(on.ops, on.at(d.rstd), on.at(d.y), false);
            sums[i++] = on.ops.sum(device_span<const float>(on.at(d.mean)));
        });
        CHECK(checks::same_bits(t.found.x, t.expected.x));
        CHECK(checks::same_bits(t.found.y, t.expected.y));
        CHECK(checks::same_bits(t.found.rstd, t.expected.rstd));
        CHECK(std::fabs(sums[0] - sums[1]) <= 1e-16 * double(n) * 4 * double(n));
    }
}

TEST_CASE("sizes that disagree are refused with the loops' words") {
    on_kernels on;
    on_loops loop;
    std::vector<float> a(6), b(7), c(3);
    std::vector<int> tokens(3);
    const auto told = [](auto f) {
        try {
            f();
        } catch (const error& e) {
            return std::string(e.what());
        }
        return std::string("nothing");
    };
    const auto both = [&](auto f) {
        const std::string k = told([&] { f(on); }), l = told([&] { f(loop); });
        CHECK(k == l);
        CHECK(k.find("; wanted") + k.find(" want ") + k.find("agree") != 3 * std::string::npos);
        CHECK(k != "nothing");
    };
    both([&](auto& o) { o.ops.template gelu_forward<float>(o.at(a), o.at(b)); });
    both([&](auto& o) { o.ops.template gelu_backward<float>(o.at(a), o.at(a), o.at(b)); });
    both([&](auto& o) {
        o.ops.template linear_forward<float>(o.at(a), o.at(b), o.at(c), {}, {2, 3, 3});
    });
    both([&](auto& o) {
        o.ops.template linear_backward<float>({}, o.at(a), o.at(b), o.at(a), o.at(a), o.at(a),
                                              {2, 3, 1});
    });
    both([&](auto& o) {
        o.ops.template layernorm_forward<float>(o.at(a), o.at(c), o.at(c), o.at(a), o.at(b),
                                                o.at(c), {3, 2});
    });
    both([&](auto& o) {
        o.ops.template embedding_forward<float>(o.at(a), o.at(tokens), o.at(b), o.at(b),
                                                {1, 3, 2, 4});
    });
    both([&](auto& o) {
        o.ops.template attention_forward<float>(o.at(a), o.at(c), o.at(b), {1, 3, 1, 1, 1});
    });
    both([&](auto& o) {
        o.ops.template dropout_forward<float>(o.at(a), o.at(a), 1.0f, {}, {2, 3});
    });
    both([&](auto& o) {
        o.ops.template residual_forward<float>(o.at(a), o.at(a), o.at(b), 0, {}, {2, 3});
    });
    both([&](auto& o) {
        o.ops.cross_entropy_forward(o.at(c), o.at(c), o.at(b), o.at(tokens), 3, 2);
    });
    both([&](auto& o) { o.ops.cast(o.at(a), o.at(b)); });
    both([&](auto& o) { o.ops.copy_to_device(o.at(a), b); });
    both([&](auto& o) { o.ops.copy_to_host(std::span<float>(a), o.at(b)); });
    CHECK(on.ops.ran.empty()); // refused before a kernel saw it
}

TEST_CASE("scratch that is too small is refused before the kernel") {
    device_queue q;
    memory mem(0, device_memory());
    const kernel_ops ops(q, mem, 8);
    buffer<float> x(mem, kind::temp, 10000, "x");
    CHECK_THROWS_WITH(ops.sum(x.span()),
                      "kernels: an operation wants 24 bytes of scratch, 8 are reserved; reserve "
                      "what X_bytes() says");
    CHECK(mem.books.now(kind::temp) == kernel_ops::bytes(8) + 40000);
}

TEST_CASE("room on the host: filled from the device, and back") {
    on_kernels on;
    std::vector<float> v = numbers<float>(100, 1), room;
    const auto there = on.at(v);
    const std::span<float> host = on.ops.on_host(there, room);
    CHECK(std::equal(host.begin(), host.end(), v.begin()));
    host[7] = 42;
    on.ops.copy_to_device(there, host);
    on.back();
    CHECK(v[7] == 42);
}

TEST_CASE("numbers that wait on the device are taken instead of the arguments") {
    on_kernels on;
    std::vector<float> x = numbers<float>(600, 1), y(600), z(600), logits = numbers<float>(62, 2);
    std::vector<float> losses(2), lse(2), a(62), b(62), seed{8.0f};
    std::vector<int> targets{3, 30};
    std::vector<double> loss(1);
    std::vector<std::int64_t> place{5, 0}; // step, sample
    const dropout_shape s{2, 300};
    on.ops.dropout_forward<float>(on.at(y), on.at(x), 0.3f, {7, 1, 5, 2}, s);
    on.ops.cross_entropy_forward(on.at(losses), on.at(lse), on.at(logits), on.at(targets), 2, 31);
    on.ops.cross_entropy_backward<float>(on.at(a), on.at(logits), on.at(lse), on.at(targets), 8.0f,
                                         2, 31);
    const double sum = on.ops.sum(device_span<const float>(on.at(losses)));
    static_assert(sizeof(kernels::dropout_place) == 16);
    on.ops.places = {on.at(seed).data(),
                     reinterpret_cast<const kernels::dropout_place*>(on.at(place).data()),
                     on.at(loss).data()};
    on.ops.dropout_forward<float>(on.at(z), on.at(x), 0.3f, {7, 1, 0, 2}, s);
    on.ops.cross_entropy_backward<float>(on.at(b), on.at(logits), on.at(lse), on.at(targets), 1.0f,
                                         2, 31);
    const long waits = on.queue.account.waits;
    CHECK(on.ops.sum(device_span<const float>(on.at(losses))) == 0);
    CHECK(on.queue.account.waits == waits); // nobody waited
    on.ops.places = {};
    on.back();
    CHECK(checks::same_bits(y, z));
    CHECK(checks::same_bits(a, b));
    CHECK(loss[0] == sum);
}
