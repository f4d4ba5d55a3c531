// SPDX-License-Identifier: MIT
// offload.cpp -- a step whose states lie on the host or in files, against what bounds it.
#include "common.hpp"

#include "mpt/comm/progress.hpp"    // progress
#include "mpt/dist/file_states.hpp" // file_states
#include "mpt/dist/host_states.hpp" // host_states
#include "mpt/dist/offload.hpp"     // offload
#include "mpt/train/adamw.hpp"      // adamw

#include <filesystem>
#include <memory>

namespace {

constexpr const char* about =
    "AdamW on states outside of the device, fp16 weights. On the host: against the slower of its "
    "two\n"
    "halves, update and transfer, each alone; here a transfer is a copy that shares the memory "
    "with\n"
    "the update. In files, below the system's folder for temporary ones ($TMPDIR): against "
    "reading\n"
    "and writing as many bytes as fast as the disk takes them, by as many threads.";

using T = mpt::fp16;

// What both rows start from: weights on the device, gradients on the host.
struct run {
    run(mpt::thread_pool& pool, mpt::memory& mem, std::size_t n)
        : on(pool, mem, 64), n(n), weights(bench::numbers<T>(pool, mem, n, 0.02f, narrow)),
          g(bench::numbers<T>(pool, mem, n, 0.1f, narrow)) {
        map.add_unit("all");
        map.add("w", {n, 1}, 0.02f);
        mine = {{weights.span(), 0}};
        grads = {{g.span(), 0}};
    }
    static T narrow(float x) { return mpt::narrow<T>(x); }
    static void fill(std::size_t, std::span<float> to) { std::fill(to.begin(), to.end(), 0.02f); }

    mpt::cpu on;
    mpt::layout map;
    std::size_t n;
    mpt::buffer<T> weights, g;
    mpt::pieces<T> mine;
    mpt::pieces<const T> grads;
    mpt::adamw rule{.weight_decay = 0.1};
};

void bench_host(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem, std::size_t n) {
    const std::string row = "states on the host, of update or transfer";
    if (!table.wants(row)) return;
    run r(pool, mem, n);
    mpt::transfers copies;
    mpt::host_states<T> store(mem, r.mine, 2);
    mpt::offload<T> away(mem, r.mine, store, copies);
    away.begin(run::fill);

    // The update alone: all states at once, weights to the host.
    const auto low = bench::numbers<T>(pool, mem, n, 0.02f, run::narrow);
    auto p = bench::numbers(pool, mem, n), m = bench::numbers(pool, mem, n, 1e-3f);
    auto v = bench::numbers<float>(pool, mem, n, 1e-3f, [](float x) { return x * x; });
    const mpt::device_span<T> to(const_cast<T*>(low.span().data()), n);
    const mpt::optimizer_state<T> own{{{p.span(), 0}}, m.span(), v.span(), {{to, 0}}, {}};
    const auto update = [&] { r.rule.step(r.on, r.map, own, r.grads, 1.0, 1e-5); };
    const auto transfer = [&] { copies.in<T>(r.weights.span(), low.span()); };
    const auto seconds = [](auto f) {
        f();
        const double began = bench::clock_seconds(CLOCK_MONOTONIC);
        f();
        return bench::clock_seconds(CLOCK_MONOTONIC) - began;
    };
    const bool updates = seconds(update) > seconds(transfer);
    table.compare(
        row, "M/s", 1 / 1.15,
        {"", 1e-6 * double(n), [&] { away.step(r.rule, r.on, r.map, r.grads, 1.0, 1e-5); }},
        {updates ? "update alone" : "transfer alone", 1e-6 * double(n),
         [&] { updates ? update() : transfer(); }});
}

struct scratch_folder {
    scratch_folder() {
        std::string name = (std::filesystem::temp_directory_path() / "mpt_bench_XXXXXX").string();
        mpt::check(mkdtemp(name.data()) != nullptr, "bench: ", name, ": cannot be made");
        path = name;
    }
    ~scratch_folder() { std::filesystem::remove_all(path); }
    std::string path;
};

// Records of one size in a file: read, written back, by a thread a buffer, and nothing else.
class plain_io {
public:
    plain_io(const std::string& path, std::size_t records, std::size_t bytes, int threads)
        : file_("bench", path), records_(records), bytes_(bytes), queues_(std::size_t(threads)) {
        for (std::size_t i = 0; i < queues_.size(); ++i)
            rooms_.emplace_back(
                static_cast<std::byte*>(std::aligned_alloc(mpt::direct_file::alignment, bytes)),
                std::free);
        for (auto& room : rooms_) std::memset(room.get(), 1, bytes);
        for (std::size_t k = 0; k < records_; ++k) file_.write(k * bytes_, room(0));
    }
    void run() {
        std::vector<mpt::handle> ways;
        for (std::size_t k = 0; k < records_; ++k)
            ways.push_back(queues_[k % queues_.size()].start(
                [this, k] {
                    file_.read(k * bytes_, room(k));
                    file_.write(k * bytes_, room(k));
                },
                [] {}));
        for (mpt::handle& way : ways) way.wait();
    }
    bool direct() const { return file_.direct(); }

private:
    std::span<std::byte> room(std::size_t k) { return {rooms_[k % rooms_.size()].get(), bytes_}; }
    mpt::direct_file file_;
    std::size_t records_, bytes_;
    std::vector<std::unique_ptr<std::byte, void (*)(void*)>> rooms_;
    std::vector<mpt::progress> queues_; // last: ends first
};

void bench_files(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem, std::size_t n) {
    const std::string row = "states in files, of the disk's rate";
    if (!table.wants(row)) return;
    const scratch_folder here;
    run r(pool, mem, n);
    mpt::transfers copies;
    const mpt::file_settings s{.folder = here.path};
    mpt::file_states<T> store(mem, r.map, r.mine, 2, s);
    mpt::offload<T> away(mem, r.mine, store, copies);
    away.begin(run::fill);
    plain_io io(here.path + "/plain", store.parts().size(),
                mpt::state_file::record_bytes(12 * store.largest()), s.buffers);
    const double gb = 24e-9 * double(n);
    table.compare(
        row, "GB/s", 1 / 1.3,
        {"", gb,
         [&] {
             away.step(r.rule, r.on, r.map, r.grads, 1.0, 1e-5);
             store.settle();
         }},
        {io.direct() ? "read and write" : "read and write, cached", gb, [&] { io.run(); }});
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "offload", about);
    return bench::guarded("offload", [&] {
        bench::table table(o, "offload");
        mpt::thread_pool pool(o.threads);
        mpt::memory mem;
        bench_host(table, pool, mem, o.size<std::size_t>(50'000'000, 100'000));
        bench_files(table, pool, mem, o.size<std::size_t>(20'000'000, 600'000));
    });
}
