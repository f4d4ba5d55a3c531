// SPDX-License-Identifier: MIT
#include "mpt/base/arena.hpp" // arena

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

using namespace mpt;

static std::string refusal(arena& a, std::size_t bytes, const char* what) {
    try {
        a.allocate(bytes, what);
    } catch (const error& e) {
        return e.what();
    }
    return "served";
}
static bool all(const void* p, std::size_t bytes, unsigned char value) {
    const auto* b = static_cast<const unsigned char*>(p);
    return std::all_of(b, b + bytes, [&](unsigned char c) { return c == value; });
}

TEST_CASE("the budget is served to its last block, and what is refused is told with all numbers") {
    arena a(1024);
    CHECK(a.budget() == 1024);
    CHECK(a.free() == 1024);
    CHECK(a.largest_free() == 1024);
    void* first = a.allocate(100, "weights"); // takes 128
    CHECK(a.held() == 128);
    CHECK(a.free() == 896);
    CHECK(
        refusal(a, 897, "activations") ==
        "memory: activations asks 897 bytes; of the budget of 1024, 128 are held and 896 free, the "
        "largest free block 896; give more or make the model or the batch smaller");
    CHECK(a.held() == 128); // a refusal takes nothing
    void* rest = a.allocate(896, "activations");
    CHECK(a.free() == 0);
    CHECK(a.largest_free() == 0);
    CHECK(refusal(a, 1, "one byte")
              .find("asks 1 bytes; of the budget of 1024, 1024 are held and 0") !=
          std::string::npos);
    a.release(first, 100);
    a.release(rest, 896);
    CHECK(a.held() == 0);
    CHECK(a.largest_free() == 1024);
}

TEST_CASE("fragmentation: much is free, the largest block is small; joined holes serve again") {
    arena a(640);
    void* p[10];
    for (void*& x : p) x = a.allocate(64, "block");
    for (int i = 0; i < 10; i += 2) a.release(p[i], 64);
    CHECK(a.free() == 320);
    CHECK(a.largest_free() == 64);
    CHECK(refusal(a, 128, "grads") ==
          "memory: grads asks 128 bytes; of the budget of 640, 320 are held and 320 free, the "
          "largest "
          "free block 64; give more or make the model or the batch smaller");
    a.release(p[1], 64); // joins the holes of 0 and 2
    CHECK(a.largest_free() == 192);
    CHECK(a.allocate(192, "grads") == p[0]); // first fit: at the beginning
    a.release(p[9], 64);                     // at the end, joins the hole before
    CHECK(a.largest_free() == 128);
    for (int i = 3; i < 9; i += 2) a.release(p[i], 64);
    a.release(p[0], 192);
    CHECK(a.largest_free() == 640);
}

TEST_CASE("memory is poisoned when handed out and when given back") {
    arena a(4096);
    auto* x = static_cast<float*>(a.allocate(1000 * sizeof(float), "x"));
    CHECK(all(x, 1000 * sizeof(float), 0xFF));
    for (int i = 0; i < 1000; ++i) CHECK(std::isnan(x[i]));
    std::int32_t whole = 0;
    std::memcpy(&whole, x, sizeof whole);
    CHECK(whole == -1);
    std::memset(x, 0, 4000);
    CHECK(all(x, 4000, 0)); // sabotage: the check sees written memory
    a.release(x, 4000);
    CHECK(all(x, 4000, 0xFF)); // still mapped: the region is the arena's

    arena clean(4096, false); // without poison the old bytes shine through
    void* y = clean.allocate(64, "y");
    std::memset(y, 7, 64);
    clean.release(y, 64);
    CHECK(clean.allocate(64, "y") == y);
    CHECK(all(y, 64, 7));
}

TEST_CASE("blocks are aligned and never overlap; random use ends with one hole") {
    constexpr std::size_t budget = 1 << 20;
    arena a(budget);
    std::map<unsigned char*, std::size_t> held;
    std::uint32_t noise = 1;
    std::size_t bytes = 0, refused = 0;
    for (int i = 0; i < 20000; ++i) {
        noise = noise * 1664525 + 1013904223;
        if (held.empty() || noise >> 31) {
            const std::size_t size = 1 + (noise >> 8) % 20000;
            try {
                auto* p = static_cast<unsigned char*>(a.allocate(size, "random"));
                CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
                const auto next = held.lower_bound(p);
                CHECK((next == held.end() || p + size <= next->first));
                CHECK((next == held.begin() ||
                       std::prev(next)->first + std::prev(next)->second <= p));
                held[p] = size;
                bytes += (size + 63) / 64 * 64;
            } catch (const error&) {
                CHECK(a.largest_free() < size); // refused for a reason
                ++refused;
            }
        } else {
            const auto it = std::next(held.begin(), std::ptrdiff_t((noise >> 8) % held.size()));
            a.release(it->first, it->second);
            bytes -= (it->second + 63) / 64 * 64;
            held.erase(it);
        }
        CHECK(a.held() == bytes);
        CHECK(a.free() == budget - bytes);
    }
    CHECK(refused > 0);
    for (const auto& [p, size] : held) a.release(p, size);
    CHECK(a.largest_free() == budget);
}

