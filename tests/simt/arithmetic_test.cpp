// SPDX-License-Identifier: MIT
// Intrinsics, 16-bit arithmetic and tensor-core tiles: the same bits on the emulator and under
// CUDA, where CUDA promises them.
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace rig;

namespace mpt::kernels { // where kernels live: elsewhere glibc's own __expf would be meant, too

__global__ void fast_kernel(float* to, const float* x, int n) { // 4 results each
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const float a = x[i];
    to[4 * i] = __expf(a);
    to[4 * i + 1] = __logf(fabsf(a));
    to[4 * i + 2] = rsqrtf(fabsf(a));
    to[4 * i + 3] = __fdividef(a, 3.0f);
}

} // namespace mpt::kernels

namespace {

__global__ void bits_kernel(unsigned* to, const unsigned* x, int n) { // 12 results each
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const unsigned a = x[i], b = x[(i + 1) % n];
    unsigned* mine = to + 12 * i;
    mine[0] = unsigned(__popc(a)) | unsigned(__ffs(int(a))) << 8 | unsigned(__clz(int(a))) << 16;
    const unsigned long long w = static_cast<unsigned long long>(a) << 32 | b;
    mine[1] = unsigned(__popcll(w)) | unsigned(__ffsll(static_cast<long long>(w))) << 8 |
              unsigned(__clzll(static_cast<long long>(w))) << 16;
    mine[2] = __brev(a);
    mine[3] = __umulhi(a, b);
    mine[4] = unsigned(__mulhi(int(a), int(b)));
    mine[5] = __byte_perm(a, b, 0x6240);
    mine[6] = __funnelshift_l(a, b, 7);
    mine[7] = unsigned(min(int(a), int(b))) ^ max(a, b);
    const float f = __uint_as_float(a), g = __int_as_float(int(b));
    mine[8] = unsigned(__float2int_rn(f)) ^ unsigned(__float2int_rz(g)) << 1;
    mine[9] = unsigned(__float2int_rd(f)) ^ unsigned(__float2int_ru(g)) << 1;
    mine[10] = __float_as_uint(float(int(a % 1000)) / 7) ^ unsigned(__float_as_int(f + 0.0f) != 0);
    mine[11] = __float_as_uint(__saturatef(f == f ? f : 0.0f));
}

__global__ void rounded_kernel(float* to, const float* x, int n) { // 6 results each
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const float a = x[i], b = x[(i + 1) % n], c = x[(i + 7) % n];
    float* mine = to + 6 * i;
    mine[0] = __fadd_rn(__fmul_rn(a, b), c);
    mine[1] = __fmaf_rn(a, b, c);
    mine[2] = __fdiv_rn(a, b);
    mine[3] = __fsqrt_rn(fabsf(a));
    mine[4] = float(__dadd_rn(__dmul_rn(double(a), double(b)), double(c)));
    mine[5] = __fsub_rn(a, __frcp_rn(b));
}

template <class T>
__device__ T make(float x);
template <>
__device__ __half make<__half>(float x) {
    return __float2half_rn(x);
}
template <>
__device__ __nv_bfloat16 make<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

template <class T>
__global__ void halves_kernel(T* to, const T* x, const T* y, const T* z, int n) { // 6 each
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    T* mine = to + 6 * i;
    mine[0] = __hadd(x[i], y[i]);
    mine[1] = __hsub(x[i], y[i]);
    mine[2] = __hmul(x[i], y[i]);
    mine[3] = __hfma(x[i], y[i], z[i]);
    mine[4] = make<T>(float(x[i]) * 3);
    mine[5] = __hneg(__habs(x[i]));
}

__global__ void pairs_kernel(__half2* to, const __half2* x, __nv_bfloat162* bto,
                             const __nv_bfloat162* b, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const float2 f = __half22float2(x[i]);
    to[2 * i] = __hfma2(x[i], x[i], __float2half2_rn(0.5f));
    to[2 * i + 1] = __hadd2(__floats2half2_rn(f.y, f.x), __hmul2(x[i], x[i]));
    const float2 g = __bfloat1622float2(b[i]);
    bto[2 * i] = __hmul2(b[i], __float22bfloat162_rn(make_float2(g.y, g.x)));
    bto[2 * i + 1] = __halves2bfloat162(__high2bfloat16(b[i]), __low2bfloat16(b[i]));
}

// d (16,16) = twice a (16,K) b (K,16) + c, as the warp's lanes hold it.
template <class T, class Stored, int K, class LayoutA, class LayoutB>
__global__ void tiles_kernel(float* d, const float* c, const Stored* a, const Stored* b) {
    wmma::fragment<wmma::matrix_a, 16, 16, K, T, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, K, T, LayoutB> fb;
    wmma::fragment<wmma::accumulator, 16, 16, K, float> fc, twice;
    constexpr bool a_columns = std::is_same_v<LayoutA, wmma::col_major>;
    constexpr bool b_columns = std::is_same_v<LayoutB, wmma::col_major>;
    wmma::load_matrix_sync(fa, a, a_columns ? 16 : K);
    wmma::load_matrix_sync(fb, b, b_columns ? K : 16);
    wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
    if constexpr (K == 8) {
        for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
        for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    }
    wmma::fill_fragment(twice, 0.0f);
    wmma::mma_sync(twice, fa, fb, fc);
    for (int i = 0; i < twice.num_elements; ++i) twice.x[i] *= 2;
    wmma::store_matrix_sync(d, twice, 16, wmma::mem_col_major);
}

template <class T, class Stored, int K, class LayoutA, class LayoutB>
void check_tiles(std::uint32_t which) {
    using host = host_t<Stored>;
    auto a = checks::numbers<host>(16 * K, which), b = checks::numbers<host>(16 * K, which + 1);
    const auto c = checks::numbers<float>(256, which + 2);
    array<Stored> da(a), db(b);
    const array<float> dc(c);
    array<float> dd(256);
    const Stored *pa = da.data(), *pb = db.data();
    const float* pc = dc.data();
    mpt::launch<tiles_kernel<T, Stored, K, LayoutA, LayoutB>>({1, 32, 0, stream()}, dd.data(), pc,
                                                              pa, pb);
    const auto found = dd.read();
    const auto seen = [](host x) { // tf32 is rounded to within 2^-11, fp16 and bf16 are exact
        return double(float(mpt::widen(x)));
    };
    for (std::size_t i = 0; i < 16; ++i)
        for (std::size_t j = 0; j < 16; ++j) {
            double sum = c[i * 16 + j], size = std::fabs(sum);
            for (std::size_t k = 0; k < K; ++k) {
                const bool ac = std::is_same_v<LayoutA, wmma::col_major>;
                const bool bc = std::is_same_v<LayoutB, wmma::col_major>;
                const double p =
                    seen(a[ac ? k * 16 + i : i * K + k]) * seen(b[bc ? j * K + k : k * 16 + j]);
                sum += p;
                size += std::fabs(p);
            }
            // K additions that may cut off, 2^-23 of the size; tf32: two factors of 2^-11 more
            const double bound = (K + 1) * 0x1p-23 + (K == 8 ? 2 * 0x1p-11 : 0);
            CHECK(std::fabs(found[j * 16 + i] - 2 * sum) <= 2 * bound * size);
        }
}

} // namespace

