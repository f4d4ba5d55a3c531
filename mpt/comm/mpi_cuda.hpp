// SPDX-License-Identifier: MIT
/// @file mpi_cuda.hpp
/// Ranks as MPI processes with their buffers on a GPU.                     tier 2, needs:
/// base/error.hpp comm/communicator.hpp comm/mpi.hpp
///
/// Idea     The sums are taken on the host, in rank order, with the bits of threads. So what a verb
///          reads is copied to pinned memory of the host, and what it makes is copied back, on a
///          stream of its own that waits for the caller's kernels.
/// Costs    pinned memory as large as the largest `in` and `out`; twice over the bus; the host
///          waits at wait(), and in send()
/// Breaks   a device pointer handed to an MPI that is not built for CUDA: it ends the process. Here
///          none is handed to any MPI; ranks whose GPUs should speak to each other use nccl.hpp
/// Source   CUDA programming guide, Page-Locked Host Memory
/// See      nccl.hpp, tests/comm/mpi_cuda_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // check
#include "mpt/comm/communicator.hpp" // collective, handle
#include "mpt/comm/mpi.hpp"          // mpi_rank, mpi_process

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#if defined(MPT_HAS_MPI) && defined(MPT_HAS_CUDA)
#include <cuda_runtime.h>

namespace mpt {

class mpi_cuda_rank : public mpi_rank {
public:
    /// `kernels`: the caller's stream, whose work before a verb the verb waits for. On the device
    /// that is the current one.
    explicit mpi_cuda_rank(mpi_process& process, cudaStream_t kernels = nullptr)
        : mpi_cuda_rank(std::make_unique<mpi_group>(process), kernels) {}
    mpi_cuda_rank(std::unique_ptr<mpi_group> of, cudaStream_t kernels)
        : mpi_rank(std::move(of)), kernels_(kernels) {
        demand(cudaGetDevice(&device_), "cudaGetDevice");
        demand(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    ~mpi_cuda_rank() override {
        finish_started(); // it uses what follows
        cudaStreamDestroy(stream_);
    }

    /// From here on verbs wait for the work of another stream.
    std::function<void(void*)> follow(void* kernels) override {
        kernels_ = static_cast<cudaStream_t>(kernels);
        return {}; // nothing in a stream waits for ranks: the host does, at wait()
    }
    std::unique_ptr<communicator> split(int color, int key) override {
        std::unique_ptr<mpi_group> part = part_of(color, key);
        return part ? std::make_unique<mpi_cuda_rank>(std::move(part), kernels_) : nullptr;
    }

protected:
    handle start(const collective& c) override {
        if (c.what != verb::send && c.what != verb::recv) {
            mark();
            return mpi_rank::start(c);
        }
        const std::size_t bytes = c.count * bytes_of(c.type);
        const auto kept = std::make_shared<pinned>();
        collective on_host = c;
        if (c.what == verb::send) {
            on_host.in = kept->room(bytes);
            mark();
            wait_for_mark();
            copy(kept->room(bytes), c.in, bytes);
        } else {
            on_host.out = kept->room(bytes);
        }
        const auto going = std::make_shared<handle>(mpi_rank::start(on_host));
        return handle([this, c, bytes, kept, going] {
            going->wait();
            if (c.what == verb::recv) copy(c.out, kept->room(bytes), bytes);
        });
    }
    void run(const collective& c) override {
        mark();
        mpi_rank::run(c);
    }
    void perform(const collective& c) override { // on this thread, or on that of what was started
        demand(cudaSetDevice(device_), "cudaSetDevice");
        wait_for_mark();
        if (c.what == verb::agree || c.what == verb::barrier) return mpi_rank::perform(c);
        const std::size_t part = c.count * bytes_of(c.type), all = part * std::size_t(size());
        const bool to_all = c.what == verb::all_gather || c.what == verb::all_to_all;
        const bool of_all = c.what == verb::reduce_scatter || c.what == verb::all_to_all;
        const std::size_t in_bytes = of_all ? all : part, out_bytes = to_all ? all : part;
        collective on_host = c;
        on_host.in = in_.room(in_bytes);
        on_host.out =
            c.in == c.out && !to_all && !of_all ? in_.room(in_bytes) : out_.room(out_bytes);
        copy(in_.room(in_bytes), c.in, in_bytes);
        mpi_rank::perform(on_host);
        copy(c.out, on_host.out, out_bytes);
    }

private:
    // Memory of the host that a device reads and writes by itself.
    class pinned {
    public:
        pinned() = default;
        pinned(const pinned&) = delete;
        pinned& operator=(const pinned&) = delete;
        ~pinned() { cudaFreeHost(at_); }
        void* room(std::size_t bytes) {
            if (bytes > bytes_) {
                cudaFreeHost(std::exchange(at_, nullptr));
                bytes_ = 0;
                demand(cudaMallocHost(&at_, bytes), "cudaMallocHost");
                bytes_ = bytes;
            }
            return at_;
        }

    private:
        void* at_ = nullptr;
        std::size_t bytes_ = 0;
    };

    static void demand(cudaError_t e, const char* call) {
        check(e == cudaSuccess, call, ": ", cudaGetErrorString(e));
    }

    // The kernels that are under way now; verbs are done in the order in which they were called.
    void mark() {
        cudaEvent_t e = nullptr;
        demand(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate");
        std::shared_ptr<CUevent_st> here(e, cudaEventDestroy);
        demand(cudaEventRecord(e, kernels_), "cudaEventRecord");
        const std::lock_guard hold(lock_);
        marks_.push_back(std::move(here));
    }
    void wait_for_mark() {
        std::shared_ptr<CUevent_st> here;
        {
            const std::lock_guard hold(lock_);
            here = std::move(marks_.front());
            marks_.pop_front();
        }
        demand(cudaStreamWaitEvent(stream_, here.get(), 0), "cudaStreamWaitEvent");
    }
    void copy(void* to, const void* from, std::size_t bytes) {
        if (bytes == 0) return;
        demand(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
        demand(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    }

    cudaStream_t kernels_, stream_ = nullptr;
    int device_ = 0;
    pinned in_, out_;
    std::mutex lock_;
    std::deque<std::shared_ptr<CUevent_st>> marks_; // of the verbs that are not yet begun
};

} // namespace mpt
#endif
