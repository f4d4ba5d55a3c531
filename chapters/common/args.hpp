// SPDX-License-Identifier: MIT
// args.hpp -- a chapter's flags: --help lists them; what is wrong is one line and status 2, what
// fails later is one line and status 1.
#pragma once
#include "mpt/base/error.hpp" // check, error

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

class arguments {
public:
    // name: "01_step", as in `./run chapter 01_step`. about: what --help says first.
    arguments(int argc, char** argv, std::string name, std::string about)
        : argc_(argc), argv_(argv), name_(std::move(name)),
          app_(std::move(about), "./run chapter " + name_) {
        app_.get_formatter()->column_width(30);
    }

    // A flag that is there or not.
    void add(const std::string& flag, bool& on, const std::string& text) {
        app_.add_flag(flag, on, text);
    }
    // One of a few words.
    void add(const std::string& flag, std::string& value, const std::string& text,
             const std::vector<std::string>& words) {
        app_.add_option(flag, value, text)->check(CLI::IsMember(words))->capture_default_str();
    }
    // One of a few words; the flag alone means `alone`.
    void add(const std::string& flag, std::string& value, const std::string& text,
             const std::string& alone, const std::vector<std::string>& words) {
        app_.add_option(flag, value, text)
            ->expected(0, 1)
            ->default_str(alone)
            ->check(CLI::IsMember(words));
    }
    // Any text; without `shown` --help says no default.
    void add(const std::string& flag, std::string& value, const std::string& text,
             bool shown = false) {
        CLI::Option* const o = app_.add_option(flag, value, text);
        if (shown) o->capture_default_str();
        checks_.push_back([=, &value] { // e.g. an empty variable of a script
            mpt::check(o->count() == 0 || !value.empty(), flag, ": wanted a text, found none");
        });
    }
    // A number from `least` on.
    template <class Number>
    void add(const std::string& flag, Number& value, const std::string& text, double least,
             double most = 1e300) {
        app_.add_option(flag, value, text)->capture_default_str();
        checks_.push_back([=, &value] {
            mpt::check(double(value) >= least && double(value) <= most, flag, ' ', value,
                       ": wanted ", digits(least),
                       most < 1e300 ? " to " + digits(most) : std::string(" or more"));
        });
    }
    // The flags of every training run.
    void add_threads(int& threads) {
        threads = int(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
        add("--threads", threads, "threads; the numbers do not depend on it", 1, 1024);
    }
    void add_data(std::string& path) {
        add("--data", path, "a text file; without: the corpus that comes with mpt");
    }

    // Read the command line, then body(), whose result is the exit status.
    template <class Body>
    int run(Body body) {
        try {
            app_.parse(argc_, argv_);
            for (const auto& c : checks_) c();
        } catch (const CLI::ParseError& e) {
            if (e.get_exit_code() == 0) return app_.exit(e); // --help
            const std::string all = e.what();
            return fail(2, all.substr(0, all.find('\n')) + "; --help lists the flags");
        } catch (const std::exception& e) {
            return fail(2, e.what());
        }
        try {
            return body();
        } catch (const std::exception& e) {
            std::fflush(stdout);
            return fail(1, e.what());
        }
    }

private:
    static std::string digits(double x) { // 1048576, not 1.04858e+06
        return x == std::floor(x) && std::abs(x) < 1e15 ? std::to_string((long long)(x))
                                                        : mpt::join(x);
    }
    int fail(int status, const std::string& text) const {
        std::fprintf(stderr, "%s: %s\n", name_.c_str(), text.c_str());
        return status;
    }

    int argc_;
    char** argv_;
    std::string name_;
    CLI::App app_;
    std::vector<std::function<void()>> checks_;
};
