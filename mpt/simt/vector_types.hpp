// SPDX-License-Identifier: MIT
/// @file vector_types.hpp
/// dim3, float4 and their kin.                                             tier 2, needs: std only
///
/// Idea     A thread that loads float4 moves 16 bytes with one instruction, if the address is a
///          multiple of 16. Kernels also use these types to move other elements (uint4: 8 halves),
///          so they may alias anything, as nvcc has it: else g++ reorders such copies.
/// Breaks   a float4 read at an address that is no multiple of 16
/// See      intrinsics.hpp, tests/simt/words_test.cpp
#pragma once
namespace mpt::simt {

struct uint3 {
    unsigned x, y, z;
};
/// Sizes of a grid or a block; what is not given is 1.
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

struct int3 {
    int x, y, z;
};
struct float3 {
    float x, y, z;
};
// A checked build sees each copy as one access of all bytes, as it is one instruction of a GPU; the
// compiler would take it apart, or make it a call of memcpy.
#if defined(MPT_SIMT_CHECK)
using bytes8 = unsigned long long __attribute__((may_alias));
using bytes16 = unsigned __attribute__((vector_size(16), may_alias));
#define MPT_SIMT_WHOLE(T, bytes)                                                                   \
    T() = default;                                                                                 \
    __attribute__((always_inline)) T(const T& from) { *this = from; }                              \
    __attribute__((always_inline)) T& operator=(const T& from) {                                   \
        *reinterpret_cast<bytes*>(this) = *reinterpret_cast<const bytes*>(&from);                  \
        return *this;                                                                              \
    }
#define MPT_SIMT_TWO(T, bytes, element)                                                            \
    MPT_SIMT_WHOLE(T, bytes)                                                                       \
    T(element x_, element y_) : x(x_), y(y_) {}
#define MPT_SIMT_FOUR(T, element)                                                                  \
    MPT_SIMT_WHOLE(T, bytes16)                                                                     \
    T(element x_, element y_, element z_, element w_) : x(x_), y(y_), z(z_), w(w_) {}
#else
#define MPT_SIMT_TWO(T, bytes, element)
#define MPT_SIMT_FOUR(T, element)
#endif

struct __attribute__((may_alias, aligned(8))) int2 {
    int x, y;
    MPT_SIMT_TWO(int2, bytes8, int)
};
struct __attribute__((may_alias, aligned(16))) int4 {
    int x, y, z, w;
    MPT_SIMT_FOUR(int4, int)
};
struct __attribute__((may_alias, aligned(8))) uint2 {
    unsigned x, y;
    MPT_SIMT_TWO(uint2, bytes8, unsigned)
};
struct __attribute__((may_alias, aligned(16))) uint4 {
    unsigned x, y, z, w;
    MPT_SIMT_FOUR(uint4, unsigned)
};
struct __attribute__((may_alias, aligned(8))) float2 {
    float x, y;
    MPT_SIMT_TWO(float2, bytes8, float)
};
struct __attribute__((may_alias, aligned(16))) float4 {
    float x, y, z, w;
    MPT_SIMT_FOUR(float4, float)
};
struct __attribute__((may_alias, aligned(16))) double2 {
    double x, y;
    MPT_SIMT_TWO(double2, bytes16, double)
};
struct __attribute__((may_alias, aligned(16))) longlong2 {
    long long x, y;
    MPT_SIMT_TWO(longlong2, bytes16, long long)
};
struct __attribute__((may_alias, aligned(16))) ulonglong2 {
    unsigned long long x, y;
    MPT_SIMT_TWO(ulonglong2, bytes16, unsigned long long)
};
struct __attribute__((may_alias, aligned(4))) uchar4 {
    unsigned char x, y, z, w;
};
struct __attribute__((may_alias, aligned(4))) ushort2 {
    unsigned short x, y;
};
struct __attribute__((may_alias, aligned(8))) ushort4 {
    unsigned short x, y, z, w;
};

#if defined(MPT_SIMT_CHECK)
#undef MPT_SIMT_WHOLE
#endif
#undef MPT_SIMT_TWO
#undef MPT_SIMT_FOUR

inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) {
    return {x, y, z, w};
}
inline ushort2 make_ushort2(unsigned short x, unsigned short y) { return {x, y}; }
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z,
                            unsigned short w) {
    return {x, y, z, w};
}

} // namespace mpt::simt
