// SPDX-License-Identifier: MIT
/// @file report.hpp
/// What the checks found, in compute-sanitizer's words.                    tier 2, needs:
/// simt/hooks.hpp simt/memcheck.hpp simt/racecheck.hpp simt/symbols.hpp
///
/// Idea     While a kernel runs only numbers are noted, the same fault at the same line once with a
///          count; text, lines and names are made when the launch is over. A launch with findings
///          throws one error with at most 10 of them; under `collecting` it does not throw.
/// Source   NVIDIA Compute Sanitizer, user manual (the forms of the lines)
/// See      checks.hpp, tests/simt/faults.cpp
#pragma once
#include "mpt/simt/hooks.hpp"     // launch_info, place
#include "mpt/simt/memcheck.hpp"  // memory_space, as_hex
#include "mpt/simt/racecheck.hpp" // access_record
#include "mpt/simt/symbols.hpp"   // program, source_place

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace mpt::simt {

enum class fault { invalid, uninitialized, race };

/// One line of a kernel's source, by the address of an instruction or as the emulator was told.
struct code_place {
    std::uintptr_t pc = 0;
    place known; // where pc is 0

    bool operator==(const code_place& o) const {
        return pc == o.pc && known.file == o.known.file && known.line == o.known.line;
    }
};

/// What is noted in the middle of a kernel.
struct observation {
    fault what = fault::invalid;
    memory_space space = memory_space::global;
    code_place at, other;     // other: of a race, what came first
    access_record me, before; // threads and blocks
    std::uint32_t bytes = 0;
    std::uintptr_t address = 0;
    std::string trouble; // "is misaligned"
    unsigned long long count = 1;
};

struct finding {
    std::string check; // memcheck, initcheck, racecheck
    std::string text;  // lines
    std::string kernel;
    source_place at;
    unsigned long long count = 1; // that often
};

class report {
public:
    void begin() { seen_.clear(); }
    bool empty() const { return seen_.empty(); }

    void add(const observation& o) {
        for (observation& s : seen_)
            if (s.what == o.what && s.space == o.space && s.at == o.at && s.other == o.other &&
                s.me.write == o.me.write && s.before.write == o.before.write) {
                ++s.count;
                return;
            }
        seen_.push_back(o);
    }

    std::vector<finding> findings(const launch_info& launch) const {
        std::vector<std::uintptr_t> pcs; // all at once: each question starts a process
        for (const observation& o : seen_)
            for (const code_place* c : {&o.at, &o.other})
                if (c->pc) pcs.push_back(c->pc);
        program::self().places(pcs);
        std::vector<finding> all;
        for (const observation& o : seen_) all.push_back(in_words(o, launch));
        return all;
    }

    /// "kernel: 12 errors" and the first 10.
    static std::string in_words(const std::vector<finding>& all, const launch_info& launch) {
        std::ostringstream s;
        s << launch.kernel << ": " << all.size() << (all.size() == 1 ? " error" : " errors");
        std::size_t shown = 0;
        for (const finding& f : all) {
            if (++shown > 10) break;
            s << "\n" << f.text;
        }
        if (all.size() > 10) s << "\nand " << all.size() - 10 << " more";
        return s.str();
    }

    static source_place where(const code_place& c, const launch_info& launch) {
        if (c.pc) return program::self().place(c.pc);
        return {std::string(launch.kernel), c.known.file, int(c.known.line)};
    }

private:
    static std::string triple(std::uint32_t linear, const dim3& size) {
        std::ostringstream s;
        s << "(" << linear % size.x << "," << linear / size.x % size.y << ","
          << linear / size.x / size.y << ")";
        return s.str();
    }
    static std::string by(const access_record& a, const launch_info& l) {
        return "by thread " + triple(a.thread, l.block) + " in block " + triple(a.block, l.grid);
    }
    static finding in_words(const observation& o, const launch_info& l) {
        finding f;
        f.kernel = l.kernel;
        f.at = where(o.at, l);
        f.count = o.count;
        const std::string at = as_text(f.at), size = std::to_string(o.bytes) + " bytes";
        const auto way = [](const access_record& a) { return a.write ? "Write" : "Read"; };
        std::ostringstream s;
        if (o.what == fault::race) {
            f.check = "racecheck";
            s << "Race reported between " << way(o.me) << " access at " << at << "\n    and "
              << way(o.before) << " access at " << as_text(where(o.other, l)) << " [" << o.count
              << (o.count == 1 ? " hazard" : " hazards") << "]\n    on " << as_text(o.space)
              << " memory, " << as_hex(o.address) << ", " << by(o.me, l) << "\n    and "
              << by(o.before, l);
        } else if (o.what == fault::uninitialized) {
            f.check = "initcheck";
            s << "Uninitialized " << as_text(o.space) << " memory read of size " << size
              << "\n    at " << at << "\n    " << by(o.me, l) << "\n    Address "
              << as_hex(o.address);
        } else {
            f.check = "memcheck";
            s << "Invalid " << as_text(o.space) << (o.me.write ? " write" : " read") << " of size "
              << size << "\n    at " << at << "\n    " << by(o.me, l) << "\n    Address "
              << as_hex(o.address) << " " << o.trouble;
        }
        f.text = s.str();
        return f;
    }

    std::vector<observation> seen_;
};

/// While one lives, launches of checked builds do not throw what the checks find: it is here.
class collecting {
public:
    collecting() : outer_(now()) { now() = this; }
    ~collecting() { now() = outer_; }
    collecting(const collecting&) = delete;
    collecting& operator=(const collecting&) = delete;

    const std::vector<finding>& findings() const { return all_; }
    void clear() { all_.clear(); }
    void add(const std::vector<finding>& more) {
        all_.insert(all_.end(), more.begin(), more.end());
    }

    static collecting*& now() {
        static collecting* innermost = nullptr;
        return innermost;
    }

private:
    collecting* outer_;
    std::vector<finding> all_;
};

} // namespace mpt::simt
