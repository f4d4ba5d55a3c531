// SPDX-License-Identifier: MIT
// place_table.hpp -- what one rank has held on its device, on the host and in files, and what has
// crossed between them, measured beside formula.
#pragma once
#include "rank_table.hpp"

#include "mpt/base/ledger.hpp" // kind, place

#include <cstddef>
#include <cstdio>

namespace place_table {

// A row: measured and formula of every place, files where there are any; false where they differ.
template <class Of>
bool row(const char* name, bool files, Of of) {
    std::printf("  %-12s", name);
    bool same = true;
    for (int p = 0; p < (files ? mpt::places : mpt::places - 1); ++p) {
        const auto [measured, formula] = of(mpt::place(p));
        std::printf("%13zu%13zu", std::size_t(measured), std::size_t(formula));
        same = same && measured == formula;
    }
    std::printf("%s\n", same ? "" : "   differ");
    return same;
}

} // namespace place_table

/// Both tables on stdout. steps: how many the bytes that were moved are of. Is all as planned?
inline bool print_places(const rank_account& a, std::size_t steps) {
    using rank_table::pair;
    const bool files = a.held.total(mpt::place::file) + a.planned.total(mpt::place::file) > 0;
    std::printf("memory at its peak, bytes, ledger beside formula\n  %-12s%13s%13s%13s%13s", "kind",
                "device", "formula", "host", "formula");
    std::printf("%s\n", files ? "        files      formula" : "");
    bool same = true;
    for (int k = 0; k < mpt::kinds; ++k) {
        const auto both = [&](mpt::place p) {
            return pair(a.held.at(mpt::kind(k), p), a.planned.at(mpt::kind(k), p));
        };
        std::size_t in_use = 0;
        for (int p = 0; p < mpt::places; ++p)
            in_use += both(mpt::place(p)).first + both(mpt::place(p)).second;
        if (in_use) same &= place_table::row(to_string(mpt::kind(k)), files, both);
    }
    same &= place_table::row(
        "total", files, [&](mpt::place p) { return pair(a.held.total(p), a.planned.total(p)); });
    std::printf("bytes moved in %zu steps, counted beside formula\n", steps);
    const auto moves = [&](const char* name, std::size_t counted, std::size_t formula) {
        std::printf("  %-12s%13zu%13zu%s\n", name, counted, formula,
                    counted == formula ? "" : "   differ");
        same = same && counted == formula;
    };
    moves("from device", a.crossed.out, a.to_cross.out);
    moves("to device", a.crossed.in, a.to_cross.in);
    std::printf("measured and formula are %s\n", same ? "equal" : "DIFFERENT");
    return same;
}
