// SPDX-License-Identifier: MIT
#include "mpt/kernels/adamw.cuh"
#include "mpt/train/adamw.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace rig;

namespace {

struct hyper { // what numbers_of takes
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
};

adamw_numbers numbers_at(long t, double factor = 1.0 / 1024, double lr = 0.003) {
    const auto c = mpt::numbers_of<float>(hyper(), factor, lr, t);
    return {c.factor,     c.keep1, c.keep2,           c.rate,
            c.correction, c.eps,   float(lr * 0.1), std::uint32_t(t)};
}

// What a step reads and writes, on the host.
template <class H, class HG>
struct state {
    std::vector<float> p, m, v;
    std::vector<HG> g;
    std::vector<H> weights;

    explicit state(std::size_t n)
        : p(checks::numbers<float>(n, 1)), m(n), v(n), g(n), weights(n) {
        for (std::size_t i = 0; i < n; ++i) weights[i] = mpt::narrow<H>(p[i]);
    }
    void gradients(std::uint32_t which) {
        g = checks::numbers<HG>(p.size(), which, 100);
        if (g.size() > 7) g[7] = HG(0.0f); // one that never moves v
    }
    // By the inner loops of train/adamw.hpp.
    void step(const adamw_numbers& c, bool decays, bool master, std::uint64_t seed,
              std::uint64_t first) {
        const std::size_t n = p.size();
        std::vector<float> wide(n), direction(n);
        mpt::cast(g.data(), wide.data(), n);
        if (!master) mpt::cast(weights.data(), p.data(), n);
        const mpt::adam_numbers<float> numbers{c.factor, c.keep1, c.keep2,
                                               c.rate,   c.correction, c.eps};
        mpt::update_moments(m.data(), v.data(), wide.data(), n, numbers);
        mpt::directions(direction.data(), m.data(), v.data(), n, numbers);
        mpt::adamw_parts::move(p.data(), direction.data(), n, c.rate, decays ? c.decay : 0.0f);
        if constexpr (!std::is_same_v<H, float>) {
            if (!master)
                return mpt::cast_stochastic(p.data(), weights.data(), n, seed, c.t, first);
        }
        mpt::narrow(p.data(), weights.data(), n);
    }
};

template <class T, class G>
struct on_device {
    array<float> p, m, v;
    array<G> g;
    array<T> weights;
    on_device(const state<host_t<T>, host_t<G>>& s, std::size_t offset)
        : p(s.p, offset), m(s.m, offset), v(s.v, 0), g(s.g, offset), weights(s.weights, offset) {}
    adamw_args<T, G> args(bool master) const {
        adamw_args<T, G> a;
        a.p = master ? p.data() : nullptr;
        a.m = m;
        a.v = v;
        a.g = g;
        a.weights = weights;
        a.n = p.size();
        return a;
    }
};

template <class T, class G>
void three_steps(std::size_t n, std::size_t offset, bool master, bool decays) {
    state<host_t<T>, host_t<G>> s(n);
    on_device<T, G> d(s, offset);
    for (long t = 1; t <= 3; ++t) {
        s.gradients(std::uint32_t(10 + t));
        d.g.write(s.g);
        adamw_args<T, G> a = d.args(master);
        a.decays = decays;
        a.first = 1000 + n; // the middle of a block of 128
        a.rounding_seed = 0xABCDEF9876543210u;
        a.numbers = numbers_at(t);
        adamw<T, G>(a, stream());
        s.step(numbers_at(t), decays, master, a.rounding_seed, a.first);
    }
    CHECK(difference(d.m.read(), s.m) == "");
    CHECK(difference(d.v.read(), s.v) == "");
    CHECK(difference(d.weights.read(), s.weights) == "");
    if (master) CHECK(difference(d.p.read(), s.p) == "");
}

const std::size_t sizes[] = {1, 31, 33, 257, 1600, 1601};

template <class T>
bool changed(const array<T>& a, const std::vector<host_t<T>>& before) {
    return difference(a.read(), before) != "";
}

} // namespace

TEST_CASE_TEMPLATE("with a master: the bits of the plain loop", T, float, __half, __nv_bfloat16) {
    for (const std::size_t n : sizes)
        for (const std::size_t offset : {0, 1}) {
            three_steps<T, T>(n, offset, true, true);
            three_steps<T, float>(n, offset, true, false); // gradients summed over a window
        }
}

