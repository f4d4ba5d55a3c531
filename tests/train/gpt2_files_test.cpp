// SPDX-License-Identifier: MIT
#include "mpt/train/hf_gpt2.hpp"   // hf_file, hf_sizes, read_hf, write_hf
#include "mpt/train/llmc_gpt2.hpp" // read_llmc_header, read_llmc, write_llmc

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace mpt;

// A GPT-2 of 2 layers, 3 heads, 9 channels, context 5; sizes that are easily told apart.
struct model {
    gpt_config c{2, 3, 3, 9, 5, 130, 0};
    std::vector<named_tensor> tensors;
    std::vector<float> weights;
    explicit model(int vocabulary = 130, int kv_heads = 3) {
        c.vocabulary = vocabulary;
        c.kv_heads = kv_heads;
        gpt_tensors t;
        const layout map = gpt_layout(c, t);
        tensors = named_tensors(map.tensors);
        std::uint32_t x = 5;
        for (std::size_t i = 0; i < map.size(); ++i) {
            x = x * 1664525 + 1013904223;
            weights.push_back(float(std::int32_t(x)) / 2e9f); // 24 bits that bf16 cannot hold
        }
    }
    const named_tensor& tensor(const std::string& name) const {
        for (const named_tensor& t : tensors)
            if (t.name == name) return t;
        throw error("no " + name);
    }
    float at(const std::string& name, std::size_t i) const {
        return weights[tensor(name).begin + i];
    }
};
static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
static std::vector<float> rounded(const std::vector<float>& x) {
    std::vector<float> out;
    for (const float v : x) out.push_back(float(bf16(v)));
    return out;
}
static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
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
static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
}
static std::vector<float> from_hf(const std::string& path, const model& m) {
    std::vector<float> w(m.weights.size(), 99);
    read_hf(hf_file(path), m.tensors, w);
    return w;
}
static std::vector<float> from_llmc(const std::string& path, const model& m) {
    std::vector<float> w(m.weights.size(), 99);
    read_llmc(path, m.tensors, w);
    return w;
}

TEST_CASE("Hugging Face: bit for bit in fp32, rounded once in bf16, matrices of Conv1D turned") {
    const model m;
    write_hf<float>("hf.safetensors", m.c, 130, m.tensors, m.weights);
    CHECK(same(from_hf("hf.safetensors", m), m.weights));
    const gpt_config c = hf_sizes(hf_file("hf.safetensors"));
    CHECK(c.layers == 2);
    CHECK(c.heads == 3);
    CHECK(c.kv_heads == 3);
    CHECK(c.channels == 9);
    CHECK(c.context == 5);
    CHECK(c.vocabulary == 130);

    // Row r, column k of a matrix here is row k, column r there; others lie as they are.
    const safetensors::reader file("hf.safetensors");
    const struct {
        const char* name;
        std::size_t out, in;
    } conv1d[] = {{"h.1.attn.c_attn.weight", 27, 9},
                  {"h.1.attn.c_proj.weight", 9, 9},
                  {"h.0.mlp.c_fc.weight", 36, 9},
                  {"h.0.mlp.c_proj.weight", 9, 36}};
    for (const auto& w : conv1d) {
        const safetensors::tensor* t = file.find(w.name);
        REQUIRE(t);
        CHECK(t->shape == safetensors::shape{w.in, w.out});
        const std::vector<float> there = as_floats(file, *t);
        for (std::size_t r = 0; r < w.out; ++r)
            for (std::size_t k = 0; k < w.in; ++k)
                CHECK(there[k * w.out + r] == m.at(w.name, r * w.in + k));
    }
    CHECK(as_floats(file, *file.find("wte.weight"))[7] == m.at("wte.weight", 7));
    CHECK(file.tensors().size() == 4 + 2 * 12);
    CHECK(file.metadata().at("format") == "pt");

    write_hf<bf16>("hf16.safetensors", m.c, 130, m.tensors, m.weights);
    CHECK(same(from_hf("hf16.safetensors", m), rounded(m.weights)));
    CHECK_FALSE(same(from_hf("hf16.safetensors", m), m.weights)); // so the rounding was seen
    const model again = [&] {
        model x = m;
        x.weights = from_hf("hf16.safetensors", m);
        return x;
    }();
    write_hf<bf16>("hf16b.safetensors", m.c, 130, again.tensors, again.weights);
    CHECK(contents("hf16.safetensors") == contents("hf16b.safetensors")); // from then on exact
}

