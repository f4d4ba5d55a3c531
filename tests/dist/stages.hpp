// SPDX-License-Identifier: MIT
/// @file stages.hpp
/// A rank of any stage with its buffers, allocated as strategy_sizes.hpp says.
#pragma once
#include "mpt/base/memory.hpp"
#include "mpt/dist/ddp.hpp"
#include "mpt/dist/strategy_sizes.hpp"
#include "mpt/dist/zero1.hpp"
#include "mpt/dist/zero2.hpp"
#include "mpt/dist/zero3.hpp"

#include <cstddef>
#include <memory>

namespace mpt {

/// How a window's gradients come together.
struct plan {
    int stage = 0; // of ZeRO, 0: ddp
    int micros = 1;
    reduce_mode mode = reduce_mode::once;
    int ahead = 1;
    std::size_t bucket = bucket_bytes;
};

template <class T>
std::unique_ptr<strategy<T>> make_strategy(const cpu& on, const layout& map, communicator& comm,
                                           memory& mem, const plan& p,
                                           std::function<void(const std::string&)> tell = {}) {
    const auto made = [&](auto s) -> std::unique_ptr<strategy<T>> {
        s->narrate.tell = tell;
        return s;
    };
    if (p.stage == 0)
        return made(std::make_unique<ddp<T>>(on, map, comm, p.micros, p.mode, p.bucket));
    if (p.stage == 1) return made(std::make_unique<zero1<T>>(on, map, comm, p.micros, p.mode));
    if (p.stage == 2)
        return made(std::make_unique<zero2<T>>(on, map, comm, mem, p.micros, p.mode, p.ahead));
    return made(std::make_unique<zero3<T>>(on, map, comm, mem, p.micros, p.mode, p.ahead));
}

template <class T>
struct staged {
    staged(const cpu& on, const layout& map, communicator& comm, memory& mem, const plan& p,
           std::function<void(const std::string&)> tell = {})
        : cut(map, comm.size()), n(sizes_of(p.stage, map, cut, comm.rank(), p.micros, p.mode)),
          weights(mem, kind::weights, n.weights, "weights"),
          micro(mem, kind::grads, n.micro, "gradients"),
          sum(mem, kind::sums, n.sum, "sums"), grads{micro.span(), sum.span()},
          s(make_strategy<T>(on, map, comm, mem, p, tell)) {}

    partition cut;
    strategy_sizes n;
    buffer<T> weights, micro;
    buffer<float> sum;
    gradients<T> grads;
    std::unique_ptr<strategy<T>> s;
};

} // namespace mpt
