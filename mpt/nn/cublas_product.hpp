// SPDX-License-Identifier: MIT
/// @file cublas_product.hpp
/// A matrix product as kernels/matmul.cuh's, by NVIDIA's library.          tier 4, needs:
/// base/error.hpp kernels/device.cuh kernels/matmul.cuh
///
/// Idea     cuBLASLt has hundreds of kernels. It is asked once for each kind of product (shape,
///          types, alignment) which of them is best, within limits that we set: the caller's
///          workspace, and no sum that is rounded to 16 bits on its way. It counts columns first:
///          row by row it is asked for c^T = b^T a^T.
/// Formula  c = round( a b + bias + c ), sums in fp32; fp32 stays fp32 unless tf32 is asked for
/// Costs    workspace_bytes() of the caller's; no device memory of our own, no wait: it may be
///          recorded. The library's code and tables (some 100 MB) are in nobody's ledger
/// Breaks   two streams with one workspace.  Operands taken to lie on 256 bytes, which is what the
///          library assumes where nobody says: it then picks a kernel that they break
/// Source   cuBLAS documentation, cublasLtMatmul, cublasSetWorkspace (sizes);
///          cublasLtReductionScheme_t in cublasLt.h
/// See      cublas.hpp (the list), cublas_fp8.hpp, tests/nn/cublas_product_test.cpp
#pragma once
#include "mpt/base/error.hpp"     // check
#include "mpt/kernels/device.cuh" // require
#include "mpt/kernels/matmul.cuh" // matmul_args, with_leading

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#ifdef MPT_HAS_CUBLAS // what CMake found: mpt::cublas sets it
#include <cublasLt.h>

namespace mpt {

/// What cuBLASLt's choice depends on. Equal kinds take the same kernel, so the same bits.
struct product_kind {
    cudaDataType_t a_type, b_type, c_type;
    int m, n, k, lda, ldb, ldc; // as in matmul_args
    bool a_transposed = false, b_transposed = false, accumulate = false, tf32 = false;
    bool scaled = false; // by places.a_scale and b_scale: fp8
    // bytes, 256 at most; of a bias 0: none. product() looks.
    unsigned a_aligned = 0, b_aligned = 0, c_aligned = 0, bias_aligned = 0;
    std::size_t workspace = 0; // bytes
    auto operator<=>(const product_kind&) const = default;
};

/// Where its numbers lie, on the device.
struct product_places {
    void* c;
    const void *a, *b, *bias = nullptr;
    const float *a_scale = nullptr, *b_scale = nullptr; // of fp8: a number is its code times this
};

template <class T> // CUDA's types, as kernels name them
inline constexpr cudaDataType_t blas_type = std::is_same_v<T, float>    ? CUDA_R_32F
                                            : std::is_same_v<T, __half> ? CUDA_R_16F
                                                                        : CUDA_R_16BF;

inline void require_blas(cublasStatus_t s, const char* call) {
    check(s == CUBLAS_STATUS_SUCCESS, "cuBLAS: ", call, ": ", cublasLtGetStatusString(s));
}

/// 90 is capability 9.0, of the current device.
inline int device_capability() {
    int device = 0, major = 0, minor = 0;
    kernels::require(cudaGetDevice(&device), "cudaGetDevice");
    kernels::require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                     "cudaDeviceGetAttribute");
    kernels::require(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                     "cudaDeviceGetAttribute");
    return 10 * major + minor;
}

/// "cuBLASLt 13.0.2"
inline std::string cublas_name() {
    const std::size_t v = cublasLtGetVersion(); // 130002, as cublas_api.h packs it
    return "cuBLASLt " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
}

/// The handle of the library, and what it has answered. One a device and host thread.
class cublas {
public:
    cublas() { require_blas(cublasLtCreate(&handle_), "cublasLtCreate"); }
    cublas(const cublas&) = delete;
    cublas& operator=(const cublas&) = delete;
    ~cublas() { cublasLtDestroy(handle_); }

    /// Bytes of workspace as NVIDIA recommends them, on the current device.
    static std::size_t workspace_bytes() {
        return std::size_t(device_capability() >= 90 ? 32 : 4) << 20;
    }

    /// The product is in the stream when this returns true. False: the library has no kernel for
    /// it, and nothing was done. workspace: so many bytes of the device's, aligned to 16.
    template <class T>
    bool product(kernels::matmul_args<T> x, void* workspace, std::size_t bytes, cudaStream_t s) {
        x = kernels::with_leading(x);
        const cudaDataType_t t = blas_type<T>;
        product_kind kind{t, t, t, x.m, x.n, x.k, x.lda, x.ldb, x.ldc};
        kind.a_transposed = x.a_transposed, kind.b_transposed = x.b_transposed;
        kind.accumulate = x.accumulate, kind.tf32 = x.tf32 && std::is_same_v<T, float>;
        return product(kind, {x.c, x.a, x.b, x.bias}, workspace, bytes, s);
    }

