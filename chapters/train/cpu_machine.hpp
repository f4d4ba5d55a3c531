// SPDX-License-Identifier: MIT
// cpu_machine.hpp -- who computes on the CPU's plain loops.
#pragma once
#include "memory_plan.hpp"
#include "offloaded.hpp"
#include "options.hpp"
#include "rank_strategy.hpp"

#include "mpt/base/memory.hpp"       // memory
#include "mpt/base/thread_pool.hpp"  // thread_pool
#include "mpt/base/trace.hpp"        // trace
#include "mpt/comm/communicator.hpp" // communicator
#include "mpt/dist/leaving_rank.hpp" // leaving_rank
#include "mpt/nn/gpt_scratch.hpp"    // gpt_scratch
#include "mpt/nn/loops.hpp"          // loops: the operations
#include "mpt/nn/product.hpp"        // product_backend

#include <cstdio>
#include <memory>
#include <string>

struct cpu_machine {
    using operations = mpt::loops;

    explicit cpu_machine(const options& o) : pool(o.threads), mem(o.device_memory) {}

    template <class T>
    operations make(const options& o, const mpt::gpt_config& c) {
        return {pool, mem, mpt::gpt_scratch<T>(c, o.batch, o.context), o.precision == "tf32"};
    }
    /// The one that --ranks, --zero and --reduce ask for. on: what adds up gradients. weights:
    /// where they are, if not on the device.
    template <class T, class On>
    std::unique_ptr<mpt::strategy<T>> strategy(const options& o, mpt::communicator& comm,
                                               const On& on, const mpt::layout& map,
                                               mpt::weight_place<T>* weights = nullptr) {
        const tell_line tell = [this](const std::string& line) { narrate(line); };
        return weights ? rank_zero3<T>(o, comm, on, map, mem, tell, weights)
                       : rank_strategy<T>(o, comm, on, map, mem, tell);
    }
    /// Where a rank lets others' memory land on its way to the host: this is the host.
    template <class E>
    static mpt::device_span<E> landing(const options&, const mpt::gpt_config&, const operations&) {
        return {};
    }
    /// The same with --offload.
    static constexpr bool offloads = true;
    template <class T>
    std::unique_ptr<mpt::strategy<T>>
    strategy(const options& o, mpt::communicator& comm, const operations& ops,
             const mpt::layout& map, gradients_away<T>& away, mpt::weight_place<T>* weights) {
        if (away.when == departure::by_unit)
            return std::make_unique<mpt::leaving_rank<T, operations>>(ops, map, mem, away.copies);
        return away.adder ? strategy<T>(o, comm, *away.adder, map, weights)
                          : strategy<T>(o, comm, ops, map, weights);
    }
    void narrate(const std::string& line) const {
        if (narrating) std::fprintf(stderr, "%s\n", line.c_str());
    }
    template <class T>
    static machine_bytes extra(const options& o, const mpt::gpt_config& c) {
        return {"products by " + mpt::product_backend() + ", " + std::to_string(o.threads) +
                    " threads",
                mpt::gpt_scratch<T>(c, o.batch, o.context) * std::size_t(o.threads), 0};
    }

    mpt::thread_pool pool;
    mpt::memory mem;
    bool narrating = false; // says what the strategy does
};

/// The rows of this rank in the run's trace; nullptr where none is asked for. Closed in finish().
inline std::unique_ptr<mpt::trace> open_trace(const options& o, mpt::communicator& comm) {
    if (o.trace.empty()) return nullptr;
    const bool first = comm.rank() == 0;
    auto rows = first ? std::make_unique<mpt::trace>(o.trace, 0, comm.size() > 1) : nullptr;
    const double start = comm.max(first ? rows->start() : 0);
    if (!first) rows = std::make_unique<mpt::trace>(o.trace, comm.rank(), start);
    comm.seen = rows.get();
    return rows;
}
