// SPDX-License-Identifier: MIT
#include "mpt/base/json.hpp"       // parse
#include "mpt/base/json_write.hpp" // quote, number

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

using namespace mpt;

static std::string refusal(const std::string& text) {
    try {
        json::parse(text, "t.json");
    } catch (const error& e) {
        return e.what();
    }
    return "accepted";
}

TEST_CASE("every type of value, with its content") {
    const json::value v = json::parse(R"( {"o":{}, "a":[1,-2,3.5e2], "s":"x\ty", "t":true,)"
                                      R"( "f":false, "n":null, "":0} )");
    CHECK(v.type == json::type::object);
    REQUIRE(v.members.size() == 7);
    CHECK(v.members[0].key == "o");
    CHECK(v.members[6].key == "");
    CHECK(v.find("o")->members.empty());
    CHECK(v.find("a")->items.size() == 3);
    CHECK(v.find("a")->items[2].text == "3.5e2");
    CHECK(v.find("s")->text == "x\ty");
    CHECK(v.find("t")->boolean);
    CHECK_FALSE(v.find("f")->boolean);
    CHECK(v.find("n")->type == json::type::null);
    CHECK(v.find("not there") == nullptr);
}

TEST_CASE("numbers keep their text and convert exactly or not at all") {
    std::uint64_t u = 7;
    std::int64_t i = 7;
    double d = 7;
    CHECK(json::parse("18446744073709551615").to(u));
    CHECK(u == UINT64_MAX);
    CHECK_FALSE(json::parse("18446744073709551616").to(u));
    CHECK_FALSE(json::parse("18446744073709551615").to(i));
    CHECK(json::parse("-9223372036854775808").to(i));
    CHECK(i == INT64_MIN);
    for (const char* not_whole : {"16.0", "1e3", "-1", "-0", "\"1\"", "true", "null", "[1]"})
        CHECK_FALSE(json::parse(not_whole).to(u));
    CHECK(json::parse("9007199254740993").text == "9007199254740993"); // no double holds it
    CHECK(json::parse("0.1").to(d));
    CHECK(d == 0.1);
    CHECK(json::parse("-1.5E+2").to(d));
    CHECK(d == -150);
    CHECK_FALSE(json::parse("1e999").to(d));
}

TEST_CASE("escapes, pairs of surrogates and UTF-8 of 1 to 4 bytes") {
    CHECK(json::parse(R"("\"\\\/\b\f\n\r\t")").text == "\"\\/\b\f\n\r\t");
    CHECK(json::parse(R"("\u0041\u00e9\u20AC\ud83d\ude00")").text == "A\u00e9\u20ac\U0001F600");
    CHECK(json::parse("\"A\u00e9\u20ac\U0001F600\x7f\"").text == "A\u00e9\u20ac\U0001F600\x7f");
    CHECK(json::parse(R"("\u0000")").text == std::string(1, '\0'));
}

TEST_CASE("what is not JSON is refused") {
    for (const char* bad : {"",
                            " ",
                            "{",
                            "[",
                            "\"",
                            "{]",
                            "[1,]",
                            "{\"a\":1,}",
                            "{,}",
                            "[,1]",
                            "{a:1}",
                            "{\"a\"}",
                            "{\"a\" 1}",
                            "[1 2]",
                            "1 2",
                            "{}x",
                            "nul",
                            "nulll",
                            "True",
                            "+1",
                            "01",
                            "-",
                            "-a",
                            "1.",
                            ".5",
                            "1e",
                            "1e+",
                            "0x10",
                            "NaN",
                            "Infinity",
                            "'a'",
                            "\"\\x\"",
                            "\"\\u12\"",
                            "\"\\u12g4\"",
                            "\"\\u+123\"",
                            "\"\\ud800\"",
                            "\"\\ud800\\n\"",
                            "\"\\ud800\\u0041\"",
                            "\"\\udc00\"",
                            "\"a\nb\"",
                            "\"a\tb\"",
                            "// c\n1",
                            "\xef\xbb\xbf{}"})
        CHECK_MESSAGE(refusal(bad) != "accepted", bad);
    CHECK(refusal(std::string("{}\0", 3)) != "accepted");
    CHECK(refusal(std::string("\"\0\"", 3)) != "accepted");
    for (const char* good :
         {"0", "-0", "0.0", "1e0", " [ ] ", "{ }", "\"\"", "[[],{}]", "\t\r\n null"})
        CHECK_MESSAGE(refusal(good) == "accepted", good);
}

