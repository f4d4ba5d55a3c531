// SPDX-License-Identifier: MIT
#include "args.hpp"

#include "mpt/base/error.hpp" // check, join

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <thread>

namespace {

std::string digits(double x) { // 1048576, not 1.04858e+06
    return x == std::floor(x) && std::abs(x) < 1e15 ? std::to_string((long long)(x)) : mpt::join(x);
}

} // namespace

arguments::arguments(int argc, char** argv, std::string name, std::string about)
    : argc_(argc), argv_(argv), name_(std::move(name)),
      app_(std::make_unique<CLI::App>(std::move(about), "./run chapter " + name_)) {
    app_->get_formatter()->column_width(30);
}
arguments::~arguments() = default;

void arguments::add(const std::string& flag, bool& on, const std::string& text) {
    app_->add_flag(flag, on, text);
}

void arguments::add(const std::string& flag, std::string& value, const std::string& text,
                    const std::vector<std::string>& words) {
    app_->add_option(flag, value, text)->check(CLI::IsMember(words))->capture_default_str();
}

void arguments::add(const std::string& flag, std::string& value, const std::string& text,
                    const std::string& alone, const std::vector<std::string>& words) {
    app_->add_option(flag, value, text)
        ->expected(0, 1)
        ->default_str(alone)
        ->check(CLI::IsMember(words));
}

void arguments::add(const std::string& flag, std::string& value, const std::string& text,
                    bool shown) {
    CLI::Option* const o = app_->add_option(flag, value, text);
    if (shown) o->capture_default_str();
    checks_.push_back([=, &value] { // e.g. an empty variable of a script
        mpt::check(o->count() == 0 || !value.empty(), flag, ": wanted a text, found none");
    });
}

template <class Number>
void arguments::add(const std::string& flag, Number& value, const std::string& text, double least,
                    double most) {
    app_->add_option(flag, value, text)->capture_default_str();
    checks_.push_back([=, &value] {
        mpt::check(double(value) >= least && double(value) <= most, flag, ' ', value, ": wanted ",
                   digits(least), most < 1e300 ? " to " + digits(most) : std::string(" or more"));
    });
}
#define MPT_NUMBER(T)                                                                              \
    template void arguments::add(const std::string&, T&, const std::string&, double, double);
MPT_NUMBER(int)
MPT_NUMBER(long)
MPT_NUMBER(unsigned)
MPT_NUMBER(std::size_t)
MPT_NUMBER(float)
MPT_NUMBER(double)

void arguments::add_threads(int& threads) {
    threads = int(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
    add("--threads", threads, "threads; the numbers do not depend on it", 1, 1024);
}

void arguments::add_data(std::string& path) {
    add("--data", path, "a text file; without: the corpus that comes with mpt");
}

int arguments::run(const std::function<int()>& body) {
    try {
        app_->parse(argc_, argv_);
        for (const auto& c : checks_) c();
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app_->exit(e); // --help
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

int arguments::fail(int status, const std::string& text) const {
    std::fprintf(stderr, "%s: %s\n", name_.c_str(), text.c_str());
    return status;
}
