// SPDX-License-Identifier: MIT
/// @file probe.hpp
/// What the compiler calls before every load and store.                    tier 2, needs:
/// base/error.hpp simt/checks.hpp simt/hooks.hpp
///
/// Idea     -fsanitize=thread, given when compiling, makes g++ and clang++ call __tsan_read4(p),
///          __tsan_write4(p) and their kin before each access, to look for races between threads
///          of the system. These functions are ours here, and the sanitizer's library is not
///          linked: every access of a kernel comes by. -fsanitize-coverage=trace-pc adds a call at
///          the beginning of each piece of code without branches.
/// Costs    a call and a look at one flag for each access outside of kernels
/// Breaks   -fsanitize=thread when linking: its library and this file want the same names: refused;
///          without -Wl,--wrap=memcpy (memmove, memset) not all of these are seen. g++ is silent
///          about structures that a call takes from memory or leaves there, y[i] = f(x[i]), if f is
///          not compiled in place; so kernels are flattened, but __noinline__ and recursion remain
/// Source   LLVM, ThreadSanitizer.cpp and SanitizerCoverage; GCC, tsan.cc and sancov.c
/// See      checks.hpp, tests/simt/faults.cpp, cmake/mptProbe.cmake (the flags)
#pragma once
#include "mpt/base/error.hpp"  // check
#include "mpt/simt/checks.hpp" // checks, access_kind
#include "mpt/simt/hooks.hpp"  // in_kernel, MPT_SIMT_QUIET

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#if defined(MPT_SIMT_CHECK)

#if !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if !__has_feature(thread_sanitizer)
#error "MPT_SIMT_CHECK: compile this file with -fsanitize=thread, too (and link without it)"
#endif
#else
#error "MPT_SIMT_CHECK: compile this file with -fsanitize=thread, too (and link without it)"
#endif
#endif

extern "C" __attribute__((weak)) void* __tsan_get_current_fiber(); // of the sanitizer's library

namespace mpt::simt {

namespace watch {
inline void kernel_exists(const void* function) { checks().kernel_exists(function); }
inline void launch_begin(const launch_info& l) {
    check(!__tsan_get_current_fiber,
          "simt: this program is linked with ThreadSanitizer's library, "
          "whose functions the access probe replaces; give -fsanitize=thread when compiling only");
    checks().launch_begin(l);
}
inline std::exception_ptr launch_end(const launch_info& l, std::exception_ptr failed) {
    return checks().launch_end(l, failed);
}
inline void block_begin(const launch_info& l, uint3 block, void* dynamic_shared) {
    checks().block_begin(l, block, dynamic_shared);
}
inline void block_end(bool) { checks().block_end(); }
MPT_SIMT_QUIET inline void thread_runs(unsigned thread) { checks().thread_runs(thread); }
inline void thread_ends(unsigned thread) { checks().thread_ends(thread); }
inline void barrier(place) { checks().barrier(); }
inline void warp_barrier(unsigned warp, unsigned lanes) { checks().warp_barrier(warp, lanes); }
MPT_SIMT_QUIET inline void fence() {
    const bool user = in_kernel;
    in_kernel = false;
    checks().fence();
    in_kernel = user;
}
inline void atomic(const volatile void* p, std::size_t bytes, place at) {
    checks().access(reinterpret_cast<std::uintptr_t>(p), std::uint32_t(bytes), access_kind::atomic,
                    at);
}
inline void freed(const void* p) { checks().freed(p); }
inline void poisoned(const void* p, std::size_t bytes) { checks().poisoned(p, bytes); }
inline void host_wrote(const void* to, const void* from, std::size_t bytes) {
    checks().host_wrote(to, from, bytes);
}
} // namespace watch

// `align` 1: the compiler takes any address.
MPT_SIMT_QUIET inline void access_seen(const volatile void* p, std::size_t bytes, access_kind kind,
                                       std::uint32_t align, void* from) {
    if (!checks().active) return;
    in_kernel = false;
    checks().access(reinterpret_cast<std::uintptr_t>(p), std::uint32_t(bytes), kind, align,
                    reinterpret_cast<std::uintptr_t>(from));
    in_kernel = true;
}

// A function of the library, which must not come by here once more.
template <class Function, class Source>
MPT_SIMT_QUIET void* unseen(Function* real, void* to, Source from, std::size_t bytes) {
    const bool user = in_kernel;
    in_kernel = false;
    real(to, from, bytes);
    in_kernel = user;
    return to;
}

} // namespace mpt::simt

#define MPT_PROBE extern "C" __attribute__((used, noinline)) MPT_SIMT_QUIET inline
#define MPT_PROBE_SEEN(p, bytes, kind, align)                                                      \
    if (mpt::simt::in_kernel)                                                                      \
    mpt::simt::access_seen(p, bytes, mpt::simt::access_kind::kind, align,                          \
                           __builtin_return_address(0))

#define MPT_PROBE_SIZE(n)                                                                          \
    MPT_PROBE void __tsan_read##n(void* p) { MPT_PROBE_SEEN(p, n, load, n); }                      \
    MPT_PROBE void __tsan_write##n(void* p) { MPT_PROBE_SEEN(p, n, store, n); }                    \
    MPT_PROBE void __tsan_unaligned_read##n(void* p) { MPT_PROBE_SEEN(p, n, load, 1); }            \
    MPT_PROBE void __tsan_unaligned_write##n(void* p) { MPT_PROBE_SEEN(p, n, store, 1); }
