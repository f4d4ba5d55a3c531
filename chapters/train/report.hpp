// SPDX-License-Identifier: MIT
// report.hpp -- what a run says: its plan at the start, rows and a curve on the way, the account at
// the end. Progress goes to stderr, results to stdout.
#pragma once
#include "memory_plan.hpp"
#include "options.hpp"
#include "place_table.hpp"
#include "rank_table.hpp"
#include "run_folder.hpp"

#include "../common/plot.hpp"
#include "../common/progress.hpp"

#include "mpt/base/json_write.hpp"
#include "mpt/train/bigram.hpp"

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// An attempted step, as metrics.jsonl has it.
struct step_row {
    long step;            // from 1
    double loss;          // mean over the tokens of the whole window
    double lr, grad_norm; // the norm unscaled, before clipping; NaN where gradients are not finite
    float loss_scale;     // the scale that this step used
    bool skipped;
    double tokens_per_s;

    std::string json() const {
        using mpt::json::number;
        return "{\"step\":" + std::to_string(step) + ",\"loss\":" + number(loss) +
               ",\"lr\":" + number(float(lr)) + ",\"grad_norm\":" + number(float(grad_norm)) +
               ",\"loss_scale\":" + number(loss_scale) +
               ",\"skipped\":" + (skipped ? "true" : "false") +
               ",\"tokens_per_s\":" + number(float(tokens_per_s)) + '}';
    }
    std::string line() const {
        char text[160];
        std::snprintf(text, sizeof text, "loss %.4f  lr %.2e  norm %.3f  scale %g  %.0f tokens/s%s",
                      loss, lr, grad_norm, double(loss_scale), tokens_per_s,
                      skipped ? "  skipped" : "");
        return text;
    }
};

/// "3 threads of this program, ddp, gradients reduced once a step"
inline std::string words_of_ranks(const options& o) {
    return std::to_string(o.ranks) + (o.processes ? " processes, " : " threads of this program, ") +
           (o.zero ? "zero" + std::to_string(o.zero) : "ddp") + ", gradients reduced " +
           (reduces_once(o) ? "once a step" : "with every micro-batch");
}
/// The options that a checkpoint does not keep, for the line that says how to go on.
inline std::string flags_of_ranks(const options& o) {
    return (o.device == "cpu" ? "" : " --device " + o.device) +
           (o.products.empty() ? "" : " --products " + o.products) +
           (o.sums == "rank-order" ? "" : " --sums " + o.sums) +
           (o.ranks > 1 && !o.processes ? " --ranks " + std::to_string(o.ranks) : "") +
           (o.zero ? " --zero " + std::to_string(o.zero) : "") +
           (o.reduce.empty() ? "" : " --reduce " + o.reduce) +
           (o.offload == "none" ? "" : " --offload " + o.offload) +
           (o.offload_dir.empty() ? "" : " --offload-dir " + o.offload_dir);
}

/// What --offload keeps there.
inline const char* words_of_place(const options& o, mpt::place p) {
    const bool weights = weights_in_files(o);
    if (p == mpt::place::file)
        return weights ? "the optimizer's states, and weights" : "the optimizer's states";
    return o.offload == "host" ? "the optimizer's states, and gradients"
           : weights           ? "gradients, and buffers that states and weights pass through"
                               : "gradients, and buffers that states pass through";
}

class report {
public:
    /// remark: a line more about the plan, or nothing.
    report(const options& o, const mpt::token_data& data, const mpt::gpt_config& config,
           std::size_t P, const memory_plan& plan, const std::string& machine, long done,
           const std::string& remark = "")
        : o_(o), data_(data), config_(config), P_(P), machine_(machine), plan_(plan),
          remark_(remark),
          metrics_(o.out + "/metrics.jsonl", done, [this](const auto& row) { keep(row, losses_); }),
          validations_(o.out + "/validation.jsonl", done,
                       [this](const auto& row) { keep(row, held_out_); }),
          bigram_(mpt::bigram_entropy(data).nats) {}

