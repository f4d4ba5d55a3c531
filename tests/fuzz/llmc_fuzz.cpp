// SPDX-License-Identifier: MIT
// What the reader of llm.c's models accepts has exactly the bytes that its sizes need.
#include "memory_file.hpp"

#include "mpt/train/llmc_gpt2.hpp" // read_llmc_header

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const mpt::llmc_header h = mpt::read_llmc_header(memory_file{{data, size}});
        std::uint64_t end = 1024;
        for (const mpt::llmc_array& a : mpt::llmc_arrays(h)) {
            if (a.begin != end) std::abort();
            end += a.elements * h.size();
        }
        if (end != size) std::abort();
    } catch (const mpt::error& e) {
        if (std::string(e.what()).find('\n') != std::string::npos) std::abort();
    }
    return 0;
}
