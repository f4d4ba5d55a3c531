// SPDX-License-Identifier: MIT
// How many bytes a run will hold, before it is started: by kind, by rank, by technique.
//
// broken: --sabotage forget-sums => [FAILS] fp16, 2 micro-batches: ledger = estimate
// broken: --sabotage shard-weights => [FAILS] 7.5B parameters: 120 GB
// broken: --preset gpt2 --advise 1MB => none of the 3 candidates fits
// broken: --params 1e9 --layers 2 => --params 1e9 and --layers 2: each names a model
// broken: --params 1.5 => --params 1.5: wanted a whole number of parameters
// broken: --ranks 4,0 => --ranks 4,0: wanted numbers of ranks, 1 or more each
// broken: --ranks= => --ranks: 1 required TEXT missing
// broken: --micro-batch 0 => --micro-batch 0: wanted 1 to 1048576
// broken: --preset gpt2 --sabotage forget-sums => --sabotage forget-sums: breaks what is proved
// broken: --moments bf16 --optimizer sgd => --moments bf16 with --optimizer sgd: it has no use
// broken: --preset gpt2 --advise 1MB --optimizer adam8bit => try more --ranks, --checkpoint
// broken: --stage 4 => --stage: 4 not in {0,1,2,3,all}
// broken: --preset gpt5 => --preset: gpt5 not in {gpt2,gpt2-xl,t5-large,7.5B}
// broken: --params 1e9 --micro-batch 8 => activations are known of a GPT only
// with: --preset gpt2 --micro-batch 8 --advise 24GB --ranks 4 => -> data parallel
// with: --preset 7.5B --advise 20GB --ranks 64 => -> ZeRO-2
// with: --params 1B --moments bf16 --ranks 1 --json => "moments":4000000000
// with: --params 256M --optimizer adam8bit --ranks 1 --json => "moments":520000000
// with: --preset t5-large --ranks 4 => t5-large: 737668096 parameters
// with: --preset gpt2-xl --inference => gpt2-xl: 1557611200 parameters
// with: --preset 7.5B --offload host --json => {"model":"7.5B","parameters":7500000000
// picture: --plot stages.svg => docs/images/chapter_11_stages.svg
#include "common/args.hpp"            // arguments: the flags
#include "common/claims.hpp"          // claims: what is proved
#include "common/estimate_flags.hpp"  // choices, subject_of, plan_of: from flags
#include "common/estimate_tables.hpp" // print_table, print_deepspeed, json_of, picture
#include "common/gpt_run.hpp"         // gpt_run, windows: a run that the ledger watches

#include "mpt/base/json.hpp"      // parse
#include "mpt/train/advise.hpp"   // advise, best_of
#include "mpt/train/estimate.hpp" // estimate_bytes

//! [run]
// A step of a small GPT on one rank; does its ledger say what the estimate had said?
template <class T>
bool lives_up(const std::string& name, int micro_batches, const std::string& plan,
              const choices& o) {
    mpt::gpt_config c;
    c.layers = 6, c.channels = 48, c.context = 32;
    const int B = 3;
    const auto how = mpt::checkpointing::parse(plan, c.layers);

    mpt::model_size size = mpt::size_of_gpt(c, how, B, c.context, sizeof(T));
    size.temp += (mpt::gpt_scratch<T>(c, B, c.context) + 63) / 64 * 64 * std::size_t(o.threads);
    size.data *= std::size_t(micro_batches); // `windows` has all of a window
    mpt::training_plan p;
    p.weight = sizeof(T), p.master = sizeof(T) < 4, p.micro_batches = micro_batches;
    mpt::estimate said = mpt::estimate_bytes(size, p);
    if (o.sabotage == "forget-sums") said.at(mpt::kind::sums) = 0;

    gpt_run<T> run(c, B, micro_batches, o.threads, how);
    windows data(run.ops, run.mem, "", micro_batches, B, c.context);
    mpt::adamw adam;
    const window now = data(0);
    for (const mpt::batch& b : now) {
        run.model.forward(run.strategy, run.weights, b, run.acts);
        run.model.backward(run.strategy, run.weights, b, run.acts, 1.0f / float(now.tokens),
                           run.grads);
    }
    adam.step(run.ops, run.model.map, run.owned, run.strategy.finish(run.grads), 1, 1e-3);

    const mpt::ledger& books = run.mem.books;
    bool same = books.peak_total() == said.total();
    for (int k = 0; k < mpt::kinds; ++k)
        same &= books.at_peak(mpt::kind(k)) == said.at(mpt::kind(k));
    std::printf("%-34s %10zu %10zu\n", name.c_str(), books.peak_total(), said.total());
    return same;
}
//! [run]

