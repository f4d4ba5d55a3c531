// SPDX-License-Identifier: MIT
// estimate_tables.hpp -- estimates as tables in GB (10^9 bytes), as JSON in bytes, as a picture.
#pragma once
#include "bars.hpp"           // bars
#include "estimate_flags.hpp" // subject, choices, plans_of

#include "mpt/base/json_write.hpp"          // quote
#include "mpt/train/advise.hpp"             // candidate
#include "mpt/train/deepspeed_estimate.hpp" // deepspeed_zero2, deepspeed_zero3

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

inline double GB(double bytes) { return bytes / 1e9; }

inline std::size_t everywhere(const mpt::estimate& e, mpt::kind k) { // a kind lies in one place
    return e.at(k) + e.at(k, mpt::place::host) + e.at(k, mpt::place::file);
}

inline std::string digits(double bytes) { // in GB
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", GB(bytes));
    return text;
}

inline void print_head(const subject& s, const choices& o) {
    std::printf("%s: %zu parameters; %s, %s%s, %d micro-batch%s a step; GB (10^9 bytes) a rank\n",
                s.name.c_str(), s.size.parameters().n, o.precision.c_str(), o.optimizer.c_str(),
                o.moments == "bf16" ? " with moments in bf16" : "", o.micro_batches,
                o.micro_batches == 1 ? "" : "es");
    if (!s.note.empty()) std::printf("%s\n", s.note.c_str());
}

// A row a plan: its kinds wherever they lie, then what each place holds. Columns of zeros are left
// out.
inline void print_table(const subject& s, const choices& o) {
    using namespace mpt;
    std::vector<std::pair<training_plan, estimate>> rows;
    for (const training_plan& p : plans_of(o)) rows.push_back({p, estimate_bytes(s.size, p)});
    const auto any = [&](auto bytes) {
        return std::any_of(rows.begin(), rows.end(),
                           [&](const auto& r) { return bytes(r.second); });
    };
    std::vector<kind> shown;
    for (int k = 0; k < kinds; ++k)
        if (any([k](const estimate& e) { return everywhere(e, kind(k)); }))
            shown.push_back(kind(k));
    std::vector<place> there = {place::device};
    for (const place p : {place::host, place::file})
        if (any([p](const estimate& e) { return e.total(p); })) there.push_back(p);

    std::printf("\nranks ZeRO");
    for (const kind k : shown) std::printf(" %8s", k == kind::activations ? "acts" : to_string(k));
    std::printf(" |");
    for (const place p : there) std::printf(" %8s", to_string(p));
    for (const auto& [p, e] : rows) {
        std::printf("\n%5d %4d", p.ranks, p.stage);
        for (const kind k : shown) std::printf(" %8s", digits(double(everywhere(e, k))).c_str());
        std::printf(" |");
        for (const place where : there) std::printf(" %8s", digits(double(e.total(where))).c_str());
    }
    std::printf("\n");
}

// As many ranks a machine as divide N, 8 at most.
inline int ranks_a_machine(int N) {
    int g = std::min(N, 8);
    while (N % g) --g;
    return g;
}

// DeepSpeed's estimate of a plan in stage 2 or 3: with a file its weights leave the device too.
inline mpt::deepspeed_need deepspeed_of(const subject& s, const mpt::training_plan& p) {
    const double P = double(s.size.parameters().n), L = double(s.size.largest_layer);
    const int g = ranks_a_machine(p.ranks), machines = p.ranks / g;
    const bool away = p.offload != mpt::offload_to::none;
    if (p.stage == 2) return mpt::deepspeed_zero2(P, g, machines, away);
    return mpt::deepspeed_zero3(P, L, g, machines, away, p.offload == mpt::offload_to::file);
}

// Its estimators know 16-bit weights with a master, and Adam.
inline bool deepspeed_counts(const choices& o) {
    return (o.precision == "fp16" || o.precision == "bf16") && o.optimizer == "adamw" &&
           o.moments == "fp32";
}

