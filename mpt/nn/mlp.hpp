// SPDX-License-Identifier: MIT
/// @file mlp.hpp
/// Layers of neurons one behind the other: the smallest model that trains. tier 4, needs:
/// base/memory.hpp nn/params.hpp nn/shapes.hpp nn/strategy.hpp numeric/scalar.hpp
///
/// Idea     What gpt.hpp does, with nothing but linear layers and gelu between them: features in,
///          logits of classes out, cross-entropy. A unit a layer. Chapters that are about the step
///          and not about attention use it.
/// Formula  x_0 = features;  z_i+1 = x_i W_i^T + b_i;  x_i = gelu(z_i);  logits = z_last
///          parameters: sum over layers of in * out + out
/// Costs    kept a row: s (2 * hidden widths + classes + features) + w * 2
/// See      gpt.hpp, chapters/01_step.cpp, tests/nn/mlp_test.cpp
#pragma once
#include "mpt/base/memory.hpp"    // buffer, memory
#include "mpt/nn/params.hpp"      // layout
#include "mpt/nn/shapes.hpp"      // linear_shape
#include "mpt/nn/strategy.hpp"    // strategy: acquire, release, collect, ready
#include "mpt/numeric/scalar.hpp" // wide_t

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mpt {

/// What forward keeps, and the two gradients that backward passes along.
template <class T>
struct mlp_acts {
    int rows;

    /// widths: features, hidden layers, classes.
    mlp_acts(memory& mem, const std::vector<int>& widths, int rows)
        : rows(rows), losses(mem, kind::activations, std::size_t(rows), "losses"),
          lse(mem, kind::activations, std::size_t(rows), "log of the sum of exp") {
        std::size_t widest = 0;
        for (std::size_t i = 0; i < widths.size(); ++i) {
            const std::size_t size = std::size_t(rows) * std::size_t(widths[i]);
            x.emplace_back(mem, kind::activations, i + 1 < widths.size() ? size : 0, "activations");
            z.emplace_back(mem, kind::activations, i > 0 ? size : 0, "activations");
            widest = std::max(widest, size);
        }
        for (buffer<T>& d : dx) d = buffer<T>(mem, kind::temp, widest, "gradients of activations");
    }

    std::vector<buffer<T>> x;      // (rows,width) x[0]: features; x[i]: gelu(z[i]), but the last
    std::vector<buffer<T>> z;      // (rows,width) before gelu; the last: logits, then dlogits
    buffer<wide_t<T>> losses, lse; // (rows)
    buffer<T> dx[2];               // (rows,widest)
};

template <class T, class Ops>
class mlp {
public:
    /// widths: features, hidden layers, classes; at least features and classes.
    mlp(std::vector<int> widths, Ops& operations)
        : widths(std::move(widths)), ops(operations), map(make_layout(this->widths)) {}

    const std::vector<int> widths;
    Ops& ops;
    const layout map; // tensors 2 i and 2 i + 1: weight (out, in) and bias of layer i

    /// The sum of the losses of `targets` (rows), class numbers; acts.x[0] holds the features.
    double forward(strategy<T>& s, device_span<const T> weights, device_span<const int> targets,
                   mlp_acts<T>& acts) {
        for (int i = 0; i < layers(); ++i) {
            const auto w = s.acquire(weights, i);
            ops.linear_forward(acts.z[std::size_t(i) + 1].span(), acts.x[std::size_t(i)].span(),
                               view(map, w, 2 * i), view(map, w, 2 * i + 1), shape(i, acts.rows));
            if (i + 1 < layers())
                ops.gelu_forward(acts.x[std::size_t(i) + 1].span(),
                                 acts.z[std::size_t(i) + 1].span());
            s.release(i);
        }
        ops.cross_entropy_forward(acts.losses.span(), acts.lse.span(), acts.z.back().span(),
                                  targets, acts.rows, widths.back());
        return ops.sum(acts.losses.span());
    }

    /// Gradients of seed * (sum of losses), after forward. micro: the micro-batch's number.
    void backward(strategy<T>& s, device_span<const T> weights, device_span<const int> targets,
                  mlp_acts<T>& acts, float seed, gradients<T>& grads, int micro = 0) {
        device_span<T> dz = acts.z.back().span(); // (rows, out)
        ops.cross_entropy_backward(dz, dz, acts.lse.span(), targets, seed, acts.rows,
                                   widths.back());
        for (int i = layers() - 1; i >= 0; --i) {
            const auto w = s.acquire(weights, i);
            const device_span<T> d = s.collect(grads, i);
            const std::size_t size = std::size_t(acts.rows) * std::size_t(widths[std::size_t(i)]);
            const device_span<T> dx =
                i > 0 ? acts.dx[i % 2].span().first(size) : device_span<T>(); // (rows, in)
            ops.linear_backward(dx, view(map, d, 2 * i), view(map, d, 2 * i + 1), dz,
                                acts.x[std::size_t(i)].span(), view(map, w, 2 * i),
                                shape(i, acts.rows));
            if (i > 0) ops.gelu_backward(dx, dx, acts.z[std::size_t(i)].span());
            dz = dx;
            s.release(i);
            s.ready(grads, i, micro);
        }
    }

    int layers() const { return int(widths.size()) - 1; }

private:
    // Weights normal(0, 1 / sqrt(in)), so that a layer keeps the variance of what it is shown.
    static layout make_layout(const std::vector<int>& widths) {
        check(widths.size() >= 2, "mlp: ", widths.size(),
              " widths; give the features and the classes at least");
        layout map;
        for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
            check(widths[i] > 0 && widths[i + 1] > 0, "mlp: layer ", i, " of ", widths[i], " to ",
                  widths[i + 1], "; every width must be 1 or more");
            const std::string name = "layer." + std::to_string(i);
            const std::size_t in = std::size_t(widths[i]), out = std::size_t(widths[i + 1]);
            map.add_unit(name);
            map.add(name + ".weight", {out, in}, 1 / std::sqrt(float(in)));
            map.add(name + ".bias", {out}, 0);
        }
        return map;
    }
    linear_shape shape(int i, int rows) const {
        return {rows, widths[std::size_t(i)], widths[std::size_t(i) + 1]};
    }
};

} // namespace mpt
