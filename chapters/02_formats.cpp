// SPDX-License-Identifier: MIT
// Number formats: what rounding, saturation and shared scales do; all 2^32 floats in one number.
//
// broken: --sabotage truncate => [FAILS] bf16(0.9994) = 1
// broken: --sabotage truncate => [FAILS] to nearest even the mean error is 0
// broken: --outlier 1 => [FAILS] beside an outlier int8 is worse than MXFP8
// broken: --outlier 1e6 => [FAILS] beside an outlier int8 is worse than MXFP8
// broken: --plot no/such/folder.svg => --plot no/such/folder.svg: cannot be written
// broken: --sabotage flip => --sabotage flip: one wrong code of 2^32; wanted --digest with it
// with: --plot lines.svg => [holds] stochastic: 0
// picture: --plot lines.svg => docs/images/chapter_02_number_lines.svg
#include "common/args.hpp"         // arguments: the flags
#include "common/claims.hpp"       // claims: what is proved
#include "common/digest.hpp"       // all_digests: all floats, one number a format
#include "common/number_lines.hpp" // all_number_lines: the picture
#include "common/outliers.hpp"     // block_formats; others_off: one large number among small ones

#include "mpt/base/philox.hpp"            // philox
#include "mpt/numeric/format_table.hpp"   // format_table
#include "mpt/numeric/fp8.hpp"            // e4m3, e5m2
#include "mpt/numeric/rounding_modes.hpp" // toward_zero, half_away
#include "mpt/numeric/scalar.hpp"         // fp16, bf16, tf32; narrow, widen
#include "mpt/numeric/stochastic.hpp"     // stochastic

using namespace mpt;

struct options {
    std::string digest = "none", sabotage = "none", plot;
    double outlier = 100;
    unsigned seed = 1;
    int threads = 0;
};

//! [table]
void table() {
    std::printf("%-6s %5s %4s %4s %12s %12s %12s %12s  %s\n", "format", "bits", "e", "m", "largest",
                "normal from", "smallest", "epsilon", "inf NaN");
    for (const format_row& f : format_table)
        std::printf("%-6s %5d %4d %4d %12.6g %12.6g %12.6g %12.6g  %s %s\n", f.name, f.bits,
                    f.exponent_bits, f.mantissa_bits, f.max, f.min_normal, f.min_subnormal,
                    f.epsilon, f.has_infinity ? "yes" : " - ", f.has_nan ? "yes" : " - ");
    std::printf("\n");
}
//! [table]

//! [roundings]
// Mean error of a rounding to bf16 over 2^20 random x in [1, 2), in steps of bf16, which are 2^-7
// there. ties: x has one bit more than a bf16, so that every second x is half way between two.
template <class Round> // (x, random bits) -> bf16
double mean_error(const options& o, bool ties, Round round) {
    double sum = 0;
    for (std::uint32_t i = 0; i < 1u << 20; ++i) {
        const philox4 r = philox({{i, 0, 0, 0}}, o.seed, 2);
        const float x = float_of(0x3F800000 | (r.x[0] & (ties ? 0x7F8000 : 0x7FFFFF)));
        sum += double(widen(round(x, r.x[1])) - x) * 128;
    }
    return sum / (1 << 20);
}
//! [roundings]

// To nearest even; or, to see what that is good for, truncated.
struct rounding {
    bool truncate;
    template <class T>
    T to(float x) const {
        return truncate ? toward_zero<T>(x) : narrow<T>(x);
    }
};

void roundings(const options& o, rounding nearest, claims& claim) {
    const auto even = [&](float x, std::uint32_t) { return nearest.to<bf16>(x); };
    const auto zero = [](float x, std::uint32_t) { return toward_zero<bf16>(x); };
    const auto away = [](float x, std::uint32_t) { return half_away<bf16>(x); };
    const auto chance = [](float x, std::uint32_t r) { return stochastic<bf16>(x, r); };
    double error[4][2]; // of random floats; of numbers among which there are ties
    for (const bool ties : {false, true}) {
        error[0][ties] = mean_error(o, ties, even), error[1][ties] = mean_error(o, ties, zero);
        error[2][ties] = mean_error(o, ties, away), error[3][ties] = mean_error(o, ties, chance);
    }
    std::printf("%-28s %14s %14s\n", "mean error, steps of bf16", "random floats", "half are ties");
    const char* const names[] = {"to nearest, ties to even", "toward zero", "ties away from zero",
                                 "stochastic"};
    for (int i = 0; i < 4; ++i)
        std::printf("%-28s %14.4f %14.4f\n", names[i], error[i][0], error[i][1]);
    std::printf("\n");
    // A single error has a deviation of at most 1/2 step: the mean of 2^20 one of 1/2048.
    const auto is = [&](int i, double floats, double ties) {
        const double bound = 5. / 2048;
        return std::abs(error[i][0] - floats) < bound && std::abs(error[i][1] - ties) < bound;
    };
    // expect: [holds] to nearest even the mean error is 0
    claim(is(0, 0, 0), "to nearest even the mean error is 0");
    // expect: [holds] toward zero it is -1/2 step, of ties alone -1/4
    claim(is(1, -0.5, -0.25), "toward zero it is -1/2 step, of ties alone -1/4");
    // expect: [holds] ties away from zero: 0 where there are none, +1/4 where half are
    claim(is(2, 0, 0.25), "ties away from zero: 0 where there are none, +1/4 where half are");
    // expect: [holds] stochastic: 0
    claim(is(3, 0, 0), "stochastic: 0");
}

std::string shown(float x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4f", double(x));
    return text;
}

