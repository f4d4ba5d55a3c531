// SPDX-License-Identifier: MIT
// infinity_order.hpp -- one step of a run from files: what is read and written while what computes.
#pragma once
#include "infinity_run.hpp" // infinity_run
#include "timeline.hpp"     // timeline: a step as a picture
#include "watched_disk.hpp" // watched_disk: the order

#include <map>
#include <memory>
#include <string>
#include <vector>

//! [watched]
/// Uses of units. One ends when the read has begun that is to go on beside it: of the unit after
/// the next, since the next is here already.
struct watched_uses : around<mpt::fp16> {
    watched_uses(std::unique_ptr<mpt::strategy<mpt::fp16>> s, watched_disk& d, bool hold)
        : around<mpt::fp16>(std::move(s)), disk(d), holds(hold) {}
    mpt::device_span<const mpt::fp16> acquire(mpt::device_span<const mpt::fp16> weights,
                                              int unit) override {
        const auto here = around<mpt::fp16>::acquire(weights, unit);
        if (learns) order.push_back(unit);
        disk.note(watched_disk::uses, unit, true, true);
        return here;
    }
    void release(int unit) override {
        if (!learns) look(at++);
        disk.note(watched_disk::uses, unit, true, false);
        around<mpt::fp16>::release(unit);
    }
    void look(std::size_t i) {
        if (i + 2 >= order.size()) return;
        const int unit = order[i + 2];
        if (unit == order[i + 1]) return; // two uses in a row are one read
        long reads = 0;                   // of this unit, in this step, up to that one
        for (std::size_t j = 0; j <= i + 2; ++j)
            reads += order[j] == unit && (j == 0 || order[j - 1] != unit);
        if (holds) disk.await_read(unit, reads);
        ahead &= disk.read(unit) >= reads;
    }
    watched_disk& disk;
    bool holds, learns = true, ahead = true;
    std::vector<int> order; // of the units in a step
    std::size_t at = 0;
};
//! [watched]

/// AdamW that notes which unit it updates.
struct noted_adamw {
    mpt::adamw rule;
    watched_disk* disk;
    int moments() const { return 2; }
    template <class T, class G>
    void step(const mpt::cpu& on, const mpt::layout& map, const mpt::optimizer_state<T>& own,
              const mpt::pieces<G>& grads, double factor, double lr) {
        const int unit = own.weights.empty() ? 0 : map.tensor_of(own.weights[0].begin).unit;
        disk->note(watched_disk::updates, unit, true, true);
        rule.step(on, map, own, grads, factor, lr);
        disk->note(watched_disk::updates, unit, true, false);
    }
};

/// buffers: of states; unit k passes through buffer k mod so many.
inline void draw_step(const watched_disk& disk, std::size_t buffers, const std::string& path) {
    timeline t{"ZeRO-Infinity: one step from files",
               "events in order; e: the embedding, 0 to 3: blocks; orange: read, blue: written",
               {"weights read", "computes", "updates", "weights written"},
               {}};
    for (std::size_t i = 0; i < buffers; ++i) t.lanes.push_back(mpt::join("states, buffer ", i));
    const auto lane_of = [&](const watched_disk::event& e) {
        if (e.what == watched_disk::uses) return std::size_t(1);
        if (e.what == watched_disk::updates) return std::size_t(2);
        if (!e.weights) return 4 + std::size_t(e.unit) % buffers;
        return std::size_t(e.what == watched_disk::reads ? 0 : 3);
    };
    constexpr std::size_t colours[] = {1, 0, 2, 2}; // of reads, writes, uses, updates
    std::map<std::size_t, std::size_t> open;        // of a lane, one at a time
    double at = 0;
    for (const watched_disk::event& e : disk.all()) {
        const std::size_t lane = lane_of(e);
        if (e.begins) {
            open[lane] = t.spans.size();
            t.spans.push_back({lane, at, at, e.unit == 0 ? "e" : std::to_string(e.unit - 1),
                               colours[e.what], span_of_time::all});
        } else if (open.count(lane)) {
            t.spans[open[lane]].to = at + 1;
        }
        at += 1;
    }
    mpt::check(t.save(path), "--svg ", path, ": cannot be written; give another path");
}
