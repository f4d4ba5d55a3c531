// SPDX-License-Identifier: MIT
// simt.cpp -- the emulator: waits a second, and what a kernel without waits costs beside a loop.
#define MPT_SIMT
#include "common.hpp"

#include "mpt/kernels/launch.cuh"
#include "mpt/simt/device_buffer.hpp" // device_buffer
#include "mpt/simt/fiber.hpp"         // fiber, context, switch_context

#include <algorithm>
#include <memory>
#include <vector>

namespace mpt::kernels {
namespace {

constexpr const char* about =
    "Waits of the emulator on one core, all threads counted: barriers and shuffles in blocks of\n"
    "32, 256 and 1024 threads, against 10 million a second (a loop that takes as long).\n"
    "The same waits against bare switches of as many stacks. A kernel without waits, y += x with\n"
    "one element a thread, against the plain loop.";

__global__ void barriers_kernel(int n) {
    for (int i = 0; i < n; ++i) __syncthreads();
}
__global__ void shuffles_kernel(float* to, int n) {
    float v = float(threadIdx.x);
    for (int i = 0; i < n; ++i) v = 0.5f * (v + __shfl_xor_sync(0xFFFFFFFF, v, 1));
    to[threadIdx.x] = v;
}
__global__ void add_kernel(float* y, const float* x, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] += x[i];
}

// Stacks that wake each other in turn, as the threads of a block do, and nothing else.
class ring {
public:
    explicit ring(unsigned n) {
        for (unsigned i = 0; i < n; ++i)
            stacks_.push_back(std::make_unique<fiber>(turn, 65536, i));
    }
    void run(long switches) {
        now = this;
        left_ = switches;
        at_ = 0;
        switch_context(home_, stacks_[0]->self);
    }

private:
    static void turn() {
        arrived(now->stacks_[now->at_]->self);
        for (;;) {
            ring& r = *now;
            context& self = r.stacks_[r.at_]->self;
            if (--r.left_ <= 0) {
                switch_context(self, r.home_);
                continue;
            }
            r.at_ = r.at_ + 1 < r.stacks_.size() ? r.at_ + 1 : 0;
            switch_context(self, r.stacks_[r.at_]->self);
        }
    }
    static inline ring* now = nullptr;
    std::vector<std::unique_ptr<fiber>> stacks_;
    std::size_t at_ = 0;
    long left_ = 0;
    context home_;
};

// Takes as long as so many waits would at 10 million a second.
void at_10_million(double waits) {
    const clockid_t clock = CLOCK_MONOTONIC;
    for (const double end = bench::clock_seconds(clock) + 1e-7 * waits;
         bench::clock_seconds(clock) < end;) {}
}

void bench_waits(bench::table& table, const bench::options& o, unsigned threads) {
    settings().threads = 1;
    const int rounds = int(o.size(4'000'000u, 40'000u) / threads);
    const double millions = 1e-6 * double(rounds) * threads;
    device_buffer<float> to(threads);
    ring stacks(threads);
    const bench::side limit{"10 million a second", millions,
                            [&] { at_10_million(1e6 * millions); }};
    const bench::side bare{"bare switches", millions, [&] { stacks.run(long(1e6 * millions)); }};
    const bench::side barriers{"", millions,
                               [&] { mpt::launch<barriers_kernel>({1, threads}, rounds); }};
    const bench::side shuffles{
        "", millions, [&] { mpt::launch<shuffles_kernel>({1, threads}, to.data(), rounds); }};
    const std::string of = ", block of " + std::to_string(threads);
    if (!o.cpu_time) {
        table.compare("barrier" + of, "M/s", 1.0, barriers, limit);
        table.compare("shuffle" + of, "M/s", 1.0, shuffles, limit);
    }
    table.compare("barrier" + of + ", to switch", "M/s", 0, barriers, bare);
    table.compare("shuffle" + of + ", to switch", "M/s", 0, shuffles, bare);
}

void bench_loop(bench::table& table, const bench::options& o) {
    const std::string row = "no waits, y += x a thread";
    if (!table.wants(row)) return;
    settings().threads = 1;
    const int n = o.size(1 << 20, 1 << 12); // in the cache
    device_buffer<float> x(std::vector<float>(std::size_t(n), 1e-6f));
    device_buffer<float> y(std::vector<float>(std::size_t(n), 1.0f));
    const float* from = x.data();
    table.compare(row, "M elements/s", 0,
                  {"", 1e-6 * n, [&] {
                       mpt::launch<add_kernel>({unsigned(n + 255) / 256, 256}, y.data(), from, n);
                   }},
                  {"loop", 1e-6 * n,
                   [&] { bench::stream_add_part(y.data(), from, std::size_t(n)); }});
}

} // namespace
} // namespace mpt::kernels

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "simt", mpt::kernels::about);
    return bench::guarded("simt", [&] {
        bench::table table(o, "simt");
        for (const unsigned threads : {32u, 256u, 1024u})
            mpt::kernels::bench_waits(table, o, threads);
        mpt::kernels::bench_loop(table, o);
    });
}
