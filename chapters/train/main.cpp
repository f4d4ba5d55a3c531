// SPDX-License-Identifier: MIT
// main.cpp -- `./run train`: one translation unit a precision and machine does the work.
#include "options.hpp"

#include "mpt/base/error.hpp"
#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

#include <cstdio>
#include <exception>

namespace mpt {
struct kernel_ops;
}
extern template int train<float>(const options&);
extern template int train<mpt::fp16>(const options&);
extern template int train<mpt::bf16>(const options&);
extern template int train_on_device<float, mpt::kernel_ops>(const options&);
extern template int train_on_device<mpt::fp16, mpt::kernel_ops>(const options&);
extern template int train_on_device<mpt::bf16, mpt::kernel_ops>(const options&);

#if !defined(MPT_TRAIN_CUDA)
int train_on_cuda(const options&) {
    throw mpt::error("--device cuda: this program was built without CUDA; build with "
                     "-DMPT_CUDA=ON where nvcc is, or use --device cpu");
}
#endif

// f(T()) with the weights' type of the precision.
template <class F>
static int with_weights(const options& o, F f) {
    if (o.precision == "fp16") return f(mpt::fp16());
    if (o.precision == "bf16") return f(mpt::bf16());
    return f(0.0f); // fp32, and tf32: fp32 with rounded operands in products
}

int main(int argc, char** argv) {
    options o;
    try {
        o = parse_train(argc, argv);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train: %s\n", e.what());
        return 2;
    }
    try {
        if (o.device == "cuda") return train_on_cuda(o);
        if (o.device == "emulator")
            return with_weights(
                o, [&]<class T>(T) { return train_on_device<T, mpt::kernel_ops>(o); });
        return with_weights(o, [&]<class T>(T) { return train<T>(o); });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train: %s\n", e.what());
        return 1;
    }
}
