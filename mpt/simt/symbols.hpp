// SPDX-License-Identifier: MIT
/// @file symbols.hpp
/// What a running program knows of itself: shared arrays, functions, lines. tier 2, needs:
/// base/error.hpp
///
/// Idea     A `__shared__` array is a static thread_local of its kernel, and so a symbol of the ELF
///          file with offset, size and a name that holds the kernel's: `_ZZ<kernel>E<array>`.
///          File and line of an instruction come from the debug information; llvm-symbolizer
///          or addr2line reads it, where installed; else it is function+offset.
/// Costs    the symbol table is read once; a question for lines starts one process for all
/// Breaks   a stripped program has no arrays (refused); one that is not ELF is refused, too
/// Source   System V ABI, ELF-64 object files; ELF handling for thread-local storage (Drepper 2013)
/// See      memcheck.hpp, report.hpp, tests/simt/faults.cpp
#pragma once
#include "mpt/base/error.hpp" // check, join

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <cxxabi.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

namespace mpt::simt {

inline std::string demangled(const std::string& name) {
    int failed = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &failed), &std::free);
    return failed == 0 ? text.get() : name;
}

struct symbol {
    std::uintptr_t at = 0; // offset in the thread's block, or address as the file has it
    std::size_t size = 0;  // bytes
    std::string name;      // mangled
};

struct source_place {
    std::string function, file; // demangled; "" where unknown
    int line = 0;
};

/// "f(int) in a.cpp:12", or "f(int)+0x1c" without debug information.
inline std::string as_text(const source_place& p) {
    return p.line > 0 ? p.function + " in " + p.file + ":" + std::to_string(p.line) : p.function;
}

class program {
public:
    static const program& self() {
        static const program p;
        return p;
    }

    /// Static shared arrays of all kernels, ascending; `at` is relative to thread_block().
    const std::vector<symbol>& shared_arrays() const { return shared_; }
    /// Every other thread_local of the program.
    const std::vector<symbol>& thread_locals() const { return own_; }
    std::size_t thread_block_bytes() const { return block_bytes_; }

    /// Where the calling thread's copy of the program's thread_locals begins.
    static std::uintptr_t thread_block() {
        std::uintptr_t begin = 0;
        dl_iterate_phdr( // the program itself comes first
            [](dl_phdr_info* info, std::size_t, void* result) {
                *static_cast<std::uintptr_t*>(result) =
                    reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data);
                return 1;
            },
            &begin);
        return begin;
    }

    /// The function that holds an address of the running program; nullptr where none does.
    const symbol* function_at(std::uintptr_t pc) const {
        const std::uintptr_t at = pc - load_;
        auto after = std::upper_bound(functions_.begin(), functions_.end(), at,
                                      [](std::uintptr_t x, const symbol& s) { return x < s.at; });
        if (after == functions_.begin()) return nullptr;
        --after;
        return at - after->at < std::max<std::size_t>(after->size, 1) ? &*after : nullptr;
    }

    /// Memory of the running program that nobody can write: constants.
    bool constant(std::uintptr_t at) const {
        for (const auto& [begin, end] : constants_)
            if (at - load_ >= begin && at - load_ < end) return true;
        return false;
    }

    /// Does shared array `array` belong to the function with this mangled name?
    static bool belongs(const symbol& array, const std::string& function) {
        return function.size() > 2 &&
               array.name.compare(3, function.size() - 1, function.substr(2) + "E") == 0;
    }

    /// Lines of instructions, named by the addresses behind their calls. Frames of the emulator
    /// that were inlined into a kernel are passed over.
    std::vector<source_place> places(const std::vector<std::uintptr_t>& pcs) const {
        std::string asked;
        for (const std::uintptr_t pc : pcs)
            if (!known_.count(pc)) {
                std::ostringstream s;
                s << " 0x" << std::hex << pc - 1 - load_; // the call itself, not what follows it
                asked += s.str();
                known_[pc] = by_symbol(pc);
            }
        if (!asked.empty()) ask(asked);
        std::vector<source_place> found;
        for (const std::uintptr_t pc : pcs) found.push_back(known_[pc]);
        return found;
    }
    source_place place(std::uintptr_t pc) const { return places({pc})[0]; }

