// SPDX-License-Identifier: MIT
/// @file llmc_gpt2.hpp
/// GPT-2's weights as llm.c keeps them: read and written.                   tier 5, needs:
/// base/file.hpp nn/gpt_layout.hpp numeric/cast.hpp train/saved_tensors.hpp
///
/// Idea     256 int32 of header, then sixteen arrays, each of all layers: the weights of a linear
///          layer are (out, in), as here. The token table is padded to a multiple of 128 rows by
///          zeros; a model with fewer rows leaves them out, one with more adds its own.
/// Formula  header: 20240326, version (3: fp32, 5: bf16), T, V, L, heads, C, V padded
///          bytes = 1024 + s (Vp C + T C + L (12 C C + 13 C) + 2 C),  s = 4 or 2
/// Costs    memory: one tensor beside the weights
/// Breaks   bf16 files round each weight once, to nearest even; fp32 goes and comes bit for bit
/// Source   github.com/karpathy/llm.c, train_gpt2.cu (gpt2_write_to_checkpoint), as of f1e2ace
/// See      hf_gpt2.hpp (the other form), tests/train/gpt2_files_test.cpp, tests/fuzz/
#pragma once
#include "mpt/base/file.hpp"           // input_file, output_file
#include "mpt/nn/gpt_layout.hpp"       // gpt_config, check_gpt2
#include "mpt/numeric/cast.hpp"        // cast
#include "mpt/train/saved_tensors.hpp" // named_tensor, part_of

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mpt {

inline constexpr std::int32_t llmc_model = 20240326; // what the file begins with

/// What an llm.c model file says of itself, checked against its size.
struct llmc_header {
    bool bf16 = false;
    gpt_config sizes;                                 // vocabulary: without the padding
    int padded = 0;                                   // rows of the token table
    std::size_t size() const { return bf16 ? 2 : 4; } // bytes a weight
};

/// One of the sixteen arrays: `name` as here, with "h.*." where it holds every layer's.
struct llmc_array {
    std::string name;
    safetensors::shape shape;
    std::uint64_t begin = 0; // byte in the file
    std::uint64_t elements = 1;
};

inline std::vector<llmc_array> llmc_arrays(const llmc_header& h) {
    const std::uint64_t C = std::uint64_t(h.sizes.channels), L = std::uint64_t(h.sizes.layers);
    std::vector<llmc_array> all{{"wte.weight", {std::uint64_t(h.padded), C}},
                                {"wpe.weight", {std::uint64_t(h.sizes.context), C}},
                                {"h.*.ln_1.weight", {L, C}},
                                {"h.*.ln_1.bias", {L, C}},
                                {"h.*.attn.c_attn.weight", {L, 3 * C, C}},
                                {"h.*.attn.c_attn.bias", {L, 3 * C}},
                                {"h.*.attn.c_proj.weight", {L, C, C}},
                                {"h.*.attn.c_proj.bias", {L, C}},
                                {"h.*.ln_2.weight", {L, C}},
                                {"h.*.ln_2.bias", {L, C}},
                                {"h.*.mlp.c_fc.weight", {L, 4 * C, C}},
                                {"h.*.mlp.c_fc.bias", {L, 4 * C}},
                                {"h.*.mlp.c_proj.weight", {L, C, 4 * C}},
                                {"h.*.mlp.c_proj.bias", {L, C}},
                                {"ln_f.weight", {C}},
                                {"ln_f.bias", {C}}};
    std::uint64_t at = 1024;
    for (llmc_array& a : all) {
        for (const std::uint64_t n : a.shape) a.elements *= n;
        a.begin = at;
        at += a.elements * h.size();
    }
    return all;
}

/// Read and check the header; `file` is an input_file, or has its name(), size() and read().
template <class File>
llmc_header read_llmc_header(const File& file) {
    const std::string& name = file.name();
    check(file.size() >= 1024, name, ": has ", file.size(),
          " bytes, wanted a header of 1024 and weights; it was cut short or is no model of llm.c");
    std::array<std::int32_t, 8> w{};
    file.read(0, std::as_writable_bytes(std::span(w)));
    check(w[0] == llmc_model, name, ": begins with the number ", w[0], ", wanted ", llmc_model,
          "; it is no model of llm.c");
    check(w[1] == 3 || w[1] == 5, name, ": is of version ", w[1],
          ", wanted 3 (fp32) or 5 (bf16); write it with a newer llm.c");
    const bool sane =
        std::all_of(w.begin() + 2, w.end(), [](std::int32_t n) { return n > 0 && n <= 1 << 24; }) &&
        w[7] >= w[3] && w[6] % w[5] == 0 && w[4] <= 1 << 16 && w[6] <= 1 << 16;
    check(sane, name, ": says context ", w[2], ", vocabulary ", w[3], " padded to ", w[7], ", ",
          w[4], " layers, ", w[5], " heads, ", w[6],
          " channels; wanted sizes above 0, and channels a multiple of heads");
    llmc_header h;
    h.bf16 = w[1] == 5;
    h.sizes = {w[4], w[5], w[5], w[6], w[2], w[3], 0};
    h.padded = w[7];
    const llmc_array last = llmc_arrays(h).back();
    const std::uint64_t want = last.begin + last.elements * h.size();
    check(file.size() == want, name, ": has ", file.size(), " bytes, its sizes need ", want,
          "; it was cut short or is of another model");
    return h;
}

// "h.3.ln_1.bias" -> "h.*.ln_1.bias", 3; other names stay, with 0.
inline std::pair<std::string, std::uint64_t> without_layer(const std::string& name) {
    if (!name.starts_with("h.")) return {name, 0};
    const std::size_t dot = name.find('.', 2);
    return {"h.*" + name.substr(dot), std::stoull(name.substr(2, dot - 2))};
}

/// Fill `weights`, whose `tensors` are gpt_layout's, from the file at `path`. The token table and
/// that of positions may have fewer rows here, or more words: their rows are zeros.
inline void read_llmc(const std::string& path, const std::vector<named_tensor>& tensors,
                      std::span<float> weights) {
    const input_file file("weights", path);
    const llmc_header h = read_llmc_header(file);
    const std::vector<llmc_array> arrays = llmc_arrays(h);
    for (const named_tensor& t : tensors) {
        const std::string kind = without_layer(t.name).first;
        const std::uint64_t layer = without_layer(t.name).second;
        const auto found = std::find_if(arrays.begin(), arrays.end(),
                                        [&](const llmc_array& a) { return a.name == kind; });
        const bool block = kind != t.name;
        check(found != arrays.end() && (!block || layer < found->shape[0]), file.name(),
              ": has no ", t.name, "; give the sizes of the file, or leave them out");
        const std::uint64_t there = found->elements / (block ? found->shape[0] : 1);
        const std::span<float> to = part_of(weights, t);
        const bool table = kind == "wte.weight" || kind == "wpe.weight";
        check(table || there == t.size, file.name(), ": ", t.name, " has ", there,
              " elements, this model wants ", t.size, "; leave the sizes out");
        const std::size_t n = std::size_t(std::min<std::uint64_t>(there, t.size));
        const std::uint64_t at = found->begin + layer * there * h.size();
        if (h.bf16) {
            std::vector<bf16> low(n);
            file.read(at, std::as_writable_bytes(std::span(low)));
            cast(low.data(), to.data(), n);
        } else
            file.read(at, std::as_writable_bytes(to.first(n)));
        std::fill(to.begin() + std::ptrdiff_t(n), to.end(), 0.0f);
    }
}

/// Write `weights` as T (float or bf16). c: the model; words: its vocabulary without padding.
template <class T>
void write_llmc(const std::string& path, const gpt_config& c, int words,
                const std::vector<named_tensor>& tensors, std::span<const float> weights) {
    check_gpt2(c, path);
    check(c.kv_heads == c.heads, "weights ", path, ": the model has ", c.heads, " heads and ",
          c.kv_heads, " key/value heads; llm.c's GPT-2 has as many of both, use safetensors");
    llmc_header h;
    h.bf16 = sizeof(T) == 2;
    h.sizes = c;
    h.padded = (words + 127) / 128 * 128;
    std::array<std::int32_t, 256> w{llmc_model, h.bf16 ? 5 : 3, c.context,  words,
                                    c.layers,   c.heads,        c.channels, h.padded};
    output_file file("weights", path);
    file.write(std::as_bytes(std::span(w)));
    std::vector<T> out;
    for (const llmc_array& a : llmc_arrays(h))
        for (const named_tensor& t : tensors) { // those of a kind stand in the order of the layers
            if (without_layer(t.name).first != a.name) continue;
            const bool block = a.name != t.name;
            out.assign(std::size_t(a.elements / (block ? a.shape[0] : 1)), T(0.0f));
            cast(part_of(weights, t).data(), out.data(), std::min(out.size(), t.size));
            file.write(std::as_bytes(std::span(out)));
        }
    file.commit();
}

} // namespace mpt
