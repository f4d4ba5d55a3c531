// SPDX-License-Identifier: MIT
// The fused step: each number read once and written once, and a host that never waits.
//
// broken: --sabotage unscale-in-16-bits => [FAILS] AdamW in one kernel: the bits of six
// broken: --sabotage host-asks => [FAILS] a step: a copy in, a copy out, no wait for the device
// broken: --sabotage by-value => [FAILS] decided on the device: the bits of a host that asks
// broken: --sabotage found-inf-unread => [FAILS] a skipped step changes nothing
// with: --rows 32 --columns 256 --plot bytes.svg => [holds] a step: a copy in, a copy out
// cuda: --rows 16 --columns 256
#include "common/args.hpp"             // arguments: the flags
#include "common/asked_of_host.hpp"    // asked_of_host: launches, copies, waits
#include "common/bars.hpp"             // bars: bytes an element
#include "common/bigrams.hpp"          // bigrams: a model; parameters, halves
#include "common/byte_table.hpp"       // byte_table: counted beside the formula, or timed
#include "common/claims.hpp"           // claims: what is proved
#include "common/fused_problems.hpp"   // logits, residual_stream
#include "common/separate_kernels.hpp" // separate_adamw, look_for_bad, add_squares, ...

#include "mpt/kernels/device.cuh"     // recorded_work: a graph
#include "mpt/kernels/dropout.cuh"    // residual, dropout
#include "mpt/kernels/softmax.cuh"    // softmax_forward
#include "mpt/train/adam_moments.hpp" // numbers_of
#include "mpt/train/clip.hpp"         // clip_factor
#include "mpt/train/loss_scale.hpp"   // loss_scale

#include <cmath>

struct options {
    std::string sabotage = "none", plot;
    int rows = on_gpu ? 8192 : 16, columns = on_gpu ? 2048 : 512, steps = on_gpu ? 200 : 8;
    std::size_t n() const { return std::size_t(rows) * std::size_t(columns); }
};

void draw(bars& picture, const char* what, const char* kernels, const byte_table& t) {
    const std::string sum = mpt::join(std::round(t.all.read + t.all.written));
    picture.all.push_back({what, kernels, sum, {t.all.read, t.all.written}});
}

void update(const options& o, claims& claim, bars& picture) {
    const std::size_t n = o.n();
    const float S = 65536, clip = 0.4f;
    const auto first = random_numbers(n, false);
    const auto scaled = halves(random_numbers(n, false), 0x1p-5f); // unscaled 2^-20 and less
    const parameters apart(first, scaled), together(first, scaled);
    const array<float> g(n);
    adamw_args<__half, __half> a = apart.args(), b = together.args();
    a.numbers = b.numbers = {clip / S, 0.1f, 0.05f, 0.01f, 1.5f, 1e-8f, 1e-4f};
    const auto six = [&](auto each) {
        separate_adamw(a, g.data(), 1 / S, clip, o.sabotage == "unscale-in-16-bits", nullptr, each);
    };
    six([](const char*, int, int, auto launch) { launch(); });
    adamw(b, nullptr);
    // expect: [holds] AdamW in one kernel: the bits of six
    claim(apart.same(together), "AdamW in one kernel: the bits of six");

    const array<int> bad(std::vector<int>(1));
    const array<double> partial(partial_blocks(n)), squares(1);
    const array<inspect_result> found(1);
    const array<char> scratch(inspect_bytes(n));
    //! [update]
    byte_table separate("update, pass by pass", n);
    separate.row("finite?", 2, 0, [&] { look_for_bad(bad.data(), apart.g.data(), n); });
    six([&](const std::string& name, int reads, int writes, auto launch) {
        separate.row(name, reads, writes, launch);
        if (name != "unscale") return;
        separate.row("norm", 4, 0,
                     [&] { add_squares(squares.data(), partial.data(), g.data(), n); });
    });
    separate.total("all");
    byte_table fused("update, fused", n);
    fused.row("inspect: finite? norm?", 2, 0,
              [&] { inspect(found.data(), together.g.data(), n, scratch.data(), nullptr); });
    fused.row("AdamW: all the rest", 14, 14, [&] { adamw(b, nullptr); });
    fused.total("all");
    //! [update]
    const inspect_result r = found.read()[0];
    // expect: [holds] inspect: the norm, to rounding, and nothing that is not finite
    claim(std::abs(squares.read()[0] * double(S) * double(S) / r.squares - 1) < 0x1p-20 &&
              r.bad == 0 && bad.read()[0] == 0,
          "inspect: the norm, to rounding, and nothing that is not finite");
    draw(picture, "update", "8 passes", separate), draw(picture, "", "2 passes", fused);
    if (on_gpu) return;
    // expect: [holds] an update asks for 66 bytes a parameter, or for 30
    claim(separate.as_formula(0.25) && fused.as_formula(0.25),
          "an update asks for 66 bytes a parameter, or for 30");
}