TEST_CASE("bits and integers") {
    std::vector<unsigned> x = {0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x3FC00000, 0xBFC00000,
                               0x40200000, 0x4F000000, 0xCF000000, 0x7F800000, 0xFF800000,
                               0x7FC00000, 0x4EFFFFFF, 0x3F000000, 0xC0200000};
    for (unsigned i = 0; i < 500; ++i) x.push_back(mpt::philox({{i, 1, 2, 3}}, 4, 5).x[0]);
    const int n = int(x.size());
    const array<unsigned> on(x);
    array<unsigned> to(12 * x.size());
    const unsigned* from = on.data();
    mpt::launch<bits_kernel>({4, 160, 0, stream()}, to.data(), from, n);
    const auto found = to.read();
    const auto whole = [](double v) { // to int, as CUDA clamps it
        if (v != v) return 0;
        return v >= 2147483647.0    ? 2147483647
               : v <= -2147483648.0 ? -2147483647 - 1
                                    : int(v);
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
        const unsigned a = x[i], b = x[(i + 1) % x.size()];
        const std::uint64_t w = std::uint64_t(a) << 32 | b;
        const auto zeros = [](std::uint64_t v, int bits) { // above the highest one
            int z = 0;
            while (z < bits && !(v >> (bits - 1 - z) & 1)) ++z;
            return unsigned(z);
        };
        const auto lowest = [](std::uint64_t v) {
            unsigned p = 1;
            for (; v && !(v & 1); v >>= 1) ++p;
            return v ? p : 0;
        };
        const auto ones = [](std::uint64_t v) {
            unsigned c = 0;
            for (; v; v >>= 1) c += v & 1;
            return c;
        };
        const float f = mpt::float_of(a), g = mpt::float_of(b);
        unsigned reversed = 0;
        for (unsigned k = 0; k < 32; ++k) reversed |= (a >> k & 1) << (31 - k);
        const unsigned quick = mpt::bits_of(float(int(a % 1000)) / 7) ^ unsigned(a << 1 != 0);
        const unsigned expected[] = {
            ones(a) | lowest(a) << 8 | zeros(a, 32) << 16,
            ones(w) | lowest(w) << 8 | zeros(w, 64) << 16,
            reversed,
            unsigned(std::uint64_t(a) * b >> 32),
            unsigned(std::uint64_t(std::int64_t(int(a)) * int(b)) >> 32),
            (a & 0xFF) | (b & 0xFF) << 8 | (a >> 16 & 0xFF) << 16 | (b >> 16 & 0xFF) << 24,
            b << 7 | a >> 25,
            unsigned(std::min(int(a), int(b))) ^ std::max(a, b),
            unsigned(whole(std::nearbyint(double(f)))) ^
                unsigned(whole(std::trunc(double(g)))) << 1,
            unsigned(whole(std::floor(double(f)))) ^ unsigned(whole(std::ceil(double(g)))) << 1,
            quick,
            mpt::bits_of(f > 0 ? std::min(f, 1.0f) : 0.0f)};
        for (std::size_t k = 0; k < 12; ++k) {
            CAPTURE(i);
            CAPTURE(k);
            CHECK(found[12 * i + k] == expected[k]);
        }
    }
}

