// SPDX-License-Identifier: MIT
// passes.cuh -- what is bound by memory: casts, AdamW, and rows of layer norm, softmax and
// cross-entropy, each against a copy of as many bytes.
#pragma once
#include "device.cuh"

#include "mpt/kernels/adamw.cuh"         // adamw
#include "mpt/kernels/adamw8bit.cuh"     // adamw8bit, code_blocks
#include "mpt/kernels/cast.cuh"          // cast
#include "mpt/kernels/cross_entropy.cuh" // cross_entropy
#include "mpt/kernels/layernorm.cuh"     // layernorm_forward, layernorm_backward
#include "mpt/kernels/softmax.cuh"       // softmax_forward, softmax_backward
#include "mpt/numeric/dynamic_map.hpp"   // dynamic_map

#include <memory>

namespace bench {

using bf16 = __nv_bfloat16;
constexpr double half_ulp = 0x1p-8; // of bf16, as part of a number, and as much for the sums before

/// Against a copy of `bytes`.
inline void of_copy(table& table, const gpu& g, const std::string& row, double goal, double bytes,
                    std::function<void()> run) {
    device_copy copy(g, size_t(bytes));
    table.compare(row, "GB/s", goal, {"", 1e-9 * bytes, std::move(run)}, copy.of(bytes));
}

template <class To, class From>
void bench_cast(table& table, const gpu& g, const options& o, const char* row) {
    if (!table.wants(row)) return;
    const size_t n = o.size(size_t(100'000'000), size_t(1001));
    array<From> from(n, -3, 3);
    array<To> to(n);
    const auto run = [&] { mpt::kernels::cast<To, From>(to.data(), from.data(), n, g.stream); };
    to.set_bytes(0xFF);
    run();
    const std::vector<float> want = from.host(1 << 20);
    // The host's own conversion gives the very number.
    look(row, to.host(1 << 20), 0, 0, [&](size_t i) { return double(float(To(want[i]))); });
    of_copy(table, g, row, 0.85, double(n) * (sizeof(To) + sizeof(From)), run);
}

// ---- AdamW ----

struct adam_state {
    explicit adam_state(size_t n) : p(n, -1, 1), m(n, -1e-3f, 1e-3f), v(n, 1e-6f, 1e-5f),
                                    g(n, -1, 1), weights(n) {
        mpt::kernels::cast(weights.data(), static_cast<const float*>(p.data()), n, nullptr);
        args.p = p.data(), args.m = m.data(), args.v = v.data();
        args.g = g.data(), args.weights = weights.data(), args.n = n;
        args.numbers = {0.01f, 0.1f, 0.05f, 1e-3f, 1.1f, 1e-8f, 1e-4f, 1};
    }
    array<float> p, m, v;
    array<bf16> g, weights;
    mpt::kernels::adamw_args<bf16, bf16> args;

