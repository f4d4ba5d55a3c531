// SPDX-License-Identifier: MIT
/// @file cublas.hpp
/// The list of kernels with its matrix products by NVIDIA's library.       tier 4, needs:
/// nn/cublas_product.hpp nn/kernels.hpp
///
/// Idea     Nearly all of a step's arithmetic is in the products of its linear layers, and few
///          kernels for them are as fast as cuBLASLt's. This list is that of kernels.hpp but for
///          these: three a layer. A bias is added before the sum is rounded, as there; its gradient
///          stays with our kernel, whose blocks of rows bound the error.
/// Costs    product_bytes() of scratch, of the one region that all operations share
/// Breaks   comparing its bits with the other list's: sums are as right, and in another order
/// See      kernels.hpp, tests/nn/cublas_test.cpp, docs/performance.md (on a GPU)
#pragma once
#include "mpt/nn/cublas_product.hpp" // cublas, cublas_name
#include "mpt/nn/kernels.hpp"        // kernel_ops

#include <cstddef>
#include <string>

#ifdef MPT_HAS_CUBLAS
namespace mpt {

struct cublas_ops : kernel_ops {
    using kernel_ops::kernel_ops;

    template <class T>
    void linear_forward(device_span<T> y, device_view<T> x, device_view<T> w, device_view<T> bias,
                        linear_shape s) const {
        check_linear<T>(x, y, w, bias, s);
        run("linear_forward");
        multiply(forward_product<T>(y, x, w, bias, s));
    }
    template <class T>
    void linear_backward(device_span<T> dx, device_span<T> dw, device_span<T> dbias,
                         device_view<T> dy, device_view<T> x, device_view<T> w,
                         linear_shape s) const {
        check_linear<T>(x, dy, w, dbias, s);
        check_linear<T>(dx.empty() ? x : device_view<T>(dx), dy, dw, dbias, s);
        run("linear_backward");
        if (!dx.empty()) multiply(dx_product<T>(dx, dy, w, s));
        multiply(dw_product<T>(dw, dy, x, s));
        bias_gradient<T>(dbias, dy, s);
    }

    /// Who multiplies, for a start-up line; and the scratch that it wants.
    static std::string products() { return cublas_name(); }
    static std::size_t product_bytes() { return cublas::workspace_bytes(); }

private:
    // What the library has no kernel for, ours do; `ran` tells how often.
    template <class T>
    void multiply(const kernels::matmul_args<T>& x) const {
        const std::size_t bytes = product_bytes_;
        if (blas_.product(x, scratch(bytes), bytes, queue.work)) return run("product_by_cublas");
        run("product_by_kernel");
        kernels::matmul(x, queue.work);
    }

    std::size_t product_bytes_ = product_bytes(); // of the device that it was made on
    mutable cublas blas_;                         // learns kinds of products
};

} // namespace mpt
#endif
