// SPDX-License-Identifier: MIT
/// @file ledger.hpp
/// Bytes by kind and place, now and at their peak.                    tier 0, needs: base/error.hpp
///
/// Idea     Every buffer is entered with what it is for and where it lies. A card states a cost, a
///          test holds it against this book: measured = formula.
/// Formula  peak_total = max over time of the sum over kinds;  at_peak(kind) = the bytes of that
///          kind at that moment, so the kinds at the peak add up to it
/// Costs    one lock an allocation, none an access
/// Breaks   bytes that are not allocated through memory.hpp are not seen
/// See      memory.hpp, tests/base/ledger_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <algorithm>
#include <array>
#include <cstddef>
#include <iomanip>
#include <mutex>
#include <sstream>
#include <string>

namespace mpt {

/// What bytes are for.
enum class kind {
    weights,     // what forward and backward read
    grads,       // gradients of the weights, one micro-batch, in the weights' format
    sums,        // fp32 sums of gradients over a window of micro-batches
    master,      // fp32 weights that the optimizer updates
    moments,     // the optimizer's m and v
    activations, // what forward keeps for backward
    comm,        // buffers of collectives
    temp,        // scratch and the gradients of activations
    data         // tokens of the batches
};
inline constexpr int kinds = 9;

/// Where bytes lie.
enum class place { device, host, file };
inline constexpr int places = 3;

inline const char* to_string(kind k) {
    constexpr const char* names[kinds] = {"weights",     "grads", "sums", "master", "moments",
                                          "activations", "comm",  "temp", "data"};
    return names[int(k)];
}
inline const char* to_string(place p) {
    constexpr const char* names[places] = {"device", "host", "file"};
    return names[int(p)];
}

/// One rank's book. Safe to use from several threads.
class ledger {
public:
    void add(kind k, place p, std::size_t bytes) {
        const std::lock_guard hold(lock_);
        account& a = of(p);
        a.now[int(k)] += bytes;
        a.peak[int(k)] = std::max(a.peak[int(k)], a.now[int(k)]);
        a.total += bytes;
        if (a.total > a.peak_total) {
            a.peak_total = a.total;
            a.at_peak = a.now;
        }
    }

    /// Throws when more is taken out than was put in: somebody frees twice, or as another kind.
    void remove(kind k, place p, std::size_t bytes) {
        const std::lock_guard hold(lock_);
        account& a = of(p);
        check(bytes <= a.now[int(k)], "ledger: ", bytes, " bytes of ", to_string(k), " on ",
              to_string(p), " are given back, ", a.now[int(k)],
              " are held; free once, as allocated");
        a.now[int(k)] -= bytes;
        a.total -= bytes;
    }

    std::size_t now(kind k, place p = place::device) const { return read(p).now[int(k)]; }
    std::size_t peak(kind k, place p = place::device) const { return read(p).peak[int(k)]; }
    std::size_t at_peak(kind k, place p = place::device) const { return read(p).at_peak[int(k)]; }
    std::size_t total(place p = place::device) const { return read(p).total; }
    std::size_t peak_total(place p = place::device) const { return read(p).peak_total; }

    /// A line a kind that was ever used: bytes now, at the peak of the whole, and its own peak.
    std::string table() const {
        std::ostringstream out;
        out << std::left << std::setw(8) << "place" << std::setw(13) << "kind" << std::right
            << std::setw(16) << "now" << std::setw(16) << "at peak" << std::setw(16) << "own peak";
        for (int p = 0; p < places; ++p) {
            const account a = read(place(p));
            for (int k = 0; k < kinds; ++k)
                if (a.peak[k])
                    out << '\n'
                        << std::left << std::setw(8) << to_string(place(p)) << std::setw(13)
                        << to_string(kind(k)) << std::right << std::setw(16) << a.now[k]
                        << std::setw(16) << a.at_peak[k] << std::setw(16) << a.peak[k];
        }
        return out.str();
    }

private:
    struct account { // bytes of one place
        std::array<std::size_t, kinds> now{}, peak{}, at_peak{};
        std::size_t total = 0, peak_total = 0;
    };
    account& of(place p) { return accounts_[int(p)]; }
    account read(place p) const {
        const std::lock_guard hold(lock_);
        return accounts_[int(p)];
    }

    mutable std::mutex lock_;
    std::array<account, places> accounts_;
};

} // namespace mpt
