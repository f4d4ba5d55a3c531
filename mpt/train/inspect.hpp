// SPDX-License-Identifier: MIT
/// @file inspect.hpp
/// One read of the gradients: are they finite, and how long.               tier 5, needs:
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp numeric/scalar.hpp train/blocks.hpp
///
/// Idea     Gradients stay scaled and in their format: unscaling 16 bits in place would undo the
///          scaling. So this only reads; the optimizer applies 1/S and the clip factor in fp32.
///          Squares are added in fp32, 8 at a time, and those sums in fp64. Infinity or NaN makes
///          the sum of its block one: such a block is looked at again, element by element, and a
///          block whose squares leave the range of fp32 is summed again in fp64.
/// Formula  squares[p] = sum of g^2 over piece p, each block within 9 * 2^-24 of it; blocks are
///          added in order;  norm = sqrt(sum of squares)
/// Costs    one read of the gradients; 56 bytes a block of 16 Ki elements
/// Breaks   taking an infinite sum for an overflow: from |g| = 1.8e19 on a square alone is infinite
/// See      loss_scale.hpp (what follows), clip.hpp, tests/train/inspect_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"         // cpu
#include "mpt/nn/params.hpp"      // pieces, layout
#include "mpt/nn/strategy.hpp"    // owned_gradients
#include "mpt/numeric/scalar.hpp" // format, widen, fp16, bf16
#include "mpt/train/blocks.hpp"   // blocks

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace mpt {

struct health {
    bool finite = true;          // no infinity and no NaN among the elements
    std::size_t count = 0;       // elements looked at
    std::size_t bad = 0;         // of them not finite
    std::size_t first_bad = 0;   // where in the flat buffer the first of these lies
    std::vector<double> squares; // sum of squares, one a piece; of use when all are finite
};

namespace inspecting {

// Vectors as g++ and clang++ both have them, on any CPU; each compiles to what it offers.
typedef float floats __attribute__((vector_size(32)));
typedef double doubles __attribute__((vector_size(64)));
typedef std::uint32_t words __attribute__((vector_size(32)));

/// 32 elements as fp32, in the order that is cheapest.
inline void load(const float* x, floats (&to)[4]) { std::memcpy(to, x, sizeof to); }

inline void load(const bf16* x, floats (&to)[4]) { // two to a word, each the upper half of a float
    for (int k = 0; k < 4; k += 2) {
        words pair;
        std::memcpy(&pair, x + 8 * k, sizeof pair);
        to[k] = (floats)(pair << 16);
        to[k + 1] = (floats)(pair & 0xFFFF0000u);
    }
}

inline void load(const fp16* x, floats (&to)[4]) {
#if defined(__F16C__)
    for (int k = 0; k < 4; ++k)
        to[k] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 8 * k)));
#else
    float wide[32];
    for (int i = 0; i < 32; ++i) wide[i] = float(x[i]);
    std::memcpy(to, wide, sizeof to);
#endif
}

/// Elements of a block that are summed at once.
inline constexpr std::size_t stride = 256;

/// The sum of `stride` squares: 32 sums of 8 in fp32, these in fp64.
template <class G>
void add_squares(const G* x, doubles& sum) {
    floats eight[4] = {};
    for (std::size_t i = 0; i < stride; i += 32) {
        // Two pages ahead, since the hardware looks ahead to the end of a page only: into the
        // second cache, and from there into the first.
        for (std::size_t line = 0; line < 32 * sizeof(G); line += 64) {
            const char* const at = reinterpret_cast<const char*>(x + i) + line;
            __builtin_prefetch(at + 8192, 0, 2);
            __builtin_prefetch(at + 2048, 0, 3);
        }
        floats v[4];
        load(x + i, v);
        for (int k = 0; k < 4; ++k) eight[k] += v[k] * v[k];
    }
    for (int k = 0; k < 4; ++k) sum += __builtin_convertvector(eight[k], doubles);
}

