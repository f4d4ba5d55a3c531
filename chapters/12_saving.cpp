// SPDX-License-Identifier: MIT
/// @file 12_saving.cpp
/// Stop, save, and go on as if nothing had happened: what a checkpoint holds, and in which order.
// expect: [holds] 10 steps, a checkpoint and 10 more end with the bits of 20 in one go
// expect: [holds] the last complete checkpoint is found after a power cut behind any of
// expect: 0 of 7664 parameters differ
// broken: --forget moments => [FAILS] 10 steps, a checkpoint and 10 more end with
// broken: --forget master => [FAILS] 10 steps, a checkpoint and 10 more end with
// broken: --forget scaler => [FAILS] 10 steps, a checkpoint and 10 more end with
// broken: --forget step => [FAILS] 10 steps, a checkpoint and 10 more end with
// broken: --forget rng => [FAILS] 10 steps, a checkpoint and 10 more end with
// broken: --forget sampler => [FAILS] 10 steps, a checkpoint and 10 more end with
// broken: --no-fsync => [FAILS] the last complete checkpoint is found after a power cut
// broken: --old-first => [FAILS] the last complete checkpoint is found after a power cut
// with: --seed 3 => [holds] 10 steps, a checkpoint and 10 more end with the bits of 20 in one go
#include "common/args.hpp"
#include "common/claims.hpp"
#include "common/gpt_run.hpp"
#include "common/power_cut.hpp"

#include "mpt/numeric/fp16.hpp"
#include "mpt/train/checkpoint.hpp"    // save_checkpoint, newest_checkpoint
#include "mpt/train/clip.hpp"          // clip_factor
#include "mpt/train/inspect.hpp"       // inspect, norm
#include "mpt/train/loss_scale.hpp"    // loss_scale
#include "mpt/train/saved_tensors.hpp" // add_tensors, tensor_reads, scalar

#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;
using mpt::fp16;

struct options {
    std::string forget = "nothing", data;
    bool no_fsync = false, old_first = false;
    int threads = 0;
    unsigned seed = 1;
};

// A small GPT in fp16 with dropout and two micro-batches, and every number that a step changes.
struct training {
    explicit training(const options& o)
        : run({1, 2, 2, 16, 16, 256, 0.1f}, 2, 2, o.threads),
          data(run.ops, run.mem, o.data, 2, 2, 16),
          tensors(mpt::named_tensors(run.model.map.tensors)) {
        run.start(o.seed);
        scale.value = 1 << 24; // too large: the first steps are skipped
        scale.interval = 8;
    }

    void step() {
        window w = data(sampler);                           // where in the text
        for (mpt::batch& b : w.micro_batches) b.step = rng; // which activations dropout takes
        const float S = scale.value;
        for (const mpt::batch& b : w) {
            run.model.forward(run.strategy, run.weights, b, run.acts);
            run.model.backward(run.strategy, run.weights, b, run.acts, S / float(w.tokens),
                               run.grads);
        }
        const auto g = run.strategy.finish(run.grads);
        const mpt::health health = mpt::inspect(run.ops, g);
        if (scale.update(health.finite, mpt::describe(health, run.model.map))) {
            const double factor = mpt::clip_factor(mpt::norm(health) / S, 1) / S;
            g.visit([&](const auto& mine) {
                adam.step(run.ops, run.model.map, run.owned, mine, factor, 1e-2);
            });
            run.strategy.publish(run.weights);
        }
        ++sampler, ++rng;
    }

    //! [what]
    // Buffers as tensors, one file a kind; everything else as words.
    std::vector<mpt::checkpoint_file> files() {
        std::vector<mpt::checkpoint_file> all{{"weights", {}}, {"master", {}}, {"moments", {}}};
        add_tensors(all[0].tensors, tensors, "", std::span<const fp16>(host(run.weights)));
        add_tensors(all[1].tensors, tensors, "", std::span<const float>(host(master())));
        add_tensors(all[2].tensors, tensors, "m.", std::span<const float>(host(run.owned.m)));
        add_tensors(all[2].tensors, tensors, "v.", std::span<const float>(host(run.owned.v)));
        return all;
    }
    std::map<std::string, std::string> words() const {
        std::map<std::string, std::string> all{{"applied_steps", std::to_string(adam.applied)},
                                               {"rng.step", std::to_string(rng)},
                                               {"sampler.step", std::to_string(sampler)}};
        for (const auto& [key, value] : scale.state()) all["scaler." + key] = value;
        return all;
    }
    //! [what]

    // Everything back, but what is to be forgotten.
    void load(const mpt::checkpoint& c, const std::string& forget) {
        const mpt::safetensors::reader w(c.path("weights")), f(c.path("master")),
            mv(c.path("moments"));
        mpt::tensor_reads a(w, ""), b(f, ""), d(mv, "");
        a.want(tensors, "", host(run.weights));
        b.want(tensors, "", host(master()));
        d.want(tensors, "m.", host(run.owned.m));
        d.want(tensors, "v.", host(run.owned.v));
        a.read();
        if (forget != "master")
            b.read();
        else
            mpt::cast(run.ops, run.owned.weights, run.owned.master); // the rounded weights, widened
        if (forget != "moments") d.read();
        std::map<std::string, std::string> scaler;
        for (const auto& [key, value] : c.list.state)
            if (key.starts_with("scaler.")) scaler[key.substr(7)] = value;
        if (forget != "scaler") scale.restore(scaler);
        if (forget != "step") adam.applied = mpt::scalar<long>(c.list.state, "applied_steps");
        if (forget != "rng") rng = mpt::scalar<long>(c.list.state, "rng.step");
        if (forget != "sampler") sampler = mpt::scalar<long>(c.list.state, "sampler.step");
    }

