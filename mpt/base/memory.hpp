// SPDX-License-Identifier: MIT
/// @file memory.hpp
/// Buffers that enter themselves in the ledger.                            tier 0, needs:
/// base/arena.hpp base/device_span.hpp base/ledger.hpp
///
/// Idea     A rank has one memory: the arena of its device (with a budget, perhaps), the host's,
///          and the book that both are entered in. A buffer lives in it and leaves it with its
///          scope.
/// Formula  bytes in the ledger = elements * sizeof(T), exactly, while the buffer lives
/// Breaks   a buffer that outlives its memory
/// See      arena.hpp (refusals, poison), tests/base/memory_test.cpp
#pragma once
#include "mpt/base/arena.hpp"       // arena: allocate, release
#include "mpt/base/device_span.hpp" // device_span
#include "mpt/base/ledger.hpp"      // ledger: add, remove; kind, place

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace mpt {

struct memory {
    /// Whose memory the two are: where host and device are one machine, the system's.
    explicit memory(std::size_t device_budget = 0, const memory_source& of = system_memory(),
                    const memory_source& of_host = system_memory())
        : device(device_budget, true, of), host(0, true, of_host) {}
    ledger books;
    arena device; // with the budget
    arena host;   // without
};

/// `size` elements of T, not constructed but poisoned (NaN, -1).
template <class T>
class buffer {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    buffer() = default;
    /// Throws mpt::error naming `what` when the place has no room for it.
    buffer(memory& mem, kind k, std::size_t size, std::string what, place p = place::device)
        : mem_(&mem), kind_(k), place_(p), size_(size) {
        check(p != place::file, "buffer: ", what,
              " cannot lie in a file; device or host can hold it");
        check(size <= std::numeric_limits<std::size_t>::max() / sizeof(T), "memory: ", what,
              " asks ", size, " elements of ", sizeof(T), " bytes; no machine has them");
        data_ = static_cast<T*>(arena_of().allocate(bytes(), what));
        mem.books.add(k, p, bytes());
    }
    buffer(buffer&& other) noexcept { swap(other); }
    buffer& operator=(buffer&& other) noexcept {
        buffer(std::move(other)).swap(*this);
        return *this;
    }
    ~buffer() {
        if (!data_) return;
        mem_->books.remove(kind_, place_, bytes());
        arena_of().release(data_, bytes());
    }

    device_span<T> span() { return {data_, size_}; }
    device_span<const T> span() const { return {data_, size_}; }

    /// The elements, for host code. Only of a buffer that lies on the host.
    std::span<T> host_span() {
        check(place_ == place::host, "buffer: host code asks for the elements of a buffer on the ",
              to_string(place_), "; copy it to the host first");
        return {data_, size_};
    }

    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }

private:
    arena& arena_of() const { return place_ == place::device ? mem_->device : mem_->host; }
    void swap(buffer& other) noexcept {
        std::swap(mem_, other.mem_);
        std::swap(kind_, other.kind_);
        std::swap(place_, other.place_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    memory* mem_ = nullptr;
    kind kind_ = kind::temp;
    place place_ = place::device;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace mpt
