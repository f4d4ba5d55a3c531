// SPDX-License-Identifier: MIT
/// @file offload_rig.hpp
/// Runs of a few steps with states in one place or another, and what they leave behind.
#pragma once
#include "../train/rig.hpp"
#include "mpt/dist/file_states.hpp"
#include "mpt/dist/host_states.hpp"
#include "mpt/dist/host_sums.hpp"
#include "mpt/dist/leaving_rank.hpp"
#include "mpt/dist/offload.hpp"
#include "mpt/train/master_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include <unistd.h>

namespace rig {

using namespace mpt;

#if defined(MPT_TSAN) || defined(__SANITIZE_THREAD__)
inline constexpr bool watched = true; // races on purpose are for a test of their own
#else
inline constexpr bool watched = false;
#endif

/// A folder of this test's own, empty, gone at the end.
struct folder {
    folder() {
        std::string name = std::filesystem::absolute("states_XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~folder() { std::filesystem::remove_all(path); }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    std::size_t files() const {
        return std::size_t(std::distance(std::filesystem::directory_iterator(path), {}));
    }
    std::string path;
};

/// What is in a file.
inline std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
/// Damage, into the same file: a new one under its name would be nobody's.
inline void overwrite(const std::string& path, const std::string& bytes, std::size_t at = 0) {
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(long(at));
    out.write(bytes.data(), long(bytes.size()));
}

/// Tensors at the edges of blocks, parts and pages, in four units.
inline layout edges() {
    layout map;
    map.add_unit("first");
    map.add("a", {511, 1}, 1);
    map.add("b", {1}, 0);
    map.add("c", {4095, 1}, 1);
    map.add_unit("second");
    map.add("d", {513}, 0);
    map.add("e", {64, 64}, 1);
    map.add_unit("third");
    map.add("f", {1, 1}, 1);
    map.add_unit("fourth");
    map.add("g", {4097, 1}, 1);
    map.add("h", {512}, 0);
    return map;
}

/// What backward of micro-batch `micro` does to a strategy: the last unit first, unit 0 around all.
template <class T>
void backward(strategy<T>& s, const layout& map, gradients<T>& grads, int step, int micro,
              int rank = 0) {
    const auto g =
        rig::numbers<T>(std::uint32_t(1 + 1000 * rank + 10 * step + micro), map.size(), 1);
    const device_span<T> around = s.collect(grads, 0);
    for (int u = int(map.units.size()) - 1; u >= 0; --u) {
        const device_span<T> to = u > 0 ? s.collect(grads, u) : around;
        std::copy_n(g.data() + map.units[std::size_t(u)].begin, to.size(), to.data());
        s.ready(grads, u, micro);
    }
}

template <class T>
struct outcome {
    std::vector<T> weights;
    std::vector<wide_t<T>> master, m, v;

    bool operator==(const outcome& o) const {
        return same_bits(weights, o.weights) && same_bits(master, o.master) && same_bits(m, o.m) &&
               same_bits(v, o.v);
    }
};

template <class T>
std::vector<T> first_weights(const layout& map) {
    return rig::numbers<T>(0, map.size(), 1);
}
inline double factor_of(int step) { return 0.37 + 0.01 * step; }
inline double rate_of(int step) { return 1e-2 / (1 + step); }

/// ... with everything on the device, by `s` on gradients of its own.
template <class T, class Rule>
outcome<T> plain(strategy<T>& s, const layout& map, Rule rule, int micros, int steps,
                 int rank = 0) {
    machine m(2);
    outcome<T> r{first_weights<T>(map), {}, {}, {}};
    r.master.resize(master_size<T>(map.size()));
    for (std::size_t i = 0; i < r.master.size(); ++i) r.master[i] = mpt::widen(r.weights[i]);
    r.m.resize(rule.moments() > 0 ? map.size() : 0);
    r.v.resize(rule.moments() > 1 ? map.size() : 0);
    std::vector<T> micro(map.size());
    std::vector<float> sum(micros > 1 ? map.size() : 0, NAN);
    gradients<T> grads{span(micro), span(sum)};
    const pieces<T> mine = s.mine(span(r.weights));
    for (int step = 0; step < steps; ++step) {
        for (int k = 0; k < micros; ++k) backward(s, map, grads, step, k, rank);
        rule.step(
            m.on, map,
            optimizer_state<T>{master_of<T>(span(r.master), mine), span(r.m), span(r.v), mine, {}},
            s.finish(grads), factor_of(step), rate_of(step));
        s.publish(span(r.weights));
    }
    if constexpr (own_master<T>) r.master.assign(r.weights.begin(), r.weights.end());
    return r;
}

/// `steps` steps of an offloaded run. window(step): gradients on the host.
template <class T, class Rule, class Window>
void offloaded_steps(offload<T>& o, const layout& map, Rule& rule, int first, int steps,
                     Window window) {
    machine host(2);
    for (int step = first; step < first + steps; ++step)
        o.step(rule, host.on, map, window(step), factor_of(step), rate_of(step));
}

/// The master of a run that begins.
template <class T>
auto first_master(const std::vector<T>& weights) {
    return [&weights](std::size_t begin, std::span<wide_t<T>> to) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = mpt::widen(weights[begin + i]);
    };
}

/// All states, in the order of the flat buffer: what is owned is everything.
template <class T>
outcome<T> everything(offload<T>& o, const std::vector<T>& weights, int moments) {
    outcome<T> r{weights, {}, {}, {}};
    r.master.resize(weights.size());
    r.m.resize(moments > 0 ? weights.size() : 0);
    r.v.resize(moments > 1 ? weights.size() : 0);
    o.copy_to({r.master, r.m, r.v});
    return r;
}

} // namespace rig
