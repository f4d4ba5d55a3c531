// SPDX-License-Identifier: MIT
/// @file nccl.hpp
/// Ranks that are GPUs.                                                    tier 2, needs:
/// comm/communicator.hpp comm/nccl_comm.hpp comm/nccl_stream.hpp comm/nccl_sums.hpp comm/slice.hpp
///
/// Idea     A verb is put into a stream, and wait() makes the stream of the caller's kernels wait:
///          the host waits for neither, so that kernels and messages overlap. Only gather(),
///          barrier() and what is made of them bring numbers to the host, and wait.
/// Formula  NCCL's sums have NCCL's bits, another order for another algorithm, and round 16 bits on
///          the way. With rank_order_sums each rank sends each owner its part, who sums as threads
///          and MPI do: their bits
/// Costs    traffic.hpp's, entered by its formulas: what NCCL moves is not seen. With
///          rank_order_sums N chunks of 4 MiB on the device
/// Breaks   a rank that never comes: kernels wait on the device, and are told of at the next
///          gather(), barrier() or all(). That another rank calls something else NCCL does not see
/// Source   NCCL user guide, Collective Operations
/// See      nccl_comm.hpp, kernels/rank_order_sum.cuh, tests/comm/nccl_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp" // communicator, collective
#include "mpt/comm/nccl_comm.hpp"    // nccl_comm, cuda_demand, <nccl.h>
#include "mpt/comm/nccl_stream.hpp"  // nccl_stream, nccl_type
#include "mpt/comm/nccl_sums.hpp"    // rank_order_sums
#include "mpt/comm/slice.hpp"        // slice, slice_of

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#ifdef MPT_HAS_NCCL
namespace mpt {

/// One GPU. Its verbs are called by one thread, whose current device it is.
class nccl_rank : public communicator {
public:
    /// `kernels`: the caller's stream, whose work before a verb the verb waits for.
    explicit nccl_rank(std::shared_ptr<nccl_comm> of, cudaStream_t kernels = nullptr,
                       rank_order_sums sums = {})
        : communicator(of->rank(), of->size()), stream_(std::move(of), kernels), sums_(sums) {}

    /// From here on verbs wait for the work of another stream, and it for them.
    std::function<void(void*)> follow(void* kernels) override {
        stream_.follow(static_cast<cudaStream_t>(kernels));
        return [this](void* event) {
            stream_.of().await(static_cast<cudaEvent_t>(event),
                               join("rank ", rank(), ": after collective ", number_));
        };
    }

    std::vector<double> gather(std::span<const double> mine) override {
        return meet(verb::agree, mine);
    }
    std::unique_ptr<communicator> split(int color, int key) override {
        launch_letters();
        std::shared_ptr<nccl_comm> part = stream_.of().split(color, key);
        return part ? std::make_unique<nccl_rank>(part, stream_.kernels(), sums_) : nullptr;
    }

protected:
    handle start(const collective& c) override {
        range bar(seen, lane::comm, to_string(c.what));
        sent.call(c.what, c.type);
        stream_.wait_for_kernels();
        const auto abandon = [this] { // a handle is dropped: this rank is about to end
            letters_.clear();
            stream_.of().fail(join("rank ", rank(), " ended with a collective on its way"));
        };
        if (c.what == verb::send || c.what == verb::recv) {
            letters_.push_back(c); // goes with those of the other direction, at the first wait
            if (c.what == verb::send) sent.message(c.what, c.type, c.count);
            return handle(
                [this] {
                    launch_letters();
                    stream_.kernels_wait(stream_.here());
                },
                abandon);
        }
        launch_letters();
        ++number_;
        perform(c);
        return handle([this, done = stream_.here()] { stream_.kernels_wait(done); }, abandon);
    }
    void run(const collective& c) override {
        if (c.what == verb::barrier)
            meet(verb::barrier, {}); // of the hosts
        else
            start(c).wait();
    }

private:
    std::string where(verb v) const {
        return join("rank ", rank(), ": ", to_string(v), ", collective ", number_);
    }

    void perform(const collective& c) {
        const std::size_t one = bytes_of(c.type), n = c.count;
        const ncclDataType_t t = nccl_type(c.type);
        const ncclComm_t comm = stream_.of().get();
        const cudaStream_t on = stream_.get();
        const auto* const in = static_cast<const std::byte*>(c.in);
        auto* const out = static_cast<std::byte*>(c.out);
        const bool all_reduce = c.what == verb::all_reduce;
        for (int r = 0; r < size(); ++r) { // the book, as of threads
            if (r == rank() || (c.what == verb::broadcast && c.peer != rank())) continue;
            sent.message(c.what, c.type, all_reduce ? slice_of(n, size(), r).size : n);
            if (all_reduce) sent.message(c.what, c.type, slice_of(n, size(), rank()).size);
        }
        std::vector<slice> parts;
        for (int r = 0; r < size(); ++r)
            parts.push_back(all_reduce ? slice_of(n, size(), r) : slice{n * std::size_t(r), n});
        const slice mine = parts[std::size_t(rank())];
        ncclResult_t done = ncclSuccess;
        switch (c.what) {
        case verb::all_reduce:
            if (sums_) {
                sum_mine(c, parts, out + mine.begin * one);
                share(c, parts);
            } else {
                done = ncclAllReduce(in, out, n, t, ncclSum, comm, on);
            }
            break;
        case verb::reduce_scatter:
            if (sums_)
                sum_mine(c, parts, out);
            else
                done = ncclReduceScatter(in, out, n, t, ncclSum, comm, on);
            break;
        case verb::all_gather:
            done = ncclAllGather(in, out, n, t, comm, on);
            break;
        case verb::broadcast:
            done = ncclBroadcast(in, out, n, t, c.peer, comm, on);
            break;
        default: // all_to_all
            stream_.together(where(c.what), [&] {
                for (int r = 0; r < size(); ++r) {
                    stream_.give(c.type, in + parts[std::size_t(r)].begin * one, n, r);
                    stream_.get(c.type, out + parts[std::size_t(r)].begin * one, n, r);
                }
            });
        }
        stream_.of().settle(done, where(c.what));
    }