TEST_CASE_TEMPLATE("without one: the bits of the plain loop, rounded stochastically", T, __half,
                   __nv_bfloat16) {
    for (const std::size_t n : sizes)
        for (const std::size_t offset : {0, 1}) {
            three_steps<T, T>(n, offset, false, true);
            three_steps<T, float>(n, offset, false, true);
        }
}

TEST_CASE("fp32 weights that are the master themselves") {
    state<float, float> s(257);
    on_device<float, float> d(s, 0);
    s.gradients(3);
    d.g.write(s.g);
    auto a = d.args(true);
    a.weights = d.p;
    a.numbers = numbers_at(1);
    adamw<float, float>(a, stream());
    s.step(numbers_at(1), true, true, 0, 0);
    CHECK(difference(d.p.read(), s.p) == "");
}

TEST_CASE_TEMPLATE("found_inf on the device: set, not one bit changes; the host is not asked", T,
                   float, __nv_bfloat16) {
    for (const bool master : {true, false}) {
        state<host_t<T>, host_t<T>> s(257);
        s.gradients(3);
        s.g[5] = mpt::narrow<host_t<T>>(INFINITY);
        on_device<T, T> d(s, 0);
        array<float> found_inf(std::vector<float>{1.0f});
        auto a = d.args(master);
        a.numbers = numbers_at(1);
        a.found_inf = found_inf;
        adamw<T, T>(a, stream());
        CHECK(!changed(d.p, s.p));
        CHECK(!changed(d.m, s.m));
        CHECK(!changed(d.v, s.v));
        CHECK(!changed(d.weights, s.weights));
        found_inf.write({0.0f}); // sabotage: not set, all change
        adamw<T, T>(a, stream());
        CHECK(changed(d.m, s.m));
        CHECK(changed(d.weights, s.weights));
    }
}

TEST_CASE("numbers from the device are taken in place of the args'") {
    state<mpt::bf16, mpt::bf16> s(257);
    s.gradients(3);
    on_device<__nv_bfloat16, __nv_bfloat16> d(s, 0);
    array<unsigned char> numbers(sizeof(adamw_numbers));
    const adamw_numbers now = numbers_at(7);
    std::vector<unsigned char> bytes(sizeof now);
    std::memcpy(bytes.data(), &now, sizeof now);
    numbers.write(bytes);
    auto a = d.args(false);
    a.numbers = numbers_at(1);
    a.rounding_seed = 5;
    a.device_numbers = reinterpret_cast<const adamw_numbers*>(numbers.data());
    adamw<__nv_bfloat16, __nv_bfloat16>(a, stream());
    s.step(now, true, false, 5, 0); // t = 7 in the rounding too
    CHECK(difference(d.weights.read(), s.weights) == "");
    CHECK(difference(d.m.read(), s.m) == "");
}

namespace {

// Sabotage: the same formula in multiply-adds, as nvcc has it without the words _rn.
__global__ void fused_kernel(float* m, const float* g, adamw_numbers c, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) m[i] = fmaf(c.keep1, fmaf(c.factor, g[i], -m[i]), m[i]);
}

} // namespace

TEST_CASE("fused, the moments have other bits: the comparison would see it") {
    state<float, float> s(1601);
    s.m = checks::numbers<float>(1601, 77, 0.1);
    s.gradients(3);
    on_device<float, float> d(s, 0);
    mpt::launch<fused_kernel>({13, 128, 0, stream()}, d.m.data(),
                              static_cast<const float*>(d.g.data()), numbers_at(1), 1601);
    s.step(numbers_at(1), true, true, 0, 0);
    CHECK(difference(d.m.read(), s.m) != "");
}

TEST_CASE("the same bits in any order of threads") {
    CHECK(in_all_orders([] {
              state<mpt::bf16, mpt::bf16> s(1601);
              s.gradients(5);
              on_device<__nv_bfloat16, __nv_bfloat16> d(s, 0);
              auto a = d.args(false);
              a.numbers = numbers_at(1);
              adamw<__nv_bfloat16, __nv_bfloat16>(a, stream());
              return d.weights.read();
          }) == "");
}
