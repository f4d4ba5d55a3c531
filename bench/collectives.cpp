// SPDX-License-Identifier: MIT
// collectives.cpp -- all_reduce among ranks as threads: by owners, against ring, leader and memory.
#include "common.hpp"

#include "mpt/comm/leader.hpp" // leader_all_reduce
#include "mpt/comm/ring.hpp"   // ring_all_reduce
#include "mpt/comm/world.hpp"  // run_ranks

#include <condition_variable>
#include <mutex>

namespace {

constexpr const char* about =
    "all_reduce of 25 MiB of fp32 (and of 1 MiB, and of bf16) among ranks as threads, as each\n"
    "owner sums its slice, against a ring of sends, against a leader, and against the rate of\n"
    "b += a for the 8 N bytes an element that N ranks must move: N reads and N writes.";

// Ranks that are always there, and do together what they are given.
class crew {
public:
    explicit crew(int ranks)
        : ranks_(ranks), main_([this] { mpt::run_ranks(ranks_, [this](auto& c) { live(c); }); }) {}
    ~crew() {
        run(nullptr);
        main_.join();
    }
    void run(std::function<void(mpt::communicator&)> work) {
        std::unique_lock hold(lock_);
        work_ = std::move(work);
        done_ = 0;
        ++number_;
        changed_.notify_all();
        changed_.wait(hold, [&] { return done_ == ranks_; });
    }

private:
    void live(mpt::communicator& comm) {
        for (long seen = 0;;) {
            std::function<void(mpt::communicator&)> work;
            {
                std::unique_lock hold(lock_);
                changed_.wait(hold, [&] { return number_ != seen; });
                seen = number_;
                work = work_;
            }
            if (work) work(comm);
            const std::lock_guard hold(lock_);
            if (++done_ == ranks_) changed_.notify_all();
            if (!work) return;
        }
    }

    int ranks_, done_ = 0;
    long number_ = 0;
    std::function<void(mpt::communicator&)> work_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::thread main_; // last: it uses all of these
};

template <class T>
void rows(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem, bench::stream_add& limit,
          int ranks, std::size_t bytes, const std::string& size, bool with_goals) {
    const std::string row = mpt::join("all_reduce, ", ranks, " x ", size);
    const char* const ends[] = {", of the ring", ", of a leader", ", of memory"};
    if (!table.wants(row + ends[0]) && !table.wants(row + ends[1]) && !table.wants(row + ends[2]))
        return;
    const std::size_t n = bytes / sizeof(T);
    std::vector<mpt::buffer<T>> x, room;
    for (int r = 0; r < ranks; ++r) {
        x.push_back(bench::numbers<T>(pool, mem, n, 1e-6f,
                                      [](float v) { return mpt::narrow<T>(mpt::wide_t<T>(v)); }));
        room.emplace_back(mem, mpt::kind::comm, n, "what arrives");
    }
    crew all(ranks);
    const auto of = [&](auto verb) {
        return [&, verb] {
            all.run([&](mpt::communicator& comm) {
                const std::size_t r = std::size_t(comm.rank());
                verb(comm, x[r].span(), room[r].span());
            });
        };
    };
    const auto owner = of([](auto& comm, auto x, auto) { comm.all_reduce(x); });
    const auto ring = of([](auto& comm, auto x, auto room) { ring_all_reduce(comm, x, room); });
    const auto leader = of([](auto& comm, auto x, auto room) { leader_all_reduce(comm, x, room); });
    const double bus = 2e-9 * double(bytes) * (ranks - 1) / ranks; // GB that each rank sends
    const auto goal = [&](double g) { return with_goals ? g : 0; };
    table.compare(row + ends[0], "GB/s", goal(1.5), {"", bus, owner}, {"ring", bus, ring});
    table.compare(row + ends[1], "GB/s", goal(2), {"", bus, owner}, {"leader", bus, leader});
    const double moved = 2e-9 * double(bytes) * ranks; // 8 bytes an element of fp32 and rank
    table.compare(row + ends[2], "GB/s", goal(0.6), {"", moved, owner}, limit.as_side());
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "collectives", about);
    return bench::guarded("collectives", [&] {
        bench::table table(o, "collectives");
        mpt::thread_pool pool(o.threads);
        mpt::memory mem;
        const std::size_t bytes = o.size<std::size_t>(25 << 20, 1 << 16);
        bench::stream_add limit(pool, mem, o.size<std::size_t>(100'000'000, 100'000));
        rows<float>(table, pool, mem, limit, 2, bytes, "25 MiB fp32", true);
        rows<float>(table, pool, mem, limit, 4, bytes, "25 MiB fp32", false);
        rows<float>(table, pool, mem, limit, 2, bytes / 25, "1 MiB fp32", false);
        rows<mpt::bf16>(table, pool, mem, limit, 2, bytes, "25 MiB bf16", false);
    });
}
