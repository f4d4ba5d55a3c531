// SPDX-License-Identifier: MIT
// memory_file.hpp -- bytes that the readers take for a file: fuzzing needs no disk.
#pragma once
#include "mpt/base/error.hpp" // check

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

struct memory_file {
    std::span<const std::uint8_t> bytes;
    std::string called = "fuzz";

    const std::string& name() const { return called; }
    std::uint64_t size() const { return bytes.size(); }
    void read(std::uint64_t offset, std::span<std::byte> to) const {
        mpt::check(offset <= bytes.size() && to.size() <= bytes.size() - offset, "fuzz: ends at ",
                   bytes.size());
        if (!to.empty()) std::memcpy(to.data(), bytes.data() + offset, to.size());
    }
};
