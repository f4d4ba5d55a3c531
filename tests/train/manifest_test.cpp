// SPDX-License-Identifier: MIT
#include "mpt/train/manifest.hpp" // write_manifest, parse_manifest, verify_file

#include <doctest/doctest.h>

#include <fstream>
#include <string>

using namespace mpt;

static manifest example() {
    return {120,
            {{"weights.safetensors", 1234567890123, 0x8a9136aa}, {"m.safetensors", 0, 0}},
            {{"scaler.value", "0x1p+3"}, {"data", "a \"name\"\n\u00e9"}, {"", ""}},
            0};
}
static std::string refusal(const std::string& text) {
    try {
        parse_manifest(text, "m.json");
    } catch (const error& e) {
        return e.what();
    }
    return "accepted";
}
// A text with the right sum: what another program, or a newer one, might write.
static std::string summed(const std::string& body) {
    return body + manifest_tail(crc32c(std::as_bytes(std::span(body))));
}

TEST_CASE("written and read back: the same step, files, sums and state") {
    manifest m = example();
    const std::string text = write_manifest(m);
    const manifest back = parse_manifest(text, "m.json");
    CHECK(back.step == 120);
    CHECK(back.crc == m.crc);
    REQUIRE(back.files.size() == 2);
    CHECK(back.files[0].name == "weights.safetensors");
    CHECK(back.files[0].bytes == 1234567890123);
    CHECK(back.files[0].crc == 0x8a9136aa);
    CHECK(back.state == m.state);
    manifest none;
    CHECK(parse_manifest(write_manifest(none), "").state.empty());
}

TEST_CASE("every change of every byte, every cut and every rest is refused") {
    manifest m = example();
    const std::string text = write_manifest(m);
    for (std::size_t i = 0; i < text.size(); ++i) {
        for (int change = 1; change < 256; ++change) {
            std::string bad = text;
            bad[i] = char(bad[i] ^ change);
            REQUIRE_MESSAGE(refusal(bad) != "accepted", i);
        }
        REQUIRE(refusal(text.substr(0, i)) != "accepted");
        REQUIRE(refusal(text.substr(i + 1)) != "accepted");
    }
    CHECK(refusal(text + "\n") != "accepted");
    CHECK(refusal(text) == "accepted"); // so the refusals above were the changes'
}

TEST_CASE(
    "newer versions, other programs and names that leave the folder are refused in one line") {
    const std::string head = R"({"format":"mpt checkpoint","version":1,"step":1,"files":[)";
    CHECK(refusal(summed(head + R"(],"state":{})")) == "accepted");
    CHECK(
        refusal(summed(R"({"format":"mpt checkpoint","version":2,"other":[])")) ==
        "m.json: is of version 2, this program reads up to 1; use the newer program that wrote it");
    CHECK(refusal(summed(R"({"format":"zip","version":1)")) ==
          "m.json: its format is \"zip\", wanted \"mpt checkpoint\"; it is of another program");
    CHECK(refusal(summed(R"({"a":1)")).find("wanted \"format\", a string, found nothing") !=
          std::string::npos);
    for (const char* name : {"../x", "/etc/passwd", "a/b", ".hidden", "", "a b", "\\u0000"})
        CHECK(refusal(summed(head + R"({"name":")" + name +
                             R"(","bytes":1,"crc32c":"00000000"}],"state":{})"))
                  .find("names a file") != std::string::npos);
    for (const char* crc : {"0000000", "000000000", "0000000G", "0000000A", "-0000001"})
        CHECK(refusal(
                  summed(head + R"({"name":"a","bytes":1,"crc32c":")" + crc + R"("}],"state":{})"))
                  .find("is not 8 hex digits") != std::string::npos);
    CHECK(refusal(summed(head + R"({"name":"a","bytes":-1,"crc32c":"00000000"}],"state":{})"))
              .find("\"bytes\" is no whole number") != std::string::npos);
    CHECK(refusal(summed(head + R"(],"state":{"a":1})")).find("is a number, wanted a string") !=
          std::string::npos);
}

TEST_CASE("a file is what the manifest says, or the error names both") {
    std::ofstream("data") << "123456789";
    const manifest_file right{"data", 9, 0xe3069283};
    const auto said = [](const manifest_file& want, const char* path = "data") -> std::string {
        try {
            verify_file(path, want);
        } catch (const error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK(said(right) == "accepted");
    CHECK(said({"data", 10, right.crc}) == "checkpoint data: has 9 bytes, its manifest says 10; "
                                           "it was cut short or exchanged");
    CHECK(said({"data", 9, 1}) == "checkpoint data: its CRC-32C is e3069283, its manifest says "
                                  "00000001; its bytes were changed");
    CHECK(said(right, "no_such").find("cannot be opened (No such file") != std::string::npos);
}
