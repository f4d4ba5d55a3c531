// SPDX-License-Identifier: MIT
/// @file block.hpp
/// One block of threads on one system thread.                              tier 2, needs:
/// base/error.hpp simt/block_threads.hpp simt/fiber.hpp simt/hooks.hpp simt/settings.hpp
/// simt/stacks.hpp simt/synccheck.hpp simt/vector_types.hpp simt/watchdog.hpp
///
/// Idea     A thread runs until it must wait; then the next ready thread goes on. One that returns
///          leaves its stack to the next that has not begun: a kernel that never waits is a plain
///          loop on one stack. A barrier opens when all threads of the block are there, a meeting
///          of a warp when all lanes of its mask are. When nobody is ready and somebody waits, what
///          they wait for can never come: that is the error, with the lines (synccheck).
///          An exception in a thread ends the block: threads that wait are woken to be unwound.
/// Costs    a wait: one switch of stacks and two searches for a bit (measured by bench/simt.cpp)
/// Breaks   a kernel that catches all exceptions, and waits again
/// See      barrier.hpp, warp.hpp (the words), launch.hpp (many blocks), tests/simt/sync_test.cpp
#pragma once
#include "mpt/base/error.hpp"         // error, join
#include "mpt/simt/block_threads.hpp" // block_threads, thread_state, meeting
#include "mpt/simt/fiber.hpp"         // fiber, context, switch_context
#include "mpt/simt/hooks.hpp"         // watch, place, launch_info, in_kernel
#include "mpt/simt/settings.hpp"      // settings
#include "mpt/simt/stacks.hpp"        // stacks
#include "mpt/simt/synccheck.hpp"     // stuck, misused, late, to_text
#include "mpt/simt/vector_types.hpp"  // uint3, dim3
#include "mpt/simt/watchdog.hpp"      // watchdog, watched

#include <atomic>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace mpt::simt {

inline thread_local uint3 threadIdx{}, blockIdx{};
inline thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace words { // told apart by address
inline constexpr char syncthreads[] = "__syncthreads()", count[] = "__syncthreads_count()",
                      all[] = "__syncthreads_and()", some[] = "__syncthreads_or()",
                      syncwarp[] = "__syncwarp";
} // namespace words

/// A kernel with its arguments, once for each thread.
struct kernel_call {
    void (*run)(const void* arguments) = nullptr;
    const void* arguments = nullptr;
};

class block {
public:
    /// The block that this system thread runs, or ran last.
    MPT_SIMT_QUIET static block& here() {
        static constinit thread_local block* known = nullptr; // no question of who constructs it
        if (!known) known = &make();
        return *known;
    }
    static bool inside() { return here().busy_; }

    /// All threads of block `index`, from their first instruction to their last. Throws what a
    /// thread threw, or the error of a barrier that cannot open.
    MPT_SIMT_QUIET void run(const launch_info& info, kernel_call call, uint3 index,
                            unsigned long long number) {
        info_ = &info;
        call_ = call;
        team_.reset(info.block, settings().order_seed, number);
        blockIdx = index;
        blockDim = info.block;
        gridDim = info.grid;
        arrived_ = exited_ = 0;
        failed_ = nullptr;
        stop_ = false;
        outside_ = std::uncaught_exceptions();
        watch_.late.store(false, std::memory_order_relaxed);
        watch_.turns.fetch_add(1, std::memory_order_release);
        if (shared_.size() < info.shared_bytes + 127) shared_.resize(info.shared_bytes + 127);
        dynamic_ =
            shared_.data() + (128 - reinterpret_cast<std::uintptr_t>(shared_.data()) % 128) % 128;
        busy_ = true;
        watch::block_begin(info, index, dynamic_shared());
        go(home_, *team_.next());
        if (abandoned_) retire();
        if (!failed_ && exited_ < team_.threads.size())
            failed_ = std::make_exception_ptr(error(stuck(info, index, team_)));
        if (failed_) unwind();
        watch::block_end(failed_ != nullptr);
        watch_.turns.fetch_add(1, std::memory_order_release);
        busy_ = false;
        if (failed_) std::rethrow_exception(failed_);
    }

