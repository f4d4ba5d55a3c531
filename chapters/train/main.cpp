// SPDX-License-Identifier: MIT
// main.cpp -- `./run train`: one translation unit a precision and machine does the work.
#include "options.hpp"

#include "mpt/base/error.hpp"
#include "mpt/comm/world.hpp" // run_ranks, communicator
#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

#include <cstdio>
#include <exception>

namespace mpt {
struct kernel_ops;
}
using mpt::communicator, mpt::kernel_ops;
extern template int train<float>(const options&, communicator&);
extern template int train<mpt::fp16>(const options&, communicator&);
extern template int train<mpt::bf16>(const options&, communicator&);
extern template int train_on_device<float, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::fp16, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::bf16, kernel_ops>(const options&, communicator&);

#if !defined(MPT_TRAIN_CUDA)
int train_on_cuda(const options&, communicator&) {
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

// The run of one rank.
static int train_rank(const options& o, communicator& comm) {
    if (o.device == "cuda") return train_on_cuda(o, comm);
    return with_weights(o, [&]<class T>(T) {
        return o.device == "emulator" ? train_on_device<T, kernel_ops>(o, comm) : train<T>(o, comm);
    });
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
        int status = 0; // the same on all ranks
        mpt::run_ranks(o.ranks, [&](communicator& comm) {
            const int mine = train_rank(o, comm);
            if (comm.rank() == 0) status = mine;
        });
        return status;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train: %s\n", e.what());
        return 1;
    }
}
