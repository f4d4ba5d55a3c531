// SPDX-License-Identifier: MIT
// optimizer.cpp -- what a step does with all parameters: inspect, optimizers, accumulation.
#include "common.hpp"

#include "mpt/nn/cpu.hpp"           // cpu
#include "mpt/train/adam.hpp"       // adam: step
#include "mpt/train/adam8bit.hpp"   // adam8bit: step
#include "mpt/train/adamw.hpp"      // adamw: step
#include "mpt/train/grad_accum.hpp" // accumulate
#include "mpt/train/inspect.hpp"    // inspect
#include "mpt/train/lamb.hpp"       // lamb: step
#include "mpt/train/sgd.hpp"        // sgd: step

#include <cmath>

namespace {

constexpr const char* about =
    "Passes over 100 million parameters: inspect against a plain read; fused AdamW with fp16\n"
    "gradients and weights, 28 bytes a parameter, against b += a and against five passes; the\n"
    "other optimizers; the accumulation of gradients.";

// ---- a plain read: as many bytes, added up ----

// 128 sums side by side, as integers: a sum of floats in order would wait for every addition.
std::uint32_t read_part(const std::uint32_t* x, std::size_t n) {
    std::uint32_t sums[128] = {};
    const std::size_t whole = n / 128 * 128;
    for (std::size_t i = 0; i < whole; i += 128)
        for (std::size_t k = 0; k < 128; ++k) sums[k] += x[i + k];
    for (std::size_t i = whole; i < n; ++i) sums[0] += x[i];
    for (std::size_t k = 1; k < 128; ++k) sums[0] += sums[k];
    return sums[0];
}

volatile std::uint32_t sink; // so that no read is left out

template <class G>
void bench_inspect(bench::table& table, const mpt::cpu& on, mpt::memory& mem, std::size_t n) {
    const std::string row = std::string("inspect ") + mpt::name<G>();
    if (!table.wants(row)) return;
    const auto grads =
        bench::numbers<G>(on.pool, mem, n, 1, [](float x) { return mpt::narrow<G>(x); });
    const mpt::pieces<const G> all{{grads.span(), 0}};
    const std::size_t words = n * sizeof(G) / 4;
    const auto* raw = reinterpret_cast<const std::uint32_t*>(grads.span().data());
    const double gb = 1e-9 * double(n * sizeof(G));
    table.compare(row, "GB/s", 0.85,
                  {"", gb, [&] { sink = std::uint32_t(mpt::inspect(on, all).squares[0]); }},
                  {"plain read", gb, [&] {
                       on.pool.for_ranges(words, 1 << 16, [&](std::size_t i, std::size_t end, int) {
                           sink = read_part(raw + i, end - i);
                       });
                   }});
}

// ---- AdamW, a formula a pass over memory ----

struct unfused {
    float *g32, *p, *m, *v;
    const mpt::fp16* g;
    mpt::fp16* w;