// The file as another program writes it: a prefix, masks, the head a second time.
static std::string with_extras(const model& m, const std::vector<float>& head,
                               const std::string& extra = "") {
    std::vector<safetensors::source> all;
    std::vector<std::vector<float>> rooms;
    rooms.reserve(100);
    for (const named_tensor& t : m.tensors) {
        safetensors::shape shape = shape_of(t);
        const auto part = part_of(std::span(m.weights), t);
        rooms.emplace_back(part.begin(), part.end());
        if (is_conv1d(t.name)) {
            transpose(part, rooms.back(), std::size_t(shape[1]));
            std::reverse(shape.begin(), shape.end());
        }
        all.push_back(
            {"transformer." + t.name, "F32", shape, std::as_bytes(std::span(rooms.back()))});
    }
    const std::vector<float> mask(25, 1);
    all.push_back(
        {"transformer.h.0.attn.bias", "F32", {1, 1, 5, 5}, std::as_bytes(std::span(mask))});
    all.push_back(
        {"transformer.h.0.attn.masked_bias", "F32", {}, std::as_bytes(std::span(mask)).first(4)});
    all.push_back({"lm_head.weight", "F32", {130, 9}, std::as_bytes(std::span(head))});
    if (!extra.empty()) all.push_back({extra, "F32", {25}, std::as_bytes(std::span(mask))});
    safetensors::write("extras.safetensors", all);
    return "extras.safetensors";
}

TEST_CASE("Hugging Face: prefix, masks and a tied head are known; what is not GPT-2's is refused") {
    const model m;
    std::vector<float> head(m.weights.begin(), m.weights.begin() + 130 * 9);
    CHECK(same(from_hf(with_extras(m, head), m), m.weights));
    head[700] += 1;
    CHECK(has(refusal([&] { from_hf(with_extras(m, head), m); }),
              "lm_head.weight is not wte.weight; this model ties its head"));
    head[700] = m.weights[700];
    CHECK(has(refusal([&] { from_hf(with_extras(m, head, "h.0.gate.weight"), m); }),
              "has h.0.gate.weight with shape (25), which GPT-2 has not"));
    CHECK(has(refusal([&] { hf_sizes(hf_file(with_extras(m, head))); }),
              "0 heads of 9 channels (the file does not say how many); give --heads"));
    CHECK(hf_sizes(hf_file("extras.safetensors"), 3).heads == 3);
    for (const char no : {'x', '0', '-'}) { // what the metadata says, whatever the caller does
        std::string bytes = contents("hf.safetensors");
        bytes[bytes.find("\"n_head\":\"3\"") + 10] = no;
        put("heads.safetensors", bytes);
        CHECK(has(refusal([] { hf_sizes(hf_file("heads.safetensors"), 3); }),
                  join("weights heads.safetensors: its metadata has \"n_head\" = \"", no,
                       "\", wanted a number of heads")));
    }

    model other(130);
    other.tensors[6].shape = {27, 8};
    CHECK(has(refusal([&] { from_hf("hf.safetensors", other); }),
              "h.0.attn.c_attn.weight has shape (9,27), this model wants (8,27)"));
    const std::vector<float> x(4);
    safetensors::write("no.safetensors", {{"x", "F32", {4}, std::as_bytes(std::span(x))}});
    CHECK(
        has(refusal([&] { hf_file f("no.safetensors"); }),
            "weights no.safetensors: has no h.0.attn.c_attn.weight; it holds no GPT-2's weights"));
    const model grouped(130, 1);
    CHECK(has(refusal([&] {
                  write_hf<float>("g.safetensors", grouped.c, 130, grouped.tensors,
                                  grouped.weights);
              }),
              "3 heads and 1 key/value heads"));
}

