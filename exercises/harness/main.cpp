// SPDX-License-Identifier: MIT
// main.cpp -- the program of every grader.
//
//   GRADER                      all parts, told on stdout; status 1 where one failed
//   GRADER --list               points and name of each part, a line each
//   GRADER --part K --fd F --nonce N
//                               one part; the verdict goes to file descriptor F as one line of JSON
//   --seed S                    numbers to try; without it new ones, and they are printed
//   --parameter NAME=VALUE      what goes with the student
#include "grade.hpp"

#include "mpt/base/json_write.hpp" // quote

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>

#include <unistd.h>

namespace {

std::unique_ptr<grade::numbers> now;
std::map<std::string, long> given;

std::uint64_t fresh_seed() {
    std::random_device device;
    return (std::uint64_t(device()) << 32) ^ device();
}

std::string field(const char* name, const std::string& value) {
    return value.empty() ? "" : mpt::join(",\"", name, "\":", mpt::json::quote(value));
}

// One part, and what came of it as the inside of a JSON object.
std::string verdict(const grade::part& p, std::size_t number, std::uint64_t seed, bool& right) {
    now = std::make_unique<grade::numbers>(seed + 0x9E3779B97F4A7C15u * number);
    right = false;
    try {
        p.run();
        right = true;
        return "\"status\":\"right\"";
    } catch (const grade::wrong& w) {
        return "\"status\":\"wrong\"" + field("what", w.what_is) + field("where", w.where) +
               field("found", w.found) + field("expected", w.expected) +
               field("tolerance", w.tolerance) + field("why", w.why);
    } catch (const exercise::todo& t) {
        return "\"status\":\"todo\"" + field("what", t.what());
    } catch (const std::exception& e) {
        return "\"status\":\"error\"" + field("what", e.what());
    } catch (...) {
        return "\"status\":\"error\"" + field("what", "something that is no std::exception");
    }
}

[[noreturn]] void usage(const std::string& what) {
    std::fprintf(stderr, "grader: %s; its options are in exercises/harness/main.cpp\n",
                 what.c_str());
    std::exit(2);
}

} // namespace

namespace grade {
numbers& any() { return *now; }
std::vector<part>& parts() {
    static std::vector<part> all;
    return all;
}
} // namespace grade

long exercise::parameter(const char* name) {
    const auto found = given.find(name);
    mpt::check(found != given.end(), "parameter ", name, ": was not given; pass --parameter ", name,
               "=VALUE");
    return found->second;
}

int main(int count, char** argument) {
    std::uint64_t seed = fresh_seed();
    long only = -1, fd = -1;
    std::string nonce;
    bool list = false;
    for (int i = 1; i < count; ++i) {
        const std::string word = argument[i];
        if (word == "--list") {
            list = true;
            continue;
        }
        if (i + 1 == count) usage(word + " without a value");
        const std::string value = argument[++i];
        char* end = nullptr;
        if (word == "--nonce") {
            nonce = value;
        } else if (word == "--parameter") {
            const std::size_t at = value.find('=');
            if (at == std::string::npos) usage(word + ' ' + value);
            given[value.substr(0, at)] = std::strtol(value.c_str() + at + 1, &end, 10);
            if (*end) usage(word + ' ' + value);
        } else if (word == "--seed") {
            seed = std::strtoull(value.c_str(), &end, 0);
            if (*end) usage(word + ' ' + value);
        } else if (word == "--part" || word == "--fd") {
            (word == "--part" ? only : fd) = std::strtol(value.c_str(), &end, 10);
            if (*end) usage(word + ' ' + value);
        } else {
            usage(word);
        }
    }
    const auto& all = grade::parts();
    if (list) {
        for (const grade::part& p : all) std::printf("%d %s\n", p.points, p.name);
        return 0;
    }
    if (only >= 0) {
        if (std::size_t(only) >= all.size()) usage("no part " + std::to_string(only));
        bool right = false;
        const std::string said = verdict(all[std::size_t(only)], std::size_t(only), seed, right);
        const std::string line = "{\"nonce\":" + mpt::json::quote(nonce) + "," + said + "}\n";
        if (fd >= 0 && write(int(fd), line.data(), line.size()) != ssize_t(line.size())) return 3;
        return right ? 0 : 1;
    }
    int failed = 0;
    std::printf("seed 0x%llx\n", static_cast<unsigned long long>(seed));
    for (std::size_t k = 0; k < all.size(); ++k) {
        bool right = false;
        const std::string said = verdict(all[k], k, seed, right);
        std::printf("%-5s %2d  %s%s%s\n", right ? "right" : "wrong", all[k].points, all[k].name,
                    right ? "" : "\n      ", right ? "" : said.c_str());
        failed += right ? 0 : 1;
    }
    return failed ? 1 : 0;
}
