// SPDX-License-Identifier: MIT
// next_byte.hpp -- the task of the first chapters: tell the next byte of a text from the bits of
// the last 8. Features are +1 and -1, so every number format holds them exactly.
#pragma once
#include "mpt/base/device_span.hpp" // device_span
#include "mpt/train/data.hpp"       // token_data, load_tokens, draw_batch, validation_batch

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

class next_byte {
public:
    static constexpr int bytes = 8, features = 8 * bytes, classes = 256;

    // path: "" is the corpus that comes with mpt.
    next_byte(const std::string& path, std::uint64_t seed)
        : data_(mpt::load_tokens(path.empty() ? MPT_CORPUS : path)), seed_(seed) {
        mpt::check(data_.vocabulary == classes, data_.name, ": has tokens of a vocabulary of ",
                   data_.vocabulary, ", wanted text; give a text file");
        mpt::require_context(data_, bytes);
    }

    // The window of attempted step `step`: x (rows, features), targets (rows).
    template <class Ops, class T>
    void window(const Ops& ops, long step, mpt::device_span<T> x, mpt::device_span<int> targets) {
        const int rows = make_room(targets);
        mpt::draw_batch(data_, seed_, step, 0, rows, bytes, inputs_, next_);
        put(ops, x, targets);
    }

    // Part `part` of the held-out text, which window() never draws from.
    template <class Ops, class T>
    void held_out(const Ops& ops, int part, int parts, mpt::device_span<T> x,
                  mpt::device_span<int> targets) {
        const int rows = make_room(targets);
        mpt::validation_batch(data_, rows * parts, rows * part, rows, bytes, inputs_, next_);
        put(ops, x, targets);
    }

    // Nats a byte of the held-out text for one who knows how often each byte occurs in the rest.
    double unigram_entropy() const {
        std::vector<double> count(classes, 1.0); // one more each: no byte is impossible
        for (std::size_t i = 0; i < data_.train_end; ++i) count[data_.tokens[i]] += 1;
        double nats = 0;
        for (std::size_t i = data_.train_end; i < data_.tokens.size(); ++i)
            nats -= std::log(count[data_.tokens[i]] / double(data_.train_end + classes));
        return nats / double(data_.tokens.size() - data_.train_end);
    }

private:
    int make_room(mpt::device_span<int> targets) {
        inputs_.resize(targets.size() * bytes);
        next_.resize(inputs_.size());
        return int(targets.size());
    }

    template <class Ops, class T>
    void put(const Ops& ops, mpt::device_span<T> x, mpt::device_span<int> targets) {
        std::vector<T> bits(targets.size() * features);
        std::vector<int> last(targets.size());
        for (std::size_t i = 0; i < bits.size(); ++i)
            bits[i] = mpt::narrow<T>(inputs_[i / 8] >> (i % 8) & 1 ? 1 : -1);
        for (std::size_t row = 0; row < last.size(); ++row)
            last[row] = next_[row * bytes + bytes - 1];
        ops.copy_to_device(x, bits);
        ops.copy_to_device(targets, last);
    }

    mpt::token_data data_;
    std::uint64_t seed_;
    std::vector<int> inputs_, next_; // (rows, bytes)
};
