// SPDX-License-Identifier: MIT
/// @file sites.hpp
/// The instructions of kernels that were seen, each with a number.         tier 2, needs:
/// simt/counts.hpp simt/cuda_words.hpp simt/hooks.hpp simt/report.hpp simt/symbols.hpp
///
/// Idea     An access is told by its return address. What is asked at each of millions of accesses
///          is answered from a small table by the address's hash; the program's symbols are asked
///          once an instruction. An access in a function of the emulator (__ldg, a copy of fp16) is
///          that of the kernel which called it, so each thread's calls are kept, 16 deep.
/// Costs    64 KB; 136 bytes a thread of a block
/// Breaks   one instruction that loads and stores is two sites
/// See      checks.hpp (who asks), symbols.hpp, tests/simt/checks_test.cpp
#pragma once
#include "mpt/simt/counts.hpp"     // access_kind
#include "mpt/simt/cuda_words.hpp" // MPT_SIMT_QUIET
#include "mpt/simt/hooks.hpp"      // place
#include "mpt/simt/report.hpp"     // code_place
#include "mpt/simt/symbols.hpp"    // program

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace mpt::simt {

/// An instruction that was seen: what it is, and where.
struct site {
    code_place at;
    access_kind kind = access_kind::load;
    bool emulator = false; // in a function of the emulator or of fp16 and bf16
    bool by_warp = false;  // by all lanes of a warp in one word: a matrix of nvcuda::wmma
};

class site_table {
public:
    MPT_SIMT_QUIET const site& operator[](unsigned s) const { return data_[s]; }

    /// The number of the instruction before the return address `pc`.
    MPT_SIMT_QUIET unsigned of(std::uintptr_t pc, access_kind kind) {
        const std::uintptr_t key = pc << 2 | unsigned(kind);
        const slot& s = slots_[at(key)];
        return s.key == key ? s.site : find(pc, kind, key);
    }
    /// Of an access that names its line itself: an atomic one.
    unsigned of(place where, access_kind kind) {
        const auto [found, fresh] = told_.try_emplace({where.file, where.line, int(kind)}, 0);
        if (fresh) found->second = add({{0, where}, kind, false, false});
        return found->second;
    }

    // ---- who called ----

    void begin_block(std::uint32_t threads) {
        calls_room_.assign(threads, {});
        calls_ = calls_room_.data();
    }
    MPT_SIMT_QUIET void call(std::uint32_t thread, std::uintptr_t from) {
        call_stack& c = calls_[thread];
        if (c.depth < deepest) c.from[c.depth] = from;
        ++c.depth;
    }
    MPT_SIMT_QUIET void call_ends(std::uint32_t thread) {
        call_stack& c = calls_[thread];
        if (c.depth > 0) --c.depth;
    }
    /// Of site `s`, in the emulator: the site of the kernel that called it.
    unsigned caller(std::uint32_t thread, unsigned s) {
        const call_stack& c = calls_[thread];
        for (unsigned i = std::min(c.depth, deepest); i-- > 0;) {
            const unsigned up = of(c.from[i], data_[s].kind);
            if (data_[up].emulator) continue;
            data_[up].by_warp = data_[up].by_warp || data_[s].by_warp;
            return up;
        }
        return s;
    }

private:
    static constexpr unsigned deepest = 16;
    struct call_stack {
        unsigned depth = 0;
        std::uintptr_t from[deepest];
    };
    struct slot {
        std::uintptr_t key = 0;
        unsigned site = 0;
    };
    static_assert(sizeof(call_stack) == 136 && sizeof(slot) == 16); // the card's costs

    struct told_key {
        const char* file;
        unsigned line;
        int kind;
        bool operator<(const told_key& o) const {
            return std::tie(file, line, kind) < std::tie(o.file, o.line, o.kind);
        }
    };

    MPT_SIMT_QUIET static std::size_t at(std::uintptr_t key) { // Knuth's multiplicative hash
        return key * 0x9E3779B97F4A7C15u >> 52;
    }
    unsigned find(std::uintptr_t pc, access_kind kind, std::uintptr_t key) {
        const auto [found, fresh] = by_key_.try_emplace(key, 0);
        if (fresh) {
            const symbol* f = program::self().function_at(pc - 1);
            const auto in = [&](const char* scope) { // _ZN scope, or _ZNK of a const member
                return f && (f->name.rfind(std::string("_ZN") + scope, 0) == 0 ||
                             f->name.rfind(std::string("_ZNK") + scope, 0) == 0);
            };
            found->second = add({{pc, {}},
                                 kind,
                                 in("3mpt4simt") || in("3mpt4fp16") || in("3mpt4bf16"),
                                 in("3mpt4simt6nvcuda")});
        }
        slots_[at(key)] = {key, found->second};
        return found->second;
    }
    unsigned add(const site& s) {
        sites_.push_back(s);
        data_ = sites_.data();
        return unsigned(sites_.size() - 1);
    }

    std::vector<site> sites_;
    site* data_ = nullptr;
    std::unordered_map<std::uintptr_t, unsigned> by_key_;
    std::map<told_key, unsigned> told_;
    slot slots_[4096]; // 2^12: the upper 12 bits of the hash
    std::vector<call_stack> calls_room_;
    call_stack* calls_ = nullptr; // of each thread
};

} // namespace mpt::simt
