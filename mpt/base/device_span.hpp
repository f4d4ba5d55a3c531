// SPDX-License-Identifier: MIT
/// @file device_span.hpp
/// Memory of a device: a pointer and a length that the host cannot index.  tier 0, needs:
/// base/error.hpp
///
/// Idea     A std::span without [], begin and end. Only operations (plain loops on the CPU device,
///          kernels on a GPU) take data() and touch elements; so a program that is right on the CPU
///          is right on a GPU, where the same access from the host would be a fault.
/// Breaks   data() handed to host code that reads it: on the CPU device nothing stops that
/// See      memory.hpp (who owns the bytes), tests/base/device_span_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <cstddef>
#include <type_traits>

namespace mpt {

template <class T>
class device_span {
public:
    device_span() = default;
    device_span(T* data, std::size_t size) : data_(data), size_(size) {}

    /// A span of T is also a span of const T.
    template <class U>
        requires std::is_same_v<T, const U>
    device_span(device_span<U> other) : data_(other.data()), size_(other.size()) {}

    T* data() const { return data_; } // for operations only
    std::size_t size() const { return size_; } // elements
    std::size_t bytes() const { return size_ * sizeof(T); }
    bool empty() const { return size_ == 0; }

    /// `count` elements from `offset` on. Throws where they would pass the end.
    device_span subspan(std::size_t offset, std::size_t count) const {
        check(offset <= size_ && count <= size_ - offset, "device_span: ", count, " elements from ",
              offset, " on, of a span of ", size_, "; take a part that lies inside");
        return {data_ + offset, count};
    }
    device_span first(std::size_t count) const { return subspan(0, count); }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

/// A parameter that is only read. T is not deduced from it, so a span of T may be passed as it is.
template <class T>
using device_view = device_span<const std::type_identity_t<T>>;

} // namespace mpt
