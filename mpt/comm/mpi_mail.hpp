// SPDX-License-Identifier: MIT
/// @file mpi_mail.hpp
/// Messages of MPI on their way, to and from several ranks.                tier 2, needs:
/// base/error.hpp
///
/// Idea     Everything is posted at once and then only tested, so that whoever waits can look at
///          the clock in between, and can say whose message is missing.
/// Breaks   MPI_Waitall: it knows no clock
/// Source   MPI 4.0, section 3.7 (nonblocking communication)
/// See      mpi_process.hpp (who waits), tests/comm/mpi_test.cpp
#pragma once
#include "mpt/base/error.hpp" // error, join

#include <cstddef>
#include <vector>

#ifdef MPT_HAS_MPI         // what CMake found: mpt::mpi sets it
#define OMPI_SKIP_MPICXX 1 // MPI's C++ bindings of old are not used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#undef OMPI_SKIP_MPICXX
#undef MPICH_SKIP_MPICXX

namespace mpt {

/// Throws MPI's own words where a call of it has failed.
inline void mpi_demand(int status, const char* call) {
    if (status == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(status, text, &length);
    throw error(join(call, ": ", text));
}

/// Not safe by itself: who uses it holds the lock of MPI.
class mpi_mail {
public:
    /// `bytes` fit in an int.
    void send(MPI_Comm comm, const void* data, std::size_t bytes, int to, int tag) {
        MPI_Request r;
        mpi_demand(MPI_Isend(data, int(bytes), MPI_BYTE, to, tag, comm, &r), "MPI_Isend");
        add(r, to, false);
    }
    void recv(MPI_Comm comm, void* data, std::size_t bytes, int from, int tag) {
        MPI_Request r;
        mpi_demand(MPI_Irecv(data, int(bytes), MPI_BYTE, from, tag, comm, &r), "MPI_Irecv");
        add(r, from, true);
    }

    /// All messages have left or arrived.
    bool done() {
        int all = 0;
        mpi_demand(MPI_Testall(int(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE),
                   "MPI_Testall");
        return all;
    }
    /// The ranks whose messages have not; one may be named twice.
    std::vector<int> missing() {
        std::vector<int> ranks;
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            int is_done = 0;
            mpi_demand(MPI_Test(&requests_[i], &is_done, MPI_STATUS_IGNORE), "MPI_Test");
            if (!is_done) ranks.push_back(peers_[i]);
        }
        return ranks;
    }
    /// Forgets all; what has not arrived may still be written to where that has begun.
    void drop() {
        for (std::size_t i = 0; i < requests_.size(); ++i)
            if (requests_[i] != MPI_REQUEST_NULL) {
                if (incoming_[i]) MPI_Cancel(&requests_[i]);
                MPI_Request_free(&requests_[i]);
            }
        *this = {};
    }

private:
    void add(MPI_Request r, int peer, bool incoming) {
        requests_.push_back(r);
        peers_.push_back(peer);
        incoming_.push_back(incoming);
    }

    std::vector<MPI_Request> requests_; // MPI_REQUEST_NULL: done
    std::vector<int> peers_;
    std::vector<bool> incoming_;
};

} // namespace mpt
#endif
