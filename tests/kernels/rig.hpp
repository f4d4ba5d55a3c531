// SPDX-License-Identifier: MIT
// What the tests of the kernels share: arrays in device memory, a stream, comparisons that say
// where and by how much. The same words on the emulator and under CUDA; the host speaks mpt's
// types (fp16, bf16), the kernels CUDA's (__half, __nv_bfloat16): the same bits.
#pragma once
#include "mpt/kernels/launch.cuh"
#include "mpt/numeric/scalar.hpp"
#include "tests/nn/checks.hpp" // machine, span, numbers, tokens, ulp

#include <cmath>
#include <cstddef>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace rig {

using namespace mpt::kernels; // CUDA's words on the emulator

// The type with the bits of T that the plain loops take.
template <class T>
struct host_type {
    using type = T;
};
template <>
struct host_type<__half> {
    using type = mpt::fp16;
};
template <>
struct host_type<__nv_bfloat16> {
    using type = mpt::bf16;
};
template <class T>
using host_t = typename host_type<std::remove_const_t<T>>::type;

inline void ok(cudaError_t e, const char* what) {
    if (e != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}

// One stream for the whole program, not the default one.
inline cudaStream_t stream() {
    static const cudaStream_t s = [] {
        cudaStream_t made = nullptr;
        ok(cudaStreamCreate(&made), "cudaStreamCreate");
        return made;
    }();
    return s;
}

// Wait for all kernels; throws what went wrong in one.
inline void wait() { ok(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

// n elements of device memory, `offset` elements behind an address that is aligned to 256 bytes.
// An offset of 1 shows what a kernel makes of pointers that vector loads do not take.
template <class T>
class array {
public:
    using host = host_t<T>;
    static_assert(sizeof(host) == sizeof(T), "the same bits on both sides");

    explicit array(std::size_t n, std::size_t offset = 0) : n_(n), offset_(offset) { // all NaN
        ok(cudaMalloc(&base_, (n + offset + 1) * sizeof(T)), "cudaMalloc");
        ok(cudaMemsetAsync(base_, 0xFF, (n + offset + 1) * sizeof(T), stream()), "cudaMemset");
    }
    array(const std::vector<host>& v, std::size_t offset = 0) : array(v.size(), offset) {
        write(v);
    }
    array(const array&) = delete;
    array& operator=(const array&) = delete;
    ~array() {
        cudaStreamSynchronize(stream());
        cudaFree(base_);
    }

    T* data() const { return static_cast<T*>(base_) + offset_; }
    operator T*() const { return data(); }
    std::size_t size() const { return n_; }

    void write(const std::vector<host>& v) {
        if (v.size() != n_) throw std::runtime_error("array: another size");
        if (n_ > 0)
            ok(cudaMemcpyAsync(data(), v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice, stream()),
               "copy to the device");
        wait();
    }
    // Waits for the kernels before it. Throws where something was written before the beginning (of
    // an offset one) or behind the end.
    std::vector<host> read() const {
        std::vector<host> v(n_);
        if (n_ > 0)
            ok(cudaMemcpyAsync(v.data(), data(), n_ * sizeof(T), cudaMemcpyDeviceToHost, stream()),
               "copy to the host");
        wait();
        untouched(static_cast<T*>(base_), offset_, "before its beginning");
        untouched(data() + n_, 1, "behind its end");
        return v;
    }

private:
    static void untouched(const T* at, std::size_t n, const char* where) {
        std::vector<unsigned char> bytes(n * sizeof(T));
        if (n > 0)
            ok(cudaMemcpy(bytes.data(), at, bytes.size(), cudaMemcpyDeviceToHost), "copy to host");
        for (const unsigned char b : bytes)
            if (b != 0xFF) throw std::runtime_error(std::string("array: written ") + where);
    }

    void* base_ = nullptr;
    std::size_t n_, offset_;
};

// Bytes of scratch; at least 1.
class scratch {
public:
    explicit scratch(std::size_t bytes) : room_(bytes + 1) {}
    operator void*() const { return room_.data(); }

private:
    array<unsigned char> room_;
};

template <class T>
std::string as_text(T x) {
    std::ostringstream s;
    s << std::setprecision(9) << double(mpt::widen(x));
    return s.str();
}
inline std::string as_text(int x) { return std::to_string(x); }
inline std::string as_text(unsigned char x) { return std::to_string(int(x)); }
inline std::string as_text(unsigned x) { return std::to_string(x); }
inline std::string as_text(std::size_t x) { return std::to_string(x); }

// "" where all bits agree, else "element 17 of 1600: found 1.5, expected 1.25; 3 differ".
template <class T>
std::string difference(const std::vector<T>& found, const std::vector<T>& expected) {
    if (found.size() != expected.size())
        return std::to_string(found.size()) + " elements, expected " +
               std::to_string(expected.size());
    std::size_t first = 0, count = 0;
    for (std::size_t i = found.size(); i-- > 0;)
        if (std::memcmp(&found[i], &expected[i], sizeof(T)) != 0) first = i, ++count;
    if (count == 0) return "";
    return "element " + std::to_string(first) + " of " + std::to_string(found.size()) +
           ": found " + as_text(found[first]) + ", expected " + as_text(expected[first]) + "; " +
           std::to_string(count) + " differ";
}

// The same to a bound: |found - expected| <= bound(i) + half an ulp of T for the rounding of the
// result. Infinity agrees with the same infinity, NaN with NaN.
template <class T, class Bound>
std::string difference(const std::vector<T>& found, const std::vector<double>& expected,
                       Bound bound) {
    if (found.size() != expected.size())
        return std::to_string(found.size()) + " elements, expected " +
               std::to_string(expected.size());
    std::size_t worst = 0, count = 0;
    double most = 0; // of |difference| / allowed
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double f = double(mpt::widen(found[i])), e = expected[i];
        if ((std::isnan(f) && std::isnan(e)) || f == e) continue;
        const double allowed = bound(i) + 0.5 * checks::ulp<T>(e);
        const double off = std::isfinite(f) && std::isfinite(e) ? std::fabs(f - e) / allowed : 1e9;
        if (off > 1) ++count;
        if (off > most) most = off, worst = i;
    }
    if (count == 0) return "";
    std::ostringstream s;
    s << std::setprecision(9) << "element " << worst << " of " << found.size() << ": found "
      << as_text(found[worst]) << ", expected " << expected[worst] << ", " << std::setprecision(3)
      << most << " times the bound; " << count << " are past it";
    return s.str();
}

// run() in five orders of threads, warps and blocks: ascending, and four that are shuffled. ""
// where it returns the same bits each time. Under CUDA the order is the device's own: run() twice.
template <class F>
std::string in_all_orders(F run) {
    const auto first = run();
    std::string found;
#if defined(__CUDACC__)
    found = difference(run(), first);
#else
    const unsigned before = mpt::simt::settings().order_seed;
    for (const unsigned seed : {1u, 22u, 333u, 4444u}) {
        mpt::simt::settings().order_seed = seed;
        const std::string now = difference(run(), first);
        if (found.empty() && !now.empty()) found = "order " + std::to_string(seed) + ": " + now;
    }
    mpt::simt::settings().order_seed = before;
#endif
    return found;
}

#if defined(MPT_SIMT_CHECK)
// How many faults the checks of the emulator find in what run() launches, of one kind: "racecheck".
template <class F>
std::size_t faults(const char* check, F run) {
    mpt::simt::collecting found;
    run();
    wait();
    std::size_t count = 0;
    for (const mpt::simt::finding& f : found.findings()) count += f.check == check;
    return count;
}
#endif

} // namespace rig
