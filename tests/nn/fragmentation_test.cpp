// SPDX-License-Identifier: MIT
#include "chapters/common/fragmentation.hpp"

#include <doctest/doctest.h>

using namespace mpt;

namespace {
gpt_config shape(int layers, int heads, int channels, int context, int vocabulary) {
    gpt_config c;
    c.layers = layers, c.heads = c.kv_heads = heads, c.channels = channels, c.context = context;
    c.vocabulary = vocabulary;
    return c;
}
} // namespace

TEST_CASE("contiguous gradients: the same bytes are free, in one block instead of many") {
    struct sizes {
        gpt_config c;
        std::size_t tokens, budget;
    };
    for (const sizes& z : {sizes{shape(4, 4, 128, 128, 256), 2048, 60u << 20},
                           sizes{shape(12, 3, 48, 64, 128), 640, 16u << 20},
                           sizes{shape(3, 1, 7, 5, 11), 5, 1u << 17}}) {
        arena apart(z.budget), whole(z.budget);
        const free_memory a = after_backward(apart, z.c, z.tokens, 2, false);
        const free_memory b = after_backward(whole, z.c, z.tokens, 2, true);
        gpt_tensors t;
        const layout map = gpt_layout(z.c, t);
        std::size_t rounded = 0; // each tensor to a multiple of 64
        for (const tensor_info& info : map.tensors) rounded += (info.size * 2 + 63) / 64 * 64;
        CHECK(a.held == rounded);
        CHECK(b.held == (map.size() * 2 + 63) / 64 * 64);
        CHECK(a.free == z.budget - a.held);
        CHECK(b.largest == b.free); // all that is free is one block
        CHECK(a.largest < a.free);
        CHECK(a.largest < b.largest);

        // What fits one of them only, and the refusal that names asked, held, free, largest.
        const std::size_t asked = a.largest + 64;
        CHECK(asked <= a.free); // there are enough bytes
        CHECK(refusal(whole, asked, "logits") == "");
        CHECK(refusal(apart, asked, "logits") ==
              join("memory: logits asks ", asked, " bytes; of the budget of ", z.budget, ", ",
                   a.held, " are held and ", a.free, " free, the largest free block ", a.largest,
                   "; give more or make the model or the batch smaller"));
        CHECK(refusal(apart, a.largest, "logits") == ""); // the sabotage: what does fit
        CHECK(refusal(whole, b.largest + 64, "logits") != "");
    }
}

TEST_CASE("where all tensors are multiples of 64 bytes, free bytes are equal to the byte") {
    arena apart(64u << 20), whole(64u << 20);
    const gpt_config c = shape(4, 4, 128, 128, 256);
    const free_memory a = after_backward(apart, c, 2048, 2, false);
    const free_memory b = after_backward(whole, c, 2048, 2, true);
    CHECK(a.free == b.free);
    CHECK(a.held == b.held);
}