inline void print_deepspeed(const subject& s, const choices& o, int ranks) {
    using mpt::kind, mpt::place;
    if (!deepspeed_counts(o)) return;
    const int g = ranks_a_machine(ranks);
    std::printf("\nDeepSpeed's estimators beside it: %d ranks, %d a machine; GB on the device\n"
                "%-16s %8s %9s %8s %9s\n",
                ranks, g, "", "ZeRO-2", "DeepSpeed", "ZeRO-3", "DeepSpeed");
    const mpt::training_plan two = plan_of(o, ranks, 2), three = plan_of(o, ranks, 3);
    const mpt::estimate e2 = mpt::estimate_bytes(s.size, two),
                        e3 = mpt::estimate_bytes(s.size, three);
    const mpt::deepspeed_need d2 = deepspeed_of(s, two), d3 = deepspeed_of(s, three);
    const auto row = [](const char* name, std::size_t a, double b, std::size_t c, double d,
                        const char* why) {
        if (a == 0 && b == 0 && c == 0 && d == 0) return;
        std::printf("%-16s %8.4g %9.4g %8.4g %9.4g  %s\n", name, GB(double(a)), GB(b),
                    GB(double(c)), GB(d), why);
    };
    const auto states = [](const mpt::estimate& e) {
        return e.at(kind::master) + e.at(kind::moments);
    };
    const auto rest = [](const mpt::estimate& e) {
        return e.at(kind::activations) + e.at(kind::temp) + e.at(kind::data);
    };
    row("weights", e2.at(kind::weights), d2.weights, e3.at(kind::weights), d3.weights, "16 bits");
    row("gradients", e2.at(kind::grads), d2.grads, e3.at(kind::grads), d3.grads,
        "16 bits; its ZeRO-3 leaves the shard out");
    row("fp32 copies", 0, d2.grads32, 0, d3.grads32,
        "of gradients, at the step; mpt widens in registers");
    row("fp32 sums", e2.at(kind::sums), 0, e3.at(kind::sums), 0, "of a window of micro-batches");
    row("master, m and v", states(e2), d2.states, states(e3), d3.states, "12 bytes a parameter");
    row("in flight", e2.at(kind::comm), d2.layer, e3.at(kind::comm), d3.layer,
        s.size.largest_layer ? "mpt: units; DeepSpeed: 4 bytes of the largest layer"
                             : "units, layers: not known");
    row("activations ...", rest(e2), 0, rest(e3), 0, "with temp and data; DeepSpeed: not counted");
    row("together", e2.total(), d2.gpu(), e3.total(), d3.gpu(), "");
    row("host, a machine", e2.total(place::host) * std::size_t(g), d2.machine,
        e3.total(place::host) * std::size_t(g), d3.machine,
        "DeepSpeed: 1.5 times, and fp32 weights while loading");
}

inline void print_inference(const subject& s, const choices& o) {
    const std::size_t P = s.size.parameters().n;
    std::printf("\ninference, GB: weights %.4g in 16 bits, %.4g in int8 (a byte, and an fp32 scale "
                "for 256)\n",
                GB(2 * double(P)), GB(double(P) + 4 * double(mpt::div_up(P, 256).n)));
    if (s.is_gpt)
        std::printf("keys and values of %d x %d tokens: %.4g in 16 bits, %zu bytes a token\n",
                    o.micro_batch, s.tokens,
                    GB(double(mpt::kv_cache_bytes(s.config, o.micro_batch, s.tokens, 2))),
                    mpt::kv_cache_bytes(s.config, 1, 1, 2));
}

inline void print_advice(const std::vector<mpt::candidate>& all, const subject& s,
                         const choices& o) {
    const mpt::candidate& best = mpt::best_of(all);
    std::printf("\nwhich technique first: %d rank%s with %s each\n   %-48s %9s %9s %9s\n",
                best.plan.ranks, best.plan.ranks == 1 ? "" : "s", o.advise.c_str(), "", "device",
                "host", "file");
    for (const mpt::candidate& c : all)
        std::printf("%s %-48s %9s %9s %9s%s%s\n", &c == &best && c.fits ? "->" : "  ",
                    c.name.c_str(), digits(double(c.bytes.total())).c_str(),
                    digits(double(c.bytes.total(mpt::place::host))).c_str(),
                    digits(double(c.bytes.total(mpt::place::file))).c_str(),
                    c.fits ? "  fits" : "  too much", c.again ? (" with " + s.again).c_str() : "");
}

