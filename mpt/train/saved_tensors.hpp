// SPDX-License-Identifier: MIT
/// @file saved_tensors.hpp
/// The tensors of a flat buffer, to a safetensors file and back.           tier 5, needs:
/// base/error.hpp train/safetensors.hpp
///
/// Idea     A list says which elements of a buffer are which tensor. Writing names each of them;
///          reading first asks for all, by name, shape and type, and only when the file has exactly
///          these does the first byte move. So a file of another model changes nothing.
/// Costs    memory: none beside the lists
/// Breaks   a buffer without tensors in it (8-bit states in blocks) is one tensor of its own
/// Source   huggingface/transformers 17032, 11582 (weights that were not there, and nobody said so)
/// See      checkpoint.hpp, safetensors.hpp, tests/train/checkpoint_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // check, error, join
#include "mpt/train/safetensors.hpp" // reader, source, shape

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

/// Append the tensors of `buffer` to what will be written, each called prefix + name.
template <class T>
void add_tensors(std::vector<safetensors::source>& to, const std::vector<named_tensor>& tensors,
                 const std::string& prefix, std::span<const T> buffer) {
    for (const named_tensor& t : tensors)
        to.push_back({prefix + t.name, safetensors::name_of<T>, shape_of(t),
                      std::as_bytes(part_of(buffer, t))});
}

/// What is wanted of one file. First want() for every buffer, then read(): until there nothing has
/// changed, and what does not fit has been named.
class tensor_reads {
public:
    /// `advice`: how an error ends, e.g. "pass --channels 128".
    tensor_reads(const safetensors::reader& file, std::string advice)
        : file_(file), advice_(std::move(advice)) {
        for (const safetensors::tensor& t : file.tensors()) there_[t.name] = &t;
    }

    template <class T>
    void want(const std::vector<named_tensor>& tensors, const std::string& prefix,
              std::span<T> buffer) {
        for (const named_tensor& want : tensors) {
            const auto found = there_.find(prefix + want.name);
            if (found == there_.end())
                differs("has no ", prefix, want.name, ", this run wants it with shape ",
                        safetensors::to_string(shape_of(want)));
            const safetensors::tensor& t = *found->second;
            if (t.shape != shape_of(want))
                differs(t.name, " has shape ", safetensors::to_string(t.shape), ", this run wants ",
                        safetensors::to_string(shape_of(want)));
            if (t.dtype != safetensors::name_of<T>)
                differs(t.name, " has type ", t.dtype, ", this run wants ",
                        safetensors::name_of<T>);
            reads_.push_back({&t, std::as_writable_bytes(part_of(buffer, want))});
            there_.erase(found);
        }
    }

    /// Throws where the file has a tensor that nobody wanted, which read() does not.
    void nothing_else() const {
        for (const auto& [name, t] : there_)
            differs("has ", name, " with shape ", safetensors::to_string(t->shape),
                    ", this run has no such tensor");
    }
    void read() const {
        for (const auto& [from, to] : reads_) file_.read(*from, to);
    }

private:
    template <class... What>
    [[noreturn]] void differs(const What&... what) const {
        throw error(join(file_.file.name(), ": ", what..., "; ", advice_));
    }

    struct task {
        const safetensors::tensor* from;
        std::span<std::byte> to;
    };
    const safetensors::reader& file_;
    std::string advice_;
    std::map<std::string, const safetensors::tensor*> there_; // not yet wanted
    std::vector<task> reads_;
};

/// How an error about a checkpoint of another model ends: with the options that would fit, where
/// `now` ("channels" -> "192") differs from `saved`.
inline std::string advice(const safetensors::metadata& saved, const safetensors::metadata& now) {
    std::string other;
    for (const auto& [key, value] : now) {
        const auto was = saved.find(key);
        if (was != saved.end() && was->second != value) other += join(" --", key, ' ', was->second);
    }
    return (other.empty() ? "resume with the options it was saved with" : "pass" + other) +
           " or another --out";
}

/// Entry `key` as a number: whole, or in the shortest form that json::number writes. Throws where
/// it is missing or something else.
template <class Number>
Number scalar(const safetensors::metadata& state, const std::string& key) {
    const auto found = state.find(key);
    check(found != state.end(), "checkpoint: has no ", json::quote(key),
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