TEST_CASE("rounded once: no product is fused with a sum that was not to be") {
    const auto x = checks::numbers<float>(1000, 1);
    const array<float> on(x);
    array<float> to(6000);
    const float* from = on.data();
    mpt::launch<rounded_kernel>({4, 256, 0, stream()}, to.data(), from, 1000);
    const auto found = to.read();
    std::vector<float> expected;
    int apart = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
        const float a = x[i], b = x[(i + 1) % 1000], c = x[(i + 7) % 1000];
        const volatile float product = a * b, inverse = 1 / b;
        const volatile double wide = double(a) * double(b);
        expected.insert(expected.end(), {product + c, std::fma(a, b, c), a / b,
                                         std::sqrt(std::fabs(a)), float(wide + double(c)),
                                         a - inverse});
        apart += expected[6 * i] != expected[6 * i + 1];
    }
    CHECK(difference(found, expected) == "");
    CHECK(apart > 100); // or the test would not see a fusion
}

TEST_CASE("fast functions, to what CUDA promises of them") {
    const auto x = checks::numbers<float>(1000, 2, 3);
    const array<float> on(x);
    array<float> to(4000);
    const float* from = on.data();
    mpt::launch<fast_kernel>({4, 256, 0, stream()}, to.data(), from, 1000);
    const auto found = to.read();
    for (std::size_t i = 0; i < 1000; ++i) {
        const double a = double(x[i]), m = std::fabs(a);
        // Programming Guide: __expf 2 + 1.173 |x| ulp; __logf 2^-21.41 absolute in [0.5, 2], else
        // 3 ulp; rsqrtf 2 ulp; __fdividef 2 ulp
        const double e = std::exp(a), l = std::log(m), r = 1 / std::sqrt(m);
        CHECK(std::fabs(found[4 * i] - e) <= (3 + 1.173 * m) * checks::ulp<float>(e));
        CHECK(std::fabs(found[4 * i + 1] - l) <= std::max(0x1p-21, 4 * checks::ulp<float>(l)));
        CHECK(std::fabs(found[4 * i + 2] - r) <= 2.5 * checks::ulp<float>(r));
        CHECK(std::fabs(found[4 * i + 3] - a / 3) <= 2.5 * checks::ulp<float>(a / 3));
    }
}