    // All units' masters: they lie in one buffer.
    mpt::device_span<float> master() { return {run.owned.master[0].data.data(), run.P}; }
    // The loops' device is the host, so a checkpoint reads and writes the buffers themselves.
    template <class T>
    std::span<T> host(mpt::device_span<T> x) {
        std::vector<T> none;
        return run.ops.on_host(x, none);
    }

    gpt_run<fp16> run;
    windows data;
    std::vector<mpt::named_tensor> tensors;
    mpt::loss_scale scale;
    mpt::adamw adam;
    long sampler = 0, rng = 0; // attempted steps: the place in the data, and in the random numbers
};

// Masters whose bits differ; the moments and the 16-bit weights are compared as well.
std::size_t differing(training& a, training& b) {
    const auto count = [](const auto x, const auto y) {
        std::size_t n = 0;
        for (std::size_t i = 0; i < x.size(); ++i) n += std::memcmp(&x[i], &y[i], sizeof x[i]) != 0;
        return n;
    };
    const std::size_t masters = count(a.host(a.master()), b.host(b.master()));
    return std::max({masters, count(a.host(a.run.owned.m), b.host(b.run.owned.m)),
                     count(a.host(a.run.owned.v), b.host(b.run.owned.v)),
                     count(a.host(a.run.weights), b.host(b.run.weights))});
}

// The step of the newest checkpoint that `dir` shows, as text; "none" where none can be loaded.
std::string found(const std::string& dir) {
    try {
        return std::to_string(mpt::newest_checkpoint(dir).list.step);
    } catch (const mpt::error&) {
        return "none";
    }
}

int saving(const options& o, const std::string& folder) {
    claims claim;
    training straight(o), first(o), second(o);
    for (int i = 0; i < 20; ++i) straight.step();
    for (int i = 0; i < 10; ++i) first.step();

    // The journal of two saves, on a disk whose power can go after any call.
    power_cut journal(folder + "/disk");
    const mpt::disk disk = journal.recording(o.no_fsync);
    fs::create_directories(folder + "/disk");
    const std::string dir = folder + "/disk/checkpoints";
    mpt::save_checkpoint(dir, 10, first.files(), first.words(), 1, disk);
    const std::size_t complete = journal.calls();

    second.load(mpt::newest_checkpoint(dir), o.forget);
    for (int i = 0; i < 10; ++i) second.step();
    const std::size_t other = differing(straight, second);
    claim(other == 0, "10 steps, a checkpoint and 10 more end with the bits of 20 in one go");
    std::printf("%zu of %zu parameters differ; %ld of 20 steps were skipped\n", other, second.run.P,
                straight.scale.skipped);

    if (o.old_first) mpt::remove_folder(disk, dir + "/" + mpt::step_name(10));
    mpt::save_checkpoint(dir, 20, second.files(), second.words(), 1, disk);
    std::printf("\n%-58s %6s   %s\n", "call of the second save", "kill", "power cut");
    std::size_t states = 0, whole = 0, calls = 0;
    //! [crash]
    for (std::size_t n = complete; n <= journal.calls(); ++n) {
        const std::string call = n == complete ? "(the first is complete)" : journal.call(n - 1);
        if (n < journal.calls() && call == journal.call(n)) continue; // of many writes the last
        std::string kill, power;
        for (int how = 0; how < 12; ++how) { // what survives of that which was not flushed
            const auto survives = power_cut::survives(std::min(how, int(power_cut::by_chance)));
            journal.cut(n, survives, folder + "/after", std::uint32_t(how));
            const std::string step = found(folder + "/after/checkpoints");
            if (survives == power_cut::all) kill = step; // a kill loses no byte that was written
            if (power.find(step) == power.npos) power += (power.empty() ? "" : " or ") + step;
            whole += step == "10" || step == "20";
            ++states;
        }
        //! [crash]
        std::printf("%-58s %6s   %s\n", call.c_str(), kill.c_str(), power.c_str());
        ++calls;
    }
    claim(whole == states,
          mpt::join("the last complete checkpoint is found after a power cut behind any of ", calls,
                    " calls: ", whole, " of ", states, " states"));
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(
        argc, argv, "12_saving",
        "A run that is saved and resumed, bit for bit, and saves that no power cut undoes.");
    args.add("--forget", o.forget, "break it: leave this out when loading",
             {"nothing", "moments", "master", "scaler", "step", "rng", "sampler"});
    args.add("--no-fsync", o.no_fsync, "break it: nothing is flushed");
    args.add("--old-first", o.old_first, "break it: remove the old checkpoint, then write the new");
    args.add("--seed", o.seed, "of the first weights", 0);
    args.add_data(o.data);
    args.add_threads(o.threads);
    return args.run([&] {
        std::string folder = (fs::temp_directory_path() / "mpt-saving.XXXXXX").string();
        mpt::check(mkdtemp(folder.data()) != nullptr, folder, ": cannot be made; set TMPDIR");
        const struct cleanup {
            std::string folder;
            ~cleanup() { fs::remove_all(folder); }
        } at_the_end{folder};
        return saving(o, folder);
    });
}
