// SPDX-License-Identifier: MIT
// Many steps with the smallest legal buffers: the same bits as without files, and no growth. 50
// steps; with MPT_SOAK 1000.
#include <doctest/doctest.h>

#include "mpt/train/adamw.hpp"
#include "offload_rig.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

using namespace mpt;

namespace {
std::atomic<long> live = 0; // allocations that were not given back
}

void* operator new(std::size_t n) {
    ++live;
    if (void* p = std::malloc(n ? n : 1)) return p;
    throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
    live -= p != nullptr;
    std::free(p);
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

TEST_CASE("smallest buffers, many steps: no race, no growth") {
    const bool soak = std::getenv("MPT_SOAK") != nullptr;
    const int steps = soak ? 1000 : 50;
    layout map; // small, so that everything passes through the buffers often
    map.add_unit("one");
    map.add("a", {1}, 0);
    map.add("b", {511, 1}, 1);
    map.add_unit("two");
    map.add("c", {513, 1}, 1);
    rig::machine m(2);
    const rig::folder here;
    transfers copies;
    std::vector<bf16> weights = rig::first_weights<bf16>(map);
    const auto first = weights;
    leaving_rank<bf16> s(m.on, map, m.mem, copies);
    const pieces<bf16> mine = s.mine(rig::span(weights));
    file_states<bf16> store(m.mem, map, mine, 2, {.folder = here.path, .part = 256, .buffers = 1});
    offload<bf16> o(m.mem, mine, store, copies);
    o.begin(rig::first_master(first));
    std::vector<float> sum(map.size());
    gradients<bf16> grads{{}, rig::span(sum)};
    adamw rule;
    const auto window = [&](int step) {
        for (int k = 0; k < 2; ++k) rig::backward(s, map, grads, step, k);
        return s.finish(grads);
    };
    rig::offloaded_steps(o, map, rule, 0, 10, window);
    store.settle();
    const long held = live;
    const std::size_t device = m.mem.device.held(), host = m.mem.host.held();
    rig::offloaded_steps(o, map, rule, 10, steps - 10, window);
    store.settle();
    CHECK(live - held < 16); // a queue keeps a block of its past, or has just dropped one
    CHECK(m.mem.device.held() == device);
    CHECK(m.mem.host.held() == host);
    std::size_t bytes = 0;
    for (const auto& f : std::filesystem::directory_iterator(here.path)) bytes += f.file_size();
    CHECK(bytes == 12 * map.size() + store.padding());

    one_rank<bf16> alone(m.on, map);
    CHECK(rig::everything(o, weights, 2) == rig::plain(alone, map, adamw{}, 2, steps));
}

TEST_CASE("sabotage: an allocation a step is seen") {
    const long held = live;
    std::vector<std::unique_ptr<int>> kept;
    for (int i = 0; i < 50; ++i) kept.push_back(std::make_unique<int>(i));
    CHECK(live - held >= 16);
}
