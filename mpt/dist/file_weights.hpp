// SPDX-License-Identifier: MIT
/// @file file_weights.hpp
/// A rank's part of the weights in files, behind a few buffers.            tier 6, needs:
/// base/memory.hpp base/trace.hpp comm/handle.hpp comm/progress.hpp dist/file_settings.hpp
/// dist/partition.hpp dist/state_file.hpp dist/transfers.hpp dist/weight_place.hpp
///
/// Idea     A file a unit, a record a file: the rank's shard. While a unit computes and the next
///          is gathered, the one behind is read; an update writes the new weights of a unit into a
///          buffer, which goes to the disk while the next unit's are made. What happens to the
///          files happens in order, on one thread: nothing is read before it was written.
/// Formula  file bytes = sizeof(T) a parameter owned, + seals and padding (state_file.hpp);
///          host bytes = B (record of the largest shard + 4096), for a model of any depth.
///          a step reads a record for each gathering and writes each once
/// Breaks   B = 1: no write under an update. A gathering that was not expected waits for the disk.
///          A kill: the files are of no use to the next run, as in file_states.hpp
/// Source   Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857, sections 6.2, 6.3
/// See      weight_place.hpp, zero3.hpp, tests/dist/file_weights_test.cpp
#pragma once
#include "mpt/base/memory.hpp"        // memory
#include "mpt/base/trace.hpp"         // trace, range
#include "mpt/comm/handle.hpp"        // handle
#include "mpt/comm/progress.hpp"      // progress
#include "mpt/dist/file_settings.hpp" // file_settings, record_buffer, new_run
#include "mpt/dist/partition.hpp"     // partition
#include "mpt/dist/state_file.hpp"    // state_file, record_id
#include "mpt/dist/transfers.hpp"     // transfers
#include "mpt/dist/weight_place.hpp"  // weight_place

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mpt {

template <class T>
class file_weights : public weight_place<T> {
public:
    /// `copies` outlives it. Of the settings, `part` is not used.
    file_weights(memory& mem, const layout& map, const partition& cut, int rank, transfers& copies,
                 const file_settings& s, std::uint64_t run = new_run())
        : mem_(mem), copies_(copies), seen_(s.seen), piece_(map.units.size(), none) {
        check(s.buffers > 0, "weights: ", s.buffers, " buffers, wanted 1 or more");
        this->mine_ = cut.template pieces_of<T>(
            rank, [&](int u) { return device_span<T>(nullptr, cut.shard(u)); });
        std::size_t largest = 0;
        for (int u = 0; u < cut.units(); ++u) {
            if (cut.owned(u, rank) == 0) continue;
            piece_[std::size_t(u)] = int(files_.size());
            const std::size_t bytes = cut.owned(u, rank) * sizeof(T);
            const std::string path = join(s.folder, "/rank", s.rank, "-unit", u, ".weights");
            files_.push_back(
                {u, map.units[std::size_t(u)].name,
                 std::make_unique<state_file>(path, run, std::vector{bytes}, s.calls, "weights")});
            largest = std::max(largest, state_file::record_bytes(bytes));
        }
        for (int i = 0; i < s.buffers; ++i) slots_.push_back(std::make_unique<slot>(mem, largest));
        mem_.books.add(kind::weights, place::file, size_of(this->mine_) * sizeof(T));
    }
    ~file_weights() override {
        slots_.clear(); // nothing is under way any more
        mem_.books.remove(kind::weights, place::file, size_of(this->mine_) * sizeof(T));
    }

    void expect(int unit) override {
        if (piece_[std::size_t(unit)] != none && !holder(unit)) read(unit);
    }
    void fetch(int unit, device_span<T> to) override {
        const int p = piece_[std::size_t(unit)];
        if (p == none) return;
        slot* s = holder(unit);
        if (!s) s = &read(unit);
        s->way.wait();
        s->unit = none;
        of(p).data->check_seal(id(p), record(*s, p)); // it is the one: the read is over
        const device_span<T> from(s->room.template payload<T>(), size(p));
        // started, not called: kernels of until now may still use the memory of `to`
        copies_.start([&] { copies_.template in<T>(to.first(from.size()), from); }).wait();
    }

    device_span<T> room(std::size_t, const block& part) override {
        if (part.begin == 0) {
            for (const auto& s : slots_) s->unit = none; // what was read is the old
            filled_ = &next();
        }
        return {filled_->room.template payload<T>() + part.begin, part.size()};
    }
    void send(std::size_t, const block& part) override {
        const int p = int(part.piece);
        if (part.end < size(p)) return; // more of this unit comes
        ++of(p).written;
        filled_->way = io_.start(
            [this, p, was = id(p), bytes = record(*filled_, p)] {
                const range r = bar("write", p);
                of(p).data->write(was, bytes);
            },
            [] {});
    }
    void settle() override {
        for (const auto& s : slots_) s->way.wait();
    }

    /// Bytes of the files that are no weights: seals and padding.
    std::size_t padding() const {
        std::size_t sum = 0;
        for (std::size_t p = 0; p < files_.size(); ++p)
            sum += state_file::record_bytes(size(int(p)) * sizeof(T)) - size(int(p)) * sizeof(T);
        return sum;
    }

private:
    static constexpr int none = -1;
    struct file {
        int unit;
        std::string name; // of the unit
        std::unique_ptr<state_file> data;
        std::uint64_t written = 0; // times
    };
    struct slot {
        slot(memory& mem, std::size_t bytes) : room(mem, bytes, "buffer of weights") {}
        record_buffer room;
        int unit = none; // whose weights are here, or are being read
        handle way;      // of the last read or write
    };

    file& of(int p) { return files_[std::size_t(p)]; }
    std::size_t size(int p) const { return this->mine_[std::size_t(p)].data.size(); }
    std::span<std::byte> record(const slot& s, int p) const {
        return s.room.record.first(state_file::record_bytes(size(p) * sizeof(T)));
    }
    record_id id(int p) { return {"weights of " + of(p).name, 0, of(p).written}; }
    range bar(const char* what, int p) {
        return range(seen_, lane::copy, what, join("\"unit\":", of(p).unit));
    }

    slot* holder(int unit) {
        for (const auto& s : slots_)
            if (s->unit == unit) return s.get();
        return nullptr;
    }
    // A buffer that nothing is under way in; one that nobody waits for, if there is one.
    slot& next() {
        std::size_t at = ++turn_ % slots_.size();
        for (std::size_t i = 0; i < slots_.size() && slots_[at]->unit != none; ++i)
            at = ++turn_ % slots_.size();
        slots_[at]->way.wait();
        slots_[at]->unit = none;
        return *slots_[at];
    }
    slot& read(int unit) {
        const int p = piece_[std::size_t(unit)];
        check(of(p).written > 0, "weights of ", of(p).name,
              ": nothing was written yet; fill them first (begin)");
        slot& s = next();
        s.unit = unit;
        std::fill_n(s.room.record.begin(), state_file::seal_bytes, std::byte(0xFF)); // nobody's
        s.way = io_.start(
            [this, p, wanted = id(p), bytes = record(s, p)] {
                const range r = bar("read", p);
                of(p).data->read(wanted, bytes);
            },
            [] {});
        return s;
    }

    memory& mem_;
    transfers& copies_;
    mpt::trace* seen_;
    std::vector<int> piece_;  // of a unit, or none
    std::vector<file> files_; // of a piece
    progress io_;
    std::vector<std::unique_ptr<slot>> slots_;
    std::size_t turn_ = 0;
    slot* filled_ = nullptr; // by the update at hand
};

} // namespace mpt
