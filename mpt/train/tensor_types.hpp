// SPDX-License-Identifier: MIT
/// @file tensor_types.hpp
/// Types and shapes of tensors in files, by the names that safetensors gives them.  tier 5, needs:
/// base/error.hpp numeric/bf16.hpp numeric/fp16.hpp numeric/fp8.hpp
///
/// Idea     A file names types by text; here is the list, with bits, and the C++ type of each that
///          mpt computes with. Sizes from a file are multiplied with a check: 2^64 can be passed.
/// Formula  bytes = product of the shape x bits / 8; the product of no sizes is 1
/// Breaks   F8_E4M3 is OCP's with NaN and no infinity (torch.float8_e4m3fn), as mpt's e4m3 is
/// Source   github.com/huggingface/safetensors, safetensors/src/tensor.rs (Dtype, its order)
/// See      safetensors.hpp (its user), tests/train/safetensors_test.cpp
#pragma once
#include "mpt/base/error.hpp"   // check, join
#include "mpt/numeric/bf16.hpp" // bf16
#include "mpt/numeric/fp16.hpp" // fp16
#include "mpt/numeric/fp8.hpp"  // e4m3, e5m2

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace mpt::safetensors {

struct dtype {
    const char* name;
    unsigned bits;
};
/// In the order in which a writer lays them down: wide ones first, so that all are aligned.
inline constexpr std::array<dtype, 22> dtypes{
    {{"U64", 64},    {"I64", 64},        {"F64", 64},        {"C64", 64},    {"F32", 32},
     {"U32", 32},    {"I32", 32},        {"BF16", 16},       {"F16", 16},    {"U16", 16},
     {"I16", 16},    {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"F8_E4M3", 8},
     {"F8_E5M2", 8}, {"I8", 8},          {"U8", 8},          {"F6_E3M2", 6}, {"F6_E2M3", 6},
     {"F4", 4},      {"BOOL", 8}}};

/// Place in `dtypes`, or dtypes.size() where there is no such type.
inline std::size_t find_dtype(std::string_view name) {
    std::size_t i = 0;
    while (i < dtypes.size() && name != dtypes[i].name) ++i;
    return i;
}

using shape = std::vector<std::uint64_t>; // outermost first; {} is one number

/// (2,3), as messages show it; of more than 16 sizes the first ones.
inline std::string to_string(const shape& dims) {
    std::string out = "(";
    for (std::size_t i = 0; i < dims.size() && i < 16; ++i) out += join(i ? "," : "", dims[i]);
    return out + (dims.size() > 16 ? ",...)" : ")");
}

/// Bytes of a tensor. Throws, with `name` in front, where 64 bits cannot count its bits or they do
/// not fill whole bytes.
inline std::uint64_t bytes_of(const std::string& name, const dtype& type, const shape& dims) {
    std::uint64_t n = 1;
    const auto times = [&](std::uint64_t d) {
        check(d == 0 || n <= std::numeric_limits<std::uint64_t>::max() / d, name, " of shape ",
              to_string(dims), " and type ", type.name, " passes 2^64 bits; write the file anew");
        n *= d;
    };
    for (const std::uint64_t d : dims) times(d);
    times(type.bits);
    check(n % 8 == 0, name, " of shape ", to_string(dims), " and type ", type.name, " has ", n,
          " bits, wanted a multiple of 8; pad it");
    return n / 8;
}

/// The name of a C++ type.
template <class T>
inline constexpr const char* name_of = nullptr;
template <>
inline constexpr const char* name_of<double> = "F64";
template <>
inline constexpr const char* name_of<float> = "F32";
template <>
inline constexpr const char* name_of<fp16> = "F16";
template <>
inline constexpr const char* name_of<bf16> = "BF16";
template <>
inline constexpr const char* name_of<e4m3> = "F8_E4M3";
template <>
inline constexpr const char* name_of<e5m2> = "F8_E5M2";
template <>
inline constexpr const char* name_of<std::int32_t> = "I32";
template <>
inline constexpr const char* name_of<std::uint8_t> = "U8";
template <>
inline constexpr const char* name_of<std::int8_t> = "I8";

} // namespace mpt::safetensors
