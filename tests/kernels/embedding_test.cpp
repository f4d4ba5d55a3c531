// SPDX-License-Identifier: MIT
#include "mpt/kernels/embedding.cuh"
#include "mpt/nn/embedding.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace rig;

namespace {

const mpt::embedding_shape shapes[] = {{1, 1, 1, 1},    {2, 5, 31, 7},   {3, 11, 33, 300},
                                       {2, 130, 64, 9}, {1, 3, 1600, 5},
                                       {2, 3, 1601, 11}, {3, 5, 4, 70000}};

// dwte and dwpe, one behind the other.
template <class H>
std::vector<H> by_loop(const std::vector<H>& before, const std::vector<H>& dy,
                       const std::vector<int>& tokens, const mpt::embedding_shape& s,
                       std::size_t positions) {
    static checks::machine m;
    std::vector<H> dwte = before, dwpe(positions * std::size_t(s.C));
    mpt::embedding_backward<H>(m.on, checks::span(dwte), checks::span(dwpe), checks::span(dy),
                               checks::span(tokens), s);
    dwte.insert(dwte.end(), dwpe.begin(), dwpe.end());
    return dwte;
}

template <class T>
std::vector<host_t<T>> by_kernel(const std::vector<host_t<T>>& before,
                                 const std::vector<host_t<T>>& dy, const std::vector<int>& tokens,
                                 const mpt::embedding_shape& s, int positions, std::size_t offset) {
    const array<T> on(dy, offset);
    const array<int> on_tokens(tokens);
    array<T> dwte(before, offset), dwpe(std::size_t(positions * s.C));
    const scratch room(embedding_backward_bytes(s.B, s.T));
    embedding_backward<T>({dwte, dwpe, on, on_tokens, s.B, s.T, s.C, s.V, room, positions},
                          stream());
    auto result = dwte.read();
    const auto rest = dwpe.read();
    result.insert(result.end(), rest.begin(), rest.end());
    return result;
}

} // namespace

TEST_CASE_TEMPLATE("forward: the bits of the plain loop", T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    checks::machine m;
    for (const auto& s : shapes)
        for (const std::size_t offset : {0, 1}) {
            const std::size_t rows = std::size_t(s.B * s.T), C = std::size_t(s.C);
            const auto tokens = checks::tokens(rows, 1, s.V);
            const auto wte = checks::numbers<H>(std::size_t(s.V) * C, 2);
            const auto wpe = checks::numbers<H>(std::size_t(s.T + 2) * C, 3);
            std::vector<H> y(rows * C);
            mpt::embedding_forward<H>(m.on, checks::span(y), checks::span(tokens),
                                      checks::span(wte), checks::span(wpe), s);
            const array<T> on_wte(wte, offset), on_wpe(wpe);
            const array<int> on_tokens(tokens);
            array<T> to(rows * C);
            embedding_forward<T>({to, on_tokens, on_wte, on_wpe, s.B, s.T, s.C, s.V}, stream());
            CHECK(difference(to.read(), y) == "");
        }
}

TEST_CASE_TEMPLATE("backward: the bits of the plain loop", T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const auto& s : shapes)
        for (const std::size_t offset : {0, 1}) {
            const std::size_t rows = std::size_t(s.B * s.T), C = std::size_t(s.C);
            const auto tokens = checks::tokens(rows, 1, s.V);
            const auto before = checks::numbers<H>(std::size_t(s.V) * C, 2);
            const auto dy = checks::numbers<H>(rows * C, 3);
            for (const int more : {0, 3})
                CHECK(difference(by_kernel<T>(before, dy, tokens, s, s.T + more, offset),
                                 by_loop(before, dy, tokens, s, std::size_t(s.T + more))) == "");
        }
}

TEST_CASE("backward: the same bits in any order of threads") {
    const mpt::embedding_shape s{3, 101, 33, 7}; // about 43 positions a token
    const auto tokens = checks::tokens(303, 1, s.V);
    const auto before = checks::numbers<float>(7 * 33, 2), dy = checks::numbers<float>(303 * 33, 3);
    CHECK(in_all_orders([&] { return by_kernel<float>(before, dy, tokens, s, 101, 0); }) == "");
}

TEST_CASE("tokens outside the vocabulary: NaN forward, dropped backward") {
    const mpt::embedding_shape s{1, 4, 3, 5};
    const std::vector<int> tokens{2, 5, -1, 2};
    const array<int> on_tokens(tokens);
    const array<float> w(checks::numbers<float>(15, 1)), p(checks::numbers<float>(12, 2));
    array<float> y(12);
    embedding_forward<float>({y, on_tokens, w, p, 1, 4, 3, 5}, stream());
    const auto found = y.read();
    for (std::size_t i = 0; i < 12; ++i) CHECK(std::isnan(found[i]) == (i >= 3 && i < 9));
    const auto dy = checks::numbers<float>(12, 3);
    const auto all = by_kernel<float>(std::vector<float>(15), dy, tokens, s, 4, 0);
    for (std::size_t i = 0; i < 15; ++i) // only token 2's row has changed
        CHECK(all[i] == (i / 3 == 2 ? dy[i % 3] + dy[9 + i % 3] : 0.0f));
}
