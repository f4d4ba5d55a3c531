// SPDX-License-Identifier: MIT
#include "mpt/nn/tfixup.hpp"
#include "mpt/nn/gpt_layout.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace mpt;

TEST_CASE("the factors of 6 layers") {
    CHECK(std::fabs(tfixup_encoder(6) - 0.42809) < 5e-6);
    CHECK(std::fabs(tfixup_decoder(6) - 0.36889) < 5e-6);
}

TEST_CASE("the factors solve the sums that they are made for, at any depth") {
    for (const int N : {1, 6, 12, 200}) {
        const double d = tfixup_decoder(N), e = tfixup_encoder(N);
        // A branch's three terms, embedding and v, embedding and out, v and out, each of four
        // factors: d^4. A decoder layer has 3 branches, one of them attends to the encoder.
        CHECK(std::fabs(3 * N * 3 * std::pow(d, 4) - 1) < 1e-12);
        // An encoder layer has 2; the embeddings have the decoder's factor. 0.67 is 0.6696.
        CHECK(std::fabs(2 * N * (2 * d * d * e * e + std::pow(e, 4)) - 1) < 0.002);
        // A GPT's has 2, without an encoder: the decoder's factor keeps its sum at 2/3, and
        // the encoder's, the sabotage, with embeddings of the same, far above 1.
        CHECK(std::fabs(2 * N * 3 * std::pow(d, 4) - 2.0 / 3) < 1e-12);
        CHECK(2 * N * 3 * std::pow(e, 4) > 1.2);
    }
}

TEST_CASE("the layout's initial values have these deviations") {
    gpt_config c;
    c.layers = 6, c.heads = 4, c.kv_heads = 2, c.channels = 64, c.context = 32, c.vocabulary = 301;
    c.layer_norm = false, c.tfixup = true;
    gpt_tensors t;
    const layout map = gpt_layout(c, t);
    std::vector<float> all(map.size());
    initial_values(map, 5, 0, all);
    const auto deviation = [&](int tensor, std::size_t from = 0, std::size_t to = SIZE_MAX) {
        const tensor_info& info = map.tensors[std::size_t(tensor)];
        double square = 0;
        to = std::min(to, info.size);
        for (std::size_t i = from; i < to; ++i) square += std::pow(double(all[info.begin + i]), 2);
        return std::sqrt(square / double(to - from));
    };
    // n normal numbers: their deviation is off by 1 / sqrt(2 n), here at most 1.6 %; 5 of them.
    const auto near = [](double x, double wanted) { return std::fabs(x / wanted - 1) < 0.08; };
    const double f = 0.36889, C = 64;
    CHECK(near(deviation(t.wte), f / 8));
    CHECK(near(deviation(t.wpe), f / 8));
    for (const gpt_block_tensors& b : t.block) {
        CHECK(near(deviation(b.qkv_weight, 0, 96 * 64), std::sqrt(2 / (C + C))));   // q and k
        CHECK(near(deviation(b.qkv_weight, 96 * 64), f * std::sqrt(2 / (C + 32)))); // v
        CHECK(near(deviation(b.attn_weight), f * std::sqrt(2 / (C + C))));
        CHECK(near(deviation(b.fc_weight), f * std::sqrt(2 / (5 * C))));
        CHECK(near(deviation(b.proj_weight), f * std::sqrt(2 / (5 * C))));
        CHECK(deviation(b.proj_bias) == 0);
        CHECK(!near(deviation(b.fc_weight), std::sqrt(2 / (5 * C)))); // sabotage: not scaled
    }
}

TEST_CASE("a part of the initial values is that part of the whole") {
    gpt_config c;
    c.layers = 1, c.heads = c.kv_heads = 1, c.channels = 5, c.context = 3, c.vocabulary = 7;
    c.layer_norm = false, c.tfixup = true;
    gpt_tensors t;
    const layout map = gpt_layout(c, t);
    std::vector<float> all(map.size());
    initial_values(map, 5, 0, all);
    for (std::size_t begin = 0; begin < all.size(); begin += 13) {
        std::vector<float> part(std::min<std::size_t>(13, all.size() - begin));
        initial_values(map, 5, begin, part);
        CHECK(std::equal(part.begin(), part.end(), all.begin() + std::ptrdiff_t(begin)));
    }
}
