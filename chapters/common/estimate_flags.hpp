// SPDX-License-Identifier: MIT
// estimate_flags.hpp -- what is to be estimated, from flags: a model, ranks, what a run does.
#pragma once
#include "mpt/nn/checkpointing.hpp" // checkpointing
#include "mpt/nn/gpt_layout.hpp"    // gpt_config
#include "mpt/nn/model_size.hpp"    // model_size, size_of_gpt, size_of_parameters
#include "mpt/train/estimate.hpp"   // training_plan

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

struct choices {
    std::string preset, params, ranks, stage = "all", precision = "fp16", optimizer = "adamw";
    std::string offload = "none", reduce = "usual", checkpointing = "none", advise, plot;
    std::string moments = "fp32", sabotage = "none";
    int layers = 0, heads = 0, kv_heads = 0, channels = 0, context = 0, vocabulary = 0;
    int micro_batch = 1, micro_batches = 1, threads = 1;
    bool json = false, inference = false;
    bool named() const { return !preset.empty() || !params.empty() || layers > 0; }
};

// "7.5B", "2e9", "64M": a whole number. bytes: K, M, G, T mean powers of 1024, KB, MB, ... of 1000.
inline std::size_t whole_number(const std::string& flag, const std::string& text, bool bytes) {
    double value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, failed] = std::from_chars(text.data(), last, value);
    const std::string unit(end, last), units = bytes ? "KMGT" : "KMBT";
    const std::size_t power = unit.empty() ? 0 : units.find(unit[0]) + 1;
    const bool thousands = !bytes || unit.substr(unit.empty() ? 0 : 1) == "B";
    const bool known =
        unit.empty() ||
        (power > 0 && (unit.size() == 1 || (bytes && (thousands || unit.substr(1) == "iB"))));
    value *= std::pow(thousands ? 1000.0 : 1024.0, double(power));
    mpt::check(failed == std::errc() && known && value >= 1 && value < 0x1p63 &&
                   value == std::floor(value),
               flag, ' ', text,
               bytes ? ": wanted a number of bytes like 24GB (10^9), 24G (2^30) or 24000000000"
                     : ": wanted a whole number of parameters like 7.5B, 350M or 124439808");
    return std::size_t(value);
}

// "1,4,64"; without: 1, 4 and 64, but 1 where advice is asked for.
inline std::vector<int> ranks_of(const choices& o) {
    if (o.ranks.empty()) return o.advise.empty() ? std::vector{1, 4, 64} : std::vector{1};
    std::vector<int> all;
    for (std::size_t at = 0; at <= o.ranks.size();) {
        const std::size_t comma = std::min(o.ranks.find(',', at), o.ranks.size());
        int n = 0;
        const auto [end, failed] = std::from_chars(o.ranks.data() + at, o.ranks.data() + comma, n);
        mpt::check(failed == std::errc() && end == o.ranks.data() + comma && n >= 1, "--ranks ",
                   o.ranks, ": wanted numbers of ranks, 1 or more each, like 4 or 1,4,64");
        all.push_back(n);
        at = comma + 1;
    }
    mpt::check(o.advise.empty() || all.size() == 1, "--ranks ", o.ranks,
               " with --advise: ", all.size(), " numbers, wanted one");
    return all;
}

// A model, and how large it is.
struct subject {
    std::string name, note;
    bool is_gpt = false; // its layers are known, hence activations and units
    mpt::gpt_config config;
    int tokens = 0;    // a row
    std::string again; // the checkpointing plan with the fewest activations
    mpt::model_size size, size_again;
};

inline std::size_t weight_bytes(const choices& o) { return o.precision == "fp32" ? 4 : 2; }

inline void measure_gpt(subject& s, const choices& o) {
    const mpt::gpt_config& c = s.config;
    const auto size = [&](const std::string& words) {
        return mpt::size_of_gpt(c, mpt::checkpointing::parse(words, c.layers), o.micro_batch,
                                s.tokens, weight_bytes(o));
    };
    s.is_gpt = true;
    s.size = s.size_again = size(o.checkpointing);
    if (o.checkpointing != "none") return;
    std::size_t least = s.size.activations;
    for (int k = 1; k < c.layers; ++k) {
        const std::size_t bytes =
            mpt::activation_bytes(c, mpt::checkpointing::every(k, c.layers),
                                  mpt::amount(o.micro_batch) * s.tokens, weight_bytes(o));
        if (bytes < least) least = bytes, s.again = "every:" + std::to_string(k);
    }
    if (!s.again.empty()) s.size_again = size(s.again);
}

