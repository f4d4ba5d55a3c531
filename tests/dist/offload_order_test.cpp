// SPDX-License-Identifier: MIT
// What happens under what: from the trace of a step, in which updates are held up until the events
// that are to happen under them have begun. No verdict comes from a clock.
#include <doctest/doctest.h>

#include "mpt/base/json.hpp"
#include "mpt/train/adamw.hpp"
#include "offload_rig.hpp"

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>

using namespace mpt;

namespace {

// Counts events; whoever waits for one that does not come in a minute goes on, and says so.
struct counts {
    std::mutex lock;
    std::condition_variable changed;
    std::map<std::string, int> seen;
    bool missed = false;

    void add(const std::string& what) {
        {
            const std::lock_guard hold(lock);
            ++seen[what];
        }
        changed.notify_all();
    }
    void await(const std::string& what, int n) {
        std::unique_lock hold(lock);
        if (!changed.wait_for(hold, std::chrono::seconds(missed ? 0 : 60),
                              [&] { return seen[what] >= n; }))
            missed = true;
    }
};

// AdamW whose k-th update ends when `under(k)` returns.
struct held_up {
    adamw rule;
    std::function<void(int)>* under;
    int* updates; // in this step
    long& applied = rule.applied;

    held_up(std::function<void(int)>* f, int* n) : under(f), updates(n) {}
    held_up(const held_up& o) : rule(o.rule), under(o.under), updates(o.updates) {}
    held_up& operator=(const held_up& o) {
        rule = o.rule;
        return *this;
    }
    int moments() const { return 2; }
    template <class T, class G>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const pieces<G>& grads, double factor, double lr) {
        rule.step(on, map, own, grads, factor, lr);
        (*under)((*updates)++);
    }
};

struct bar {
    double begin, end;
};

// "update 3" -> its bar, of the last step in the trace.
std::map<std::string, bar> bars(const std::string& path) {
    std::ifstream in(path);
    std::map<std::string, bar> all;
    for (std::string line; std::getline(in, line);) {
        const auto number = [&](const std::string& key) {
            const std::size_t at = line.find("\"" + key + "\":");
            return at == line.npos ? -1 : std::stod(line.substr(at + key.size() + 3));
        };
        if (line.find("\"ph\":\"X\"") == line.npos) continue;
        const std::size_t name = line.find("\"name\":\"") + 8;
        const std::string what = line.substr(name, line.find('"', name) - name);
        const double ts = number("ts"), part = number("part");
        all[what + ' ' + std::to_string(int(part))] = {ts, ts + number("dur")};
    }
    return all;
}

struct traced {
    bool missed; // something that was to happen under an update never began
    std::map<std::string, bar> bars;
    std::size_t parts;
};

// The second step of a run. under(k, counts): what the k-th update waits for.
traced second_step(int buffers, std::function<void(int, counts&)> wait) {
    const layout map = rig::edges();
    rig::machine m(1);
    const rig::folder here;
    counts happened;
    disk d = real_disk;
    d.pread = [&](int f, void* to, std::size_t n, off_t at) {
        happened.add("read");
        return real_disk.pread(f, to, n, at);
    };
    d.pwrite = [&](int f, const void* from, std::size_t n, off_t at) {
        happened.add("write");
        return real_disk.pwrite(f, from, n, at);
    };
    transfer_calls calls;
    calls.in = [&](void* to, const void* from, std::size_t n) {
        happened.add("weights");
        std::memcpy(to, from, n);
    };
    const std::string path = here.path + "/trace.json";
    std::vector<fp16> weights = rig::first_weights<fp16>(map);
    const auto g = rig::numbers<fp16>(1, map.size(), 1);
    const auto first = weights;
    const pieces<fp16> mine = rig::by_unit(map, weights.data());
    traced r;
    {
        trace seen(path);
        transfers copies(calls);
        file_states<fp16> store(
            m.mem, map, mine, 2,
            {.folder = here.path, .part = 1024, .buffers = buffers, .seen = &seen, .calls = d});
        offload<fp16> o(m.mem, mine, store, copies, &seen);
        o.begin(rig::first_master(first));
        r.parts = store.parts().size();
        int updates = 0;
        std::function<void(int)> under = [](int) {};
        held_up rule(&under, &updates);
        const auto step = [&] {
            o.step(rule, m.on, map, rig::by_unit<const fp16>(map, g.data()), 1.0, 1e-3);
        };
        step();
        store.settle();
        happened.seen.clear();
        updates = 0;
        under = [&](int k) { wait(k, happened); };
        step();
        store.settle();
        r.missed = happened.missed;
    }
    r.bars = bars(path);
    return r;
}

} // namespace

TEST_CASE(
    "under the update of part k: the write of k-1, the read of a later part, weights of k-1") {
    const int B = 3;
    const traced t = second_step(B, [](int k, counts& happened) {
        // Parts 0 to 2 were read ahead. Part k - 1 was given back: its write, then the read of
        // part k + 2 into its buffer.
        happened.await("weights", k);
        happened.await("write", k);
        happened.await("read", k);
    });
    CHECK(!t.missed);
    const auto at = [&](const char* what, std::size_t k) {
        return t.bars.at(what + (' ' + std::to_string(k)));
    };
    REQUIRE(t.parts > 6);
    for (std::size_t k = 1; k < t.parts; ++k) {
        const bar update = at("update", k);
        CHECK(at("weights", k - 1).begin < update.end);
        CHECK(at("write", k - 1).begin < update.end);
        if (k - 1 + B < t.parts) {
            CHECK(at("read", k - 1 + B).begin < update.end);              // under it
            CHECK(at("read", k - 1 + B).begin >= at("write", k - 1).end); // one buffer, in order
            CHECK(at("read", k - 1 + B).end <= at("update", k - 1 + B).begin); // waited for
        }
    }
}

TEST_CASE("sabotage: one buffer has no overlap, and the trace shows that") {
    const traced t = second_step(1, [](int, counts&) {});
    for (std::size_t k = 1; k < t.parts; ++k) {
        const std::string number = ' ' + std::to_string(k);
        CHECK(t.bars.at("read" + number).begin >= t.bars.at("update " + std::to_string(k - 1)).end);
    }
}
