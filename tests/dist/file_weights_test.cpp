// SPDX-License-Identifier: MIT
// Weights in files that somebody damaged, disks that are full: an error on all ranks that names
// unit and file, and no step on wrong weights. What is read while what computes. Many steps.
#include <doctest/doctest.h>

#include "away_rig.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

using namespace mpt;
using rig::away_rank;
using rig::bytes_of, rig::overwrite;
using rig::refusal;
using rig::says;

namespace {

constexpr int ranks = 3;

std::string path_of(const std::string& folder, int rank, int unit) {
    return join(folder, "/rank", rank, "-unit", unit, ".weights");
}

rig::away_plan in_files(const std::string& folder, const disk& calls = real_disk) {
    return {offload_to::file,
            offload_to::host,
            1,
            reduce_mode::every,
            1,
            {.folder = folder, .part = 1024, .buffers = 2, .calls = calls},
            1};
}

// The weights of all ranks after each of some steps.
std::vector<std::vector<bf16>> undisturbed(int steps) {
    std::vector<std::vector<bf16>> all;
    const layout map = rig::away_units();
    run_ranks(ranks, [&](communicator& comm) {
        away_rank<bf16> run(comm, map, {});
        for (int i = 0; i < steps; ++i) {
            run.step(i);
            const auto w = run.all_weights();
            if (comm.rank() == 0) all.push_back(w);
        }
    });
    return all;
}

// What all ranks together say to damage that rank 1 does after its first step. Steps that they
// still take are right.
std::string after(const std::function<void(const std::string& folder)>& damage,
                  const disk& calls = real_disk) {
    static const auto want = undisturbed(4);
    const layout map = rig::away_units();
    const rig::folder here;
    std::atomic<int> ended = 0;
    const std::string said = refusal([&] {
        run_ranks(ranks, [&](communicator& comm) {
            try {
                away_rank<bf16> run(comm, map,
                                    in_files(here.path, comm.rank() == 1 ? calls : real_disk));
                for (int i = 0; i < 4; ++i) {
                    run.step(i);
                    if (i == 0) {
                        comm.barrier();
                        if (comm.rank() == 1) damage(here.path);
                        comm.barrier();
                        continue;
                    }
                    const auto w = run.all_weights();
                    CHECK(rig::same_bits(w, want[std::size_t(i)]));
                }
            } catch (...) {
                ++ended;
                throw;
            }
        });
    });
    CHECK(ended == (said == "nothing" ? 0 : ranks)); // on all ranks, or on none
    if (said != "nothing") CHECK(says(said, "rank 1"));
    return said;
}

} // namespace

TEST_CASE("a file that was cut by a byte, or emptied") {
    for (const int unit : {0, 3, 5}) {
        const std::string file = join("rank1-unit", unit, ".weights: ends at byte ");
        const std::string name = "(weights of " + rig::away_units().units[std::size_t(unit)].name;
        for (const bool whole : {false, true}) {
            const std::string said = after([&](const std::string& folder) {
                const std::string path = path_of(folder, 1, unit);
                std::filesystem::resize_file(path,
                                             whole ? 0 : std::filesystem::file_size(path) - 1);
            });
            if (rig::away_units().units[std::size_t(unit)].size() <= 256) continue;
            CHECK(says(said, file));
            CHECK(says(said, name));
        }
    }
}

TEST_CASE("a file that holds another unit's weights, of another run, of an earlier step, a flip") {
    const std::string swapped = after([](const std::string& folder) {
        const std::string a = bytes_of(path_of(folder, 1, 0)), b = bytes_of(path_of(folder, 1, 5));
        overwrite(path_of(folder, 1, 0), b.substr(0, a.size()));
        overwrite(path_of(folder, 1, 5), a);
    });
    CHECK(says(swapped, "rank1-unit0.weights: record 0 (weights of unit of 513) holds record 0, "));
    CHECK(says(swapped, "bytes of weights of unit of 4095, wanted"));

    const std::string another_rank = after([](const std::string& folder) {
        overwrite(path_of(folder, 1, 3), bytes_of(path_of(folder, 2, 3)));
    });
    CHECK(says(another_rank, "rank1-unit3.weights: record 0 (weights of unit of 4097) "));

    const std::string other_run = after([](const std::string& folder) {
        const rig::folder there;
        const layout map = rig::away_units();
        rig::machine m(1);
        transfers copies;
        file_weights<bf16> other(m.mem, map, partition(map, ranks), 1, copies,
                                 {.folder = there.path, .rank = 1}, 2);
        for (int step = 0; step < 2; ++step)
            other.begin([](std::size_t, std::span<bf16> to) {
                std::fill(to.begin(), to.end(), bf16(1.0f));
            });
        overwrite(path_of(folder, 1, 3), bytes_of(path_of(there.path, 1, 3)));
    });
    CHECK(says(other_run, "rank1-unit3.weights: record 0 (weights of unit of 4097) was written by "
                          "run 2, this is run 1; give each run an --offload-dir of its own"));

    const std::string flipped = after([](const std::string& folder) {
        overwrite(path_of(folder, 1, 3), "?", state_file::seal_bytes + 1000);
    });
    CHECK(
        says(flipped, "rank1-unit3.weights: record 0 (weights of unit of 4097) its bytes add up"));

    const std::string nothing = after(
        [](const std::string& folder) { overwrite(path_of(folder, 1, 4), std::string(300, 'x')); });
    CHECK(says(nothing, "(weights of unit of 512) is no record of states"));
}