MPT_PROBE_SIZE(1)
MPT_PROBE_SIZE(2)
MPT_PROBE_SIZE(4)
MPT_PROBE_SIZE(8)
MPT_PROBE_SIZE(16)
#undef MPT_PROBE_SIZE

MPT_PROBE void __tsan_read_range(void* p, std::size_t n) { MPT_PROBE_SEEN(p, n, load, 1); }
MPT_PROBE void __tsan_write_range(void* p, std::size_t n) { MPT_PROBE_SEEN(p, n, store, 1); }
// memcpy and its kin, where the compiler calls them: clang++-19 by names of its own, the others by
// the plain ones, which the linker turns to these here (-Wl,--wrap=memcpy).
#define MPT_PROBE_COPY(name, real, second, from)                                                   \
    MPT_PROBE void* name(void* to, second, std::size_t n) {                                        \
        const bool user = mpt::simt::in_kernel && n;                                               \
        if (user && from)                                                                          \
            mpt::simt::access_seen(from, n, mpt::simt::access_kind::load, 1,                       \
                                   __builtin_return_address(0));                                   \
        if (user)                                                                                  \
            mpt::simt::access_seen(to, n, mpt::simt::access_kind::store, 1,                        \
                                   __builtin_return_address(0));                                   \
        return real;                                                                               \
    }
extern "C" {
__attribute__((weak)) void* __real_memcpy(void*, const void*, std::size_t);
__attribute__((weak)) void* __real_memmove(void*, const void*, std::size_t);
__attribute__((weak)) void* __real_memset(void*, int, std::size_t);
}
MPT_PROBE_COPY(__wrap_memcpy, __real_memcpy(to, from, n), const void* from, from)
MPT_PROBE_COPY(__wrap_memmove, __real_memmove(to, from, n), const void* from, from)
MPT_PROBE_COPY(__wrap_memset, __real_memset(to, value, n), int value, nullptr)
MPT_PROBE_COPY(__tsan_memcpy, mpt::simt::unseen(std::memcpy, to, from, n), const void* from, from)
MPT_PROBE_COPY(__tsan_memmove, mpt::simt::unseen(std::memmove, to, from, n), const void* from, from)
MPT_PROBE_COPY(__tsan_memset, mpt::simt::unseen(std::memset, to, value, n), int value, nullptr)
#undef MPT_PROBE_COPY

MPT_PROBE void __tsan_func_entry(void* from) {
    if (mpt::simt::in_kernel) mpt::simt::checks().call(reinterpret_cast<std::uintptr_t>(from));
}
MPT_PROBE void __tsan_func_exit() {
    if (mpt::simt::in_kernel) mpt::simt::checks().call_ends();
}
MPT_PROBE void __sanitizer_cov_trace_pc() {
    if (!mpt::simt::in_kernel || !mpt::simt::checks().counter || !mpt::simt::checks().active)
        return;
    mpt::simt::in_kernel = false;
    mpt::simt::checks().piece(reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
    mpt::simt::in_kernel = true;
}
MPT_PROBE void __tsan_init() {}
MPT_PROBE void __tsan_vptr_update(void**, void*) {}
MPT_PROBE void __tsan_vptr_read(void**) {}

// std::atomic and the like, which the compiler replaces: of the host, so only done.
#define MPT_PROBE_ATOMIC(bits, T)                                                                  \
    MPT_PROBE T __tsan_atomic##bits##_load(const volatile T* p, int) {                             \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    MPT_PROBE void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                          \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                  \
    }                                                                                              \
    MPT_PROBE T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                          \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                        \
    }                                                                                              \
    MPT_PROBE T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) {                         \
        return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    MPT_PROBE T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) {                         \
        return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    MPT_PROBE T __tsan_atomic##bits##_fetch_and(volatile T* p, T v, int) {                         \
        return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    MPT_PROBE T __tsan_atomic##bits##_fetch_or(volatile T* p, T v, int) {                          \
        return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                          \
    }                                                                                              \
    MPT_PROBE T __tsan_atomic##bits##_fetch_xor(volatile T* p, T v, int) {                         \
        return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    MPT_PROBE bool __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* e, T v, int,    \
                                                                 int) {                            \
        return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
    }                                                                                              \
    MPT_PROBE bool __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* e, T v, int,      \
                                                               int) {                              \
        return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
    }                                                                                              \
    MPT_PROBE T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T e, T v, int, int) {    \
        __atomic_compare_exchange_n(p, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);          \
        return e;                                                                                  \
    }
MPT_PROBE_ATOMIC(8, unsigned char)
MPT_PROBE_ATOMIC(16, unsigned short)
MPT_PROBE_ATOMIC(32, unsigned int)
MPT_PROBE_ATOMIC(64, unsigned long)
#undef MPT_PROBE_ATOMIC
MPT_PROBE void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
MPT_PROBE void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

#undef MPT_PROBE_SEEN
#undef MPT_PROBE

#endif // MPT_SIMT_CHECK
