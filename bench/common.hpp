// SPDX-License-Identifier: MIT
// common.hpp -- what all benchmarks share: options, paired timing, the table, what others use of
// the machine.
//
// A row compares two things that run in turn, A B A B ..., in one process. It shows the median of
// the ratios of the pairs: on a shared machine a time says little, a ratio of neighbours something.
#pragma once
#include "mpt/base/error.hpp"       // check, error, join
#include "mpt/base/memory.hpp"      // memory, buffer
#include "mpt/base/qualifiers.hpp"  // MPT_RESTRICT
#include "mpt/base/thread_pool.hpp" // thread_pool

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace bench {

struct options {
    int threads = int(std::max(1u, std::thread::hardware_concurrency()));
    int pairs = 7;         // A B, so many times
    bool quick = false;    // tiny sizes, 3 pairs: only to see that everything runs
    bool cpu_time = false; // count the process's CPU time instead of the time that passes
    std::string only, json;

    // Elements or repetitions: `full`, or with --quick `small`.
    template <class N>
    N size(N full, N small) const {
        return quick ? small : full;
    }
    // The shortest time that is worth measuring.
    double least_seconds() const { return quick ? 0.001 : 0.05; }
};

// ---- the command line ----

// `on`: the machine that is measured. A GPU knows nothing of the host's threads and CPU time.
enum class on { cpu, gpu };

inline options parse(int argc, char** argv, const char* name, const char* about,
                     on machine = on::cpu) {
    options o;
    const bool cpu = machine == on::cpu;
    const auto refuse = [&](const std::string& text) {
        std::fprintf(stderr, "bench %s: %s; --help lists the options\n", name, text.c_str());
        std::exit(2);
    };
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const std::string key = word.substr(0, word.find('='));
        const bool joined = key.size() < word.size();
        const auto value = [&]() -> std::string {
            if (joined) return word.substr(key.size() + 1);
            if (i + 1 >= argc) refuse(key + " wants a value");
            return argv[++i];
        };
        const auto number = [&] {
            const std::string text = value();
            int n = 0;
            const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), n);
            if (bad != std::errc() || *end != 0 || n < 1 || n > 1024)
                refuse(key + " '" + text + "': wanted is a number from 1 to 1024");
            return n;
        };
        if (cpu && key == "--threads")
            o.threads = number();
        else if (key == "--pairs")
            o.pairs = number();
        else if (key == "--only")
            o.only = value();
        else if (key == "--json")
            o.json = value();
        else if (word == "--quick")
            o.quick = true;
        else if (cpu && word == "--cpu-time")
            o.cpu_time = true;
        else if (word == "--help" || word == "-h") {
            std::printf("./run bench %s [options]\n%s\n\n", cpu ? name : "--device cuda",
                        about);
            if (cpu)
                std::printf("  --threads N   threads of both sides (%d)\n", o.threads);
            std::printf(
                "  --pairs N     times that each side is measured, in turn (%d)\n"
                "  --only TEXT   rows whose name has TEXT in it\n"
                "  --quick       tiny sizes, 3 pairs: shows that it runs, measures nothing\n",
                o.pairs);
            std::printf("%s", cpu ? "  --cpu-time    CPU time, not the time that passes: for a "
                                    "machine that others\n"
                                    "                use, best with --threads 1\n"
                                  : "");
            std::printf("  --json FILE   append one JSON object a row\n"
                        "  --help        this\n");
            std::exit(0);
        } else
            refuse("unknown option '" + word + "'");
    }
    if (o.quick) o.pairs = std::min(o.pairs, 3);
    return o;
}

// Run main's body; an error is one line and status 1.
template <class Body>
int guarded(const char* name, Body body) {
    try {
        body();
        return 0;
    } catch (const std::exception& e) {
        std::fflush(stdout);
        std::fprintf(stderr, "bench %s: %s\n", name, e.what());
        return 1;
    }
}

// ---- time, and who used the CPUs ----