/// Sum of squares of n elements, in fp64 from the start.
template <class G>
double exact_squares(const G* x, std::size_t n) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += double(widen(x[i])) * double(widen(x[i]));
    return sum;
}

template <class G>
double fast_squares(const G* x, std::size_t n) {
    doubles s = {};
    G rest[stride] = {}; // what is left at the end, and zeros
    for (std::size_t i = 0; i < n; i += stride) {
        const bool whole = n - i >= stride;
        if (!whole) std::memcpy(rest, x + i, (n - i) * sizeof(G));
        add_squares(whole ? x + i : rest, s);
    }
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/// Infinity and NaN are the codes whose exponent bits are all set.
template <class G>
bool is_finite(G x) {
    using code_of = std::conditional_t<
        sizeof(G) == 2, std::uint16_t,
        std::conditional_t<sizeof(G) == 4, std::uint32_t, std::uint64_t>>;
    constexpr code_of ones = (code_of(1) << format<G>::exponent_bits) - 1;
    constexpr auto exponent = code_of(ones << format<G>::mantissa_bits);
    code_of code;
    std::memcpy(&code, &x, sizeof x);
    return (code & exponent) != exponent;
}

struct finding {
    double squares = 0;
    std::size_t bad = 0, first_bad = 0; // index in the block
};

template <class G>
finding look(const G* x, std::size_t n) {
    finding f;
    if constexpr (!std::is_same_v<G, double>) f.squares = fast_squares(x, n);
    // Where a square of fp32 was cut off at its small end, the sum of a block is below this.
    constexpr double small = 0x1p-64;
    if (f.squares >= small && is_finite(f.squares)) return f;
    f.squares = exact_squares(x, n);
    for (std::size_t i = n; i-- > 0;)
        if (!is_finite(x[i])) {
            ++f.bad;
            f.first_bad = i;
        }
    return f;
}

} // namespace inspecting

/// Reads each element once and writes none. G: float, fp16, bf16 or double, const or not.
template <class G>
health inspect(const cpu& on, const pieces<G>& grads) {
    const std::vector<block> cut = blocks(grads);
    std::vector<inspecting::finding> found(cut.size());
    // Eight blocks a task: what is called ahead past the end of one is then mostly the next.
    on.pool.for_ranges(cut.size(), 8, [&](std::size_t task, std::size_t end, int) {
        for (; task < end; ++task) {
            const block& b = cut[task];
            using value = std::remove_const_t<G>;
            found[task] = inspecting::look<value>(grads[b.piece].data.data() + b.begin, b.size());
        }
    });

    health h;
    h.squares.assign(grads.size(), 0.0);
    for (std::size_t i = 0; i < cut.size(); ++i) {
        const block& b = cut[i];
        h.count += b.size();
        h.squares[b.piece] += found[i].squares;
        if (found[i].bad > 0 && h.bad == 0)
            h.first_bad = grads[b.piece].begin + b.begin + found[i].first_bad;
        h.bad += found[i].bad;
    }
    h.finite = h.bad == 0;
    return h;
}

template <class T>
health inspect(const cpu& on, const owned_gradients<T>& grads) {
    return grads.visit([&](const auto& parts) { return inspect(on, parts); });
}

/// The length of this rank's gradients, still scaled: squares added in the order of the pieces.
inline double norm(const health& h) {
    double sum = 0;
    for (const double s : h.squares) sum += s;
    return std::sqrt(sum);
}

/// "3 of 12.6 M gradients not finite, first in h.2.attn.c_attn.weight"
inline std::string describe(const health& h, const layout& map) {
    if (h.bad == 0) return "gradients of another rank not finite";
    std::ostringstream line;
    line << h.bad << " of " << std::fixed << std::setprecision(1);
    if (h.count < 10000)
        line << h.count;
    else if (h.count < 1000000)
        line << double(h.count) / 1e3 << " K";
    else
        line << double(h.count) / 1e6 << " M";
    line << " gradients not finite, first in " << map.tensor_of(h.first_bad).name;
    return line.str();
}

} // namespace mpt
