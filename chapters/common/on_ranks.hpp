// SPDX-License-Identifier: MIT
// on_ranks.hpp -- what each of n ranks returns, for one who looks at all of them from outside.
#pragma once
#include "mpt/comm/world.hpp" // run_ranks, communicator

#include <cmath>
#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

//! [on_ranks]
/// body(comm) on n ranks, each a thread; its results, by rank.
template <class Body>
auto on_ranks(int n, Body body, double timeout = mpt::timeout_seconds()) {
    std::vector<std::invoke_result_t<Body, mpt::communicator&>> found(static_cast<std::size_t>(n));
    mpt::run_ranks(
        n, [&](mpt::communicator& comm) { found[std::size_t(comm.rank())] = body(comm); }, timeout);
    return found;
}
//! [on_ranks]

/// How far `a` is from `b`, as a part of b's length.
inline double apart(const std::vector<float>& a, const std::vector<float>& b) {
    double off = 0, length = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
        off += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
        length += double(b[i]) * double(b[i]);
    }
    return std::sqrt(off / length);
}

/// The message of the error that f() ends with; "" where it returns.
template <class F>
std::string error_of(F f) {
    try {
        f();
    } catch (const std::exception& e) {
        return e.what();
    }
    return "";
}
