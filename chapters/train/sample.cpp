// SPDX-License-Identifier: MIT
// sample.cpp -- `./run sample DIR --prompt TEXT`: the model in DIR continues a text, on stdout.
#include "options.hpp"
#include "run_folder.hpp"

#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <thread>

extern template int sample<float>(const options&);
extern template int sample<mpt::fp16>(const options&);
extern template int sample<mpt::bf16>(const options&);

int main(int argc, char** argv) {
    options o, given;
    CLI::App app("The model in DIR continues a text.", "./run sample");
    app.add_option("DIR", given.out, "folder of a run, or of a checkpoint")->required();
    app.add_option("--prompt", given.prompt, "the text to continue; of GPT-2 tokens: their numbers")
        ->capture_default_str();
    app.add_option("--tokens", given.sample_tokens, "length")->capture_default_str();
    app.add_option("--temperature", given.temperature, "0: always the likeliest")
        ->capture_default_str();
    app.add_option("--top-k", given.top_k, "among the k likeliest; 0: all")->capture_default_str();
    app.add_option("--seed", given.seed, "the same seed writes the same text")
        ->capture_default_str();
    app.add_option("--threads", given.threads, "0: all cores")->capture_default_str();
    try {
        app.parse(argc, argv);
        mpt::check(given.sample_tokens >= 0, "--tokens ", given.sample_tokens,
                   ": wanted 0 or more");
        mpt::check(given.temperature >= 0, "--temperature ", given.temperature,
                   ": wanted 0 or more");
        mpt::check(given.top_k >= 0, "--top-k ", given.top_k, ": wanted 0 or more (0: all)");
        mpt::check(given.threads >= 0, "--threads ", given.threads,
                   ": wanted 0 or more (0: all cores)");
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        const std::string all = e.what();
        std::fprintf(stderr, "sample: %s; ./run sample --help lists the options\n",
                     all.substr(0, all.find('\n')).c_str());
        return 2;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "sample: %s\n", e.what());
        return 2;
    }
    try {
        const mpt::checkpoint found = find_checkpoint(given.out);
        restore(o, found.list.state); // the model's shape and precision
        o.out = given.out;
        o.from = found.folder;
        o.prompt = given.prompt;
        o.sample_tokens = given.sample_tokens;
        o.temperature = given.temperature;
        o.top_k = given.top_k;
        o.seed = given.seed;
        o.threads =
            given.threads ? given.threads : int(std::max(1u, std::thread::hardware_concurrency()));
        if (o.precision == "fp16") return sample<mpt::fp16>(o);
        if (o.precision == "bf16") return sample<mpt::bf16>(o);
        return sample<float>(o);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "sample: %s\n", e.what());
        return 1;
    }
}