inline std::string json_of(const mpt::estimate& e) { // "device":{"weights":15000000000,...},...
    std::string out;
    for (int p = 0; p < mpt::places; ++p) {
        out += std::string(p ? "," : "") + '"' + to_string(mpt::place(p)) + "\":{";
        for (int k = 0; k < mpt::kinds; ++k)
            out += std::string("\"") + to_string(mpt::kind(k)) +
                   "\":" + std::to_string(e.at(mpt::kind(k), mpt::place(p))) + ',';
        out += "\"total\":" + std::to_string(e.total(mpt::place(p))) + '}';
    }
    return out;
}

// Everything, in bytes. advice: empty where none was asked for.
inline std::string json_of(const subject& s, const choices& o,
                           const std::vector<mpt::candidate>& advice) {
    using mpt::json::number, mpt::json::quote;
    const std::size_t P = s.size.parameters().n;
    std::string out = "{\"model\":" + quote(s.name) + ",\"parameters\":" + std::to_string(P) +
                      ",\"activations_counted\":" + (s.is_gpt ? "true" : "false") +
                      ",\"precision\":" + quote(o.precision) +
                      ",\"optimizer\":" + quote(o.optimizer) + ",\"moments\":" + quote(o.moments) +
                      ",\"micro_batches\":" + std::to_string(o.micro_batches) +
                      ",\"offload\":" + quote(o.offload) +
                      ",\"checkpointing\":" + quote(o.checkpointing) + ",\"rows\":[";
    bool first = true;
    for (const mpt::training_plan& p : plans_of(o)) {
        out += (first ? "{\"ranks\":" : ",{\"ranks\":") + std::to_string(p.ranks) +
               ",\"stage\":" + std::to_string(p.stage) +
               ",\"reduce\":" + (p.reduces_every() ? "\"every\"" : "\"once\"") + ',' +
               json_of(mpt::estimate_bytes(s.size, p));
        first = false;
        if (p.stage >= 2 && deepspeed_counts(o)) {
            const mpt::deepspeed_need d = deepspeed_of(s, p);
            out += ",\"deepspeed\":{\"gpu\":" + number(d.gpu()) +
                   ",\"machine\":" + number(d.machine) + '}';
        }
        out += '}';
    }
    out += ']';
    if (o.inference) {
        out += ",\"inference\":{\"weights_16\":" + std::to_string(2 * P) +
               ",\"weights_int8\":" + std::to_string(P + 4 * mpt::div_up(P, 256).n);
        if (s.is_gpt)
            out += ",\"kv_cache\":" +
                   std::to_string(mpt::kv_cache_bytes(s.config, o.micro_batch, s.tokens, 2));
        out += '}';
    }
    if (!advice.empty()) {
        out += ",\"advice\":[";
        for (const mpt::candidate& c : advice)
            out += std::string(&c == &advice.front() ? "" : ",") + "{\"name\":" + quote(c.name) +
                   ",\"device\":" + std::to_string(c.bytes.total()) +
                   ",\"host\":" + std::to_string(c.bytes.total(mpt::place::host)) +
                   ",\"file\":" + std::to_string(c.bytes.total(mpt::place::file)) +
                   ",\"fits\":" + (c.fits ? "true" : "false") + '}';
        out += ']';
    }
    return out + '}';
}

// A bar a row: what a rank's device holds.
inline bars picture(const subject& s, const choices& o) {
    bars b{s.name + " in " + o.precision + ": what a rank's device holds",
           "GB (10^9 bytes) a rank",
           {},
           {}};
    for (int k = 0; k < mpt::kinds; ++k) b.kinds.push_back(to_string(mpt::kind(k)));
    for (const mpt::training_plan& p : plans_of(o)) {
        const mpt::estimate e = mpt::estimate_bytes(s.size, p);
        bar one{p.stage ? mpt::join("ZeRO-", p.stage) : "plain",
                p.ranks == 1 ? "1 rank" : mpt::join(p.ranks, " ranks"),
                digits(double(e.total())),
                {}};
        for (int k = 0; k < mpt::kinds; ++k) one.heights.push_back(GB(double(e.at(mpt::kind(k)))));
        b.all.push_back(one);
    }
    return b;
}
