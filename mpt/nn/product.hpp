// SPDX-License-Identifier: MIT
/// @file product.hpp
/// C = A B on one thread: CBLAS where found, else a blocked loop.          tier 4, needs:
/// base/qualifiers.hpp
///
/// Idea     A product is done in blocks that fit the caches. The operands of a block are copied
///          into panels that the innermost loop reads from end to end, and that loop keeps a
///          small tile of C in registers: each element read from a panel is used many times.
/// Formula  C(m,n) = sum over k of A(m,k) B(k,n), k ascending; 2 m n k operations
/// Costs    product_scratch() elements for the panels; the loop has 0.7 of OpenBLAS's rate or more
/// Breaks   a different back end, vector width or FMA: other bits (each sums in its own order)
/// Source   Goto and van de Geijn 2008, Anatomy of High-Performance Matrix Multiplication
/// See      matmul.hpp (threads, 16-bit operands), tests/nn/product_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp" // MPT_RESTRICT, MPT_UNROLL

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#ifdef MPT_HAS_CBLAS
#include <cblas.h>
#endif
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace mpt {

/// A matrix as it lies in memory: element (i,j) at data[i * stride + j], or transposed, at
/// data[j * stride + i].
template <class T>
struct matrix {
    const T* data;
    std::size_t stride;
    bool transposed = false;

    const T* at(std::size_t i, std::size_t j) const {
        return transposed ? data + j * stride + i : data + i * stride + j;
    }
};

namespace blocked {

// Vectors as wide as the compiler may use; a * b + c with one rounding where the CPU has it.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, tile_rows = 12;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32, tile_rows = 6;
#else
inline constexpr int vector_bytes = 16, tile_rows = 4;
#endif
template <class W>
struct vector_of {
    typedef W type __attribute__((vector_size(vector_bytes)));
};
template <class W>
using vec = typename vector_of<W>::type;

template <class W>
inline vec<W> multiply_add(vec<W> a, vec<W> b, vec<W> c) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<W, float>)
        return vec<W>(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
    else
        return vec<W>(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(c)));
#elif defined(__AVX2__) && defined(__FMA__)
    if constexpr (std::is_same_v<W, float>)
        return vec<W>(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
    else
        return vec<W>(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(c)));
#else
    return a * b + c;
#endif
}

inline constexpr int tile_vectors = 2;
template <class W>
inline constexpr int tile_cols = tile_vectors * vector_bytes / int(sizeof(W));

// A block: rows_block x depth_block of A (second-level cache), depth_block x cols_block of B.
inline constexpr int rows_block = 96, depth_block = 256, cols_block = 512;

/// Elements of the two panels; their edges are filled up to whole tiles.
inline constexpr std::size_t panels = std::size_t(rows_block + cols_block) * depth_block;

// a: depth x tile_rows, b: depth x tile_cols, both packed; the tile of C goes to `out`, its rows
// `stride` apart, or is added to what is there.
template <class W>
inline void tile(int depth, const W* a, const W* b, W* out, std::size_t stride, bool add) {
    constexpr int lanes = vector_bytes / int(sizeof(W));
    vec<W> sum[tile_rows][tile_vectors] = {};
    for (int p = 0; p < depth; ++p, a += tile_rows, b += tile_cols<W>) {
        vec<W> column[tile_vectors];
        MPT_UNROLL(2)
        for (int j = 0; j < tile_vectors; ++j) std::memcpy(&column[j], b + j * lanes, vector_bytes);
        MPT_UNROLL(12)
        for (int i = 0; i < tile_rows; ++i) {
            const vec<W> row = a[i] - vec<W>{};
            MPT_UNROLL(2)
            for (int j = 0; j < tile_vectors; ++j)
                sum[i][j] = multiply_add<W>(row, column[j], sum[i][j]);
        }
    }
    MPT_UNROLL(12)
    for (int i = 0; i < tile_rows; ++i)
        MPT_UNROLL(2)
        for (int j = 0; j < tile_vectors; ++j) {
            W* const place = out + std::size_t(i) * stride + j * lanes;
            vec<W> before;
            if (add) {
                std::memcpy(&before, place, vector_bytes);
                sum[i][j] = before + sum[i][j];
            }
            std::memcpy(place, &sum[i][j], vector_bytes);
        }
}

// Copy `count` rows (of A) or columns (of B) x `depth` into panels `width` wide, zeros at the edge.
// `across` and `along` are the steps in memory from one row (column) and one k to the next.
template <class W, int width>
inline void pack(W* MPT_RESTRICT to, const W* MPT_RESTRICT from, std::size_t across,
                 std::size_t along, int count, int depth) {
    for (int first = 0; first < count; first += width, to += std::size_t(width) * depth) {
        const int used = std::min(width, count - first);
        const W* corner = from + std::size_t(first) * across;
        if (used == width && across == 1) {
            for (int p = 0; p < depth; ++p) std::copy_n(corner + p * along, width, to + p * width);
        } else if (used == width && along == 1) {
            for (int p = 0; p < depth; ++p)
                for (int i = 0; i < width; ++i) to[p * width + i] = corner[i * across + p];
        } else {
            for (int p = 0; p < depth; ++p) {
                const W* run = corner + p * along;
                for (int i = 0; i < used; ++i) to[p * width + i] = run[i * across];
                for (int i = used; i < width; ++i) to[p * width + i] = W(0);
            }
        }
    }
}

