// SPDX-License-Identifier: MIT
/// @file mpi_process.hpp
/// A process of an MPI job: waits with a deadline, an end that all hear of.  tier 2, needs:
/// base/error.hpp comm/mpi_mail.hpp comm/timeout.hpp
///
/// Idea     MPI waits for ever. So nothing here waits inside MPI: requests are tested, with sleeps
///          in between, until they are done, too late, or known to be in vain because a rank has
///          said that it ended. Threads take turns at MPI under one lock: MPI_THREAD_SERIALIZED.
/// Costs    a late message is seen up to 0.3 ms after it came; a waiting rank needs no core
/// Breaks   one rank that ends by an error and says nothing: the program's last catch has to call
///          end_job, which tells the others and ends the job. Killed ranks the launcher notices
/// Source   MPI 4.0, section 3.7 (nonblocking communication), and MPI_Init_thread
/// See      mpi.hpp (the verbs), tests/comm/mpi_test.cpp
#pragma once
#include "mpt/base/error.hpp"    // check, join
#include "mpt/comm/mpi_mail.hpp" // mpi_mail, mpi_demand, <mpi.h>
#include "mpt/comm/timeout.hpp"  // timeout_seconds

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#ifdef MPT_HAS_MPI // what CMake found: mpt::mpi sets it
namespace mpt {

/// Why a wait was in vain.
struct mpi_loss {
    enum { none, late, left, ended } kind = none;
    std::vector<int> missing = {}; // whose messages it lacked
    std::string why = {};          // ended: who, and of what
};

class mpi_process {
public:
    /// Calls MPI_Init. One a program, on its first thread.
    explicit mpi_process(double timeout = timeout_seconds()) : ours_(true), timeout_(timeout) {
        int level = 0;
        mpi_demand(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level),
                   "MPI_Init_thread");
        check(level >= MPI_THREAD_SERIALIZED, "MPI gives thread level ", level, ", wanted ",
              MPI_THREAD_SERIALIZED,
              " (MPI_THREAD_SERIALIZED); take one that is built with threads");
        meet(MPI_COMM_WORLD);
    }
    /// In a program that has called MPI_Init_thread itself; all ranks of `of` call this. Such a
    /// program needs MPI_THREAD_MULTIPLE if it calls MPI while something started here goes on.
    explicit mpi_process(MPI_Comm of, double timeout = timeout_seconds()) : timeout_(timeout) {
        meet(of);
    }
    mpi_process(const mpi_process&) = delete;
    mpi_process& operator=(const mpi_process&) = delete;

    /// Waits until the others have come to their end, too. After an error it does not: then the job
    /// is about to be ended.
    ~mpi_process() {
        if (std::uncaught_exceptions() > 0) fail("an exception left its program");
        notify(failed());
        if (failed().empty()) hear_all(timeout_);
        if (!failed().empty()) return; // MPI_Finalize would wait for ranks that are being ended
        MPI_Comm_free(&comm_);
        if (ours_) MPI_Finalize();
    }

    int rank() const { return rank_; }
    int size() const { return size_; }
    double timeout() const { return timeout_; }

    /// For the program's last catch: tells the others `why`, leaves them a second for words of
    /// their own, and ends the job with `status`.
    void end_job(const std::string& why, int status = 1) {
        fail(why);
        notify(why);
        hear_all(1);
        MPI_Abort(comm_, status);
    }

    // ---- for mpi_rank --------------------------------------------------------------------------
    void send(mpi_mail& mail, const void* data, std::size_t bytes, int to, int tag) {
        const std::lock_guard hold(lock_);
        mail.send(comm_, data, bytes, to, tag);
    }
    void recv(mpi_mail& mail, void* data, std::size_t bytes, int from, int tag) {
        const std::lock_guard hold(lock_);
        mail.recv(comm_, data, bytes, from, tag);
    }

    /// Until all of `mail` is done. What is not by the end of the deadline, or of hope, is dropped.
    mpi_loss wait(mpi_mail& mail) {
        const auto begun = clock::now();
        auto nap = std::chrono::microseconds(20);
        while (!done(mail)) { // the other may be at it this very moment: a sleep takes longer
            if (clock::now() < begun + std::chrono::microseconds(50)) continue;
            listen();
            mpi_loss loss = lost(mail, begun);
            if (loss.kind != mpi_loss::none) {
                give_up(mail);
                return loss;
            }
            std::this_thread::sleep_for(nap);
            nap = std::min(2 * nap, std::chrono::microseconds(250));
        }
        mail = {};
        return {};
    }