    void start() const {
        const double tokens =
            double(o_.steps) * o_.ranks * o_.micro_batches * o_.batch * o_.context;
        const double epochs = tokens / double(data_.train_end);
        std::fprintf(stderr,
                     "model       %d layers, %d heads (%d key/value), %d channels, context %d, "
                     "vocabulary %d: %zu parameters\n",
                     config_.layers, config_.heads, config_.kv_heads, config_.channels,
                     config_.context, config_.vocabulary, P_);
        std::fprintf(stderr, "precision   %s, %s\n", o_.precision.c_str(), machine_.c_str());
        std::fprintf(stderr, "data        %s: %zu tokens to train on, %zu held out\n",
                     data_.name.c_str(), data_.train_end, data_.tokens.size() - data_.train_end);
        if (o_.ranks > 1) std::fprintf(stderr, "ranks       %s\n", words_of_ranks(o_).c_str());
        std::fprintf(stderr,
                     "run         %ld steps of %s%d x %d x %d tokens: %.1f tokens a parameter, "
                     "%.1f epochs%s\n",
                     o_.steps, o_.ranks > 1 ? (std::to_string(o_.ranks) + " x ").c_str() : "",
                     o_.micro_batches, o_.batch, o_.context, tokens / double(P_), epochs,
                     advice(tokens, epochs));
        std::fprintf(stderr, "memory      %s in all%s\n", human(double(plan_.total())).c_str(),
                     o_.ranks > 1 ? ", of each rank" : "");
        for (int k = 0; k < mpt::kinds; ++k)
            if (plan_.bytes.at(mpt::kind(k)))
                std::fprintf(stderr, "  %-12s%10s  %s\n", to_string(mpt::kind(k)),
                             human(double(plan_.bytes.at(mpt::kind(k)))).c_str(),
                             plan_.why[std::size_t(k)].c_str());
        for (const mpt::place p : {mpt::place::host, mpt::place::file})
            if (o_.offload != "none" && plan_.total(p))
                std::fprintf(stderr, "  %-12s%10s  %s\n",
                             p == mpt::place::host ? "on the host" : "in files",
                             human(double(plan_.total(p))).c_str(), words_of_place(o_, p));
        if (!remark_.empty()) std::fprintf(stderr, "  %s\n", remark_.c_str());
        std::fprintf(stderr, "folder      %s\n", o_.out.c_str());
    }

    void step(const step_row& row, progress& bar) {
        metrics_.append(row.json());
        losses_.emplace_back(double(row.step), row.loss);
        bar.show(row.step, row.line());
    }

    void validation(long step, double loss, progress& bar) {
        validations_.append("{\"step\":" + std::to_string(step) +
                            ",\"loss\":" + mpt::json::number(loss) + '}');
        held_out_.emplace_back(double(step), loss);
        char text[120];
        std::snprintf(text, sizeof text, "step %ld  validation loss %.4f  (bigram %.4f)", step,
                      loss, bigram_);
        bar.say(text);
        draw(); // the picture grows with the run
    }

    /// The account: measured beside formula, and how good the model is.
    void finish(const mpt::ledger& books, long steps, long skipped) const {
        draw();
        account(books);
        results(steps, skipped);
    }
    /// ... of several ranks, or of several places.
    void finish(const std::vector<rank_account>& all, std::size_t counted, long steps,
                long skipped) const {
        draw();
        shared(o_) ? print_accounts(all, counted) : print_places(all.at(0), counted);
        results(steps, skipped);
    }

    void stopped(long step, bool by_signal) const {
        std::fprintf(
            stderr,
            "%s after step %ld of %ld, saved; to go on: %s./run train --resume --out %s%s\n",
            by_signal ? "interrupted" : "stopped", step, o_.steps,
            o_.again.c_str(), o_.out.c_str(), flags_of_ranks(o_).c_str());
    }

