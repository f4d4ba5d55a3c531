// SPDX-License-Identifier: MIT
// inspect.cpp -- `./run inspect FILE|FOLDER`: what is in a file of tensors, a model or tokens of
// llm.c, or a checkpoint; or the one line that says why it cannot be used, and status 1.
#include "run_folder.hpp"

#include "mpt/numeric/fp8.hpp"
#include "mpt/train/data.hpp"        // gpt2_tokens, read_token_file
#include "mpt/train/llmc_gpt2.hpp"   // read_llmc_header, llmc_arrays
#include "mpt/train/safetensors.hpp" // reader

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

// Least, largest and mean of what is finite, and how many are not.
struct range {
    double least = INFINITY, largest = -INFINITY, sum = 0;
    std::uint64_t finite = 0, others = 0;
    void add(double x) {
        if (!std::isfinite(x)) {
            ++others;
            return;
        }
        least = std::min(least, x), largest = std::max(largest, x), sum += x, ++finite;
    }
};

template <class T>
void add_all(range& r, const std::vector<std::byte>& bytes) {
    for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
        T x;
        std::memcpy(&x, &bytes[i], sizeof x);
        if constexpr (requires { mpt::widen(x); })
            r.add(double(mpt::widen(x)));
        else
            r.add(double(x));
    }
}
// False for types that mpt does not compute with.
bool add_all(range& r, const std::string& type, const std::vector<std::byte>& bytes) {
    if (type == "F64")
        add_all<double>(r, bytes);
    else if (type == "F32")
        add_all<float>(r, bytes);
    else if (type == "F16")
        add_all<mpt::fp16>(r, bytes);
    else if (type == "BF16")
        add_all<mpt::bf16>(r, bytes);
    else if (type == "F8_E4M3")
        add_all<mpt::e4m3>(r, bytes);
    else if (type == "F8_E5M2")
        add_all<mpt::e5m2>(r, bytes);
    else if (type == "I64")
        add_all<std::int64_t>(r, bytes);
    else if (type == "U64")
        add_all<std::uint64_t>(r, bytes);
    else if (type == "I32")
        add_all<std::int32_t>(r, bytes);
    else if (type == "U32")
        add_all<std::uint32_t>(r, bytes);
    else if (type == "I16")
        add_all<std::int16_t>(r, bytes);
    else if (type == "U16")
        add_all<std::uint16_t>(r, bytes);
    else if (type == "I8")
        add_all<std::int8_t>(r, bytes);
    else if (type == "U8" || type == "BOOL")
        add_all<std::uint8_t>(r, bytes);
    else
        return false;
    return true;
}

// A text from a file, as it may stand on a terminal: control characters are escaped.
std::string shown(const std::string& text) {
    const std::string quoted = mpt::json::quote(text);
    return quoted.substr(1, quoted.size() - 2);
}

// A row of the table; 1 MiB at a time.
void row(const mpt::input_file& file, const std::string& name, const std::string& type,
         const mpt::safetensors::shape& shape, std::uint64_t begin, std::uint64_t bytes) {
    range r;
    bool known = true;
    std::vector<std::byte> part(std::size_t(std::min<std::uint64_t>(bytes, 1 << 20)));
    for (std::uint64_t at = 0; at < bytes && known; at += part.size()) {
        part.resize(std::size_t(std::min<std::uint64_t>(part.size(), bytes - at)));
        file.read(begin + at, part);
        known = add_all(r, type, part);
    }
    std::printf("%-32s %-8s %-16s", shown(name).c_str(), type.c_str(),
                mpt::safetensors::to_string(shape).c_str());
    if (r.finite)
        std::printf(" %11.4g %11.4g %11.4g %9llu\n", r.least, r.largest, r.sum / double(r.finite),
                    static_cast<unsigned long long>(r.others));
    else
        std::printf(" %11s %11s %11s %9s\n", "-", "-", "-",
                    known ? std::to_string(r.others).c_str() : "-");
}
void heading() {
    std::printf("%-32s %-8s %-16s %11s %11s %11s %9s\n", "tensor", "type", "shape", "least",
                "largest", "mean", "not finite");
}

