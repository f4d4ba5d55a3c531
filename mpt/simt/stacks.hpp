// SPDX-License-Identifier: MIT
/// @file stacks.hpp
/// The stacks of one system thread, kept from block to block.              tier 2, needs:
/// simt/fiber.hpp simt/settings.hpp
///
/// Idea     Making a stack asks the system for memory; a block needs as many as threads of it wait
///          at the same time. So they are kept for the next block.
/// Costs    memory: what threads have touched of them, until the system thread ends
/// See      block.hpp, fiber.hpp
#pragma once
#include "mpt/simt/fiber.hpp"    // fiber
#include "mpt/simt/settings.hpp" // settings

#include <cstddef>
#include <memory>
#include <vector>

namespace mpt::simt {

class stacks {
public:
    /// begin(): what is at the bottom of each, and never returns.
    explicit stacks(void (*begin)()) : begin_(begin) {}

    fiber* take() {
        if (idle_.empty()) {
#if defined(MPT_SIMT_ASAN) // its frames are larger
            const std::size_t bytes = 4 * settings().stack_bytes;
#else
            const std::size_t bytes = settings().stack_bytes;
#endif
            all_.push_back(std::make_unique<fiber>(begin_, bytes, unsigned(all_.size())));
            return all_.back().get();
        }
        fiber* const f = idle_.back();
        idle_.pop_back();
        return f;
    }
    void give_back(fiber* f) { idle_.push_back(f); }
    /// One that was left in the middle: it can serve nobody any more.
    void drop(fiber* f) {
        std::erase_if(all_, [&](const auto& one) { return one.get() == f; });
    }

private:
    void (*begin_)();
    std::vector<std::unique_ptr<fiber>> all_;
    std::vector<fiber*> idle_; // nobody's
};

} // namespace mpt::simt
