// SPDX-License-Identifier: MIT
/// @file nccl_stream.hpp
/// The stream in which a rank's messages go, beside that of its kernels.    tier 2, needs:
/// base/error.hpp comm/nccl_comm.hpp comm/traffic.hpp
///
/// Idea     A message may only begin when the kernels before it have written what it sends, and a
///          kernel only when the messages before it have arrived. Events tell one stream of the
///          other; the host waits for neither.
/// Breaks   messages of two directions put into the stream in turn: each waits for the other
///          rank's. In a group all of them go at once
/// Source   CUDA programming guide, Events; NCCL user guide, Group Calls
/// See      nccl.hpp (the verbs), tests/comm/nccl_test.cpp
#pragma once
#include "mpt/base/error.hpp"     // join
#include "mpt/comm/nccl_comm.hpp" // nccl_comm, cuda_demand, <nccl.h>
#include "mpt/comm/traffic.hpp"   // element

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#ifdef MPT_HAS_NCCL
namespace mpt {

inline ncclDataType_t nccl_type(element e) {
    constexpr ncclDataType_t types[element_kinds] = {ncclFloat32,  ncclFloat64, ncclFloat16,
                                                     ncclBfloat16, ncclInt32,   ncclUint8};
    return types[int(e)];
}

class nccl_stream {
public:
    nccl_stream(std::shared_ptr<nccl_comm> of, cudaStream_t kernels)
        : of_(std::move(of)), kernels_(kernels) {
        cuda_demand(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
        ready_ = new_event();
    }
    ~nccl_stream() {
        cudaEventDestroy(ready_);
        cudaStreamDestroy(stream_);
        cudaFree(room_);
    }
    nccl_stream(const nccl_stream&) = delete;
    nccl_stream& operator=(const nccl_stream&) = delete;

    nccl_comm& of() const { return *of_; }
    cudaStream_t get() const { return stream_; }
    cudaStream_t kernels() const { return kernels_; }
    void follow(cudaStream_t kernels) { kernels_ = kernels; }

    /// What comes next waits for the kernels that are under way.
    void wait_for_kernels() {
        cuda_demand(cudaEventRecord(ready_, kernels_), "cudaEventRecord");
        cuda_demand(cudaStreamWaitEvent(stream_, ready_, 0), "cudaStreamWaitEvent");
    }
    /// A point of this stream, at which it is now.
    std::shared_ptr<CUevent_st> here() const {
        std::shared_ptr<CUevent_st> e(new_event(), cudaEventDestroy);
        cuda_demand(cudaEventRecord(e.get(), stream_), "cudaEventRecord");
        return e;
    }
    /// Kernels that come next wait for that point.
    void kernels_wait(const std::shared_ptr<CUevent_st>& e) const {
        cuda_demand(cudaStreamWaitEvent(kernels_, e.get(), 0), "cudaStreamWaitEvent");
    }

    /// The messages of `post`, by give and get, all at once.
    template <class Post>
    void together(const std::string& where, Post post) {
        of_->settle(ncclGroupStart(), where);
        post();
        of_->settle(ncclGroupEnd(), where);
    }
    void give(element e, const void* from, std::size_t n, int to) {
        if (n > 0)
            of_->settle(ncclSend(from, n, nccl_type(e), to, of_->get(), stream_), "ncclSend");
    }
    void get(element e, void* to, std::size_t n, int from) {
        if (n > 0)
            of_->settle(ncclRecv(to, n, nccl_type(e), from, of_->get(), stream_), "ncclRecv");
    }

    /// Memory of the device for this stream's next work: the same bytes at every call.
    std::byte* room(std::size_t bytes) {
        if (bytes > room_bytes_) {
            cuda_demand(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
            cudaFree(std::exchange(room_, nullptr));
            room_bytes_ = 0;
            cuda_demand(cudaMalloc(&room_, bytes), "cudaMalloc");
            room_bytes_ = bytes;
        }
        return static_cast<std::byte*>(room_);
    }

private:
    static cudaEvent_t new_event() {
        cudaEvent_t e = nullptr;
        cuda_demand(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate");
        return e;
    }

    std::shared_ptr<nccl_comm> of_;
    cudaStream_t kernels_, stream_ = nullptr;
    cudaEvent_t ready_ = nullptr;
    void* room_ = nullptr;
    std::size_t room_bytes_ = 0;
};

} // namespace mpt
#endif
