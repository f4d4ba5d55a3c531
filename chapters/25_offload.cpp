// SPDX-License-Identifier: MIT
// ZeRO-Offload: the optimizer's states and the gradients live in host memory, the CPU updates.
//
// broken: --device-memory 6000 => [FAILS] 6000 KB do not hold the plain run; offloaded it trains
// broken: --device-memory 1900 => memory: gradients of a unit asks
// broken: --sabotage first-micro-only => [FAILS] plain = offloaded, bit for bit
// broken: --sabotage late-gradients => [FAILS] plain = offloaded, bit for bit
// broken: --sabotage late-weights => [FAILS] plain = offloaded, bit for bit
// broken: --sabotage wait-for-gradients => [FAILS] a unit's gradients leave while the next
// broken: --sabotage wait-for-weights => [FAILS] a part's weights come back while the next
// with: --micro-batches 2 => [holds] bytes moved a step: 2 M + 2, 4 + 2 and 2 + 2 a parameter
// with: --part 256 => [holds] plain = offloaded, bit for bit
// picture: --svg order.svg => docs/images/chapter_25_order.svg
#include "common/args.hpp"          // arguments: the flags
#include "common/claims.hpp"        // claims: what is proved
#include "common/offload_order.hpp" // watched_step: what overlaps what
#include "common/offload_run.hpp"   // offload_run: states here or on the host
#include "common/on_ranks.hpp"      // error_of

#include <cstdio>
#include <cstring>
#include <map>
#include <tuple>

using mpt::fp16;
using run_of = offload_run<fp16>;

struct options {
    std::string sabotage = "none", svg;
    int micro_batches = 4;
    std::size_t memory = 3000; // KB of the device
    std::size_t part = 98;     // times 256 elements
};
constexpr long steps = 6;

mpt::gpt_config small() {
    mpt::gpt_config c;
    c.layers = 4, c.channels = 64, c.context = 64, c.dropout = 0.1f;
    return c;
}

//! [sabotage]
// Wrong: copies nobody waited for. Each is done when the next one is asked for.
struct late {
    std::shared_ptr<std::tuple<void*, const void*, std::size_t>> last =
        std::make_shared<std::tuple<void*, const void*, std::size_t>>();
    void operator()(void* to, const void* from, std::size_t bytes) const {
        const auto [t, f, n] = std::exchange(*last, {to, from, bytes});
        if (n > 0) std::memcpy(t, f, n);
    }
};
// Wrong: what later micro-batches add is lost on the way.
struct first_micro_only : around<fp16> {
    using around<fp16>::around;
    mpt::device_span<fp16> collect(mpt::gradients<fp16>& grads, int unit) override {
        return there[unit] = around<fp16>::collect(grads, unit);
    }
    void ready(mpt::gradients<fp16>& grads, int unit, int micro) override {
        if (micro > 0) std::fill_n(there[unit].data(), there[unit].size(), fp16());
        around<fp16>::ready(grads, unit, micro);
    }
    std::map<int, mpt::device_span<fp16>> there;
};
//! [sabotage]

// ---- a run: what it needs, what it moves, which bits it ends with ----

struct outcome {
    std::vector<double> losses;
    std::uint32_t digest = 0;
    std::size_t out = 0, in = 0;                 // bytes of a step
    std::size_t out_skipped = 0, in_skipped = 0; // ... of the one that overflows
    bool as_formula = false;                     // bytes by kind and place
};

bool held(const run_of& run) {
    const mpt::estimate said = run.formula();
    bool equal = true;
    std::printf("%-8s %-12s %10s %10s %12s\n", "place", "kind", "measured", "formula",
                "a parameter");
    for (const mpt::place p : {mpt::place::device, mpt::place::host}) {
        for (int i = 0; i < mpt::kinds; ++i) {
            const mpt::kind k = mpt::kind(i);
            const std::size_t bytes = run.mem.books.peak(k, p);
            equal &= bytes == said.at(k, p);
            if (bytes + said.at(k, p) > 0)
                std::printf("%-8s %-12s %10zu %10zu %12.2f\n", to_string(p), to_string(k), bytes,
                            said.at(k, p), double(bytes) / double(run.P));
        }
        const std::size_t all = run.mem.books.peak_total(p);
        equal &= all == said.total(p);
        std::printf("%-8s %-12s %10zu %10zu\n", to_string(p), "all", all, said.total(p));
    }
    std::printf("\n");
    return equal;
}

outcome train(const options& o, leaves when, std::size_t budget, const std::string& sabotage) {
    offload_plan p;
    p.when = when, p.M = o.micro_batches, p.budget = budget, p.part = 256 * o.part;
    mpt::transfer_calls calls;
    if (sabotage == "late-gradients") calls.out = late();
    if (sabotage == "late-weights") calls.in = late();
    run_of run(small(), p, calls);
    if (sabotage == "first-micro-only")
        run.wrap([](auto inner) { return std::make_unique<first_micro_only>(std::move(inner)); });
    windows data(run.ops, run.mem, "", p.M, p.B, small().context);
    outcome found;
    for (long step = 0; step < steps; ++step) {
        const std::size_t out = run.copies.bytes_out(), in = run.copies.bytes_in();
        found.losses.push_back(run.step(data(step)));
        const bool skips = step == p.overflow;
        (skips ? found.out_skipped : found.out) = run.copies.bytes_out() - out;
        (skips ? found.in_skipped : found.in) = run.copies.bytes_in() - in;
    }
    found.digest = run.digest();
    if (when == leaves::never || when == leaves::each) found.as_formula = held(run);
    return found;
}