TEST_CASE("mpt's own files, (out, in), are read as they lie, grouped heads as well") {
    for (const int kv : {3, 1}) {
        const model m(130, kv);
        std::vector<safetensors::source> all;
        add_tensors(all, m.tensors, "", std::span(m.weights));
        add_tensors(all, m.tensors, "adam.m.", std::span(m.weights));
        safetensors::write("own.safetensors", all);
        CHECK(same(from_hf("own.safetensors", m), m.weights));
        CHECK(hf_sizes(hf_file("own.safetensors"), 3).kv_heads == kv);
    }
}

TEST_CASE("llm.c: bit for bit in fp32, rounded once in bf16, the bytes where llm.c has them") {
    const model m;
    write_llmc<float>("m.bin", m.c, 130, m.tensors, m.weights);
    CHECK(same(from_llmc("m.bin", m), m.weights));
    const std::string bytes = contents("m.bin");
    const auto number = [&](std::size_t i) {
        std::int32_t n;
        std::memcpy(&n, bytes.data() + 4 * i, 4);
        return n;
    };
    const std::int32_t header[] = {20240326, 3, 5, 130, 2, 3, 9, 256, 0};
    for (std::size_t i = 0; i < 9; ++i) CHECK(number(i) == header[i]);
    const auto value = [&](std::size_t i) { // number i of the weights
        float x;
        std::memcpy(&x, bytes.data() + 1024 + 4 * i, 4);
        return x;
    };
    // the order of the sixteen, each of both layers: sizes written out, from facts of the format
    std::size_t at = 0;
    CHECK(value(at + 130 * 9 - 1) == m.at("wte.weight", 130 * 9 - 1));
    for (std::size_t i = 130 * 9; i < 256 * 9; ++i) CHECK(value(i) == 0); // the padding
    at += 256 * 9;
    CHECK(value(at + 44) == m.at("wpe.weight", 44));
    at += 5 * 9;
    const std::pair<const char*, std::size_t> kinds[] = {{"ln_1.weight", 9},
                                                         {"ln_1.bias", 9},
                                                         {"attn.c_attn.weight", 27 * 9},
                                                         {"attn.c_attn.bias", 27},
                                                         {"attn.c_proj.weight", 81},
                                                         {"attn.c_proj.bias", 9},
                                                         {"ln_2.weight", 9},
                                                         {"ln_2.bias", 9},
                                                         {"mlp.c_fc.weight", 36 * 9},
                                                         {"mlp.c_fc.bias", 36},
                                                         {"mlp.c_proj.weight", 36 * 9},
                                                         {"mlp.c_proj.bias", 9}};
    for (const auto& [kind, n] : kinds)
        for (const char* layer : {"h.0.", "h.1."}) {
            CHECK(value(at) == m.at(std::string(layer) + kind, 0));
            CHECK(value(at + n - 1) == m.at(std::string(layer) + kind, n - 1));
            at += n;
        }
    CHECK(value(at) == m.at("ln_f.weight", 0));
    CHECK(value(at + 9) == m.at("ln_f.bias", 0));
    CHECK(bytes.size() == 1024 + 4 * (at + 18));

    write_llmc<bf16>("m16.bin", m.c, 130, m.tensors, m.weights);
    CHECK(same(from_llmc("m16.bin", m), rounded(m.weights)));
    CHECK(read_llmc_header(input_file("weights", "m16.bin")).bf16);
}

