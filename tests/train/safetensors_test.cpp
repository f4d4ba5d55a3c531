// SPDX-License-Identifier: MIT
#include "../fuzz/memory_file.hpp"

#include "mpt/train/safetensors.hpp" // reader, write

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <span>
#include <string>
#include <vector>

using namespace mpt;

// Every allocation of this program: the largest since it was last set to 0.
static std::size_t largest = 0;
[[gnu::noinline]] void* operator new(std::size_t n) {
    largest = std::max(largest, n);
    if (void* const p = std::malloc(n ? n : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
static std::string refusal(const std::string& path) {
    try {
        safetensors::reader r(path);
    } catch (const error& e) {
        return e.what();
    }
    return "accepted";
}
static std::string file_of(const std::string& header, std::size_t data) {
    const std::uint64_t n = header.size();
    return std::string(reinterpret_cast<const char*>(&n), 8) + header + std::string(data, '\0');
}
static std::string refusal_of(const std::string& header, std::size_t data) {
    put("made.safetensors", file_of(header, data));
    return refusal("made.safetensors");
}
template <class T>
static std::span<const std::byte> bytes(const std::vector<T>& v) {
    return std::as_bytes(std::span(v));
}

TEST_CASE("malformed files get the right verdict for the right reason") {
    const std::map<std::string, std::string> verdicts{
        {"ok_basic", "accepted"},
        {"ok_padded", "accepted"},
        {"ok_scalar_and_empty", "accepted"},
        {"ok_metadata", "accepted"},
        {"short_7_bytes", "has 7 bytes, wanted at least 8"},
        {"empty", "has 0 bytes, wanted at least 8"},
        {"len_max", "has 18446744073709551615 bytes, wanted at most 100000000"},
        {"len_over_100MB", "has 100000001 bytes, wanted at most 100000000"},
        {"len_past_eof", "has 3 bytes, 2 are there"},
        {"not_utf8", "byte 0 of its header is not UTF-8"},
        {"not_json", "the end of the text, wanted a key"},
        {"leading_space", "does not begin with '{'"},
        {"array_root", "does not begin with '{'"},
        {"hole", "tensor \"b\" lies at [20,36), wanted it to begin at 16"},
        {"overlap", "tensor \"b\" lies at [8,24), wanted it to begin at 16"},
        {"tail_unindexed", "need 16 bytes of data, 17 are there"},
        {"truncated_data", "need 16 bytes of data, 15 are there"},
        {"end_before_begin", "tensor \"a\" lies at [16,0)"},
        {"negative_offset", "tensor \"a\" has a size or offset that is no whole number"},
        {"shape_mismatch", "(1000,1000) and type F32 needs 4000000 bytes, its offsets give 16"},
        {"shape_overflow", "(9223372036854775808,4) and type F32 passes 2^64 bits"},
        {"dup_key", "the key \"a\" twice"},
        {"unknown_dtype", "tensor \"a\" has the type \"Q7\""},
        {"float_offset", "tensor \"a\" has a size or offset that is no whole number"},
        {"metadata_number", "__metadata__ \"k\" is a number, wanted a string"},
    };
    for (const auto& [name, want] : verdicts) {
        const std::string path = std::string(MPT_CASES) + "/safetensors/" + name + ".safetensors";
        const std::string said = refusal(path);
        CHECK_MESSAGE(said.find(want) != std::string::npos, name, ": ", said);
        CHECK(said.find('\n') == std::string::npos);
        if (want != "accepted") CHECK(said.find("safetensors " + path + ": ") == 0);
    }
    const std::string deep =
        "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}"; // 200 KB: made here
    CHECK(refusal_of(deep, 0).find("more than 8 levels") != std::string::npos);
}

// The largest allocation while `path` is read, and the milliseconds that it took.
struct cost {
    std::size_t bytes;
    double ms;
};
static cost cost_of(const std::string& path) {
    const auto begin = std::chrono::steady_clock::now();
    largest = 0;
    refusal(path);
    const std::size_t bytes = largest;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    return {bytes, took.count()};
}

// Nothing that a file says is allocated before it is checked: the largest allocation is the file's
// own size at most, where that is more than the 4 KiB that a message and its stream may need.
TEST_CASE("a refusal takes less than 100 ms and no allocation larger than the file") {
    put("made.safetensors", file_of("{\"a\":" + std::string(100000, '['), 0)); // deep nesting
    std::vector<std::string> paths{"made.safetensors"};
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(MPT_CASES) + "/safetensors"))
        paths.push_back(entry.path().string());
    CHECK(paths.size() == 26);
    for (const std::string& path : paths) {
        const cost c = cost_of(path);
        CHECK_MESSAGE(c.bytes <= std::max<std::size_t>(std::filesystem::file_size(path), 4096),
                      path, ": ", c.bytes);
        CHECK_MESSAGE(c.ms < 100, path, ": ", c.ms);
    }
    largest = 0; // sabotage: a reader that believes the length would be seen
    { const std::string text(100'000'001, ' '); }
    CHECK(largest > 4096);
}

TEST_CASE("files that are made to cost memory: long lists, many tensors, long names") {
    const auto made = [](const std::string& header) {
        put("made.safetensors", file_of(header, 0));
        return cost_of("made.safetensors");
    };
    // 1,000,000 sizes in one shape: refused at 65,536, of 120 bytes each, doubled as they grow
    std::string sizes = "1";
    for (int i = 1; i < 1'000'000; ++i) sizes += ",1";
    const std::string shape = R"({"a":{"dtype":"F32","shape":[)" + sizes + "]";
    CHECK(made(shape).bytes <= 65536 * 256);
    CHECK(refusal("made.safetensors").find("more than 65536 values in a list") !=
          std::string::npos);
    // a long name in the message is cut
    const std::string name(1'000'000, 'n');
    made("{\"" + name + "\":1}");
    CHECK(refusal("made.safetensors").size() < 500);
    // the smallest entries there are: 30,000 empty tensors, 52 to 56 bytes each
    std::string all = "{";
    for (int i = 0; i < 30000; ++i)
        all += join(i ? ",\"" : "\"", i, R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
    CHECK(made(all + "}").bytes <= 8 * all.size());
    CHECK(refusal("made.safetensors") == "accepted");
}

TEST_CASE("more that is refused, and what is allowed beside it") {
    const std::string a = R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})";
    CHECK(refusal_of("{" + a + "}", 16) == "accepted");
    CHECK(refusal_of("{}", 0) == "accepted");
    CHECK(refusal_of("{}", 1) != "accepted");
    CHECK(refusal_of("{" + a + "}x", 16) != "accepted");
    CHECK(refusal_of("", 0) != "accepted");
    CHECK(refusal_of("{" + a + R"(,"__metadata__":[]})", 16).find("wanted an object") !=
          std::string::npos);
    CHECK(refusal_of("{" + a + R"(,"__metadata__":{}})", 16) == "accepted");
    for (const char* entry :
         {"1", "[]", "{}", R"({"dtype":"F32","shape":[2,2]})",
          R"({"dtype":"F32","data_offsets":[0,16]})", R"({"shape":[2,2],"data_offsets":[0,16]})",
          R"({"dtype":7,"shape":[2,2],"data_offsets":[0,16]})",
          R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})",
          R"({"dtype":"F32","shape":["2","2"],"data_offsets":[0,16]})",
          R"({"dtype":"F32","shape":[2e0,2],"data_offsets":[0,16]})",
          R"({"dtype":"F32","shape":[2,-2],"data_offsets":[0,16]})",
          R"({"dtype":"F32","shape":[2,2],"data_offsets":[0]})",
          R"({"dtype":"F32","shape":[2,2],"data_offsets":[0,16,16]})",
          R"({"dtype":"F32","shape":[2,2],"data_offsets":[0,18446744073709551632]})",
          R"({"dtype":"f32","shape":[2,2],"data_offsets":[0,16]})"})
        CHECK_MESSAGE(refusal_of(std::string("{\"a\":") + entry + "}", 16) != "accepted", entry);
    CHECK(refusal_of(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1)
              .find("has 12 bits, wanted a multiple of 8") != std::string::npos);
    CHECK(refusal_of(R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2) == "accepted");
    CHECK(refusal_of(R"({"a":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
                     R"("b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                     0) == "accepted");
    CHECK(refusal("no_such_file.safetensors").find("cannot be opened (No such file") !=
          std::string::npos);
    CHECK(refusal(".").find("is a folder") != std::string::npos);
}

