// SPDX-License-Identifier: MIT
// Prints what five steps of every optimizer of one pass leave behind, as one number a kind of
// weights and gradients. The same lines must come out of every build: plain C++, AVX2, AVX-512,
// arm64 (update_digest.txt), with any number of threads.
#include "mpt/train/adam.hpp"  // adam
#include "mpt/train/adamw.hpp" // adamw
#include "mpt/train/sgd.hpp"   // sgd
#include "rig.hpp"

#include <cinttypes>
#include <cstdio>
#include <type_traits>

#if defined(MPT_DIGEST_LEVEL) // of x86-64: what the compiler was allowed to use
static bool runs_here() {
#if MPT_DIGEST_LEVEL == 4
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif MPT_DIGEST_LEVEL == 3
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}
#else
static bool runs_here() { return true; }
#endif

namespace {

mpt::layout tensors() { // whole vectors, rests of every length, a task's edge, one element
    mpt::layout map;
    map.add_unit("a");
    map.add("a.w", {131, 127}, 1);
    map.add("a.b", {15}, 0);
    map.add_unit("b");
    map.add("b.w", {1, 1}, 1);
    map.add("b.gain", {511}, 0, 1);
    map.add("b.w2", {4097, 1}, 1);
    return map;
}

template <class T, class G, class Rule>
std::uint64_t after_five_steps(Rule rule, int threads) {
    const mpt::layout map = tensors();
    rig::machine machine(threads);
    auto weights = rig::numbers<T>(1, map.size(), 1);
    std::vector<float> master(map.size()), m(rule.moments() > 0 ? map.size() : 0),
        v(rule.moments() > 1 ? map.size() : 0);
    for (std::size_t i = 0; i < master.size(); ++i) master[i] = mpt::widen(weights[i]);
    // fp32 weights, too, with a master of their own, as when they lie in another memory.
    const mpt::optimizer_state<T> own{rig::by_unit(map, master.data()), rig::span(m), rig::span(v),
                                      rig::by_unit(map, weights.data())};
    for (std::uint32_t step = 0; step < 5; ++step) {
        auto g = rig::numbers<G>(10 + step, map.size(), 1);
#if defined(MPT_SABOTAGE) // one gradient of 21 thousand, by one bit
        if (step == 4) reinterpret_cast<unsigned char*>(&g[9999])[0] ^= 16;
#endif
        rule.step(machine.on, map, own, rig::by_unit<const G>(map, g.data()), 0.37, 1e-3);
    }
    return rig::digest(weights, rig::digest(master, rig::digest(m, rig::digest(v))));
}

template <class T, class G, class Rule>
void print(const char* what, const Rule& rule) {
    const std::uint64_t one = after_five_steps<T, G>(rule, 1);
    std::printf("%-24s %016" PRIx64 "%s\n", what, one,
                after_five_steps<T, G>(rule, 3) == one ? "" : " and others with 3 threads");
}

template <class Rule>
void print_all(const std::string& name, const Rule& rule) {
    print<float, float>((name + " fp32").c_str(), rule);
    print<mpt::fp16, mpt::fp16>((name + " fp16").c_str(), rule);
    print<mpt::fp16, float>((name + " fp16, sums").c_str(), rule);
    print<mpt::bf16, mpt::bf16>((name + " bf16").c_str(), rule);
    print<mpt::bf16, float>((name + " bf16, sums").c_str(), rule);
}

} // namespace

int main() {
    if (!runs_here()) {
        std::puts("skipped: this CPU lacks the instructions of x86-64-v3 or -v4");
        return 0;
    }
    print_all("adamw", mpt::adamw{.weight_decay = 0.1});
    print_all("adam", mpt::adam{.weight_decay = 0.1});
    print_all("sgd", mpt::sgd{.weight_decay = 0.1});
}
