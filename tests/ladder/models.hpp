// SPDX-License-Identifier: MIT
/// @file models.hpp
/// What the ladder trains: a GPT and an MLP, each shown rows by their number in the window.
#pragma once
#include "../train/rig.hpp"
#include "ladder.hpp"
#include "mpt/nn/batch.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/loops.hpp"
#include "mpt/nn/matmul.hpp"
#include "mpt/nn/mlp.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ladder {

// ---- models: a micro-batch of rows [first, first + rows) of step `step` -------------------------

inline std::uint32_t draw(long step, long row, int t, std::uint32_t what) {
    return philox({{std::uint32_t(step), std::uint32_t(row), std::uint32_t(t), what}}, 5, 6).x[0];
}

template <class T>
class gpt_model {
public:
    static gpt_config config(const trial& j) {
        gpt_config c;
        c.layers = 3;
        c.heads = 4;
        c.kv_heads = 2;
        c.channels = j.channels;
        c.context = 6;
        c.vocabulary = j.vocabulary;
        c.dropout = j.dropout;
        return c;
    }
    gpt_model(thread_pool& pool, memory& mem, const trial& j)
        : rows_(j.rows), words_(j.vocabulary), ops(pool, mem, gpt_scratch<T>(config(j), j.rows, 6)),
          model_(config(j), ops, 11),
          acts_(mem, config(j), j.rows, 6,
                j.again ? checkpointing::every(j.again, 3) : checkpointing::none(3)),
          in_(std::size_t(j.rows) * 6), out_(in_.size()) {}

    const layout& map() const { return model_.map; }

    /// Fills the micro-batch; how many of its tokens are targets.
    long show(long step, long first) {
        long targets = 0;
        for (int b = 0; b < rows_; ++b)
            for (int t = 0; t < 6; ++t) {
                const std::size_t i = std::size_t(6 * b + t);
                in_[i] = int(draw(step, first + b, t, 0) % std::uint32_t(words_));
                // rows have unlike many targets, and so have ranks; some rows have none
                const bool target =
                    (first + b) % 7 != 3 && int(draw(step, first + b, 0, 1) % 6) >= t;
                out_[i] = target ? int(draw(step, first + b, t, 2) % std::uint32_t(words_))
                                 : ignored_target;
                targets += target;
            }
        step_ = step;
        first_ = first;
        return targets;
    }
    /// Leaves target `t` alone.
    void only(int t) {
        for (int i = 0; i < int(out_.size()); ++i)
            if (i != t) out_[std::size_t(i)] = ignored_target;
    }
    double forward(strategy<T>& s, device_span<const T> w, int micro) {
        return model_.forward(s, w, at(micro), acts_);
    }
    void backward(strategy<T>& s, device_span<const T> w, int micro, float seed,
                  gradients<T>& grads) {
        model_.backward(s, w, at(micro), acts_, seed, grads);
    }

private:
    batch at(int micro) const {
        return {rig::view(in_), rig::view(out_), rows_, 6, micro, step_, first_};
    }
    int rows_, words_;

public:
    loops ops;

private:
    gpt<T, loops> model_;
    gpt_acts<T> acts_;
    std::vector<int> in_, out_;
    long step_ = 0, first_ = 0;
};

template <class T>
class mlp_model {
public:
    mlp_model(thread_pool& pool, memory& mem, const trial& j)
        : rows_(j.rows), ops(pool, mem, matmul_scratch<T>() * sizeof(wide_t<T>)),
          model_({9, 70, 31, 5}, ops), acts_(mem, model_.widths, j.rows),
          classes_(std::size_t(j.rows)) {}

    const layout& map() const { return model_.map; }

    long show(long step, long first) {
        long targets = 0;
        for (int b = 0; b < rows_; ++b) {
            for (int i = 0; i < 9; ++i)
                acts_.x[0].span().data()[9 * b + i] =
                    narrow<T>(wide_t<T>(uniform01(draw(step, first + b, i, 3)) - 0.5f));
            const bool target = (first + b) % 7 != 3;
            classes_[std::size_t(b)] =
                target ? int(draw(step, first + b, 0, 4) % 5) : ignored_target;
            targets += target;
        }
        return targets;
    }
    void only(int t) {
        for (int i = 0; i < rows_; ++i)
            if (i != t) classes_[std::size_t(i)] = ignored_target;
    }
    double forward(strategy<T>& s, device_span<const T> w, int) {
        return model_.forward(s, w, rig::view(classes_), acts_);
    }
    void backward(strategy<T>& s, device_span<const T> w, int micro, float seed,
                  gradients<T>& grads) {
        model_.backward(s, w, rig::view(classes_), acts_, seed, grads, micro);
    }

private:
    int rows_;

public:
    loops ops;

private:
    mlp<T, loops> model_;
    mlp_acts<T> acts_;
    std::vector<int> classes_;
};

} // namespace ladder
