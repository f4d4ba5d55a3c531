// SPDX-License-Identifier: MIT
/// @file mpi_group.hpp
/// Ranks of an MPI job that call verbs together: who is missing, who differs.  tier 2, needs:
/// comm/communicator.hpp comm/mpi_process.hpp
///
/// Idea     Before data move, all ranks of a group tell each other what they call: 40 bytes, from
///          which each sees who calls something else, and who never comes. A group is a list of
///          ranks and four tags, and no call of MPI's makes one: so none waits without a deadline.
/// Costs    N - 1 messages of 40 bytes a rank and verb, not in traffic.hpp's books
/// Breaks   verbs in another order on one rank: all end with the words of both
/// See      mpi.hpp (the verbs), tests/comm/mpi_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp" // collective
#include "mpt/comm/mpi_process.hpp"  // mpi_process, mpi_mail

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#ifdef MPT_HAS_MPI
namespace mpt {

class mpi_group {
public:
    enum kind { calls, data, letter_calls, letter_data };

    /// All ranks of the job.
    explicit mpi_group(mpi_process& process)
        : process_(process), names_(std::size_t(process.size())), rank_(process.rank()),
          calls_(names_.size()) {
        std::iota(names_.begin(), names_.end(), 0);
    }

    int rank() const { return rank_; }
    int size() const { return int(names_.size()); }

    // ---- verbs of all --------------------------------------------------------------------------
    /// Returns when all ranks have come and call the same.
    void agree(const collective& c) {
        const call mine{++number_, std::int64_t(c.count), int(c.what), int(c.type), c.peer};
        require_going(c);
        std::vector<call> said(names_.size());
        mpi_mail mail;
        for (int r = 0; r < size(); ++r) {
            if (r == rank_) continue;
            recv(mail, r, calls, &said[std::size_t(r)], sizeof(call));
            send(mail, r, calls, &mine, sizeof(call));
        }
        said[std::size_t(rank_)] = mine;
        const mpi_loss loss = process_.wait(mail);
        for (std::size_t r = 0; r < said.size(); ++r)
            if (said[r].number > 0) calls_[r] = said[r];
        if (loss.kind != mpi_loss::none) fault(where(c), loss);
        for (int r = 1; r < size(); ++r) {
            const call &a = said[0], &b = said[std::size_t(r)];
            if (a.what != b.what || a.type != b.type || a.count != b.count || a.peer != b.peer)
                fault(join("collective ", number_, ": rank ", name(0), " calls ", text(a),
                           ", rank ", name(r), ' ', text(b), "; all ranks must call the same"));
        }
    }
    /// Bytes to or from rank r, in messages of at most 64 MiB: MPI counts them in an int.
    void send(mpi_mail& mail, int r, kind k, const void* from, std::size_t bytes) {
        const auto* const x = static_cast<const std::byte*>(from);
        for (std::size_t at = 0; at < bytes; at += most)
            process_.send(mail, x + at, std::min(most, bytes - at), name(r), tag(context_, k));
    }
    void recv(mpi_mail& mail, int r, kind k, void* to, std::size_t bytes) {
        auto* const x = static_cast<std::byte*>(to);
        for (std::size_t at = 0; at < bytes; at += most)
            process_.recv(mail, x + at, std::min(most, bytes - at), name(r), tag(context_, k));
    }
    /// Until all of `mail` is done; throws where it never will be.
    void finish(mpi_mail& mail, const collective& c) {
        const mpi_loss loss = process_.wait(mail);
        if (loss.kind != mpi_loss::none) fault(where(c), loss);
    }
    /// Something started is dropped: this rank is about to end.
    void abandon() {
        process_.fail(join("rank ", name(rank_), " ended with a collective on its way"));
    }

    // ---- between two ranks ---------------------------------------------------------------------
    handle post(const collective& c) {
        require_going(c);
        struct letter {
            call said;
            mpi_mail mail;
        };
        const auto l = std::make_shared<letter>(
            letter{{0, std::int64_t(c.count), int(c.what), int(c.type)}, {}});
        send(l->mail, c.peer, letter_calls, &l->said, sizeof(call));
        send(l->mail, c.peer, letter_data, c.in, c.count * bytes_of(c.type));
        return handle([this, l, c] { finish(l->mail, c); },
                      [this, l] {
                          abandon();
                          process_.wait(l->mail); // gives it up
                      });
    }
    void take(const collective& c) {
        require_going(c);
        call said;
        mpi_mail mail;
        recv(mail, c.peer, letter_calls, &said, sizeof(call));
        finish(mail, c);
        if (said.count != std::int64_t(c.count) || said.type != int(c.type))
            fault(join("recv of ", c.count, ' ', to_string(c.type), " from rank ", name(c.peer),
                       ", who sends ", said.count, ' ', to_string(element(said.type)),
                       "; both must say the same"));
        recv(mail, c.peer, letter_data, c.out, c.count * bytes_of(c.type));
        finish(mail, c);
    }