// The T nearest to x, ties to even, found among neighbours.
template <class T>
T nearest(double x) {
    const T about{float(x)};
    T best = about;
    const auto distance = [&](T t) {
        return std::fabs(double(float(t)) - x);
    };
    for (const int step : {-1, 1}) {
        const T other = T::from_bits(std::uint16_t(about.bits + step));
        if (!std::isfinite(float(other)) || !std::isfinite(float(about))) continue;
        const double d = distance(other), b = distance(best);
        if (d < b || (d == b && !(other.bits & 1))) best = other;
    }
    return best;
}

TEST_CASE_TEMPLATE("sums, products and fused ones of 16 bits are rounded once", T, __half,
                   __nv_bfloat16) {
    using host = host_t<T>;
    std::vector<host> x, y, z;
    const auto add = [&](std::uint16_t a, std::uint16_t b, std::uint16_t c) {
        for (const std::uint16_t v : {a, b, c}) // infinity and NaN apart
            if (!std::isfinite(float(host::from_bits(v)))) return;
        x.push_back(host::from_bits(a)), y.push_back(host::from_bits(b));
        z.push_back(host::from_bits(c));
    };
    for (unsigned i = 0; i < 6000; ++i) { // all codes alike; exponents near; ties made and broken
        const auto p = mpt::philox({{i, 9, 2, 3}}, 4, 5);
        const auto& r = p.x;
        add(std::uint16_t(r[0]), std::uint16_t(r[0] >> 16), std::uint16_t(r[1]));
        const std::uint16_t one = host(1.0f).bits, m = host::mantissa_bits;
        const auto near = [&](unsigned v) {
            return std::uint16_t(one + int(v % 4096) - 2048 + int(v >> 16 & 1) * 0x8000);
        };
        add(near(r[1]), near(r[2]), near(r[3]));
        const std::uint16_t tie = std::uint16_t(one + (i % (1u << m)));
        add(host(0x1p-1f).bits, host(host::epsilon).bits, tie);
        add(std::uint16_t(one + 1), std::uint16_t(one - (2u << m) + i % (4u << m)), tie);
        // nearly half a step: (1 + e)(1 - e) = 1 - e^2 of it, which fp32 rounds to all of it
        add(host(host::epsilon / 2 * (1 + host::epsilon)).bits, host(1 - host::epsilon).bits, tie);
    }
    const std::size_t n = x.size();
    const array<T> dx(x), dy(y), dz(z);
    array<T> to(6 * n);
    const T *px = dx.data(), *py = dy.data(), *pz = dz.data();
    mpt::launch<halves_kernel<T>>({unsigned(n / 256 + 1), 256, 0, stream()}, to.data(), px, py, pz,
                                  int(n));
    const auto found = to.read();
    int wrong = 0, twice = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const double a = float(x[i]), b = float(y[i]), c = float(z[i]);
        // The product has 22 bits. What is smaller than 2^-30 of it can only say on which side of
        // a tie the sum lies; with that much in its place the sum is exact in double. (Where the
        // product is that much smaller than c, the sum is no tie.)
        const double least = 0x1p-30 * std::fabs(a * b);
        const double side = std::fabs(c) < least && c != 0 ? std::copysign(least, c) : c;
        const host expected[] = {nearest<host>(a + b), nearest<host>(a - b),
                                 nearest<host>(a * b), nearest<host>(a * b + side),
                                 host(float(x[i]) * 3),
                                 host::from_bits(std::uint16_t(x[i].bits | 0x8000))};
        twice += host(float(a * b + c)).bits != expected[3].bits;
        for (std::size_t k = 0; k < 6; ++k) {
            const float f = float(found[6 * i + k]), e = float(expected[k]);
            if (f != e && ++wrong < 5)
                FAIL_CHECK("operation ", k, " of ", a, ", ", b, ", ", c, ": ", f, ", expected ", e);
        }
    }
    CHECK(wrong == 0);
    if (host::mantissa_bits == 10) CHECK(twice > 0); // where fp32 would have rounded twice
}

