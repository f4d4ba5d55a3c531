// SPDX-License-Identifier: MIT
// unfused_adamw.hpp -- AdamW as a list of operations on whole arrays, each a pass over memory, with
// the arrays that lie between them. The same bits as mpt's one pass.
#pragma once
#include "mpt/base/memory.hpp"        // memory, buffer
#include "mpt/nn/cpu.hpp"             // cpu
#include "mpt/numeric/cast.hpp"       // cast
#include "mpt/numeric/scalar.hpp"     // narrow
#include "mpt/train/adam_moments.hpp" // adam_numbers, roots
#include "mpt/train/adamw.hpp"        // adamw

#include <cstddef>

/// One tensor's parts of the flat buffers, or all tensors'.
template <class T>
struct adamw_arrays {
    float *p, *m, *v;
    const T* g;
    T* w;
    std::size_t n;
    bool decays;
};

template <class T>
struct unfused_adamw {
    const mpt::cpu& on;
    mpt::memory& mem;
    bool round_early = false; // sabotage: the gradient is unscaled in its own 16 bits
    double bytes = 0;         // read and written
    long passes = 0;

    //! [passes]
    void step(const adamw_arrays<T>& x, const mpt::adam_numbers<float>& k, float decay) {
        mpt::buffer<float> g(mem, mpt::kind::temp, x.n, "gradient in fp32");
        mpt::buffer<float> t(mem, mpt::kind::temp, x.n, "direction");
        float *const gs = g.span().data(), *const ts = t.span().data();
        pass(x.n, sizeof(T) + 4, [&](std::size_t i) { gs[i] = float(mpt::widen(x.g[i])); });
        pass(x.n, 8, [&](std::size_t i) {
            gs[i] *= k.factor;
            if (round_early) gs[i] = float(mpt::widen(mpt::narrow<T>(gs[i])));
        });
        pass(x.n, 12, [&](std::size_t i) { x.m[i] += k.keep1 * (gs[i] - x.m[i]); });
        pass(x.n, 12, [&](std::size_t i) { x.v[i] += k.keep2 * (gs[i] * gs[i] - x.v[i]); });
        ranges(x.n, 8, [&](std::size_t i, std::size_t n) { mpt::roots(x.v + i, ts + i, n); });
        pass(x.n, 8, [&](std::size_t i) { ts[i] = ts[i] * k.correction + k.eps; });
        pass(x.n, 12, [&](std::size_t i) { ts[i] = x.m[i] / ts[i]; });
        pass(x.n, 8, [&](std::size_t i) { ts[i] *= k.rate; });
        if (x.decays) pass(x.n, 12, [&](std::size_t i) { ts[i] += decay * x.p[i]; });
        pass(x.n, 12, [&](std::size_t i) { x.p[i] -= ts[i]; });
        ranges(x.n, 4 + sizeof(T),
               [&](std::size_t i, std::size_t n) { mpt::cast(x.p + i, x.w + i, n); });
    }
    //! [passes]

private:
    template <class F>
    void ranges(std::size_t n, std::size_t each, F f) { // each: bytes an element
        on.pool.for_ranges(n, std::size_t(1) << 16,
                           [&](std::size_t i, std::size_t end, int) { f(i, end - i); });
        bytes += double(each) * double(n);
        ++passes;
    }
    template <class F>
    void pass(std::size_t n, std::size_t each, F f) {
        ranges(n, each, [&](std::size_t i, std::size_t n_) {
            for (std::size_t end = i + n_; i < end; ++i) f(i);
        });
    }
};
