// SPDX-License-Identifier: MIT
// product.cpp -- mpt's own blocked product against the CBLAS, and what 16-bit operands cost.
#include "common.hpp"
#include "products.hpp" // raw_sgemm, cblas_threads, cblas_name

#include "mpt/nn/cpu.hpp"    // cpu
#include "mpt/nn/matmul.hpp" // matmul, matmul_scratch; product

namespace {

constexpr const char* about =
    "Matrix products: the own blocked loop against the CBLAS and three plain loops, on one\n"
    "thread; mpt's product over threads against the CBLAS with threads of its own; and 16-bit\n"
    "operands against fp32.";

// c = a b^T by the definition: for each row and column the sum over k, in order.
void three_loops(const float* a, const float* b, float* c, std::size_t m, std::size_t n,
                 std::size_t k) {
    for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::size_t p = 0; p < k; ++p) sum += a[i * k + p] * b[j * k + p];
            c[i * n + j] = sum;
        }
}

struct shape {
    int m, n, k;
    std::string text() const {
        return std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
    }
    double gflop() const { return 2e-9 * m * n * k; }
};

void bench_shape(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem, const mpt::cpu& on,
                 int threads, const shape& s) {
    const std::string own = mpt::join("own loop, ", s.text()),
                      naive = mpt::join("own loop, of plain loops, ", s.text()),
                      all = mpt::join("matmul, ", s.text());
    const std::string half = mpt::join("matmul fp16, ", s.text()),
                      brain = mpt::join("matmul bf16, ", s.text());
    const std::size_t mk = std::size_t(s.m) * std::size_t(s.k),
                      kn = std::size_t(s.k) * std::size_t(s.n);
    const std::size_t mn = std::size_t(s.m) * std::size_t(s.n), K = std::size_t(s.k);
    const auto a = bench::numbers(pool, mem, mk), b = bench::numbers(pool, mem, kn); // b is (n,k)
    auto c = bench::numbers(pool, mem, mn);
    auto room = bench::numbers(pool, mem, mpt::blocked::panels);
    const float *const a_ = a.span().data(), *const b_ = b.span().data();
    float* const c_ = c.span().data();
    const auto blas = [&](int n) {
        return bench::side{
            bench::cblas_name(), s.gflop(),
            [=] { bench::raw_sgemm(false, true, s.m, s.n, s.k, a_, s.k, b_, s.k, c_, s.n); },
            [n] { bench::cblas_threads(n); }};
    };
    const bench::side blocked{
        "", s.gflop(), [&] {
            mpt::blocked::product<float>(s.m, s.n, s.k, {a_, K}, {b_, K, true}, c_,
                                         std::size_t(s.n), false, room.span().data());
        }};
    table.compare(own, "GFLOP/s", s.m == s.n ? 0.70 : 0.60, blocked, blas(1));
    if (s.m == s.n)
        table.compare(naive, "GFLOP/s", 8, blocked, {"plain loops", s.gflop(), [&] {
                          three_loops(a_, b_, c_, std::size_t(s.m), std::size_t(s.n), K);
                      }});
    const auto one = [] { bench::cblas_threads(1); };
    const bench::side fp32{"our fp32", s.gflop(),
                           [&] {
                               mpt::matmul<float>(on, c_, s.m, s.n, s.k, {a_, K}, {b_, K, true});
                           },
                           one};
    table.compare(all, "GFLOP/s", 0, fp32, blas(threads));

    const auto low = [&](auto type, const std::string& row) {
        using T = decltype(type);
        const auto convert = [](float x) { return mpt::narrow<T>(x); };
        const auto al = bench::numbers<T>(pool, mem, mk, 1, convert);
        const auto bl = bench::numbers<T>(pool, mem, kn, 1, convert);
        mpt::buffer<T> cl(mem, mpt::kind::data, mn, "c");
        table.compare(row, "GFLOP/s", 0.85,
                      {"", s.gflop(),
                       [&] {
                           mpt::matmul<T>(on, cl.span().data(), s.m, s.n, s.k,
                                          {al.span().data(), K}, {bl.span().data(), K, true});
                       },
                       one},
                      fp32);
    };
    if (table.wants(half)) low(mpt::fp16{}, half);
    if (table.wants(brain)) low(mpt::bf16{}, brain);
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "product", about);
    return bench::guarded("product", [&] {
        bench::table table(o, "product");
        mpt::thread_pool pool(o.threads);
        mpt::memory mem;
        const mpt::cpu on(pool, mem, sizeof(float) * mpt::matmul_scratch<mpt::fp16>());
        std::vector<shape> shapes{{512, 512, 512},
                                  {1024, 1024, 1024},
                                  {2048, 2048, 2048},
                                  {256, 768, 768},
                                  {256, 2304, 768},
                                  {256, 3072, 768},
                                  {256, 50304, 768}};
        if (o.quick) shapes = {{33, 47, 29}, {40, 40, 40}};
        for (const shape& s : shapes) bench_shape(table, pool, mem, on, o.threads, s);
    });
}