    void sample_begins() const {
        if (o_.sample_tokens > 0) std::printf("sample\n");
        std::fflush(stdout);
    }

private:
    void account(const mpt::ledger& books) const {
        std::printf("memory at its peak, bytes on the device\n  %-12s%16s%16s\n", "kind", "ledger",
                    "formula");
        for (int k = 0; k < mpt::kinds; ++k) {
            const std::size_t measured = books.at_peak(mpt::kind(k)),
                              planned = plan_.bytes.at(mpt::kind(k));
            if (measured || planned)
                std::printf("  %-12s%16zu%16zu%s\n", to_string(mpt::kind(k)), measured, planned,
                            measured == planned ? "" : "   differ");
        }
        const bool same = books.peak_total() == plan_.total();
        std::printf("  %-12s%16zu%16zu   %s\n", "total", books.peak_total(), plan_.total(),
                    same ? "equal" : "DIFFER");
    }

    void results(long steps, long skipped) const {
        std::printf("steps %ld, skipped %ld\n", steps, skipped);
        if (!held_out_.empty())
            std::printf(
                "validation loss %.4f nats a token, bigram entropy of the held-out part %.4f: %.4f "
                "%s\n",
                held_out_.back().second, bigram_, std::abs(bigram_ - held_out_.back().second),
                held_out_.back().second < bigram_ ? "below" : "above");
        std::printf("folder %s: metrics.jsonl, validation.jsonl, loss.svg, checkpoints\n",
                    o_.out.c_str());
        std::fflush(stdout);
    }

    // A word where a run means little for a model of this size.
    const char* advice(double tokens, double epochs) const {
        if (epochs > 40) return "; it will learn the text by heart: give more text or fewer steps";
        if (tokens / double(P_) < 1)
            return "; far too little for a model of this size (about 20 tokens a parameter train "
                   "it best for its cost, Hoffmann et al. 2022): more steps or a smaller model";
        if (tokens / double(P_) < 20)
            return " (about 20 a parameter train a model best for its cost, Hoffmann et al. 2022)";
        return "";
    }

    static void keep(const mpt::json::value& row, std::vector<std::pair<double, double>>& points) {
        double step = 0, loss = NAN;
        if (const auto* v = row.find("step")) v->to(step);
        if (const auto* v = row.find("loss"); !v || !v->to(loss)) loss = NAN;
        points.emplace_back(step, loss);
    }

    // At most about a thousand points, more than a picture shows.
    static std::vector<std::pair<double, double>>
    thinned(const std::vector<std::pair<double, double>>& points) {
        const std::size_t stride = points.size() / 1000 + 1;
        std::vector<std::pair<double, double>> few;
        for (std::size_t i = 0; i < points.size(); i += stride) few.push_back(points[i]);
        return few;
    }

    void draw() const {
        std::vector<std::pair<double, double>> smooth; // mean over about a sixtieth of the run
        const double newest = std::min(1.0, 60.0 / double(losses_.size() + 1));
        double mean = 0, weight = 0;
        for (const auto& [step, loss] : losses_) {
            if (!std::isfinite(loss)) continue;
            mean += newest * (loss - mean);
            weight += newest * (1 - weight);
            smooth.emplace_back(step, mean / weight);
        }
        plot p{"Loss of " + o_.out + ", " + o_.precision,
               "step",
               "nats a token",
               {{"training", thinned(losses_), curve::faint},
                {"training, smoothed", thinned(smooth), curve::line},
                {"validation", held_out_, curve::dots},
                {"bigram entropy", {{0, bigram_}}, curve::level}}};
        mpt::check(p.save(o_.out + "/loss.svg"), o_.out,
                   "/loss.svg: cannot be written; is the disk full?");
    }

    const options& o_;
    const mpt::token_data& data_;
    mpt::gpt_config config_;
    std::size_t P_;
    std::string machine_;
    memory_plan plan_;
    std::string remark_;
    std::vector<std::pair<double, double>> losses_, held_out_; // (step, loss)
    row_file metrics_, validations_;
    double bigram_;
};
