// SPDX-License-Identifier: MIT
// A rank of GPUs whose callers have buffers of the host: they are brought to the device and back on
// the stream of the caller's kernels, so that a wait that is forgotten brings other bits.
#pragma once
#include "mpt/comm/communicator.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <utility>

template <class Rank>
class from_host : public Rank {
public:
    template <class... Arguments>
    explicit from_host(cudaStream_t kernels, Arguments&&... arguments)
        : Rank(std::forward<Arguments>(arguments)...), kernels_(kernels) {}

protected:
    mpt::handle start(const mpt::collective& c) override {
        using mpt::verb;
        const std::size_t n = c.count * bytes_of(c.type), all = n * std::size_t(this->size());
        const bool out_all = c.what == verb::all_gather || c.what == verb::all_to_all;
        const bool in_all = c.what == verb::reduce_scatter || c.what == verb::all_to_all;
        const auto* const in = static_cast<const char*>(c.in);
        auto* const out = static_cast<char*>(c.out);
        const std::size_t in_bytes = in ? (in_all ? all : n) : 0;
        const std::size_t out_bytes = out ? (out_all ? all : n) : 0;
        char *from = nullptr, *to = nullptr;
        demand(cudaMalloc(&from, in_bytes + 16));
        demand(cudaMalloc(&to, out_bytes + 16));
        copy(from, in, in_bytes);
        if (in == out || c.what == verb::all_gather) copy(to, out, out_bytes);
        mpt::collective on = c;
        on.in = in == out ? to : from, on.out = to;
        if (in_bytes > out_bytes && out >= in && out < in + in_bytes) // the own part, in its place
            on.in = from, on.out = from + (out - in);
        const auto going = std::make_shared<mpt::handle>(Rank::start(on));
        return mpt::handle([=, this] {
            going->wait();
            copy(out, on.out, out_bytes);
            demand(cudaStreamSynchronize(kernels_));
            cudaFree(from), cudaFree(to);
        });
    }
    void run(const mpt::collective& c) override {
        if (c.what == mpt::verb::barrier || c.what == mpt::verb::agree) // numbers of the host
            Rank::run(c);
        else
            start(c).wait();
    }

private:
    static void demand(cudaError_t e) { mpt::check(e == cudaSuccess, cudaGetErrorString(e)); }
    void copy(void* to, const void* from, std::size_t bytes) {
        if (bytes > 0) demand(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, kernels_));
    }
    cudaStream_t kernels_;
};
