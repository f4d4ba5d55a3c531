// SPDX-License-Identifier: MIT
// What the tests of the layers share: a CPU to run on, data that is never uniform, gradients by
// finite differences, distances in units of the last place.
#pragma once
#include "mpt/base/philox.hpp"
#include "mpt/nn/cpu.hpp"
#include "mpt/numeric/cast.hpp"
#include "mpt/numeric/scalar.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace checks {

struct machine { // with 16 MB of scratch a worker
    explicit machine(int threads = 2, bool tf32 = false)
        : pool(threads), on(pool, mem, std::size_t(16) << 20, tf32) {}
    mpt::memory mem;
    mpt::thread_pool pool;
    mpt::cpu on;
};

// On the CPU, device memory is the host's: a vector can stand for a buffer.
template <class T>
mpt::device_span<T> span(std::vector<T>& v) {
    return {v.data(), v.size()};
}
template <class T>
mpt::device_span<const T> span(const std::vector<T>& v) {
    return {v.data(), v.size()};
}

// n normal numbers with this deviation; `which` names the array.
template <class T = double>
std::vector<T> numbers(std::size_t n, std::uint32_t which, double deviation = 1, double mean = 0) {
    std::vector<T> out(n);
    for (std::size_t i = 0; i < n; ++i) {
        const mpt::philox4 r = mpt::philox({{std::uint32_t(i), which, 7, 7}}, 1, 2);
        const double x = mean + deviation * mpt::normal_pair(r.x[0], r.x[1]).first;
        out[i] = mpt::narrow<T>(mpt::wide_t<T>(x));
    }
    return out;
}
inline std::vector<int> tokens(std::size_t n, std::uint32_t which, int below) {
    std::vector<int> out(n);
    for (std::size_t i = 0; i < n; ++i)
        out[i] = int(mpt::philox({{std::uint32_t(i), which, 3, 3}}, 5, 6).x[0] %
                     std::uint32_t(below));
    return out;
}

template <class T>
std::vector<double> doubles(const std::vector<T>& v) {
    std::vector<double> out(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) out[i] = double(mpt::widen(v[i]));
    return out;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

// The largest difference between `gradient` and central differences of loss() in x, over the
// largest gradient (at least 1). At most `most` elements of x are tried, evenly spread.
// With h = 1e-5 the truncation is h^2/6 = 2e-11 times a third derivative, the rounding 1e-16/h =
// 1e-11 times the loss: for the losses here, sums of some hundred terms of size 1, below 1e-8.
// A wrong term is off by 1e-3 and more.
inline constexpr double gradient_tolerance = 1e-7;
template <class F>
double gradient_error(std::vector<double>& x, const std::vector<double>& gradient, F loss,
                      std::size_t most = 400) {
    const double h = 1e-5;
    double worst = 0, largest = 1;
    for (const double g : gradient) largest = std::max(largest, std::fabs(g));
    const std::size_t step = std::max<std::size_t>(1, x.size() / most);
    for (std::size_t i = 0; i < x.size(); i += step) {
        const double before = x[i];
        x[i] = before + h;
        const double up = loss();
        x[i] = before - h;
        const double down = loss();
        x[i] = before;
        const double off = std::fabs((up - down) / (2 * h) - gradient[i]);
        worst = off > worst || std::isnan(off) ? off : worst;
    }
    return worst / largest;
}

// The distance between neighbours of T around x.
template <class T>
double ulp(double x) {
    using F = mpt::format<T>;
    x = std::fabs(x);
    if (x < double(F::min_normal)) return double(F::min_subnormal);
    int e = 0;
    std::frexp(x, &e); // x = m 2^e, 0.5 <= m < 1
    return std::ldexp(double(F::epsilon), e - 1);
}

// The largest of (|got - want| - slack) in ulps of T; NaN or infinity counts as 1e9.
template <class T>
double worst_ulps(const std::vector<T>& got, const std::vector<double>& want,
                  const std::vector<double>& slack) {
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double off = std::fabs(double(mpt::widen(got[i])) - want[i]) - slack[i];
        worst = std::max(worst, std::isfinite(off) ? off / ulp<T>(want[i]) : 1e9);
    }
    return worst;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() &&
           std::equal(reinterpret_cast<const unsigned char*>(a.data()),
                      reinterpret_cast<const unsigned char*>(a.data() + a.size()),
                      reinterpret_cast<const unsigned char*>(b.data()));
}

} // namespace checks
