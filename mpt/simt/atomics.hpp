// SPDX-License-Identifier: MIT
/// @file atomics.hpp
/// Read, change and write in one step, seen by all threads of the grid.    tier 2, needs:
/// simt/block.hpp simt/hooks.hpp
///
/// Idea     atomicAdd(p, x) adds x to *p and returns what was there. Blocks may run on several
///          system threads, so these are real atomics; what has no instruction (a float's sum)
///          compares and exchanges until nobody came between.
/// Breaks   a sum of floats by atomicAdd depends on the order of the threads: not the same bits
/// Source   CUDA C++ Programming Guide, Atomic Functions
/// See      tests/simt/words_test.cpp
#pragma once
#include "mpt/simt/block.hpp" // block (whose threads they are)
#include "mpt/simt/hooks.hpp" // place, watch, in_kernel

#include <type_traits>

namespace mpt::simt {

/// *p = change(*p) in one step; the old value. T of 4 or 8 bytes (2 for the 16-bit formats).
template <class T, class Change>
MPT_SIMT_QUIET T atomic_change(T* p, Change change, place at) {
    static_assert(std::is_trivially_copyable_v<T> &&
                  (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8));
    const bool user = in_kernel;
    in_kernel = false;
    watch::atomic(p, sizeof(T), at);
    T old, next;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do {
        next = change(old);
    } while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    in_kernel = user;
    return old;
}

// The type of *p decides; the other argument converts to it.
template <class T>
using same = std::type_identity_t<T>;

/// Integers wrap around, signed ones too.
template <class T>
T atomicAdd(T* p, same<T> x, place at = place::here()) {
    const auto add = [x](T old) {
        T sum;
        if constexpr (std::is_integral_v<T>)
            __builtin_add_overflow(old, x, &sum);
        else
            sum = T(old + x);
        return sum;
    };
    return atomic_change(p, add, at);
}
template <class T>
T atomicSub(T* p, same<T> x, place at = place::here()) {
    const auto subtract = [x](T old) {
        T rest;
        __builtin_sub_overflow(old, x, &rest);
        return rest;
    };
    return atomic_change(p, subtract, at);
}
template <class T>
T atomicMax(T* p, same<T> x, place at = place::here()) {
    return atomic_change(p, [x](T old) { return old < x ? x : old; }, at);
}
template <class T>
T atomicMin(T* p, same<T> x, place at = place::here()) {
    return atomic_change(p, [x](T old) { return x < old ? x : old; }, at);
}
template <class T>
T atomicExch(T* p, same<T> x, place at = place::here()) {
    return atomic_change(p, [x](T) { return x; }, at);
}
/// *p = x if it is `expected`.
template <class T>
T atomicCAS(T* p, same<T> expected, same<T> x, place at = place::here()) {
    return atomic_change(p, [=](T old) { return old == expected ? x : old; }, at);
}
template <class T>
T atomicAnd(T* p, same<T> x, place at = place::here()) {
    return atomic_change(p, [x](T old) { return T(old & x); }, at);
}
template <class T>
T atomicOr(T* p, same<T> x, place at = place::here()) {
    return atomic_change(p, [x](T old) { return T(old | x); }, at);
}
template <class T>
T atomicXor(T* p, same<T> x, place at = place::here()) {
    return atomic_change(p, [x](T old) { return T(old ^ x); }, at);
}
/// Counts up to `last`, then from 0 again.
inline unsigned atomicInc(unsigned* p, unsigned last, place at = place::here()) {
    return atomic_change(p, [last](unsigned old) { return old >= last ? 0 : old + 1; }, at);
}

} // namespace mpt::simt
