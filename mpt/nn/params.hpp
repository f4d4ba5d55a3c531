// SPDX-License-Identifier: MIT
/// @file params.hpp
/// All parameters in one flat buffer, and the map of it.                   tier 4, needs:
/// base/device_span.hpp base/philox.hpp
///
/// Idea     A model's tensors lie one behind the other; a tensor is a view, a unit (what is
///          gathered, bucketed and checkpointed together: the embedding, a block) is a run of
///          tensors. Optimizer, casts and collectives see one array and need no list of tensors.
/// Formula  tensor t at [begin, begin + size), unit u at [begin of its first, end of its last);
///          units cover the buffer in order, without gaps
/// Breaks   a tensor added to a unit that is already closed: it would not be contiguous
/// Source   Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054 (contiguous buffers)
/// See      strategy.hpp (who acquires units), tests/nn/params_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span, check
#include "mpt/base/philox.hpp"      // philox, normal_pair: initial values by address

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mpt {

/// One tensor of the flat buffer. Sizes and positions in elements.
struct tensor_info {
    std::string name;               // "h.0.attn.c_attn.weight"
    std::vector<std::size_t> shape; // row-major
    std::size_t begin = 0, size = 0;
    float deviation = 0; // initial values: normal(0, deviation) where > 0,
    float constant = 0;  // else this constant
    int unit = 0;
    bool decays = false;      // weight decay: matrices yes; biases, norms, residual scales no
    bool looked_up = false;   // an embedding: a step sees the rows of its tokens only
    std::size_t tail = 0;     // of normal initial values, so many at the end
    float tail_deviation = 0; // have this deviation: v in the matrix of q, k and v
};

/// A run of tensors that is gathered, reduced and checkpointed together.
struct unit_info {
    std::string name;
    std::size_t begin = 0, end = 0; // elements of the flat buffer
    std::size_t size() const { return end - begin; }
};

/// The map of the flat buffer. Built once by a model, in the order of its units.
struct layout {
    std::vector<tensor_info> tensors;
    std::vector<unit_info> units;

    std::size_t size() const { return units.empty() ? 0 : units.back().end; } // elements

    /// Open the next unit; tensors added from now on are its own. Returns its number.
    int add_unit(std::string name) {
        units.push_back({std::move(name), size(), size()});
        return int(units.size()) - 1;
    }

    /// Append a tensor to the open unit. Returns its number.
    int add(std::string name, std::vector<std::size_t> shape, float deviation, float constant = 0) {
        check(!units.empty(), "layout: tensor ", name, " has no unit; call add_unit first");
        std::size_t size = 1;
        for (const std::size_t n : shape) size *= n;
        unit_info& unit = units.back();
        const bool matrix = shape.size() >= 2;
        tensors.push_back({std::move(name), std::move(shape), unit.end, size, deviation, constant,
                           int(units.size()) - 1, matrix, false, 0, 0});
        unit.end += size;
        return int(tensors.size()) - 1;
    }

    /// The tensor that element `index` of the flat buffer belongs to.
    const tensor_info& tensor_of(std::size_t index) const {
        for (const tensor_info& t : tensors)
            if (index < t.begin + t.size) return t;
        throw error(join("layout: element ", index, " of ", size(), " parameters"));
    }
};

/// The view of a tensor inside its unit's span, as acquire() returns it.
template <class T>
device_span<T> view(const layout& map, device_span<T> unit, int tensor) {
    const tensor_info& t = map.tensors[std::size_t(tensor)];
    return unit.subspan(t.begin - map.units[std::size_t(t.unit)].begin, t.size);
}

/// A part of a flat buffer, and where in the whole it lies.
template <class T>
struct piece {
    device_span<T> data;
    std::size_t begin; // element of the whole flat buffer that data starts with
};
/// What a rank owns: its shard of each unit, in the order of the units.
template <class T>
using pieces = std::vector<piece<T>>;

template <class T>
std::size_t size_of(const pieces<T>& parts) {
    std::size_t n = 0;
    for (const piece<T>& p : parts) n += p.data.size();
    return n;
}

/// Number `i` of a tensor's stream of normal numbers (mean 0, variance 1).
inline float initial_normal(std::uint64_t seed, std::uint32_t tensor, std::uint64_t i) {
    const std::uint64_t block = i / 4; // a counter gives two pairs
    const philox4 r = philox({std::uint32_t(block), std::uint32_t(block >> 32), tensor, 0x1217},
                             std::uint32_t(seed), std::uint32_t(seed >> 32));
    const normal2 pair = i % 4 < 2 ? normal_pair(r.x[0], r.x[1]) : normal_pair(r.x[2], r.x[3]);
    return float(i % 2 == 0 ? pair.first : pair.second);
}

/// Initial values of elements [begin, begin + out.size()) of the flat buffer, in host memory.
/// They depend on (seed, tensor, element) only: any rank can make any part.
inline void initial_values(const layout& map, std::uint64_t seed, std::size_t begin,
                           std::span<float> out) {
    for (std::size_t number = 0; number < map.tensors.size(); ++number) {
        const tensor_info& t = map.tensors[number];
        const std::size_t from = std::max(begin, t.begin);
        const std::size_t to = std::min(begin + out.size(), t.begin + t.size);
        for (std::size_t i = from; i < to; ++i) {
            const std::size_t at = i - t.begin;
            const float deviation = at < t.size - t.tail ? t.deviation : t.tail_deviation;
            out[i - begin] = t.deviation > 0
                                 ? deviation * initial_normal(seed, std::uint32_t(number), at)
                                 : t.constant;
        }
    }
}

} // namespace mpt