TEST_CASE("the reference file of the format's own documentation") {
    std::string header = R"({"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})";
    header.resize(60, ' ');
    put("reference.safetensors", file_of(header, 16));
    CHECK(contents("reference.safetensors").substr(0, 8) == std::string("<\0\0\0\0\0\0\0", 8));
    const safetensors::reader r("reference.safetensors");
    REQUIRE(r.tensors().size() == 1);
    CHECK(r.find("test")->dtype == "I32");
    CHECK(r.find("test")->shape == safetensors::shape{2, 2});
    CHECK(r.find("rest") == nullptr);
}

TEST_CASE("written and read back: every type, empty and scalar tensors, metadata, odd names") {
    const std::vector<float> f{1.5f, -2, 3e38f, 0};
    const std::vector<std::uint16_t> h{1, 2, 3};
    const std::vector<double> d{0.1};
    const std::vector<std::uint8_t> none;
    const std::vector<std::byte> sixteen(16, std::byte(7));
    std::vector<safetensors::source> all{{"z", "F16", {3}, bytes(h)},
                                         {"a\"\\\n\u00e9", "F32", {2, 2}, bytes(f)},
                                         {"scalar", "F64", {}, bytes(d)},
                                         {"empty", "U8", {0, 5}, bytes(none)},
                                         {"b", "F32", {4}, bytes(f)}};
    for (const safetensors::dtype& t : safetensors::dtypes) {
        const std::uint64_t n = t.bits == 6 ? 20 : 128 / t.bits; // 15 or 16 bytes
        all.push_back({join("of ", t.name), t.name, {n}, bytes(sixteen).first(n * t.bits / 8)});
    }
    const safetensors::metadata notes{
        {"format", "pt"}, {"text", "\"two\nlines\" \u20ac"}, {"", ""}};
    safetensors::write("round.safetensors", all, notes);

    const safetensors::reader r("round.safetensors");
    CHECK(r.metadata() == notes);
    CHECK(r.tensors().size() == all.size());
    CHECK(r.head.data % 8 == 0);
    for (const safetensors::source& s : all) {
        const safetensors::tensor* t = r.find(s.name);
        REQUIRE(t);
        CHECK(t->dtype == s.dtype);
        CHECK(t->shape == s.shape);
        REQUIRE(t->bytes() == s.bytes.size());
        std::vector<std::byte> back(s.bytes.size());
        r.read(*t, back);
        CHECK(std::equal(back.begin(), back.end(), s.bytes.begin()));
        std::vector<std::byte> wrong(s.bytes.size() + 1);
        CHECK_THROWS_AS(r.read(*t, wrong), error);
    }
    // Wide types first, then by name; so every tensor of whole bytes is aligned.
    for (std::size_t i = 1; i < r.tensors().size(); ++i)
        CHECK(safetensors::find_dtype(r.tensors()[i - 1].dtype) <=
              safetensors::find_dtype(r.tensors()[i].dtype));
    CHECK(r.find("b")->begin > r.find("a\"\\\n\u00e9")->begin);
    CHECK(r.find("b")->begin % 4 == 0);

    // The bytes of the file do not depend on the order in which tensors are given.
    std::reverse(all.begin(), all.end());
    safetensors::write("round2.safetensors", all, notes);
    CHECK(contents("round.safetensors") == contents("round2.safetensors"));
    all[0].name += "!"; // sabotage: the comparison sees a changed name
    safetensors::write("round2.safetensors", all, notes);
    CHECK(contents("round.safetensors") != contents("round2.safetensors"));
}