//! [known]
// The numbers of the ZeRO paper's first figure, and those for 4 ranks.
bool knows_7_5B(const choices& o) {
    const auto m = mpt::size_of_parameters(7500000000);
    const auto GB = [&](int ranks, int stage) {
        mpt::training_plan p;
        p.ranks = ranks, p.stage = stage;
        mpt::estimate e = mpt::estimate_bytes(m, p);
        if (o.sabotage == "shard-weights" && stage > 0)
            e.at(mpt::kind::weights) /= std::size_t(ranks);
        return double(e.total()) / 1e9;
    };
    return GB(1, 0) == 120 && GB(4, 1) == 52.5 && GB(4, 2) == 41.25 && GB(4, 3) == 30 &&
           GB(64, 1) == 31.40625 && GB(64, 2) == 16.640625 && GB(64, 3) == 1.875;
}
//! [known]

// The bytes that the JSON names are those of the estimate.
bool reads_back(const subject& s, const choices& o) {
    const auto all = mpt::json::parse(json_of(s, o, {}));
    const auto plans = plans_of(o);
    const auto& rows = all.find("rows")->items;
    bool same = rows.size() == plans.size();
    for (std::size_t i = 0; same && i < rows.size(); ++i)
        for (int p = 0; p < mpt::places; ++p) {
            std::uint64_t total = 0;
            same &= rows[i].find(to_string(mpt::place(p)))->find("total")->to(total) &&
                    total == mpt::estimate_bytes(s.size, plans[i]).total(mpt::place(p));
        }
    return same;
}

int prove(const subject& s, const choices& o) {
    std::printf("\n%-34s %10s %10s\n", "a step on one rank, bytes", "ledger", "estimate");
    std::vector<std::pair<std::string, bool>> runs;
    const auto live = [&](auto t, const std::string& name, int M, const std::string& plan) {
        runs.emplace_back(name, lives_up<decltype(t)>(name, M, plan, o));
    };
    live(float(), "fp32", 1, "none");
    live(mpt::fp16(), "fp16", 1, "none");
    live(mpt::fp16(), "fp16, 2 micro-batches", 2, "none");
    live(mpt::fp16(), "fp16, checkpointing every:1", 1, "every:1");
    live(mpt::bf16(), "bf16, 3 micro-batches, sqrt", 3, "sqrt");
    std::printf("\n");

    claims claim;
    // expect: [holds] 7.5B parameters: 120 GB; 4 ranks 52.5, 41.25, 30; 64 ranks 31.4, 16.6, 1.875
    claim(knows_7_5B(o),
          "7.5B parameters: 120 GB; 4 ranks 52.5, 41.25, 30; 64 ranks 31.4, 16.6, 1.875");
    // expect: [holds] fp32: ledger = estimate, byte for byte by kind
    // expect: [holds] fp16: ledger = estimate, byte for byte by kind
    // expect: [holds] fp16, 2 micro-batches: ledger = estimate, byte for byte by kind
    // expect: [holds] fp16, checkpointing every:1: ledger = estimate, byte for byte by kind
    // expect: [holds] bf16, 3 micro-batches, sqrt: ledger = estimate, byte for byte by kind
    for (const auto& [name, same] : runs)
        claim(same, name + ": ledger = estimate, byte for byte by kind");
    // expect: [holds] --json is JSON, with the same bytes
    claim(reads_back(s, o), "--json is JSON, with the same bytes");
    return claim.status();
}

// What makes a run smaller that does not fit, by flags that are not yet given.
std::string smaller(const subject& s, const choices& o) {
    std::string out = "more --ranks";
    if (s.is_gpt && o.micro_batch > 1) out += ", a smaller --micro-batch";
    if (s.is_gpt && o.checkpointing == "none") out += ", --checkpoint-activations every:1";
    if (o.optimizer == "adamw") out += ", --optimizer adam8bit";
    return out;
}