    // ---- groups of the group -------------------------------------------------------------------
    /// What a rank says before a split, and what it then has: nothing for a negative color.
    std::vector<double> wish(int color, int key) const {
        return {double(color), double(key), double(process_.groups)};
    }
    std::unique_ptr<mpi_group> part(std::span<const double> wishes) {
        const auto said = [&](int r, int i) {
            return int(wishes[3 * std::size_t(r) + std::size_t(i)]);
        };
        std::vector<int> chosen; // ranks of my color
        int context = 0;         // above all that any of these ranks has
        for (int r = 0; r < size(); ++r) {
            if (said(r, 0) == said(rank_, 0)) chosen.push_back(r);
            context = std::max(context, said(r, 2));
        }
        check(tag(context, letter_data) <= process_.highest_tag(), "split: group ", context,
              " of this job, and MPI has tags up to ", process_.highest_tag(),
              "; split once and keep the groups");
        process_.groups = context + 1;
        if (said(rank_, 0) < 0) return nullptr;
        std::sort(chosen.begin(), chosen.end(), [&](int a, int b) {
            return std::pair(said(a, 1), a) < std::pair(said(b, 1), b);
        });
        auto group = std::make_unique<mpi_group>(process_);
        group->rank_ = int(std::find(chosen.begin(), chosen.end(), rank_) - chosen.begin());
        group->context_ = context;
        group->names_.clear();
        for (const int r : chosen) group->names_.push_back(name(r));
        group->calls_.assign(chosen.size(), {});
        return group;
    }

private:
    static constexpr std::size_t most = std::size_t(1) << 26;
    struct call { // what a rank says before its data
        std::int64_t number = 0, count = 0;
        std::int32_t what = 0, type = 0, peer = -1, unused = 0;
    };

    int name(int r) const { return names_[std::size_t(r)]; }
    static int tag(int context, int kind) { return 1 + 4 * context + kind; } // 0: last words

    static std::string text(const call& c) {
        return join(to_string(verb(c.what)), " of ", c.count, ' ', to_string(element(c.type)),
                    c.peer < 0 ? std::string() : join(" of rank ", c.peer));
    }
    std::string where(const collective& c) const {
        const bool pair = c.what == verb::send || c.what == verb::recv;
        return join("rank ", name(rank_), ": ", to_string(c.what),
                    pair ? join(c.what == verb::send ? " to" : " from", " rank ", name(c.peer))
                         : join(", collective ", number_));
    }

    void require_going(const collective& c) const {
        const std::string failed = process_.failed();
        check(failed.empty(), where(c), ": ", failed);
    }
    [[noreturn]] void fault(const std::string& what) {
        process_.fail(what);
        throw error(what);
    }
    [[noreturn]] void fault(const std::string& where, const mpi_loss& loss) {
        if (loss.kind == mpi_loss::ended) fault(join(where, ": ", loss.why));
        std::string ranks;
        for (int r = 0; r < size(); ++r) {
            const auto& m = loss.missing;
            if (std::find(m.begin(), m.end(), name(r)) != m.end())
                ranks += join(ranks.empty() ? "" : ", ", "rank ", name(r), " (after ",
                              calls_[std::size_t(r)].number, " collectives)");
        }
        if (loss.kind == mpi_loss::left) fault(join(where, ": ", ranks, " has left"));
        fault(join(where, ": waited ", process_.timeout(), " s for ", ranks,
                   "; it is stuck or slow, raise MPT_TIMEOUT_S if it is only slow"));
    }

    mpi_process& process_;
    std::vector<int> names_;  // of these ranks, in the job
    int rank_;                // this one, in the group
    int context_ = 0;         // the group's number: two with a pair of ranks in common differ
    std::int64_t number_ = 0; // of the collective that goes on, from 1
    std::vector<call> calls_; // the last that each rank has said
};

} // namespace mpt
#endif