    /// Any types that it knows. The alignments are looked at here.
    bool product(product_kind kind, const product_places& at, void* workspace, std::size_t bytes,
                 cudaStream_t s) {
        if (kind.m == 0 || kind.n == 0) return true;
        if (kind.k == 0) return false; // a sum of nothing, which the library refuses
        kind.a_aligned = alignment(at.a), kind.b_aligned = alignment(at.b);
        kind.c_aligned = alignment(at.c), kind.bias_aligned = at.bias ? alignment(at.bias) : 0;
        kind.workspace = bytes;
        auto known = plans_.find(kind);
        if (known == plans_.end()) known = plans_.emplace(kind, ask(kind, at)).first;
        plan& p = known->second;
        if (!p.found) return false;
        point(p, at);
        const float one = 1, old = kind.accumulate ? 1.0f : 0.0f;
        const cublasStatus_t status =
            cublasLtMatmul(handle_, p.what.get(), &one, at.b, p.b.get(), at.a, p.a.get(), &old,
                           at.c, p.c.get(), at.c, p.c.get(), &p.algorithm, workspace, bytes, s);
        check(status == CUBLAS_STATUS_SUCCESS, "cuBLAS: product ", kind.m, " x ", kind.n, " x ",
              kind.k, ": ", cublasLtGetStatusString(status));
        return true;
    }

private:
    template <auto Destroy>
    struct destroyer {
        template <class X>
        void operator()(X* x) const {
            Destroy(x);
        }
    };
    using description =
        std::unique_ptr<cublasLtMatmulDescOpaque_t, destroyer<cublasLtMatmulDescDestroy>>;
    using layout =
        std::unique_ptr<cublasLtMatrixLayoutOpaque_t, destroyer<cublasLtMatrixLayoutDestroy>>;
    using preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                                       destroyer<cublasLtMatmulPreferenceDestroy>>;

    struct plan {
        description what;
        layout a, b, c;
        cublasLtMatmulAlgo_t algorithm{};
        bool found = false;
    };

    static unsigned alignment(const void* p) { // the power of two that it lies on
        const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(p) | 256;
        return unsigned(at & (~at + 1));
    }

    template <class V>
    static void set(plan& p, cublasLtMatmulDescAttributes_t what, const V& value) {
        require_blas(cublasLtMatmulDescSetAttribute(p.what.get(), what, &value, sizeof value),
                     "cublasLtMatmulDescSetAttribute");
    }
    template <class V>
    static void set(preference& p, cublasLtMatmulPreferenceAttributes_t what, V value) {
        require_blas(cublasLtMatmulPreferenceSetAttribute(p.get(), what, &value, sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
    }

    // What lies row by row as (rows,columns) is to the library (columns,rows).
    static layout laid(cudaDataType_t type, int rows, int columns, int ld) {
        cublasLtMatrixLayout_t made = nullptr;
        require_blas(cublasLtMatrixLayoutCreate(&made, type, std::uint64_t(columns),
                                                std::uint64_t(rows), ld),
                     "cublasLtMatrixLayoutCreate");
        return layout(made);
    }

    // What differs between two products of one kind. Our b is the library's first operand.
    static void point(plan& p, const product_places& at) {
        if (at.bias) set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
        if (!at.a_scale) return;
        set(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at.b_scale);
        set(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at.a_scale);
    }

    plan ask(const product_kind& x, const product_places& at) {
        plan p;
        cublasLtMatmulDesc_t made = nullptr;
        require_blas(
            cublasLtMatmulDescCreate(
                &made, x.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "cublasLtMatmulDescCreate");
        p.what.reset(made);
        const auto turned = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
        set(p, CUBLASLT_MATMUL_DESC_TRANSA, turned(x.b_transposed));
        set(p, CUBLASLT_MATMUL_DESC_TRANSB, turned(x.a_transposed));
        if (at.bias) set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        point(p, at);
        p.a = laid(x.a_type, x.a_transposed ? x.k : x.m, x.a_transposed ? x.m : x.k, x.lda);
        p.b = laid(x.b_type, x.b_transposed ? x.n : x.k, x.b_transposed ? x.k : x.n, x.ldb);
        p.c = laid(x.c_type, x.m, x.n, x.ldc);

        cublasLtMatmulPreference_t limits = nullptr;
        require_blas(cublasLtMatmulPreferenceCreate(&limits), "cublasLtMatmulPreferenceCreate");
        preference within(limits);
        set(within, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(x.workspace));
        // Parts of a sum meet in fp32 or not at all: the other ways round them to the type of c.
        set(within, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
        const std::uint32_t of_c =
            x.bias_aligned ? std::min(x.c_aligned, x.bias_aligned) : x.c_aligned;
        set(within, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t(x.b_aligned));
        set(within, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t(x.a_aligned));
        set(within, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c);
        set(within, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c);

        cublasLtMatmulHeuristicResult_t best{};
        int count = 0;
        const cublasStatus_t s =
            cublasLtMatmulAlgoGetHeuristic(handle_, p.what.get(), p.b.get(), p.a.get(), p.c.get(),
                                           p.c.get(), within.get(), 1, &best, &count);
        if (s != CUBLAS_STATUS_NOT_SUPPORTED) require_blas(s, "cublasLtMatmulAlgoGetHeuristic");
        p.found = s == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
        p.algorithm = best.algo;
        return p;
    }

    cublasLtHandle_t handle_ = nullptr;
    std::map<product_kind, plan> plans_;
};

} // namespace mpt
#endif
