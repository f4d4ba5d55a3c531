// SPDX-License-Identifier: MIT
/// @file nccl_comm.hpp
/// A communicator of NCCL's: the caller's, or one of our own.              tier 2, needs:
/// base/error.hpp comm/communicator.hpp comm/launch_device.hpp comm/rendezvous.hpp
/// comm/timeout.hpp
///
/// Idea     NCCL's ranks find each other by 128 bytes that one of them has made. Those are carried
///          by TCP (torchrun, srun, a shell loop) or by another communicator (MPI, threads). The
///          device is chosen first: ncclCommInitRank takes the current one.
/// Costs    a second or so of start; NCCL's own buffers, some 100 MB of a GPU
/// Breaks   the bytes broadcast by MPI and ncclCommInitRank at once after: some MPIs deliver only
///          while MPI is called, so the last rank never gets them. A barrier stands between
/// Source   NCCL user guide, Creating a communicator; NVIDIA/cuDecomp pull request 24 (the barrier)
/// See      nccl.hpp (the verbs), docs/troubleshooting.md (NCCL_DEBUG), tests/comm/nccl_test.cpp
#pragma once
#include "mpt/base/error.hpp"         // check, error, join
#include "mpt/comm/communicator.hpp"  // communicator
#include "mpt/comm/launch_device.hpp" // launch, launch_device, require_gpu
#include "mpt/comm/rendezvous.hpp"    // share_by_tcp
#include "mpt/comm/timeout.hpp"       // timeout_seconds

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#ifdef MPT_HAS_NCCL // what CMake found: mpt::nccl sets it
#include <cuda_runtime.h>
#include <nccl.h>

namespace mpt {

inline void cuda_demand(cudaError_t e, const char* call) {
    check(e == cudaSuccess, call, ": ", cudaGetErrorString(e));
}

class nccl_comm {
public:
    /// The caller's, who destroys it after this.
    explicit nccl_comm(ncclComm_t of, double timeout = timeout_seconds())
        : comm_(of), timeout_(timeout) {
        demand(ncclCommUserRank(comm_, &rank_), "ncclCommUserRank");
        demand(ncclCommCount(comm_, &size_), "ncclCommCount");
    }
    /// Of the ranks of a launch, by TCP. Chooses this rank's device.
    explicit nccl_comm(const struct launch& my, double timeout = timeout_seconds())
        : rank_(my.rank), size_(my.world_size), ours_(true), timeout_(timeout) {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
        require_gpu(my, devices);
        cuda_demand(cudaSetDevice(launch_device(my, devices)), "cudaSetDevice");
        ncclUniqueId id = new_id(rank_ == 0);
        share_by_tcp(my, std::as_writable_bytes(std::span(id.internal)), timeout);
        init(id);
    }
    /// Of the ranks of another communicator, whose buffers are the host's. Each has chosen its
    /// device before.
    explicit nccl_comm(communicator& by, double timeout = timeout_seconds())
        : rank_(by.rank()), size_(by.size()), ours_(true), timeout_(timeout) {
        ncclUniqueId id = new_id(rank_ == 0);
        std::uint8_t bytes[sizeof id];
        std::memcpy(bytes, &id, sizeof id);
        by.broadcast(device_span<std::uint8_t>(bytes, sizeof bytes), 0);
        by.barrier();
        std::memcpy(&id, bytes, sizeof id);
        init(id);
    }
    ~nccl_comm() {
        if (ours_ && comm_) ncclCommDestroy(comm_);
    }
    nccl_comm(const nccl_comm&) = delete;
    nccl_comm& operator=(const nccl_comm&) = delete;

    ncclComm_t get() const { return comm_; }
    int rank() const { return rank_; }
    int size() const { return size_; }

    /// What a call of NCCL's has returned. One that goes on is waited for.
    void settle(ncclResult_t result, const std::string& where) {
        check(failed_.empty(), where, ": ", failed_);
        result = settled(result, where);
        if (result != ncclSuccess) fail(where, text(result));
    }
    /// The host waits until the stream has come to `event`.
    void await(cudaEvent_t event, const std::string& where) {
        const auto until = clock::now() + std::chrono::duration<double>(timeout_);
        for (auto nap = std::chrono::microseconds(20);;) {
            const cudaError_t e = cudaEventQuery(event);
            if (e == cudaSuccess) return;
            if (e != cudaErrorNotReady) fail(where, cudaGetErrorString(e));
            ncclResult_t state = ncclSuccess;
            ncclCommGetAsyncError(comm_, &state);
            if (state != ncclSuccess && state != ncclInProgress) fail(where, text(state));
            if (clock::now() > until)
                fail(where, join("waited ", timeout_,
                                 " s for the other ranks, and NCCL does not "
                                 "say for whom; raise MPT_TIMEOUT_S if one is only slow"));
            std::this_thread::sleep_for(nap);
            nap = std::min(2 * nap, std::chrono::microseconds(500));
        }
    }
    /// Nothing is called any more: what goes on is ended where this communicator is our own.
    void fail(const std::string& why) {
        if (failed_.empty()) failed_ = why;
        if (ours_ && comm_) ncclCommAbort(std::exchange(comm_, nullptr)); // its kernels end, too
    }

    /// Those that give the same color, in the order of (key, rank); a negative one: none.
    std::unique_ptr<nccl_comm> split(int color, int key) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
        ncclComm_t part = nullptr;
        settle(ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, nullptr),
               "split");
        if (!part) return nullptr;
        auto made = std::make_unique<nccl_comm>(part, timeout_);
        made->ours_ = true;
        return made;
#else
        throw error(join("split: NCCL ", NCCL_MAJOR, '.', NCCL_MINOR,
                         " has no ncclCommSplit; 2.18 has, for color ", color, " key ", key));
#endif
    }

private:
    using clock = std::chrono::steady_clock;

    static ncclUniqueId new_id(bool mine) {
        ncclUniqueId id{};
        if (mine) demand(ncclGetUniqueId(&id), "ncclGetUniqueId");
        return id;
    }

    void init(const ncclUniqueId& id) {
        const std::string where = join("rank ", rank_, ": ncclCommInitRank");
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0) // a call that returns, so that it has a deadline
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        settle(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config), where);
#else
        settle(ncclCommInitRank(&comm_, size_, id, rank_), where);
#endif
    }

    ncclResult_t settled(ncclResult_t result, const std::string& where) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0)
        const auto until = clock::now() + std::chrono::duration<double>(timeout_);
        while (result == ncclInProgress) {
            if (clock::now() > until)
                fail(where, join("waited ", timeout_,
                                 " s for the other ranks; raise MPT_TIMEOUT_S "
                                 "if one is only slow"));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (ncclCommGetAsyncError(comm_, &result) != ncclSuccess) return ncclInternalError;
        }
#endif
        return result;
    }

    std::string text(ncclResult_t e) const {
        std::string words = ncclGetErrorString(e);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 0)
        const char* const last = comm_ ? ncclGetLastError(comm_) : nullptr;
        if (last && *last) words += join(" (", last, ')');
#endif
        return words + "; NCCL_DEBUG=WARN says more";
    }
    static void demand(ncclResult_t e, const char* call) {
        check(e == ncclSuccess, call, ": ", ncclGetErrorString(e));
    }
    [[noreturn]] void fail(const std::string& where, const std::string& why) {
        fail(why);
        throw error(join(where, ": ", why));
    }

    ncclComm_t comm_ = nullptr;
    int rank_ = 0, size_ = 1;
    bool ours_ = false;
    double timeout_;
    std::string failed_;
};

} // namespace mpt
#endif
