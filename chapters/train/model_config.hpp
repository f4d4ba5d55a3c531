// SPDX-License-Identifier: MIT
// model_config.hpp -- the model's sizes from the options, and weights that another program made.
#pragma once
#include "options.hpp"

#include "mpt/nn/gpt_layout.hpp"   // gpt_config
#include "mpt/train/data.hpp"      // gpt2_vocabulary
#include "mpt/train/hf_gpt2.hpp"   // hf_file, hf_sizes, read_hf
#include "mpt/train/llmc_gpt2.hpp" // llmc_model, read_llmc

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

/// words: the vocabulary of the data. Without --vocabulary it is the model's, and GPT-2's 50257 get
/// 50304 rows, a multiple of 128.
inline mpt::gpt_config model_config(const options& o, int words) {
    mpt::gpt_config c;
    c.layers = o.layers;
    c.heads = o.heads;
    c.kv_heads = o.kv_heads ? o.kv_heads : o.heads;
    c.channels = o.channels;
    c.context = o.context;
    c.vocabulary = o.vocabulary ? o.vocabulary : words == mpt::gpt2_vocabulary ? 50304 : words;
    c.dropout = o.dropout;
    c.layer_norm = o.norm == "layernorm";
    c.tfixup = o.norm == "tfixup";
    c.residual_scale = o.residual_scale != "none";
    if (c.residual_scale) c.residual_start = std::strtof(o.residual_scale.c_str(), nullptr);
    mpt::check(words <= c.vocabulary, "--vocabulary ", c.vocabulary, ": the data has tokens up to ",
               words - 1, "; give ", words, " or more, or other data");
    mpt::check_config(c);
    return c;
}

inline bool is_llmc(const std::string& path) {
    const mpt::input_file file("weights", path);
    std::int32_t first = 0;
    if (file.size() >= 4) file.read(0, std::as_writable_bytes(std::span(&first, 1)));
    return first == mpt::llmc_model || path.ends_with(".bin");
}

/// The sizes of the weights in a file. heads: those given, 0 for none; a file of Hugging Face does
/// not say, so they come from it or from config.json beside it, else 64 channels each, as GPT-2's.
inline mpt::gpt_config sizes_of(const std::string& path, int heads) {
    if (is_llmc(path)) return mpt::read_llmc_header(mpt::input_file("weights", path)).sizes;
    const mpt::hf_file file(path);
    const std::string config = std::filesystem::path(path).replace_filename("config.json").string();
    std::error_code none;
    if (heads == 0 && std::filesystem::exists(config, none)) {
        const mpt::input_file f("config", config);
        std::string text(std::size_t(std::min<std::uint64_t>(f.size(), 1 << 20)), '\0');
        f.read(0, std::as_writable_bytes(std::span(text)));
        const mpt::json::value all = mpt::json::parse(text, f.name());
        std::uint64_t n = 0;
        const mpt::json::value* const v = all.find("n_head");
        mpt::check(!v || (v->to(n) && n > 0 && n <= 1 << 16), f.name(),
                   ": its n_head is no number of heads; mend it, or give --heads");
        heads = int(n);
    }
    if (heads == 0) heads = int(file.tensor("wte.weight", 2).shape[1] / 64);
    return mpt::hf_sizes(file, heads);
}

/// Fill `weights`, whose tensors are gpt_layout's, from a file of either form.
inline void read_weights(const std::string& path, const std::vector<mpt::named_tensor>& tensors,
                         std::span<float> weights) {
    if (is_llmc(path))
        mpt::read_llmc(path, tensors, weights);
    else
        mpt::read_hf(mpt::hf_file(path), tensors, weights);
}