void loss(const options& o, claims& claim, bars& picture) {
    const logits y(o.rows, o.columns);
    y.fused();
    const std::vector<float> gradient = y.y.read();
    // expect: [holds] loss and gradient in one kernel: the bits of forward, then backward
    claim(y.as_forward_and_backward(),
          "loss and gradient in one kernel: the bits of forward, then backward");
    //! [loss]
    byte_table separate("cross-entropy, pass by pass", o.n());
    separate.row("softmax: each row twice", 8, 4,
                 [&] { softmax_forward<float>(y.p.data(), y.x.data(), y.R, y.V, nullptr); });
    separate.row("loss", 0, 0,
                 [&] { losses_of(y.losses.data(), y.p.data(), y.targets.data(), y.R, y.V); });
    separate.row("gradient", 4, 4,
                 [&] { gradient_of(y.dx.data(), y.p.data(), y.targets.data(), y.seed, y.R, y.V); });
    separate.total("all");
    byte_table fused("cross-entropy, fused", o.n());
    fused.row("both: each row twice", 8, 4, [&] { y.fused(); });
    //! [loss]
    // expect: [holds] ... and the gradient of three kernels, to rounding
    claim(y.near(gradient), "... and the gradient of three kernels, to rounding");
    draw(picture, "cross-entropy", "3 passes", separate), draw(picture, "", "1 pass", fused);
    if (on_gpu) return;
    // beside these: a few sectors a row, for targets and losses; a target for each warp in three
    const double row = 8 * 32.0 / o.columns;
    // expect: [holds] cross-entropy asks for 20 bytes a logit, or for 12
    claim(separate.as_formula(1 + row) && fused.as_formula(row),
          "cross-entropy asks for 20 bytes a logit, or for 12");
}

void residuals(const options& o, claims& claim, bars& picture) {
    const residual_stream y(o.n());
    const dropout_args drop{0.25f, 7};
    const auto width = std::size_t(o.columns);
    //! [residual]
    byte_table separate("dropout, then add, fp16", o.n());
    separate.row("dropout", 2, 2,
                 [&] { dropout(y.dropped.data(), y.branch.data(), drop, o.rows, width, nullptr); });
    separate.row("add", 4, 2, [&] {
        add<__half>(y.out_too.data(), y.x.data(), y.dropped.data(), o.n(), nullptr);
    });
    separate.total("all");
    byte_table fused("dropout and add, fused", o.n());
    fused.row("residual", 4, 2, [&] {
        residual(y.out.data(), y.x.data(), y.branch.data(), drop, o.rows, width, nullptr);
    });
    //! [residual]
    const auto [one, two] = y.not_nearest(drop, o.rows);
    std::printf("not the nearest fp16 number: fused %zu, separate %zu of %zu\n", one, two, o.n());
    // expect: [holds] residual in one kernel: rounded once; in two: twice
    claim(one == 0 && two > 0, "residual in one kernel: rounded once; in two: twice");
    draw(picture, "residual", "2 passes", separate), draw(picture, "", "1 pass", fused);
    if (on_gpu) return;
    // expect: [holds] dropout and the sum ask for 10 bytes an element, or for 6
    claim(separate.as_formula(0) && fused.as_formula(0),
          "dropout and the sum ask for 10 bytes an element, or for 6");
}

// ---- the step ----------------------------------------------------------------------------------

//! [device]
// The host puts this into the stream, and nothing in it is the host's to know: what one kernel
// finds the next one reads where it lies.
void put(bigrams& x, const int* next, const std::string& sabotage) {
    const cudaStream_t q = x.queue.work;
    step_state* const s = x.state.data();
    adamw_args<__half, __half> a = x.at.args();
    a.device_numbers = &s->numbers, a.found_inf = &s->found_inf;
    if (sabotage == "by-value") a.device_numbers = nullptr, a.numbers = x.numbers(1, 1 / x.scale());
    if (sabotage == "found-inf-unread") a.found_inf = nullptr;

    begin_step(s, x.rules, q);                 // the seed
    x.forward_backward(next, 0, &s->seed);     // loss, gradients
    x.inspect();                               // finite? how long?
    add_found(s, x.found.data(), 0, q);        // found_inf
    if (sabotage == "host-asks") x.ask();      // so the host waits for all that is above
    decide(s, x.rules, q);                     // factor, rate, corrections
    adamw(a, q);                               // all of it, or nothing
    end_step(s, x.rules, x.loss.data(), 1, q); // counts, the scale, the row
}
//! [device]

