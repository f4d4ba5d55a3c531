// SPDX-License-Identifier: MIT
// Built twice: as base.thread_pool, and with -fsanitize=thread as base.thread_pool.tsan.
#include "mpt/base/thread_pool.hpp" // thread_pool

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mpt;

#ifdef MPT_TSAN
static constexpr int many = 10000; // TSan is about ten times slower
#else
static constexpr int many = 100000;
#endif

TEST_CASE("every task once, by a worker that exists") {
    for (int threads = 1; threads <= 4; ++threads) {
        thread_pool pool(threads);
        CHECK(pool.size() == threads);
        for (const std::size_t tasks : {0, 1, 2, 3, 7, 1000}) {
            std::vector<std::atomic<int>> times(tasks);
            std::atomic<bool> known = true;
            pool.for_each(tasks, [&](std::size_t task, int worker) {
                ++times[task];
                if (worker < 0 || worker >= threads) known = false;
            });
            CHECK(std::all_of(times.begin(), times.end(), [](const auto& n) { return n == 1; }));
            CHECK(known);
        }
    }
    CHECK(thread_pool(0).size() == 1);
    CHECK(thread_pool(-3).size() == 1);
}

TEST_CASE("the pieces of a range depend on n and grain, not on the threads") {
    using pieces = std::set<std::pair<std::size_t, std::size_t>>;
    const auto cut = [](thread_pool& pool, std::size_t n, std::size_t grain) {
        pieces out;
        std::mutex lock;
        pool.for_ranges(n, grain, [&](std::size_t begin, std::size_t end, int) {
            const std::lock_guard hold(lock);
            CHECK(out.insert({begin, end}).second);
        });
        return out;
    };
    for (int threads = 1; threads <= 4; ++threads) {
        thread_pool pool(threads);
        CHECK(cut(pool, 10, 4) == pieces{{0, 4}, {4, 8}, {8, 10}});
        CHECK(cut(pool, 8, 4) == pieces{{0, 4}, {4, 8}});
        CHECK(cut(pool, 3, 100) == pieces{{0, 3}});
        CHECK(cut(pool, 0, 4).empty());
        CHECK(cut(pool, 3, 0) == pieces{{0, 1}, {1, 2}, {2, 3}}); // a grain of 0 is 1
        CHECK(cut(pool, 1009, 7).size() == 145);
    }
}

// The sum of x by parts of `grain`, the parts added in their order.
static float sum(thread_pool& pool, const std::vector<float>& x, std::size_t grain) {
    std::vector<float> part((x.size() + grain - 1) / grain);
    pool.for_ranges(x.size(), grain, [&](std::size_t begin, std::size_t end, int) {
        float s = 0;
        for (std::size_t i = begin; i < end; ++i) s += x[i];
        part[begin / grain] = s;
    });
    float total = 0;
    for (const float s : part) total += s;
    return total;
}

TEST_CASE(
    "a sum has the same bits for any number of threads; sabotage: one cut by threads has not") {
    std::vector<float> x(10007);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / float(1 + (i * 7919) % 1000);
    thread_pool one(1);
    const float want = sum(one, x, 64);
    std::set<float> by_thread_count;
    for (int threads = 1; threads <= 4; ++threads) {
        thread_pool pool(threads);
        for (int i = 0; i < 20; ++i) {
            const float got = sum(pool, x, 64);
            CHECK(std::memcmp(&got, &want, sizeof got) == 0);
        }
        by_thread_count.insert(
            sum(pool, x, (x.size() + std::size_t(threads) - 1) / std::size_t(threads)));
    }
    CHECK(by_thread_count.size() > 1);
}

TEST_CASE("an exception reaches the caller, and the pool works on") {
    for (int threads = 1; threads <= 4; ++threads) {
        thread_pool pool(threads);
        for (const std::size_t tasks : {1, 2, 100}) {
            std::atomic<int> begun = 0;
            CHECK_THROWS_WITH_AS(pool.for_each(tasks,
                                               [&](std::size_t task, int) {
                                                   ++begun;
                                                   if (task == tasks / 2)
                                                       throw error("task failed");
                                               }),
                                 "task failed", error);
            CHECK(begun >= 1);
            // All throw: exactly one exception comes out, and none stays behind for the next job.
            CHECK_THROWS_AS(pool.for_each(tasks, [](std::size_t, int) { throw 7; }), int);
            std::atomic<int> done = 0;
            pool.for_each(tasks, [&](std::size_t, int) { ++done; });
            CHECK(done == int(tasks));
        }
    }
}

TEST_CASE("after an exception tasks that were not begun are left out") {
    thread_pool pool(2);
    std::atomic<int> begun = 0;
    CHECK_THROWS(pool.for_each(1000000, [&](std::size_t, int) {
        ++begun;
        throw 1;
    }));
    CHECK(begun <= 2);
}

