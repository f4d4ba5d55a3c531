// SPDX-License-Identifier: MIT
// cast.cpp -- whole arrays from fp32 to 16 bits and back, against b += a.
#include "common.hpp"

#include "mpt/numeric/cast.hpp" // cast, cast_streaming

namespace {

constexpr const char* about =
    "Casts of 100 million elements between fp32 and 16 bits, 6 bytes an element, against\n"
    "b += a on arrays of the same length (12 bytes an element); plain and streaming stores.";

template <class S, class D>
void bench_pair(bench::table& table, mpt::thread_pool& pool, mpt::memory& mem,
                bench::stream_add& limit, std::size_t n) {
    const std::string row = std::string(mpt::name<S>()) + " to " + mpt::name<D>();
    const std::string plain = row + ", plain stores", streaming = row + ", streaming stores";
    if (!table.wants(plain) && !table.wants(streaming)) return;
    const auto from = bench::numbers<S>(pool, mem, n, 1, [](float x) { return mpt::narrow<S>(x); });
    mpt::buffer<D> to(mem, mpt::kind::data, n, "the result");
    const auto each = [&](auto f) {
        pool.for_ranges(n, std::size_t(1) << 16, [&](std::size_t begin, std::size_t end, int) {
            f(from.span().data() + begin, to.span().data() + begin, end - begin);
        });
    };
    const double gb = 6e-9 * double(n);
    table.compare(plain, "GB/s", 0.60, {"", gb, [&] { each(mpt::cast<S, D>); }}, limit.as_side());
    table.compare(streaming, "GB/s", 0.80, {"", gb, [&] { each(mpt::cast_streaming<S, D>); }},
                  limit.as_side());
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "cast", about);
    return bench::guarded("cast", [&] {
        bench::table table(o, "cast");
        mpt::thread_pool pool(o.threads);
        mpt::memory mem;
        const std::size_t n = o.size<std::size_t>(100'000'000, 100'000);
        bench::stream_add limit(pool, mem, n);
        bench_pair<float, mpt::fp16>(table, pool, mem, limit, n);
        bench_pair<mpt::fp16, float>(table, pool, mem, limit, n);
        bench_pair<float, mpt::bf16>(table, pool, mem, limit, n);
        bench_pair<mpt::bf16, float>(table, pool, mem, limit, n);
    });
}