TEST_CASE("pairs of 16-bit numbers") {
    const auto x = checks::numbers<mpt::fp16>(200, 5);
    const auto b = checks::numbers<mpt::bf16>(200, 6);
    const array<__half> dx(x);
    const array<__nv_bfloat16> db(b);
    array<__half> to(400);
    array<__nv_bfloat16> bto(400);
    mpt::launch<pairs_kernel>({1, 128, 0, stream()}, reinterpret_cast<__half2*>(to.data()),
                              reinterpret_cast<const __half2*>(dx.data()),
                              reinterpret_cast<__nv_bfloat162*>(bto.data()),
                              reinterpret_cast<const __nv_bfloat162*>(db.data()), 100);
    const auto found = to.read();
    const auto bfound = bto.read();
    const auto square = [](mpt::fp16 v) { return float(v) * float(v); };
    for (std::size_t i = 0; i < 100; ++i) {
        const mpt::fp16 u = x[2 * i], v = x[2 * i + 1];
        const mpt::bf16 s = b[2 * i], t = b[2 * i + 1];
        CHECK(float(found[4 * i]) == float(mpt::fp16(square(u) + 0.5f)));
        CHECK(float(found[4 * i + 1]) == float(mpt::fp16(square(v) + 0.5f)));
        CHECK(float(found[4 * i + 2]) ==
              float(mpt::fp16(float(v) + float(mpt::fp16(square(u))))));
        CHECK(float(found[4 * i + 3]) ==
              float(mpt::fp16(float(u) + float(mpt::fp16(square(v))))));
        CHECK(float(bfound[4 * i]) == float(mpt::bf16(float(s) * float(t))));
        CHECK(float(bfound[4 * i + 1]) == float(bfound[4 * i]));
        CHECK(bfound[4 * i + 2].bits == t.bits);
        CHECK(bfound[4 * i + 3].bits == s.bits);
    }
}

TEST_CASE("tiles of tensor cores, in both orders of memory") {
    using wmma::col_major;
    using wmma::row_major;
    check_tiles<__half, __half, 16, row_major, row_major>(10);
    check_tiles<__half, __half, 16, col_major, col_major>(20);
    check_tiles<__nv_bfloat16, __nv_bfloat16, 16, row_major, col_major>(30);
    check_tiles<__nv_bfloat16, __nv_bfloat16, 16, col_major, row_major>(40);
    check_tiles<wmma::precision::tf32, float, 8, row_major, col_major>(50);
    check_tiles<wmma::precision::tf32, float, 8, col_major, row_major>(60);
}
