// SPDX-License-Identifier: MIT
// Stage 3 with its weights on the device, on the host, in files: the same bits, and what the device
// then holds.
#include <doctest/doctest.h>

#include "away_rig.hpp"

using namespace mpt;
using rig::away_plan;
using rig::refusal;
using rig::says;
using rig::trained_away;

namespace {

constexpr offload_to none = offload_to::none, host = offload_to::host, file = offload_to::file;
constexpr int steps = 3;

template <class T>
void same_everywhere(int ranks, int micros, reduce_mode mode) {
    const rig::folder files;
    const file_settings in{.folder = files.path, .part = 1024, .buffers = 2};
    run_ranks(ranks, [&](communicator& comm) {
        CAPTURE(ranks);
        CAPTURE(micros);
        const auto want = trained_away<T>(comm, {none, none, micros, mode}, steps);
        CHECK(trained_away<T>(comm, {host, host, micros, mode, 1, in}, steps) == want);
        CHECK(trained_away<T>(comm, {file, file, micros, mode, 1, in}, steps) == want);
    });
}

} // namespace

TEST_CASE("weights here = on the host = in files: 1 to 4 ranks, windows of 1 to 4, both ways") {
    for (const int ranks : {1, 2, 3, 4})
        for (const int micros : {1, 2, 3, 4})
            for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every})
                same_everywhere<bf16>(ranks, micros, mode);
}

TEST_CASE_TEMPLATE("... and in other formats", T, float, fp16) {
    for (const int ranks : {1, 3})
        for (const int micros : {1, 3}) same_everywhere<T>(ranks, micros, reduce_mode::every);
}

TEST_CASE("... weights and states in unlike places, any number of buffers, nothing ahead") {
    const rig::folder files;
    run_ranks(2, [&](communicator& comm) {
        const reduce_mode mode = reduce_mode::every;
        const auto want = trained_away<fp16>(comm, {none, none, 2, mode}, steps);
        const auto in = [&](int buffers) {
            return file_settings{.folder = files.path, .part = 256, .buffers = buffers};
        };
        CHECK(trained_away<fp16>(comm, {file, host, 2, mode, 1, in(2)}, steps) == want);
        CHECK(trained_away<fp16>(comm, {host, file, 2, mode, 1, in(2)}, steps) == want);
        for (const int buffers : {1, 2, 3, 9})
            for (const int ahead : {0, 1})
                CHECK(trained_away<fp16>(comm, {file, file, 2, mode, ahead, in(buffers)}, steps) ==
                      want);
    });
}

// ---- sabotage --------------------------------------------------------------------------------

namespace {

// New weights that are never sent: the place has those of the beginning for ever.
template <class T>
struct stale : weight_place<T> {
    explicit stale(std::unique_ptr<weight_place<T>> p) : inner(std::move(p)) {
        this->mine_ = inner->mine();
    }
    device_span<T> room(std::size_t k, const block& b) override {
        if (!begun) return inner->room(k, b);
        lost.resize(b.size());
        return rig::span(lost);
    }
    void send(std::size_t k, const block& b) override {
        if (!begun) inner->send(k, b);
    }
    void settle() override {
        inner->settle();
        begun = true;
    }
    void fetch(int u, device_span<T> to) override { inner->fetch(u, to); }
    void expect(int u) override { inner->expect(u); }
    std::unique_ptr<weight_place<T>> inner;
    std::vector<T> lost;
    bool begun = false;
};

} // namespace

TEST_CASE("sabotage: weights that an update does not write are another run's") {
    const rig::folder files;
    run_ranks(3, [&](communicator& comm) {
        const auto want = trained_away<bf16>(comm, {}, steps);
        for (const offload_to to : {host, file}) {
            const auto got = trained_away<bf16>(
                comm, {to, to, 1, reduce_mode::every, 1, {.folder = files.path, .part = 1024}},
                steps, [](auto p) { return std::make_unique<stale<bf16>>(std::move(p)); });
            CHECK(!(got == want));
        }
    });
}

// ---- bytes -----------------------------------------------------------------------------------

