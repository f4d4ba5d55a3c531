// SPDX-License-Identifier: MIT
// memory.cpp -- what a training run takes from the system, against its ledger.
#include "common.hpp"
#include "gpt_step.hpp" // gpt_step
#include "products.hpp" // cblas_threads, raw_sgemm

#include <memory>

namespace {

constexpr const char* about =
    "The largest resident memory of this process (VmHWM) while it trains a small GPT, against the\n"
    "ledger's peak; before that, what the program and the BLAS take for themselves.";

// A line of /proc/self/status, "VmHWM:" or "VmRSS:", in MB.
double status(const char* key) {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);)
        if (line.rfind(key, 0) == 0) return std::stod(line.substr(line.find(':') + 1)) * 1024e-6;
    throw mpt::error("/proc/self/status: no such line; this row needs Linux");
}

template <class T>
void bench_run(bench::table& table, const bench::options& o, const mpt::gpt_config& c, int B,
               int T_) {
    bench::cblas_threads(1);
    bench::gpt_step<T> step(c, B, T_, o.threads, 2);
    for (int i = 0; i < 2; ++i) step.run();
    const double ledger = 1e-6 * double(step.mem.books.peak_total(mpt::place::device));
    std::fprintf(stderr, "  %s: the ledger's peak is %.1f MB\n", mpt::name<T>(), ledger);
    table.at_most(std::string("VmHWM, ") + mpt::name<T>() + ", 2 micro-batches", "MB",
                  status("VmHWM:"), "1.10 ledger + 64 MiB", 1.10 * ledger + 67.1, 1.0);
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "memory", about);
    return bench::guarded("memory", [&] {
        bench::table table(o, "memory");
        const double program = status("VmRSS:");
        { // what stays when the operands are gone
            const int n = o.size(2048, 64);
            std::vector<float> x(std::size_t(n) * std::size_t(n), 0.01f), y(x.size());
            bench::cblas_threads(o.threads);
            bench::raw_sgemm(false, true, n, n, n, x.data(), n, x.data(), n, y.data(), n);
        }
        const double with_blas = status("VmRSS:");
        table.at_most("the program", "MB", program, "all before training", with_blas, 0);
        table.at_most(mpt::join("buffers of ", bench::cblas_name()), "MB", with_blas - program,
                      "all before training", with_blas, 0);
        mpt::gpt_config c{6, 6, 6, 384, 256, 256};
        if (o.quick) c = {1, 2, 2, 32, 32, 256};
        bench_run<mpt::fp16>(table, o, c, 4, c.context); // the smaller first: VmHWM never falls
        bench_run<float>(table, o, c, 8, c.context);
    });
}
