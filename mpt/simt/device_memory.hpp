// SPDX-License-Identifier: MIT
/// @file device_memory.hpp
/// The memory of the device that the emulator is, and whose bytes they are. tier 2, needs:
/// base/error.hpp
///
/// Idea     Allocations lie in large regions of addresses, each on pages of its own, the page
///          behind it untouchable; a table says for each page which allocation has it. So a check
///          of an address is two array lookups (find). Addresses are never given out twice: what is
///          read after cudaFree is known for what it was.
///          Pinned host memory is kept the same way.
/// Costs    memory: each allocation rounded up to pages of 4 KB. Poisoned with 0xFF (NaN, -1)
/// Breaks   asking and freeing without end: addresses are used up, and each 64 GB of them make a
///          search one step longer
/// See      runtime.hpp (cudaMalloc), tests/simt/memory_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include <sys/mman.h>

namespace mpt::simt {

enum class memory_kind { device, pinned };

/// One cudaMalloc or cudaMallocHost.
struct allocation {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0; // as asked
    memory_kind kind = memory_kind::device;
    bool freed = false;
    unsigned number = 0; // the first is 1

    std::uintptr_t end() const { return begin + bytes; }
};

/// Safe to use from several threads; find() needs no lock.
class device_memory {
public:
    static constexpr std::size_t page = 4096;
    static constexpr std::size_t total = std::size_t(64) << 30; // what the device claims to have
    static constexpr std::size_t first_region = std::size_t(1) << 30; // bytes of addresses

    static device_memory& here() {
        static device_memory m;
        return m;
    }

    /// `bytes` bytes at a multiple of 4096 (CUDA promises 256); nullptr: there is no room.
    void* allocate(std::size_t bytes, memory_kind kind) {
        const std::lock_guard hold(lock_);
        if (bytes > total - held_[0] - held_[1]) return nullptr;
        const std::size_t pages = (bytes + page - 1) / page;
        region* r = room(pages + 1); // one to keep it from the next
        if (!r) return nullptr;
        std::byte* p = r->base + r->used * page;
        if (mprotect(p, pages * page, PROT_READ | PROT_WRITE) != 0) return nullptr;
        std::memset(p, 0xFF, pages * page);
        auto* a = new allocation{reinterpret_cast<std::uintptr_t>(p), bytes, kind, false,
                                 ++number_};
        allocations_.emplace_back(a);
        std::fill_n(r->owner + r->used, pages + 1, a);
        r->used += pages + 1;
        held_[int(kind)] += bytes;
        return p;
    }

    /// What allocate() gave, and nothing else: false.
    bool release(void* p, memory_kind kind) {
        const std::lock_guard hold(lock_);
        region* r = region_of(reinterpret_cast<std::uintptr_t>(p));
        allocation* a = r ? r->owner_of(p) : nullptr;
        if (!a || a->begin != reinterpret_cast<std::uintptr_t>(p) || a->freed || a->kind != kind)
            return false;
        a->freed = true;
        held_[int(kind)] -= a->bytes;
        const std::size_t bytes = (a->bytes + page - 1) / page * page;
        madvise(p, bytes, MADV_DONTNEED); // the memory is the system's again, the addresses are not
        mprotect(p, bytes, PROT_NONE);
        return true;
    }

    /// The allocation to whose pages an address belongs, freed or not, or the page behind it;
    /// nullptr: it is the host's.
    const allocation* find(const volatile void* p) const {
        const auto address = reinterpret_cast<std::uintptr_t>(p);
        for (const region* r = newest_.load(std::memory_order_acquire); r; r = r->older)
            if (address - r->address() < r->bytes) return r->owner[(address - r->address()) / page];
        return nullptr;
    }

    /// Is [p, p + bytes) inside one living allocation?
    bool holds(const volatile void* p, std::size_t bytes) const {
        const allocation* a = find(p);
        const auto address = reinterpret_cast<std::uintptr_t>(p);
        return a && !a->freed && address >= a->begin && address <= a->end() &&
               bytes <= a->end() - address;
    }

    std::size_t held(memory_kind kind) const {
        const std::lock_guard hold(lock_);
        return held_[int(kind)];
    }

    device_memory(const device_memory&) = delete;
    device_memory& operator=(const device_memory&) = delete;

private:
    struct region {
        std::byte* base = nullptr;
        std::size_t bytes = 0;
        allocation** owner = nullptr; // of each page
        std::size_t used = 0; // pages
        region* older = nullptr;

        std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(base); }
        allocation* owner_of(const void* p) const {
            return owner[(reinterpret_cast<std::uintptr_t>(p) - address()) / page];
        }
        std::size_t table() const { return bytes / page * sizeof(allocation*); }
    };

    device_memory() = default;
    ~device_memory() {
        for (const auto& r : regions_) {
            munmap(r->base, r->bytes);
            munmap(r->owner, r->table());
        }
    }

    region* region_of(std::uintptr_t address) const {
        for (region* r = newest_.load(); r; r = r->older)
            if (address - r->address() < r->bytes) return r;
        return nullptr;
    }

    // The newest region if it has so many pages left, or else a new one.
    region* room(std::size_t pages) {
        region* r = newest_.load();
        if (r && r->used + pages <= r->bytes / page) return r;
        auto fresh = std::make_unique<region>();
        // each twice as large as the one before, so that there are few to search
        fresh->bytes = std::max(pages * page, r ? std::min(2 * r->bytes, total) : first_region);
        fresh->base = static_cast<std::byte*>(reserve(fresh->bytes, PROT_NONE));
        if (!fresh->base) return nullptr;
        fresh->owner =
            static_cast<allocation**>(reserve(fresh->table(), PROT_READ | PROT_WRITE));
        if (!fresh->owner) {
            munmap(fresh->base, fresh->bytes);
            return nullptr;
        }
        fresh->older = r;
        regions_.push_back(std::move(fresh));
        newest_.store(regions_.back().get(), std::memory_order_release);
        return regions_.back().get();
    }
    static void* reserve(std::size_t bytes, int protection) { // addresses, not memory
        void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1, 0);
        return p == MAP_FAILED ? nullptr : p;
    }

    mutable std::mutex lock_;
    std::atomic<region*> newest_ = nullptr;
    std::vector<std::unique_ptr<region>> regions_;
    std::vector<std::unique_ptr<allocation>> allocations_;
    std::size_t held_[2] = {};
    unsigned number_ = 0;
};

} // namespace mpt::simt