TEST_CASE("a wrong release is refused before it does harm") {
    arena a(1024);
    auto* p = static_cast<std::byte*>(a.allocate(128, "p"));
    auto* q = static_cast<std::byte*>(a.allocate(128, "q"));
    a.release(p, 128);
    std::vector<std::byte> other(128);
    CHECK_THROWS_AS(a.release(p, 128), error);            // twice
    CHECK_THROWS_AS(a.release(q, 256), error);            // larger than it is
    CHECK_THROWS_AS(a.release(p + 64, 128), error);       // half of it is not held
    CHECK_THROWS_AS(a.release(other.data(), 128), error); // another's
    CHECK_THROWS_AS(a.release(q, 4096), error);
    CHECK(a.held() == 128);
    a.release(q, 128);
    a.release(nullptr, 128); // nothing
    CHECK(a.held() == 0);
}

TEST_CASE("no bytes: no memory, no refusal") {
    arena a(64);
    void* all_of_it = a.allocate(64, "all");
    CHECK(a.allocate(0, "none") == nullptr);
    CHECK(a.held() == 64);
    a.release(all_of_it, 64);
}

TEST_CASE("budgets: below one block, not a multiple of it, past the machine") {
    CHECK_THROWS_WITH_AS(arena(63),
                         "arena: a budget of 63 bytes is below one block of 64; give more", error);
    CHECK(arena(130).budget() == 128);
    CHECK_THROWS_AS(arena(std::numeric_limits<std::size_t>::max()), error);
    arena a(64);
    CHECK_THROWS_AS(a.allocate(std::numeric_limits<std::size_t>::max(), "too much"), error);
    arena large(std::size_t(1) << 33); // pages come when they are touched
    CHECK(large.free() == std::size_t(1) << 33);
}

TEST_CASE("without a budget: the system's memory, aligned, poisoned, counted") {
    arena a;
    CHECK(a.budget() == 0);
    CHECK(a.free() == std::numeric_limits<std::size_t>::max());
    CHECK(a.largest_free() == a.free());
    auto* p = static_cast<unsigned char*>(a.allocate(1001, "p"));
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    CHECK(all(p, 1001, 0xFF));
    CHECK(a.held() == 1024);
    a.release(p, 1001);
    CHECK(a.held() == 0);
#ifndef __SANITIZE_ADDRESS__ // which ends the program instead
    CHECK(refusal(a, std::size_t(1) << 60, "the moon") ==
          "memory: the moon asks 1152921504606846976 bytes and the system has no more; make the "
          "model "
          "or the batch smaller");
#endif
}

TEST_CASE("several threads at once") {
    arena a(1 << 20);
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; ++n)
        threads.emplace_back([&a, n] {
            for (int i = 0; i < 2000; ++i) {
                const std::size_t size = std::size_t(1 + (i * 37 + n * 11) % 3000);
                void* p = a.allocate(size, "x");
                std::memset(p, n, size);
                if (!all(p, size, static_cast<unsigned char>(n))) std::abort(); // somebody else's
                a.release(p, size);
            }
        });
    for (std::thread& t : threads) t.join();
    CHECK(a.held() == 0);
    CHECK(a.largest_free() == 1 << 20);
}

// A device whose memory the host may not touch: one read or write would end the test.
namespace closed {
std::vector<std::pair<std::size_t, int>> fills; // bytes, byte
int taken = 0, given = 0;
bool full = false;

void* take(std::size_t bytes) {
    if (full) return nullptr;
    ++taken;
    return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
memory_source device() {
    return {"the closed device",
            take,
            [](void*) { ++given; },
            take,
            [](void* p, std::size_t bytes) { munmap(p, bytes), ++given; },
            [](void*, int byte, std::size_t bytes) { fills.emplace_back(bytes, byte); }};
}
} // namespace closed

TEST_CASE("memory of a device: budget, holes and refusals as ever, and no byte touched") {
    closed::taken = closed::given = 0, closed::full = false, closed::fills.clear();
    {
        arena a(1024, true, closed::device());
        CHECK(closed::taken == 1); // one region
        void* p = a.allocate(100, "weights");
        void* q = a.allocate(800, "grads");
        CHECK(refusal(a, 200, "activations") ==
              "memory: activations asks 200 bytes; of the budget of 1024, 960 are held and 64 "
              "free, the largest free block 64; give more or make the model or the batch smaller");
        a.release(p, 100);
        CHECK_THROWS_WITH(a.release(p, 100), doctest::Contains("released that are not held"));
        a.release(q, 800);
        const std::vector<std::pair<std::size_t, int>> poison{
            {128, 0xFF}, {832, 0xFF}, {128, 0xFF}, {832, 0xFF}};
        CHECK(closed::fills == poison); // handed out, and come back
        CHECK(closed::given == 0);
    }
    CHECK(closed::given == 1);
    {
        arena a(0, true, closed::device()); // each allocation its own
        void* p = a.allocate(100, "weights");
        void* q = a.allocate(100, "grads");
        CHECK(closed::taken == 3);
        a.release(p, 100);
        CHECK(closed::given == 2);
        closed::full = true;
        CHECK(refusal(a, 100, "activations") ==
              "memory: activations asks 100 bytes and the closed device has no more; make the "
              "model or the batch smaller");
        CHECK(a.held() == 128);
        a.release(q, 100);
    }
    CHECK_THROWS_WITH(arena(1024, true, closed::device()),
                      "arena: the closed device refuses a region of 1024 bytes; give a smaller "
                      "budget");
}