// ---- a window of one micro-batch: what happens beside what ----

void story(const options& o, claims& claim) {
    offload_plan p;
    p.M = 1, p.overflow = -1, p.part = 256 * o.part;
    watched_step seen(small(), p, o.sabotage == "wait-for-gradients",
                      o.sabotage == "wait-for-weights");
    const event_order& order = seen.order;
    std::printf("a window of one micro-batch, in order:");
    for (const auto& e : order.all())
        if (e.which == event_order::begins) std::printf(" %s,", e.what.c_str());
    std::printf(" done\n\n");
    if (!o.svg.empty()) seen.draw(o.svg);
    //! [claims]
    bool out = true, in = true;
    for (int u = seen.units - 1; u > 0; --u)
        out &= order.beside(of("gradients", u), of("backward", u - 1));
    for (int k = 0; k + 1 < seen.parts; ++k)
        in &= order.beside(of("weights", k), of("update", k + 1));
    const bool last =
        order.at("gradients 0", event_order::ends) < order.at("update 0", event_order::begins);
    //! [claims]
    // expect: [holds] a unit's gradients leave while the next unit's are made
    claim(out, "a unit's gradients leave while the next unit's are made");
    // expect: [holds] a part's weights come back while the next part is updated
    claim(in, "a part's weights come back while the next part is updated");
    // expect: [holds] no update before the last gradient is there: all of them decide
    claim(last, "no update before the last gradient is there: all of them decide");
    // expect: [holds] a window of one micro-batch moves 2 + 2 bytes a parameter
    const std::size_t P = seen.run->P;
    claim(seen.run->copies.bytes_out() == 2 * P && seen.run->copies.bytes_in() == 2 * P,
          "a window of one micro-batch moves 2 + 2 bytes a parameter");
}

int offloaded(const options& o) {
    claims claim;
    const std::size_t P = run_of(small(), {}).P, M = std::size_t(o.micro_batches);
    const std::size_t budget = 1000 * o.memory;
    // expect: plain: memory: fp32 sums of gradients asks 882176 bytes; of the budget of 3000000
    // expect: device all 1949952 1949952
    const std::string refused = error_of([&] { train(o, leaves::never, budget, "none"); });
    std::printf("a GPT of %zu parameters, %zu micro-batches a step, a device of %zu KB.\n"
                "plain: %s\n\noffloaded:\n",
                P, M, o.memory, refused.empty() ? "trains" : refused.c_str());
    const outcome each = train(o, leaves::each, budget, o.sabotage);
    std::printf("plain, without a budget:\n");
    const outcome plain = train(o, leaves::never, 0, "none");
    const outcome window = train(o, leaves::window, 0, "none");
    const outcome rounded = train(o, leaves::rounded, 0, "none");

    std::printf("%-34s %4s %4s %13s %9s %10s\n", "bytes a parameter and step", "out", "in",
                "measured: out", "in", "states");
    bool moved = true;
    const auto row = [&](const char* name, const outcome& x, std::size_t out) {
        moved &= x.out == out * P && x.in == 2 * P;
        std::printf("%-34s %4zu %4d %13.4f %9.4f   %08x\n", name, out, 2, double(x.out) / double(P),
                    double(x.in) / double(P), x.digest);
    };
    row("each micro-batch's, in 16 bits", each, 2 * M);
    row("the window's sums, in fp32", window, 4);
    row("... rounded to 16 bits", rounded, 2);
    std::printf("%-34s %4d %4d %23s   %08x\nloss %.4f -> %.4f plain, %.4f -> %.4f offloaded\n\n",
                "plain", 0, 0, "", plain.digest, plain.losses.front(), plain.losses.back(),
                each.losses.front(), each.losses.back());

    // expect: [holds] 3000 KB do not hold the plain run; offloaded it trains
    claim(refused.find("asks") != std::string::npos,
          mpt::join(o.memory, " KB do not hold the plain run; offloaded it trains"));
    // expect: [holds] bytes by kind, device and host: measured = formula
    claim(each.as_formula && plain.as_formula,
          "bytes by kind, device and host: measured = formula");
    // expect: [holds] plain = offloaded, bit for bit: weights, master and moments, every loss
    claim(each.digest == plain.digest && window.digest == plain.digest &&
              each.losses == plain.losses && window.losses == plain.losses,
          "plain = offloaded, bit for bit: weights, master and moments, every loss");
    // expect: [holds] bytes moved a step: 2 M + 2, 4 + 2 and 2 + 2 a parameter, measured = formula
    claim(moved, "bytes moved a step: 2 M + 2, 4 + 2 and 2 + 2 a parameter, measured = formula");
    // expect: [holds] step 4 overflows: its gradients have left, no weights come back
    claim(each.out_skipped == 2 * M * P && each.in_skipped == 0,
          "step 4 overflows: its gradients have left, no weights come back");
    // expect: [holds] sums that are rounded before they leave: other bits
    claim(rounded.digest != plain.digest, "sums that are rounded before they leave: other bits");
    story(o, claim);
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "25_offload", "ZeRO-Offload: states on the host, the CPU updates.");
    args.add("--micro-batches", o.micro_batches, "a step", 2, 64);
    args.add("--device-memory", o.memory, "KB of the device", 1);
    args.add("--part", o.part, "updated at a time, times 256 elements", 1, 1 << 20);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "first-micro-only", "late-gradients", "late-weights", "wait-for-gradients",
              "wait-for-weights"});
    args.add("--svg", o.svg, "draw one step's order into this file");
    return args.run([&] { return offloaded(o); });
}
