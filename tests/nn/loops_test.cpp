// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/loops.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using checks::numbers;
using checks::same_bits;
using checks::span;

namespace {

struct list {
    explicit list(int threads = 2) : pool(threads), ops(pool, mem, std::size_t(1) << 20) {}
    memory mem;
    thread_pool pool;
    loops ops;
};

// A list that watches one operation and leaves the others.
struct watched : loops {
    using loops::loops;
    mutable int calls = 0;
    template <class T>
    void gelu_forward(device_span<T> y, device_view<T> x) const {
        ++calls;
        loops::gelu_forward<T>(y, x);
    }
};
template <class Ops> // as a model: a template on the list
void two_gelus(Ops& ops, std::vector<float>& y, const std::vector<float>& x) {
    ops.gelu_forward(span(y), span(x));
    ops.gelu_backward(span(y), span(y), span(x));
    ops.gelu_forward(span(y), span(x));
}

} // namespace

TEST_CASE("a member does what the function of its name does") {
    list l;
    const auto x = numbers<float>(100, 1);
    std::vector<float> y(100), want(100);
    l.ops.gelu_forward(span(y), span(x));
    gelu_forward<float>(l.ops, span(want), span(x));
    CHECK(same_bits(y, want));
    std::vector<float> losses(4), lse(4);
    const std::vector<int> targets = {1, 2, 3, ignored_target};
    l.ops.cross_entropy_forward(span(losses), span(lse), span(x), span(targets), 4, 25);
    CHECK(losses[0] == doctest::Approx(lse[0] - x[1]));
    CHECK(losses[3] == 0);
}

TEST_CASE("a derived list shadows an operation; a list that is not derived is not watched") {
    list l;
    watched w(l.pool, l.mem, 1000);
    std::vector<float> x = numbers<float>(10, 1), y(10);
    two_gelus(w, y, x);
    CHECK(w.calls == 2);
    two_gelus(static_cast<loops&>(w), y, x);
    CHECK(w.calls == 2);
}

TEST_CASE("copies there and back, and refusals") {
    list l;
    const std::vector<int> host = {1, 2, 3};
    std::vector<int> device(3), back(3), four(4);
    l.ops.copy_to_device(span(device), host);
    l.ops.copy_to_host(back, span(device));
    CHECK(back == host);
    l.ops.copy_to_host(back, span(host)); // from a span of const, too
    CHECK_THROWS_WITH_AS(l.ops.copy_to_device(span(four), host),
                         "copy_to_device: 3 elements for a place of 4; they must agree", error);
    CHECK_THROWS_AS(l.ops.copy_to_host(four, span(device)), error);
}

TEST_CASE("fill, cast and add") {
    list l;
    const std::size_t n = 150001; // more than one task
    std::vector<float> a(n), b = numbers<float>(n, 1);
    l.ops.fill(span(a), 2);
    CHECK(a == std::vector<float>(n, 2));
    std::vector<fp16> h(n), sum(n);
    l.ops.cast(span(h), span(b));
    l.ops.add(span(sum), span(h), span(h));
    bool right = true;
    for (std::size_t i = 0; i < n; ++i) {
        right = right && h[i].bits == fp16(b[i]).bits;
        right = right && sum[i].bits == fp16(2 * float(h[i])).bits;
    }
    CHECK(right);
    std::vector<float> same(n);
    l.ops.cast(span(same), span(b));
    CHECK(same == b);
    std::vector<fp16> large(20000000); // streamed: past what stays in a cache
    std::vector<float> from(large.size(), 0.1f);
    from.back() = 3;
    l.ops.cast(span(large), span(from));
    CHECK(float(large.back()) == 3);
    CHECK(large[12345678].bits == fp16(0.1f).bits);
}

TEST_CASE("sum: in fp64, the same bits for any number of threads") {
    list one(1), three(3);
    for (const std::size_t n : {0, 1, 63, 64, 65, 1000, 100001}) {
        const auto x = numbers<float>(n, 1, 1e6);
        double exact = 0, size = 0;
        for (const float v : x) exact += double(v), size += std::fabs(double(v));
        const double sum = one.ops.sum(span(x));
        CHECK(std::fabs(sum - exact) <= double(n) * 0x1p-53 * size);
        CHECK(sum == three.ops.sum(span(x)));
    }
    // the sabotage: a sum in fp32 would lose the ones
    std::vector<float> x(1025, 1);
    x[0] = 0x1p30f;
    CHECK(one.ops.sum(span(x)) == 0x1p30 + 1024);
    float narrow = 0;
    for (const float v : x) narrow += v;
    CHECK(double(narrow) != 0x1p30 + 1024);
}