inline double clock_seconds(clockid_t which) {
    timespec t;
    clock_gettime(which, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// CPU seconds since the start of the machine, of all processes, and of this one.
struct cpu_use {
    double busy = 0, stolen = 0, own = 0, at = 0;

    static cpu_use now() {
        cpu_use u;
        std::ifstream in("/proc/stat"); // user nice system idle iowait irq softirq steal, in ticks
        std::string cpu;
        std::array<double, 8> t{};
        in >> cpu;
        for (double& x : t) in >> x;
        const double tick = 1.0 / double(sysconf(_SC_CLK_TCK));
        u.busy = tick * (t[0] + t[1] + t[2] + t[5] + t[6]);
        u.stolen = tick * t[7];
        u.own = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
        u.at = clock_seconds(CLOCK_MONOTONIC);
        return u;
    }
};

// Shares of all CPUs between two looks.
struct company {
    double others = 0, steal = 0;
    bool noisy() const { return others + steal > 0.10; }
};
inline company between(const cpu_use& a, const cpu_use& b) {
    const double all = (b.at - a.at) * double(std::max(1u, std::thread::hardware_concurrency()));
    return {std::max(0.0, (b.busy - a.busy) - (b.own - a.own)) / all,
            std::max(0.0, b.stolen - a.stolen) / all};
}

inline double load_average() {
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

inline std::string cpu_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
    return "unknown CPU";
}

// ---- the table ----

// One side of a comparison: run() does `work` units (GB, GFLOP, tokens) once.
struct side {
    std::string what;
    double work;
    std::function<void()> run;
    std::function<void()> before = [] {}; // outside of the time
};

class table {
public:
    // Seconds that s.run(), so many times, takes by another clock than the host's.
    using watch = std::function<double(const side& s, int times)>;

    table(const options& o, const char* name) : o_(o), name_(name) {
        std::fprintf(stderr, "bench %s: %s, %d threads of %u, load average %.1f%s\n", name,
                     cpu_name().c_str(), o.threads, std::thread::hardware_concurrency(),
                     load_average(), o.cpu_time ? ", CPU time instead of time" : "");
        header();
    }
    table(const options& o, const char* name, const std::string& machine, watch seconds)
        : o_(o), name_(name), watch_(std::move(seconds)) {
        std::fprintf(stderr, "bench %s: %s, load average %.1f\n", name, machine.c_str(),
                     load_average());
        header();
    }
    // CPU seconds of other processes that belong to the benchmark: they are no strangers.
    std::function<double()> partners = [] { return 0.0; };

    // Is a row of this name wanted? Ask before allocating its arrays.
    bool wants(const std::string& row) const { return row.find(o_.only) != std::string::npos; }

    // ours / peer, in units of work a second. goal 0: none, for information.
    void compare(const std::string& row, const char* unit, double goal, const side& ours,
                 const side& peer) {
        if (!wants(row)) return;
        std::fprintf(stderr, "  %s ...\n", row.c_str());
        measure(ours, 1); // warm: pages, caches, threads
        measure(peer, 1);
        const int a = repeats(ours), b = repeats(peer);
        std::vector<double> ratio, rate_a, rate_b;
        const cpu_use start = look();
        for (int i = 0; i < o_.pairs; ++i) {
            rate_a.push_back(ours.work * a / measure(ours, a));
            rate_b.push_back(peer.work * b / measure(peer, b));
            ratio.push_back(rate_a.back() / rate_b.back());
        }
        const company with = between(start, look());
        line(row, unit, median(rate_a), peer.what, median(rate_b), median(ratio),
             *std::min_element(ratio.begin(), ratio.end()),
             *std::max_element(ratio.begin(), ratio.end()), goal, with);
    }

    // Two numbers that no clock made; the ratio is to be at most `most`.
    void at_most(const std::string& row, const char* unit, double ours, const std::string& what,
                 double peer, double most) {
        const double ratio = ours / peer;
        std::printf("%-40s %-15s %-37s %-19s %-8s %-4s\n", row.c_str(), rate(ours, unit).c_str(),
                    (rate(peer, unit) + " " + what).c_str(), text("%.3f", ratio).c_str(),
                    most > 0 ? text("<= %.2f", most).c_str() : "", verdict(most, ratio <= most));
        std::fflush(stdout);
        json(row, unit, ours, what, peer, ratio, ratio, ratio, most, {});
    }

private:
    void header() const {
        std::printf("%-40s %-15s %-37s %-19s %-8s %-4s %s\n", name_, "ours", "against",
                    "ratio (range)", "goal", "", "load, others, steal");
        std::fflush(stdout);
    }
    static double median(std::vector<double> x) {
        std::sort(x.begin(), x.end());
        const std::size_t n = x.size();
        return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
    }
    cpu_use look() const {
        cpu_use u = cpu_use::now();
        u.own += partners();
        return u;
    }
    double measure(const side& s, int times) const {
        s.before();
        if (watch_) return std::max(1e-9, watch_(s, times));
        const clockid_t clock = o_.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
        const double began = clock_seconds(clock);
        for (int i = 0; i < times; ++i) s.run();
        return std::max(1e-9, clock_seconds(clock) - began);
    }
    int repeats(const side& s) const {
        return int(std::clamp(o_.least_seconds() / measure(s, 1), 1.0, 1e6));
    }

    static std::string text(const char* format, double x) {
        char t[64];
        std::snprintf(t, sizeof t, format, x);
        return t;
    }
    static std::string rate(double x, const char* unit) {
        return text(x < 10 ? "%.2f " : x < 1000 ? "%.1f " : "%.0f ", x) + unit;
    }
    static const char* verdict(double goal, bool reached) {
        return goal == 0 ? "" : reached ? "ok" : "LOW";
    }

    void line(const std::string& row, const char* unit, double ours, const std::string& what,
              double peer, double ratio, double least, double most, double goal, company with) {
        std::printf("%-40s %-15s %-37s %-19s %-8s %-4s %.1f, %.0f %%, %.0f %%%s\n", row.c_str(),
                    rate(ours, unit).c_str(), (rate(peer, unit) + " " + what).c_str(),
                    (text("%.2f (", ratio) + text("%.2f-", least) + text("%.2f)", most)).c_str(),
                    goal > 0 ? text(">= %.2f", goal).c_str() : "", verdict(goal, ratio >= goal),
                    load_average(), 100 * with.others, 100 * with.steal,
                    with.noisy() ? "  noisy" : "");
        std::fflush(stdout);
        json(row, unit, ours, what, peer, ratio, least, most, goal, with);
    }

    void json(const std::string& row, const char* unit, double ours, const std::string& what,
              double peer, double ratio, double least, double most, double goal, company with) {
        if (o_.json.empty()) return;
        std::ofstream out(o_.json, std::ios::app);
        out << "{\"bench\":\"" << name_ << "\",\"row\":\"" << row << "\",\"unit\":\"" << unit
            << "\",\"ours\":" << ours << ",\"against\":\"" << what << "\",\"theirs\":" << peer
            << ",\"ratio\":" << ratio << ",\"min\":" << least << ",\"max\":" << most
            << ",\"goal\":" << goal << ",\"threads\":" << o_.threads
            << ",\"load\":" << load_average() << ",\"others\":" << with.others
            << ",\"steal\":" << with.steal << ",\"noisy\":" << (with.noisy() ? "true" : "false")
            << "}\n";
        mpt::check(bool(out), "--json ", o_.json, ": cannot be written; give a file that can");
    }

    const options& o_;
    const char* name_;
    watch watch_; // empty: the host's clock
};

// ---- what is measured against ----

// Plain functions with restricted pointers: that is what compilers vectorise.
inline void stream_add_part(float* MPT_RESTRICT b, const float* MPT_RESTRICT a, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) b[i] += a[i];
}

// An array of this benchmark, with numbers in (-1, 1) times `size`, written by the pool.
template <class T, class Convert>
mpt::buffer<T> numbers(mpt::thread_pool& pool, mpt::memory& mem, std::size_t n, float size,
                       Convert convert) {
    mpt::buffer<T> x(mem, mpt::kind::data, n, "an array of the benchmark");
    pool.for_ranges(n, 1 << 16, [&](std::size_t begin, std::size_t end, int) {
        for (std::size_t i = begin; i < end; ++i) { // a hash of i
            std::uint32_t h = std::uint32_t(i) * 2654435761u;
            h = (h ^ (h >> 15)) * 2246822519u;
            x.span().data()[i] = convert(size * (float(h >> 8) * 0x1p-23f - 1.0f));
        }
    });
    return x;
}
inline mpt::buffer<float> numbers(mpt::thread_pool& pool, mpt::memory& mem, std::size_t n,
                                  float size = 1) {
    return numbers<float>(pool, mem, n, size, [](float x) { return x; });
}

// b += a over n floats on all threads: 12 bytes an element, no line read only to be overwritten.
// The rate of memory (or of a cache, where both arrays fit into it) that other rows are held to.
class stream_add {
public:
    stream_add(mpt::thread_pool& pool, mpt::memory& mem, std::size_t n)
        : pool_(pool), a_(numbers(pool, mem, n, 1e-6f)), b_(numbers(pool, mem, n)) {}

    side as_side() {
        return {"stream add", 12e-9 * double(a_.size()), [this] { run(); }};
    }
    void run() {
        pool_.for_ranges(
            a_.size(), std::size_t(1) << 16, [&](std::size_t begin, std::size_t end, int) {
                stream_add_part(b_.span().data() + begin, a_.span().data() + begin, end - begin);
            });
    }

private:
    mpt::thread_pool& pool_;
    mpt::buffer<float> a_, b_;
};

} // namespace bench
