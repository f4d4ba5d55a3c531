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
        if (last_ && address >= last_->begin() && address < last_->end()) return last_;
        return search(address);
    }
    void freed(std::uintptr_t at) {
        shadows_.erase(at);
        last_ = nullptr;
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
        return last_ = s.get();
    }

    std::unordered_map<std::uintptr_t, std::unique_ptr<shadow>> shadows_; // by first address
    shadow* last_ = nullptr; // most likely to be asked for again
};

/// The static shared arrays of one system thread.
class static_shared_memory {
public:
    explicit static_shared_memory(std::uintptr_t block)
        : shadow_(block, program::self().thread_block_bytes()) {
        for (const symbol& s : program::self().shared_arrays())
            arrays_.push_back({block + s.at, block + s.at + s.size});
        for (const symbol& s : program::self().thread_locals())
            if (s.name.rfind("_ZGVZ", 0) == 0)
                guards_.push_back({block + s.at, block + s.at + s.size});
        all_ = arrays_.data();
    }
    MPT_SIMT_QUIET bool holds(std::uintptr_t at) const {
        return at >= shadow_.begin() && at < shadow_.end();
    }
    /// Arrays of `function` and of functions that are no kernels may be touched now.
    void allow(const std::string& function, const std::vector<std::string>& kernels) {
        last_ = -1;
        allowed_.assign(arrays_.size(), 1);
        for (std::size_t i = 0; i < arrays_.size(); ++i)
            for (const std::string& k : kernels)
                if (k != function && program::belongs(name(int(i)), k)) allowed_[i] = 0;
    }
    bool allowed(int i) const { return allowed_[std::size_t(i)] != 0; }
    /// The number of the array that holds this byte; -1 where none does.
    MPT_SIMT_QUIET int array_at(std::uintptr_t at) {
        if (last_ >= 0 && all_[last_].holds(at)) return last_;
        return search(at);
    }
    /// Is it the compiler's own note that an array was constructed?
    bool guard(std::uintptr_t at) const {
        return std::any_of(guards_.begin(), guards_.end(),
                           [&](const address_range& g) { return g.holds(at); });
    }
    MPT_SIMT_QUIET const address_range& array(int i) const { return all_[i]; }
    const symbol& name(int i) const { return program::self().shared_arrays()[std::size_t(i)]; }
    MPT_SIMT_QUIET shadow& memory() { return shadow_; }

    std::string trouble(std::uintptr_t at) const {
        std::string text = "is out of bounds";
        std::uintptr_t best = ~std::uintptr_t(0);
        for (std::size_t i = 0; i < arrays_.size(); ++i) {
            if (!allowed_[i] || at < arrays_[i].end || at - arrays_[i].end >= best) continue;
            best = at - arrays_[i].end;
            text = "is out of bounds and is " + std::to_string(best + 1) + " bytes after " +
                   demangled(program::self().shared_arrays()[i].name) + " of size " +
                   std::to_string(arrays_[i].end - arrays_[i].begin) + " bytes";
        }
        return text;
    }

private:
    int search(std::uintptr_t at) {
        auto next =
            std::upper_bound(arrays_.begin(), arrays_.end(), at,
                             [](std::uintptr_t x, const address_range& a) { return x < a.begin; });
        if (next == arrays_.begin() || !(--next)->holds(at)) return -1;
        if (!allowed(int(next - arrays_.begin()))) return -1;
        return last_ = int(next - arrays_.begin());
    }

    shadow shadow_;
    std::vector<address_range> arrays_; // ascending
    std::vector<address_range> guards_;
    const address_range* all_ = nullptr;
    std::vector<char> allowed_;
    int last_ = -1;
};

} // namespace mpt::simt
