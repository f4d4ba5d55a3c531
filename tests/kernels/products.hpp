// SPDX-License-Identifier: MIT
// A matrix product to be computed by a kernel, and what it must give: in double, with the size of
// the sums, to which rounding errors are proportional.
#pragma once
#include "mpt/kernels/matmul.cuh"
#include "mpt/numeric/tf32.hpp"
#include "tests/kernels/rig.hpp"

namespace products {

using namespace rig;

struct kind {
    int m, n, k;
    bool a_transposed = false, b_transposed = false, bias = false, accumulate = false;
    int gap = 0; // elements between rows; 0: leading dimensions are left out
    bool tf32 = false;
    int offset = 0; // of every array from an aligned address
};

// Normal numbers; in float none in the middle of two tf32: roundings differ in ties.
template <class T>
std::vector<host_t<T>> operand(std::size_t n, std::uint32_t which) {
    auto v = checks::numbers<host_t<T>>(n, which);
    if constexpr (std::is_same_v<T, float>)
        for (float& x : v)
            if ((mpt::bits_of(x) & 0x1FFFu) == 0x1000u) x = std::nextafter(x, 2 * x);
    return v;
}

template <class T>
struct problem {
    kind is;
    int lda, ldb, ldc;
    std::vector<host_t<T>> a_host, b_host, bias_host, c_host;
    array<T> a, b, bias, c;
    std::vector<double> expected, size; // (m,ldc); gaps stay as they are

    explicit problem(kind x)
        : is(x), lda((x.a_transposed ? x.m : x.k) + x.gap),
          ldb((x.b_transposed ? x.k : x.n) + x.gap), ldc(x.n + x.gap),
          a_host(operand<T>(std::size_t(x.a_transposed ? x.k : x.m) * lda, 1)),
          b_host(operand<T>(std::size_t(x.b_transposed ? x.n : x.k) * ldb, 2)),
          bias_host(operand<T>(std::size_t(x.n), 3)),
          c_host(operand<T>(std::size_t(x.m) * ldc, 4)), a(a_host, std::size_t(x.offset)),
          b(b_host, std::size_t(x.offset)), bias(bias_host, std::size_t(x.offset)),
          c(c_host, std::size_t(x.offset)), expected(checks::doubles(c_host)),
          size(expected.size()) {
        const auto seen = [&](host_t<T> v) {
            return x.tf32 ? double(mpt::round_tf32(float(mpt::widen(v)))) : double(mpt::widen(v));
        };
        std::vector<double> row(std::size_t(x.n)), sizes(std::size_t(x.n));
        for (int i = 0; i < x.m; ++i) {
            std::fill(row.begin(), row.end(), 0.0);
            std::fill(sizes.begin(), sizes.end(), 0.0);
            for (int p = 0; p < x.k; ++p) {
                const int at = x.a_transposed ? p * lda + i : i * lda + p;
                const double u = seen(a_host[std::size_t(at)]);
                for (int j = 0; j < x.n; ++j) {
                    const int under = x.b_transposed ? j * ldb + p : p * ldb + j;
                    const double uv = u * seen(b_host[std::size_t(under)]);
                    row[std::size_t(j)] += uv;
                    sizes[std::size_t(j)] += std::fabs(uv);
                }
            }
            for (int j = 0; j < x.n; ++j) {
                const std::size_t at = std::size_t(i) * ldc + j;
                const double old = x.accumulate ? expected[at] : 0;
                const double more = x.bias ? double(mpt::widen(bias_host[std::size_t(j)])) : 0;
                expected[at] = row[std::size_t(j)] + more + old;
                size[at] = sizes[std::size_t(j)] + std::fabs(more) + std::fabs(old);
            }
        }
    }

    matmul_args<T> args() const {
        matmul_args<T> x;
        x.c = c, x.a = a, x.b = b, x.bias = is.bias ? bias.data() : nullptr;
        x.m = is.m, x.n = is.n, x.k = is.k;
        if (is.gap > 0) x.lda = lda, x.ldb = ldb, x.ldc = ldc;
        x.a_transposed = is.a_transposed, x.b_transposed = is.b_transposed;
        x.accumulate = is.accumulate, x.tf32 = is.tf32;
        return x;
    }

    using step = void (*)(matmul_args<T>, cudaStream_t);
    std::vector<host_t<T>> run(step f, matmul_args<T> x) {
        c.write(c_host);
        f(x, stream());
        return c.read();
    }

    // A sum of k products, a bias and an old c, in any order: k + 1 additions and k roundings of
    // products, each of at most `unit` of the size of the sum so far. fp32: 2^-24. Tensor cores
    // may cut off what their adders do not hold, one bit less: 2^-23.
    std::string compare(const std::vector<host_t<T>>& found, double unit = 0x1p-24) const {
        return difference(found, expected,
                          [&](std::size_t i) { return (is.k + 2) * unit * size[i]; });
    }
    std::string check(step f, double unit = 0x1p-24) { return compare(run(f, args()), unit); }
};

// Under the access probe, where a load costs some hundred times as much, shapes are fewer.
#if defined(MPT_SIMT_CHECK)
inline constexpr bool probed = true;
#else
inline constexpr bool probed = false;
#endif

// Around tiles of 32, 64 and 128, odd, prime, 1, and one large dimension at a time; the four ways
// to lie in memory (probed: in turns), with bias and sum, gaps and odd addresses in turns.
inline std::vector<kind> kinds() {
    const int sizes[][3] = {{1, 1, 1},    {1, 33, 31},  {31, 1, 33},   {33, 31, 1},
                            {33, 34, 35}, {1600, 3, 5}, {3, 1601, 7},  {5, 3, 1601},
                            {64, 64, 32}, {65, 127, 33}, {257, 33, 31}, {128, 136, 40}};
    std::vector<kind> all;
    int turn = 0, size = 0;
    for (const auto& s : sizes) {
        for (int lies = 0; lies < 4; ++lies, ++turn)
            if (!probed || (size < 8 && lies == size % 4))
                all.push_back({s[0], s[1], s[2], lies % 2 == 1, lies / 2 == 1, turn % 3 == 1,
                               turn % 5 >= 3, turn % 7 == 0 ? 8 : turn % 7 == 3 ? 3 : 0, false,
                               turn % 6 == 5 ? 1 : 0});
        ++size;
    }
    return all;
}

inline std::string text(const kind& x) {
    std::ostringstream s;
    s << x.m << " x " << x.n << " x " << x.k << (x.a_transposed ? ", a^T" : "")
      << (x.b_transposed ? ", b^T" : "") << (x.bias ? ", bias" : "")
      << (x.accumulate ? ", accumulate" : "") << ", gap " << x.gap << ", offset " << x.offset
      << (x.tf32 ? ", tf32" : "");
    return s.str();
}

} // namespace products
