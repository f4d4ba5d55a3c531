// SPDX-License-Identifier: MIT
/// @file rig.hpp
/// What the tests of the training step share: a small CPU, a layout, numbers that are not uniform.
#pragma once
#include "mpt/base/memory.hpp"
#include "mpt/base/philox.hpp"
#include "mpt/base/thread_pool.hpp"
#include "mpt/nn/cpu.hpp"
#include "mpt/nn/params.hpp"
#include "mpt/numeric/scalar.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rig {

struct machine {
    explicit machine(int threads = 2) : pool(threads), on(pool, mem, 64) {}
    mpt::thread_pool pool;
    mpt::memory mem;
    mpt::cpu on;
};

/// Element i of stream `stream`, in (-1, 1), the same everywhere.
inline float number(std::uint32_t stream, std::size_t i) {
    const mpt::philox4 counter{{std::uint32_t(i), std::uint32_t(i >> 32), stream, 0}};
    const mpt::philox4 x = mpt::philox(counter, 7, 9);
    return 2 * mpt::uniform01(x.x[0]) - 1;
}

/// n of them, times `size`, over six powers of ten.
template <class T>
std::vector<T> numbers(std::uint32_t stream, std::size_t n, float size) {
    constexpr float spread[6] = {1, 1e-1f, 1e-2f, 1e-3f, 1e-4f, 1e-5f};
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) {
        const float magnitude = spread[(i * 7 + stream) % 6];
        x[i] = mpt::narrow<T>(mpt::wide_t<T>(size * magnitude * number(stream, i)));
    }
    return x;
}

/// A piece for each unit of `map`, of flat data.
template <class T>
mpt::pieces<T> by_unit(const mpt::layout& map, T* flat) {
    mpt::pieces<T> all;
    for (const mpt::unit_info& u : map.units) all.push_back({{flat + u.begin, u.size()}, u.begin});
    return all;
}

template <class T>
mpt::device_span<T> span(std::vector<T>& x) {
    return {x.data(), x.size()};
}
template <class T>
mpt::device_span<const T> view(const std::vector<T>& x) {
    return {x.data(), x.size()};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// FNV-1a of the bytes.
inline std::uint64_t digest(const void* data, std::size_t bytes,
                            std::uint64_t h = 14695981039346656037u) {
    for (std::size_t i = 0; i < bytes; ++i)
        h = (h ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
    return h;
}
template <class T>
std::uint64_t digest(const std::vector<T>& x, std::uint64_t h = 14695981039346656037u) {
    return digest(x.data(), x.size() * sizeof(T), h);
}

/// What f() throws, or "nothing".
template <class F>
std::string refusal(F f) {
    try {
        f();
    } catch (const mpt::error& e) {
        return e.what();
    }
    return "nothing";
}
inline bool says(const std::string& line, const std::string& part) {
    return line.find(part) != std::string::npos;
}

} // namespace rig