/// c (m,n) = a (m,k) b (k,n), + c when `accumulate`. `room`: `panels` elements.
template <class W>
void product(int m, int n, int k, matrix<W> a, matrix<W> b, W* c, std::size_t c_stride,
             bool accumulate, W* room) {
    constexpr int width = tile_cols<W>;
    W* const a_panel = room;
    W* const b_panel = room + std::size_t(rows_block) * depth_block;
    W edge[tile_rows * width];
    if (k == 0 && !accumulate)
        for (int i = 0; i < m; ++i) std::fill_n(c + i * c_stride, n, W(0));
    for (int n0 = 0; n0 < n; n0 += cols_block) {
        const int ns = std::min(cols_block, n - n0);
        for (int k0 = 0; k0 < k; k0 += depth_block) {
            const int ks = std::min(depth_block, k - k0);
            const bool add = accumulate || k0 > 0;
            pack<W, width>(b_panel, b.at(k0, n0), b.transposed ? b.stride : 1,
                           b.transposed ? 1 : b.stride, ns, ks);
            for (int m0 = 0; m0 < m; m0 += rows_block) {
                const int ms = std::min(rows_block, m - m0);
                pack<W, tile_rows>(a_panel, a.at(m0, k0), a.transposed ? 1 : a.stride,
                                   a.transposed ? a.stride : 1, ms, ks);
                for (int j = 0; j < ns; j += width)
                    for (int i = 0; i < ms; i += tile_rows) {
                        const W* const left = a_panel + std::size_t(i) * ks;
                        const W* const right = b_panel + std::size_t(j) * ks;
                        const int rows = std::min(tile_rows, ms - i),
                                  cols = std::min(width, ns - j);
                        if (rows == tile_rows && cols == width) {
                            tile(ks, left, right, c + std::size_t(m0 + i) * c_stride + n0 + j,
                                 c_stride, add);
                            continue;
                        }
                        tile(ks, left, right, edge, width, false);
                        for (int r = 0; r < rows; ++r) {
                            W* row = c + std::size_t(m0 + i + r) * c_stride + n0 + j;
                            const W* from = edge + r * width;
                            if (add)
                                for (int q = 0; q < cols; ++q) row[q] += from[q];
                            else
                                for (int q = 0; q < cols; ++q) row[q] = from[q];
                        }
                    }
            }
        }
    }
}

} // namespace blocked

#ifdef MPT_HAS_CBLAS
/// Does the CBLAS use this CPU's vectors? An OpenBLAS that is older than the CPU falls back to
/// kernels of 2004, half as fast as the loop above; then the loop is used. Asked once; and a CBLAS
/// with threads of its own is told to use one: operations share the cores by tiles (matmul.hpp),
/// and two pools would fight for them.
inline bool cblas_fits() {
#if defined(OPENBLAS_VERSION)
    static const bool fits = [] {
        openblas_set_num_threads(1);
#if defined(__AVX2__)
        const std::string kernels = openblas_get_corename();
        for (const char* with_vectors : {"Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake",
                                         "SapphireRapids", "Bulldozer", "Piledriver",
                                         "Steamroller", "Excavator"})
            if (kernels == with_vectors) return true;
        return false;
#else
        return true;
#endif
    }();
    return fits;
#else
    return true;
#endif
}
#endif

/// What does the products, for a start-up line.
inline std::string product_backend() {
    const std::string own =
        "own loop, vectors of " + std::to_string(blocked::vector_bytes) + " bytes";
#if defined(MPT_HAS_CBLAS) && defined(OPENBLAS_VERSION)
    const std::string kernels = openblas_get_corename();
    return cblas_fits() ? "OpenBLAS (" + kernels + " kernels)"
                        : own + " (OpenBLAS has only " + kernels + " kernels for this CPU)";
#elif defined(MPT_HAS_CBLAS)
    return "CBLAS";
#else
    return own;
#endif
}

/// Elements of W that product() needs as `room`.
template <class W>
constexpr std::size_t product_scratch() {
    return blocked::panels;
}

/// c (m,n), rows `c_stride` apart, = a (m,k) b (k,n), + c when `accumulate`. W: float or double.
/// On the calling thread alone.
template <class W>
void product(int m, int n, int k, matrix<W> a, matrix<W> b, W* c, std::size_t c_stride,
             bool accumulate, [[maybe_unused]] W* room) {
#ifdef MPT_HAS_CBLAS
    if (k > 0 && cblas_fits()) {
        const auto flag = [](const matrix<W>& x) {
            return x.transposed ? CblasTrans : CblasNoTrans;
        };
        const W beta = accumulate ? W(1) : W(0);
        const int lda = int(a.stride), ldb = int(b.stride), ldc = int(c_stride);
        if constexpr (std::is_same_v<W, float>)
            cblas_sgemm(CblasRowMajor, flag(a), flag(b), m, n, k, 1, a.data, lda, b.data, ldb, beta,
                        c, ldc);
        else
            cblas_dgemm(CblasRowMajor, flag(a), flag(b), m, n, k, 1, a.data, lda, b.data, ldb, beta,
                        c, ldc);
        return;
    }
#endif
    blocked::product(m, n, k, a, b, c, c_stride, accumulate, room);
}

} // namespace mpt
