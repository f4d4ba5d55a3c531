// SPDX-License-Identifier: MIT
// A reader that believes the length in a file's first byte: the flags must find it.
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const std::vector<std::uint8_t> bytes(data, data + size);
    unsigned sum = 0;
    for (std::size_t i = 0; i < bytes[0]; ++i) sum += bytes.data()[1 + i];
    volatile unsigned keep = sum;
    (void)keep;
    return 0;
}
