// SPDX-License-Identifier: MIT
// fused_problems.hpp -- logits with their targets, and a branch with its residual stream: what the
// fused kernels of a step are measured on, and how their results are judged.
#pragma once
#include "bigrams.hpp" // array, halves, same_bits
#include "device.hpp"  // random_numbers

#include "mpt/kernels/cross_entropy.cuh" // cross_entropy, cross_entropy_forward, ..._backward
#include "mpt/kernels/dropout.cuh"       // dropout, dropout_args

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

struct logits {
    static constexpr float seed = 1024;
    int R, V;
    std::vector<float> host;
    array<float> x, y, p, dx; // logits; in place: then their gradients; probabilities; gradients
    array<float> losses, losses_too, lse;
    array<int> targets;

    logits(int rows, int words)
        : R(rows), V(words), host(random_numbers(std::size_t(R) * std::size_t(V), false)), x(host),
          y(host), p(host.size()), dx(host.size()), losses(std::size_t(R)),
          losses_too(std::size_t(R)), lse(std::size_t(R)), targets(some_words(R, V)) {}

    void fused() const { // in place
        cross_entropy<float>(
            {losses.data(), lse.data(), y.data(), targets.data(), seed, nullptr, R, V}, nullptr);
    }
    // Has fused(), once, left the bits of forward and backward?
    bool as_forward_and_backward() const {
        cross_entropy_forward<float>(
            {losses_too.data(), lse.data(), x.data(), targets.data(), R, V}, nullptr);
        cross_entropy_backward<float>(
            {dx.data(), x.data(), lse.data(), targets.data(), seed, nullptr, R, V}, nullptr);
        return same_bits(y.read(), dx.read()) && same_bits(losses.read(), losses_too.read());
    }
    // Is dx, by way of the probabilities p, the fused gradient to rounding? Each rounds x - lse,
    // e^ of it, a sum of V numbers and its rescaling (as in chapter 15), then - 1 and the product.
    bool near(const std::vector<float>& fused_gradient) const {
        const std::vector<float> apart = dx.read(), share = p.read();
        for (std::size_t i = 0; i < apart.size(); ++i) {
            const double bound = (double(share[i]) * (6. * V + 64) + 2) * 0x1p-24 * double(seed);
            if (!(std::abs(double(apart[i]) - double(fused_gradient[i])) <= 2 * bound))
                return false;
        }
        return true;
    }

private:
    static std::vector<int> some_words(int rows, int words) {
        std::vector<int> w;
        for (int r = 0; r < rows; ++r) w.push_back(7 * r % words);
        return w;
    }
};

struct residual_stream {
    std::size_t n;
    std::vector<float> host;
    std::vector<__half> straight, side;
    array<__half> x, branch, dropped, out, out_too;

    explicit residual_stream(std::size_t elements)
        : n(elements), host(random_numbers(2 * n, false)),
          straight(halves({host.begin(), host.begin() + long(n)}, 1)),
          side(halves({host.begin() + long(n), host.end()}, 1)), x(straight), branch(side),
          dropped(n), out(n), out_too(n) {}

    // How many of out and of out_too are not the fp16 number nearest to x + dropout(branch)?
    std::pair<std::size_t, std::size_t> not_nearest(const dropout_args& drop, int samples) const {
        std::vector<float> widened;
        for (const __half h : side) widened.push_back(__half2float(h));
        const array<float> wide(widened); // the same mask, in fp32
        dropout(wide.data(), wide.data(), drop, samples, n / std::size_t(samples), nullptr);
        const std::vector<float> d = wide.read();
        const std::vector<__half> one = out.read(), two = out_too.read();
        std::pair<std::size_t, std::size_t> off{0, 0};
        for (std::size_t i = 0; i < n; ++i) {
            const float nearest = __half2float(__float2half(__half2float(straight[i]) + d[i]));
            off.first += __half2float(one[i]) != nearest;
            off.second += __half2float(two[i]) != nearest;
        }
        return off;
    }
};
