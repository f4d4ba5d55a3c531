// SPDX-License-Identifier: MIT
// Files that somebody damaged, disks that fail, threads that do not wait: no step on wrong data.
#include <doctest/doctest.h>

#include "mpt/train/adamw.hpp"
#include "offload_rig.hpp"

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>

using namespace mpt;
using rig::bytes_of, rig::overwrite;
using rig::refusal;
using rig::says;

namespace {

constexpr std::size_t part = 512;

// A run whose states are in files, one micro-batch a window.
template <class Queue = progress>
struct run {
    explicit run(const std::string& folder, int buffers = 1, const disk& d = real_disk,
                 std::uint64_t number = 1)
        : mine(rig::by_unit(map, weights.data())),
          store(m.mem, map, mine, 2,
                {.folder = folder, .part = part, .buffers = buffers, .calls = d}, number),
          o(m.mem, mine, store, copies) {}

    void begin() { o.begin(rig::first_master(first)); }
    void step() {
        const auto g = rig::numbers<fp16>(std::uint32_t(100 + at), map.size(), 1);
        o.step(rule, m.on, map, rig::by_unit<const fp16>(map, g.data()), rig::factor_of(at),
               rig::rate_of(at));
        ++at;
    }

    layout map = rig::edges();
    rig::machine m{1};
    std::vector<fp16> weights = rig::first_weights<fp16>(map);
    const std::vector<fp16> first = weights;
    const pieces<fp16> mine;
    transfers copies;
    file_states<fp16, Queue> store;
    offload<fp16> o;
    adamw rule;
    int at = 0;
};

// The weights after each of four steps.
std::vector<std::vector<fp16>> undisturbed() {
    const rig::folder here;
    run r(here.path);
    r.begin();
    std::vector<std::vector<fp16>> all;
    for (int i = 0; i < 4; ++i) {
        r.step();
        all.push_back(r.weights);
    }
    return all;
}

std::vector<std::string> paths(const std::string& folder) { // of the four units
    std::vector<std::string> p;
    for (int i = 0; i < 4; ++i)
        p.push_back(folder + "/rank0-piece" + std::to_string(i) + ".states");
    return p;
}

// What a run says to damage that is done after its first step. Until then, and in every step that
// it still takes, its weights are right.
std::string after(const std::function<void(run<>&, const std::string&)>& damage) {
    const auto want = undisturbed();
    const rig::folder here;
    run r(here.path);
    r.begin();
    r.step();
    r.store.settle();
    CHECK(rig::same_bits(r.weights, want[0]));
    damage(r, here.path);
    const std::string said = refusal([&] {
        for (int i = 1; i < 4; ++i) {
            r.step();
            CHECK(rig::same_bits(r.weights, want[std::size_t(i)]));
        }
    });
    if (said != "nothing") CHECK(says(refusal([&] { r.step(); }), "resume from a checkpoint"));
    return said;
}

} // namespace

TEST_CASE("a file that was cut by a byte, or emptied") {
    for (int which = 0; which < 4; ++which) {
        const std::string file = "rank0-piece" + std::to_string(which) + ".states";
        const char* const last[] = {"states of c", "states of e", "states of f",
                                    "states of h"};
        const std::string cut = after([&](run<>&, const std::string& folder) {
            const std::string path = folder + '/' + file;
            std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
        });
        CHECK(says(cut, file + ": ends at byte "));
        CHECK(says(cut, last[which]));
        const std::string emptied = after([&](run<>&, const std::string& folder) {
            std::filesystem::resize_file(folder + '/' + file, 0);
        });
        CHECK(says(emptied, file + ": ends at byte "));
        CHECK(says(emptied, "(states of "));
    }
}

TEST_CASE("a file that holds another tensor's states") {
    const std::string swapped = after([](run<>&, const std::string& folder) {
        const auto p = paths(folder);
        const std::string a = bytes_of(p[1]), b = bytes_of(p[3]);
        overwrite(p[3], a);
        overwrite(p[1], b);
    });
    CHECK(says(swapped, "rank0-piece1.states: record 0 (states of d) holds record 0, "));
    CHECK(says(swapped, "bytes of states of g, wanted"));
}

TEST_CASE("records of a file in another order") {
    const std::string said = after([](run<>&, const std::string& folder) {
        const std::string path = paths(folder)[1], all = bytes_of(path);
        const std::size_t one = state_file::record_bytes(12 * part); // of part 1, after part 0
        overwrite(path, all.substr(0, one), one);
    });
    CHECK(says(said, "rank0-piece1.states: record 1 (states of d to e) holds record 0"));
}

