// SPDX-License-Identifier: MIT
/// @file autocast.hpp
/// Operations for a model in fp32, some of which run in 16 bits.           tier 4, needs:
/// base/memory.hpp nn/cast_operands.hpp nn/loops.hpp nn/params.hpp nn/precision_policy.hpp
/// nn/site_calls.hpp nn/weight_cache.hpp
///
/// Idea     The model's tensors lie in fp32. Where the policy says low, the operands are cast to
///          Low, Base's own operation on Low runs, and its result is widened back, which is exact.
///          Backward runs as forward did; a gradient has the type of its tensor, as in autograd.
///          Weights stay fp32: they are the optimizer's master copy themselves.
/// Formula  all-fp32 is gpt<float>, all-low is gpt<Low>, bit for bit, loss and gradients
/// Costs    memory: sizeof(Low) (room + cached weights).  compute: a read and a write a cast
/// Breaks   weights that change without weights_changed(): the model goes on with the old ones
/// Source   PyTorch, torch.amp.autocast; Micikevicius et al. 2018, arXiv:1710.03740, section 3.3
/// See      precision_policy.hpp, gpt_sites.hpp, tests/nn/autocast_test.cpp
#pragma once
#include "mpt/base/memory.hpp"         // buffer, memory
#include "mpt/nn/cast_operands.hpp"    // cast_operands: read, write, update, add, weight
#include "mpt/nn/loops.hpp"            // loops: the operations, and their shapes
#include "mpt/nn/params.hpp"           // layout
#include "mpt/nn/precision_policy.hpp" // precision_policy, site, operation, precision
#include "mpt/nn/site_calls.hpp"       // site_calls: forward, backward
#include "mpt/nn/weight_cache.hpp"     // weight_cache

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mpt {

/// A cast that the policy made necessary.
struct inserted_cast {
    std::string from, to; // sites, or a tensor of the weights and its first reader
    const char *was, *is; // formats
    std::size_t values;
    bool weight, backward; // kept until the weights change; of a gradient
    std::string text() const {
        return join(from, " -> ", to, ": ", values, backward ? " gradients, " : " values, ", was,
                    " to ", is, weight ? ", kept until the weights change" : "");
    }
};

template <class Low, class Base = loops>
class autocast : public Base {
    static_assert(std::is_same_v<wide_t<Low>, float>);
    using in = device_span<const float>;
    using out = device_span<float>;
    using ints = device_span<const int>;
    template <class T> // float or Low
    using operands = cast_operands<T, Low, Base>;

public:
    autocast(thread_pool& threads, memory& mem, std::size_t bytes_per_worker)
        : Base(threads, mem, bytes_per_worker), mem_(mem) {}

    /// Before the first call, and whenever the policy is to be another. sites, map: of the model
    /// that calls. room: elements of Low, as gpt_autocast_room() says.
    void use(const precision_policy& policy, std::vector<site> sites, const layout& map,
             std::size_t room) {
        runs_ = policy.resolve(sites);
        room_ = {}, weights_ = {}; // the old ones are given back first
        room_ = buffer<Low>(mem_, kind::temp, room, "operands in 16 bits");
        weights_ = weight_cache<Low>(mem_, sites, runs_, map);
        low_.assign(sites.size(), false);
        calls_ = site_calls(std::move(sites));
        made_.clear(), casts_.clear();
    }

    /// After each step of the optimizer.
    void weights_changed() { weights_.changed(); }

    const std::vector<site>& sites() const { return calls_.sites(); }
    /// Did the site run in Low, in the latest forward pass?
    bool ran_low(std::size_t site) const { return low_[site]; }
    /// The casts of the latest forward pass and of its backward, in their order.
    const std::vector<inserted_cast>& casts() const { return casts_; }

    /// If set: shown every site's result in forward, as fp32, as soon as it is there.
    std::function<void(std::size_t site, device_span<const float> y)> watch;

    // ---- the operations of loops.hpp. In forward: { activations }, { weights } ------------------
    void embedding_forward(out y, ints tokens, in wte, in wpe, embedding_shape s) {
        forward(operation::embedding, tokens.data(), {}, {wte, wpe}, y,
                [&]<class T>(operands<T>& o) {
                    base().template embedding_forward<T>(o.write(y), tokens, o.weight(0, wte),
                                                         o.weight(1, wpe), s);
                });
    }
    void embedding_backward(out dwte, out dwpe, in dy, ints tokens, embedding_shape s) {
        backward(operation::embedding, tokens.data(), dy, {}, {}, [&]<class T>(operands<T>& o) {
            base().template embedding_backward<T>(o.update(dwte), o.write(dwpe), o.read(dy), tokens,
                                                  s);
        });
    }
    void linear_forward(out y, in x, in w, in bias, linear_shape s) {
        forward(operation::linear, x.data(), {x}, {w, bias}, y, [&]<class T>(operands<T>& o) {
            base().template linear_forward<T>(o.write(y), o.read(x), o.weight(0, w),
                                              o.weight(1, bias), s);
        });
    }
    void linear_backward(out dx, out dw, out dbias, in dy, in x, in w, linear_shape s) {
        backward(operation::linear, x.data(), dy, dx, x, [&]<class T>(operands<T>& o) {
            base().template linear_backward<T>(o.write(dx), o.write(dw), o.write(dbias), o.read(dy),
                                               o.read(x), o.weight(0, w), s);
        });
    }
    void layernorm_forward(out y, out mean, out rstd, in x, in gamma, in beta, layernorm_shape s) {
        forward(operation::layernorm, x.data(), {x}, {gamma, beta}, y,
                [&]<class T>(operands<T>& o) {
                    base().template layernorm_forward<T>(o.write(y), mean, rstd, o.read(x),
                                                         o.weight(0, gamma), o.weight(1, beta), s);
                });
    }
    void layernorm_backward(out dx, out dgamma, out dbeta, in dy, in x, in gamma, in mean, in rstd,
                            layernorm_shape s, bool accumulate) {
        backward(operation::layernorm, x.data(), dy, dx, x, [&]<class T>(operands<T>& o) {
            // The gradient of an fp32 stream is not summed in Low.
            const bool apart = accumulate && !std::is_same_v<T, float> && !is_low(x);
            const device_span<T> d = apart ? o.add(dx) : accumulate ? o.update(dx) : o.write(dx);
            base().template layernorm_backward<T>(d, o.write(dgamma), o.write(dbeta), o.read(dy),
                                                  o.read(x), o.weight(0, gamma), mean, rstd, s,
                                                  accumulate && !apart);
        });
    }
    void attention_forward(out y, out lse, in qkv, attention_shape s, float p = 0,
                           dropout_key key = {}) {
        forward(operation::attention, qkv.data(), {qkv}, {}, y, [&]<class T>(operands<T>& o) {
            base().template attention_forward<T>(o.write(y), lse, o.read(qkv), s, p, key);
        });
    }
    void attention_backward(out dqkv, in dy, in qkv, in y, in lse, attention_shape s, float p = 0,
                            dropout_key key = {}) {
        backward(operation::attention, qkv.data(), dy, dqkv, qkv, [&]<class T>(operands<T>& o) {
            base().template attention_backward<T>(o.write(dqkv), o.read(dy), o.read(qkv), o.read(y),
                                                  lse, s, p, key);
        });
    }
    void gelu_forward(out y, in x) {
        forward(operation::gelu, x.data(), {x}, {}, y, [&]<class T>(operands<T>& o) {
            base().template gelu_forward<T>(o.write(y), o.read(x));
        });
    }
    void gelu_backward(out dx, in dy, in x) {
        backward(operation::gelu, x.data(), dy, dx, x, [&]<class T>(operands<T>& o) {
            base().template gelu_backward<T>(o.write(dx), o.read(dy), o.read(x));
        });
    }
    void dropout_forward(out y, in x, float p, dropout_key key, dropout_shape s) {
        forward(operation::dropout, number(key), {x}, {}, y, [&]<class T>(operands<T>& o) {
            base().template dropout_forward<T>(o.write(y), o.read(x), p, key, s);
        });
    }
    void residual_forward(out y, in x, in branch, float p, dropout_key key, dropout_shape s) {
        forward(operation::residual, number(key), {x, branch}, {}, y, [&]<class T>(operands<T>& o) {
            base().template residual_forward<T>(o.write(y), o.read(x), o.read(branch), p, key, s);
        });
    }
    void scaled_residual_forward(out y, in x, in branch, in alpha, float p, dropout_key key,
                                 dropout_shape s) {
        forward(operation::residual, number(key), {x, branch}, {alpha}, y,
                [&]<class T>(operands<T>& o) {
                    base().template scaled_residual_forward<T>(
                        o.write(y), o.read(x), o.read(branch), o.weight(0, alpha), p, key, s);
                });
    }
    void scaled_residual_backward(out dbranch, out dalpha, in dy, in branch, in alpha, float p,
                                  dropout_key key, dropout_shape s) {
        backward(operation::residual, number(key), dy, dbranch, branch,
                 [&]<class T>(operands<T>& o) {
                     base().template scaled_residual_backward<T>(o.write(dbranch), o.write(dalpha),
                                                                 o.read(dy), o.read(branch),
                                                                 o.weight(0, alpha), p, key, s);
                 });
    }
    void dropout_backward(out dx, in dy, float p, dropout_key key, dropout_shape s) {
        const bool alone = calls_.ran(operation::dropout, number(key)); // or in a residual
        backward(alone ? operation::dropout : operation::residual, number(key), dy, dx, {},
                 [&]<class T>(operands<T>& o) {
                     base().template dropout_backward<T>(o.write(dx), o.read(dy), p, key, s);
                 });
    }
    void cross_entropy_forward(out losses, out lse, in logits, ints targets, int rows, int V) {
        forward(operation::cross_entropy, lse.data(), {logits}, {}, losses,
                [&]<class T>(operands<T>& o) {
                    base().template cross_entropy_forward<const T>(losses, lse, o.read(logits),
                                                                   targets, rows, V);
                });
    }
    void cross_entropy_backward(out dlogits, in logits, in lse, ints targets, float seed, int rows,
                                int V) {
        backward(operation::cross_entropy, lse.data(), {}, dlogits, logits,
                 [&]<class T>(operands<T>& o) {
                     base().template cross_entropy_backward<T>(o.write(dlogits), o.read(logits),
                                                               lse, targets, seed, rows, V);
                 });
    }

private:
    template <class Body>
    void run(std::size_t i, Body& body) {
        const auto with = [&](auto o) {
            body(o);
            o.finish();
        };
        low_[i] ? with(of<Low>(i)) : with(of<float>(i));
    }

    // x: the activations that it reads. key: see site_calls.hpp.
    template <class Body>
    void forward(operation op, const void* key, std::initializer_list<in> x,
                 std::initializer_list<in> weights, out y, Body body) {
        const std::size_t i = calls_.forward(op, key);
        const site& s = sites()[i];
        if (i == 0) casts_.clear();
        low_[i] = runs_[i] == precision::low ||
                  (runs_[i] == precision::widest && weights.size() == 0 && // these are fp32
                   std::all_of(x.begin(), x.end(), [&](in t) { return is_low(t); }));
        for (const in& t : x) note(t, i, false);
        for (std::size_t t = 0; low_[i] && t < s.tensors.size(); ++t)
            if (weights_.refresh(base(), s.tensors[t], weights.begin()[t]))
                casts_.push_back({s.tensors[t], s.name, format(false), format(true),
                                  weights.begin()[t].size(), true, false});
        run(i, body);
        made_[y.data()] = {i, low_[i]};
        calls_.result(i, y.data());
        if (watch) watch(i, y);
    }

    // dy: the gradient that arrives; dx: the one that leaves, of x.
    template <class Body>
    void backward(operation op, const void* key, in dy, out dx, in x, Body body) {
        const std::size_t i = calls_.backward(op, key);
        const bool kept_low = x.empty() ? low_[i] : is_low(x);
        note(dy, i, true);
        run(i, body);
        if (dx.empty()) return;
        if (low_[i] != kept_low)
            casts_.push_back({sites()[i].name, name_of(x), format(low_[i]), format(kept_low),
                              dx.size(), false, true});
        if (!low_[i] && kept_low) { // autograd's backward of the widening: rounded to Low
            operands<Low> o = of<Low>(i);
            o.update(dx);
            o.finish();
        }
        made_[dx.data()] = {i, kept_low};
    }

    void note(in x, std::size_t to, bool backward) {
        if (!x.empty() && is_low(x) != low_[to])
            casts_.push_back({name_of(x), sites()[to].name, format(is_low(x)), format(low_[to]),
                              x.size(), false, backward});
    }
    bool is_low(in x) const {
        const auto m = made_.find(x.data());
        return m != made_.end() && m->second.low;
    }
    std::string name_of(in x) const {
        const auto m = made_.find(x.data());
        return m == made_.end() ? "input" : sites()[m->second.site].name;
    }
    static const char* format(bool low) { return low ? name<Low>() : name<float>(); }
    static const void* number(const dropout_key& key) {
        return reinterpret_cast<const void*>(std::intptr_t(key.layer));
    }
    const Base& base() const { return *this; }
    template <class T>
    operands<T> of(std::size_t site) {
        return {*this, room_.span(), weights_, sites()[site]};
    }

    struct origin {
        std::size_t site;
        bool low; // its type in autocast's eyes: the fp32 numbers that lie there are all Low's
    };
    memory& mem_;
    site_calls calls_;
    std::vector<precision> runs_; // of the sites
    std::vector<bool> low_;       // did they run low?
    weight_cache<Low> weights_;
    buffer<Low> room_;
    std::map<const void*, origin> made_; // who wrote the tensor that begins there
    std::vector<inserted_cast> casts_;
};

} // namespace mpt
