// SPDX-License-Identifier: MIT
// The list of operations whose products are cuBLASLt's: linear layers against the loops', recorded
// work, scratch. How right the products are: cublas_product_test.cpp.
#include "mpt/nn/cublas.hpp"
#include "tests/nn/checks.hpp"

#include <doctest/doctest.h>

#include <map>
#include <memory>

using namespace mpt;

namespace {

template <class T>
struct layer { // what a linear layer reads and writes
    std::vector<T> x, w, b, dy, y, dx, dw, db;

    layer(linear_shape s, bool more) {
        const std::size_t R = std::size_t(s.rows), I = std::size_t(s.in), O = std::size_t(s.out);
        x = checks::numbers<T>(R * I, 1), w = checks::numbers<T>(O * I, 2, 0.1);
        dy = checks::numbers<T>(R * O, 4), y.resize(R * O), dw.resize(O * I);
        if (more) b = checks::numbers<T>(O, 3), dx.resize(R * I), db.resize(O);
    }
    template <class Ops, class At>
    void run(const Ops& ops, linear_shape s, At at) {
        ops.template linear_forward<T>(at(y), at(x), at(w), at(b), s);
        ops.template linear_backward<T>(at(dx), at(dw), at(db), at(dy), at(x), at(w), s);
    }
};

// The layer on the device, by cublas_ops.
template <class T>
std::map<std::string_view, long> on_device_run(layer<T>& d, linear_shape s) {
    const device_queue q;
    memory mem(0, device_memory());
    const cublas_ops ops(q, mem, cublas_ops::product_bytes());
    std::map<const void*, std::unique_ptr<buffer<T>>> rooms;
    d.run(ops, s, [&](std::vector<T>& v) -> device_span<T> {
        if (v.empty()) return {};
        auto& room = rooms[&v];
        if (!room) {
            room = std::make_unique<buffer<T>>(mem, kind::temp, v.size(), "an array");
            ops.copy_to_device(room->span(), std::span<const T>(v));
        }
        return room->span();
    });
    for (std::vector<T>* v : {&d.y, &d.dx, &d.dw, &d.db})
        if (!v->empty()) ops.copy_to_host(std::span<T>(*v), rooms.at(v)->span());
    return ops.ran;
}

} // namespace

TEST_CASE_TEMPLATE("linear layers, with and without bias and dx", T, float, fp16, bf16) {
    const double unit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-23; // tensor cores may cut off
    for (const linear_shape s : {linear_shape{1, 1, 1}, {33, 31, 65}, {70, 257, 3}, {5, 33, 129}})
        for (const bool more : {true, false}) {
            layer<T> found(s, more), expected(s, more);
            checks::machine m;
            loops plain(m.pool, m.mem, std::size_t(16) << 20);
            expected.run(plain, s, [](std::vector<T>& v) { return checks::span(v); });
            const auto ran = on_device_run(found, s);
            // n terms of mean magnitude `size`: two sums, each off by n roundings of n size
            const auto agree = [&](const std::vector<T>& f, const std::vector<T>& e, int n,
                                   double size) {
                const double slack = 2 * double(n) * unit * double(n) * size;
                return checks::worst_ulps(f, checks::doubles(e),
                                          std::vector<double>(f.size(), slack)) <= 1;
            };
            CHECK(agree(found.y, expected.y, s.in + 1, 0.1));
            CHECK(agree(found.dw, expected.dw, s.rows, 1));
            CHECK(agree(found.dx, expected.dx, s.out, 0.1));
            CHECK(agree(found.db, expected.db, s.rows, 1));
            CHECK(ran.at("linear_forward") == 1);
            CHECK(ran.at("linear_backward") == 1);
            CHECK(ran.at("product_by_cublas") == (more ? 3 : 2));
            CHECK(ran.count("product_by_kernel") == 0);
        }
}

TEST_CASE("what the library has no kernel for, ours do: gradients over no rows are 0") {
    const linear_shape s{0, 5, 3};
    layer<float> d(s, true);
    const auto ran = on_device_run(d, s);
    CHECK(ran.at("product_by_kernel") == 1);
    for (const float v : d.dw) CHECK(v == 0);
    for (const float v : d.db) CHECK(v == 0);
}

TEST_CASE("products are recorded: no copy, no wait, nothing allocated") {
    const device_queue q;
    memory mem(0, device_memory());
    buffer<float> x(mem, kind::weights, 33 * 65, "x"), w(mem, kind::weights, 17 * 65, "w"),
        y(mem, kind::weights, 33 * 17, "y"), b(mem, kind::weights, 17, "b");
    const cublas_ops ops(q, mem, cublas_ops::product_bytes());
    CHECK(mem.books.peak(kind::temp) == cublas_ops::bytes(cublas_ops::product_bytes()));
    ops.fill(x.span(), 1.0f), ops.fill(w.span(), 2.0f), ops.fill(b.span(), 0.5f);
    const host_account before = q.account;
    const std::size_t held = mem.books.peak_total();
    kernels::recorded_work work;
    int looked_at = 0;
    for (int i = 0; i < 5; ++i)
        work.run(q.work, [&] {
            ++looked_at;
            ops.linear_forward<float>(y.span(), x.span(), w.span(), b.span(), {33, 65, 17});
            ops.add<float>(b.span(), b.span(), b.span()); // so that each time is another
        });
    CHECK(work.recorded());
    CHECK(looked_at == 2);
    CHECK(q.account.copies_in == before.copies_in);
    CHECK(q.account.copies_out == before.copies_out);
    CHECK(q.account.waits == before.waits);
    CHECK(mem.books.peak_total() == held);
    std::vector<float> found(33 * 17);
    ops.copy_to_host(std::span<float>(found), y.span());
    CHECK(q.account.copies_out == before.copies_out + 1); // which would have been seen, and so
    CHECK(q.account.waits == before.waits + 1);           // would a wait
    for (const float v : found) REQUIRE(v == 2 * 65 + 0.5f * 16);
}

TEST_CASE("a list whose scratch is too small says so") {
    const device_queue q;
    memory mem(0, device_memory());
    buffer<float> x(mem, kind::weights, 6, "x"), y(mem, kind::weights, 4, "y");
    const cublas_ops ops(q, mem, 1000);
    CHECK_THROWS_WITH(
        ops.linear_forward<float>(y.span(), x.span(), x.span(), {}, {2, 3, 2}),
        doctest::Contains("kernels: an operation wants " +
                          doctest::String(std::to_string(cublas_ops::product_bytes()).c_str()) +
                          " bytes of scratch, 1000 are reserved"));
}