TEST_CASE("sabotage: an update whose weights the disk loses is refused as stale") {
    disk d = real_disk;
    std::atomic<bool> loses = false;
    d.pwrite = [&](int f, const void* from, std::size_t n, off_t at) -> ssize_t {
        return loses ? ssize_t(n) : real_disk.pwrite(f, from, n, at); // says so, and does not
    };
    const std::string said = after([&](const std::string&) { loses = true; }, d);
    CHECK(says(said, "was written 2 times, wanted 3; resume from a checkpoint"));
}

TEST_CASE("a disk that is full or fails, at any of its calls") {
    const auto want = undisturbed(3);
    const layout map = rig::away_units();
    for (const bool reads : {false, true})
        for (int nth = 0; nth < 60; nth += 7) {
            const rig::folder here;
            const int fault = reads ? EIO : ENOSPC;
            std::atomic<int> calls = 0, ended = 0;
            disk d = real_disk; // of rank 1
            if (reads)
                d.pread = [&](int f, void* to, std::size_t n, off_t at) -> ssize_t {
                    return calls++ == nth ? (errno = fault, -1) : real_disk.pread(f, to, n, at);
                };
            else
                d.pwrite = [&](int f, const void* from, std::size_t n, off_t at) -> ssize_t {
                    return calls++ == nth ? (errno = fault, -1) : real_disk.pwrite(f, from, n, at);
                };
            const std::string said = refusal([&] {
                run_ranks(ranks, [&](communicator& comm) {
                    try {
                        away_rank<bf16> run(comm, map,
                                            in_files(here.path, comm.rank() == 1 ? d : real_disk));
                        for (int i = 0; i < 3; ++i) {
                            run.step(i);
                            const auto w = run.all_weights();
                            CHECK(rig::same_bits(w, want[std::size_t(i)]));
                        }
                        run.place->settle(); // a read ahead that nobody came for
                        comm.barrier();
                    } catch (...) {
                        ++ended;
                        throw;
                    }
                });
            });
            if (calls <= nth) continue; // it was over before
            CHECK(ended == ranks);
            CHECK(says(said, "rank 1"));
            CHECK(says(said, here.path + "/rank1-unit"));
            CHECK(says(said, std::strerror(fault)));
            CHECK(says(said, "(weights of "));
        }
}

// ---- what happens under what -----------------------------------------------------------------

