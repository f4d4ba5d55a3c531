// SPDX-License-Identifier: MIT
// main.cpp -- `./run train`: one translation unit a precision does the work.
#include "options.hpp"

#include "mpt/base/error.hpp"
#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

#include <cstdio>
#include <exception>

extern template int train<float>(const options&);
extern template int train<mpt::fp16>(const options&);
extern template int train<mpt::bf16>(const options&);

int main(int argc, char** argv) {
    options o;
    try {
        o = parse_train(argc, argv);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train: %s\n", e.what());
        return 2;
    }
    try {
        if (o.precision == "fp16") return train<mpt::fp16>(o);
        if (o.precision == "bf16") return train<mpt::bf16>(o);
        return train<float>(o); // fp32, and tf32: fp32 with rounded operands in products
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train: %s\n", e.what());
        return 1;
    }
}
