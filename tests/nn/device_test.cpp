// SPDX-License-Identifier: MIT
#include "mpt/base/memory.hpp"
#include "mpt/kernels/elementwise.cuh"
#include "mpt/nn/device.hpp"
#include "mpt/nn/device_type.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace mpt;

namespace {

std::vector<float> read(const device_queue& q, device_span<const float> x) {
    std::vector<float> host(x.size());
    q.copy_out(host.data(), x.data(), x.bytes(), q.work);
    q.wait();
    return host;
}

} // namespace

TEST_CASE("device memory in an arena: budget, book, poison, refusal") {
    const device_queue q;
    memory mem(4096, device_memory(), pinned_memory());
    buffer<float> x(mem, kind::weights, 100, "weights");
    CHECK(mem.books.total() == 400);
    CHECK(mem.device.held() == 448);
    for (const float v : read(q, x.span())) REQUIRE(std::isnan(v)); // nobody has written it
    kernels::fill(x.span().data(), 2.5f, 99, q.work);
    const std::vector<float> now = read(q, x.span());
    CHECK(now[0] == 2.5f);
    CHECK(now[98] == 2.5f);
    CHECK(std::isnan(now[99]));
    CHECK_THROWS_WITH(buffer<float>(mem, kind::grads, 1000, "gradients"),
                      doctest::Contains("memory: gradients asks 4000 bytes; of the budget of 4096, "
                                        "448 are held and 3648 free"));
    float* const p = x.span().data();
    x = {};
    CHECK(mem.books.total() == 0);
    buffer<float> y(mem, kind::grads, 100, "gradients"); // the same bytes, poisoned again
    CHECK(y.span().data() == p);
    for (const float v : read(q, y.span())) REQUIRE(std::isnan(v));

    buffer<int> pinned(mem, kind::data, 10, "tokens", place::host);
    for (const int v : pinned.host_span()) REQUIRE(v == -1);
    memory open(0, device_memory(), pinned_memory());
    const buffer<float> whole(open, kind::weights, 100, "weights"); // an allocation of its own
    for (const float v : read(q, whole.span())) REQUIRE(std::isnan(v));
}

TEST_CASE("what the host asks is counted: copies, their bytes, waits") {
    const device_queue q;
    memory mem(0, device_memory(), pinned_memory());
    buffer<float> x(mem, kind::weights, 8, "weights");
    buffer<float> host(mem, kind::weights, 8, "weights", place::host);
    for (float& v : host.host_span()) v = 3;
    const mark here;
    q.copy_in(x.span().data(), host.host_span().data(), 32, q.copies);
    q.put(here, q.copies);
    q.await(here, q.work); // or the kernel might come before the copy
    kernels::add(x.span().data(), x.span().data(), x.span().data(), 8, q.work);
    q.copy_out(host.host_span().data(), x.span().data(), 16, q.work);
    q.put(here, q.work);
    q.wait_for(here);
    CHECK(host.host_span()[3] == 6);
    CHECK(host.host_span()[4] == 3); // not copied
    const host_account& a = q.account;
    CHECK(a.copies_in == 1);
    CHECK(a.bytes_in == 32);
    CHECK(a.copies_out == 1);
    CHECK(a.bytes_out == 16);
    CHECK(a.waits == 0);
    CHECK(a.waits_for_marks == 1);
    q.copy_in(x.span().data(), host.host_span().data(), 0, q.copies); // of nothing: none
    q.wait();
    CHECK(a.copies_in == 1);
    CHECK(a.waits == 1);
}

TEST_CASE("recorded work does what the work did, as often as it is begun") {
    const device_queue q;
    memory mem(0, device_memory());
    buffer<float> x(mem, kind::weights, 1000, "x"), one(mem, kind::weights, 1000, "one");
    kernels::fill(x.span().data(), 0.0f, 1000, q.work);
    kernels::fill(one.span().data(), 1.0f, 1000, q.work);
    kernels::recorded_work work;
    int looked_at = 0; // by the host: on the emulator each time, else as it is and recorded
    for (int i = 0; i < 7; ++i)
        work.run(q.work, [&] {
            ++looked_at;
            for (int k = 0; k < 3; ++k)
                kernels::add(x.span().data(), x.span().data(), one.span().data(), 1000, q.work);
        });
    for (const float v : read(q, x.span())) REQUIRE(v == 21);
    CHECK(looked_at == (work.recorded() ? 2 : 7));
}

TEST_CASE("work that cannot be recorded is told, and the stream works on") {
    const device_queue q;
    memory mem(0, device_memory());
    buffer<float> x(mem, kind::weights, 10, "x");
    kernels::recorded_work work;
    const auto bad = [&] {
        kernels::fill(x.span().data(), 1.0f, 10, q.work);
        throw error("no");
    };
    CHECK_THROWS_WITH(work.run(q.work, bad), "no");
    CHECK_THROWS_WITH(work.run(q.work, bad), "no"); // while it is recorded
    CHECK(!work.recorded());
    kernels::fill(x.span().data(), 4.0f, 10, q.work);
    for (const float v : read(q, x.span())) REQUIRE(v == 4);
}

TEST_CASE_TEMPLATE("mpt's numbers and CUDA's: the same bits", T, float, fp16, bf16) {
    const device_queue q;
    memory mem(0, device_memory());
    buffer<T> x(mem, kind::weights, 3, "x"), y(mem, kind::weights, 3, "y");
    const std::vector<T> numbers{narrow<T>(1.5f), narrow<T>(-0.0f), narrow<T>(65504.0f)};
    q.copy_in(x.span().data(), numbers.data(), x.bytes(), q.work);
    const T half = narrow<T>(0.5f);
    kernels::fill(on_device(y.span()), *on_device(&half), 3, q.work);
    kernels::add(on_device(y.span()), viewed<T>(x.span()), viewed<T>(y.span()), 3, q.work);
    std::vector<T> sums(3);
    q.copy_out(sums.data(), y.span().data(), y.bytes(), q.work);
    q.wait();
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(widen(sums[i]) == widen(narrow<T>(widen(numbers[i]) + 0.5f)));
}
