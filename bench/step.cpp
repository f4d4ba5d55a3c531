// SPDX-License-Identifier: MIT
// step.cpp -- a whole training step against its matrix products alone.
#include "common.hpp"
#include "gpt_step.hpp" // gpt_step: one step of a GPT
#include "products.hpp" // products: the matrix products of a step, through the CBLAS

#include "mpt/nn/checkpointing.hpp" // checkpointing: every, sqrt
#include "mpt/nn/product.hpp"       // product_backend

#include <optional>
#include <utility>

namespace {

constexpr const char* about =
    "One training step (forward, backward, inspect, clip, AdamW) against every matrix product of\n"
    "the step through the CBLAS with threads of its own; 16-bit steps against the fp32 step; "
    "steps\n"
    "with activation checkpointing against the plain one, and their bytes against the formula.";

struct size {
    const char* name;
    mpt::gpt_config config;
    int B, T;
    double goal;
};

void bench_size(bench::table& table, const bench::options& o, const size& s) {
    const std::string bound = std::string(s.name) + ", fp32, of its products";
    const std::string half = std::string(s.name) + ", fp16, of fp32";
    const std::string brain = std::string(s.name) + ", bf16, of fp32";
    if (!table.wants(bound) && !table.wants(half) && !table.wants(brain)) return;
    const double tokens = double(s.B) * s.T;
    bench::gpt_step<float> fp32(s.config, s.B, s.T, o.threads);
    const auto own_threads = [] { bench::cblas_threads(1); }; // mpt's own pool does the rest
    const bench::side ours{"", tokens, [&] { fp32.run(); }, own_threads};
    if (table.wants(bound)) {
        bench::products products(s.config, s.B, s.T);
        table.compare(bound, "tokens/s", s.goal, ours,
                      {mpt::join("products, ", bench::cblas_name()), tokens,
                       [&] { products.run(); }, [&] { bench::cblas_threads(o.threads); }});
    }
    bench::side reference = ours;
    reference.what = "our fp32 step";
    if (table.wants(half)) {
        bench::gpt_step<mpt::fp16> step(s.config, s.B, s.T, o.threads);
        table.compare(half, "tokens/s", 0.85, {"", tokens, [&] { step.run(); }, own_threads},
                      reference);
    }
    if (table.wants(brain)) {
        bench::gpt_step<mpt::bf16> step(s.config, s.B, s.T, o.threads);
        table.compare(brain, "tokens/s", 0.85, {"", tokens, [&] { step.run(); }, own_threads},
                      reference);
    }
}

// Of 12 blocks: 1.40 times the time at most, which is 0.714 of the rate.
void bench_checkpointing(bench::table& table, const bench::options& o, const mpt::gpt_config& c,
                         int B, int T) {
    const double tokens = double(B) * T;
    const std::size_t n = std::size_t(B) * std::size_t(T), C = std::size_t(c.channels);
    std::optional<bench::gpt_step<float>> plain;
    for (const auto& [name, plan] :
         {std::pair{"every block", mpt::checkpointing::every(1, c.layers)},
          std::pair{"sqrt", mpt::checkpointing::sqrt(c.layers)}}) {
        const std::string time = mpt::join("checkpointing, ", name);
        const std::string bytes = mpt::join("checkpointing, ", name, ", bytes");
        if (!table.wants(time) && !table.wants(bytes)) continue;
        if (!plain) plain.emplace(c, B, T, o.threads);
        bench::gpt_step<float> step(c, B, T, o.threads, 1, plan);
        const auto own_threads = [] { bench::cblas_threads(1); };
        if (table.wants(time))
            table.compare(time, "tokens/s", 1 / 1.40,
                          {"", tokens, [&] { step.run(); }, own_threads},
                          {"the step without", tokens, [&] { plain->run(); }, own_threads});
        const std::size_t N = std::size_t(plan.rooms()), R = std::size_t(plan.segments_again());
        const std::size_t formula =
            4 * n *
            (2 * C + std::size_t(c.vocabulary) + N * (13 * C + std::size_t(c.qkv())) + R * C + 4 +
             N * (4 + std::size_t(c.heads)));
        const auto held = [](const auto& s) {
            return double(s.mem.books.peak(mpt::kind::activations));
        };
        if (!table.wants(bytes)) continue;
        table.at_most(bytes, "MB", 1e-6 * held(step), "by formula", 1e-6 * double(formula), 1);
        table.at_most(bytes + " of all", "MB", 1e-6 * held(step), "without", 1e-6 * held(*plain),
                      0);
    }
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "step", about);
    return bench::guarded("step", [&] {
        bench::table table(o, "step");
        std::fprintf(stderr, "bench step: mpt's products run on %s\n",
                     mpt::product_backend().c_str());
        mpt::gpt_config gpt2{12, 12, 12, 768, 1024, 50304}, small{6, 6, 6, 384, 256, 256};
        if (o.quick) {
            gpt2 = {1, 2, 2, 32, 16, 512};
            small = {1, 2, 2, 32, 32, 256};
        }
        const int T64 = o.size(64, 16), T256 = o.size(256, 32);
        bench_size(table, o, {"small T 256", small, 4, T256, 0.55});
        bench_size(table, o, {"small T 64", small, 4, T64, 0.55});
        bench_size(table, o, {"GPT-2 124M T 64", gpt2, 4, T64, 0.65});
        mpt::gpt_config deep{12, 6, 6, 384, 256, 256};
        if (o.quick) deep = {4, 2, 2, 32, 32, 256};
        bench_checkpointing(table, o, deep, 4, T256);
    });
}
