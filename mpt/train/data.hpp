// SPDX-License-Identifier: MIT
/// @file data.hpp
/// Tokens from a file, and the samples a step is shown.                    tier 5, needs:
/// base/error.hpp base/file.hpp base/json_write.hpp base/philox.hpp
///
/// Idea     Any file is text of 256 tokens, its bytes; llm.c's token files hold GPT-2's 50257. The
///          last tenth is held out. Where a sample begins is computed from its number: every rank
///          draws its part, N ranks draw what one would, and a resumed run needs no state.
/// Formula  start = Philox(sample, step; seed) mod (train_end - T)
///          inputs = tokens[start, start + T),  targets = tokens[start + 1, start + T + 1)
/// Costs    memory: 2 bytes a token
/// Breaks   samples are drawn with replacement: an epoch is an amount, not once each token
/// Source   github.com/karpathy/llm.c, dev/data/data_common.py (token files), as of f1e2ace
/// See      bigram.hpp, nn/batch.hpp, tests/train/data_test.cpp
#pragma once
#include "mpt/base/error.hpp"      // check, error, join
#include "mpt/base/file.hpp"       // input_file
#include "mpt/base/json_write.hpp" // quote
#include "mpt/base/philox.hpp"     // philox

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

struct token_data {
    std::vector<std::uint16_t> tokens;
    int vocabulary = 0;        // every token is below it
    std::string name;          // the file
    std::size_t train_end = 0; // [0, train_end) is for training, the rest is held out
};

inline constexpr std::int32_t gpt2_tokens = 20240520;   // llm.c's number in front of u16 tokens
inline constexpr std::int32_t llama3_tokens = 20240801; // and of u32 tokens, which are refused
inline constexpr std::size_t token_header = 1024;       // 256 x int32: magic, version, count, 0 ...
inline constexpr int gpt2_vocabulary = 50257;

inline void read_token_file(const input_file& file, token_data& data) {
    const std::string& name = file.name();
    check(file.size() >= token_header, name, ": has ", file.size(),
          " bytes, wanted a header of 1024 and the tokens; it was cut short, get it anew");
    std::int32_t head[3];
    file.read(0, std::as_writable_bytes(std::span(head)));
    check(head[0] == gpt2_tokens, name, ": begins with the number ", head[0], ", wanted ",
          gpt2_tokens,
          head[0] == llama3_tokens
              ? " (GPT-2 tokens of llm.c; these are Llama-3's); tokenize the text for GPT-2"
              : " (GPT-2 tokens of llm.c); make it with llm.c, or rename it if it is text");
    check(head[1] == 1, name, ": is of version ", head[1], ", wanted 1; make it anew");
    check(head[2] >= 0 && file.size() == token_header + 2 * std::uint64_t(head[2]), name, ": says ",
          head[2], " tokens, wanted ", head[2], " x 2 bytes behind 1024, found ",
          file.size() - token_header, "; it was cut short, get it anew");
    data.tokens.resize(std::size_t(head[2]));
    file.read(token_header, std::as_writable_bytes(std::span(data.tokens)));
    data.vocabulary = gpt2_vocabulary;
    const auto bad = std::find_if(data.tokens.begin(), data.tokens.end(),
                                  [](std::uint16_t t) { return t >= gpt2_vocabulary; });
    if (bad != data.tokens.end())
        throw error(join(name, ": token ", bad - data.tokens.begin(), " is ", *bad,
                         ", wanted less than ", gpt2_vocabulary, "; it is damaged, get it anew"));
}

inline void read_text(const input_file& file, token_data& data) {
    data.tokens.resize(std::size_t(file.size()));
    std::vector<std::byte> part(1 << 16);
    for (std::size_t at = 0; at < data.tokens.size(); at += part.size()) {
        part.resize(std::min(part.size(), data.tokens.size() - at));
        file.read(at, part);
        std::transform(part.begin(), part.end(), data.tokens.begin() + std::ptrdiff_t(at),
                       [](std::byte b) { return std::to_integer<std::uint16_t>(b); });
    }
    data.vocabulary = 256;
}

