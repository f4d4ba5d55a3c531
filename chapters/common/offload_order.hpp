// SPDX-License-Identifier: MIT
// offload_order.hpp -- one step of an offloaded run, and what happens in it beside what: backward,
// gradients that leave, updates, weights that come back.
#pragma once
#include "event_order.hpp" // event_order
#include "offload_run.hpp" // offload_run
#include "timeline.hpp"    // timeline: the order as a picture

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>

inline std::string of(const char* what, int k) { return mpt::join(what, ' ', k); }

//! [watched]
/// Backward, unit by unit; a unit's ends when the gradients of the unit before have left.
struct watched_backward : around<mpt::fp16> {
    watched_backward(std::unique_ptr<mpt::strategy<mpt::fp16>> s, event_order& e, mpt::transfers* c)
        : around<mpt::fp16>(std::move(s)), order(e), wait_for(c) {}
    mpt::device_span<mpt::fp16> collect(mpt::gradients<mpt::fp16>& grads, int unit) override {
        const auto to = around<mpt::fp16>::collect(grads, unit);
        if (unit > 0) order.note(of("backward", unit), event_order::begins);
        return to;
    }
    void ready(mpt::gradients<mpt::fp16>& grads, int unit, int micro) override {
        if (before > 0) order.await(of("gradients", before), event_order::ends);
        order.note(of("backward", unit), event_order::ends);
        around<mpt::fp16>::ready(grads, unit, micro); // its copy is started here
        if (wait_for) wait_for->start([] {}).wait();  // wrong: until it is done
        if (unit == 1) order.note(of("backward", 0), event_order::begins); // the embedding's rest
        before = unit;
    }
    event_order& order;
    mpt::transfers* wait_for;
    int before = 0;
};

/// AdamW; a part's update ends when the weights of the part before are back.
struct watched_adamw {
    mpt::adamw rule;
    event_order* order;
    int* part; // at which the step is
    mpt::transfers* wait_for;
    int moments() const { return 2; }
    template <class T, class G>
    void step(const mpt::cpu& on, const mpt::layout& map, const mpt::optimizer_state<T>& own,
              const mpt::pieces<G>& grads, double factor, double lr) {
        const int k = (*part)++;
        if (wait_for) wait_for->start([] {}).wait(); // wrong: until the weights of k - 1 are back
        order->note(of("update", k), event_order::begins);
        rule.step(on, map, own, grads, factor, lr);
        if (k > 0) order->await(of("weights", k - 1), event_order::ends);
        order->note(of("update", k), event_order::ends);
    }
};
//! [watched]

/// A window of one micro-batch. A copy is held until what is to happen beside it has begun.
struct watched_step {
    watched_step(const mpt::gpt_config& c, const offload_plan& p, bool wait_for_gradients,
                 bool wait_for_weights) {
        std::deque<int> leaving; // units, in the order of backward
        int returning = 0;       // part
        //! [calls]
        mpt::transfer_calls calls; // on the thread of copies
        calls.out = [&](void* to, const void* from, std::size_t bytes) {
            const int unit = leaving.front();
            leaving.pop_front();
            if (unit > 0 && !wait_for_gradients) // else nobody would ever come
                order.await(of("backward", unit - 1), event_order::begins);
            order.note(of("gradients", unit), event_order::begins);
            std::memcpy(to, from, bytes);
            order.note(of("gradients", unit), event_order::ends);
        };
        calls.in = [&](void* to, const void* from, std::size_t bytes) {
            const int part = returning++;
            if (part + 1 < parts && !wait_for_weights)
                order.await(of("update", part + 1), event_order::begins);
            order.note(of("weights", part), event_order::begins);
            std::memcpy(to, from, bytes);
            order.note(of("weights", part), event_order::ends);
        };
        //! [calls]
        run = std::make_unique<offload_run<mpt::fp16>>(c, p, calls);
        units = int(run->model.map.units.size()), parts = int(run->store->parts().size());
        for (int u = units - 1; u >= 0; --u) leaving.push_back(u);
        run->wrap([&](auto inner) {
            return std::make_unique<watched_backward>(std::move(inner), order,
                                                      wait_for_gradients ? &run->copies : nullptr);
        });
        windows data(run->ops, run->mem, "", p.M, p.B, c.context);
        int part = 0;
        watched_adamw rule{{}, &order, &part, wait_for_weights ? &run->copies : nullptr};
        run->step(data(0), rule);
    }

    void draw(const std::string& path) const {
        timeline t{
            "ZeRO-Offload: backward and update of one step",
            "events in order; e: the embedding, 0 to 3: blocks; 0 to 8: parts, halves of them",
            {"backward", "gradients go", "update by CPU", "weights come"},
            {}};
        constexpr const char* lanes[] = {"backward", "gradients", "update", "weights"};
        double at = 0;
        std::map<std::string, std::size_t> open;
        for (const auto& e : order.all()) {
            const std::size_t blank = e.what.find(' ');
            const std::size_t lane = std::size_t(
                std::find(std::begin(lanes), std::end(lanes), e.what.substr(0, blank)) - lanes);
            const int k = std::stoi(e.what.substr(blank + 1));
            const std::string label = lane > 1 ? std::to_string(k)
                                      : k == 0 ? "e"
                                               : std::to_string(k - 1); // unit 1 is block 0
            if (e.which == event_order::begins) {
                open[e.what] = t.spans.size();
                t.spans.push_back({lane, at, at, label, lane, span_of_time::all});
            } else {
                t.spans[open[e.what]].to = at + 1;
            }
            at += 1;
        }
        mpt::check(t.save(path), "--svg ", path, ": cannot be written; give another path");
    }

    event_order order;
    int units = 0, parts = 0;
    std::unique_ptr<offload_run<mpt::fp16>> run; // last: its copies end before what they note
};
