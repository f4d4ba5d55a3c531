// SPDX-License-Identifier: MIT
/// @file device.cuh
/// What a host program asks of a device besides launches.                  tier 3, needs:
/// kernels/launch.cuh
///
/// Idea     The host's place where the two machines meet. Is there a device, what is it called; and
///          work that is recorded once and begun again as a whole: under CUDA a graph, so that a
///          step of hundreds of kernels costs the host one call. The emulator has no graphs and
///          does the work again, which is the same work.
/// Costs    of the host a call a launch; for a graph one
/// Breaks   recorded work that depends on host variables: they are what they were when it was
///          recorded. What changes from step to step lies in device memory, or in buffers whose
///          addresses stay. A host that waits while it records: CUDA refuses the recording
/// Source   CUDA C++ Programming Guide, CUDA Graphs, creating a graph using stream capture
/// See      nn/device.hpp (memory, queues), tests/nn/device_test.cpp
#pragma once
#include "mpt/kernels/launch.cuh" // cudaStream_t, cudaError_t

#include <stdexcept>
#include <string>

namespace mpt {
namespace kernels {

/// Throws what CUDA says and which call it was.
inline void require(cudaError_t e, const char* call) {
    if (e != cudaSuccess)
        throw std::runtime_error(std::string("device: ") + call + ": " + cudaGetErrorString(e));
}

#if defined(__CUDACC__)

/// Why nothing can run here; "" where a GPU is ready.
inline std::string device_missing() {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaSuccess && count > 0) return "";
    cudaGetLastError(); // told; not again
    return e == cudaSuccess ? "no CUDA device" : cudaGetErrorString(e);
}

/// "NVIDIA H200, capability 9.0"
inline std::string device_name() {
    int device = 0;
    cudaDeviceProp p{};
    require(cudaGetDevice(&device), "cudaGetDevice");
    require(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
    return std::string(p.name) + ", capability " + std::to_string(p.major) + "." +
           std::to_string(p.minor);
}

/// Work on a stream. The first time it is done as it is, which loads kernels and libraries; the
/// second time it is recorded; from then on begun as a whole.
class recorded_work {
public:
    recorded_work() = default;
    recorded_work(const recorded_work&) = delete;
    recorded_work& operator=(const recorded_work&) = delete;
    ~recorded_work() {
        if (graph_) cudaGraphExecDestroy(graph_);
    }

    template <class Work>
    void run(cudaStream_t s, Work work) {
        if (!warm_) {
            warm_ = true;
            work();
            return;
        }
        if (!graph_) record(s, work);
        require(cudaGraphLaunch(graph_, s), "cudaGraphLaunch");
    }
    bool recorded() const { return graph_ != nullptr; }

private:
    template <class Work>
    void record(cudaStream_t s, Work& work) {
        cudaGraph_t made = nullptr;
        require(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal),
                "cudaStreamBeginCapture");
        try {
            work();
        } catch (...) {
            cudaStreamEndCapture(s, &made); // or the stream stays unusable
            if (made) cudaGraphDestroy(made);
            throw;
        }
        require(cudaStreamEndCapture(s, &made), "cudaStreamEndCapture");
        const cudaError_t e = cudaGraphInstantiate(&graph_, made, 0);
        cudaGraphDestroy(made);
        require(e, "cudaGraphInstantiate");
    }

    cudaGraphExec_t graph_ = nullptr;
    bool warm_ = false;
};

#else

inline std::string device_missing() { return ""; }
inline std::string device_name() { return "emulator"; }

class recorded_work {
public:
    template <class Work>
    void run(cudaStream_t, Work work) {
        work();
    }
    bool recorded() const { return false; }
};

#endif

} // namespace kernels
} // namespace mpt
