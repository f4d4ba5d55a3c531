// SPDX-License-Identifier: MIT
/// @file precision_policy.hpp
/// Which operation may run in 16 bits, and which must not.                 tier 4, needs:
/// base/error.hpp
///
/// Idea     Three words for an operation. low: its operands are cast to 16 bits first (products,
///          nearly all the time). fp32: to fp32 (exponentials, sums, squares: they leave fp16's
///          range, or round once too often). widest: it runs in the widest type it is shown.
///          A policy is a value that a list of operations is given: it cannot be lost in a thread.
/// Formula  "autocast,lm_head=fp32,h.*.mlp.c_fc=fp32": the last rule that names a site holds
/// Breaks   a name that is misspelt, an operation that is not named: both are errors
/// Source   PyTorch, ATen/autocast_mode.h (the lists of its CUDA back end)
/// See      autocast.hpp (who obeys), gpt_sites.hpp (names), tests/nn/precision_policy_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check, join

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

enum class operation {
    embedding,
    layernorm,
    linear,
    attention,
    gelu,
    dropout,
    residual,
    cross_entropy
};
inline constexpr int operation_kinds = 8;
inline const char* to_string(operation op) {
    constexpr const char* names[operation_kinds] = {"embedding", "layernorm",    "linear",
                                                    "attention", "gelu",         "dropout",
                                                    "residual",  "cross_entropy"};
    return names[int(op)];
}

enum class precision { low, fp32, widest };
inline const char* to_string(precision p) {
    return p == precision::low ? "low" : p == precision::fp32 ? "fp32" : "widest";
}

/// A call in a model's forward pass.
struct site {
    operation op;
    std::string name;                 // "h.0.attn.c_attn"
    std::vector<std::string> tensors; // the weights it reads, in the order of its arguments
};

struct policy_row {
    operation op;
    precision runs;
    const char* why;
};
/// What autocast does. Its lists name none of the `widest`: those take what comes.
inline constexpr policy_row autocast_table[operation_kinds] = {
    {operation::embedding, precision::widest, "a look-up, in the type of its table: fp32"},
    {operation::layernorm, precision::fp32, "sums of squares: 300 * 300 is past fp16"},
    {operation::linear, precision::low, "products: nearly all the time, sums inside in fp32"},
    {operation::attention, precision::low, "products, too; scores and softmax inside in fp32"},
    {operation::gelu, precision::widest, "elementwise: the type of its input"},
    {operation::dropout, precision::widest, "elementwise: the type of its input"},
    {operation::residual, precision::widest, "fp32 + 16 bits is fp32: the stream keeps its bits"},
    {operation::cross_entropy, precision::fp32, "exp, log, a sum over the vocabulary"},
};

class precision_policy {
public:
    static precision_policy autocast() {
        precision_policy p("autocast");
        for (const policy_row& row : autocast_table)
            p.rules_.push_back({to_string(row.op), row.runs});
        return p;
    }
    static precision_policy all_low() { return all("all-low", precision::low); }
    static precision_policy all_fp32() { return all("all-fp32", precision::fp32); }

    /// "autocast", "all-low" or "all-fp32", then NAME=low|fp32|widest, with commas. NAME is a kind
    /// of operation or a site; * stands for anything up to the next dot.
    static precision_policy parse(const std::string& text) {
        precision_policy p;
        std::istringstream items(text);
        for (std::string item; std::getline(items, item, ',');) {
            const std::size_t equals = item.find('=');
            if (equals != std::string::npos) {
                p.set(item.substr(0, equals), word(item, item.substr(equals + 1)));
                continue;
            }
            check(p.rules_.empty(), "precision policy: ", item, " in \"", text,
                  "\": wanted NAME=low, NAME=fp32 or NAME=widest behind the first word");
            check(item == "autocast" || item == "all-low" || item == "all-fp32",
                  "precision policy: \"", item,
                  "\"; wanted is autocast, all-low, all-fp32 or NAME=",
                  "low, NAME=fp32, NAME=widest");
            p = item == "autocast" ? autocast() : item == "all-low" ? all_low() : all_fp32();
        }
        p.require_rules();
        return p;
    }