TEST_CASE("nested: a job inside a task runs on its thread, as its worker; so scratch stays apart") {
    for (int threads = 1; threads <= 4; ++threads) {
        thread_pool pool(threads), other(2);
        std::atomic<int> inner = 0, elsewhere = 0, moved = 0;
        for (const std::size_t tasks : {1, 8}) {
            inner = elsewhere = 0;
            pool.for_each(tasks, [&](std::size_t, int worker) {
                const std::thread::id me = std::this_thread::get_id();
                pool.for_each(5, [&](std::size_t, int w) {
                    ++inner;
                    if (w != worker || std::this_thread::get_id() != me) ++moved;
                });
                other.for_each(3, [&](std::size_t, int) { ++elsewhere; }); // another pool is free
                pool.for_each(2, [&](std::size_t, int w) {
                    if (w != worker) ++moved;
                });
            });
            CHECK(inner == int(5 * tasks));
            CHECK(elsewhere == int(3 * tasks));
        }
        CHECK(moved == 0);
        CHECK_THROWS_AS(
            pool.for_each(
                4, [&](std::size_t, int) { pool.for_each(4, [](std::size_t, int) { throw 1; }); }),
            int);
    }
}

TEST_CASE("several callers take turns: no two tasks of one worker at once, single tasks included") {
    thread_pool pool(3);
    std::atomic<int> in_worker[3] = {};
    std::atomic<int> clashes = 0, done = 0;
    std::vector<std::thread> callers;
    for (int n = 0; n < 3; ++n)
        callers.emplace_back([&, n] {
            for (int i = 0; i < many / 100; ++i)
                pool.for_each(std::size_t(1 + n), [&](std::size_t, int worker) {
                    if (in_worker[worker]++ != 0) ++clashes;
                    ++done;
                    --in_worker[worker];
                });
        });
    for (std::thread& t : callers) t.join();
    CHECK(clashes == 0);
    CHECK(done == (1 + 2 + 3) * (many / 100));
}

TEST_CASE("many small jobs, one after the other: none hangs, none loses a task or its writes") {
    for (int threads = 2; threads <= 4; ++threads) {
        thread_pool pool(threads);
        std::vector<unsigned> x(8); // plain numbers: what tasks wrote must be visible to the caller
        std::atomic<int> helped = 0;
        bool right = true;
        for (int i = 0; i < many; ++i) {
            pool.for_each(2 + std::size_t(i) % 7, [&](std::size_t task, int worker) {
                x[task] += unsigned(i);
                if (worker > 0) ++helped;
                if (i % 200 == 0) // long enough for the others to come, on a busy machine too
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
            });
            right = right && x[0] == x[1];
            if (i % 1000 == 0) // let them fall asleep
                std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        CHECK(right);
        CHECK(helped > 0);
        unsigned want = 0;
        for (int i = 0; i < many; ++i) want += unsigned(i);
        CHECK(x[0] == want);
    }
}

TEST_CASE("sabotage: tasks that write the same element" * doctest::skip()) {
    // Run by name in the build with -fsanitize=thread, which must see it.
    thread_pool pool(4);
    int shared = 0;
    for (int i = 0; i < 100; ++i)
        pool.for_each(8, [&](std::size_t, int) {
            ++shared;
            std::this_thread::sleep_for(std::chrono::microseconds(100)); // so that all take part
        });
    MESSAGE(shared);
}

TEST_CASE("pools come and go, with and without work") {
    for (int i = 0; i < 200; ++i) {
        thread_pool pool(1 + i % 4);
        std::atomic<int> done = 0;
        if (i % 3) pool.for_each(5, [&](std::size_t, int) { ++done; });
        CHECK(done == (i % 3 ? 5 : 0));
    }
}

TEST_CASE("sleeping workers cost no time, and wake for the next job") {
    thread_pool pool(4);
    pool.for_each(4, [](std::size_t, int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // long past the spinning
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    getrusage(RUSAGE_SELF, &after);
    const auto us = [](const rusage& r) {
        return 1e6 * double(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
               double(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    };
    CHECK(us(after) - us(before) < 100000); // 3 spinning workers would take 200,000 a core
    std::set<int> workers;
    std::mutex lock;
    pool.for_each(4, [&](std::size_t, int worker) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100)); // so that each gets one
        const std::lock_guard hold(lock);
        workers.insert(worker);
    });
    CHECK(workers.size() > 1);
}

#if !defined(MPT_TSAN) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("more threads than the system gives are refused in one line") {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{std::size_t(1) << 28, std::size_t(1) << 28}; // stacks are 8 MiB each
        setrlimit(RLIMIT_AS, &limit);
        std::string said;
        try {
            thread_pool pool(10000);
        } catch (const error& e) {
            said = e.what();
        }
        const bool right = said.find("thread_pool: the system gives ") == 0 &&
                           said.find("wanted 10000 (") != said.npos &&
                           said.find("give a smaller --threads") != said.npos;
        _exit(right ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
#endif