    // ---- sums in rank order --------------------------------------------------------------------
    static constexpr std::size_t chunk = std::size_t(1) << 22; // bytes

    void sum_mine(const collective& c, const std::vector<slice>& parts, std::byte* out) {
        const std::size_t one = bytes_of(c.type), step = chunk / one;
        const auto* const in = static_cast<const std::byte*>(c.in);
        const slice mine = parts[std::size_t(rank())];
        std::size_t longest = 0;
        for (const slice& p : parts) longest = std::max(longest, p.size);
        auto* const others = stream_.room(std::size_t(size()) * chunk);
        for (std::size_t at = 0; at < longest; at += step) {
            const auto of = [&](const slice& p) { // elements of this chunk
                return p.size > at ? std::min(step, p.size - at) : 0;
            };
            stream_.together(where(c.what), [&] {
                for (int r = 0; r < size(); ++r) {
                    if (r == rank()) continue;
                    const slice theirs = parts[std::size_t(r)];
                    stream_.give(c.type, in + (theirs.begin + at) * one, of(theirs), r);
                    stream_.get(c.type, others + std::size_t(r) * chunk, of(mine), r);
                }
            });
            sums_(c.type, in + (mine.begin + at) * one, rank(), others, step, size(),
                  out + at * one, of(mine), stream_.get());
        }
    }
    // Everybody's part, from its owner: parts may differ in size, which ncclAllGather does not do.
    void share(const collective& c, const std::vector<slice>& parts) {
        auto* const out = static_cast<std::byte*>(c.out);
        const slice mine = parts[std::size_t(rank())];
        const std::size_t one = bytes_of(c.type);
        stream_.together(where(c.what), [&] {
            for (int r = 0; r < size(); ++r) {
                if (r == rank()) continue;
                const slice theirs = parts[std::size_t(r)];
                stream_.give(c.type, out + mine.begin * one, mine.size, r);
                stream_.get(c.type, out + theirs.begin * one, theirs.size, r);
            }
        });
    }

    // ---- between two ranks ---------------------------------------------------------------------
    void launch_letters() {
        if (letters_.empty()) return;
        const std::vector<collective> now = std::exchange(letters_, {});
        stream_.together(where(now.front().what), [&] {
            for (const collective& c : now) {
                if (c.what == verb::send)
                    stream_.give(c.type, c.in, c.count, c.peer);
                else
                    stream_.get(c.type, c.out, c.count, c.peer);
            }
        });
    }

    // ---- with the hosts ------------------------------------------------------------------------
    // The numbers of all, on the host; with them everything before has come to its end.
    std::vector<double> meet(verb v, std::span<const double> mine) {
        launch_letters();
        ++number_;
        sent.call(v, v == verb::agree ? element::fp64 : element::byte);
        const std::size_t n = std::max<std::size_t>(mine.size(), 1), ranks = std::size_t(size());
        if (v == verb::agree)
            for (int r = 0; r < size() - 1; ++r) sent.message(v, element::fp64, mine.size());
        std::vector<double> said(n, 0), all(n * ranks);
        std::copy(mine.begin(), mine.end(), said.begin());
        auto* const on = reinterpret_cast<double*>(stream_.room(n * (ranks + 1) * sizeof(double)));
        cuda_demand(cudaMemcpyAsync(on, said.data(), n * sizeof(double), cudaMemcpyHostToDevice,
                                    stream_.get()),
                    "cudaMemcpyAsync");
        stream_.of().settle(
            ncclAllGather(on, on + n, n, ncclFloat64, stream_.of().get(), stream_.get()), where(v));
        stream_.of().await(stream_.here().get(), where(v)); // the copy alone would wait for ever
        cuda_demand(cudaMemcpyAsync(all.data(), on + n, all.size() * sizeof(double),
                                    cudaMemcpyDeviceToHost, stream_.get()),
                    "cudaMemcpyAsync");
        cuda_demand(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
        all.resize(mine.size() * ranks);
        return all;
    }

    nccl_stream stream_;
    rank_order_sums sums_;
    std::vector<collective> letters_; // not yet given to NCCL
    long number_ = 0;                 // of the collective that goes on, from 1
};

} // namespace mpt
#endif