int estimate(const choices& o) {
    const bool proves = !o.named() && !o.json && o.advise.empty();
    mpt::check(o.sabotage == "none" || proves, "--sabotage ", o.sabotage,
               ": breaks what is proved without a model; leave the model, --json and --advise out");
    mpt::check(o.moments == "fp32" || o.optimizer == "adamw", "--moments ", o.moments,
               " with --optimizer ", o.optimizer, ": it has no use for that; leave one out");
    const subject s = subject_of(o);
    ranks_of(o); // refused before the first line
    std::vector<mpt::candidate> advice;
    if (!o.advise.empty())
        advice = mpt::advise(s.size, s.size_again, plan_of(o, ranks_of(o)[0], 0),
                             whole_number("--advise", o.advise, true));
    if (o.json) {
        std::printf("%s\n", json_of(s, o, advice).c_str());
    } else {
        print_head(s, o);
        if (advice.empty()) print_table(s, o);
        if (const int most = ranks_of(o).back(); advice.empty() && most > 1)
            print_deepspeed(s, o, most);
        if (o.inference) print_inference(s, o);
        if (!advice.empty()) print_advice(advice, s, o);
    }
    if (!o.plot.empty())
        mpt::check(picture(s, o).save(o.plot), "--plot ", o.plot,
                   ": cannot be written; give a file in a folder that exists");
    if (!advice.empty()) {
        const mpt::candidate& best = mpt::best_of(advice);
        mpt::check(best.fits, "--advise ", o.advise, ": none of the ", advice.size(),
                   " candidates fits; the closest is ", best.name, " with ", best.bytes.total(),
                   " bytes; try ", smaller(s, o));
    }
    return proves ? prove(s, o) : 0;
}

int main(int argc, char** argv) {
    choices o;
    arguments args(argc, argv, "11_estimate",
                   "How many bytes a run will hold, before it is started.");
    args.add("--preset", o.preset, "a model by name", {"gpt2", "gpt2-xl", "t5-large", "7.5B"});
    args.add("--params", o.params, "or a number of parameters: 7.5B, 350M, 124439808");
    args.add("--layers", o.layers, "or a GPT: its blocks", 0, 1000);
    args.add("--channels", o.channels, "its width", 0, 1 << 20);
    args.add("--heads", o.heads, "query heads; 0: one for 64 channels", 0, 1 << 20);
    args.add("--kv-heads", o.kv_heads, "key/value heads; 0: as many as --heads", 0, 1 << 20);
    args.add("--context", o.context, "tokens a row; 0: 1024", 0, 1 << 24);
    args.add("--vocabulary", o.vocabulary, "its tokens; 0: 50257", 0, 1 << 24);
    args.add("--ranks", o.ranks, "one number or several; default 1,4,64, with --advise 1");
    args.add("--stage", o.stage, "of ZeRO", {"0", "1", "2", "3", "all"});
    args.add("--precision", o.precision, "of weights; bf16-only: no fp32 master",
             {"fp32", "fp16", "bf16", "bf16-only"});
    args.add("--optimizer", o.optimizer, "what it keeps", {"adamw", "adam8bit", "momentum", "sgd"});
    args.add("--moments", o.moments, "of adamw", {"fp32", "bf16"});
    args.add("--offload", o.offload, "states and gradients", {"none", "host", "file"});
    args.add("--reduce", o.reduce, "a window's gradients; usual: once in stages 0 and 1",
             {"usual", "once", "every"});
    args.add("--micro-batches", o.micro_batches, "a step, on each rank", 1, 1 << 20);
    args.add("--micro-batch", o.micro_batch, "rows of each", 1, 1 << 20);
    args.add("--checkpoint-activations", o.checkpointing, "none, every:K, sqrt or blocks:0,2,5",
             true);
    args.add("--inference", o.inference, "weights, keys and values of a model that only writes");
    args.add("--advise", o.advise, "which technique first, for so many bytes a device: 24GB");
    args.add("--json", o.json, "everything as JSON, in bytes");
    args.add("--sabotage", o.sabotage, "break it", {"none", "forget-sums", "shard-weights"});
    args.add("--plot", o.plot, "draw the table's rows into this SVG file");
    args.add_threads(o.threads);
    return args.run([&] { return estimate(o); });
}
