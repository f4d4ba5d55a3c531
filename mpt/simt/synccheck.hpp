// SPDX-License-Identifier: MIT
/// @file synccheck.hpp
/// What to say when threads wait for what cannot come.                     tier 2, needs:
/// base/error.hpp simt/block_threads.hpp simt/hooks.hpp simt/vector_types.hpp
///
/// Idea     The words of compute-sanitizer's synccheck, then where everybody is, alike threads
///          together: "Barrier error detected. Divergent thread(s) in block ...: thread (0,0,0) and
///          31 more at __syncthreads() a.cu:12; thread (32,0,0) and 31 more exited".
/// Source   compute-sanitizer, Synccheck Tool
/// See      block.hpp (who finds it), report.hpp (the other checks), tests/simt/sync_test.cpp
#pragma once
#include "mpt/base/error.hpp"         // join
#include "mpt/simt/block_threads.hpp" // block_threads, thread_state, warp_state
#include "mpt/simt/hooks.hpp"         // place, launch_info
#include "mpt/simt/vector_types.hpp"  // uint3

#include <sstream>
#include <string>
#include <vector>

namespace mpt::simt {

inline std::string to_text(const uint3& v) {
    return join("(", unsigned(v.x), ",", unsigned(v.y), ",", unsigned(v.z), ")");
}
inline std::string to_text(place at) { return join(at.file, ":", at.line); }

inline std::string whereabouts(const block_threads& team, const thread_state& t, bool running) {
    const warp_state& w = team.warps[t.linear / 32];
    const unsigned lane = t.linear % 32;
    if (w.exited >> lane & 1) return "exited";
    if (t.in_barrier) return join("at ", t.word, " ", to_text(t.at));
    if (w.waiting >> lane & 1) {
        std::ostringstream text;
        text << "at " << t.word << "(0x" << std::hex << w.mask[lane] << ") " << to_text(t.at);
        return text.str();
    }
    if (!t.on) return "not begun";
    const std::string what = running ? "running" : "ready";
    return t.at.line ? join(what, ", last seen at ", t.word, " ", to_text(t.at)) : what;
}

/// Who is where, alike threads together. nullptr: none of them is running.
inline std::string whereabouts(const block_threads& team, const thread_state* running) {
    struct group {
        std::string where;
        const thread_state* first;
        unsigned count;
    };
    std::vector<group> groups;
    for (const thread_state& t : team.threads) {
        const std::string where = whereabouts(team, t, &t == running);
        bool known = false;
        for (group& g : groups)
            if (g.where == where) known = true, ++g.count;
        if (!known) groups.push_back({where, &t, 1});
    }
    std::ostringstream text;
    for (const group& g : groups) {
        text << (&g == groups.data() ? "" : "; ") << "thread " << to_text(g.first->index);
        if (g.count > 1) text << " and " << g.count - 1 << " more";
        text << " " << g.where;
    }
    return text.str();
}

/// A thread did what it must not.
inline std::string misused(const launch_info& l, uint3 block, const block_threads& team,
                           const thread_state& who, const std::string& what) {
    return join(l.kernel, ": Barrier error detected. ", what, ", block ", to_text(block),
                ", thread ", to_text(who.index), ", ", to_text(who.at), ": ",
                whereabouts(team, &who));
}

/// Nobody is ready and somebody waits: why they cannot meet.
inline std::string stuck(const launch_info& l, uint3 block, const block_threads& team) {
    bool in_block = false;
    unsigned exited = 0;
    std::string gone; // the first lane that is waited for in vain
    for (const thread_state& t : team.threads) in_block = in_block || t.in_barrier;
    for (const warp_state& w : team.warps) {
        exited += unsigned(__builtin_popcount(w.exited));
        for (unsigned lane = 0; lane < 32; ++lane) {
            const unsigned named = w.waiting >> lane & 1 ? w.mask[lane] & w.exited : 0;
            if (named && gone.empty())
                gone = join(", lane ", __builtin_ctz(named),
                            " is named in the mask and has exited");
        }
    }
    return join(l.kernel, ": Barrier error detected. Divergent thread(s) in ",
                in_block ? "block" : "warp", in_block ? "" : gone,
                exited ? join(", ", exited, " exited threads") : "", ", block ", to_text(block),
                ": ", whereabouts(team, nullptr));
}

/// A block that does not end.
inline std::string late(const launch_info& l, uint3 block, const block_threads& team,
                        const thread_state& who, double seconds) {
    return join(l.kernel, ": block ", to_text(block), " runs for more than ", seconds,
                " seconds (watch_seconds): ", whereabouts(team, &who));
}

} // namespace mpt::simt