namespace {

struct bar {
    double begin, end;
};
// "read 3" -> its bars, in the order of the trace.
std::map<std::string, std::vector<bar>> bars(const std::string& path) {
    std::ifstream in(path);
    std::map<std::string, std::vector<bar>> all;
    for (std::string line; std::getline(in, line);) {
        const auto number = [&](const std::string& key) {
            const std::size_t at = line.find("\"" + key + "\":");
            return at == line.npos ? -1 : std::stod(line.substr(at + key.size() + 3));
        };
        if (line.find("\"ph\":\"X\"") == line.npos) continue;
        const std::size_t name = line.find("\"name\":\"") + 8;
        const double ts = number("ts"), unit = number("unit");
        all[line.substr(name, line.find('"', name) - name) + ' ' + std::to_string(int(unit))]
            .push_back({ts, ts + number("dur")});
    }
    return all;
}

// The second step of a run of one rank: bars of reads, writes and uses. A use waits until the read
// that is to begin under it has begun.
std::map<std::string, std::vector<bar>> second_step(int ahead, bool& missed) {
    const layout map = rig::away_units();
    const rig::folder here;
    const std::string path = here.path + "/trace.json";
    std::mutex lock;
    std::condition_variable changed;
    int begun = 0; // reads of this step
    disk d = real_disk;
    d.pread = [&](int f, void* to, std::size_t n, off_t at) {
        {
            const std::lock_guard hold(lock);
            ++begun;
        }
        changed.notify_all();
        return real_disk.pread(f, to, n, at);
    };
    missed = false;
    run_ranks(1, [&](communicator& comm) {
        trace seen(path);
        rig::away_plan p = in_files(here.path, d);
        p.ahead = ahead;
        p.files.seen = &seen;
        away_rank<bf16> run(comm, map, p);
        run.step(0);
        {
            const std::lock_guard hold(lock);
            begun = 0;
        }
        // Units 0 to 5, and back: at use i of them the read of use i + 1 + ahead has begun.
        const int units = int(map.units.size());
        int use = 0;
        run.step(1, [&](int u) {
            const range r(&seen, lane::compute, "use", join("\"unit\":", u));
            const int j = std::min(2 * units - 1, use++ + 1 + ahead);
            std::unique_lock hold(lock);
            const int wanted = j + 1 - (j >= units); // one read for the last unit's two uses
            if (!changed.wait_for(hold, std::chrono::seconds(missed ? 0 : 60),
                                  [&] { return begun >= wanted; }))
                missed = true;
        });
    });
    return bars(path);
}

} // namespace

TEST_CASE(
    "the read of unit u + 1 begins before unit u is released, with and without gathers ahead") {
    const int units = int(rig::away_units().units.size());
    for (const int ahead : {0, 1}) {
        bool missed;
        auto t = second_step(ahead, missed);
        CHECK(!missed);
        for (int u = 0; u + 1 < units; ++u) {
            const auto name = [](const char* what, int unit) {
                return what + (' ' + std::to_string(unit));
            };
            // the last two of each: forward's and backward's of the second step
            const auto& use = t.at(name("use", u));
            const auto& next = t.at(name("read", u + 1));
            const std::size_t last = next.size() - (u + 1 == units - 1 ? 1 : 2);
            CHECK(next[last].begin < use[0].end); // forward
            if (u + ahead + 1 < units) {
                const auto& later = t.at(name("read", u + ahead + 1));
                CHECK(later[later.size() - (u + ahead + 1 == units - 1 ? 1 : 2)].begin <
                      use[0].end);
            }
            CHECK(t.at(name("read", u)).back().begin < t.at(name("use", u + 1))[1].end); // backward
        }
        // an update writes a unit's weights once, after all that was read
        for (int u = 0; u < units; ++u)
            CHECK(t.at("write " + std::to_string(u)).size() == 3); // begin, and two steps
    }
}

// ---- many steps ------------------------------------------------------------------------------

TEST_CASE("smallest buffers, many steps: no race, no growth") {
    const bool soak = std::getenv("MPT_SOAK") != nullptr;
    const int steps = soak ? 1000 : 30;
    layout map;
    for (const std::size_t n : {513, 1, 511}) {
        map.add_unit("unit of " + std::to_string(n));
        map.add("x" + std::to_string(n), {n}, 0);
    }
    const rig::folder files;
    run_ranks(2, [&](communicator& comm) {
        const reduce_mode every = reduce_mode::every;
        away_rank<bf16> here(comm, map, {offload_to::none, offload_to::none, 2, every}),
            run(comm, map,
                {offload_to::file,
                 offload_to::file,
                 2,
                 every,
                 1,
                 {.folder = files.path, .part = 256, .buffers = 1}});
        std::size_t device = 0, host = 0, disk_bytes = 0;
        const auto on_disk = [&] {
            std::size_t bytes = 0;
            comm.barrier();
            for (const auto& f : std::filesystem::directory_iterator(files.path))
                bytes += f.file_size();
            comm.barrier();
            return bytes;
        };
        for (int i = 0; i < steps; ++i) {
            here.step(i);
            run.step(i);
            if (i == 5) {
                run.store->settle();
                device = run.m.mem.books.peak_total();
                host = run.m.mem.books.peak_total(place::host);
                disk_bytes = on_disk();
            }
        }
        run.store->settle();
        CHECK(run.left() == here.left());
        CHECK(run.m.mem.books.total() == 64); // the rig's scratch
        CHECK(run.m.mem.books.peak_total() == device);
        CHECK(run.m.mem.books.peak_total(place::host) == host);
        CHECK(on_disk() == disk_bytes);
    });
}