TEST_CASE("a file of another run, a file of an earlier step, no file of states") {
    const std::string other = after([](run<>&, const std::string& folder) {
        const rig::folder there;
        run r(there.path, 1, real_disk, 2);
        r.begin();
        r.step();
        r.store.settle();
        overwrite(paths(folder)[2], bytes_of(paths(there.path)[2]));
    });
    CHECK(says(other, "rank0-piece2.states: record 0 (states of f) was written by run 2, this is "
                      "run 1; give each run an --offload-dir of its own"));

    std::string earlier;
    const std::string old = after([&](run<>& r, const std::string& folder) {
        earlier = bytes_of(paths(folder)[2]);
        r.step();
        r.store.settle();
        overwrite(paths(folder)[2], earlier);
        r.at = 1; // steps are counted by the one who asks
        r.rule.applied = 1;
    });
    CHECK(says(old, "rank0-piece2.states: record 0 (states of f) was written 2 times, wanted 3"));

    const std::string none = after([](run<>&, const std::string& folder) {
        overwrite(paths(folder)[0], std::string(20000, 'x'));
    });
    CHECK(says(none, "rank0-piece0.states: record 0 (states of a to b) is no record of states") ==
          false); // part 0 is in its buffer already
    CHECK(says(none, "rank0-piece0.states: record 1 (states of c) is no record of states"));
}

TEST_CASE("a byte of a number") {
    const std::string said = after(
        [](run<>&, const std::string& folder) { overwrite(paths(folder)[3], "?", 4096 + 700); });
    CHECK(says(said, "rank0-piece3.states: record 0 (states of g) its bytes add up to "));
}

TEST_CASE("files that lost their names are the run's still") {
    CHECK(after([](run<>&, const std::string& folder) {
              for (const std::string& p : paths(folder)) std::filesystem::remove(p);
          }) == "nothing");
    CHECK(after([](run<>&, const std::string& folder) {
              std::filesystem::rename(paths(folder)[1], folder + "/x");
              std::filesystem::rename(paths(folder)[3], paths(folder)[1]);
          }) == "nothing");
}

TEST_CASE("a disk that is full or fails, at any of its calls") {
    const auto want = undisturbed();
    for (const int fault : {ENOSPC, EIO})
        for (const bool reads : {false, true}) {
            if (reads && fault == ENOSPC) continue;
            for (int nth = 0; nth < 300; nth += 23) {
                const rig::folder here;
                std::atomic<int> calls = 0;
                disk d = real_disk;
                if (reads)
                    d.pread = [&](int f, void* to, std::size_t n, off_t at) -> ssize_t {
                        return calls++ == nth ? (errno = fault, -1) : real_disk.pread(f, to, n, at);
                    };
                else
                    d.pwrite = [&](int f, const void* from, std::size_t n, off_t at) -> ssize_t {
                        return calls++ == nth ? (errno = fault, -1)
                                              : real_disk.pwrite(f, from, n, at);
                    };
                run r(here.path, 2, d);
                const std::string said = refusal([&] {
                    r.begin();
                    for (std::size_t i = 0; i < 4; ++i) {
                        r.step();
                        CHECK(rig::same_bits(r.weights, want[i]));
                    }
                    r.store.settle();
                });
                if (calls <= nth) continue; // it was over before
                CHECK(says(said, here.path + "/rank0-piece"));
                CHECK(says(said, std::strerror(fault)));
                CHECK(says(said, "(states of "));
            }
        }
}

TEST_CASE("a disk that is full is noticed before the first step") {
    const rig::folder here;
    disk d = real_disk;
    std::atomic<std::size_t> room = 100'000;
    d.pwrite = [&](int f, const void* from, std::size_t n, off_t at) -> ssize_t {
        if (room < n) return errno = ENOSPC, -1;
        room -= n;
        return real_disk.pwrite(f, from, n, at);
    };
    run r(here.path, 3, d);
    CHECK(says(refusal([&] { r.begin(); }), "No space left on device"));
    CHECK(says(refusal([&] { r.step(); }), "resume from a checkpoint"));
}

// ---- sabotage: queues that break the promise ---------------------------------------------------

namespace {

// What is started is done when the next is: nobody waits for the read.
struct impatient {
    handle start(std::function<void()> work, std::function<void()>) {
        if (before) before();
        before = std::move(work);
        return {};
    }
    std::function<void()> before;
};

// Every ninth job, a write and the read behind it, is done a job late.
struct late_writes {
    handle start(std::function<void()> work, std::function<void()>) {
        if (++jobs % 9 == 0) { // this one waits until after the next
            held = std::move(work);
            return {};
        }
        work();
        if (held) std::exchange(held, nullptr)();
        return {};
    }
    std::function<void()> held;
    int jobs = 0;
};

} // namespace

TEST_CASE("sabotage: an update that does not wait for its read is refused") {
    const rig::folder here;
    run<impatient> r(here.path, 2);
    const std::string said = refusal([&] {
        r.begin();
        r.step();
        r.step();
    });
    CHECK(says(said, "record "));
    CHECK(says(said, "(states of "));
}

TEST_CASE("sabotage: a write that comes late is refused") {
    const rig::folder here;
    run<late_writes> r(here.path, 2);
    const std::string said = refusal([&] {
        r.begin();
        r.step();
        r.step();
    });
    CHECK(says(said, "record "));
}

TEST_CASE("sabotage: buffers that are swapped are refused") {
    const rig::folder here;
    disk d = real_disk;
    int reads = 0;
    d.pread = [&](int f, void* to, std::size_t n, off_t at) -> ssize_t {
        return real_disk.pread(f, to, n, ++reads == 5 ? 0 : at); // into the wrong one, as it were
    };
    run r(here.path, 1, d);
    const std::string said = refusal([&] {
        r.begin();
        r.step();
    });
    CHECK(says(said, "holds record 0, "));
}
