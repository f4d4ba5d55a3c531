// SPDX-License-Identifier: MIT
#include "mpt/train/data.hpp" // load_tokens, require_context, draw_batch, validation_batch

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <vector>

using namespace mpt;

static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
// A token file: llm.c's header of 256 numbers, then the tokens.
static std::string token_file(std::int32_t magic, std::int32_t version, std::int32_t count,
                              const std::vector<std::uint16_t>& tokens) {
    std::vector<std::int32_t> head(256);
    head[0] = magic, head[1] = version, head[2] = count;
    return std::string(reinterpret_cast<const char*>(head.data()), 1024) +
           std::string(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
}
template <class F>
static std::string refusal(F f) {
    try {
        f();
    } catch (const error& e) {
        return e.what();
    }
    return "accepted";
}
static std::string refusal_of(const std::string& path) {
    return refusal([&] { load_tokens(path); });
}
// A corpus in which every token says where it stands.
static token_data numbered(std::size_t n) {
    token_data d{std::vector<std::uint16_t>(n), 65536, "numbers", n - n / 10};
    for (std::size_t i = 0; i < n; ++i) d.tokens[i] = std::uint16_t(i);
    return d;
}

TEST_CASE("any file is text: its bytes are the tokens, the last tenth is held out") {
    std::string text;
    for (int i = 0; i < 200000; ++i) text += char(i * 31 + i / 256);
    put("any.txt", text);
    const token_data d = load_tokens("any.txt");
    REQUIRE(d.tokens.size() == text.size());
    CHECK(std::equal(text.begin(), text.end(), d.tokens.begin(),
                     [](char c, std::uint16_t t) { return t == static_cast<unsigned char>(c); }));
    CHECK(d.vocabulary == 256);
    CHECK(d.name == "any.txt");
    CHECK(d.train_end == 180000);
    put("one.txt", "x");
    CHECK(load_tokens("one.txt").train_end == 1);
}

TEST_CASE("llm.c token files, by their name or their first number") {
    const std::vector<std::uint16_t> tokens{0, 50256, 7, 65535 & 50000, 1};
    for (const char* path : {"tokens.bin", "tokens.dat"}) {
        put(path, token_file(20240520, 1, 5, tokens));
        const token_data d = load_tokens(path);
        CHECK(d.tokens == tokens);
        CHECK(d.vocabulary == 50257);
        CHECK(d.train_end == 5);
    }
}

TEST_CASE("bad data files are refused in one line: the file, found, wanted, what to do") {
    CHECK(refusal_of("no_such_file.txt") ==
          "data no_such_file.txt: cannot be opened (No such file or directory); "
          "give a file that exists and can be read");
    CHECK(refusal_of("/") == "data /: is a folder, wanted a file; name the file itself");
    put("empty.txt", "");
    CHECK(refusal_of("empty.txt") ==
          "data empty.txt: is empty, wanted text or tokens; give another file");

    const std::vector<std::uint16_t> five{1, 2, 3, 4, 5};
    put("bad.bin", "text that is called .bin");
    CHECK(refusal_of("bad.bin").find("has 24 bytes, wanted a header of 1024") != std::string::npos);
    put("bad.bin", token_file(20240521, 1, 5, five));
    CHECK(refusal_of("bad.bin") ==
          "data bad.bin: begins with the number 20240521, wanted 20240520 (GPT-2 tokens of llm.c); "
          "make it with llm.c, or rename it if it is text");
    put("bad.bin", token_file(20240801, 7, 5, five));
    CHECK(refusal_of("bad.bin").find("these are Llama-3's") != std::string::npos);
    put("bad.bin", token_file(20240520, 2, 5, five));
    CHECK(refusal_of("bad.bin") == "data bad.bin: is of version 2, wanted 1; make it anew");
    for (const int count : {4, 6, -5, 2147483647}) {
        put("bad.bin", token_file(20240520, 1, count, five));
        const std::string said = refusal_of("bad.bin");
        CHECK_MESSAGE(said.find(join("says ", count, " tokens, wanted ")) != said.npos, said);
        CHECK(said.find("found 10;") != said.npos);
    }
    put("bad.bin", token_file(20240520, 1, 5, five) + "x");
    CHECK(refusal_of("bad.bin").find("found 11;") != std::string::npos);
    put("bad.bin", token_file(20240520, 1, 3, {50256, 50257, 1}));
    CHECK(refusal_of("bad.bin") ==
          "data bad.bin: token 1 is 50257, wanted less than 50257; it is damaged, get it anew");
    const std::string whole = token_file(20240520, 1, 5, five);
    for (std::size_t n : {std::size_t(0), std::size_t(3), std::size_t(1023), whole.size() - 1}) {
        put("bad.bin", whole.substr(0, n));
        CHECK(refusal_of("bad.bin") != "accepted");
    }
    put("bad.bin", whole);
    CHECK(refusal_of("bad.bin") == "accepted");
}

TEST_CASE("a corpus shorter than the context is refused, with the numbers that would do") {
    CHECK(
        refusal([] { require_context(numbered(1000), 256); }) ==
        "data numbers: 1000 tokens are 900 to train and 100 held out, wanted at least 257 of each "
        "for a context of 256; give a file of at least 2570 tokens or a --context of at most 99");
    CHECK(refusal([] { require_context(numbered(1000), 99); }) == "accepted");
    CHECK(refusal([] { require_context(numbered(1000), 100); }) != "accepted");
    CHECK(refusal([] { require_context(numbered(2570), 256); }) == "accepted");
    CHECK(refusal([] { require_context(numbered(2569), 256); }) != "accepted");
    CHECK(refusal([] { require_context(numbered(19), 1); }).find("--context of at") ==
          std::string::npos); // none would do
    CHECK(refusal([] { require_context(numbered(20), 1); }) == "accepted");
    CHECK(refusal([] { require_context(numbered(1000), 0); }).find("at least 1") !=
          std::string::npos);
    std::vector<int> x(2 * 256), y(2 * 256);
    CHECK(refusal([&] { draw_batch(numbered(1000), 1, 0, 0, 2, 256, x, y); }) != "accepted");
    CHECK(refusal([&] { validation_batch(numbered(1000), 2, 0, 2, 256, x, y); }) != "accepted");
}

TEST_CASE("samples: targets follow inputs, stay in the training part, and reach its ends") {
    for (const int T : {1, 3, 8}) {
        const token_data d = numbered(100);
        const std::size_t n = 64 * std::size_t(T);
        std::vector<int> x(n), y(n);
        std::set<int> starts;
        for (long step = 0; step < 50; ++step) {
            draw_batch(d, 1337, step, 0, 64, T, x, y);
            for (std::size_t i = 0; i < n; ++i) {
                CHECK(y[i] == x[i] + 1);
                if (i % std::size_t(T)) CHECK(x[i] == x[i - 1] + 1);
            }
            CHECK(*std::max_element(y.begin(), y.end()) < 90);
            for (std::size_t i = 0; i < n; i += std::size_t(T)) starts.insert(x[i]);
        }
        CHECK(starts.size() == std::size_t(90 - T)); // every start, none beside
    }
}

TEST_CASE("N ranks and M micro-batches draw what one rank draws; steps and seeds differ") {
    const token_data d = numbered(5000);
    constexpr int T = 5;
    const auto draw = [&](std::uint64_t seed, long step, long first, int B) {
        std::vector<int> x(std::size_t(B * T)), y(x);
        draw_batch(d, seed, step, first, B, T, x, y);
        return x;
    };
    const std::vector<int> whole = draw(7, 3, 0, 12);
    std::vector<int> parts;
    for (const auto& [first, B] : {std::pair(0L, 4), std::pair(4L, 1), std::pair(5L, 7)}) {
        const std::vector<int> part = draw(7, 3, first, B);
        parts.insert(parts.end(), part.begin(), part.end());
    }
    CHECK(parts == whole);
    CHECK(draw(7, 3, 0, 12) == whole); // again, as after a resume
    CHECK(draw(7, 3, 1, 12) != whole); // sabotages: each part of the key counts
    CHECK(draw(7, 4, 0, 12) != whole);
    CHECK(draw(8, 3, 0, 12) != whole);
    CHECK(draw(7 + (1ull << 32), 3, 0, 12) != whole);
    CHECK(draw(7, 3, 1l << 32, 12) != whole);
}

TEST_CASE("starts are spread evenly") {
    const token_data d = numbered(1000);
    std::vector<int> counts(10);
    for (long s = 0; s < 9000; ++s) ++counts[sample_start(d, 42, s / 100, s % 100, 10) / 89];
    for (const int c : counts) CHECK(std::abs(c - 900) < 150); // 5 deviations of sqrt(900 * 0.9)
}

TEST_CASE("held-out samples are fixed, evenly spaced and inside the held-out part") {
    const token_data d = numbered(1000); // held out: 900 to 999
    constexpr int T = 9;
    std::vector<int> x(11 * T), y(11 * T);
    validation_batch(d, 11, 0, 11, T, x, y);
    for (std::size_t b = 0; b < 11; ++b) CHECK(x[b * T] == 900 + int(b) * 9); // 0 to 90 in 10 steps
    CHECK(y.back() == 999);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == x[i] + 1);
    std::vector<int> x2(2 * T), y2(2 * T);
    validation_batch(d, 11, 4, 2, T, x2, y2);
    CHECK(std::equal(x2.begin(), x2.end(), x.begin() + 4 * T));
    validation_batch(d, 1, 0, 1, T, std::span(x2).first(T), std::span(y2).first(T));
    CHECK(x2[0] == 900);
    CHECK_THROWS_AS(validation_batch(d, 11, 10, 2, T, x2, y2), error);
    CHECK_THROWS_AS(validation_batch(d, 11, 0, 3, T, x2, y2), error);
    CHECK_THROWS_AS(draw_batch(d, 1, 0, 0, 3, T, x2, y2), error);
}