TEST_CASE("the padding of the vocabulary: 50257 in a file of 50304 rows, as a ratio 130 : 256") {
    const model real(130), wide(256); // a model of the words, and one that was padded itself
    write_llmc<float>("p.bin", real.c, 130, real.tensors, real.weights);
    std::vector<float> w = from_llmc("p.bin", wide);
    for (std::size_t i = 0; i < 130 * 9; ++i) CHECK(w[i] == real.weights[i]);
    for (std::size_t i = 130 * 9; i < 256 * 9; ++i) CHECK(w[i] == 0);
    CHECK(w[wide.tensor("ln_f.bias").begin] == real.at("ln_f.bias", 0)); // nothing else moved
    // the padded model written: llm.c keeps all its rows, Hugging Face those of words
    write_llmc<float>("q.bin", wide.c, 130, wide.tensors, wide.weights);
    CHECK(same(from_llmc("q.bin", wide), wide.weights));
    CHECK(read_llmc_header(input_file("weights", "q.bin")).sizes.vocabulary == 130);
    write_hf<float>("q.safetensors", wide.c, 130, wide.tensors, wide.weights);
    CHECK(safetensors::reader("q.safetensors").find("wte.weight")->shape ==
          safetensors::shape{130, 9});
    w = from_hf("q.safetensors", wide);
    CHECK(w[130 * 9 - 1] == wide.weights[130 * 9 - 1]);
    CHECK(w[130 * 9] == 0);
    // from one form to the other and back: the same file
    write_hf<float>("r.safetensors", real.c, 130, real.tensors, from_llmc("p.bin", real));
    write_llmc<float>("r.bin", real.c, 130, real.tensors, from_hf("r.safetensors", real));
    CHECK(contents("r.bin") == contents("p.bin"));
    std::string other = contents("r.bin"); // sabotage: one bit is seen
    other[2000] ^= 1;
    CHECK(other != contents("p.bin"));
}

TEST_CASE("llm.c files that are cut, of another model or version are refused in one line") {
    const model m;
    write_llmc<float>("m.bin", m.c, 130, m.tensors, m.weights);
    const std::string whole = contents("m.bin");
    const auto with = [&](std::size_t i, std::int32_t n) {
        std::string bytes = whole;
        std::memcpy(bytes.data() + 4 * i, &n, 4);
        put("bad.bin", bytes);
        return refusal([&] { read_llmc_header(input_file("weights", "bad.bin")); });
    };
    CHECK(with(0, 20240520) == "weights bad.bin: begins with the number 20240520, wanted 20240326; "
                               "it is no model of llm.c");
    CHECK(has(with(1, 2), "is of version 2, wanted 3 (fp32) or 5 (bf16)"));
    CHECK(has(with(1, 5), "its sizes need "));
    for (const std::int32_t n : {0, -1, 1 << 30, 2147483647})
        for (std::size_t i = 2; i < 8; ++i) CHECK(with(i, n) != "accepted");
    CHECK(has(with(5, 2), "channels a multiple of heads"));
    CHECK(with(4, 3).find('\n') == std::string::npos);
    for (std::size_t n = 0; n < whole.size(); n += n < 1100 ? 1 : 97) {
        put("bad.bin", whole.substr(0, n));
        CHECK(refusal([&] { read_llmc_header(input_file("weights", "bad.bin")); }) != "accepted");
    }
    put("bad.bin", whole + '\0');
    CHECK(refusal([&] { read_llmc_header(input_file("weights", "bad.bin")); }) != "accepted");
    model larger;
    larger.c.layers = 3;
    gpt_tensors t;
    const layout map = gpt_layout(larger.c, t);
    larger.tensors = named_tensors(map.tensors);
    larger.weights.resize(map.size());
    CHECK(has(refusal([&] { from_llmc("m.bin", larger); }), "has no h.2.ln_1.weight"));
    const model grouped(130, 1);
    CHECK(has(refusal([&] {
                  write_llmc<float>("g.bin", grouped.c, 130, grouped.tensors, grouped.weights);
              }),
              "use safetensors"));
}
