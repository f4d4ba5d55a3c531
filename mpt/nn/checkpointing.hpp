// SPDX-License-Identifier: MIT
/// @file checkpointing.hpp
/// Which blocks keep what they computed, and which only their input.      tier 4, needs:
/// base/error.hpp
///
/// Idea     Backward needs what forward computed. A segment of blocks may throw that away, keep its
///          input, and run forward again just before its backward. A room holds what one block
///          computes; a segment takes over the rooms of the blocks behind it, which are done by
///          then. The last segment is never run again: backward begins where forward has ended.
/// Formula  rooms N = most over the segments of (blocks kept before it + its own blocks)
///          inputs kept R = segments run again; with every(k): N = k, R = ceil(blocks / k) - 1
///          fewest bytes at k = sqrt(blocks * input / room): sqrt(blocks) where both are as large
/// Costs    memory: N rooms and R inputs, gpt_acts.hpp has the bytes.  compute: forward of the
///          blocks run again, but for the last product of each segment: its result was kept. Less
///          than a third of all products inside blocks
/// Breaks   a segment's units are held from its second forward through its backward: one acquire
///          serves both, so ZeRO-3 holds k units at a time
/// Source   Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174
/// See      gpt.hpp, chapters/09_checkpointing.cpp, tests/nn/checkpointing_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

namespace mpt {

/// Blocks [begin, end), kept or run again together.
struct segment {
    int begin, end;
    bool again; // in backward, from the input of block `begin`, which is kept
    int room;   // of block `begin`; block begin + i lies in room + i
    int size() const { return end - begin; }
};

struct checkpointing {
    std::vector<segment> segments; // every block once, in order

    /// Every block keeps what it computed.
    static checkpointing none(int blocks) {
        return make(blocks, 1, [](int) { return false; });
    }
    /// Segments of k blocks, the last one of what is left.
    static checkpointing every(int k, int blocks) {
        check(k >= 1 && k <= blocks, "checkpointing every:", k, ": the model has ", blocks,
              " blocks; choose segments of 1 to ", blocks);
        return make(blocks, k, [](int) { return true; });
    }
    /// About as many segments as each has blocks.
    static checkpointing sqrt(int blocks) {
        return every(std::max(1, int(std::lround(std::sqrt(double(blocks))))), blocks);
    }
    /// These blocks, each for itself, are run again; the others are kept.
    static checkpointing chosen(const std::vector<int>& these, int blocks) {
        std::vector<bool> again(std::size_t(std::max(blocks, 0)));
        for (const int l : these) {
            check(l >= 0 && l < blocks, "checkpointing blocks:", l, ": the model has ", blocks,
                  " blocks; choose from 0 to ", blocks - 1);
            check(!again[std::size_t(l)], "checkpointing blocks: ", l,
                  " is there twice; name each block once");
            again[std::size_t(l)] = true;
        }
        return make(blocks, 1, [&](int l) { return again[std::size_t(l)]; });
    }
    /// From words: none, every:K, sqrt, or blocks:0,2,5.
    static checkpointing parse(const std::string& words, int blocks) {
        const auto number = [&](const std::string& text) {
            int value = 0;
            const char* const last = text.data() + text.size();
            const auto [end, failed] = std::from_chars(text.data(), last, value);
            check(failed == std::errc() && end == last, "checkpointing ", words,
                  ": wanted none, every:K for segments of K blocks, sqrt, or blocks:0,2,5");
            return value;
        };
        if (words == "none") return none(blocks);
        if (words == "sqrt") return sqrt(blocks);
        if (words.rfind("every:", 0) == 0) return every(number(words.substr(6)), blocks);
        std::vector<int> these;
        const std::size_t start = words.rfind("blocks:", 0) == 0 ? 7 : 0;
        for (std::size_t at = start; at <= words.size();) {
            const std::size_t comma = std::min(words.find(',', at), words.size());
            these.push_back(number(words.substr(at, comma - at)));
            at = comma + 1;
        }
        check(start > 0, "checkpointing ", words, ": write blocks:", words);
        return chosen(these, blocks);
    }

    int blocks() const { return segments.empty() ? 0 : segments.back().end; }
    /// N: blocks that have room at a time.
    int rooms() const {
        int most = 0;
        for (const segment& g : segments) most = std::max(most, g.room + g.size());
        return most;
    }
    /// R: segments run again, each of which keeps its input.
    int segments_again() const {
        return int(std::count_if(segments.begin(), segments.end(),
                                 [](const segment& g) { return g.again; }));
    }
    int blocks_again() const {
        int sum = 0;
        for (const segment& g : segments) sum += g.again ? g.size() : 0;
        return sum;
    }

private:
    // Segments of k blocks, run again where again(first block), but never the last.
    template <class Again>
    static checkpointing make(int blocks, int k, Again again) {
        check(blocks >= 1, "checkpointing: a model of ", blocks, " blocks; wanted 1 or more");
        checkpointing plan;
        int kept = 0; // blocks before this one
        for (int l = 0; l < blocks; l = plan.segments.back().end) {
            const int end = std::min(l + k, blocks);
            plan.segments.push_back({l, end, again(l) && end < blocks, kept});
            if (!plan.segments.back().again) kept += end - l;
        }
        return plan;
    }
};

} // namespace mpt
