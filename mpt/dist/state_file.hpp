// SPDX-License-Identifier: MIT
/// @file state_file.hpp
/// Records of states or weights in a file, each under a seal.              tier 6, needs:
/// base/crc32c.hpp base/direct_file.hpp base/disk.hpp base/error.hpp
///
/// Idea     A record is written whole and read whole. Its first bytes, the seal, say which run
///          wrote it, of what, how long it is, how often it had been written and what its bytes
///          add up to. A reader knows all of that beforehand: bytes that were cut, swapped with
///          others, left from another run or from an earlier step end the run before they are used.
/// Formula  record = seal (128 bytes) + payload + padding, to a multiple of 4096 bytes; the seal
///          holds the payload's length, so padding never counts as data
/// Costs    disk: 128 to 4223 bytes a record.  compute: a CRC of the payload, each way
/// Breaks   a kill in the middle of a write: its record is lost, and the run with it. These files
///          are memory, not a copy to fall back on: that is train/checkpoint.hpp
/// See      file_states.hpp, file_weights.hpp (who have them), tests/dist/state_file_test.cpp
#pragma once
#include "mpt/base/crc32c.hpp"      // crc32c
#include "mpt/base/direct_file.hpp" // direct_file
#include "mpt/base/disk.hpp"        // disk
#include "mpt/base/error.hpp"       // check

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mpt {

/// What a record is about; equal fields are what a reader demands.
struct record_id {
    std::string what;          // "states of h.0.ln_1.weight", in the file to 71 characters
    std::size_t number = 0;    // of the record, in its file
    std::uint64_t written = 0; // times: 1 after the first
};

class state_file {
public:
    static constexpr std::size_t seal_bytes = 128;

    /// Bytes that a record of so much payload takes, on the disk and in memory.
    static std::size_t record_bytes(std::size_t payload) {
        const std::size_t a = direct_file::alignment;
        return (seal_bytes + payload + a - 1) / a * a;
    }

    /// A new file. payloads: bytes of each record. run: a number that no other run has. Errors
    /// begin with `noun` and the path.
    state_file(const std::string& path, std::uint64_t run, std::vector<std::size_t> payloads,
               const disk& d = real_disk, const std::string& noun = "states")
        : file_(noun + ' ' + path, path, d), run_(run), payloads_(std::move(payloads)) {
        std::uint64_t at = 0;
        for (const std::size_t p : payloads_) {
            at_.push_back(at);
            at += record_bytes(p);
        }
    }

    /// record: record_bytes() of aligned memory, its payload behind the first seal_bytes.
    void write(const record_id& id, std::span<std::byte> record) const {
        const std::size_t payload = payloads_.at(id.number);
        std::memset(record.data() + seal_bytes + payload, 0, record.size() - seal_bytes - payload);
        const seal s = make(id, crc32c(record.subspan(seal_bytes, payload)));
        std::memcpy(record.data(), &s, sizeof s);
        naming(id, [&] { file_.write(at_[id.number], record); });
    }

    /// Throws, naming what and file, unless the record is the one asked for and whole.
    void read(const record_id& id, std::span<std::byte> record) const {
        naming(id, [&] { file_.read(at_.at(id.number), record); });
        check_seal(id, record);
        seal s;
        std::memcpy(&s, record.data(), sizeof s);
        const std::uint32_t sum = crc32c(record.subspan(seal_bytes, payloads_[id.number]));
        check(sum == s.payload_sum, refusal(id), "its bytes add up to ", sum, ", its seal says ",
              s.payload_sum, resume);
    }

    /// The part of it that costs nothing: is this the record? Of one in memory, once it was read.
    void check_seal(const record_id& id, std::span<const std::byte> record) const {
        seal s;
        std::memcpy(&s, record.data(), sizeof s);
        const seal w = make(id, s.payload_sum);
        check(std::memcmp(s.magic, w.magic, sizeof s.magic) == 0 && sum_of(s) == s.seal_sum,
              refusal(id), "is no record of states", resume);
        check(s.run == w.run, refusal(id), "was written by run ", s.run, ", this is run ", w.run,
              "; give each run an --offload-dir of its own");
        check(s.what_sum == w.what_sum && s.number == w.number && s.payload == w.payload,
              refusal(id), "holds record ", s.number, ", ", s.payload, " bytes of ",
              std::string(s.what), ", wanted ", w.payload, " bytes", resume);
        check(s.written == w.written, refusal(id), "was written ", s.written, " times, wanted ",
              w.written, resume);
    }

    bool direct() const { return file_.direct(); }

private:
    struct seal { // native byte order: nobody else reads it
        char magic[8];
        std::uint64_t run, written, payload, number;
        std::uint32_t what_sum, payload_sum;
        char what[72]; // for people; cut where longer
        std::uint32_t version, seal_sum;
    };
    static_assert(sizeof(seal) == seal_bytes);
    static constexpr const char* resume = "; resume from a checkpoint";

    static std::uint32_t sum_of(const seal& s) {
        return crc32c(std::as_bytes(std::span(&s, 1)).first(seal_bytes - sizeof s.seal_sum));
    }
    seal make(const record_id& id, std::uint32_t payload_sum) const {
        seal s{{'m', 'p', 't', 's', 't', 'a', 't', 'e'},
               run_,
               id.written,
               payloads_[id.number],
               id.number,
               crc32c(std::as_bytes(std::span(id.what))),
               payload_sum,
               {},
               1,
               0};
        std::memcpy(s.what, id.what.data(), std::min(id.what.size(), sizeof s.what - 1));
        s.seal_sum = sum_of(s);
        return s;
    }
    template <class F>
    static void naming(const record_id& id, F f) {
        try {
            f();
        } catch (const error& e) {
            throw error(join(e.what(), " (", id.what, ')'));
        }
    }
    std::string refusal(const record_id& id) const {
        return join(file_.name(), ": record ", id.number, " (", id.what, ") ");
    }

    direct_file file_;
    std::uint64_t run_;
    std::vector<std::size_t> payloads_;
    std::vector<std::uint64_t> at_; // where each record begins
};

} // namespace mpt