private:
    program() {
        dl_iterate_phdr(
            [](dl_phdr_info* info, std::size_t, void* self) {
                static_cast<program*>(self)->load_ = info->dlpi_addr;
                return 1;
            },
            this);
        std::ifstream file("/proc/self/exe", std::ios::binary);
        std::string bytes;
        std::vector<char> piece(1 << 20);
        while (file.read(piece.data(), std::streamsize(piece.size())) || file.gcount() > 0)
            bytes.append(piece.data(), std::size_t(file.gcount()));
        check(bytes.size() > sizeof(Elf64_Ehdr) && bytes.compare(0, 4, ELFMAG) == 0 &&
                  bytes[EI_CLASS] == ELFCLASS64,
              "simt: the checks read the program's symbols, and this is no 64-bit ELF file; build ",
              "without MPT_SIMT_CHECK");
        read(bytes);
    }

    void read(const std::string& bytes) {
        const auto* head = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
        const auto* programs = reinterpret_cast<const Elf64_Phdr*>(bytes.data() + head->e_phoff);
        for (int i = 0; i < head->e_phnum; ++i) {
            const Elf64_Phdr& p = programs[i];
            if (p.p_type == PT_TLS) block_bytes_ = p.p_memsz;
            if ((p.p_type == PT_LOAD && !(p.p_flags & PF_W)) || p.p_type == PT_GNU_RELRO)
                constants_.emplace_back(p.p_vaddr, p.p_vaddr + p.p_memsz);
        }
        const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + head->e_shoff);
        bool any = false;
        for (int i = 0; i < head->e_shnum; ++i) {
            if (sections[i].sh_type != SHT_SYMTAB) continue;
            any = true;
            const auto* s =
                reinterpret_cast<const Elf64_Sym*>(bytes.data() + sections[i].sh_offset);
            const char* names = bytes.data() + sections[sections[i].sh_link].sh_offset;
            for (std::size_t k = 0; k < sections[i].sh_size / sizeof *s; ++k) take(s[k], names);
        }
        check(any, "simt: the program was stripped; the checks need its symbol table");
        for (auto* list : {&shared_, &own_, &functions_})
            std::sort(list->begin(), list->end(),
                      [](const symbol& a, const symbol& b) { return a.at < b.at; });
    }

    void take(const Elf64_Sym& s, const char* names) {
        if (s.st_shndx == SHN_UNDEF) return;
        const symbol found{s.st_value, s.st_size, names + s.st_name};
        const int type = ELF64_ST_TYPE(s.st_info);
        if (type == STT_FUNC) functions_.push_back(found);
        if (type != STT_TLS) return;
        // _ZZ: a static of a function; of the emulator's own functions it is no shared array
        const bool shared =
            found.name.rfind("_ZZ", 0) == 0 && found.name.rfind("_ZZN3mpt4simt", 0) != 0;
        (shared ? shared_ : own_).push_back(found);
    }

    source_place by_symbol(std::uintptr_t pc) const {
        source_place p;
        std::ostringstream s;
        if (const symbol* f = function_at(pc - 1))
            s << demangled(f->name) << "+0x" << std::hex << pc - load_ - f->at;
        else
            s << "0x" << std::hex << pc;
        p.function = s.str();
        return p;
    }

    // Of the frames at one address, the innermost comes first: take the first that is no part of
    // the emulator or of the standard library.
    void ask(const std::string& addresses) const {
        static const char* const reader = [] { // the second does not find all lines of clang++'s
            const auto there = [](const char* program) {
                return std::system(join("command -v ", program, " >/dev/null 2>&1").c_str()) == 0;
            };
            return there("llvm-symbolizer") ? "llvm-symbolizer -aCfi --output-style=GNU -e"
                   : there("addr2line")     ? "addr2line -aCfi -e"
                                            : nullptr;
        }();
        if (!reader) return;
        const std::string command = std::string(reader) + " /proc/" + std::to_string(getpid()) +
                                    "/exe" + addresses + " 2>/dev/null";
        FILE* pipe = popen(command.c_str(), "r");
        if (!pipe) return;
        std::string text;
        char piece[4096];
        while (const std::size_t n = std::fread(piece, 1, sizeof piece, pipe))
            text.append(piece, n);
        pclose(pipe);

        std::istringstream lines(text);
        std::string line, at;
        std::uintptr_t pc = 0;
        bool found = false;
        while (std::getline(lines, line)) {
            if (line.rfind("0x", 0) == 0) {
                pc = std::uintptr_t(std::strtoull(line.c_str(), nullptr, 16)) + 1 + load_;
                found = false;
                continue;
            }
            if (!std::getline(lines, at)) break;
            const std::size_t colon = at.rfind(':');
            if (found || colon == std::string::npos || at[0] == '?') continue;
            const std::string file = at.substr(0, colon);
            const int number = std::atoi(at.c_str() + colon + 1);
            if (number == 0) continue;
            const bool inside = file.find("mpt/simt/") != std::string::npos ||
                                file.find("/include/c++/") != std::string::npos;
            found = !inside;
            if (inside && known_[pc].line > 0) continue; // only better than nothing
            known_[pc] = {line, file, number};
        }
    }

    std::uintptr_t load_ = 0; // where the file's address 0 lies
    std::size_t block_bytes_ = 0;
    std::vector<symbol> shared_, own_, functions_;
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> constants_; // as the file has them
    mutable std::map<std::uintptr_t, source_place> known_;
};

} // namespace mpt::simt
