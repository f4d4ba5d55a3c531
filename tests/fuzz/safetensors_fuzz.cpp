// SPDX-License-Identifier: MIT
// What the reader accepts is whole: its tensors tile the data, and each has the bytes of its shape.
#include "memory_file.hpp"

#include "mpt/train/safetensors.hpp" // read_header

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    namespace st = mpt::safetensors;
    const memory_file file{{data, size}};
    st::header h;
    try {
        h = st::read_header(file);
    } catch (const mpt::error& e) {
        if (std::string(e.what()).find('\n') != std::string::npos) std::abort(); // one line
        return 0;
    }
    std::uint64_t end = 0;
    for (const st::tensor& t : h.tensors) {
        if (t.begin != end || t.end < t.begin) std::abort();
        if (st::bytes_of("", st::dtypes[st::find_dtype(t.dtype)], t.shape) != t.bytes())
            std::abort();
        end = t.end;
    }
    if (h.data + end != size) std::abort();
    return 0;
}
