// SPDX-License-Identifier: MIT
/// @file racecheck.hpp
/// Two accesses, one a write, and nothing that orders them: a race.     tier 2, needs:
/// base/error.hpp simt/shadow.hpp
///
/// Idea     Not what happened to come first, but what must come first. In a block: __syncthreads
///          orders all, __syncwarp the threads of its mask (each lane knows up to which step it has
///          seen each other lane); shuffles and votes order nothing. Between blocks nothing does,
///          except a hand-over: fence, then atomic, then an atomic on the same address ("the last
///          block is done"). Atomics do not race with each other. A right answer is no excuse.
/// Costs    32 bytes a thread, source line and step between barriers
/// Breaks   a chain of hand-overs over several addresses is not followed and is called a race;
///          of three or more readers of a byte in one step, two are remembered
/// Source   Flanagan, Freund 2009, FastTrack, PLDI; PTX ISA, memory consistency model
/// See      shadow.hpp, tests/simt/faults.cpp
#pragma once
#include "mpt/base/error.hpp"  // check
#include "mpt/simt/shadow.hpp" // shadow_cell

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mpt::simt {

/// One or more accesses of one thread from one instruction in one step between barriers.
struct access_record {
    std::uint32_t site = 0;              // the instruction (checks.hpp)
    std::uint32_t block = 0, thread = 0; // linear numbers
    std::uint32_t time = 0;              // when the thread's step began
    std::uint32_t clock = 0;             // the thread's own count of __syncwarp
    std::uint32_t epoch = 0;             // barriers that the block had passed
    bool write = false, atomic = false;
    bool by_warp = false; // all lanes of the warp together
};

/// What comes before what, in one launch whose blocks run one after another.
class access_order {
public:
    void begin_block(std::uint32_t number, std::uint32_t threads) {
        block_ = number;
        epoch_ = 0;
        barrier_time_ = ++time_;
        threads_.assign(threads, thread_state{});
        states_ = threads_.data();
        for (thread_state& t : threads_) t.step = time_ + 1;
        ++time_;
        fences_.reset();
        taken_.clear();
        mine_.assign(threads, {});
    }
    /// All threads of the block have met at __syncthreads.
    void barrier() {
        ++epoch_;
        barrier_time_ = ++time_;
        ++time_;
        if (any_fence_) {
            auto at = std::make_shared<std::vector<std::uint32_t>>();
            for (const thread_state& t : threads_) at->push_back(t.fence);
            fences_ = std::move(at);
            for (auto& taken : mine_) join(taken_, taken), taken.clear();
        }
        for (thread_state& t : threads_) t.step = time_;
    }
    /// The threads of one warp that met at __syncwarp, by their lanes.
    void warp_barrier(std::uint32_t warp, std::uint32_t lanes) {
        warp_clocks known;
        std::vector<taken> all;
        ++time_;
        const auto each = [&](auto&& what) {
            for (std::uint32_t lane = 0; lane < 32; ++lane)
                if (lanes >> lane & 1 && warp * 32 + lane < threads_.size()) what(warp * 32 + lane);
        };
        each([&](std::uint32_t t) {
            thread_state& s = threads_[t];
            s.known.of[t % 32] = s.clock;
            for (int i = 0; i < 32; ++i) known.of[i] = std::max(known.of[i], s.known.of[i]);
            if (any_fence_) join(all, mine_[t]);
        });
        each([&](std::uint32_t t) {
            threads_[t].known = known;
            threads_[t].clock++;
            threads_[t].step = time_;
            if (any_fence_) mine_[t] = all;
        });
    }
    void fence(std::uint32_t thread) {
        any_fence_ = true;
        thread_state& t = threads_[thread];
        t.fence = ++time_;
        t.barrier_before_fence = barrier_time_;
        t.known_at_fence = t.known;
        t.step = ++time_;
    }
    /// Take what others handed over at this address; hand over what a fence of ours covers.
    void atomic(std::uint32_t thread, std::uintptr_t address) {
        if (!any_fence_) return;
        chain& c = chains_[address];
        if (!c.given.empty()) join(mine_[thread], {{&c, c.given.size()}});
        const thread_state& t = threads_[thread];
        if (t.fence || fences_)
            c.given.push_back({block_, thread, t.step, t.fence, t.barrier_before_fence,
                               t.known_at_fence, fences_});
    }

    /// Is everything that `before` stands for ordered before what `thread` of this block does now?
    MPT_SIMT_QUIET bool ordered(const access_record& before, std::uint32_t thread) const {
        if (before.block == block_) {
            if (before.thread == thread || before.epoch < epoch_) return true;
            if (before.thread / 32 == thread / 32 &&
                states_[thread].known.of[before.thread % 32] >= before.clock)
                return true;
        }
        return any_fence_ && handed_over(before, thread);
    }

    MPT_SIMT_QUIET std::uint32_t step(std::uint32_t thread) const { return states_[thread].step; }
    access_record record(std::uint32_t site, std::uint32_t thread, bool write, bool atomic,
                         bool by_warp) const {
        const thread_state& t = threads_[thread];
        return {site, block_, thread, t.step, t.clock, epoch_, write, atomic, by_warp};
    }
    void begin_launch() { chains_.clear(), any_fence_ = false; }

private:
    struct warp_clocks {
        std::uint32_t of[32] = {}; // up to which clock each lane of the warp has been seen
    };
    struct thread_state {
        std::uint32_t step = 0;  // changes at whatever may order
        std::uint32_t clock = 1; // of __syncwarp
        std::uint32_t fence = 0; // time of the last __threadfence
        std::uint32_t barrier_before_fence = 0;
        warp_clocks known, known_at_fence;
    };
    struct hand_over {
        std::uint32_t block, thread, step, fence, barrier_before_fence;
        warp_clocks known;
        std::shared_ptr<const std::vector<std::uint32_t>> fences; // of all threads, at a barrier

        bool covers(const access_record& a) const {
            if (a.block != block) return false;
            if (a.atomic && a.thread == thread && a.time <= step) return true; // this one itself
            if (fences && a.time < (*fences)[a.thread])
                return true; // its own fence, then a barrier
            if (fence == 0) return false;
            if (a.thread == thread) return a.time < fence;
            if (a.time < barrier_before_fence) return true;
            return a.thread / 32 == thread / 32 && a.time < fence &&
                   a.clock <= known.of[a.thread % 32];
        }
    };
    struct chain {
        std::vector<hand_over> given; // at one address, in order
    };
    struct taken {
        const chain* from;
        std::size_t count; // the first `count` of them
    };

    static void join(std::vector<taken>& to, const std::vector<taken>& more) {
        for (const taken& m : more) {
            auto same = std::find_if(to.begin(), to.end(),
                                     [&](const taken& t) { return t.from == m.from; });
            if (same == to.end())
                to.push_back(m);
            else
                same->count = std::max(same->count, m.count);
        }
    }
    bool handed_over(const access_record& before, std::uint32_t thread) const {
        for (const auto* list : {&taken_, &mine_[thread]})
            for (const taken& t : *list)
                for (std::size_t i = 0; i < t.count; ++i)
                    if (t.from->given[i].covers(before)) return true;
        return false;
    }

    std::uint32_t block_ = 0, epoch_ = 0, time_ = 0, barrier_time_ = 0;
    bool any_fence_ = false;
    std::vector<thread_state> threads_;
    thread_state* states_ = nullptr; // the same, for where every nanosecond counts
    std::shared_ptr<const std::vector<std::uint32_t>> fences_; // of this block's last barrier
    std::unordered_map<std::uintptr_t, chain> chains_;         // nodes keep their place
    std::vector<taken> taken_;                                 // by the block, at its last barrier
    std::vector<std::vector<taken>> mine_;                     // by each thread since
};

/// The accesses of a launch, and the question whether a new one races with what a byte remembers.
class access_history {
public:
    access_order order;

    void begin_launch() {
        order.begin_launch();
        forget();
    }
    void begin_block(std::uint32_t number, std::uint32_t threads) {
        if (records_.size() > most) forget();
        order.begin_block(number, threads);
        block_first_ = next_;
    }
    std::uint32_t add(const access_record& r) {
        check(next_ != 0, "simt: 4 billion accesses are checked; begin a new process");
        records_.push_back(r);
        base_ = records_.data() - first_;
        return next_++;
    }
    MPT_SIMT_QUIET const access_record& at(std::uint32_t id) const { return base_[id]; }

    /// Access `id` touches a byte. The number of an earlier access that races with it, or 0.
    MPT_SIMT_QUIET std::uint32_t touch(shadow_cell& c, std::uint32_t id, bool shared) {
        const std::uint32_t oldest = shared ? block_first_ : first_;
        const access_record& me = at(id);
        std::uint32_t found = 0;
        if (clash(c.writer, oldest, id, me))
            found = c.writer;
        else if (clash(c.first, oldest, id, me))
            found = c.first;
        else if (clash(c.second, oldest, id, me))
            found = c.second;
        else if (clash(c.far, oldest, id, me))
            found = c.far;
        if (!me.write)
            remember_read(c, oldest, id, me);
        else if (!me.atomic)
            c.writer = id,
            c.first = c.second = c.far = 0; // what was before is ordered, or reported
        else
            remember_atomic(c, oldest, id, me);
        return found;
    }

private:
    static constexpr std::size_t most = std::size_t(8) << 20; // 256 MB

    void forget() {
        records_.clear();
        first_ = block_first_ = next_;
        base_ = nullptr;
    }
    MPT_SIMT_QUIET bool clash(std::uint32_t before, std::uint32_t oldest, std::uint32_t id,
                              const access_record& me) const {
        if (before < oldest || before == id) return false;
        const access_record& b = at(before);
        if (!(b.write || me.write) || (b.atomic && me.atomic)) return false;
        if (b.by_warp && me.by_warp && b.block == me.block && b.thread / 32 == me.thread / 32)
            return false; // one word after the other, and in each the lanes wait
        return !order.ordered(b, me.thread);
    }
    // May a later access race with this one, though not with `me`?
    MPT_SIMT_QUIET bool matters(std::uint32_t before, std::uint32_t oldest,
                                const access_record& me) const {
        return before >= oldest && !order.ordered(at(before), me.thread);
    }
    MPT_SIMT_QUIET void remember_read(shadow_cell& c, std::uint32_t oldest, std::uint32_t id,
                                      const access_record& me) {
        if (c.first == id || c.second == id) return;
        if (!matters(c.first, oldest, me)) {
            c.first = id;
        } else if (at(c.first).block != me.block) {
            if (c.far < oldest) c.far = c.first;
            c.first = id;
        } else if (!matters(c.second, oldest, me) || at(c.second).block != me.block) {
            c.second = id;
        }
    }
    MPT_SIMT_QUIET void remember_atomic(shadow_cell& c, std::uint32_t oldest, std::uint32_t id,
                                        const access_record& me) {
        const std::uint32_t old = c.writer;
        c.writer = id;
        c.first = 0;
        if (!matters(c.second, oldest, me) || !at(c.second).write) c.second = 0;
        if (!matters(c.far, oldest, me) || !at(c.far).write) c.far = 0;
        if (old == id || !matters(old, oldest, me)) return;
        if (at(old).block == me.block)
            c.second = old;
        else
            c.far = old;
    }

    std::vector<access_record> records_;
    access_record* base_ = nullptr;      // base_[id]
    std::uint32_t first_ = 1, next_ = 1; // of this launch; 0 is no access
    std::uint32_t block_first_ = 1;
};

} // namespace mpt::simt
