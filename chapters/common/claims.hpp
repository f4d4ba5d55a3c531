// SPDX-License-Identifier: MIT
// claims.hpp -- what a chapter proves, printed as it is found to hold or not.
#pragma once
#include <cstdio>
#include <string>

class claims {
public:
    // One line on stdout: "[holds] TEXT", or "[FAILS] TEXT", which makes status() 1.
    bool operator()(bool holds, const std::string& text) {
        std::printf("[%s] %s\n", holds ? "holds" : "FAILS", text.c_str());
        failed_ += !holds;
        return holds;
    }

    // The program's exit status: 0, or 1 where something did not hold.
    int status() const {
        std::fflush(stdout); // "above" is true of a pipe, too
        if (failed_) std::fprintf(stderr, "%d of the claims above failed\n", failed_);
        return failed_ ? 1 : 0;
    }

private:
    int failed_ = 0;
};
