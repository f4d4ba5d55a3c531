// SPDX-License-Identifier: MIT
// infinity_run.hpp -- a rank that trains a GPT whose weights, master and moments lie in files: the
// device has the units at hand.
#pragma once
#include "around.hpp"  // around
#include "gpt_run.hpp" // windows

#include "mpt/base/crc32c.hpp"       // crc32c: of all weights
#include "mpt/comm/communicator.hpp" // communicator
#include "mpt/dist/file_states.hpp"  // file_states: master, m, v
#include "mpt/dist/file_weights.hpp" // file_weights: what zero3 gathers from
#include "mpt/dist/global_norm.hpp"  // norm
#include "mpt/dist/host_sums.hpp"    // host_sums: gradients leave
#include "mpt/dist/offload.hpp"      // offload: the step
#include "mpt/dist/zero3.hpp"        // zero3
#include "mpt/train/clip.hpp"        // clip_factor
#include "mpt/train/loss_scale.hpp"  // loss_scale

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

/// A folder that is gone at the end.
struct scratch_folder {
    explicit scratch_folder(const std::string& where) {
        std::string name =
            (std::filesystem::absolute(where) / "infinity_XXXXXX").lexically_normal().string();
        mpt::check(mkdtemp(name.data()) != nullptr, "--dir ", where,
                   ": no folder can be made there; give one that exists, on a disk with room");
        path = name;
    }
    ~scratch_folder() { std::filesystem::remove_all(path); }
    scratch_folder(const scratch_folder&) = delete;
    scratch_folder& operator=(const scratch_folder&) = delete;
    std::string path;
};

//! [around]
/// A place of weights around another one: what is not overridden goes through.
template <class T>
struct around_place : mpt::weight_place<T> {
    explicit around_place(std::unique_ptr<mpt::weight_place<T>> p) : inner(std::move(p)) {
        this->mine_ = inner->mine();
    }
    mpt::device_span<T> room(std::size_t k, const mpt::block& part) override {
        return inner->room(k, part);
    }
    void send(std::size_t k, const mpt::block& part) override { inner->send(k, part); }
    void settle() override { inner->settle(); }
    void fetch(int unit, mpt::device_span<T> to) override { inner->fetch(unit, to); }
    void expect(int unit) override { inner->expect(unit); }

    std::unique_ptr<mpt::weight_place<T>> inner;
};
//! [around]

struct infinity_plan {
    std::string folder;
    int B = 1, M = 1;
    std::size_t budget = 0; // bytes of the device; 0: no limit
    int buffers = 2;        // of weights, and of states
    const mpt::disk& calls = mpt::real_disk;
};

template <class T>
struct infinity_run {
    using place_of = mpt::weight_place<T>;
    /// shape: what is made of the place of the weights; to look, or to break something.
    infinity_run(mpt::communicator& c, const mpt::gpt_config& config, const infinity_plan& p,
                 const std::function<std::unique_ptr<place_of>(std::unique_ptr<place_of>)>& shape)
        : comm(c), pool(1), mem(p.budget),
          ops(pool, mem, mpt::gpt_scratch<T>(config, p.B, config.context)), model(config, ops),
          cut(model.map, c.size()), leaving(mem, copies),
          //! [run]
          place(shape(std::make_unique<mpt::file_weights<T>>(mem, model.map, cut, c.rank(), copies,
                                                             files(p)))),
          store(mem, model.map, place->mine(), 2, files(p)), updates(*place, store),
          zero(std::make_unique<mpt::zero3<T, mpt::host_sums<T>>>(
              leaving, model.map, c, mem, p.M, mpt::reduce_mode::every, 1, place.get())),
          sums(mem, mpt::kind::sums, cut.packed_size(), "fp32 sums", mpt::place::host),
          //! [run]
          acts(mem, config, p.B, config.context, {}), grads{{}, sums.span()} {
        //! [begin]
        updates.begin([&](std::size_t begin, std::span<float> to) {
            mpt::initial_values(model.map, 1, begin, to);
        });
        place->begin([&](std::size_t begin, std::span<T> to) {
            std::vector<float> first(to.size());
            mpt::initial_values(model.map, 1, begin, first);
            mpt::cast(first.data(), to.data(), to.size());
        });
        //! [begin]
    }

    //! [step]
    template <class Rule>
    double step(const window& now, Rule& rule) {
        const double tokens = comm.sum(double(now.tokens));
        const float S = scale.value;
        double loss = 0;
        for (const mpt::batch& b : now) {
            loss += model.forward(*zero, {}, b, acts) / tokens; // {}: no weights are here
            model.backward(*zero, {}, b, acts, float(S / tokens), grads);
        }
        const auto g = zero->finish(grads); // my part, on the host
        const mpt::health health = mpt::inspect(ops, g);
        const double norm = mpt::norm(*zero, model.map, g, health) / S;
        if (scale.update(comm.all(health.finite), mpt::describe(health, model.map))) {
            updates.step(rule, ops, model.map, g, mpt::clip_factor(norm, 1) / S, 3e-3);
            zero->publish({});
        }
        return comm.sum(loss);
    }
    //! [step]

    double step(const window& now) { return step(now, adam); }

    std::uint32_t digest() { // of all weights
        std::vector<T> all;
        for (int u = 0; u < cut.units(); ++u) {
            const auto whole = zero->acquire({}, u);
            std::vector<T> here(whole.size());
            ops.copy_to_host(here, whole);
            all.insert(all.end(), here.begin(), here.end());
            zero->release(u);
        }
        zero->publish({});
        return mpt::crc32c(std::as_bytes(std::span(all)));
    }

    mpt::communicator& comm;
    mpt::thread_pool pool;
    mpt::memory mem;
    mpt::loops ops;
    mpt::gpt<T, mpt::loops> model;
    mpt::partition cut;
    mpt::transfers copies;
    mpt::host_sums<T> leaving;
    std::unique_ptr<place_of> place;
    mpt::file_states<T> store;
    mpt::offload<T> updates;
    std::unique_ptr<mpt::strategy<T>> zero; // a zero3, and what is around it
    mpt::buffer<float> sums;
    mpt::gpt_acts<T> acts;
    mpt::gradients<T> grads;
    mpt::adamw adam;
    mpt::loss_scale scale;

private:
    mpt::file_settings files(const infinity_plan& p) const {
        return {.folder = p.folder, .rank = comm.rank(), .buffers = p.buffers, .calls = p.calls};
    }
};