TEST_CASE("bytes of device, host and files = formula, with padding and gathered units") {
    const layout map = rig::away_units();
    const rig::folder files;
    for (const int N : {1, 2, 3, 4})
        run_ranks(N, [&](communicator& comm) {
            CAPTURE(N);
            rig::away_rank<bf16> run(
                comm, map,
                {file, file, 2, reduce_mode::every, 1, {.folder = files.path, .part = 1024}});
            for (int i = 0; i < 2; ++i) run.step(i);
            const ledger& books = run.m.mem.books;
            const partition& cut = run.cut;
            const auto W = [&](int u) { return std::size_t(N) * cut.shard(u); }; // padded

            // Of a unit: its weights, the next one's on their way; in backward its gradients, those
            // before it on their way, and unit 0's, which backward has open from begin to end.
            const int last = cut.units() - 1;
            std::size_t whole = 0;
            for (int u = 0; u < last; ++u) whole = std::max(whole, W(u) + W(u + 1));
            for (int u = last; u >= 0; --u)
                whole = std::max(whole, W(u) + (u > 0 ? W(u - 1) : 0) + W(0) + (u > 0 ? W(u) : 0) +
                                            (u < last ? W(u + 1) : 0));
            CHECK(books.peak_total() == 2 * whole + 64); // and the rig's scratch
            CHECK(books.peak(kind::comm) == 2 * whole);
            CHECK(books.now(kind::comm) == 0);
            for (const kind k : {kind::weights, kind::grads, kind::sums, kind::master})
                CHECK(books.peak(k) == 0); // nothing of the model stays on the device

            const std::size_t owned = cut.owned(comm.rank());
            CHECK(books.now(kind::weights, place::file) == 2 * owned);
            CHECK(books.now(kind::master, place::file) == 4 * owned);
            CHECK(books.now(kind::moments, place::file) == 8 * owned);
            std::size_t largest = 0, part = 0;
            for (int u = 0; u <= last; ++u) {
                const std::size_t n = cut.owned(u, comm.rank());
                if (n) largest = std::max(largest, state_file::record_bytes(2 * n));
                part = std::max(part, std::min<std::size_t>(n, 1024));
            }
            CHECK(books.peak_total(place::host) ==
                  3 * (largest + 4096) + 3 * (state_file::record_bytes(12 * part) + 4096) +
                      4 * cut.packed_size() + 2 * 700); // sums, a chunk of gradients
        });
}

TEST_CASE("bytes on the host where weights and states are there") {
    const layout map = rig::away_units();
    run_ranks(3, [&](communicator& comm) {
        rig::away_rank<fp16> run(comm, map, {host, host});
        run.step(0);
        const ledger& books = run.m.mem.books;
        CHECK(books.peak(kind::weights) == 0);
        CHECK(books.now(kind::weights, place::host) == 2 * run.cut.packed_size());
        CHECK(books.now(kind::master, place::host) == 4 * run.n.owned);
        CHECK(run.copies.bytes_in() == 2 * (2 * run.cut.packed_size() - run.cut.shard(5)));
    });
}

TEST_CASE("refusals") {
    const layout map = rig::away_units();
    const rig::folder files;
    rig::machine m(1);
    transfers copies;
    const partition cut(map, 1);
    CHECK(says(refusal([&] {
                   file_weights<bf16>(m.mem, map, cut, 0, copies,
                                      {.folder = files.path, .buffers = 0});
               }),
               "weights: 0 buffers, wanted 1 or more"));
    CHECK(says(refusal([&] { file_weights<bf16>(m.mem, map, cut, 0, copies, {.folder = "none"}); }),
               "weights none/rank0-unit0.weights: cannot be made (No such file or directory)"));
    file_weights<bf16> w(m.mem, map, cut, 0, copies, {.folder = files.path});
    std::vector<bf16> to(cut.shard(3));
    CHECK(says(refusal([&] { w.fetch(3, rig::span(to)); }),
               "weights of unit of 4097: nothing was written yet; fill them first"));
    CHECK(files.files() == 6);
    CHECK(make_weights<bf16>(none, m.mem, map, cut, 0, copies, {}) == nullptr);
}
