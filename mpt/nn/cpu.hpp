// SPDX-License-Identifier: MIT
/// @file cpu.hpp
/// What an operation on plain loops runs on: threads and scratch memory.   tier 4, needs:
/// base/memory.hpp base/thread_pool.hpp
///
/// Idea     The CPU as a device. An operation cuts its work into tasks for the pool and takes
///          what it must hold on the way from its worker's scratch: it allocates nothing.
/// Costs    workers * bytes_per_worker of kind temp, for the whole run
/// Breaks   two operations at once on one cpu share the scratch: one rank, one cpu
/// See      loops.hpp (the list of operations), matmul.hpp (who needs most scratch)
#pragma once
#include "mpt/base/memory.hpp"      // buffer, memory
#include "mpt/base/thread_pool.hpp" // thread_pool

#include <cstddef>

namespace mpt {

class cpu {
public:
    /// bytes_per_worker: the largest of the operations' X_scratch() queries, in bytes.
    cpu(thread_pool& threads, memory& mem, std::size_t bytes_per_worker, bool tf32_products = false)
        : pool(threads), tf32(tf32_products), stride_(rounded(bytes_per_worker)),
          scratch_(mem, kind::temp, stride_ * std::size_t(threads.size()),
                   "scratch of the operations") {}

    thread_pool& pool;
    bool tf32; // operands of matrix products are rounded to 10 mantissa bits first

    /// Room for `count` elements of W, this worker's own, until the task ends.
    /// The same region every time: call once a task and cut it up.
    template <class W>
    W* scratch(int worker, std::size_t count) const {
        check(count * sizeof(W) <= stride_, "cpu: an operation wants ", count * sizeof(W),
              " bytes of scratch a worker, ", stride_,
              " are reserved; reserve what X_scratch() says");
        auto* bytes = const_cast<std::byte*>(scratch_.span().data());
        return reinterpret_cast<W*>(bytes + stride_ * std::size_t(worker));
    }

private:
    static std::size_t rounded(std::size_t bytes) { // workers never share a cache line
        return (bytes + arena::alignment - 1) / arena::alignment * arena::alignment;
    }
    std::size_t stride_; // bytes a worker
    buffer<std::byte> scratch_;
};

} // namespace mpt