inline subject subject_of(const choices& o) {
    const bool shaped = o.layers > 0 || o.channels > 0;
    std::string names;
    const auto name = [&](const std::string& flag, const std::string& value) {
        names += (names.empty() ? "" : " and ") + flag + ' ' + value;
    };
    if (!o.preset.empty()) name("--preset", o.preset);
    if (!o.params.empty()) name("--params", o.params);
    if (shaped)
        name(o.layers > 0 ? "--layers" : "--channels",
             std::to_string(o.layers > 0 ? o.layers : o.channels));
    mpt::check(names.find(" and ") == names.npos, names, ": each names a model; give one of them");
    const std::string preset = names.empty() ? "7.5B" : o.preset;
    subject s;
    s.name = preset;
    mpt::gpt_config& c = s.config;
    mpt::check(shaped || (!o.heads && !o.kv_heads && !o.vocabulary),
               "--heads, --kv-heads and "
               "--vocabulary go with --layers and --channels; give those as well");
    if (preset == "gpt2") c.layers = 12, c.heads = c.kv_heads = 12, c.channels = 768;
    if (preset == "gpt2-xl") c.layers = 48, c.heads = c.kv_heads = 25, c.channels = 1600;
    if (preset == "gpt2" || preset == "gpt2-xl") {
        c.context = 1024, c.vocabulary = 50257;
        s.tokens = o.context > 0 ? o.context : c.context;
        measure_gpt(s, o);
    } else if (shaped) {
        mpt::check(o.layers > 0 && o.channels > 0, "--layers ", o.layers, " --channels ",
                   o.channels, ": a GPT needs both");
        c.layers = o.layers, c.channels = o.channels;
        c.heads = o.heads > 0 ? o.heads : std::max(1, o.channels / 64);
        c.kv_heads = o.kv_heads > 0 ? o.kv_heads : c.heads;
        c.context = o.context > 0 ? o.context : 1024;
        c.vocabulary = o.vocabulary > 0 ? o.vocabulary : 50257;
        s.tokens = c.context;
        s.name = "a GPT";
        measure_gpt(s, o);
    } else {
        mpt::check(
            o.checkpointing == "none" && o.micro_batch == 1 && o.context == 0,
            "--checkpoint-activations, --micro-batch and --context: activations are known of a "
            "GPT only; give --layers and --channels, or --preset gpt2 or gpt2-xl");
        std::size_t P = 7500000000;
        if (preset == "t5-large") P = 737668096; // as PyTorch counts, the tied embedding once
        if (!o.params.empty()) P = whole_number("--params", o.params, false), s.name = o.params;
        s.size = s.size_again = mpt::size_of_parameters(P);
        s.note =
            "activations, temporaries and units in flight: not counted, the number of parameters "
            "does not tell them";
        if (preset == "t5-large") {
            s.size.largest_layer = 32128 * 1024; // the embedding
            s.note = "t5-large is an encoder with a decoder and not mpt's GPT: its activations, "
                     "temporaries "
                     "and units in flight are not counted";
        }
    }
    return s;
}

inline mpt::training_plan plan_of(const choices& o, int ranks, int stage) {
    using namespace mpt;
    training_plan p;
    p.weight = weight_bytes(o);
    p.master = o.precision == "fp16" || o.precision == "bf16"; // not fp32, not bf16-only
    p.optimizer = o.optimizer == "adam8bit"   ? optimizer_kind::adam8
                  : o.moments == "bf16"       ? optimizer_kind::adam16
                  : o.optimizer == "momentum" ? optimizer_kind::momentum
                  : o.optimizer == "sgd"      ? optimizer_kind::sgd
                                              : optimizer_kind::adamw;
    p.ranks = ranks, p.stage = stage, p.micro_batches = o.micro_batches;
    p.reduce = o.reduce == "once"    ? reduce_when::once
               : o.reduce == "every" ? reduce_when::every
                                     : reduce_when::usual;
    p.offload = o.offload == "host"   ? offload_to::host
                : o.offload == "file" ? offload_to::file
                                      : offload_to::none;
    return p;
}

// The rows of the table: each number of ranks in each stage; one rank has nothing to divide.
inline std::vector<mpt::training_plan> plans_of(const choices& o) {
    std::vector<mpt::training_plan> all;
    for (const int n : ranks_of(o))
        for (int stage = 0; stage <= 3; ++stage)
            if (o.stage == std::to_string(stage) || (o.stage == "all" && (n > 1 || stage == 0)))
                all.push_back(plan_of(o, n, stage));
    return all;
}
