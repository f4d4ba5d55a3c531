// SPDX-License-Identifier: MIT
#include "mpt/base/ledger.hpp" // ledger

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace mpt;

TEST_CASE("bytes now, at their own peak, and at the peak of the whole") {
    ledger b;
    b.add(kind::weights, place::device, 100);
    b.add(kind::temp, place::device, 50); // weights 100, temp 50
    b.remove(kind::temp, place::device, 50);
    b.add(kind::activations, place::device, 70); // the peak: 100 + 70
    b.remove(kind::activations, place::device, 70);
    b.add(kind::temp, place::device, 60);
    CHECK(b.now(kind::weights) == 100);
    CHECK(b.now(kind::temp) == 60);
    CHECK(b.now(kind::activations) == 0);
    CHECK(b.peak(kind::temp) == 60);
    CHECK(b.peak(kind::activations) == 70);
    CHECK(b.total() == 160);
    CHECK(b.peak_total() == 170);
    CHECK(b.at_peak(kind::weights) == 100);
    CHECK(b.at_peak(kind::activations) == 70);
    CHECK(b.at_peak(kind::temp) == 0); // own peaks (100 + 60 + 70) never were at once
    std::size_t sum = 0;
    for (int k = 0; k < kinds; ++k) sum += b.at_peak(kind(k));
    CHECK(sum == b.peak_total());
}

TEST_CASE("places do not mix") {
    ledger b;
    b.add(kind::moments, place::host, 8);
    b.add(kind::moments, place::file, 16);
    CHECK(b.total(place::device) == 0);
    CHECK(b.now(kind::moments, place::host) == 8);
    CHECK(b.peak_total(place::file) == 16);
    CHECK_THROWS_AS(b.remove(kind::moments, place::device, 8), error);
}

TEST_CASE("what was not put in cannot be taken out") {
    ledger b;
    b.add(kind::grads, place::device, 10);
    CHECK_THROWS_WITH_AS(b.remove(kind::grads, place::device, 11),
                         "ledger: 11 bytes of grads on device are given back, 10 are held; free "
                         "once, as allocated",
                         error);
    CHECK_THROWS_AS(b.remove(kind::sums, place::device, 1), error); // as another kind
    CHECK(b.total() == 10);                                         // refused, not half done
    b.remove(kind::grads, place::device, 10);
    CHECK_THROWS_AS(b.remove(kind::grads, place::device, 1), error); // twice
}

TEST_CASE("every kind and place has a name of its own, and a line once it was used") {
    std::set<std::string> names;
    ledger b;
    CHECK(b.table().find('\n') == std::string::npos); // the head alone
    for (int k = 0; k < kinds; ++k) {
        names.insert(to_string(kind(k)));
        b.add(kind(k), place::device, std::size_t(k) + 1000);
        b.remove(kind(k), place::device, std::size_t(k) + 1000);
        const std::string line = std::string("device  ") + to_string(kind(k)) + ' ';
        CHECK(b.table().find('\n' + line) != std::string::npos);
        CHECK(b.table().find(std::to_string(k + 1000)) != std::string::npos);
    }
    CHECK(names.size() == std::size_t(kinds));
    CHECK(std::string(to_string(place::file)) == "file");
}

TEST_CASE("exact with several threads at once, peaks included") {
    constexpr int threads = 4, rounds = 5000;
    ledger b;
    {
        std::vector<std::thread> all;
        for (int n = 0; n < threads; ++n)
            all.emplace_back([&b, n] {
                const kind k = kind(n); // each its own kind
                for (int i = 0; i < rounds; ++i) {
                    b.add(k, place::device, std::size_t(n) + 1);
                    b.add(kind::data, place::device, 7); // and one that all share
                    if (i % 2) b.remove(k, place::device, std::size_t(n) + 1);
                }
            });
        for (std::thread& t : all) t.join();
    }
    std::size_t total = 0;
    for (int n = 0; n < threads; ++n) {
        const std::size_t held = std::size_t(n + 1) * (rounds / 2);
        CHECK(b.now(kind(n)) == held);
        CHECK(b.peak(kind(n)) == held + (rounds % 2 ? 0u : std::size_t(n) + 1));
        total += held;
    }
    CHECK(b.now(kind::data) == std::size_t(7) * threads * rounds);
    CHECK(b.peak(kind::data) == b.now(kind::data)); // it only grew
    CHECK(b.total() == total + b.now(kind::data));
    CHECK(b.peak_total() >= b.total());
    CHECK(b.peak_total() <= b.total() + 1 + 2 + 3 + 4);
    CHECK_FALSE(b.now(kind::data) ==
                std::size_t(7) * threads * rounds - 7); // one lost update shows
}