    /// p after one step from these, in fp64.
    double step(double p0, double m0, double v0, double g0) const {
        const mpt::kernels::adamw_numbers& c = args.numbers;
        const double scaled = c.factor * g0;
        const double m1 = m0 + c.keep1 * (scaled - m0), v1 = v0 + c.keep2 * (scaled * scaled - v0);
        return p0 - (c.decay * p0 + c.rate * m1 / (std::sqrt(v1) * c.correction + c.eps));
    }
};

/// The weights after one step, against fp64. `moments`: with those of the state, else from 0.
template <class Run>
void look_at_step(const char* row, const adam_state& s, bool master, double share, bool moments,
                  Run run) {
    const size_t n = std::min<size_t>(s.args.n, 4096);
    const auto p = master ? s.p.host(n) : s.weights.host(n), m = s.m.host(n), v = s.v.host(n),
               g = s.g.host(n);
    run();
    const auto want = [&](size_t i) {
        return s.step(p[i], moments ? m[i] : 0, moments ? v[i] : 0, g[i]);
    };
    if (master) look(row, s.p.host(n), 1e-6, 1e-7, want);
    look(row, s.weights.host(n), share, 1e-6, want);
}

inline void bench_adamw(table& table, const gpu& g, const options& o) {
    const char *fused = "AdamW, fused, 28 bytes", *drawn = "AdamW, stochastic rounding, 22 bytes",
               *small = "AdamW, 8-bit moments, of fused";
    const bool wants_fused = table.wants(fused), wants_small = table.wants(small);
    if (!wants_fused && !wants_small && !table.wants(drawn)) return;
    const size_t n = o.size(size_t(124'475'904), size_t(1001)); // the weights of GPT-2 124M
    adam_state s(n);
    const auto run = [&] { mpt::kernels::adamw(s.args, g.stream); };
    if (wants_fused) {
        look_at_step(fused, s, true, half_ulp, true, run);
        of_copy(table, g, fused, 0.85, 28.0 * double(n), run);
    }
    if (table.wants(drawn)) {
        adam_state t(n);
        t.args.p = nullptr;
        t.args.rounding_seed = 7;
        const auto run_drawn = [&] { mpt::kernels::adamw(t.args, g.stream); };
        look_at_step(drawn, t, false, 2 * half_ulp, true, run_drawn); // up or down: a whole ulp
        of_copy(table, g, drawn, 0.85, 22.0 * double(n), run_drawn);
    }
    if (!wants_small) return;
    adam_state t(n);
    const size_t blocks = mpt::kernels::code_blocks(n, 0);
    array<std::uint8_t> m(n), v(n);
    array<float> m_absmax(blocks, 0, 0), v_absmax(blocks, 0, 0), maps(512); // moments of 0
    m.set_bytes(127);
    v.set_bytes(0);
    const auto signed_map = std::make_unique<mpt::dynamic_map<true>>();
    const auto unsigned_map = std::make_unique<mpt::dynamic_map<false>>();
    for (int i = 0; i < 2; ++i)
        require(cudaMemcpy(maps.data() + 256 * i,
                           i == 0 ? signed_map->value.data() : unsigned_map->value.data(), 1024,
                           cudaMemcpyHostToDevice),
                "cudaMemcpy");
    mpt::kernels::adamw8bit_args<bf16, bf16> a;
    a.rest = t.args;
    a.m_codes = m.data(), a.v_codes = v.data();
    a.m_absmax = m_absmax.data(), a.v_absmax = v_absmax.data();
    a.signed_map = maps.data(), a.unsigned_map = maps.data() + 256;
    const auto run_small = [&] { mpt::kernels::adamw8bit(a, g.stream); };
    look_at_step(small, t, true, half_ulp, false, run_small);
    table.compare(small, "M/s", 1.33, {"", 1e-6 * double(n), run_small},
                  {"fused AdamW", 1e-6 * double(n), run});
}

// ---- rows ----

constexpr size_t looked_at = 2; // rows that are computed again, in fp64

inline void bench_layernorm(table& table, const gpu& g, int rows, int C) {
    const std::string of = " " + std::to_string(rows) + " x " + std::to_string(C);
    const std::string forward = "layernorm forward" + of, backward = "layernorm backward" + of;
    if (!table.wants(forward) && !table.wants(backward)) return;
    const size_t n = size_t(rows) * size_t(C), c = size_t(C), part = looked_at * c;
    array<bf16> x(n, -2, 3), y(n), dy(n, -1, 1), gamma(c, 0.5f, 2), beta(c, -1, 1), dgamma(c),
        dbeta(c);
    array<float> mean(size_t(rows), 0, 0), rstd(size_t(rows), 0, 0);
    array<unsigned char> scratch(mpt::kernels::layernorm_backward_bytes(rows, C));
    const mpt::kernels::layernorm_forward_args<bf16> f{
        y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), rows, C};
    const auto run_forward = [&] { mpt::kernels::layernorm_forward(f, g.stream); };
    y.set_bytes(0xFF);
    run_forward();
    const auto hx = x.host(part), hg = gamma.host(), hb = beta.host(), hd = dy.host(part);
    // What a row is brought to, and the means that backward takes off.
    std::vector<double> normal(part), along(looked_at, 0), along_normal(looked_at, 0),
        scale(looked_at);
    for (size_t r = 0; r < looked_at; ++r) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < c; ++i) sum += hx[r * c + i];
        const double middle = sum / C;
        for (size_t i = 0; i < c; ++i)
            squares += (hx[r * c + i] - middle) * (hx[r * c + i] - middle);
        scale[r] = 1 / std::sqrt(squares / C + 1e-5);
        for (size_t i = r * c; i < r * c + c; ++i) {
            normal[i] = (hx[i] - middle) * scale[r];
            along[r] += double(hd[i]) * hg[i % c] / C;
            along_normal[r] += double(hd[i]) * hg[i % c] * normal[i] / C;
        }
    }
    look(forward, y.host(part), half_ulp, 1e-4,
         [&](size_t i) { return normal[i] * hg[i % c] + hb[i % c]; });
    if (table.wants(forward)) of_copy(table, g, forward, 0.85, 4.0 * double(n), run_forward);

    const mpt::kernels::layernorm_backward_args<bf16> b{
        y.data(), dgamma.data(), dbeta.data(), dy.data(),    x.data(),
        gamma.data(), mean.data(), rstd.data(), rows, C, false, scratch.data()};
    const auto run_backward = [&] { mpt::kernels::layernorm_backward(b, g.stream); };
    y.set_bytes(0xFF);
    run_backward();
    look(backward, y.host(part), half_ulp, 1e-4, [&](size_t i) {
        const size_t r = i / c;
        return scale[r] * (double(hd[i]) * hg[i % c] - along[r] - normal[i] * along_normal[r]);
    });
    const auto all = dy.host();
    look(backward, dbeta.host(), half_ulp, 0.01, [&](size_t i) {
        double sum = 0;
        for (size_t at = i; at < n; at += c) sum += all[at];
        return sum;
    });
    of_copy(table, g, backward, 0.85, 6.0 * double(n), run_backward);
}