    /// All waits are in vain from now on.
    void fail(const std::string& why) {
        const std::lock_guard hold(lock_);
        if (failed_.empty()) failed_ = why.empty() ? "something unknown" : why;
    }
    std::string failed() const {
        const std::lock_guard hold(lock_);
        return failed_;
    }
    int highest_tag() const { return highest_tag_; }
    int groups = 1; // numbers that mpi_rank has given to groups of ranks

private:
    using clock = std::chrono::steady_clock;
    static constexpr int notice_tag = 0;
    static constexpr int notice_bytes = 1024;

    void meet(MPI_Comm of) { // a communicator of our own: no message is taken for another's
        mpi_demand(MPI_Comm_dup(of, &comm_), "MPI_Comm_dup");
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
        heard_.resize(std::size_t(size_));
        int* tag = nullptr;
        int found = 0;
        MPI_Comm_get_attr(comm_, MPI_TAG_UB, &tag, &found);
        highest_tag_ = found ? *tag : 32767; // the least that MPI promises
    }

    bool done(mpi_mail& mail) {
        const std::lock_guard hold(lock_);
        return mail.done();
    }

    mpi_loss lost(mpi_mail& mail, clock::time_point begun) {
        const std::lock_guard hold(lock_);
        if (!failed_.empty()) return {mpi_loss::ended, {}, failed_};
        const std::vector<int> missing = mail.missing();
        const auto now = clock::now();
        mpi_loss left{mpi_loss::left};
        for (const int peer : missing) { // the last message may come after the last word
            const auto& word = heard_[std::size_t(peer)];
            if (word && now > *word + std::chrono::milliseconds(500)) left.missing.push_back(peer);
        }
        if (!left.missing.empty()) return left;
        if (!missing.empty() && now > begun + std::chrono::duration<double>(timeout_))
            return {mpi_loss::late, missing};
        return {};
    }

    // What has begun to arrive gets a moment to end.
    void give_up(mpi_mail& mail) {
        for (int i = 0; i < 20 && !done(mail); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::lock_guard hold(lock_);
        mail.drop();
    }

    // ---- last words ----------------------------------------------------------------------------
    // "": this rank has left as it should.
    void notify(const std::string& why) {
        const std::lock_guard hold(lock_);
        if (notified_) return;
        notified_ = true;
        std::snprintf(words_, sizeof words_, "%s", why.c_str());
        for (int r = 0; r < size_; ++r) {
            MPI_Request sent; // short enough to leave at once; words_ lives as long as the process
            if (r != rank_) {
                MPI_Isend(words_, notice_bytes, MPI_BYTE, r, notice_tag, comm_, &sent);
                MPI_Request_free(&sent);
            }
        }
    }
    void listen() {
        const std::lock_guard hold(lock_);
        for (;;) {
            int there = 0;
            MPI_Status from;
            MPI_Iprobe(MPI_ANY_SOURCE, notice_tag, comm_, &there, &from);
            if (!there) return;
            char words[notice_bytes];
            MPI_Recv(words, notice_bytes, MPI_BYTE, from.MPI_SOURCE, notice_tag, comm_,
                     MPI_STATUS_IGNORE);
            heard_[std::size_t(from.MPI_SOURCE)] = clock::now();
            if (words[0] && failed_.empty())
                failed_ = join("rank ", from.MPI_SOURCE, " ended: ", words);
        }
    }
    void hear_all(double seconds) {
        const auto until = clock::now() + std::chrono::duration<double>(seconds);
        for (;;) {
            listen();
            const auto missing = std::count(heard_.begin(), heard_.end(), std::nullopt) - 1;
            if (missing <= 0 || clock::now() > until) return; // all but this one
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

    MPI_Comm comm_ = MPI_COMM_NULL;
    bool ours_ = false; // MPI_Finalize is
    double timeout_;
    int rank_ = 0, size_ = 1, highest_tag_ = 0;
    mutable std::mutex lock_; // whoever calls MPI
    std::string failed_;
    std::vector<std::optional<clock::time_point>> heard_; // the last word of each rank, when
    bool notified_ = false;
    char words_[notice_bytes] = "";
};

} // namespace mpt
#endif