    // ---- for the words of a kernel ----

    /// Wait for all threads of the block, each of which brings a number: what they add up to.
    MPT_SIMT_QUIET unsigned barrier(unsigned number, const char* word, place at) {
        thread_state& me = enter(word, at);
        if (arrived_ == 0) {
            first_ = &me;
            sum_ = 0;
        } else if (!(me.at == first_->at) || me.word != first_->word) {
            me.in_barrier = true;
            refuse("Divergent thread(s) in block");
        }
        me.in_barrier = true;
        sum_ += number;
        if (++arrived_ == team_.threads.size()) {
            arrived_ = 0;
            result_ = sum_; // kept until all have come again, so all have read it
            for (thread_state& t : team_.threads) t.in_barrier = false;
            watch::barrier(at);
            team_.all_ready();
        }
        sleep(me);
        return result_;
    }

    /// Wait for the lanes of the mask, all of which bring something to the same meeting.
    MPT_SIMT_QUIET void meet(unsigned mask, void* brought, meeting why, const char* word,
                             place at) {
        thread_state& me = enter(word, at);
        const unsigned warp = me.linear / 32, lane = me.linear % 32;
        if (!(mask >> lane & 1))
            refuse(join("Invalid arguments: the mask does not name lane ", lane, ", which calls"));
        if (team_.meet(warp, lane, mask, brought, why) && word == words::syncwarp)
            watch::warp_barrier(warp, mask & team_.warps[warp].lanes);
        sleep(me);
    }

    /// Lanes of the warp that are here too when none of it can go on: what is left of it together.
    MPT_SIMT_QUIET unsigned active(place at) {
        thread_state& me = enter("__activemask", at);
        warp_state& w = team_.warps[me.linear / 32];
        w.asking |= 1u << me.linear % 32;
        sleep(me);
        return w.mask[me.linear % 32];
    }

    /// End the block in the middle of an instruction of the thread that runs, where nothing can be
    /// thrown: its stack is left as it is.
    [[noreturn]] MPT_SIMT_QUIET void give_up(std::exception_ptr why) {
        gave_up_ = std::move(why);
        abandon();
        __builtin_unreachable();
    }

    MPT_SIMT_QUIET unsigned lane() const { return current_->linear % 32; }
    MPT_SIMT_QUIET const thread_state& current() const { return *current_; }
    MPT_SIMT_QUIET void* dynamic_shared() { return dynamic_; }
    const launch_info& info() const { return *info_; }

    /// "kernel, block (x,y,z), thread (x,y,z)": the beginning of an error.
    std::string name() const {
        return join(info_->kernel, ", block ", to_text(blockIdx), ", thread ",
                    to_text(current_->index));
    }

    /// The watchdog's signal: leave a loop that never ends, if this thread is in one.
    MPT_SIMT_QUIET static void interrupted(int) {
        if (in_kernel && here().watch_.late.load()) here().abandon();
    }

    ~block() { watchdog::here().remove(&watch_); }
    block(const block&) = delete;
    block& operator=(const block&) = delete;

private:
    struct unwinding {}; // thrown where a thread waits, when its block has failed

    block() { watchdog::here().add(&watch_); }
    static block& make() {
        static thread_local block b;
        return b;
    }

    // What a thread does first in each word.
    MPT_SIMT_QUIET thread_state& enter(const char* word, place at) {
        in_kernel = false;
        thread_state& me = *current_;
        me.word = word;
        me.at = at;
        if (watch_.late.load(std::memory_order_relaxed) && !failed_) throw error(too_late());
        if (stop_ && std::uncaught_exceptions() == outside_) throw unwinding();
        return me;
    }

