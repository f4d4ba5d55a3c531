// SPDX-License-Identifier: MIT
/// @file arena.hpp
/// Memory with a budget, as a small device has it.                    tier 0, needs: base/error.hpp
///
/// Idea     One region of `budget` bytes; an allocation takes the first hole that is large enough,
///          a release joins its neighbours. What does not fit is refused with all the numbers, and
///          holes too small to serve (fragmentation) are as real as on a GPU.
///          Without a budget each allocation is the source's: the system's, or a device's.
/// Formula  an allocation takes ceil(bytes / 64) * 64;  free() = budget - held()
/// Costs    a walk over the holes an allocation; allocate once, before the loop
/// Breaks   memory is poisoned with 0xFF bytes (NaN in every float format, -1 in every integer)
///          when it is handed out and when it comes back, so reading too early or too late shows
/// See      memory.hpp, tests/base/arena_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include <sys/mman.h>

namespace mpt {

/// Where an arena's bytes come from: the host's memory, or that of a device, which the host cannot
/// touch. Sizes are multiples of arena::alignment, and so are addresses.
struct memory_source {
    const char* owner;                      // who refuses: "the system"
    void* (*take)(std::size_t bytes);       // one allocation; nullptr where there is no more
    void (*give)(void* p);                  // ... and back
    void* (*region)(std::size_t bytes);     // the one region of a budget; nullptr likewise
    void (*give_region)(void* p, std::size_t bytes);
    void (*fill)(void* p, int byte, std::size_t bytes); // as memset, in the order of the work there
};

inline memory_source system_memory();

/// Safe to use from several threads.
class arena {
public:
    static constexpr std::size_t alignment = 64; // a cache line, and the widest vector register

    /// budget in bytes, rounded down to the alignment; 0: no limit.
    explicit arena(std::size_t budget = 0, bool poison = true,
                   const memory_source& from = system_memory())
        : from_(from), budget_(budget / alignment * alignment), limited_(budget != 0),
          poison_(poison) {
        if (!limited_) return;
        check(budget_ != 0, "arena: a budget of ", budget, " bytes is below one block of ",
              alignment, "; give more");
        base_ = static_cast<std::byte*>(from_.region(budget_));
        check(base_ != nullptr, "arena: ", from_.owner, " refuses a region of ", budget_,
              " bytes; give a smaller budget");
        holes_[0] = budget_;
    }
    ~arena() {
        if (base_) from_.give_region(base_, budget_);
    }
    arena(const arena&) = delete;
    arena& operator=(const arena&) = delete;

    /// `bytes` bytes, 64-byte aligned and poisoned; nullptr for none. A refusal names `what`.
    void* allocate(std::size_t bytes, const std::string& what) {
        if (bytes == 0) return nullptr;
        const std::size_t size = rounded(bytes);
        std::byte* p = limited_ ? take(size, bytes, what) : whole(size, bytes, what);
        if (poison_) from_.fill(p, 0xFF, size);
        return p;
    }

    /// Give back what allocate(bytes) returned. Throws what was not held, where there is a budget.
    void release(void* p, std::size_t bytes) {
        if (!p) return;
        const std::size_t size = rounded(bytes);
        if (limited_) require_held(static_cast<std::byte*>(p), size);
        if (poison_) from_.fill(p, 0xFF, size);
        const std::lock_guard hold(lock_);
        held_ -= size;
        if (limited_)
            put(std::size_t(static_cast<std::byte*>(p) - base_), size);
        else
            from_.give(p);
    }

    std::size_t budget() const { return budget_; }
    std::size_t held() const {
        const std::lock_guard hold(lock_);
        return held_;
    }
    /// Bytes not held; the largest std::size_t where there is no budget.
    std::size_t free() const { return limited_ ? budget_ - held() : unlimited; }
    /// The largest allocation that would be served now.
    std::size_t largest_free() const {
        const std::lock_guard hold(lock_);
        return limited_ ? largest_hole() : unlimited;
    }

private:
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    static std::size_t rounded(std::size_t bytes) {
        check(bytes <= unlimited - alignment, "arena: ", bytes,
              " bytes asked; no machine has them");
        return (bytes + alignment - 1) / alignment * alignment;
    }

    // Two buffers on the same bytes are the worst that a wrong release can lead to: find it here.
    void require_held(const std::byte* p, std::size_t size) const {
        const std::lock_guard hold(lock_);
        const auto begin = reinterpret_cast<std::uintptr_t>(p) -
                           reinterpret_cast<std::uintptr_t>(base_); // huge where p lies before it
        bool held = size <= budget_ && begin <= budget_ - size;
        for (const auto& [offset, length] : holes_)
            held = held && (begin + size <= offset || offset + length <= begin);
        check(held, "arena: ", size,
              " bytes are released that are not held; release once, with the ",
              "size that was allocated");
    }

    std::byte* whole(std::size_t size, std::size_t bytes, const std::string& what) {
        void* p = from_.take(size);
        check(p != nullptr, "memory: ", what, " asks ", bytes, " bytes and ", from_.owner,
              " has no more; make the model or the batch smaller");
        const std::lock_guard hold(lock_);
        held_ += size;
        return static_cast<std::byte*>(p);
    }

    std::byte* take(std::size_t size, std::size_t bytes, const std::string& what) {
        const std::lock_guard hold(lock_);
        for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) { // first fit
            if (hole->second < size) continue;
            const auto [offset, length] = *hole;
            holes_.erase(hole);
            if (length > size) holes_[offset + size] = length - size;
            held_ += size;
            return base_ + offset;
        }
        throw error(join("memory: ", what, " asks ", bytes, " bytes; of the budget of ", budget_,
                         ", ", held_, " are held and ", budget_ - held_,
                         " free, the largest free block ", largest_hole(),
                         "; give more or make the model or the batch smaller"));
    }

    void put(std::size_t offset, std::size_t length) {
        auto after = holes_.upper_bound(offset);
        if (after != holes_.end() && offset + length == after->first) { // join the hole behind
            length += after->second;
            after = holes_.erase(after);
        }
        if (after != holes_.begin()) { // and the one before
            const auto before = std::prev(after);
            if (before->first + before->second == offset) {
                before->second += length;
                return;
            }
        }
        holes_[offset] = length;
    }

    std::size_t largest_hole() const {
        std::size_t most = 0;
        for (const auto& [offset, length] : holes_) most = std::max(most, length);
        return most;
    }

    memory_source from_;
    std::size_t budget_;
    bool limited_;
    bool poison_;
    std::byte* base_ = nullptr;
    std::map<std::size_t, std::size_t> holes_; // offset -> length, no two adjacent
    std::size_t held_ = 0;
    mutable std::mutex lock_;
};

/// The host's memory. Pages of a region are taken when they are first touched, not before.
inline memory_source system_memory() {
    return {"the system",
            [](std::size_t bytes) { return std::aligned_alloc(arena::alignment, bytes); },
            [](void* p) { std::free(p); },
            [](std::size_t bytes) {
                void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                return p == MAP_FAILED ? nullptr : p;
            },
            [](void* p, std::size_t bytes) { munmap(p, bytes); },
            [](void* p, int byte, std::size_t bytes) { std::memset(p, byte, bytes); }};
}

} // namespace mpt
