// SPDX-License-Identifier: MIT
// What went wrong in other people's kernels, by number of the collection that it comes from.
#include "tests/kernels/attentions.hpp"

#include <doctest/doctest.h>

using namespace attentions;

namespace {

const auto some_roundings = [](std::size_t) { return 8 * 0x1p-23; }; // of numbers up to 3

// One query, the three-by-three case of attention_test.cpp, and the keys that it sees.
problem<float> one_row(std::size_t row, const std::vector<std::size_t>& sees) {
    const std::vector<float> q{1, 0, 0.5, -1, 2, 1}, k{1, 1, 0, 2, -1, 0.5}, v{1, 2, 3, -1, 0, 1},
        dout{1, 0, 0, 1, 1, 1};
    problem<float> p({1, 1, int(sees.size()), 1, 1, 2, false}, 1);
    for (std::size_t c = 0; c < 2; ++c) {
        p.q[c] = q[2 * row + c], p.dout[c] = dout[2 * row + c];
        for (std::size_t j = 0; j < sees.size(); ++j)
            p.k[2 * j + c] = k[2 * sees[j] + c], p.v[2 * j + c] = v[2 * sees[j] + c];
    }
    p.run();
    return p;
}

// What a plain implementation in 16 bits makes of it: products summed in fp32 or better, and every
// array that it stores (scores, probabilities, their gradients, results) rounded to T.
template <class H>
double stored(double x) {
    return double(mpt::widen(mpt::narrow<H>(float(x))));
}
template <class H>
double error_of(const std::vector<H>& found, const list& exact) {
    double worst = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const double off = std::fabs(double(mpt::widen(found[i])) - exact[i]);
        worst = std::isnan(off) ? HUGE_VAL : std::max(worst, off);
    }
    return worst;
}
template <class H>
std::vector<H> in_16_bits(const list& x) {
    std::vector<H> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = mpt::narrow<H>(float(x[i]));
    return y;
}

} // namespace

TEST_CASE("A27: a row that sees nothing is 0, its lse -inf, and it adds 0 to gradients") {
    // Row 0 sees all keys, row 1 none, row 2 the keys 0 and 2.
    const std::vector<std::size_t> sees[3] = {{0, 1, 2}, {}, {0, 2}};
    list out, lse, dq, dk(6), dv(6);
    for (std::size_t row = 0; row < 3; ++row) {
        const problem<float> p = one_row(row, sees[row]);
        for (std::size_t c = 0; c < 2; ++c) {
            out.push_back(p.out[c]), dq.push_back(p.dq[c]);
            for (std::size_t j = 0; j < sees[row].size(); ++j) {
                dk[2 * sees[row][j] + c] += p.dk[2 * j + c];
                dv[2 * sees[row][j] + c] += p.dv[2 * j + c];
            }
        }
        lse.push_back(p.lse[0]);
    }
    const auto same = [](const list& found, const list& expected) {
        return difference(std::vector<float>(found.begin(), found.end()), expected, some_roundings);
    };
    CHECK(same(out, {1.427961574439142, 1.007984525732842, 0, 0, 0.9601505126430412,
                     1.9601505126430412}) == "");
    CHECK(same(lse, {1.258797203834439, -HUGE_VAL, 2.1619855663660568}) == "");
    CHECK(same(dq, {-0.0329079960729088, 0.38638427882778026, 0, 0, 0.10821988059608868,
                    0.02705497014902217}) == "");
    CHECK(same(dk, {-0.0660786285787687, 0.05410994029804434, 0.31568902227680595, 0,
                    -0.24961039369803728, -0.05410994029804434}) == "");
    CHECK(same(dv, {1.5361258578584032, 0.9601505126430412, 0.28399540974126003, 0,
                    0.17987873240033683, 0.03984948735695881}) == "");
    CHECK(same(out, {1, 1, 0, 0, 1, 2}) != "");
}

TEST_CASE_TEMPLATE("A27: rows without keys beside rows that have some", T, float, __half,
                   __nv_bfloat16) {
    problem<T> p({1, 70, 3, 2, 1, 8}, 1); // the first 67 queries see nothing
    p.run();
    CHECK(p.compare() == "");
    for (std::size_t i = 0; i < 67 * 2 * 8; ++i) {
        CHECK(float(mpt::widen(p.out[i])) == 0);
        CHECK(float(mpt::widen(p.dq[i])) == 0);
    }
    for (std::size_t h = 0; h < 2; ++h) CHECK(p.lse[h * 70 + 66] == -HUGE_VALF);
    CHECK(std::isfinite(p.lse[67]));
}

TEST_CASE("A28: unequal lengths are aligned at the bottom right") {
    // q = 0: all keys that are seen weigh the same; v the identity: out shows which they are.
    const auto seen = [](int Tq, int Tk) {
        problem<float> p({1, Tq, Tk, 1, 1, Tk}, 1);
        std::fill(p.q.begin(), p.q.end(), 0.0f);
        for (std::size_t j = 0; j < std::size_t(Tk); ++j)
            for (std::size_t c = 0; c < std::size_t(Tk); ++c)
                p.v[j * std::size_t(Tk) + c] = j == c ? 1.0f : 0.0f;
        p.run();
        std::string rows;
        for (std::size_t i = 0; i < p.out.size(); ++i) {
            if (i > 0 && i % std::size_t(Tk) == 0) rows += ' ';
            rows += p.out[i] > 0 ? '1' : '0';
        }
        return rows;
    };
    CHECK(seen(2, 5) == "11110 11111");
    CHECK(seen(5, 2) == "00 00 00 10 11");
    CHECK(seen(3, 3) == "100 110 111");
}

TEST_CASE("A29: heads 0 to 3 read key/value heads 0, 0, 1, 1") {
    problem<float> p({1, 5, 5, 4, 2, 2}, 1);
    for (std::size_t i = 0; i < p.v.size(); ++i) p.v[i] = float(i / 2 % 2);
    p.run();
    for (std::size_t h = 0; h < 4; ++h)
        CHECK(p.out[2 * h] == doctest::Approx(h < 2 ? 0 : 1));
}

TEST_CASE_TEMPLATE("A29: any length, grouped heads: at most twice the error of plain 16 bits", T,
                   __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const int length : {1, 2, 63, 64, 65, 127, 129})
        for (const int D : {20, 64}) {
            if (D == 64 && length == 127) continue; // time
            problem<T> p({1, length, length, 4, 2, D}, 1);
            p.run();
            const reference exact_one = p.wanted(exact, false);
            const reference plain = p.wanted(stored<H>, false);
            CAPTURE(length);
            CAPTURE(D);
            const auto at_most_twice = [](const std::vector<H>& found, const list& other,
                                          const list& wanted) {
                return error_of(found, wanted) <= 2 * error_of(in_16_bits<H>(other), wanted);
            };
            CHECK(at_most_twice(p.out, plain.out, exact_one.out));
            CHECK(at_most_twice(p.dq, plain.dq, exact_one.dq));
            CHECK(at_most_twice(p.dk, plain.dk, exact_one.dk));
            CHECK(at_most_twice(p.dv, plain.dv, exact_one.dv));
            if (length == 65 && D == 20) { // it can fail: the group's second head is left out
                const problem<T> whole = p;
                for (std::size_t i = 0; i < p.dout.size(); ++i)
                    if (i / std::size_t(D) % 2 == 1) p.dout[i] = mpt::narrow<H>(0.0f);
                p.run();
                CHECK(!at_most_twice(p.dk, plain.dk, exact_one.dk));
                CHECK(at_most_twice(whole.dk, plain.dk, exact_one.dk));
            }
        }
}
