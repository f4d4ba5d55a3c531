// SPDX-License-Identifier: MIT
// rank_strategy.hpp -- which strategy the ranks follow, on any machine.
#pragma once
#include "options.hpp"

#include "mpt/base/memory.hpp"       // memory
#include "mpt/comm/communicator.hpp" // communicator
#include "mpt/dist/ddp.hpp"          // ddp
#include "mpt/dist/one_rank.hpp"     // one_rank
#include "mpt/dist/weight_place.hpp" // weight_place
#include "mpt/dist/zero1.hpp"        // zero1
#include "mpt/dist/zero2.hpp"        // zero2
#include "mpt/dist/zero3.hpp"        // zero3

#include <functional>
#include <memory>
#include <string>

/// Hears what a strategy does.
using tell_line = std::function<void(const std::string& line)>;

/// Stage 3. weights: where its shards are, if not on the device.
template <class T, class On>
std::unique_ptr<mpt::strategy<T>> rank_zero3(const options& o, mpt::communicator& comm,
                                             const On& on, const mpt::layout& map, mpt::memory& mem,
                                             const tell_line& tell, mpt::weight_place<T>* weights) {
    const auto mode = reduces_once(o) ? mpt::reduce_mode::once : mpt::reduce_mode::every;
    auto s =
        std::make_unique<mpt::zero3<T, On>>(on, map, comm, mem, o.micro_batches, mode, 1, weights);
    s->narrate.tell = tell;
    return s;
}

/// The one that --ranks, --zero and --reduce ask for. on: what adds up gradients, a list of
/// operations.
template <class T, class On>
std::unique_ptr<mpt::strategy<T>>
rank_strategy(const options& o, mpt::communicator& comm, const On& on, const mpt::layout& map,
              mpt::memory& mem, const tell_line& tell) {
    using std::make_unique;
    const int micros = o.micro_batches;
    const auto mode = reduces_once(o) ? mpt::reduce_mode::once : mpt::reduce_mode::every;
    const auto told = [&](auto s) -> std::unique_ptr<mpt::strategy<T>> {
        s->narrate.tell = tell;
        return s;
    };
    if (o.zero == 3) return rank_zero3<T>(o, comm, on, map, mem, tell, nullptr);
    if (o.zero == 2) return told(make_unique<mpt::zero2<T, On>>(on, map, comm, mem, micros, mode));
    if (o.zero == 1) return told(make_unique<mpt::zero1<T, On>>(on, map, comm, micros, mode));
    if (comm.size() > 1) return told(make_unique<mpt::ddp<T, On>>(on, map, comm, micros, mode));
    return make_unique<mpt::one_rank<T, On>>(on, map);
}
