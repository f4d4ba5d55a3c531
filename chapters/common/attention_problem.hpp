// SPDX-License-Identifier: MIT
// attention_problem.hpp -- queries, keys and values on the device, and attention over them.
#pragma once
#include "device.hpp"          // array, random_numbers, ok
#include "plain_attention.hpp" // attention_sizes

#include "mpt/kernels/attention_tiles.cuh" // attention_args

#include <cmath>
#include <cstddef>
#include <vector>

constexpr int D = 32; // head_dim

struct operands {
    std::vector<float> q, k, v, dout;
};
inline operands drawn(attention_sizes s) {
    const std::size_t queries = std::size_t(s.Tq * s.heads) * D;
    const std::size_t keys = std::size_t(s.Tk * s.kv_heads) * D;
    auto from = random_numbers(2 * (queries + keys), false);
    const auto next = [&](std::size_t n) {
        const std::vector<float> x(from.end() - long(n), from.end());
        return from.resize(from.size() - n), x;
    };
    return {next(queries), next(keys), next(keys), next(queries)};
}

struct on_device {
    attention_sizes is;
    array<float> q, k, v, out, lse;

    on_device(attention_sizes s, const operands& x)
        : is(s), q(x.q), k(x.k), v(x.v), out(x.q.size()), lse(std::size_t(s.heads * s.Tq)) {}
    attention_args<float> args() const {
        attention_args<float> x;
        x.q = q.data(), x.k = k.data(), x.v = v.data(), x.out = out.data(), x.lse = lse.data();
        x.B = 1, x.Tq = is.Tq, x.Tk = is.Tk;
        x.heads = is.heads, x.kv_heads = is.kv_heads, x.head_dim = D;
        x.q_stride = x.out_stride = std::size_t(is.heads) * D;
        x.kv_stride = std::size_t(is.kv_heads) * D;
        x.scale = 1 / std::sqrt(float(D));
        return x;
    }
};

struct answer {
    std::vector<float> out, lse;
    bool operator==(const answer& o) const { return out == o.out && lse == o.lse; }
};
template <class Run>
answer attend(attention_sizes s, const operands& x, Run run) {
    const on_device d(s, x);
    run(d.args());
    return {d.out.read(), d.lse.read()};
}

// Bytes of the device's memory that are taken.
inline std::size_t held() {
    std::size_t free = 0, total = 0;
    ok(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return total - free;
}
