// SPDX-License-Identifier: MIT
// Weights and gradients in a device's memory, states on the host and in files: the bits of the run
// on the CPU. On the emulator, and on a GPU.
#include <doctest/doctest.h>

#include "mpt/dist/device_transfers.hpp"
#include "mpt/train/adamw.hpp"
#include "offload_rig.hpp"

#include <memory>

using namespace mpt;

namespace {

constexpr int steps = 3, micros = 2;

// `forgets`: copies do not wait for the kernels before them.
rig::outcome<bf16> away(bool in_files, bool forgets) {
    const layout map = rig::edges();
    const std::size_t P = map.size();
    const device_queue queue;
    thread_pool pool(1);
    memory mem(0, device_memory(), pinned_memory()), of_host;
    const cpu host(pool, of_host, 0);
    const rig::folder files;
    transfer_calls calls = device_transfers(queue);
    if (forgets) calls.before = [] {};
    transfers copies(calls);

    buffer<bf16> weights(mem, kind::weights, P, "weights");
    buffer<bf16> pinned(mem, kind::data, steps * micros * P, "gradients to be", place::host);
    buffer<float> sum(mem, kind::sums, P, "sums", place::host);
    const auto first = rig::first_weights<bf16>(map);
    leaving_rank<bf16> s(host, map, mem, copies);
    const pieces<bf16> mine = s.mine(weights.span());
    std::unique_ptr<state_store<bf16>> store;
    if (in_files)
        store = std::make_unique<file_states<bf16>>(
            mem, map, mine, 2, file_settings{.folder = files.path, .part = 1024, .buffers = 2});
    else
        store = std::make_unique<host_states<bf16>>(mem, mine, 2, 1024);
    offload<bf16> o(mem, mine, *store, copies);
    o.begin(rig::first_master(first));

    gradients<bf16> grads{{}, sum.span()};
    adamw rule;
    rig::offloaded_steps(o, map, rule, 0, steps, [&](int step) {
        for (int k = 0; k < micros; ++k) {
            // "Backward": work of the stream, of which the host waits for nothing.
            const auto g = rig::numbers<bf16>(std::uint32_t(1 + 10 * step + k), P, 1);
            const auto at = pinned.host_span().subspan(std::size_t(step * micros + k) * P, P);
            std::copy(g.begin(), g.end(), at.begin());
            s.collect(grads, 0);
            for (int u = int(map.units.size()) - 1; u >= 0; --u) {
                const device_span<bf16> to = s.collect(grads, u);
                queue.copy_in(to.data(), at.data() + map.units[std::size_t(u)].begin, to.bytes(),
                              queue.work);
                s.ready(grads, u, k);
            }
        }
        return s.finish(grads);
    });
    std::vector<bf16> now(P);
    queue.copy_out(now.data(), weights.span().data(), weights.bytes(), queue.work);
    queue.wait();
    CHECK(copies.bytes_out() == steps * micros * 2 * P);
    CHECK(copies.bytes_in() == steps * 2 * P);
    return rig::everything(o, now, 2);
}

rig::outcome<bf16> here() {
    const layout map = rig::edges();
    rig::machine m(1);
    one_rank<bf16> s(m.on, map);
    return rig::plain(s, map, adamw{}, micros, steps);
}

} // namespace

TEST_CASE("a device's gradients leave, its weights come back: the bits of the CPU's run") {
    const auto want = here();
    CHECK(away(false, false) == want);
    CHECK(away(true, false) == want);
}

// On a device that is never behind nothing goes wrong; on one that puts work off, all does.
TEST_CASE("sabotage: copies that do not wait for kernels" * doctest::skip()) {
    CHECK(!(away(false, true) == here()));
}
