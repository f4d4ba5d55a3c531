// SPDX-License-Identifier: MIT
// What a safetensors reader has to check before it trusts a header: chapter 12.
//
// A header names each tensor with its shape and the bytes that it lies in. Sorted by where they
// begin, tensors have to follow one another without hole and overlap, from 0 to the end of the
// data; each has to have as many bytes as its shape says, computed without overflow: a product of
// 64-bit numbers from a file may be anything.
#include "exercise.hpp"

#include <algorithm>
#include <stdexcept>

void check_layout(std::vector<tensor> tensors, std::uint64_t data) {
    std::sort(tensors.begin(), tensors.end(), [](const tensor& a, const tensor& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    std::uint64_t at = 0; // where the next one has to begin
    for (const tensor& t : tensors) {
        //< check: order, length, overflow, about 12 lines
        if (t.begin > at) throw std::runtime_error(t.name + ": hole before it");
        if (t.begin < at) throw std::runtime_error(t.name + ": overlap with the one before");
        std::uint64_t bits = t.bits;
        for (const std::uint64_t n : t.shape)
            if (__builtin_mul_overflow(bits, n, &bits))
                throw std::runtime_error(t.name + ": overflow in its shape");
        if (bits % 8 != 0 || t.end < t.begin || t.end - t.begin != bits / 8)
            throw std::runtime_error(t.name + ": length is not that of its shape");
        at = t.end;
        //> throw exercise::todo("check");
    }
    //< end: one line
    if (at != data) throw std::runtime_error("bytes left, or too few, behind the last tensor");
    //> throw exercise::todo("end");
}