//! [facts]
void facts(rounding nearest, claims& claim) {
    // expect: [holds] tf32(1.0001) = 1
    claim(widen(nearest.to<tf32>(1.0001f)) == 1, "tf32(1.0001) = 1");
    // Two 2 x 2 matrices, one of 1.0001 and one of 1; a product in tf32 rounds what it reads.
    const float exact = 1.0001f + 1.0001f, x = widen(nearest.to<tf32>(1.0001f)), seen = x + x;
    // expect: [holds] every element of their product is 2.0002 in fp32 and 2.0000 in tf32
    claim(exact != 2 && seen == 2, join("every element of their product is ", shown(exact),
                                        " in fp32 and ", shown(seen), " in tf32"));
    // expect: [holds] bf16(0.9994) = 1
    claim(widen(nearest.to<bf16>(0.9994f)) == 1, "bf16(0.9994) = 1");
    const auto half = [&](float v) { return widen(nearest.to<fp16>(v)); };
    // expect: [holds] fp16: 1 + 2^-11 -> 1, 2049 -> 2048, 2051 -> 2052
    claim(half(1 + 0x1p-11f) == 1 && half(2049) == 2048 && half(2051) == 2052,
          "fp16: 1 + 2^-11 -> 1, 2049 -> 2048, 2051 -> 2052");
    // expect: [holds] fp16: 2.9e-8 -> 0, 65519 -> 65504, 65520 -> infinity
    claim(half(2.9e-8f) == 0 && half(65519) == 65504 && std::isinf(half(65520)),
          "fp16: 2.9e-8 -> 0, 65519 -> 65504, 65520 -> infinity");
    // expect: [holds] e4m3: 464 -> 448; 465 and 500 -> NaN, or saturated 448
    const auto overflows = [](float v) { return std::isnan(widen(e4m3::unsaturated(v))); };
    claim(widen(e4m3::unsaturated(464)) == 448 && overflows(465) && overflows(500) &&
              widen(e4m3(465.0f)) == 448 && widen(e4m3(500.0f)) == 448,
          "e4m3: 464 -> 448; 465 and 500 -> NaN, or saturated 448");
    // expect: [holds] e5m2: 58000 -> 57344; 61440 -> infinity, or saturated 57344
    claim(widen(e5m2::unsaturated(58000)) == 57344 && std::isinf(widen(e5m2::unsaturated(61440))) &&
              widen(e5m2(61440.0f)) == 57344,
          "e5m2: 58000 -> 57344; 61440 -> infinity, or saturated 57344");
}
//! [facts]

//! [ends]
// Squared again and again in fp16, and then what it leaves when it is taken from itself.
float squared(float x) {
    for (int i = 0; i < 5; ++i) {
        std::printf("%12g", double(x));
        x = widen(fp16(x * x));
    }
    const float rest = widen(fp16(x - x));
    std::printf("   x - x = %s\n", std::isnan(rest) ? "NaN" : shown(rest).c_str());
    return rest;
}
//! [ends]

void ends(claims& claim) {
    std::printf("\nsquared in fp16: ");
    const float small = squared(widen(fp16(0.05f)));
    std::printf("squared in fp16: ");
    const float large = squared(30);
    // expect: [holds] underflow makes zeros; overflow makes infinity, and then NaN
    claim(small == 0 && std::isnan(large),
          "underflow makes zeros; overflow makes infinity, and then NaN");
}

void blocks(const options& o, claims& claim) {
    const auto rows = block_formats();
    std::printf("\n%-18s %8s %16s %18s %g\n", "error of the others", "bits", "without outlier",
                "beside one of", o.outlier);
    double calm[8], beside[8];
    for (std::size_t i = 0; i < 8; ++i) {
        calm[i] = others_off(o.seed, 1, rows[i].through);
        beside[i] = others_off(o.seed, o.outlier, rows[i].through);
        std::printf("%-18s %9.2f %15.2f%% %17.2f%%\n", rows[i].name, rows[i].bits, calm[i],
                    beside[i]);
    }
    std::printf("\n");
    // expect: [holds] without an outlier int8 is better than MXFP8
    claim(calm[0] < calm[2], "without an outlier int8 is better than MXFP8");
    // expect: [holds] beside an outlier int8 is worse than MXFP8
    claim(beside[0] > beside[2], "beside an outlier int8 is worse than MXFP8");
    // expect: [holds] beside an outlier MXFP4 loses all 31, NVFP4 the 15 of its own block
    claim(beside[6] > 99 && beside[7] < 75,
          "beside an outlier MXFP4 loses all 31, NVFP4 the 15 of its own block");
}

int formats(const options& o) {
    const bool truncate = o.sabotage == "truncate", wants = o.digest != "none";
    check(o.sabotage != "flip" || wants,
          "--sabotage flip: one wrong code of 2^32; wanted --digest with it");
    check(!truncate || !wants, "--sabotage truncate: breaks the claims; wanted no --digest");
    if (wants) return all_digests(o.digest, o.sabotage == "flip", o.threads), 0;
    claims claim;
    table();
    roundings(o, {truncate}, claim);
    facts({truncate}, claim);
    ends(claim);
    blocks(o, claim);
    if (!o.plot.empty()) {
        check(all_number_lines().save(o.plot), "--plot ", o.plot,
              ": cannot be written; give a file in a folder that is there");
    }
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "02_formats", "Number formats, to the last bit.");
    args.add("--digest", o.digest, "all 2^32 floats in one number a format, or those of mx", "all",
             {"all", "mx"});
    args.add("--outlier", o.outlier, "in the blocks: one number so large", 0, 1e30);
    args.add("--plot", o.plot, "write the numbers of all formats as an SVG file");
    args.add("--sabotage", o.sabotage, "break it", {"none", "truncate", "flip"});
    args.add("--seed", o.seed, "of the random numbers", 0);
    args.add_threads(o.threads);
    return args.run([&] { return formats(o); });
}
