// SPDX-License-Identifier: MIT
/// @file counting.hpp
/// Count what the launches of a while ask of the memory.                   tier 2, needs:
/// base/error.hpp simt/checks.hpp simt/counts.hpp simt/report.hpp
///
/// Idea     `counting c; launch<kernel>(...);` and then c.totals().global_load_sectors, or
///          c.table(): a row for each line of the kernel's source. In checked builds only.
/// Costs    a record of each access until its warp's request is whole, then a sort of its addresses
/// Breaks   two at one time: refused
/// See      counts.hpp (what is counted, and how), tests/simt/counts_test.cpp
#pragma once
#include "mpt/base/error.hpp"  // check
#include "mpt/simt/checks.hpp" // checker
#include "mpt/simt/counts.hpp" // access_counts, request_counter
#include "mpt/simt/report.hpp" // source_place, program

#include <cstdint>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace mpt::simt {

class counting {
public:
    counting() {
        check(!checks().counter, "counting: somebody counts already; one at a time");
        checks().counter = &counter_;
    }
    ~counting() { checks().counter = nullptr; }
    counting(const counting&) = delete;
    counting& operator=(const counting&) = delete;

    const access_counts& totals() const { return counter_.total; }
    void clear() { counter_ = {}; }

    struct line {
        source_place at;
        access_counts counts;
    };
    /// By file and line, what touches no memory and never diverges left out.
    std::vector<line> lines() const {
        std::vector<std::uintptr_t> pcs;
        for (const auto& [site, c] : counter_.by_instruction)
            if (const std::uintptr_t pc = checks().sites()[site].at.pc) pcs.push_back(pc);
        program::self().places(pcs);
        std::map<std::pair<std::string, int>, line> by;
        for (const auto& [site, c] : counter_.by_instruction) {
            const code_place& at = checks().sites()[site].at;
            const source_place p = at.pc ? program::self().place(at.pc)
                                         : source_place{"", at.known.file, int(at.known.line)};
            line& l = by[{p.file, p.line}];
            l.at = p;
            l.counts += c;
        }
        std::vector<line> all;
        for (auto& [key, l] : by) all.push_back(std::move(l));
        return all;
    }
    /// Requests and sectors of loads and stores, wavefronts and conflicts in shared memory,
    /// divergent branches.
    std::string table() const {
        std::ostringstream s;
        row(s, "line", "loads", "sectors", "stores", "sectors", "shared", "wavefronts", "conflicts",
            "atomics", "divergent");
        const auto counts = [&](const std::string& name, const access_counts& c) {
            row(s, name, c.global_load_requests, c.global_load_sectors, c.global_store_requests,
                c.global_store_sectors, c.shared_load_requests + c.shared_store_requests,
                c.shared_load_wavefronts + c.shared_store_wavefronts,
                c.shared_load_conflicts + c.shared_store_conflicts,
                c.global_atomic_requests + c.shared_atomic_requests, c.divergent_branches);
        };
        for (const line& l : lines()) {
            const std::string file = l.at.file.substr(l.at.file.rfind('/') + 1);
            counts(file + ":" + std::to_string(l.at.line), l.counts);
        }
        counts("all", totals());
        return s.str();
    }

private:
    template <class... Cells>
    static void row(std::ostringstream& s, const std::string& name, const Cells&... cells) {
        s << std::left << std::setw(28) << name << std::right;
        ((s << std::setw(11) << cells), ...);
        s << "\n";
    }

    request_counter counter_;
};

} // namespace mpt::simt