    void unscale(std::size_t i, std::size_t end, float factor) const {
        float* MPT_RESTRICT to = g32;
        mpt::cast(g + i, to + i, end - i);
        for (; i < end; ++i) to[i] *= factor;
    }
    void decay(std::size_t i, std::size_t end, float rate) const {
        for (; i < end; ++i) p[i] -= rate * p[i];
    }
    void moments(std::size_t i, std::size_t end, float keep1, float keep2) const {
        float *MPT_RESTRICT m_ = m, *MPT_RESTRICT v_ = v;
        const float* MPT_RESTRICT x = g32;
        for (; i < end; ++i) {
            m_[i] += keep1 * (x[i] - m_[i]);
            v_[i] += keep2 * (x[i] * x[i] - v_[i]);
        }
    }
    void move(std::size_t i, std::size_t end, float rate, float correction, float eps) const {
        constexpr std::size_t chunk = 128; // roots as the fused one takes them: not libm's
        float root[chunk];
        for (; i < end; i += chunk) {
            const std::size_t n = std::min(chunk, end - i);
            mpt::roots(v + i, root, n);
            for (std::size_t j = 0; j < n; ++j)
                p[i + j] -= rate * (m[i + j] / (root[j] * correction + eps));
        }
    }
    void round(std::size_t i, std::size_t end) const { mpt::cast(p + i, w + i, end - i); }
};

void bench_optimizers(bench::table& table, const mpt::cpu& on, mpt::memory& mem,
                      bench::stream_add& limit, std::size_t n) {
    const std::string against_stream = "AdamW, fused, of memory's rate";
    const std::string of_sums = "AdamW, fp32 sums in, of memory's rate";
    const std::string against_passes = "AdamW, fused, against 5 passes";
    const std::string l2 = "Adam with L2, 28 bytes", momentum = "SGD with momentum, 20 bytes",
                      plain = "SGD, 12 bytes", layerwise = "LAMB, 40 bytes",
                      no_master = "AdamW, bf16, stochastic, 22 bytes",
                      eight_bits = "AdamW, 8-bit moments, against fused AdamW";
    bool wanted = false;
    for (const auto& row : {against_stream, of_sums, against_passes, l2, momentum, plain, layerwise,
                            no_master, eight_bits})
        wanted |= table.wants(row);
    if (!wanted) return;
    mpt::layout map;
    map.add_unit("all");
    map.add("w", {n / 1000, 1000}, 0.02f);
    auto& pool = on.pool;
    const auto half = [](float x) { return mpt::narrow<mpt::fp16>(x); };
    const auto g = bench::numbers<mpt::fp16>(pool, mem, n, 0.1f, half);
    auto w = bench::numbers<mpt::fp16>(pool, mem, n, 0.02f, half);
    auto p = bench::numbers(pool, mem, n, 0.02f), m = bench::numbers(pool, mem, n, 1e-3f);
    auto v = bench::numbers<float>(pool, mem, n, 1e-3f, [](float x) { return x * x; });
    const mpt::optimizer_state<mpt::fp16> own{{{p.span(), 0}}, m.span(), v.span(), {{w.span(), 0}}};
    const mpt::pieces<const mpt::fp16> grads{{g.span(), 0}};
    mpt::adamw adam;
    adam.weight_decay = 0.1;
    const auto fused = [&] { adam.step(on, map, own, grads, 1.0, 1e-5); };
    // 2 gradient + 12 read and 12 written of p, m, v + 2 weight
    table.compare(against_stream, "GB/s", 0.85, {"", 28e-9 * double(n), fused}, limit.as_side());

    if (table.wants(of_sums)) { // a window's sums, as they lie on the host when states do
        const auto sums = bench::numbers(pool, mem, n, 0.1f);
        const mpt::pieces<const float> wide{{sums.span(), 0}};
        table.compare(of_sums, "GB/s", 0.85, // 4 gradient
                      {"", 30e-9 * double(n), [&] { adam.step(on, map, own, wide, 1.0, 1e-5); }},
                      limit.as_side());
    }

    // The others, bytes a parameter as their cards count them.
    const auto row = [&](const std::string& name, double bytes, auto optimizer) {
        auto state = own;
        if (optimizer.moments() < 2) state.v = {};
        if (optimizer.moments() < 1) state.m = {};
        table.compare(name, "GB/s", 0,
                      {"", 1e-9 * bytes * double(n),
                       [&, state] { optimizer.step(on, map, state, grads, 1.0, 1e-5); }},
                      limit.as_side());
    };
    row(l2, 28, mpt::adam{.weight_decay = 0.1});
    row(momentum, 20, mpt::sgd{});
    row(plain, 12, mpt::sgd{.momentum = 0});
    row(layerwise, 40, mpt::lamb{});

    if (table.wants(no_master)) {
        const auto low = [](float x) { return mpt::narrow<mpt::bf16>(x); };
        const auto bg = bench::numbers<mpt::bf16>(pool, mem, n, 0.1f, low);
        auto bw = bench::numbers<mpt::bf16>(pool, mem, n, 0.02f, low);
        const mpt::optimizer_state<mpt::bf16> alone{
            {}, m.span(), v.span(), {{bw.span(), 0}}, std::uint64_t(1)};
        const mpt::pieces<const mpt::bf16> bgrads{{bg.span(), 0}};
        table.compare(
            no_master, "GB/s", 0, // 2 gradient, 4 weight, 16 of m and v
            {"", 22e-9 * double(n), [&] { adam.step(on, map, alone, bgrads, 1.0, 1e-5); }},
            limit.as_side());
    }

    if (table.wants(eight_bits)) {
        mpt::block_moments<mpt::fp16> state;
        state.master = own.master, state.weights = own.weights;
        const mpt::moment_sizes sizes = mpt::sizes_of_moments(map, own.weights);
        const mpt::kind kind = mpt::kind::moments;
        mpt::buffer<std::uint8_t> mc(mem, kind, sizes.codes, "m"), vc(mem, kind, sizes.codes, "v");
        mpt::buffer<float> ma(mem, kind, sizes.blocks, "m"), va(mem, kind, sizes.blocks, "v");
        state.m_codes = mc.span(), state.v_codes = vc.span();
        state.m_absmax = ma.span(), state.v_absmax = va.span();
        state.begin();
        mpt::adam8bit low;
        low.weight_decay = 0.1;
        table.compare( // at most 1.5 times fused AdamW's time
            eight_bits, "M/s", 0.667,
            {"", 1e-6 * double(n), [&] { low.step(on, map, state, grads, 1.0, 1e-5); }},
            {"fused AdamW", 1e-6 * double(n), fused});
    }

    if (!table.wants(against_passes)) return;
    mpt::buffer<float> g32(mem, mpt::kind::temp, n, "unscaled gradients");
    const unfused u{g32.span().data(), p.span().data(), m.span().data(),
                    v.span().data(),   g.span().data(), w.span().data()};
    const auto pass = [&](auto f) {
        pool.for_ranges(n, std::size_t(1) << 16,
                        [&](std::size_t i, std::size_t end, int) { f(i, end); });
    };
    table.compare(
        against_passes, "M/s", 1.8, {"", 1e-6 * double(n), fused},
        {"5 passes", 1e-6 * double(n), [&] {
             pass([&](std::size_t i, std::size_t end) { u.unscale(i, end, 1.0f); });
             pass([&](std::size_t i, std::size_t end) { u.decay(i, end, 1e-6f); });
             pass([&](std::size_t i, std::size_t end) { u.moments(i, end, 0.1f, 1e-3f); });
             pass([&](std::size_t i, std::size_t end) { u.move(i, end, 1e-5f, 1, 1e-8f); });
             pass([&](std::size_t i, std::size_t end) { u.round(i, end); });
         }});
}

template <class G>
void bench_accumulate(bench::table& table, const mpt::cpu& on, mpt::memory& mem,
                      bench::stream_add& limit, std::size_t n) {
    const std::string row = std::string("accumulate ") + mpt::name<G>() + " in fp32";
    if (!table.wants(row)) return;
    const auto g =
        bench::numbers<G>(on.pool, mem, n, 1e-6f, [](float x) { return mpt::narrow<G>(x); });
    auto sum = bench::numbers(on.pool, mem, n);
    table.compare(row, "GB/s", 0,
                  {"", 1e-9 * double((8 + sizeof(G)) * n),
                   [&] { mpt::accumulate<G>(on, sum.span(), g.span(), false); }},
                  limit.as_side());
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "optimizer", about);
    return bench::guarded("optimizer", [&] {
        bench::table table(o, "optimizer");
        mpt::thread_pool pool(o.threads);
        mpt::memory mem;
        const mpt::cpu on(pool, mem, 64);
        const std::size_t n = o.size<std::size_t>(100'000'000, 100'000);
        bench_inspect<float>(table, on, mem, n);
        bench_inspect<mpt::fp16>(table, on, mem, n);
        bench_inspect<mpt::bf16>(table, on, mem, n);
        bench::stream_add limit(pool, mem, n);
        bench_optimizers(table, on, mem, limit, n);
        bench_accumulate<float>(table, on, mem, limit, n);
        bench_accumulate<mpt::fp16>(table, on, mem, limit, n);
    });
}
