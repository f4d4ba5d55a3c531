// SPDX-License-Identifier: MIT
// machine.hpp -- what a chapter's model computes on: threads of the CPU; compiled by nvcc, a GPU.
#pragma once
#include "mpt/base/memory.hpp"      // memory
#include "mpt/base/thread_pool.hpp" // thread_pool
#include "mpt/dist/one_rank.hpp"    // one_rank: a strategy that shares with nobody
#include "mpt/nn/gpt_layout.hpp"    // gpt_config
#include "mpt/nn/gpt_scratch.hpp"   // gpt_scratch: bytes an operation needs a worker
#include "mpt/nn/linear.hpp"        // linear_scratch
#include "mpt/nn/loops.hpp"         // loops: the operations
#if defined(__CUDACC__)
#include "mpt/nn/device.hpp"         // device_queue, device_memory, pinned_memory
#include "mpt/nn/kernel_scratch.hpp" // gpt_kernel_scratch
#include "mpt/nn/kernels.hpp"        // kernel_ops: the same operations
#include "mpt/train/kernel_pass.hpp" // inspect, adamw_update, accumulate
#endif

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

// Ops: loops, or what is derived from it.
template <class Ops>
struct machine {
    explicit machine(int threads) : pool(threads) {}

    // The operations, with the scratch of a GPT, and of layers of these widths.
    template <class T>
    Ops for_gpt(const mpt::gpt_config& c, int B) {
        return Ops(pool, mem, mpt::gpt_scratch<T>(c, B, c.context));
    }
    template <class T>
    Ops for_layers(const std::vector<int>&, int) {
        return Ops(pool, mem, mpt::linear_scratch<T>() * sizeof(mpt::wide_t<T>));
    }
    // Bytes of it, of all threads.
    template <class T>
    std::size_t gpt_scratch_bytes(const mpt::gpt_config& c, int B) const {
        const std::size_t one = mpt::gpt_scratch<T>(c, B, c.context);
        return (one + 63) / 64 * 64 * std::size_t(pool.size());
    }
    std::string name() const { return mpt::join(pool.size(), " threads"); }

    mpt::thread_pool pool;
    mpt::memory mem; // whose ledger knows every byte
};

#if defined(__CUDACC__)
template <>
struct machine<mpt::kernel_ops> {
    explicit machine(int) : mem(0, mpt::device_memory(), mpt::pinned_memory()) {}

    template <class T>
    mpt::kernel_ops for_gpt(const mpt::gpt_config& c, int B) {
        return {queue, mem, mpt::gpt_kernel_scratch(c, B, c.context)};
    }
    template <class T>
    mpt::kernel_ops for_layers(const std::vector<int>& widths, int rows) {
        std::size_t parameters = 0;
        for (std::size_t i = 1; i < widths.size(); ++i)
            parameters += std::size_t(widths[i]) * std::size_t(widths[i - 1] + 1);
        const int widest = *std::max_element(widths.begin(), widths.end());
        return {queue, mem,
                std::max({mpt::kernels::sum_bytes(std::size_t(rows)),
                          mpt::kernels::column_sums_bytes(rows, widest),
                          mpt::inspect_scratch(parameters)})};
    }
    template <class T>
    std::size_t gpt_scratch_bytes(const mpt::gpt_config& c, int B) const {
        return mpt::kernel_ops::bytes(mpt::gpt_kernel_scratch(c, B, c.context));
    }
    std::string name() const { return mpt::device_name(); }

    mpt::device_queue queue;
    mpt::memory mem;
};
using here = mpt::kernel_ops; // what the machine at hand is best at
#else
using here = mpt::loops;
#endif

// A strategy of one rank on Ops: the CPU's is the same for all lists of operations.
template <class T, class Ops>
using alone = mpt::one_rank<T, std::conditional_t<std::is_base_of_v<mpt::cpu, Ops>, mpt::cpu, Ops>>;