    // Let others run until this thread is ready again.
    MPT_SIMT_QUIET void sleep(thread_state& me) {
        thread_state* const t = next();
        if (!t)
            switch_context(me.on->self, home_);
        else if (t != &me)
            go(me.on->self, *t);
        current_ = &me;
        threadIdx = me.index;
        if (stop_ && std::uncaught_exceptions() == outside_) throw unwinding();
        watch::thread_runs(me.linear);
        in_kernel = true;
    }

    MPT_SIMT_QUIET thread_state* next() {
        if (team_.turn_is_over()) team_.answer();
        return team_.next();
    }

    // From one stack to a thread, which may have to be given one.
    MPT_SIMT_QUIET void go(context& from, thread_state& t) {
        current_ = &t;
        if (!t.on) t.on = stacks_.take();
        switch_context(from, t.on->self);
    }
    // The bottom of every stack.
    MPT_SIMT_QUIET static void begin() {
        block& b = here();
        fiber& self = *b.current_->on;
        arrived(self.self);
        for (;;) b.serve(self);
    }
    MPT_SIMT_QUIET void serve(fiber& self) {
        thread_state& t = *current_;
        t.on = &self;
        t.at = {};
        threadIdx = t.index;
        execute(t);
        t.on = nullptr;
        team_.warps[t.linear / 32].exited |= 1u << t.linear % 32;
        ++exited_;
        thread_state* const n = failed_ ? nullptr : next();
        if (n && !n->on) {
            current_ = n;
            return;
        }
        stacks_.give_back(&self);
        if (n) current_ = n;
        switch_context(self.self, n ? n->on->self : home_);
    }
    MPT_SIMT_QUIET void execute(thread_state& t) {
        try {
            watch::thread_runs(t.linear);
            in_kernel = true;
            call_.run(call_.arguments);
            in_kernel = false;
            watch::thread_ends(t.linear);
        } catch (const unwinding&) {
            in_kernel = false;
        } catch (...) {
            in_kernel = false;
            if (!failed_) failed_ = std::current_exception();
        }
    }

    // Throw in every thread that waits, so that what it holds is given back.
    MPT_SIMT_QUIET void unwind() {
        stop_ = true;
        for (thread_state& t : team_.threads)
            if (t.on) go(home_, t);
        for (thread_state& t : team_.threads) t.in_barrier = false;
    }

    // From the signal's handler: nothing may be allocated here.
    MPT_SIMT_QUIET void abandon() {
        in_kernel = false;
        abandoned_ = current_->on;
        switch_context(abandoned_->self, home_);
    }
    void retire() {
        failed_ = gave_up_ ? std::exchange(gave_up_, nullptr)
                           : std::make_exception_ptr(error(too_late()));
        current_->on = nullptr;
        stacks_.drop(abandoned_);
        abandoned_ = nullptr;
    }
    std::string too_late() const {
        return late(*info_, blockIdx, team_, *current_, settings().watch_seconds);
    }
    [[noreturn]] void refuse(const std::string& what) const {
        throw error(misused(*info_, blockIdx, team_, *current_, what));
    }

    block_threads team_;
    stacks stacks_{begin};
    const launch_info* info_ = nullptr;
    kernel_call call_;
    context home_; // the system thread's own stack
    thread_state* current_ = nullptr;
    thread_state* first_ = nullptr; // at the barrier
    std::size_t arrived_ = 0, exited_ = 0;
    unsigned sum_ = 0, result_ = 0;
    bool busy_ = false, stop_ = false;
    int outside_ = 0; // exceptions in flight around the launch
    fiber* abandoned_ = nullptr; // in a loop that never ended, or where a check ended it
    watched watch_;
    std::exception_ptr failed_, gave_up_;
    std::vector<std::byte> shared_;
    std::byte* dynamic_ = nullptr; // shared_, from a multiple of 128 on
};

} // namespace mpt::simt
