// SPDX-License-Identifier: MIT
/// @file traffic.hpp
/// What a rank has sent: elements, bytes and messages, by verb and type.    tier 2, needs:
/// base/error.hpp numeric/scalar.hpp
///
/// Idea     Whoever moves a message enters it in its sender's book: the book holds what was moved,
///          not what a formula says; tests and chapters hold the two against each other.
/// Formula  for N ranks, elements a rank sends of n (n a multiple of N):  reduce_scatter and
///          all_gather n (N-1)/N,  all_reduce 2 n (N-1)/N,  broadcast n (N-1) of the root alone
/// Costs    a lock a message
/// Breaks   elements of two types added up as bytes: 2 bytes of fp16, 4 of fp32 sums; ask by type
/// See      communicator.hpp (who has one), tests/comm/traffic_test.cpp
#pragma once
#include "mpt/base/error.hpp"     // error
#include "mpt/numeric/scalar.hpp" // fp16, bf16

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace mpt {

/// What ranks do together. `agree`: a few numbers of every rank, for a decision.
enum class verb {
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    all_to_all,
    send,
    recv,
    barrier,
    agree
};
inline constexpr int verbs = 9;

inline const char* to_string(verb v) {
    constexpr const char* names[verbs] = {"all_reduce", "reduce_scatter", "all_gather",
                                          "broadcast",  "all_to_all",     "send",
                                          "recv",       "barrier",        "agree"};
    return names[int(v)];
}

/// What a message is made of.
enum class element { fp32, fp64, fp16, bf16, int32, byte };
inline constexpr int element_kinds = 6;

inline const char* to_string(element e) {
    constexpr const char* names[element_kinds] = {"fp32", "fp64", "fp16", "bf16", "int32", "byte"};
    return names[int(e)];
}
inline constexpr std::size_t bytes_of(element e) {
    constexpr std::size_t bytes[element_kinds] = {4, 8, 2, 2, 4, 1};
    return bytes[int(e)];
}

template <class T>
struct element_code;
template <>
struct element_code<float> {
    static constexpr element value = element::fp32;
};
template <>
struct element_code<double> {
    static constexpr element value = element::fp64;
};
template <>
struct element_code<fp16> {
    static constexpr element value = element::fp16;
};
template <>
struct element_code<bf16> {
    static constexpr element value = element::bf16;
};
template <>
struct element_code<std::int32_t> {
    static constexpr element value = element::int32;
};
template <>
struct element_code<std::uint8_t> {
    static constexpr element value = element::byte;
};

struct sent {
    std::size_t calls = 0;    // begun on this rank
    std::size_t elements = 0; // that left it
    std::size_t bytes = 0;
    std::size_t messages = 0;

    sent& operator+=(const sent& x) {
        calls += x.calls, elements += x.elements, bytes += x.bytes, messages += x.messages;
        return *this;
    }
    bool operator==(const sent&) const = default;
};

/// One rank's book. Safe to use from several threads.
class traffic {
public:
    /// A collective begins on this rank.
    void call(verb v, element e) {
        const std::lock_guard hold(lock_);
        ++at(v, e).calls;
    }
    /// `elements` left this rank, in `messages` messages.
    void message(verb v, element e, std::size_t elements, std::size_t messages = 1) {
        const std::lock_guard hold(lock_);
        at(v, e) += {0, elements, elements * bytes_of(e), messages};
    }

    sent of(verb v, element e) const {
        const std::lock_guard hold(lock_);
        return book_[std::size_t(v)][std::size_t(e)];
    }
    sent of(verb v) const {
        sent sum;
        for (int e = 0; e < element_kinds; ++e) sum += of(v, element(e));
        return sum;
    }
    sent of(element e) const {
        sent sum;
        for (int v = 0; v < verbs; ++v) sum += of(verb(v), e);
        return sum;
    }
    sent total() const {
        sent sum;
        for (int v = 0; v < verbs; ++v) sum += of(verb(v));
        return sum;
    }
    void clear() {
        const std::lock_guard hold(lock_);
        book_ = {};
    }

private:
    sent& at(verb v, element e) { return book_[std::size_t(v)][std::size_t(e)]; }

    std::array<std::array<sent, element_kinds>, verbs> book_{};
    mutable std::mutex lock_;
};

} // namespace mpt
