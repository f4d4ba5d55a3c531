// SPDX-License-Identifier: MIT
// Stacks and switches between them.
#include "mpt/simt/fiber.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace mpt::simt;

namespace {

context home;
fiber* current = nullptr;
int step = 0;
std::string caught;

void back() { switch_context(current->self, home); }
void to(fiber& f) {
    current = &f;
    switch_context(home, f.self);
}

void counting() { // counts on, each time it is woken
    arrived(current->self);
    for (int i = 1;; ++i) {
        step = i;
        back();
    }
}

// Numbers that live in registers across a switch, whole ones and floating ones.
[[gnu::noinline]] double busy(int n, double x) {
    double a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5;
    long p = n, q = n + 1, r = n + 2, s = n + 3, t = n + 4, u = n + 5;
    for (int i = 0; i < n; ++i) {
        a += 1, b *= 1.5, c -= a, d += b, e += 2, f -= 1;
        p += 3, q ^= p, r -= q, s += r, t ^= 5, u += t;
        back();
    }
    return a + b + c + d + e + f + double(p + q + r + s + t + u);
}
[[gnu::noinline]] double alone(int n, double x) { // the same without switches
    double a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5;
    long p = n, q = n + 1, r = n + 2, s = n + 3, t = n + 4, u = n + 5;
    for (int i = 0; i < n; ++i) {
        a += 1, b *= 1.5, c -= a, d += b, e += 2, f -= 1;
        p += 3, q ^= p, r -= q, s += r, t ^= 5, u += t;
    }
    return a + b + c + d + e + f + double(p + q + r + s + t + u);
}
std::vector<double> results;
void working() {
    arrived(current->self);
    const int mine = step++;
    results[std::size_t(mine)] = busy(20, mine * 0.37);
    for (;;) back();
}

[[gnu::noinline]] int deep(int n) { // about 100 bytes of stack a call
    volatile int here[16];
    here[n % 16] = n;
    return n == 0 ? 0 : deep(n - 1) + (here[n % 16] == n);
}
void throwing() {
    arrived(current->self);
    for (;;) {
        try {
            step = deep(300);
            back(); // to be woken in a try block
            throw std::runtime_error("in a fiber");
        } catch (const std::exception& e) {
            caught = e.what();
        }
        back();
    }
}

} // namespace

TEST_CASE("a fiber goes on where it went to sleep") {
    fiber f(counting, 16384, 3);
    for (int i = 1; i <= 5; ++i) {
        to(f);
        CHECK(step == i);
    }
}

TEST_CASE("what a function holds in registers is there again, with many fibers in turn") {
    step = 0;
    results.assign(50, 0);
    std::vector<std::unique_ptr<fiber>> all;
    for (unsigned i = 0; i < 50; ++i) all.push_back(std::make_unique<fiber>(working, 16384, i));
    for (int round = 0; round <= 20; ++round)
        for (const auto& f : all) to(*f);
    for (std::size_t i = 0; i < 50; ++i) CHECK(results[i] == alone(20, double(i) * 0.37));
}

TEST_CASE("exceptions inside of a fiber stay in it") {
    fiber f(throwing, 131072, 0);
    for (int i = 0; i < 3; ++i) {
        step = 0;
        caught = "";
        to(f);
        CHECK(step == 300);
        to(f);
        CHECK(caught == "in a fiber");
    }
}

TEST_CASE("a stack is as large as asked, at least") {
    for (const std::size_t bytes : {std::size_t(1), std::size_t(65536), std::size_t(1) << 20})
        for (const unsigned colour : {0u, 15u}) {
            const fiber f(counting, bytes, colour);
            CHECK(f.self.size >= bytes);
        }
}
