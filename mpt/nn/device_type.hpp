// SPDX-License-Identifier: MIT
/// @file device_type.hpp
/// mpt's numbers as kernels name them: the same bits, CUDA's types.        tier 4, needs:
/// base/device_span.hpp kernels/launch.cuh numeric/scalar.hpp
///
/// Idea     A model speaks of fp16 and bf16, a kernel of __half and __nv_bfloat16. The bits are the
///          same, so a pointer changes its type and nothing else: here, and only here.
/// See      numeric/fp16.hpp, numeric/bf16.hpp, tests/nn/device_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span
#include "mpt/kernels/launch.cuh"   // __half, __nv_bfloat16
#include "mpt/numeric/scalar.hpp"   // fp16, bf16

#include <type_traits>

namespace mpt {
namespace kernels { // where CUDA's words are known on both machines

template <class T>
struct device_type {
    static_assert(!std::is_same_v<T, double>, "kernels compute in float: fp32, fp16 or bf16");
    using type = T;
};
template <>
struct device_type<fp16> {
    using type = __half;
};
template <>
struct device_type<bf16> {
    using type = __nv_bfloat16;
};
template <class T>
struct device_type<const T> {
    using type = const typename device_type<T>::type;
};

} // namespace kernels

/// T as kernels name it.
template <class T>
using device_t = typename kernels::device_type<T>::type;

template <class T>
device_t<T>* on_device(T* p) {
    static_assert(sizeof(T) == sizeof(device_t<T>) && alignof(T) == alignof(device_t<T>));
    return reinterpret_cast<device_t<T>*>(p);
}
/// The elements of a span, for a launcher.
template <class T>
device_t<T>* on_device(device_span<T> x) {
    return on_device(x.data());
}
/// ... of one that is only read, or may be empty: T is given, a span of T may be passed.
template <class T>
device_t<const T>* viewed(device_view<T> x) {
    return on_device(x.data());
}

} // namespace mpt
