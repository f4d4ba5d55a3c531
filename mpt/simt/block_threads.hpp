// SPDX-License-Identifier: MIT
/// @file block_threads.hpp
/// The threads of a block: who is ready, who waits and where.              tier 2, needs:
/// simt/fiber.hpp simt/hooks.hpp simt/vector_types.hpp
///
/// Idea     A warp is 32 threads, and who of them is ready is one 32-bit word; so is which of the
///          (at most 32) warps has a ready thread. The next thread is found by two searches for a
///          set bit. Bits stand for positions in an order; a seed shuffles lanes and warps in it.
///          A warp is finished, as far as it can be, before the next one runs.
/// See      block.hpp (the scheduler), tests/simt/order_test.cpp
#pragma once
#include "mpt/simt/fiber.hpp"        // fiber
#include "mpt/simt/hooks.hpp"        // place, launch_info, MPT_SIMT_QUIET
#include "mpt/simt/vector_types.hpp" // uint3, dim3

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mpt::simt {

/// What one lane brings to a meeting of its warp; `meeting` is called once, by whoever comes last,
/// with what each lane brought. Lanes meet when they have the same function and the same mask.
using meeting = void (*)(void* const* brought, unsigned lanes);

struct thread_state {
    uint3 index{};            // threadIdx
    unsigned linear = 0;      // of the block; lane + 32 * warp
    fiber* on = nullptr;      // its stack, from its first instruction to its last
    const char* word = "";    // what it called last: __syncthreads, __shfl_sync, ...
    place at;                 // and where
    bool in_barrier = false;  // waits for the block
};

struct warp_state {
    std::uint32_t ready = 0;   // positions
    std::uint32_t lanes = 0;   // that there are: the last warp may be partial
    std::uint32_t waiting = 0; // lanes in a meeting
    std::uint32_t asking = 0;  // lanes in __activemask
    std::uint32_t exited = 0;  // lanes
    std::array<std::uint32_t, 32> mask{};
    std::array<meeting, 32> why{};
    std::array<void*, 32> brought{};
};

class block_threads {
public:
    std::vector<thread_state> threads;
    std::vector<warp_state> warps; // by their number, not their position

    /// All threads ready, none begun. `number` of the block, which has an order of its own.
    MPT_SIMT_QUIET void reset(dim3 block, unsigned seed, unsigned long long number) {
        resize(block);
        order(seed, number);
        for (warp_state& w : warps) {
            w.waiting = w.asking = w.exited = 0;
            w.ready = positions(w.lanes);
        }
        all_ready();
    }

    /// Take a ready thread; nullptr: there is none.
    MPT_SIMT_QUIET thread_state* next() {
        if (!(ready_warps_ >> warp_ & 1)) {
            if (ready_warps_ == 0) return nullptr;
            const std::uint32_t later = ready_warps_ & (~0u << warp_);
            warp_ = unsigned(__builtin_ctz(later ? later : ready_warps_));
        }
        const unsigned w = warp_at_[warp_];
        std::uint32_t& ready = warps[w].ready;
        const unsigned lane = lane_at_[unsigned(__builtin_ctz(ready))];
        ready &= ready - 1;
        if (ready == 0) ready_warps_ &= ~(1u << warp_);
        return &threads[w * 32 + lane];
    }

    /// A lane comes to a meeting. True: it was the last, and all of it are ready again.
    MPT_SIMT_QUIET bool meet(unsigned warp, unsigned lane, unsigned mask, void* brought,
                             meeting why) {
        warp_state& w = warps[warp];
        w.mask[lane] = mask;
        w.why[lane] = why;
        w.brought[lane] = brought;
        w.waiting |= 1u << lane;
        const unsigned all = mask & w.lanes; // lanes that the block does not have are passed over
        if ((w.waiting & all) != all) return false;
        for (unsigned rest = all; rest; rest &= rest - 1) {
            const auto other = unsigned(__builtin_ctz(rest));
            if (w.mask[other] != mask || w.why[other] != why) return false;
        }
        why(w.brought.data(), all);
        w.waiting &= ~all;
        make_ready(warp, all);
        return true;
    }

    /// The warp whose turn it is cannot go on: those of its lanes that ask who is there, and do so
    /// on the same line, are. Each finds the answer in `mask`.
    MPT_SIMT_QUIET void answer() {
        const unsigned warp = warp_at_[warp_];
        warp_state& w = warps[warp];
        if (!w.asking) return;
        const thread_state* const lanes = &threads[warp * 32];
        const place at = lanes[__builtin_ctz(w.asking)].at;
        unsigned together = 0;
        for (unsigned rest = w.asking; rest; rest &= rest - 1)
            if (lanes[__builtin_ctz(rest)].at == at) together |= rest & (0u - rest);
        for (unsigned rest = together; rest; rest &= rest - 1)
            w.mask[unsigned(__builtin_ctz(rest))] = together;
        w.asking &= ~together;
        make_ready(warp, together);
    }

    MPT_SIMT_QUIET void make_ready(unsigned warp, std::uint32_t lanes) {
        warps[warp].ready |= positions(lanes);
        ready_warps_ |= 1u << warp_position_[warp];
    }
    /// All of them, after a barrier: the order begins anew.
    MPT_SIMT_QUIET void all_ready() {
        for (warp_state& w : warps) w.ready = positions(w.lanes);
        ready_warps_ = warps.size() == 32 ? ~0u : (1u << warps.size()) - 1;
        warp_ = 0;
    }
    /// The warp whose turn it is cannot go on.
    bool turn_is_over() const { return !(ready_warps_ >> warp_ & 1); }

private:
    MPT_SIMT_QUIET void resize(dim3 block) {
        if (block.x == size_.x && block.y == size_.y && block.z == size_.z && !threads.empty())
            return;
        size_ = block;
        const unsigned n = block.x * block.y * block.z;
        threads.assign(n, {});
        warps.assign((n + 31) / 32, {});
        unsigned i = 0;
        for (unsigned z = 0; z < block.z; ++z)
            for (unsigned y = 0; y < block.y; ++y)
                for (unsigned x = 0; x < block.x; ++x, ++i) {
                    threads[i].index = {x, y, z};
                    threads[i].linear = i;
                    warps[i / 32].lanes |= 1u << i % 32;
                }
        ordered_ = false;
    }

    // Fisher-Yates, with numbers of a small generator.
    MPT_SIMT_QUIET static void shuffle(unsigned* at, unsigned n, std::uint64_t& state) {
        for (unsigned i = 0; i < n; ++i) at[i] = i;
        for (unsigned i = n; i > 1; --i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            std::swap(at[i - 1], at[(state >> 33) % i]);
        }
    }
    MPT_SIMT_QUIET void order(unsigned seed, unsigned long long number) {
        if (seed == 0 && ordered_) return;
        std::uint64_t state = (number * 2654435761u + seed) * 0x9E3779B97F4A7C15u + seed;
        const unsigned n = unsigned(warps.size());
        if (seed) {
            shuffle(warp_at_.data(), n, state);
            shuffle(lane_at_.data(), 32, state);
        } else {
            for (unsigned i = 0; i < 32; ++i) warp_at_[i] = lane_at_[i] = i;
        }
        for (unsigned i = 0; i < n; ++i) warp_position_[warp_at_[i]] = i;
        for (unsigned i = 0; i < 32; ++i) position_[lane_at_[i]] = i;
        ordered_ = seed == 0;
    }
    MPT_SIMT_QUIET std::uint32_t positions(std::uint32_t lanes) const {
        if (ordered_) return lanes;
        std::uint32_t set = 0;
        for (; lanes; lanes &= lanes - 1) set |= 1u << position_[unsigned(__builtin_ctz(lanes))];
        return set;
    }

    dim3 size_{0, 0, 0};
    std::uint32_t ready_warps_ = 0; // positions
    unsigned warp_ = 0;             // position of the warp whose turn it is
    bool ordered_ = false;          // ascending
    std::array<unsigned, 32> warp_at_{}, warp_position_{}, lane_at_{}, position_{};
};

} // namespace mpt::simt
