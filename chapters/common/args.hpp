// SPDX-License-Identifier: MIT
// args.hpp -- a chapter's flags: --help lists them; what is wrong is one line and status 2, what
// fails later is one line and status 1. args.cpp reads them and is compiled once for all chapters:
// CLI11 takes long.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

class arguments {
public:
    // name: "01_step", as in `./run chapter 01_step`. about: what --help says first.
    arguments(int argc, char** argv, std::string name, std::string about);
    ~arguments();

    // A flag that is there or not.
    void add(const std::string& flag, bool& on, const std::string& text);
    // One of a few words.
    void add(const std::string& flag, std::string& value, const std::string& text,
             const std::vector<std::string>& words);
    // One of a few words; the flag alone means `alone`.
    void add(const std::string& flag, std::string& value, const std::string& text,
             const std::string& alone, const std::vector<std::string>& words);
    // Any text; without `shown` --help says no default.
    void add(const std::string& flag, std::string& value, const std::string& text,
             bool shown = false);
    // A number from `least` on.
    template <class Number> // int, long, unsigned, std::size_t, float, double
    void add(const std::string& flag, Number& value, const std::string& text, double least,
             double most = 1e300);
    // The flags of every training run.
    void add_threads(int& threads);
    void add_data(std::string& path);

    // Read the command line, then body(), whose result is the exit status.
    int run(const std::function<int()>& body);

private:
    int fail(int status, const std::string& text) const;

    int argc_;
    char** argv_;
    std::string name_;
    std::unique_ptr<CLI::App> app_;
    std::vector<std::function<void()>> checks_;
};
