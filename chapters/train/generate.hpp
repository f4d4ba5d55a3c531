// SPDX-License-Identifier: MIT
// generate.hpp -- a model continues a text, one token at a time.
#pragma once
#include "options.hpp"

#include "mpt/base/philox.hpp"      // philox, uniform01: the same seed writes the same text
#include "mpt/nn/checkpointing.hpp" // checkpointing: parse
#include "mpt/nn/gpt.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

struct sampling {
    int tokens = 400;
    float temperature = 0.8f; // 0: always the likeliest
    int top_k = 40;           // 0: all
    std::uint64_t seed = 1;
    mpt::checkpointing plan = {}; // of the activations, as in training: they fit where those did
    int words = 0;                // drawn are tokens below it, those of the data; 0: all
};

/// A token drawn from softmax(logits / temperature) among the top_k likeliest.
inline int draw_token(const std::vector<float>& logits, const sampling& how, long position) {
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const std::size_t k =
        how.top_k > 0 ? std::min(std::size_t(how.top_k), order.size()) : order.size();
    std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(k), order.end(),
                      [&](int a, int b) {
                          const float x = logits[std::size_t(a)], y = logits[std::size_t(b)];
                          return x != y ? x > y : a < b;
                      });
    if (how.temperature == 0) return order[0];
    std::vector<double> share(k);
    double sum = 0;
    for (std::size_t i = 0; i < k; ++i) {
        const float best = logits[std::size_t(order[0])], one = logits[std::size_t(order[i])];
        sum += share[i] = std::exp(double(one - best) / how.temperature);
    }
    const mpt::philox4 r = mpt::philox({{std::uint32_t(position), 0, 0, 0x5A3B}},
                                       std::uint32_t(how.seed), std::uint32_t(how.seed >> 32));
    double left = mpt::uniform01(r.x[0]) * sum;
    for (std::size_t i = 0; i < k; ++i)
        if ((left -= share[i]) < 0) return order[i];
    return order[0];
}

/// Tokens that follow `text` (at least one token), each handed to `each` as it is drawn.
template <class T, class Ops, class Each>
void generate(mpt::gpt<T, Ops>& model, mpt::memory& mem, mpt::strategy<T>& strategy,
              mpt::device_span<const T> weights, std::vector<int> text, const sampling& how,
              Each each) {
    const int context = model.config.context, V = model.config.vocabulary;
    mpt::gpt_acts<T> acts(mem, model.config, 1, context, how.plan);
    mpt::buffer<int> inputs(mem, mpt::kind::data, std::size_t(context), "inputs");
    mpt::buffer<int> targets(mem, mpt::kind::data, std::size_t(context), "targets");
    model.ops.copy_to_device(targets.span(),
                             std::vector<int>(std::size_t(context), mpt::ignored_target));
    std::vector<T> last(std::size_t(V), T{});
    std::vector<float> logits(std::size_t(how.words > 0 ? how.words : V), 0);
    for (int i = 0; i < how.tokens; ++i) {
        // The latest tokens, then padding: attention is causal, so nothing before it sees it.
        const std::size_t used = std::min(text.size(), std::size_t(context));
        std::vector<int> row(text.end() - std::ptrdiff_t(used), text.end());
        row.resize(std::size_t(context), 0);
        model.ops.copy_to_device(inputs.span(), row);
        model.forward(strategy, weights, {inputs.span(), targets.span(), 1, context, 0, 0, 0},
                      acts);
        model.ops.copy_to_host(last,
                               acts.logits.subspan((used - 1) * std::size_t(V), std::size_t(V)));
        std::transform(last.begin(), last.begin() + std::ptrdiff_t(logits.size()), logits.begin(),
                       [](T x) { return float(mpt::widen(x)); });
        text.push_back(draw_token(logits, how, i));
        each(text.back());
    }
}

/// The tokens of a prompt: the bytes of a text, or the numbers of GPT-2 tokens. words: of the data.
inline std::vector<int> prompt_tokens(const std::string& prompt, int words) {
    std::vector<int> tokens;
    if (words <= 256) {
        for (const char c : prompt) tokens.push_back(int(static_cast<unsigned char>(c)));
        mpt::check(!tokens.empty(), "--prompt: is empty; give at least one character");
        return tokens;
    }
    if (prompt == options().prompt) return {50256}; // nothing was asked for: GPT-2's "end of text"
    std::istringstream numbers(prompt);
    for (std::string word; numbers >> word;) {
        int token = -1;
        const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), token);
        mpt::check(failed == std::errc() && end == word.data() + word.size() && token >= 0 &&
                       token < words,
                   "--prompt: ", word,
                   " is no GPT-2 token; this model was trained on token numbers, give "
                   "numbers below ",
                   words);
        tokens.push_back(token);
    }
    mpt::check(!tokens.empty(), "--prompt: is empty; give at least one token number");
    return tokens;
}

/// The prompt and what the model makes of it, on stdout: text, or numbers where tokens are GPT-2's.
/// words: of the data; a model may have more rows. aloud: false: a rank that only takes part.
template <class T, class Ops>
void write_sample(mpt::gpt<T, Ops>& model, mpt::memory& mem, mpt::strategy<T>& strategy,
                  mpt::device_span<const T> weights, const options& o, int words,
                  bool aloud = true) {
    if (o.sample_tokens == 0) return;
    const bool text = words <= 256;
    const auto put = [&](int token) {
        if (!aloud) return;
        text ? void(std::putchar(token)) : void(std::printf("%d ", token));
        std::fflush(stdout);
    };
    const std::vector<int> prompt = prompt_tokens(o.prompt, words);
    for (const int token : prompt) put(token);
    generate(model, mem, strategy, weights, prompt,
             {o.sample_tokens, o.temperature, o.top_k, o.seed,
              mpt::checkpointing::parse(o.checkpointing, o.layers), words},
             put);
    if (aloud) std::putchar('\n');
}
