// SPDX-License-Identifier: MIT
// layers.cpp -- the layers that are no matrix products, against memory and against libm's loops.
#include "common.hpp"

#include "mpt/nn/cpu.hpp"           // cpu
#include "mpt/nn/cross_entropy.hpp" // cross_entropy_forward, cross_entropy_backward
#include "mpt/nn/gelu.hpp"          // gelu_forward, gelu_backward
#include "mpt/nn/layernorm.hpp"     // layernorm_forward, layernorm_backward

#include <cmath>

namespace {

constexpr const char* about =
    "Layer norm against b += a in the same cache, GELU against a loop over libm's tanh, softmax\n"
    "with cross-entropy, forward and backward, against three passes with libm's exp.";

struct machine {
    mpt::thread_pool& pool;
    mpt::memory& mem;
    const mpt::cpu& on;
};

// ---- layer norm ----

void bench_layernorm(bench::table& table, const machine& with, int rows, int C) {
    const std::size_t n = std::size_t(rows) * std::size_t(C);
    const std::string size = mpt::join(" ", rows, " x ", C);
    if (!table.wants("layernorm forward" + size) && !table.wants("layernorm backward" + size))
        return;
    const mpt::layernorm_shape s{rows, C};
    const auto x = bench::numbers(with.pool, with.mem, n),
               dy = bench::numbers(with.pool, with.mem, n);
    const auto gamma = bench::numbers(with.pool, with.mem, std::size_t(C));
    auto y = bench::numbers(with.pool, with.mem, n);
    auto mean = bench::numbers(with.pool, with.mem, std::size_t(rows));
    auto rstd = bench::numbers(with.pool, with.mem, std::size_t(rows));
    auto dgamma = bench::numbers(with.pool, with.mem, std::size_t(C));
    auto dbeta = bench::numbers(with.pool, with.mem, std::size_t(C));
    bench::stream_add limit(with.pool, with.mem, n); // two arrays of the same size, as x and y
    table.compare("layernorm forward" + size, "GB/s", 0.60,
                  {"", 8e-9 * double(n),
                   [&] {
                       mpt::layernorm_forward<float>(with.on, y.span(), mean.span(), rstd.span(),
                                                     x.span(), gamma.span(), gamma.span(), s);
                   }},
                  limit.as_side());
    table.compare("layernorm backward" + size, "GB/s", 0.50, // reads x, dy, writes dx
                  {"", 12e-9 * double(n),
                   [&] {
                       mpt::layernorm_backward<float>(
                           with.on, y.span(), dgamma.span(), dbeta.span(), dy.span(), x.span(),
                           gamma.span(), mean.span(), rstd.span(), s, false);
                   }},
                  limit.as_side());
}

// ---- gelu ----

constexpr float root = 0.7978845608f; // sqrt(2/pi)

void libm_gelu(float* MPT_RESTRICT y, const float* MPT_RESTRICT x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        y[i] = 0.5f * x[i] * (1 + std::tanh(root * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
void libm_gelu_gradient(float* MPT_RESTRICT dx, const float* MPT_RESTRICT dy,
                        const float* MPT_RESTRICT x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float t = std::tanh(root * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
        const float slope = root * (1 + 3 * 0.044715f * x[i] * x[i]);
        dx[i] = dy[i] * (0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * slope);
    }
}

void bench_gelu(bench::table& table, const machine& with, std::size_t n) {
    if (!table.wants("gelu forward") && !table.wants("gelu backward")) return;
    const auto x = bench::numbers(with.pool, with.mem, n, 3),
               dy = bench::numbers(with.pool, with.mem, n);
    auto y = bench::numbers(with.pool, with.mem, n);
    const auto each = [&](auto f) {
        with.pool.for_ranges(n, 1 << 14,
                             [&](std::size_t i, std::size_t end, int) { f(i, end - i); });
    };
    const double millions = 1e-6 * double(n);
    float* const to = y.span().data();
    const float *const in = x.span().data(), *const d = dy.span().data();
    table.compare("gelu forward", "M/s", 5,
                  {"", millions, [&] { mpt::gelu_forward<float>(with.on, y.span(), x.span()); }},
                  {"libm's tanh", millions, [&] {
                       each([&](std::size_t i, std::size_t k) { libm_gelu(to + i, in + i, k); });
                   }});
    table.compare(
        "gelu backward", "M/s", 5,
        {"", millions, [&] { mpt::gelu_backward<float>(with.on, y.span(), dy.span(), x.span()); }},
        {"libm's tanh", millions, [&] {
             each([&](std::size_t i, std::size_t k) {
                 libm_gelu_gradient(to + i, d + i, in + i, k);
             });
         }});
}

// ---- softmax and cross-entropy ----

// Forward: the largest logit, exp of all, division, and the probabilities are stored; backward
// reads them.
void libm_row(float* MPT_RESTRICT p, float* MPT_RESTRICT d, float& loss,
              const float* MPT_RESTRICT x, int target, float seed, int V) {
    float top = x[0], sum = 0;
    for (int j = 1; j < V; ++j) top = x[j] > top ? x[j] : top;
    for (int j = 0; j < V; ++j) sum += p[j] = std::exp(x[j] - top);
    for (int j = 0; j < V; ++j) p[j] /= sum;
    loss = -std::log(p[target]);
    for (int j = 0; j < V; ++j) d[j] = seed * (p[j] - (j == target ? 1.0f : 0.0f));
}

template <class T>
void bench_cross_entropy(bench::table& table, const machine& with, int rows, int V) {
    const std::string row = std::string("softmax + cross-entropy, both ways, ") + mpt::name<T>();
    if (!table.wants(row)) return;
    const std::size_t n = std::size_t(rows) * std::size_t(V);
    const auto convert = [](float x) { return mpt::narrow<T>(x); };
    const auto x = bench::numbers<T>(with.pool, with.mem, n, 5, convert);
    auto in_place = bench::numbers<T>(with.pool, with.mem, n, 5, convert); // as in the model
    const auto x32 = bench::numbers(with.pool, with.mem, n, 5);
    auto p = bench::numbers(with.pool, with.mem, n), d = bench::numbers(with.pool, with.mem, n);
    auto losses = bench::numbers(with.pool, with.mem, std::size_t(rows));
    auto lse = bench::numbers(with.pool, with.mem, std::size_t(rows));
    mpt::buffer<int> targets(with.mem, mpt::kind::data, std::size_t(rows), "targets");
    for (int r = 0; r < rows; ++r) targets.span().data()[r] = r * 17 % V;
    table.compare(row, "M/s", 3,
                  {"", 1e-6 * double(n),
                   [&] {
                       mpt::cross_entropy_forward<T>(with.on, losses.span(), lse.span(), x.span(),
                                                     targets.span(), rows, V);
                       mpt::cross_entropy_backward<T>(with.on, in_place.span(), x.span(),
                                                      lse.span(), targets.span(), 1, rows, V);
                   }},
                  {"three passes, fp32", 1e-6 * double(n), [&] {
                       with.pool.for_each(std::size_t(rows), [&](std::size_t r, int) {
                           const std::size_t at = r * std::size_t(V);
                           libm_row(p.span().data() + at, d.span().data() + at,
                                    losses.span().data()[r], x32.span().data() + at,
                                    targets.span().data()[r], 1, V);
                       });
                   }});
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "layers", about);
    return bench::guarded("layers", [&] {
        bench::table table(o, "layers");
        mpt::thread_pool pool(o.threads);
        mpt::memory mem;
        const int rows = o.size(1024, 16), C = o.size(768, 64), V = o.size(50304, 512);
        const mpt::cpu on(pool, mem, sizeof(float) * mpt::layernorm_scratch<float>({rows, C}));
        const machine with{pool, mem, on};
        bench_layernorm(table, with, rows, C);
        bench_gelu(table, with, std::size_t(rows) * std::size_t(4 * C));
        bench_cross_entropy<float>(table, with, o.size(256, 16), V);
        bench_cross_entropy<mpt::fp16>(table, with, o.size(256, 16), V);
    });
}
