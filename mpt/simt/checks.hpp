// SPDX-License-Identifier: MIT
/// @file checks.hpp
/// Every access of a kernel, looked at.                                    tier 2, needs:
/// simt/block.hpp simt/counts.hpp simt/hooks.hpp simt/memcheck.hpp simt/racecheck.hpp
/// simt/report.hpp simt/settings.hpp simt/sites.hpp
///
/// Idea     The compiler calls us before each load and store (probe.hpp), the emulator when threads
///          meet (hooks.hpp). An access is placed (memcheck), must have been written before
///          (initcheck), must be ordered against what its bytes remember (racecheck), and is
///          counted. An access that must not happen ends the launch; the rest is gathered and
///          told at its end. Blocks of a checked launch run one after another.
/// Costs    an access: a call and a look-up of its place and of what its bytes remember; 17 bytes a
///          byte that kernels touch
/// Breaks   an access that the compiler left away is not seen: a constant, what it knows already
/// See      probe.hpp, report.hpp, counting.hpp, tests/simt/faults.cpp
#pragma once
#include "mpt/simt/block.hpp"     // block: current, give_up
#include "mpt/simt/counts.hpp"    // request_counter, access_kind
#include "mpt/simt/hooks.hpp"     // launch_info, place, in_kernel
#include "mpt/simt/memcheck.hpp"  // global_shadows, static_shared_memory, address_range
#include "mpt/simt/racecheck.hpp" // access_history
#include "mpt/simt/report.hpp"    // report, observation, collecting
#include "mpt/simt/settings.hpp"  // settings
#include "mpt/simt/sites.hpp"     // site_table

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mpt::simt {

/// Which checks run; all of them, unless a test or a chapter wants one alone.
struct check_settings {
    bool races = true, uninitialized = true;
};

class checker {
public:
    checker() { resize(0, 256); }

    check_settings which;
    request_counter* counter = nullptr; // counting.hpp
    bool active = true;                 // settings().checks of the launch

    const site_table& sites() const { return sites_; }
    void kernel_exists(const void* function) { kernels_.push_back(function); }

    // ---- from the emulator ----

    void launch_begin(const launch_info& l) {
        program::self(); // may throw
        turn_.lock();
        launch_ = &l;
        active = settings().checks;
        if (counter) ++counter->total.launches;
        report_.begin();
        history_.begin_launch();
        block_number_ = 0;
        statics_ = nullptr;
    }
    /// What has to be thrown; null: nothing.
    std::exception_ptr launch_end(const launch_info& l, std::exception_ptr failed) {
        const std::unique_lock hold(turn_, std::adopt_lock);
        if (counter) counter->flush();
        launch_ = nullptr;
        if (report_.empty()) return failed;
        const std::vector<finding> found = report_.findings(l);
        if (collecting* c = collecting::now()) {
            c->add(found);
            return stopped_ ? stopped_ = false, nullptr : failed;
        }
        stopped_ = false;
        return std::make_exception_ptr(error(report::in_words(found, l)));
    }
    void block_begin(const launch_info& l, uint3 index, void* dynamic) {
        const std::uint32_t threads = l.block.x * l.block.y * l.block.z;
        block_number_ = index.x + l.grid.x * (index.y + l.grid.y * index.z);
        history_.begin_block(block_number_, threads);
        const auto begin = reinterpret_cast<std::uintptr_t>(dynamic);
        if (!dynamic_ || dynamic_->begin() != begin || dynamic_->bytes() != l.shared_bytes)
            dynamic_room_ = std::make_unique<shadow>(begin, l.shared_bytes);
        dynamic_ = dynamic_room_.get();
        dynamic_->set_written(begin, l.shared_bytes, false);
        use_statics(l);
        statics_->memory().set_written(statics_->memory().begin(), statics_->memory().bytes(),
                                       false);
        parameters_ = {reinterpret_cast<std::uintptr_t>(l.arguments),
                       reinterpret_cast<std::uintptr_t>(l.arguments) + l.arguments_bytes};
        if (threads_ < threads) resize(threads, site_room_);
        sites_.begin_block(threads);
        if (counter) counter->begin_block(threads);
    }
    void block_end() {
        if (counter) counter->flush();
    }
    MPT_SIMT_QUIET void thread_runs(unsigned thread) {
        thread_ = thread;
        const context& stack = block::here().current().on->self;
        const auto bottom = reinterpret_cast<std::uintptr_t>(stack.bottom);
        stack_ = {bottom, bottom + stack.size};
    }
    void thread_ends(unsigned thread) {
        if (counter) counter->thread_ends(thread);
    }
    void barrier() {
        history_.order.barrier();
        if (counter) counter->barrier();
    }
    void warp_barrier(unsigned warp, unsigned lanes) { history_.order.warp_barrier(warp, lanes); }
    void fence() { history_.order.fence(thread_); }
    void freed(const void* p) {
        const std::lock_guard hold(turn_);
        globals_.freed(reinterpret_cast<std::uintptr_t>(p));
    }
    /// The host wrote into device memory; what came from device memory is as written as that.
    void host_wrote(const void* to, const void* from, std::size_t bytes) {
        const std::lock_guard hold(turn_);
        const auto at = reinterpret_cast<std::uintptr_t>(to);
        shadow* target = globals_.at(at);
        if (!target) return;
        const auto source_at = reinterpret_cast<std::uintptr_t>(from);
        shadow* source = from ? globals_.at(source_at) : nullptr;
        if (source)
            std::memmove(target->written(at), source->written(source_at), bytes);
        else
            target->set_written(at, bytes, true);
    }

    /// What lies there is not to be read before it is written.
    void poisoned(const void* p, std::size_t bytes) {
        const std::lock_guard hold(turn_);
        const auto at = reinterpret_cast<std::uintptr_t>(p);
        if (shadow* s = globals_.at(at)) s->set_written(at, bytes, false);
    }

    // ---- from kernels ----

    /// `align`: what the address must be a multiple of.
    MPT_SIMT_QUIET void access(std::uintptr_t at, std::uint32_t bytes, access_kind kind,
                               std::uint32_t align, std::uintptr_t pc) {
        const unsigned own = sites_.of(pc, kind);
        const bool inside = sites_[own].emulator;
        const unsigned s = inside ? sites_.caller(thread_, own) : own;
        look(at, bytes, kind, align, s, inside);
    }
    void access(std::uintptr_t at, std::uint32_t bytes, access_kind kind, place where) {
        if (!active) return;
        look(at, bytes, kind, bytes, sites_.of(where, kind), false);
        if (kind == access_kind::atomic) history_.order.atomic(thread_, at);
    }
    void piece(std::uintptr_t pc) {
        const unsigned s = sites_.of(pc, access_kind::branch);
        if (!sites_[s].emulator) counter->piece(thread_, s);
    }
    MPT_SIMT_QUIET void call(std::uintptr_t from) { sites_.call(thread_, from); }
    MPT_SIMT_QUIET void call_ends() { sites_.call_ends(thread_); }

private:
    // What a thread did last at a site: the same again in the same step needs no new record.
    struct last_access {
        std::uint32_t step = 0, id = 0;
    };

    MPT_SIMT_QUIET void look(std::uintptr_t at, std::uint32_t bytes, access_kind kind,
                             std::uint32_t align, unsigned s, bool inside) {
        shadow* m = nullptr;
        std::uintptr_t end = 0;
        bool shared = true;
        const int array = statics_->at(at);
        if (array >= 0) {
            m = &statics_->memory();
            end = statics_->end_of(array);
        } else if (at >= dynamic_->begin() && at < dynamic_->end()) {
            m = dynamic_;
            end = m->end();
        } else if (array == static_shared_memory::nothing) {
            shared = false;
            m = globals_.at(at);
            if (m) end = m->end();
        }
        if (!m) {
            if (stack_.holds(at) || inside || array == static_shared_memory::guard) return;
            if (kind == access_kind::load && (array == static_shared_memory::index || readable(at)))
                return;
            return refuse(at, bytes, kind, s, nullptr);
        }
        if (bytes > end - at) return refuse(at, bytes, kind, s, nullptr);
        if (at & (align - 1)) return refuse(at, bytes, kind, s, "is misaligned");

        unsigned char* written = m->written(at);
        if (kind == access_kind::store) {
            for (std::uint32_t i = 0; i < bytes; ++i) written[i] = 1;
        } else {
            bool all = true;
            for (std::uint32_t i = 0; i < bytes; ++i) all = all && written[i];
            if (!all) uninitialized(at, bytes, shared, s, written);
        }
        if (which.races) {
            if (s >= site_room_) resize(threads_, 2 * s);
            last_access& last = last_[std::size_t(thread_) * site_room_ + s];
            if (last.step != history_.order.step(thread_)) remember(last, s);
            const std::uint32_t id = touch(m->cells(at), bytes, last.id, shared);
            if (id) race(at, bytes, shared, s, id);
        }
        if (counter) counter->access(thread_, s, kind, shared, at, bytes);
    }

    // Most often all bytes of an access remember the same: then what becomes of one becomes of all.
    MPT_SIMT_QUIET std::uint32_t touch(shadow_cell* c, std::uint32_t bytes, std::uint32_t id,
                                       bool shared) {
        const shadow_cell before = c[0];
        std::uint32_t found = history_.touch(c[0], id, shared);
        for (std::uint32_t i = 1; i < bytes; ++i) {
            if (c[i].writer == before.writer && c[i].first == before.first &&
                c[i].second == before.second && c[i].far == before.far) {
                c[i].writer = c[0].writer, c[i].first = c[0].first;
                c[i].second = c[0].second, c[i].far = c[0].far;
            } else if (const std::uint32_t other = history_.touch(c[i], id, shared)) {
                found = other;
            }
        }
        return found;
    }
    // Arguments and constants.
    bool readable(std::uintptr_t at) const {
        return parameters_.holds(at) || program::self().constant(at);
    }
    void use_statics(const launch_info& l) {
        if (statics_) return; // all blocks of a launch run on one system thread
        const std::uintptr_t begin = program::thread_block();
        std::unique_ptr<static_shared_memory>& s = all_statics_[begin];
        if (!s) s = std::make_unique<static_shared_memory>(begin);
        statics_ = s.get();
        const auto name = [](const void* f) {
            const symbol* found = program::self().function_at(reinterpret_cast<std::uintptr_t>(f));
            return found ? found->name : std::string();
        };
        if (names_.size() != kernels_.size()) {
            names_.clear();
            for (const void* k : kernels_) names_.push_back(name(k));
        }
        std::vector<address_range> indices;
        const auto add = [&](const auto& v) {
            const auto at = reinterpret_cast<std::uintptr_t>(&v);
            indices.push_back({at, at + sizeof v});
        };
        add(threadIdx), add(blockIdx), add(blockDim), add(gridDim);
        statics_->allow(name(l.function), names_, indices);
    }

    void resize(std::uint32_t threads, std::size_t sites) {
        std::vector<last_access> bigger(threads * sites);
        for (std::size_t t = 0; t < std::min(threads, threads_); ++t)
            for (std::size_t i = 0; i < site_room_; ++i)
                bigger[t * sites + i] = last_[t * site_room_ + i];
        last_room_ = std::move(bigger);
        last_ = last_room_.data();
        threads_ = threads;
        site_room_ = sites;
    }

    // ---- what is found ----

    void remember(last_access& last, unsigned s) {
        const site& at = sites_[s];
        last.step = history_.order.step(thread_);
        last.id = history_.add(history_.order.record(s, thread_, at.kind != access_kind::load,
                                                     at.kind == access_kind::atomic, at.by_warp));
    }
    observation observe(fault what, std::uintptr_t at, std::uint32_t bytes, bool shared,
                        unsigned s) const {
        observation o;
        o.what = what;
        o.space = shared ? memory_space::shared : memory_space::global;
        o.at = sites_[s].at;
        o.me = history_.order.record(s, thread_, sites_[s].kind != access_kind::load, false, false);
        o.bytes = bytes;
        o.address = at;
        return o;
    }
    void uninitialized(std::uintptr_t at, std::uint32_t bytes, bool shared, unsigned s,
                       unsigned char* written) {
        if (which.uninitialized) report_.add(observe(fault::uninitialized, at, bytes, shared, s));
        if (sites_[s].kind == access_kind::atomic) std::memset(written, 1, bytes);
    }
    void race(std::uintptr_t at, std::uint32_t bytes, bool shared, unsigned s,
              std::uint32_t before) {
        observation o = observe(fault::race, at, bytes, shared, s);
        o.before = history_.at(before);
        o.other = sites_[o.before.site].at;
        report_.add(o);
    }
    // The access must not happen: its thread never comes back from here, and the launch ends.
    void refuse(std::uintptr_t at, std::uint32_t bytes, access_kind kind, unsigned s,
                const char* trouble) {
        const bool dynamic = dynamic_->bytes() && at - dynamic_->begin() < dynamic_->bytes() + 4096;
        const shadow& all = statics_->memory();
        const bool shared = dynamic || (at >= all.begin() && at < all.end() + 4096);
        observation o = observe(fault::invalid, at, bytes, shared, s);
        o.me.write = kind != access_kind::load;
        if (trouble)
            o.trouble = trouble;
        else if (at < 4096)
            o.trouble = "is out of bounds: it is a null pointer's";
        else if (dynamic)
            o.trouble = "is out of bounds: the block's dynamic shared memory has " +
                        std::to_string(dynamic_->bytes()) + " bytes, this is byte " +
                        std::to_string(at - dynamic_->begin());
        else
            o.trouble = shared ? statics_->trouble(at) : global_shadows::trouble(at);
        report_.add(o);
        stopped_ = true;
        block::here().give_up(std::make_exception_ptr(error("a check ended the launch")));
    }

    std::mutex turn_;
    const launch_info* launch_ = nullptr;
    report report_;
    access_history history_;
    global_shadows globals_;
    std::map<std::uintptr_t, std::unique_ptr<static_shared_memory>> all_statics_; // by thread
    static_shared_memory* statics_ = nullptr;
    std::unique_ptr<shadow> dynamic_room_;
    shadow* dynamic_ = nullptr;
    address_range parameters_, stack_;
    std::vector<const void*> kernels_; // all that the program can launch
    std::vector<std::string> names_;   // theirs
    std::uint32_t block_number_ = 0, thread_ = 0;
    bool stopped_ = false;

    site_table sites_;
    std::vector<last_access> last_room_; // thread * site_room_ + site
    last_access* last_ = nullptr;
    std::uint32_t threads_ = 0;
    std::size_t site_room_ = 0;
};

/// One a process: launches of several system threads take turns. Never destroyed: device memory may
/// be freed after main().
MPT_SIMT_QUIET inline checker& checks() {
    static checker* const all = new checker;
    return *all;
}

} // namespace mpt::simt
