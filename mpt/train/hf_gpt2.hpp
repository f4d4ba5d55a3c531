// SPDX-License-Identifier: MIT
/// @file hf_gpt2.hpp
/// GPT-2's weights as Hugging Face keeps them: read and written.            tier 5, needs:
/// nn/gpt_layout.hpp numeric/cast.hpp train/safetensors.hpp train/saved_tensors.hpp
///
/// Idea     A safetensors file whose tensors have mpt's names, with or without "transformer." in
///          front. Its linear layers are Conv1D's: (in, out), so four kinds of matrices are
///          transposed. The head is the token table; a file that has it twice must have it alike.
/// Formula  here: y = x W^T, W (out, in);  there: y = x W, W (in, out)
/// Costs    memory: to read one tensor, to write a copy of all, beside the weights
/// Breaks   heads are not in the file: they come from its metadata or config.json, or the caller
/// Source   huggingface/transformers, modeling_gpt2.py (names, Conv1D, tied head)
/// See      llmc_gpt2.hpp (the other form), tests/train/gpt2_files_test.cpp
#pragma once
#include "mpt/nn/gpt_layout.hpp"       // gpt_config, check_gpt2
#include "mpt/numeric/cast.hpp"        // cast
#include "mpt/train/safetensors.hpp"   // reader, write
#include "mpt/train/saved_tensors.hpp" // named_tensor, part_of

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpt {

/// Matrices of Conv1D, stored (in, out).
inline bool is_conv1d(std::string_view name) {
    return name.starts_with("h.") &&
           (name.ends_with("attn.c_attn.weight") || name.ends_with("c_proj.weight") ||
            name.ends_with("mlp.c_fc.weight"));
}

/// A file of GPT-2 weights whose form is known.
struct hf_file {
    explicit hf_file(const std::string& path) : file(path, "weights") {
        if (file.find("transformer.wte.weight")) prefix = "transformer.";
        const safetensors::tensor& qkv = tensor("h.0.attn.c_attn.weight", 2);
        transposed = qkv.shape[0] == tensor("wte.weight", 2).shape[1];
    }
    const safetensors::tensor& tensor(const std::string& name, std::size_t rank) const {
        const safetensors::tensor* const t = file.find(prefix + name);
        check(t && t->shape.size() == rank, file.file.name(), ": ",
              t ? "of another rank is " : "has no ", prefix, name, "; it holds no GPT-2's weights");
        return *t;
    }

    safetensors::reader file;
    std::string prefix;
    bool transposed = true; // false: (out, in), as mpt's own files are
};

/// The sizes of the file's model. heads: where the file's metadata does not say (0 there).
inline gpt_config hf_sizes(const hf_file& f, int heads = 0) {
    const std::string& name = f.file.file.name();
    for (const char* key : {"n_head", "heads"}) {
        const auto said = f.file.metadata().find(key);
        if (said == f.file.metadata().end()) continue;
        const char* const last = said->second.data() + said->second.size();
        const auto [end, fault] = std::from_chars(said->second.data(), last, heads);
        check(fault == std::errc() && end == last && heads > 0, name, ": its metadata has ",
              json::quote(key), " = ", json::quote(said->second.substr(0, 20)),
              ", wanted a number of heads; write the file anew");
    }
    const auto size = [&](std::uint64_t n) {
        check(n > 0 && n <= 1 << 24, name, ": a size of ", n, ", wanted 1 to 16777216");
        return int(n);
    };
    gpt_config c;
    c.vocabulary = size(f.tensor("wte.weight", 2).shape[0]);
    c.channels = size(f.tensor("wte.weight", 2).shape[1]);
    c.context = size(f.tensor("wpe.weight", 2).shape[0]);
    c.layers = 0;
    while (f.file.find(f.prefix + "h." + std::to_string(c.layers) + ".ln_1.weight")) ++c.layers;
    check(heads > 0 && c.channels % heads == 0, name, ": ", heads, " heads of ", c.channels,
          " channels", heads ? "" : " (the file does not say how many)",
          "; give --heads, a divisor of the channels");
    c.heads = heads;
    const int Q = size(f.tensor("h.0.attn.c_attn.weight", 2).shape[f.transposed ? 1 : 0]);
    c.kv_heads = (Q / (c.channels / heads) - heads) / 2;
    check(c.kv_heads > 0 && c.qkv() == Q, name, ": ", Q, " rows of queries, keys and values for ",
          heads, " heads of ", c.head_dim(), "; give the --heads that it was trained with");
    return c;
}

// Elements of a tensor as fp32: exact, whatever the type.
inline std::vector<float> as_floats(const safetensors::reader& file, const safetensors::tensor& t) {
    std::vector<float> out;
    const auto read = [&]<class S>(S) {
        std::vector<S> in(std::size_t(t.bytes() / sizeof(S)));
        file.read(t, std::as_writable_bytes(std::span(in)));
        out.resize(in.size());
        cast(in.data(), out.data(), in.size());
    };
    if (t.dtype == "F32") {
        out.resize(std::size_t(t.bytes() / 4));
        file.read(t, std::as_writable_bytes(std::span(out)));
    } else if (t.dtype == "F16")
        read(fp16());
    else if (t.dtype == "BF16")
        read(bf16());
    else
        throw error(join(file.file.name(), ": ", t.name, " has type ", t.dtype,
                         ", wanted F32, F16 or BF16; convert it"));
    return out;
}

// to (columns, rows) = from (rows, columns) transposed.
inline void transpose(std::span<const float> from, std::span<float> to, std::size_t columns) {
    const std::size_t rows = columns ? from.size() / columns : 0;
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
}

/// Fill `weights`, whose `tensors` are gpt_layout's. Tables may have fewer rows here, or more: then
/// zeros. A tensor that this model does not know is refused; masks and a tied head are not.
inline void read_hf(const hf_file& f, const std::vector<named_tensor>& tensors,
                    std::span<float> weights) {
    const std::string& name = f.file.file.name();
    std::set<std::string> known;
    for (const named_tensor& t : tensors) {
        const safetensors::tensor& there = f.tensor(t.name, t.shape.size());
        const bool turn = f.transposed && is_conv1d(t.name);
        safetensors::shape want = shape_of(t);
        if (turn) std::reverse(want.begin(), want.end());
        const bool table = t.name == "wte.weight" || t.name == "wpe.weight";
        check(table ? there.shape[1] == want[1] : there.shape == want, name, ": ", there.name,
              " has shape ", safetensors::to_string(there.shape), ", this model wants ",
              safetensors::to_string(want), "; leave the model's sizes out");
        const std::vector<float> in = as_floats(f.file, there);
        const std::span<float> to = part_of(weights, t);
        if (turn)
            transpose(in, to, std::size_t(want[1]));
        else {
            const std::size_t n = std::min(in.size(), to.size());
            std::copy_n(in.begin(), n, to.begin());
            std::fill(to.begin() + std::ptrdiff_t(n), to.end(), 0.0f);
        }
        known.insert(there.name);
    }
    for (const safetensors::tensor& t : f.file.tensors()) {
        if (known.count(t.name) || t.name.ends_with(".attn.bias") ||
            t.name.ends_with(".attn.masked_bias") || t.name.starts_with("adam.") ||
            t.name.starts_with("sgd."))
            continue; // weights, masks, and the moments of mpt's checkpoints of one file
        check(t.name == "lm_head.weight", name, ": has ", t.name, " with shape ",
              safetensors::to_string(t.shape), ", which GPT-2 has not; it is of another model");
        check(as_floats(f.file, t) == as_floats(f.file, f.tensor("wte.weight", 2)), name,
              ": lm_head.weight is not wte.weight; this model ties its head, train it untied "
              "elsewhere or drop the head");
    }
}

/// Write `weights` as T (float, fp16, bf16: rounded once, to nearest even). words: the vocabulary;
/// rows behind it are padding and are left out.
template <class T>
void write_hf(const std::string& path, const gpt_config& c, int words,
              const std::vector<named_tensor>& tensors, std::span<const float> weights) {
    check_gpt2(c, path);
    check(c.kv_heads == c.heads, "weights ", path, ": the model has ", c.heads, " heads and ",
          c.kv_heads, " key/value heads; GPT-2 has as many of both, so no GPT-2 can hold it");
    std::vector<std::vector<T>> rooms;
    std::vector<safetensors::source> all;
    for (const named_tensor& t : tensors) {
        std::span<const float> from = part_of(weights, t);
        safetensors::shape shape = shape_of(t);
        if (t.name == "wte.weight") {
            shape[0] = std::min(shape[0], std::uint64_t(words));
            from = from.first(std::size_t(shape[0] * shape[1]));
        }
        std::vector<float> turned;
        if (is_conv1d(t.name)) {
            turned.resize(from.size());
            transpose(from, turned, std::size_t(shape[1]));
            std::reverse(shape.begin(), shape.end());
            from = turned;
        }
        rooms.emplace_back(from.size());
        if constexpr (sizeof(T) == 4)
            std::copy(from.begin(), from.end(), rooms.back().begin());
        else
            cast(from.data(), rooms.back().data(), from.size());
        all.push_back(
            {t.name, safetensors::name_of<T>, shape, std::as_bytes(std::span(rooms.back()))});
    }
    safetensors::write(path, std::move(all),
                       {{"format", "pt"}, {"n_head", std::to_string(c.heads)}}, "weights");
}

/// What stands beside such a file as config.json, for the programs that ask it.
inline std::string hf_config(const gpt_config& c, int words) {
    return join("{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_layer\":",
                c.layers, ",\"n_head\":", c.heads, ",\"n_embd\":", c.channels,
                ",\"n_positions\":", c.context, ",\"n_ctx\":", c.context, ",\"vocab_size\":", words,
                ",\"activation_function\":\"gelu_new\",\"layer_norm_epsilon\":1e-05,"
                "\"tie_word_embeddings\":true}\n");
}

} // namespace mpt