TEST_CASE("the exact bytes of a small file") {
    const std::vector<std::int32_t> x{1, -1};
    safetensors::write("exact.safetensors", {{"x", "I32", {2}, bytes(x)}}, {{"format", "pt"}});
    std::string header = R"({"__metadata__":{"format":"pt"},"x":{"dtype":"I32","shape":[2],)"
                         R"("data_offsets":[0,8]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    CHECK(contents("exact.safetensors") ==
          file_of(header, 0) + std::string("\1\0\0\0\xff\xff\xff\xff", 8));
}

TEST_CASE("every truncation and every longer file is refused") {
    const std::vector<float> f{1, 2, 3, 4, 5, 6};
    safetensors::write("small.safetensors",
                       {{"a", "F32", {2, 3}, bytes(f)}, {"b", "F32", {6}, bytes(f)}}, {{"k", "v"}});
    const std::string whole = contents("small.safetensors");
    CHECK(refusal("small.safetensors") == "accepted");
    for (std::size_t n = 0; n < whole.size(); ++n) {
        put("cut.safetensors", whole.substr(0, n));
        CHECK_MESSAGE(refusal("cut.safetensors") != "accepted", n);
    }
    put("cut.safetensors", whole + '\0');
    CHECK(refusal("cut.safetensors") != "accepted");
}

TEST_CASE("a changed byte of the header is refused or read, never a crash") {
    const std::vector<float> f{1, 2, 3, 4, 5, 6};
    safetensors::write("small.safetensors", {{"a", "F32", {2, 3}, bytes(f)}}, {{"k", "v"}});
    const std::string whole = contents("small.safetensors");
    int refused = 0;
    std::uint32_t noise = 1;
    for (int i = 0; i < 3000; ++i) {
        std::string bad = whole;
        for (int k = 0; k <= i % 3; ++k) {
            noise = noise * 1664525 + 1013904223;
            bad[(noise >> 8) % (bad.size() - 24)] = char(noise >> 24);
        }
        const memory_file file{{reinterpret_cast<const std::uint8_t*>(bad.data()), bad.size()}};
        try {
            safetensors::read_header(file);
        } catch (const error&) {
            ++refused;
        }
    }
    CHECK(refused > 2000);
}

TEST_CASE("the writer refuses what no reader would take") {
    const std::vector<float> f{1, 2};
    const auto said = [&](std::vector<safetensors::source> s) -> std::string {
        try {
            safetensors::write("refused.safetensors", std::move(s));
        } catch (const error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK(said({{"a", "F32", {2}, bytes(f)}, {"a", "F32", {2}, bytes(f)}}) ==
          "safetensors refused.safetensors: the name \"a\" is there twice or reserved; name each "
          "tensor once");
    CHECK(said({{"__metadata__", "F32", {2}, bytes(f)}}).find("reserved") != std::string::npos);
    CHECK(said({{"a", "F31", {2}, bytes(f)}}).find("has the type \"F31\"") != std::string::npos);
    CHECK(said({{"a", "F32", {3}, bytes(f)}}).find("needs 12 bytes, 8 are given") !=
          std::string::npos);
    CHECK(said({{"\xff", "F32", {2}, bytes(f)}}).find("is not UTF-8") != std::string::npos);
    CHECK(contents("refused.safetensors").empty()); // nothing was left behind
}