TEST_CASE("bad UTF-8 is refused in strings and replaced by the writer") {
    for (const char* bad :
         {"\xff", "\x80", "\xc0\xaf", "\xc1\x81", "\xc3", "\xe0\x80\x80", "\xe0\x9f\xbf",
          "\xed\xa0\x80", "\xed\xbf\xbf", "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
          "\xf5\x80\x80\x80", "\xf0\x9f\x98", "\xc3\x28"}) {
        CHECK_MESSAGE(refusal(std::string("\"") + bad + "\"") != "accepted", json::quote(bad));
        CHECK(json::parse(json::quote(bad)).text.substr(0, 3) == "\ufffd");
    }
    for (const char* good : {"\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                             "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
        CHECK(json::parse(std::string("\"") + good + "\"").text == good);
        CHECK(json::parse(json::quote(good)).text == good);
    }
}

TEST_CASE("a duplicate key is refused by name, at any depth, however it is spelled") {
    CHECK(refusal(R"({"a":1,"b":2,"a":3})").find("the key \"a\" twice") != std::string::npos);
    CHECK(refusal(R"([{"x":{"a":1,"\u0061":2}}])").find("the key \"a\" twice") !=
          std::string::npos);
    CHECK(refusal(R"({"a":{"a":{"a":1}}})") == "accepted");
}

TEST_CASE("8 levels are read, 9 are refused, and 100,000 do not use up the stack") {
    const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
    CHECK(refusal(nested(8)) == "accepted");
    CHECK(refusal(nested(9)).find("more than 8 levels") != std::string::npos);
    CHECK(refusal(nested(100000)).find("at byte 8 ") != std::string::npos);
    std::string objects = "1";
    for (int i = 0; i < 9; ++i) objects = "{\"a\":" + objects + "}";
    CHECK(refusal(objects).find("more than 8 levels") != std::string::npos);
}

TEST_CASE("a refusal is one line with the name, the place, what was found and wanted") {
    CHECK(refusal("[1,\n x]") ==
          "t.json: at byte 5 of its JSON found \"x\", wanted a value; write the file anew");
    CHECK(refusal("{\"a\":") == "t.json: at byte 5 of its JSON found the end of the text, wanted a "
                                "value; write the file anew");
    CHECK(refusal("[1\n\n2]").find('\n') == std::string::npos);
}

TEST_CASE("every text cut short is refused") {
    const std::string whole = R"({"a":{"dtype":"F32","shape":[2,2],"x":[1.5e3,true,null]}})";
    CHECK(refusal(whole) == "accepted");
    for (std::size_t n = 0; n < whole.size(); ++n) CHECK(refusal(whole.substr(0, n)) != "accepted");
}

TEST_CASE("the writer's strings and numbers read back as they were") {
    std::string all;
    for (int c = 0; c < 128; ++c) all += char(c);
    CHECK(json::parse(json::quote(all)).text == all);
    CHECK(json::quote("a\"\\\n") == R"("a\"\\\u000a")");
    for (double x : {0.0, -0.0, 0.1, 1e300, 5e-324, 1.0 / 3}) {
        double back = 7;
        CHECK(json::parse(json::number(x)).to(back));
        CHECK(back == x);
    }
    CHECK(json::number(0.1f) == "0.1"); // shortest for its own type
    CHECK(json::number(std::numeric_limits<float>::infinity()) == "null");
    CHECK(json::number(std::numeric_limits<double>::quiet_NaN()) == "null");
}

TEST_CASE("members one at a time: as parse gives them, and lists have an end") {
    const auto walked = [](const std::string& text) -> std::string {
        std::string all;
        try {
            json::parse_members(text, "j", [&](const json::member& m) {
                all += m.key + '=' + m.value.text + join(m.value.items.size()) + ' ';
            });
        } catch (const error& e) {
            return e.what();
        }
        return all;
    };
    CHECK(walked("{}") == "");
    CHECK(walked(R"( {"b":"x","a":[1,2]} )") == "b=x0 a=2 ");
    CHECK(walked(R"({"a":1,"b":2,"a":3})").find("the key \"a\" twice") != std::string::npos);
    CHECK(walked("[]") ==
          "j: at byte 0 of its JSON found \"[\", wanted an object; write the file anew");
    CHECK(walked("{} x").find("wanted the end of the text") != std::string::npos);
    CHECK(walked("{\"a\":[[[[[[[1]]]]]]]}") == "a=1 "); // 8 levels
    CHECK(walked("{\"a\":[[[[[[[[1]]]]]]]]}").find("more than 8 levels") != std::string::npos);
    std::string list = "1";
    for (std::size_t i = 1; i < json::longest_list; ++i) list += ",1";
    CHECK(walked("{\"a\":[" + list + "]}") == "a=65536 ");
    CHECK(walked("{\"a\":[" + list + ",1]}").find("more than 65536 values in a list") !=
          std::string::npos);
    CHECK(json::parse("[" + list + ",1]").items.size() == 65537);
}
