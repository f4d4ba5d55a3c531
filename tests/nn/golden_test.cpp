// SPDX-License-Identifier: MIT
// Every layer against JAX: tests/golden/*.txt, made by tests/golden/make_golden.py in float64.
#include "checks.hpp"
#include "mpt/nn/loops.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

using namespace mpt;
using checks::machine;
using checks::span;

namespace {

// The arrays of one file, by name.
struct golden {
    std::map<std::string, std::vector<double>> arrays;

    explicit golden(const std::string& layer) {
        std::ifstream in(std::string(MPT_GOLDEN) + "/" + layer + ".txt");
        REQUIRE_MESSAGE(in.good(), "no golden file of ", layer, " in " MPT_GOLDEN);
        for (std::string line; std::getline(in, line);) {
            if (line[0] == '#') continue;
            std::istringstream words(line);
            std::string name;
            std::size_t size = 0;
            words >> name >> size;
            std::vector<double>& array = arrays[name];
            for (double x; words >> x;) array.push_back(x);
            REQUIRE(array.size() == size);
        }
    }
    template <class T>
    std::vector<T> get(const std::string& name) const {
        std::vector<T> out;
        for (const double x : arrays.at(name)) out.push_back(T(x));
        return out;
    }
    // The largest difference to the golden array, in units of the precision of T and of the
    // array's largest number.
    template <class T>
    double off(const std::string& name, const std::vector<T>& got) const {
        const std::vector<double>& want = arrays.at(name);
        REQUIRE(got.size() == want.size());
        double largest = 0, worst = 0;
        for (const double x : want) largest = std::max(largest, std::fabs(x));
        for (std::size_t i = 0; i < got.size(); ++i) {
            const double d = std::fabs(double(got[i]) - want[i]);
            worst = d > worst || std::isnan(d) ? d : worst;
        }
        return worst / largest / double(std::numeric_limits<T>::epsilon());
    }
};

// The results are sums of at most 134 terms (attention: 67 queries of 2 heads) behind at most two
// other such sums, none larger than some 10 times the largest result: a few hundred roundings. The
// numbers in the files have 17 digits, and JAX has roundings of its own.
constexpr double tolerance = 300;

#define CHECK_GOLDEN(name) CHECK(g.off(#name, name) < tolerance)

template <class T>
void linear(machine& m) {
    const golden g("linear");
    const linear_shape s{5, 7, 6};
    const auto x = g.get<T>("x"), w = g.get<T>("w"), bias = g.get<T>("bias"), dy = g.get<T>("dy");
    std::vector<T> y(30), dx(35), dw(42), dbias(6);
    linear_forward<T>(m.on, span(y), span(x), span(w), span(bias), s);
    linear_backward<T>(m.on, span(dx), span(dw), span(dbias), span(dy), span(x), span(w), s);
    CHECK_GOLDEN(y);
    CHECK_GOLDEN(dx);
    CHECK_GOLDEN(dw);
    CHECK_GOLDEN(dbias);
}

template <class T>
void gelu(machine& m) {
    const golden g("gelu");
    const auto x = g.get<T>("x"), dy = g.get<T>("dy");
    std::vector<T> y(64), dx(64);
    gelu_forward<T>(m.on, span(y), span(x));
    gelu_backward<T>(m.on, span(dx), span(dy), span(x));
    CHECK_GOLDEN(y);
    CHECK_GOLDEN(dx);
}

template <class T>
void layernorm(machine& m) {
    const golden g("layernorm");
    const layernorm_shape s{4, 37};
    const auto x = g.get<T>("x"), gamma = g.get<T>("gamma"), beta = g.get<T>("beta"),
               dy = g.get<T>("dy");
    std::vector<T> y(148), mean(4), rstd(4), dx(148), dgamma(37), dbeta(37);
    layernorm_forward<T>(m.on, span(y), span(mean), span(rstd), span(x), span(gamma), span(beta),
                         s);
    layernorm_backward<T>(m.on, span(dx), span(dgamma), span(dbeta), span(dy), span(x), span(gamma),
                          span(mean), span(rstd), s, false);
    CHECK_GOLDEN(y);
    CHECK_GOLDEN(dx);
    CHECK_GOLDEN(dgamma);
    CHECK_GOLDEN(dbeta);
}

template <class T>
void embedding(machine& m) {
    const golden g("embedding");
    const embedding_shape s{2, 5, 4, 7};
    const auto tokens = g.get<int>("tokens");
    const auto wte = g.get<T>("wte"), wpe = g.get<T>("wpe"), dy = g.get<T>("dy");
    std::vector<T> y(40), dwte(28), dwpe(32);
    embedding_forward<T>(m.on, span(y), span(tokens), span(wte), span(wpe), s);
    embedding_backward<T>(m.on, span(dwte), span(dwpe), span(dy), span(tokens), s);
    CHECK_GOLDEN(y);
    CHECK_GOLDEN(dwte);
    CHECK_GOLDEN(dwpe);
}

template <class T>
void attention(machine& m) {
    const golden g("attention");
    const attention_shape s{1, 67, 4, 2, 3};
    const auto qkv = g.get<T>("qkv"), dout = g.get<T>("dout");
    std::vector<T> out(67 * 12), lse(67 * 4), dqkv(67 * 24);
    attention_forward<T>(m.on, span(out), span(lse), span(qkv), s);
    attention_backward<T>(m.on, span(dqkv), span(dout), span(qkv), span(out), span(lse), s);
    CHECK_GOLDEN(out);
    CHECK_GOLDEN(lse);
    CHECK_GOLDEN(dqkv);
    for (std::size_t t = 0; t < 67; ++t) // the sabotage: key heads 0 and 1 exchanged
        for (std::size_t c = 0; c < 3; ++c) std::swap(dqkv[t * 24 + 12 + c], dqkv[t * 24 + 15 + c]);
    CHECK(g.off("dqkv", dqkv) > 1000 * tolerance);
}

template <class T>
void cross_entropy(machine& m) {
    const golden g("cross_entropy");
    const auto targets = g.get<int>("targets");
    const auto logits = g.get<T>("logits");
    std::vector<T> losses(6), lse(6), dlogits(6 * 17);
    cross_entropy_forward<T>(m.on, span(losses), span(lse), span(logits), span(targets), 6, 17);
    cross_entropy_backward<T>(m.on, span(dlogits), span(logits), span(lse), span(targets), T(0.25),
                              6, 17);
    CHECK_GOLDEN(losses);
    CHECK_GOLDEN(lse);
    CHECK_GOLDEN(dlogits);
    CHECK(losses[1] == 0); // ignored
    losses[1] = lse[1];    // the sabotage: not ignored
    CHECK(g.off("losses", losses) > 1000 * tolerance);
}

template <class T>
void all() {
    machine m;
    linear<T>(m);
    gelu<T>(m);
    layernorm<T>(m);
    embedding<T>(m);
    attention<T>(m);
    cross_entropy<T>(m);
}

} // namespace

TEST_CASE("every layer agrees with JAX in fp64") { all<double>(); }
TEST_CASE("every layer agrees with JAX in fp32") { all<float>(); }
