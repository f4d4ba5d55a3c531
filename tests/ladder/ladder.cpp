// SPDX-License-Identifier: MIT
#include "ladder.hpp"
#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

namespace ladder {

template <class T>
outcome train_as(communicator& comm, const trial& j, account* told); // fp32.cpp, fp16.cpp, bf16.cpp

outcome train(communicator& comm, const trial& j, account* told) {
    switch (j.type) {
    case precision::fp32:
        return train_as<float>(comm, j, told);
    case precision::fp16:
        return train_as<fp16>(comm, j, told);
    default:
        return train_as<bf16>(comm, j, told);
    }
}

std::string to_string(const trial& j) {
    constexpr const char* rules[] = {"adamw", "adam8bit", "lamb"};
    constexpr const char* types[] = {"fp32", "fp16", "bf16"};
    return join(types[int(j.type)], j.mlp ? " mlp" : " gpt", ", zero", j.stage, ", reduce ",
                mpt::to_string(j.mode), ", ", j.micros, " micro-batches, ", rules[int(j.optimizer)],
                ", again ", j.again, ", dropout ", j.dropout, ", ahead ", j.ahead, ", sabotage ",
                int(j.wrong));
}

} // namespace ladder