inline void bench_softmax(table& table, const gpu& g, int rows, int C) {
    const std::string of = " " + std::to_string(rows) + " x " + std::to_string(C);
    const std::string forward = "softmax forward" + of, backward = "softmax backward" + of;
    if (!table.wants(forward) && !table.wants(backward)) return;
    const size_t n = size_t(rows) * size_t(C), c = size_t(C), part = looked_at * c;
    array<bf16> x(n, -5, 5), y(n), dy(n, -1, 1), dx(n);
    const auto run_forward = [&] {
        mpt::kernels::softmax_forward(y.data(), static_cast<const bf16*>(x.data()), rows, C,
                                      g.stream);
    };
    const auto run_backward = [&] {
        mpt::kernels::softmax_backward(dx.data(), static_cast<const bf16*>(dy.data()),
                                       static_cast<const bf16*>(y.data()), rows, C, g.stream);
    };
    y.set_bytes(0xFF);
    dx.set_bytes(0xFF);
    run_forward();
    run_backward();
    const auto hx = x.host(part), hy = y.host(part), hd = dy.host(part);
    std::vector<double> sum(looked_at, 0), dot(looked_at, 0);
    for (size_t i = 0; i < part; ++i) {
        sum[i / c] += std::exp(double(hx[i]));
        dot[i / c] += double(hy[i]) * hd[i];
    }
    look(forward, hy, half_ulp, 1e-9,
         [&](size_t i) { return std::exp(double(hx[i])) / sum[i / c]; });
    look(backward, dx.host(part), half_ulp, 1e-6,
         [&](size_t i) { return hy[i] * (hd[i] - dot[i / c]); });
    if (table.wants(forward)) of_copy(table, g, forward, 0.85, 4.0 * double(n), run_forward);
    of_copy(table, g, backward, 0.85, 6.0 * double(n), run_backward);
}

/// The gradient takes the place of the logits: read once from memory, written once.
inline void bench_cross_entropy(table& table, const gpu& g, int rows, int V) {
    const std::string row =
        "cross-entropy, one pass " + std::to_string(rows) + " x " + std::to_string(V);
    if (!table.wants(row)) return;
    const size_t n = size_t(rows) * size_t(V), v = size_t(V), part = looked_at * v;
    array<bf16> logits(n, -5, 5);
    array<float> losses(size_t(rows), 0, 0), lse(size_t(rows), 0, 0);
    array<int> targets(losses.size());
    std::vector<int> target(losses.size(), 0);
    for (size_t i = 0; i < target.size(); ++i) target[i] = int(i * 7919 % v);
    require(cudaMemcpy(targets.data(), target.data(), 4 * target.size(), cudaMemcpyHostToDevice),
            "cudaMemcpy");
    const mpt::kernels::cross_entropy_args<bf16> a{
        losses.data(), lse.data(), logits.data(), targets.data(), 0.5f, nullptr, rows, V};
    const auto run = [&] { mpt::kernels::cross_entropy(a, g.stream); };
    const auto before = logits.host(part);
    std::vector<double> sum(looked_at, 0);
    for (size_t i = 0; i < part; ++i) sum[i / v] += std::exp(double(before[i]));
    run();
    look(row, losses.host(looked_at), 1e-5, 0, [&](size_t r) {
        return std::log(sum[r]) - before[r * v + size_t(target[r])];
    });
    look(row, logits.host(part), half_ulp, 1e-9, [&](size_t i) {
        const double hit = i % v == size_t(target[i / v]) ? 1 : 0;
        return 0.5 * (std::exp(double(before[i])) / sum[i / v] - hit);
    });
    of_copy(table, g, row, 0.85, 4.0 * double(n), run);
}

inline void bench_passes(table& table, const gpu& g, const options& o) {
    bench_cast<float, float>(table, g, o, "copy by a kernel, fp32");
    bench_cast<__half, float>(table, g, o, "cast fp32 to fp16");
    bench_cast<float, __half>(table, g, o, "cast fp16 to fp32");
    bench_cast<bf16, float>(table, g, o, "cast fp32 to bf16");
    bench_cast<float, bf16>(table, g, o, "cast bf16 to fp32");
    bench_adamw(table, g, o);
    // A warp takes a row up to 1024 columns, a block wider ones.
    const int many = o.size(65536, 9), rows = o.size(8192, 5);
    const int narrow = o.size(768, 96), wide = o.size(4096, 1056);
    bench_layernorm(table, g, many, narrow);
    bench_layernorm(table, g, rows, wide);
    bench_softmax(table, g, many, narrow);
    bench_softmax(table, g, rows, wide);
    bench_cross_entropy(table, g, rows, o.size(50304, 515));
}

} // namespace bench
