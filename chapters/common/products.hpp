// SPDX-License-Identifier: MIT
// products.hpp -- operands of a matrix product on the device, the plain loop over them in fp64, and
// how far from it a sum may be.
#pragma once
#include "device.hpp" // array, random_numbers

#include "mpt/kernels/matmul.cuh" // matmul_args

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

// Half the distance from 1 to the next number.
template <class T>
inline constexpr double unit_of = std::is_same_v<T, float>    ? 0x1p-24
                                  : std::is_same_v<T, __half> ? 0x1p-11
                                                              : 0x1p-8;

// As a tensor core sees a float: the nearest number of 10 bits of mantissa, ties away from zero.
inline float as_tf32(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1FFFu;
    std::memcpy(&x, &bits, sizeof bits);
    return x;
}

// On the host, as the device rounds.
template <class T>
T stored_as(float x) {
    if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(x);
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __float2bfloat16_rn(x);
    else
        return x;
}
inline float as_float(float x) { return x; }
inline float as_float(__half x) { return __half2float(x); }
inline float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }

//! [bound]
// c (m,n) = a (m,k) b (k,n), the plain loop in fp64; of many rows every so-manieth.
struct plain_product {
    std::size_t rows;
    std::vector<double> sum, size; // (rows,n); size: of the terms, |a| |b| added up

    plain_product(const std::vector<float>& a, const std::vector<float>& b, std::size_t m,
                  std::size_t n, std::size_t k)
        : rows(std::min<std::size_t>(m, 128)), sum(rows * n), size(rows * n) {
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t p = 0; p < k; ++p) {
                const double u = double(a[r * (m / rows) * k + p]);
                for (std::size_t j = 0; j < n; ++j) {
                    const double term = u * double(b[p * n + j]);
                    sum[r * n + j] += term, size[r * n + j] += std::fabs(term);
                }
            }
    }
    // The largest error of c (m,n), as a share of what rounding explains: k additions and as many
    // products round by `unit` of the terms' sizes at most, and the store by `store` of the sum.
    double worst(const std::vector<float>& c, std::size_t m, std::size_t k, double unit,
                 double store) const {
        double most = 0;
        const std::size_t n = sum.size() / rows;
        for (std::size_t e = 0; e < sum.size(); ++e) {
            const double off = std::fabs(double(c[e / n * (m / rows) * n + e % n]) - sum[e]);
            const double bound = double(k + 2) * unit * size[e] + store * std::fabs(sum[e]) + 1e-7;
            most = off <= most * bound ? most : off / bound; // NaN is the largest
        }
        return most;
    }
    // Root of the mean square of the errors, as a share of that of c.
    double off(const std::vector<float>& c, std::size_t m) const {
        double errors = 0, squares = 0;
        const std::size_t n = sum.size() / rows;
        for (std::size_t e = 0; e < sum.size(); ++e) {
            errors += std::pow(double(c[e / n * (m / rows) * n + e % n]) - sum[e], 2);
            squares += sum[e] * sum[e];
        }
        return std::sqrt(errors / squares);
    }
};
//! [bound]

// Operands of random numbers, rounded to T.
template <class T>
struct product {
    std::size_t m, n, k;
    std::vector<float> given, a_seen, b_seen; // seen: as T (or tf32) holds them
    array<T> a, b, c;
    plain_product plain;

    product(int size, int depth, bool tf32 = false)
        : m(std::size_t(size)), n(m), k(std::size_t(depth)),
          given(random_numbers((m + n) * k, false)), a_seen(rounded(0, m * k, tf32)),
          b_seen(rounded(m * k, n * k, tf32)), a(stored(a_seen)), b(stored(b_seen)), c(m * n),
          plain(a_seen, b_seen, m, n, k) {}

    mpt::kernels::matmul_args<T> args() const {
        mpt::kernels::matmul_args<T> x;
        x.c = c.data(), x.a = a.data(), x.b = b.data();
        x.m = int(m), x.n = int(n), x.k = int(k);
        return x;
    }
    std::vector<float> result() const {
        std::vector<float> x;
        for (const T e : c.read()) x.push_back(as_float(e));
        return x;
    }
    // Of sums that are rounded by `unit`, against the same operands; off: against those of `this`.
    double worst(const std::vector<float>& found, double unit) const {
        return plain.worst(found, m, k, unit, sizeof(T) == 2 ? unit_of<T> : 0);
    }
    double off(const std::vector<float>& found) const { return plain.off(found, m); }
    double operations() const { return 2 * double(m) * double(n) * double(k); }

private:
    std::vector<float> rounded(std::size_t from, std::size_t count, bool tf32) const {
        std::vector<float> x(given.begin() + long(from), given.begin() + long(from + count));
        for (float& e : x) e = tf32 ? as_tf32(e) : as_float(stored_as<T>(e));
        return x;
    }
    static std::vector<T> stored(const std::vector<float>& x) {
        std::vector<T> y;
        for (const float e : x) y.push_back(stored_as<T>(e));
        return y;
    }
};
