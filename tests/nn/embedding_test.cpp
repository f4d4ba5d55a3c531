// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/embedding.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using namespace checks;

namespace {

constexpr int longest = 3; // rows of wpe past T

template <class T>
struct layer {
    embedding_shape s;
    std::vector<int> token;
    std::vector<T> wte, wpe, dy, y, dwte, dwpe;
    explicit layer(embedding_shape shape)
        : s(shape), token(tokens(std::size_t(s.B * s.T), 9, s.V)),
          wte(numbers<T>(std::size_t(s.V * s.C), 1)),
          wpe(numbers<T>(std::size_t((s.T + longest) * s.C), 2)),
          dy(numbers<T>(std::size_t(s.B * s.T * s.C), 3)), y(dy.size()), dwte(wte.size()),
          dwpe(wpe.size(), narrow<T>(7)) {} // dwte 0, dwpe anything

    void forward(machine& m) {
        embedding_forward<T>(m.on, span(y), span(token), span(wte), span(wpe), s);
    }
    void backward(machine& m) {
        embedding_backward<T>(m.on, span(dwte), span(dwpe), span(dy), span(token), s);
    }
};

const embedding_shape shapes[] = {{1, 1, 1, 1}, {2, 3, 5, 7}, {3, 7, 2, 4}, {1, 11, 300, 50}};

} // namespace

TEST_CASE("embedding: gradients by finite differences") {
    machine m;
    for (const embedding_shape s : shapes) {
        layer<double> l(s);
        l.backward(m);
        const auto loss = [&] { return l.forward(m), dot(l.y, l.dy); };
        CHECK(gradient_error(l.wte, l.dwte, loss) < gradient_tolerance);
        CHECK(gradient_error(l.wpe, l.dwpe, loss) < gradient_tolerance);
        if (s.B == 3) { // the sabotage: only the last position of a token counts
            auto wrong = l.dwte;
            for (std::size_t i = 0; i < l.token.size(); ++i)
                for (std::size_t c = 0; c < 2; ++c)
                    wrong[std::size_t(l.token[i]) * 2 + c] = l.dy[i * 2 + c];
            CHECK(gradient_error(l.wte, wrong, loss) > 1e-3);
        }
    }
}

TEST_CASE("embedding: the sum of two rows, rounded once") {
    machine m;
    layer<fp16> l({3, 7, 301, 4});
    l.forward(m);
    for (std::size_t i = 0; i < l.y.size(); ++i) {
        const std::size_t c = i % 301, t = i / 301;
        const float sum = float(l.wte[std::size_t(l.token[t]) * 301 + c]) +
                          float(l.wpe[t % 7 * 301 + c]); // 11 + 11 bits: mostly exact in fp32
        CHECK(l.y[i].bits == fp16(sum).bits);
    }
}

TEST_CASE("1.0 added 4096 times to one row is 4096, in 16 bits too") {
    machine m;
    const auto sum = [&](auto one) {
        using T = decltype(one);
        layer<T> l({1, 4096, 2, 3});
        std::fill(l.token.begin(), l.token.end(), 1);
        std::fill(l.dy.begin(), l.dy.end(), one);
        l.backward(m);
        return float(l.dwte[3]);
    };
    CHECK(sum(fp16(1.0f)) == 4096);
    CHECK(sum(bf16(1.0f)) == 4096);
    fp16 h(0.0f); // what sums kept in 16 bits give
    bf16 b(0.0f);
    for (int i = 0; i < 4096; ++i) h = fp16(float(h) + 1.0f), b = bf16(float(b) + 1.0f);
    CHECK(float(h) == 2048);
    CHECK(float(b) == 256);
}

TEST_CASE("dwte is added to, in position order; dwpe is set, and 0 past T") {
    machine m;
    layer<float> l({2, 3, 1, 2});
    l.token = {0, 0, 0, 0, 0, 0};
    l.dy = {1e8f, 1, -1e8f, 1, 0.5f, 0.25f}; // ((((1e8 + 1) - 1e8) + 1) + ...: the first 1 is lost
    l.dwte = {100, 3};
    l.backward(m);
    CHECK(l.dwte[0] == 101.75f); // the sum first, then what was there
    CHECK(l.dwte[1] == 3);       // a token that does not occur is left alone
    CHECK(l.dwpe == std::vector<float>{1e8f + 1, 1.5f, -1e8f + 0.25f, 0, 0, 0});
}

TEST_CASE("embedding: same bits for 1, 2 and 3 threads") {
    machine one(1), two(2), three(3);
    layer<bf16> a({4, 100, 257, 97}), b(a.s), c(a.s);
    a.forward(one), b.forward(two), c.forward(three);
    a.backward(one), b.backward(two), c.backward(three);
    CHECK((same_bits(a.y, b.y) && same_bits(a.dwte, b.dwte) && same_bits(a.dwpe, b.dwpe)));
    CHECK((same_bits(a.y, c.y) && same_bits(a.dwte, c.dwte) && same_bits(a.dwpe, c.dwpe)));
}

TEST_CASE("a token outside the vocabulary is refused by name") {
    machine m;
    layer<float> l({2, 3, 5, 7});
    for (const int bad : {7, -1}) {
        l.token[4] = bad;
        const std::string line =
            join("embedding: token ", bad, " at position 4; the vocabulary has 0 to 6");
        CHECK_THROWS_WITH_AS(l.forward(m), line.c_str(), error);
        CHECK_THROWS_WITH_AS(l.backward(m), line.c_str(), error);
    }
}
