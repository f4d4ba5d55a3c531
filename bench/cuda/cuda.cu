// SPDX-License-Identifier: MIT
// cuda.cu -- the kernels on a GPU: what is bound by memory against a device copy, products against
// cuBLAS, attention against the form that stores all probabilities. ./run bench --device cuda
#include "attention.cuh"
#include "cublas.cuh"
#include "passes.cuh"
#include "products.cuh"
#include "step.cuh"

namespace {

constexpr const char* about =
    "Casts, AdamW, layer norm, softmax and cross-entropy against a copy from device to device of\n"
    "as many bytes; matrix products against cuBLAS; attention against cuBLAS with a softmax\n"
    "between; the whole step of GPT-2 124M against the rate of cuBLAS's products. Times are\n"
    "between events of one stream. Each result is looked at before its time.";

constexpr int no_device = 3; // exit status, as that of ./run: something needed is missing

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "cuda", about, bench::on::gpu);
    const std::string missing = mpt::kernels::device_missing();
    if (!missing.empty()) {
        std::fprintf(stderr,
                     "bench cuda: no GPU can be used (%s); './run bench' measures the CPU\n",
                     missing.c_str());
        return no_device;
    }
    return bench::guarded("cuda", [&] {
        bench::gpu g;
        bench::table table(o, "cuda", mpt::kernels::device_name(),
                           [&](const bench::side& s, int times) { return g.seconds(s, times); });
        bench::bench_passes(table, g, o);
        bench::bench_products(table, g, o);
        bench::bench_attentions(table, g, o);
        bench::bench_cublas(table, g, o);
        bench::bench_step(table, g, o);
    });
}