void show_safetensors(const std::string& path, const std::string& kind) {
    const mpt::safetensors::reader file(path, kind);
    std::uint64_t elements = 0, bytes = 0;
    for (const auto& t : file.tensors()) {
        std::uint64_t n = 1;
        for (const std::uint64_t d : t.shape) n *= d;
        elements += n, bytes += t.bytes();
    }
    std::printf("%s: safetensors, %zu tensors, %llu elements, %llu bytes\n", path.c_str(),
                file.tensors().size(), static_cast<unsigned long long>(elements),
                static_cast<unsigned long long>(bytes));
    for (const auto& [key, value] : file.metadata())
        std::printf("  %s = %s\n", shown(key).c_str(), shown(value).c_str());
    heading();
    for (const auto& t : file.tensors())
        row(file.file, t.name, t.dtype, t.shape, file.head.data + t.begin, t.bytes());
}

void show_llmc_model(const std::string& path) {
    const mpt::input_file file("weights", path);
    const mpt::llmc_header h = mpt::read_llmc_header(file);
    std::printf("%s: GPT-2 of llm.c, %s: %d layers, %d heads, %d channels, context %d, vocabulary "
                "%d padded to %d\n",
                path.c_str(), h.bf16 ? "version 5 (bf16)" : "version 3 (fp32)", h.sizes.layers,
                h.sizes.heads, h.sizes.channels, h.sizes.context, h.sizes.vocabulary, h.padded);
    heading();
    for (const mpt::llmc_array& a : mpt::llmc_arrays(h))
        row(file, a.name, h.bf16 ? "BF16" : "F32", a.shape, a.begin, a.elements * h.size());
}

void show_tokens(const std::string& path) {
    const mpt::input_file file("data", path);
    mpt::token_data data;
    mpt::read_token_file(file, data);
    std::printf("%s: GPT-2 tokens of llm.c, version 1: %zu tokens\n", path.c_str(),
                data.tokens.size());
    heading();
    row(file, "tokens", "U16", {data.tokens.size()}, mpt::token_header, 2 * data.tokens.size());
}

// Every file is found whole before a word of it is shown.
void show_checkpoint(const mpt::checkpoint& c) {
    std::printf("%s: checkpoint after step %llu, whole\n", c.folder.c_str(),
                static_cast<unsigned long long>(c.list.step));
    for (const auto& f : c.list.files)
        std::printf("  %-24s %14llu bytes, CRC-32C %s\n", f.name.c_str(),
                    static_cast<unsigned long long>(f.bytes), mpt::hex8(f.crc).c_str());
    for (const auto& [key, value] : c.list.state)
        std::printf("  %s = %s\n", shown(key).c_str(), shown(value).c_str());
    for (const auto& f : c.list.files)
        if (f.name.ends_with(".safetensors"))
            show_safetensors(c.folder + '/' + f.name, "checkpoint");
}

void show(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    std::error_code none;
    if (fs::is_directory(path, none)) {
        const bool of_all = fs::exists(path + "/latest", none); // a run's folder of checkpoints
        show_checkpoint(of_all ? mpt::newest_checkpoint(path) : find_checkpoint(path));
        return;
    }
    mpt::check(fs::path(path).filename() != "manifest.json", "file ", path,
               ": is a checkpoint's list of files, wanted its folder; leave out /manifest.json");
    std::int32_t first = 0;
    {
        const mpt::input_file file("file", path);
        if (file.size() >= 4) file.read(0, std::as_writable_bytes(std::span(&first, 1)));
    }
    if (first == mpt::llmc_model)
        show_llmc_model(path);
    else if (first == mpt::gpt2_tokens || path.ends_with(".bin"))
        show_tokens(path);
    else
        show_safetensors(path, "safetensors");
}

} // namespace

int main(int argc, char** argv) {
    std::string path;
    CLI::App app("Names, types, shapes and ranges of a safetensors file, a model or tokens of "
                 "llm.c, or a checkpoint, which is verified; or why it is refused, and status 1.",
                 "./run inspect");
    app.add_option("PATH", path, "a file, or the folder of a run or of a checkpoint")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        const std::string all = e.what();
        std::fprintf(stderr, "inspect: %s; ./run inspect --help tells more\n",
                     all.substr(0, all.find('\n')).c_str());
        return 2;
    }
    try {
        show(path);
        return 0;
    } catch (const std::exception& e) {
        std::fflush(stdout);
        std::fprintf(stderr, "inspect: %s\n", e.what());
        return 1;
    }
}
