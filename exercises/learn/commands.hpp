// SPDX-License-Identifier: MIT
// commands.hpp -- what the two programs have in common: wrong usage is one line and status 2, what
// goes wrong later one line and status 1.
#pragma once
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>

/// Runs the commands asked for; an exit status where there was nothing to run, or wrong usage.
inline std::optional<int> parse(CLI::App& app, const std::string& name, int count,
                                char** argument) {
    try {
        app.parse(count, argument);
        return {};
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        std::fprintf(stderr, "%s: %s; './run %s --help' lists the commands\n", name.c_str(),
                     e.what(), name.c_str());
        return 2;
    }
}

template <class Run>
int guarded(Run run) {
    try {
        return run();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