    /// One rule more; it holds over those before it.
    precision_policy& set(const std::string& name, precision runs) {
        rules_.push_back({name, runs});
        text_ += (text_.empty() ? "" : ",") + name + '=' + to_string(runs);
        return *this;
    }

    /// What parse() reads.
    const std::string& text() const { return text_; }

    /// The precision of each site. Throws where a rule names none, or a site has no rule.
    std::vector<precision> resolve(const std::vector<site>& sites) const {
        require_rules();
        std::vector<precision> runs(sites.size());
        std::vector<bool> named(sites.size());
        for (const rule& r : rules_) {
            bool used = is_kind(r.name); // a model need not have operations of every kind
            for (std::size_t i = 0; i < sites.size(); ++i)
                if (r.name == to_string(sites[i].op) || matches(r.name, sites[i].name))
                    runs[i] = r.runs, named[i] = used = true;
            check(used, "precision policy: ", r.name, "=", to_string(r.runs),
                  " names no operation of this model; there are ", names(sites));
        }
        for (std::size_t i = 0; i < sites.size(); ++i)
            check(named[i], "precision policy: \"", text_, "\" does not name ", sites[i].name, " (",
                  to_string(sites[i].op), "); begin with autocast, all-low or all-fp32");
        return runs;
    }

    /// A line a kind of operation, then a line for each rule about single sites.
    std::string table() const {
        std::ostringstream out;
        out << std::left;
        for (const policy_row& row : autocast_table)
            for (auto r = rules_.rbegin(); r != rules_.rend(); ++r) {
                if (r->name != to_string(row.op)) continue;
                out << std::setw(16) << r->name << std::setw(8) << to_string(r->runs)
                    << (r->runs == row.runs ? row.why : "") << '\n';
                break;
            }
        for (const rule& r : rules_)
            if (!is_kind(r.name))
                out << std::setw(16) << r.name << std::setw(8) << to_string(r.runs) << '\n';
        return out.str();
    }

private:
    struct rule {
        std::string name; // a kind, or a site, perhaps with *
        precision runs;
    };
    explicit precision_policy(std::string text = "") : text_(std::move(text)) {}

    static precision_policy all(const char* text, precision runs) {
        precision_policy p(text);
        for (const policy_row& row : autocast_table) p.rules_.push_back({to_string(row.op), runs});
        return p;
    }
    static precision word(const std::string& item, const std::string& w) {
        for (const precision p : {precision::low, precision::fp32, precision::widest})
            if (w == to_string(p)) return p;
        throw error(join("precision policy: ", item, ": \"", w,
                         "\" is no precision; wanted is low, fp32 or widest"));
    }
    void require_rules() const {
        check(!rules_.empty(),
              "precision policy: names no operation; begin with autocast, all-low ",
              "or all-fp32, or give NAME=low, NAME=fp32 or NAME=widest for each");
    }
    static bool is_kind(const std::string& name) {
        return std::any_of(std::begin(autocast_table), std::end(autocast_table),
                           [&](const policy_row& row) { return name == to_string(row.op); });
    }
    static bool matches(std::string_view pattern, std::string_view name) {
        if (pattern.empty()) return name.empty();
        if (pattern[0] == '*' && matches(pattern.substr(1), name)) return true; // it ends here
        return !name.empty() && (pattern[0] == '*' ? name[0] != '.' : name[0] == pattern[0]) &&
               matches(pattern[0] == '*' ? pattern : pattern.substr(1), name.substr(1));
    }
    // The kinds and the sites, those of all blocks as one: "h.*.ln_1".
    static std::string names(const std::vector<site>& sites) {
        std::vector<std::string> all;
        for (const policy_row& row : autocast_table) all.push_back(to_string(row.op));
        for (const site& s : sites) {
            std::string name;
            for (const char c : s.name) // a number between dots is a block's
                if (c < '0' || c > '9' || name.empty() ||
                    (name.back() != '.' && name.back() != '*'))
                    name += c;
                else if (name.back() == '.')
                    name += '*';
            if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
        }
        std::string line = all[0];
        for (std::size_t i = 1; i < all.size(); ++i) line += ", " + all[i];
        return line;
    }

    std::vector<rule> rules_;
    std::string text_;
};

} // namespace mpt
