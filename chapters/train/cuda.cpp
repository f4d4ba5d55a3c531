// SPDX-License-Identifier: MIT
// cuda.cpp -- the one function that the library of `--device cuda` shows. The kernels' list has the
// same names there and on the emulator, and other code: so it is a library, and hides all others.
#include "options.hpp"

#include "mpt/base/error.hpp"
#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

namespace mpt {
struct kernel_ops;
struct cublas_ops;
}
using mpt::communicator, mpt::kernel_ops, mpt::cublas_ops;
extern template int train_on_device<float, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::fp16, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::bf16, kernel_ops>(const options&, communicator&);
#if defined(MPT_HAS_CUBLAS)
extern template int train_on_device<float, cublas_ops>(const options&, communicator&);
extern template int train_on_device<mpt::fp16, cublas_ops>(const options&, communicator&);
extern template int train_on_device<mpt::bf16, cublas_ops>(const options&, communicator&);
#endif

template <class Ops>
static int train_by(const options& o, communicator& comm) {
    if (o.precision == "fp16") return train_on_device<mpt::fp16, Ops>(o, comm);
    if (o.precision == "bf16") return train_on_device<mpt::bf16, Ops>(o, comm);
    return train_on_device<float, Ops>(o, comm);
}

// Products by cuBLAS where it was found, unless somebody wants otherwise.
__attribute__((visibility("default"))) int train_on_cuda(const options& o, communicator& comm) {
#if defined(MPT_HAS_CUBLAS)
    if (o.products != "kernels") return train_by<cublas_ops>(o, comm);
#else
    mpt::check(o.products != "cublas", "--products cublas: this program was built without cuBLAS, "
               "which was not beside nvcc; install it and build again, or use --products kernels");
#endif
    return train_by<kernel_ops>(o, comm);
}