/// All tokens of a file. A name that ends in .bin, or llm.c's number at the beginning, means a
/// token file; anything else is text. An error names the file, what was found and what was wanted.
inline token_data load_tokens(const std::string& path) {
    const input_file file("data", path);
    check(file.size() > 0, file.name(), ": is empty, wanted text or tokens; give another file");
    std::int32_t first = 0;
    if (file.size() >= 4) file.read(0, std::as_writable_bytes(std::span(&first, 1)));
    token_data data;
    data.name = path;
    if (first == gpt2_tokens || std::string_view(path).ends_with(".bin"))
        read_token_file(file, data);
    else
        read_text(file, data);
    data.train_end = data.tokens.size() - data.tokens.size() / 10;
    return data;
}

/// Throws unless both parts hold a sample of T tokens and the token that follows.
inline void require_context(const token_data& data, int T) {
    check(T > 0, "context: is ", T, ", wanted at least 1; give a larger --context");
    const std::size_t n = data.tokens.size(), held_out = n - data.train_end;
    const std::size_t part = std::min(data.train_end, held_out), wanted = std::size_t(T) + 1;
    if (part >= wanted) return;
    const std::string shorter = part > 1 ? join(" or a --context of at most ", part - 1) : "";
    throw error(join("data ", data.name, ": ", n, " tokens are ", data.train_end, " to train and ",
                     held_out, " held out, wanted at least ", wanted, " of each for a context of ",
                     T, "; give a file of at least ", 10 * wanted, " tokens", shorter));
}

/// Where sample number `sample` of attempted step `step` begins: in [0, train_end - T).
inline std::size_t sample_start(const token_data& data, std::uint64_t seed, long step, long sample,
                                 int T) {
    // The last word tells these numbers from those of dropout, which has a layer there.
    const philox4 r = philox({{std::uint32_t(sample), std::uint32_t(std::uint64_t(sample) >> 32),
                               std::uint32_t(step), 0xFFFFFFFFu}},
                             std::uint32_t(seed), std::uint32_t(seed >> 32));
    return ((std::uint64_t(r.x[0]) << 32) | r.x[1]) % (data.train_end - std::size_t(T));
}

inline void copy_sample(const token_data& data, std::size_t start, std::span<int> inputs,
                        std::span<int> targets) { // (T), (T)
    const auto from = data.tokens.begin() + std::ptrdiff_t(start);
    std::copy_n(from, inputs.size(), inputs.begin());
    std::copy_n(from + 1, targets.size(), targets.begin());
}

/// Row b of a training batch: sample first_sample + b of attempted step `step`, counted over all
/// ranks and micro-batches. inputs and targets (B,T), on the host.
inline void draw_batch(const token_data& data, std::uint64_t seed, long step, long first_sample,
                       int B, int T, std::span<int> inputs, std::span<int> targets) {
    require_context(data, T);
    const std::size_t n = std::size_t(T);
    check(inputs.size() == std::size_t(B) * n && targets.size() == inputs.size(),
          "draw_batch: room for ", inputs.size(), " inputs and ", targets.size(),
          " targets, wanted ", B, " x ", T, " of each");
    for (int b = 0; b < B; ++b)
        copy_sample(data, sample_start(data, seed, step, first_sample + b, T),
                    inputs.subspan(std::size_t(b) * n, n), targets.subspan(std::size_t(b) * n, n));
}

/// Row b of a held-out batch: sample first + b of `samples`, which lie at even distances, the same
/// in every run. They overlap where there are more than the held-out part has room for.
inline void validation_batch(const token_data& data, int samples, int first, int B, int T,
                             std::span<int> inputs, std::span<int> targets) {
    require_context(data, T);
    const std::size_t n = std::size_t(T);
    check(inputs.size() == std::size_t(B) * n && targets.size() == inputs.size() && first >= 0 &&
              B >= 0 && first + B <= samples,
          "validation_batch: samples ", first, " to ", first + B, " of ", samples, ", room for ",
          inputs.size(), " inputs and ", targets.size(),
          " targets; wanted samples that exist and room for ", B, " x ", T);
    const std::size_t last =
        data.tokens.size() - data.train_end - n - 1; // start of the last sample
    for (int b = 0; b < B; ++b) {
        const std::size_t number = std::size_t(first + b);
        const std::size_t start = samples > 1 ? last * number / std::size_t(samples - 1) : 0;
        copy_sample(data, data.train_end + start, inputs.subspan(std::size_t(b) * n, n),
                    targets.subspan(std::size_t(b) * n, n));
    }
}

} // namespace mpt
