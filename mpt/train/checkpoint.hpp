// SPDX-License-Identifier: MIT
/// @file checkpoint.hpp
/// All that a run needs to go on as if it had never stopped.               tier 5, needs:
/// base/error.hpp base/json_write.hpp train/safetensors.hpp
///
/// Idea     One safetensors file, DIR/checkpoint.safetensors: the fp32 master weights by their
///          names, the optimizer's moments, and every scalar as text: steps, loss scale, options.
///          Random numbers and data need nothing: both are computed from the step's number.
/// Formula  NAME, adam.m.NAME, adam.v.NAME: F32;  12 bytes a parameter, and the header.
///          Of momentum alone: sgd.m.NAME; of weights without a master: NAME is they, exactly
/// Costs    memory: none beside the header.  disk: the old and the new file at once
/// Breaks   16-bit weights are not kept: they are the master's rounded copy, made again by a cast
/// Source   Micikevicius et al. 2018, Mixed Precision Training, arXiv:1710.03740 (master weights)
/// See      safetensors.hpp, base/file.hpp (never half a file), tests/train/checkpoint_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // check, error, join
#include "mpt/base/json_write.hpp"   // quote
#include "mpt/train/safetensors.hpp" // reader, write, metadata

#include <charconv>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpt {

/// A tensor, and where in the flat buffers its elements lie.
struct named_tensor {
    std::string name;
    std::vector<std::size_t> shape;  // outermost first
    std::size_t begin = 0, size = 0; // elements
};

/// From any list whose entries have these four fields, as nn/params.hpp's layout.
template <class Tensors>
std::vector<named_tensor> named_tensors(const Tensors& list) {
    std::vector<named_tensor> out;
    for (const auto& t : list) out.push_back({t.name, t.shape, t.begin, t.size});
    return out;
}

/// The flat buffers of a run, on the host. m and v may be empty: v, or both.
template <class T>
struct run_state {
    std::span<T> master, m, v;
};

inline std::string checkpoint_path(const std::string& folder) {
    return folder + "/checkpoint.safetensors";
}

// The buffers that are there, each with what stands before its tensors' names.
template <class T>
std::map<std::string, std::span<T>> buffers_of(const run_state<T>& state) {
    check(!state.m.empty() || state.v.empty(), "checkpoint: moments v of ", state.v.size(),
          " elements without m; pass both");
    if (state.m.empty()) return {{"", state.master}};
    if (state.v.empty()) return {{"", state.master}, {"sgd.m.", state.m}};
    return {{"", state.master}, {"adam.m.", state.m}, {"adam.v.", state.v}};
}

template <class T>
std::span<T> part_of(std::span<T> buffer, const named_tensor& t) {
    check(t.begin <= buffer.size() && t.size <= buffer.size() - t.begin, "checkpoint: ", t.name,
          " lies at elements ", t.begin, " to ", t.begin + t.size, " of a buffer of ",
          buffer.size(), "; pass the buffer that the list belongs to");
    return buffer.subspan(t.begin, t.size);
}

inline safetensors::shape shape_of(const named_tensor& t) {
    return {t.shape.begin(), t.shape.end()};
}

/// Write the checkpoint of `folder`, which must exist. When that fails (disk full, no right to
/// write) an error says so, and the checkpoint that was there before is still there.
inline void save_checkpoint(const std::string& folder, const std::vector<named_tensor>& tensors,
                            const run_state<const float>& state,
                            const safetensors::metadata& scalars) {
    std::vector<safetensors::source> all;
    for (const auto& [prefix, buffer] : buffers_of(state))
        for (const named_tensor& t : tensors)
            all.push_back({prefix + t.name, "F32", shape_of(t), std::as_bytes(part_of(buffer, t))});
    safetensors::write(checkpoint_path(folder), std::move(all), scalars, "checkpoint");
}

/// The scalars of the checkpoint of `folder` alone, e.g. to build a model from its options.
inline safetensors::metadata checkpoint_scalars(const std::string& folder) {
    return safetensors::reader(checkpoint_path(folder), "checkpoint").metadata();
}

/// Fill `state` (without moments: for a program that only runs the model) and return the scalars.
/// Names, shapes and types must be those of `tensors`, else an error names the first difference and
/// nothing is read. `options` are scalars that give the shape its form ("channels" -> "192"): where
/// they differ from those saved, the error says which would fit ("pass --channels 128").
inline safetensors::metadata load_checkpoint(const std::string& folder,
                                             const std::vector<named_tensor>& tensors,
                                             const run_state<float>& state,
                                             const safetensors::metadata& options = {}) {
    const safetensors::reader file(checkpoint_path(folder), "checkpoint");
    std::map<std::string_view, const safetensors::tensor*> there; // not yet met
    for (const safetensors::tensor& t : file.tensors()) there[t.name] = &t;

    const auto differs = [&](const auto&... what) {
        std::string other;
        for (const auto& [key, value] : options) {
            const auto saved = file.metadata().find(key);
            if (saved != file.metadata().end() && saved->second != value)
                other += join(" --", key, ' ', saved->second);
        }
        throw error(
            join(file.file.name(), ": ", what..., "; ",
                 other.empty() ? "resume with the options it was saved with" : "pass" + other,
                 " or another --out"));
    };

    struct task {
        const safetensors::tensor* from;
        std::span<float> to;
    };
    std::vector<task> tasks;
    for (const auto& [prefix, buffer] : buffers_of(state))
        for (const named_tensor& want : tensors) {
            const auto found = there.find(prefix + want.name);
            if (found == there.end())
                differs("has no ", prefix, want.name, ", this run wants it with shape ",
                        safetensors::to_string(shape_of(want)));
            const safetensors::tensor& t = *found->second;
            if (t.shape != shape_of(want))
                differs(t.name, " has shape ", safetensors::to_string(t.shape), ", this run wants ",
                        safetensors::to_string(shape_of(want)));
            if (t.dtype != "F32") differs(t.name, " has type ", t.dtype, ", this run wants F32");
            tasks.push_back({&t, part_of(buffer, want)});
            there.erase(found);
        }
    for (const auto& [name, t] : there)
        if (!state.m.empty() || !(name.starts_with("adam.") || name.starts_with("sgd.")))
            differs("has ", name, " with shape ", safetensors::to_string(t->shape),
                    ", this run has no such tensor");

    for (const task& t : tasks) file.read(*t.from, std::as_writable_bytes(t.to));
    return file.metadata();
}

/// Scalar `key` as a number: whole, or in the shortest form that json::number writes. Throws where
/// it is missing or something else.
template <class Number>
Number scalar(const safetensors::metadata& scalars, const std::string& key) {
    const auto found = scalars.find(key);
    check(found != scalars.end(), "checkpoint: has no ", json::quote(key),
          ", wanted a number; it is of another version or program, use another --out");
    const std::string& text = found->second;
    Number n{};
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
    check(fault == std::errc() && end == text.data() + text.size(),
          "checkpoint: ", json::quote(key), " is ", json::quote(text),
          ", wanted a number; it is damaged, use another --out");
    return n;
}

} // namespace mpt
