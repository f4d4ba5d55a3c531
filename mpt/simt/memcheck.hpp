// SPDX-License-Identifier: MIT
/// @file memcheck.hpp
/// Which addresses may a kernel touch: the ones that are its own.          tier 2, needs:
/// simt/device_memory.hpp simt/shadow.hpp simt/symbols.hpp
///
/// Idea     Every address belongs to somebody: to an allocation of device memory, to the block's
///          dynamic shared memory, to a static shared array (a symbol), to the thread's own stack,
///          to the kernel's arguments, or to what the emulator lets a kernel read (threadIdx,
///          constants). Whatever else a kernel touches is out of bounds or the host's: an error.
/// Breaks   an access past one static array into the next one of the same kernel is not seen (nor
///          is it by compute-sanitizer); the next one of another kernel is
/// Source   NVIDIA Compute Sanitizer, section memcheck (the words of the reports)
/// See      shadow.hpp, symbols.hpp, tests/simt/faults.cpp
#pragma once
#include "mpt/simt/device_memory.hpp" // device_memory, allocation
#include "mpt/simt/shadow.hpp"        // shadow
#include "mpt/simt/symbols.hpp"       // program, symbol

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace mpt::simt {

enum class memory_space { global, shared, local };

inline const char* as_text(memory_space s) {
    return s == memory_space::shared  ? "__shared__"
           : s == memory_space::local ? "__local__"
                                      : "__global__";
}

struct address_range {
    std::uintptr_t begin = 0, end = 0;
    MPT_SIMT_QUIET bool holds(std::uintptr_t at) const { return at >= begin && at < end; }
};

inline std::string as_hex(std::uintptr_t x) {
    std::ostringstream s;
    s << "0x" << std::hex << x;
    return s.str();
}

/// The shadows of the device's allocations, made when first asked for.
class global_shadows {
public:
    /// Of the allocation whose pages hold this byte; nullptr: there is none, or it was freed.
    MPT_SIMT_QUIET shadow* at(std::uintptr_t address) {
        shadow* const s = recent_[address / device_memory::page % 64];
        if (s && address >= s->begin() && address < s->end()) return s;
        return search(address);
    }
    void freed(std::uintptr_t at) {
        shadows_.erase(at);
        std::fill(std::begin(recent_), std::end(recent_), nullptr);
    }
    /// "is out of bounds and is 5 bytes after the nearest allocation at 0x... of size 128 bytes".
    static std::string trouble(std::uintptr_t at) {
        const auto find = [](std::uintptr_t p) {
            return device_memory::here().find(reinterpret_cast<const void*>(p));
        };
        const allocation *a = find(at), *next = find(at + device_memory::page);
        if (next && next != a && !next->freed && (!a || next->begin - at < at - a->end()))
            return "is out of bounds and is " + std::to_string(next->begin - at) +
                   " bytes before the nearest allocation at " + as_hex(next->begin) + " of size " +
                   std::to_string(next->bytes) + " bytes";
        if (!a) return "is not in the device's memory: it is the host's";
        const std::string of = as_hex(a->begin) + " of size " + std::to_string(a->bytes) + " bytes";
        if (a->freed) return "is out of bounds: the allocation at " + of + " was freed";
        if (at < a->end())
            return "is out of bounds: it goes past the end of the allocation at " + of;
        return "is out of bounds and is " + std::to_string(at - a->end() + 1) +
               " bytes after the nearest allocation at " + of;
    }

private:
    shadow* search(std::uintptr_t address) {
        const allocation* a = device_memory::here().find(reinterpret_cast<const void*>(address));
        if (!a || a->freed || address >= a->end()) return nullptr;
        std::unique_ptr<shadow>& s = shadows_[a->begin];
        if (!s) {
            s = std::make_unique<shadow>(a->begin, a->bytes);
            // nobody tells when the host writes to its own memory
            if (a->kind == memory_kind::pinned) s->set_written(a->begin, a->bytes, true);
        }
        return recent_[address / device_memory::page % 64] = s.get();
    }

    std::unordered_map<std::uintptr_t, std::unique_ptr<shadow>> shadows_; // by first address
    shadow* recent_[64] = {}; // by the page that was asked for
};

/// The static shared arrays of one system thread.
class static_shared_memory {
public:
    static constexpr int nothing = -1, index = -2, guard = -3; // else the number of an array

    explicit static_shared_memory(std::uintptr_t block)
        : shadow_(block, program::self().thread_block_bytes()) {
        for (const symbol& s : program::self().shared_arrays())
            arrays_.push_back({block + s.at, block + s.at + s.size});
    }
    /// Arrays of `function` and of functions that are no kernels may be touched now; `indices` are
    /// threadIdx and the like, which a kernel reads.
    void allow(const std::string& function, const std::vector<std::string>& kernels,
               const std::vector<address_range>& indices) {
        what_.assign(shadow_.bytes() + 1, nothing);
        const auto fill = [&](const address_range& r, int what) {
            std::fill(what_.begin() + std::ptrdiff_t(r.begin - shadow_.begin()),
                      what_.begin() + std::ptrdiff_t(r.end - shadow_.begin()), short(what));
        };
        for (const symbol& s : program::self().thread_locals()) // an array was constructed
            if (s.name.rfind("_ZGVZ", 0) == 0)
                fill({shadow_.begin() + s.at, shadow_.begin() + s.at + s.size}, guard);
        for (const address_range& r : indices) fill(r, index);
        for (std::size_t i = 0; i < arrays_.size(); ++i) {
            bool others = false;
            for (const std::string& k : kernels)
                others = others || (k != function && program::belongs(name(i), k));
            if (!others) fill(arrays_[i], int(i));
        }
        table_ = what_.data();
        ends_ = arrays_.data();
    }
    /// What this byte is; `nothing` outside, too.
    MPT_SIMT_QUIET int at(std::uintptr_t address) const {
        const std::uintptr_t offset = address - shadow_.begin();
        return offset < shadow_.bytes() ? table_[offset] : nothing;
    }
    MPT_SIMT_QUIET std::uintptr_t end_of(int array) const { return ends_[array].end; }
    MPT_SIMT_QUIET shadow& memory() { return shadow_; }

    std::string trouble(std::uintptr_t address) const {
        std::string text = "is out of bounds";
        std::uintptr_t best = ~std::uintptr_t(0);
        for (std::size_t i = 0; i < arrays_.size(); ++i) {
            const address_range& a = arrays_[i];
            if (at(a.begin) != int(i) || address < a.end || address - a.end >= best) continue;
            best = address - a.end;
            text = "is out of bounds and is " + std::to_string(best + 1) + " bytes after " +
                   demangled(name(i).name) + " of size " + std::to_string(a.end - a.begin) +
                   " bytes";
        }
        return text;
    }

private:
    static const symbol& name(std::size_t i) { return program::self().shared_arrays()[i]; }

    shadow shadow_;
    std::vector<address_range> arrays_; // ascending
    std::vector<short> what_;           // of each byte
    const short* table_ = nullptr;      // the same two, for where every nanosecond counts
    const address_range* ends_ = nullptr;
};

} // namespace mpt::simt
