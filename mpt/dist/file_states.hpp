// SPDX-License-Identifier: MIT
/// @file file_states.hpp
/// An optimizer's states in files, behind a few buffers (ZeRO-Infinity).   tier 6, needs:
/// base/memory.hpp base/trace.hpp comm/handle.hpp comm/progress.hpp dist/file_settings.hpp
/// dist/state_file.hpp dist/state_store.hpp nn/params.hpp
///
/// Idea     Part k has buffer k mod B. What happens to a buffer happens in order, on a thread of
///          its own: read, (update), write, read what it holds next. So while part k is updated the
///          parts behind it are read and those before it written, and no part can be read before
///          it was written, whatever the disk does: one buffer is all that one has to think of.
/// Formula  file bytes = 4 (1 + moments) a parameter owned, + seals and padding (state_file.hpp);
///          host bytes = B (record of the largest part + 4096), for any model
/// Costs    traffic: each byte once from the disk and once to it a step; B threads, mostly asleep
/// Breaks   B = 1: no overlap at all.  A kill: the files are of no use to the next run, which
///          resumes from a checkpoint (train/checkpoint.hpp) and fills them anew
/// Source   Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857, section 6.3
/// See      offload.hpp, tests/dist/file_states_test.cpp
#pragma once
#include "mpt/base/memory.hpp"        // memory, buffer
#include "mpt/base/trace.hpp"         // trace, range
#include "mpt/comm/handle.hpp"        // handle
#include "mpt/comm/progress.hpp"      // progress
#include "mpt/dist/file_settings.hpp" // file_settings, record_buffer, new_run
#include "mpt/dist/state_file.hpp"    // state_file, record_id
#include "mpt/dist/state_store.hpp"   // state_store, state_part
#include "mpt/nn/params.hpp"          // pieces, layout

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mpt {

/// Queue: a thread of a buffer's own; tests pass ones that are wrong.
template <class T, class Queue = progress>
class file_states : public state_store<T> {
public:
    using W = wide_t<T>;

    file_states(memory& mem, const layout& map, const pieces<T>& mine, int moments,
                const file_settings& s, std::uint64_t run = new_run())
        : state_store<T>(mine, moments, s.part), mem_(mem), seen_(s.seen),
          written_(this->parts().size()) {
        check(s.buffers > 0, "states: ", s.buffers, " buffers, wanted 1 or more");
        std::vector<std::vector<std::size_t>> payloads(mine.size());
        for (const block& b : this->parts()) {
            ids_.push_back(
                {what(map, mine[b.piece].begin + b.begin, b.size()), payloads[b.piece].size(), 0});
            payloads[b.piece].push_back(payload(b));
        }
        for (std::size_t p = 0; p < mine.size(); ++p) {
            const std::string path = join(s.folder, "/rank", s.rank, "-piece", p, ".states");
            files_.push_back(std::make_unique<state_file>(path, run, payloads[p], s.calls));
        }
        const std::size_t record =
            state_file::record_bytes((1 + std::size_t(moments)) * this->largest() * sizeof(W));
        for (int i = 0; i < s.buffers; ++i) slots_.push_back(std::make_unique<slot>(mem, record));
        book(true);
    }
    ~file_states() override {
        slots_.clear(); // nothing is under way any more
        book(false);
    }

    state_part<W> take(std::size_t k) override {
        const block& b = this->parts()[k];
        slot& s = of(k);
        s.way.wait();
        W* const at = s.room.template payload<W>();
        const std::size_t n = b.size();
        if (written_[k] == 0) {
            std::fill_n(at, n, W(NAN));
            std::fill_n(at + n, std::size_t(this->moments()) * n, W(0));
        } else {
            file(k).check_seal(id(k), s.room.record); // it is the one: the read is over
        }
        const auto part = [&](int i) {
            return i <= this->moments() ? device_span<W>(at + std::size_t(i) * n, n)
                                        : device_span<W>();
        };
        return {part(0), part(1), part(2)};
    }

    void give(std::size_t k, bool changed) override {
        slot& s = of(k);
        written_[k] += changed;
        const std::size_t behind = k + slots_.size();
        const std::size_t next = behind < this->parts().size() ? behind : k % slots_.size();
        const bool there = written_[next] > 0;
        s.way = s.io.start(
            [this, &s, k, next, changed, there, was = id(k), wanted = id(next)] {
                if (changed) {
                    const range r = bar("write", k);
                    file(k).write(was, record(s, k));
                }
                if (!there) return;
                std::fill_n(s.room.record.begin(), state_file::seal_bytes,
                            std::byte(0xFF)); // nobody's
                const range r = bar("read", next);
                file(next).read(wanted, record(s, next));
            },
            [] {});
    }

    void settle() override {
        for (const auto& s : slots_) s->way.wait();
    }

    /// Bytes of the files that are no states: seals and padding.
    std::size_t padding() const {
        std::size_t sum = 0;
        for (const block& b : this->parts())
            sum += state_file::record_bytes(payload(b)) - payload(b);
        return sum;
    }
    bool direct() const { return !files_.empty() && files_[0]->direct(); } // past the cache?

private:
    struct slot {
        slot(memory& mem, std::size_t bytes) : room(mem, bytes, "buffer of states") {}
        record_buffer room;
        Queue io;
        handle way; // of the last that was asked of io
    };

    std::size_t payload(const block& b) const {
        return (1 + std::size_t(this->moments())) * b.size() * sizeof(W);
    }
    slot& of(std::size_t k) { return *slots_[k % slots_.size()]; }
    const state_file& file(std::size_t k) const { return *files_[this->parts()[k].piece]; }
    std::span<std::byte> record(const slot& s, std::size_t k) const {
        return s.room.record.first(state_file::record_bytes(payload(this->parts()[k])));
    }
    record_id id(std::size_t k) const {
        record_id i = ids_[k];
        i.written = written_[k];
        return i;
    }
    range bar(const char* what, std::size_t k) const {
        return range(seen_, lane::copy, what, join("\"part\":", k));
    }
    // "states of h.0.ln_1.weight to h.0.mlp.c_fc.bias"
    static std::string what(const layout& map, std::size_t begin, std::size_t n) {
        const std::string first = map.tensor_of(begin).name,
                          last = map.tensor_of(begin + n - 1).name;
        return join("states of ", first, first == last ? "" : " to " + last);
    }
    // In the ledger, states alone; padding is told apart.
    void book(bool in) {
        std::size_t n = 0;
        for (const block& b : this->parts()) n += b.size();
        const auto enter = [&](kind k, std::size_t bytes) {
            in ? mem_.books.add(k, place::file, bytes) : mem_.books.remove(k, place::file, bytes);
        };
        enter(kind::master, n * sizeof(W));
        enter(kind::moments, n * sizeof(W) * std::size_t(this->moments()));
    }

    memory& mem_;
    mpt::trace* seen_;
    std::vector<record_id> ids_;                     // of each part
    std::vector<std::uint64_t> written_;             // how often each was
    std::vector<std::unique_ptr<state_file>> files_; // of each piece
    std::vector<std::unique_ptr<slot>> slots_;
};

} // namespace mpt
