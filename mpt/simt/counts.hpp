// SPDX-License-Identifier: MIT
/// @file counts.hpp
/// What a kernel asks of the memory, as Nsight Compute would count it.     tier 2, needs: std only
///
/// Idea     A warp's 32 accesses by one instruction are one request. Global memory answers in
///          sectors of 32 bytes, each once a request; shared memory in wavefronts, in each of which
///          each of 32 banks of 4 bytes gives one word (to any number of lanes that want this one).
///          Accesses of 8 bytes are served half a warp at a time, of 16 bytes a quarter.
///          A request is put together from lanes that ran one after another: the same instruction,
///          since the block's last barrier, for the n-th time.
/// Formula  bank = address / 4 mod 32;  conflicts = wavefronts - halves or quarters that took part
/// Breaks   lanes that reach an instruction in different rounds of a loop count as one request
/// Source   NVIDIA, CUDA Programming Guide, shared memory; Nsight Compute, metrics reference
/// See      counting.hpp, tests/simt/counts_test.cpp
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mpt::simt {

/// What one instruction does.
enum class access_kind : unsigned char { load, store, atomic, branch };

struct access_counts {
    using number = unsigned long long;
    number global_load_requests = 0, global_load_sectors = 0; // requests: one a warp
    number global_store_requests = 0, global_store_sectors = 0;
    number global_atomic_requests = 0;
    number shared_load_requests = 0, shared_load_wavefronts = 0, shared_load_conflicts = 0;
    number shared_store_requests = 0, shared_store_wavefronts = 0, shared_store_conflicts = 0;
    number shared_atomic_requests = 0;
    number atomic_turns = 0;       // lanes of a request that want the same word wait for each other
    number divergent_branches = 0; // by a warp whose lanes then went different ways
    number barriers = 0;           // a block at __syncthreads
    number launches = 0;           // of kernels

    double sectors_a_load() const { return ratio(global_load_sectors, global_load_requests); }
    double sectors_a_store() const { return ratio(global_store_sectors, global_store_requests); }

    access_counts& operator+=(const access_counts& o) {
        for (const metric& m : metrics()) this->*m.member += o.*m.member;
        return *this;
    }
    struct metric {
        const char* name; // Nsight Compute's; "" where it has none
        number access_counts::*member;
    };
    static const std::vector<metric>& metrics() {
        using c = access_counts;
        static const std::vector<metric> list = {
            {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", &c::global_load_requests},
            {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", &c::global_load_sectors},
            {"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", &c::global_store_requests},
            {"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", &c::global_store_sectors},
            {"smsp__inst_executed_op_global_atom.sum", &c::global_atomic_requests},
            {"smsp__inst_executed_op_shared_ld.sum", &c::shared_load_requests},
            {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", &c::shared_load_wavefronts},
            {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", &c::shared_load_conflicts},
            {"smsp__inst_executed_op_shared_st.sum", &c::shared_store_requests},
            {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", &c::shared_store_wavefronts},
            {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
             &c::shared_store_conflicts},
            {"smsp__inst_executed_op_shared_atom.sum", &c::shared_atomic_requests},
            {"smsp__sass_branch_targets_threads_divergent.sum", &c::divergent_branches},
            {"", &c::atomic_turns},
            {"", &c::barriers},
            {"", &c::launches},
        };
        return list;
    }

private:
    static double ratio(number a, number b) { return b ? double(a) / double(b) : 0; }
};

/// One instruction executed by a warp: where its lanes went.
struct warp_request {
    std::uint32_t lanes = 0; // a bit each
    std::uint32_t bytes = 0; // a lane
    std::uintptr_t at[32];
};

/// Sectors of 32 bytes that the request touches.
inline unsigned sectors_of(const warp_request& r) {
    std::vector<std::uintptr_t> touched;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (r.lanes >> lane & 1)
            for (std::uintptr_t s = r.at[lane] / 32; s <= (r.at[lane] + r.bytes - 1) / 32; ++s)
                touched.push_back(s);
    std::sort(touched.begin(), touched.end());
    return unsigned(std::unique(touched.begin(), touched.end()) - touched.begin());
}

struct bank_use {
    unsigned wavefronts = 0, conflicts = 0;
};

inline bank_use banks_of(const warp_request& r) {
    bank_use use;
    const unsigned part = r.bytes >= 16 ? 8 : r.bytes >= 8 ? 16 : 32; // lanes served together
    for (unsigned begin = 0; begin < 32; begin += part) {
        std::vector<std::pair<unsigned, std::uintptr_t>> words; // bank, word
        for (unsigned lane = begin; lane < begin + part; ++lane)
            if (r.lanes >> lane & 1)
                for (std::uintptr_t w = r.at[lane] / 4; w <= (r.at[lane] + r.bytes - 1) / 4; ++w)
                    words.emplace_back(unsigned(w % 32), w);
        if (words.empty()) continue;
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        unsigned most = 0, here = 0;
        for (std::size_t i = 0; i < words.size(); ++i) {
            here = i > 0 && words[i].first == words[i - 1].first ? here + 1 : 1;
            most = std::max(most, here);
        }
        use.wavefronts += most;
        use.conflicts += most - 1;
    }
    return use;
}

/// The most lanes of a request that want one and the same word.
inline unsigned turns_of(const warp_request& r) {
    std::vector<std::uintptr_t> at;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (r.lanes >> lane & 1) at.push_back(r.at[lane]);
    std::sort(at.begin(), at.end());
    unsigned most = 0, here = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
        here = i > 0 && at[i] == at[i - 1] ? here + 1 : 1;
        most = std::max(most, here);
    }
    return most;
}

/// Puts a block's requests together and adds them up by instruction (a number from the caller).
class request_counter {
public:
    void begin_block(unsigned threads) {
        flush();
        threads_ = threads;
        last_.assign(threads, {});
        ways_.clear();
    }
    /// The block met at a barrier, or is done: what is not complete now never will be.
    void flush() {
        for (const auto& [key, open] : open_) count(open);
        open_.clear();
    }
    void barrier() {
        flush();
        for (auto& t : last_) t.visits.clear();
        ways_.clear();
        for (auto& t : last_) t.from = no_key;
        ++total.barriers;
    }

    void access(unsigned thread, unsigned instruction, access_kind kind, bool shared,
                std::uintptr_t at, unsigned bytes) {
        const key k{thread / 32, instruction, visit(thread, instruction)};
        open_request& o = open_[k];
        o.kind = kind, o.shared = shared, o.instruction = instruction;
        o.request.bytes = std::max(o.request.bytes, bytes);
        o.request.lanes |= 1u << thread % 32;
        o.request.at[thread % 32] = at;
        if (o.request.lanes != lanes_of(thread / 32)) return;
        count(o);
        open_.erase(k);
    }
    /// The thread enters a piece of code without branches.
    void piece(unsigned thread, unsigned instruction) {
        const key here{thread / 32, instruction, visit(thread, instruction)};
        if (!(last_[thread].from == no_key)) go(last_[thread].from, instruction);
        last_[thread].from = here;
    }
    void thread_ends(unsigned thread) {
        if (thread < last_.size() && !(last_[thread].from == no_key))
            go(last_[thread].from, ~0u - 1);
    }

    access_counts total;
    std::unordered_map<unsigned, access_counts> by_instruction;

private:
    struct key {
        unsigned warp, instruction, visit;
        bool operator==(const key& o) const {
            return warp == o.warp && instruction == o.instruction && visit == o.visit;
        }
    };
    static constexpr key no_key{~0u, ~0u, ~0u};
    struct hash {
        std::size_t operator()(const key& k) const {
            return ((std::size_t(k.warp) << 24 ^ k.instruction) << 32) + k.visit;
        }
    };
    struct open_request {
        warp_request request;
        access_kind kind = access_kind::load;
        bool shared = false;
        unsigned instruction = 0;
    };
    struct way {
        unsigned to = 0;
        bool divergent = false;
    };
    struct thread_state {
        key from = no_key;
        std::unordered_map<unsigned, unsigned> visits; // instruction -> times since the barrier
    };

    unsigned visit(unsigned thread, unsigned instruction) {
        return last_[thread].visits[instruction]++;
    }
    std::uint32_t lanes_of(unsigned warp) const {
        const unsigned n = std::min(32u, threads_ - warp * 32);
        return n == 32 ? ~0u : (1u << n) - 1;
    }
    void go(const key& from, unsigned to) {
        const auto [w, first] = ways_.try_emplace(from, way{to, false});
        if (first || w->second.to == to || w->second.divergent) return;
        w->second.divergent = true;
        ++total.divergent_branches;
        ++by_instruction[from.instruction].divergent_branches;
    }
    void count(const open_request& o) {
        access_counts c;
        if (o.kind == access_kind::atomic) {
            (o.shared ? c.shared_atomic_requests : c.global_atomic_requests) = 1;
            c.atomic_turns = turns_of(o.request);
        } else if (o.shared) {
            const bank_use use = banks_of(o.request);
            const bool load = o.kind == access_kind::load;
            (load ? c.shared_load_requests : c.shared_store_requests) = 1;
            (load ? c.shared_load_wavefronts : c.shared_store_wavefronts) = use.wavefronts;
            (load ? c.shared_load_conflicts : c.shared_store_conflicts) = use.conflicts;
        } else {
            const bool load = o.kind == access_kind::load;
            (load ? c.global_load_requests : c.global_store_requests) = 1;
            (load ? c.global_load_sectors : c.global_store_sectors) = sectors_of(o.request);
        }
        total += c;
        by_instruction[o.instruction] += c;
    }

    unsigned threads_ = 0;
    std::vector<thread_state> last_;
    std::unordered_map<key, open_request, hash> open_;
    std::unordered_map<key, way, hash> ways_;
};

} // namespace mpt::simt