//! [host]
// The same step by a host that decides. `scale`, `applied`: its own.
void ask_and_put(bigrams& x, const int* next, mpt::loss_scale& scale, long& applied,
                 const array<float>& g) {
    const float S = scale.value;
    x.forward_backward(next, float(double(S) / x.rules.tokens), nullptr);
    x.inspect();
    const inspect_result found = x.ask(); // waits
    if (!scale.update(found.bad == 0)) return;
    const double clip = mpt::clip_factor(std::sqrt(found.squares) / double(S), x.rules.max_norm);
    adamw_args<__half, __half> a = x.at.args();
    a.numbers = x.numbers(++applied, clip / double(S));
    separate_adamw(a, g.data(), 1 / S, float(clip), false, x.queue.work,
                   [](const char*, int, int, auto launch) { launch(); });
}
//! [host]

// One row a step comes back; the last step's is waited for.
asked_of_host decided_on_device(bigrams& x, int steps, const std::string& sabotage, bool graph,
                                std::vector<step_row>& rows) {
    recorded_work recorded[2]; // one a slot of words
    const asked_of_host all(x.queue, steps, [&](long step) {
        const int* const next = x.send(step);
        const auto work = [&] { put(x, next, sabotage); };
        graph ? recorded[step % 2].run(x.queue.work, work) : work();
        x.feed.over(step);
        x.tell(step);
        if (step > 0) rows.push_back(x.told(step - 1)); // while this one runs
    });
    rows.push_back(x.told(steps - 1));
    return all;
}

asked_of_host decided_by_host(bigrams& x, int steps) {
    const array<float> g(x.n());
    mpt::loss_scale scale;
    scale.value = x.scale();
    long applied = 0;
    return {x.queue, steps, [&](long step) {
                ask_and_put(x, x.send(step), scale, applied, g);
                x.feed.over(step);
            }};
}

void step(const options& o, claims& claim) {
    bigrams untouched(o.rows, o.columns), once(o.rows, o.columns), host(o.rows, o.columns),
        device(o.rows, o.columns), graph(o.rows, o.columns);
    std::vector<step_row> first, rows;
    decided_on_device(once, 1, o.sabotage, false, first);
    const asked_of_host a = decided_by_host(host, o.steps);
    const asked_of_host b = decided_on_device(device, o.steps, o.sabotage, false, rows);
    std::printf("\n%-6s %10s %12s %12s\n", "step", "loss", "norm", "scale");
    for (std::size_t i = 0; i < rows.size() && i < 8; ++i)
        std::printf("%-6zu %10.4f %12.4g %12g%s\n", i, rows[i].loss, rows[i].norm,
                    double(rows[i].scale), rows[i].applied ? "" : "  skipped");
    // expect: [holds] a skipped step changes nothing
    claim(!first[0].applied && once.at.same(untouched.at), "a skipped step changes nothing");
    // expect: [holds] decided on the device: the bits of a host that asks, and of six kernels
    claim(device.at.same(host.at),
          "decided on the device: the bits of a host that asks, and of six kernels");
    // expect: [holds] it learns: the last loss is below the first
    claim(rows.back().loss < rows.front().loss, "it learns: the last loss is below the first");
    asked_of_host::heading("a step");
    a.row("the host asks"), b.row("decided on the device");
    // expect: [holds] a step: a copy in, a copy out, no wait for the device
    claim(b.by.copies_in == 1 && b.by.copies_out == 1 && b.by.waits == 0,
          "a step: a copy in, a copy out, no wait for the device");
    if (!on_gpu) return;
    decided_on_device(graph, o.steps, o.sabotage, true, rows).row("... as a graph");
    claim(graph.at.same(device.at), "recorded once, begun as a whole: the same bits");
}

int fused_step(const options& o) {
    std::printf("on: %s\n", ::device_name().c_str());
    claims claim;
    bars picture{"Bytes asked of memory, an element", "bytes", {"read", "written"}, {}};
    update(o, claim, picture);
    loss(o, claim, picture);
    residuals(o, claim, picture);
    step(o, claim);
    mpt::check(o.plot.empty() || picture.save(o.plot), "--plot ", o.plot,
               ": cannot be written; give a file in a folder that exists");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "18_fused_step", "The fused step, without a host that waits.");
    args.add("--rows", o.rows, "rows of logits; weights are rows x columns", 1, 65535);
    args.add("--columns", o.columns, "of a row: words", 32, 65536);
    args.add("--steps", o.steps, "of training", 4, 10000);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "unscale-in-16-bits", "host-asks", "by-value", "found-inf-unread"});
    args.add("--plot", o.plot, "draw bytes an element, separate and fused, into this SVG file");
    return args.run([&] { return fused_step(o); });
}
