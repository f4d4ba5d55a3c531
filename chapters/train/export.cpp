// SPDX-License-Identifier: MIT
// export.cpp -- `./run export DIR --to FILE`: a run's weights, as other programs read GPT-2's.
#include "model_config.hpp"
#include "options.hpp"
#include "run_folder.hpp"

#include "mpt/train/hf_gpt2.hpp"   // write_hf, hf_config
#include "mpt/train/llmc_gpt2.hpp" // write_llmc

#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

// The weights in fp32: the master where there is one, else what there is, exactly.
std::vector<float> weights_of(const mpt::checkpoint& c, const options& o,
                              const std::vector<mpt::named_tensor>& tensors, std::size_t size) {
    const auto has = [&](const char* name) {
        for (const auto& f : c.list.files)
            if (f.name == name) return true;
        return false;
    };
    std::vector<float> all(size);
    const mpt::safetensors::reader file(c.path(has("master.safetensors") ? "master" : "weights"),
                                        "checkpoint");
    const auto read = [&]<class S>(S) {
        std::vector<S> low(size);
        mpt::tensor_reads reads(file, mpt::advice(c.list.state, lasting(o)));
        reads.want(tensors, "", std::span(low));
        reads.nothing_else();
        reads.read();
        if constexpr (sizeof(S) == 4)
            all = std::move(low);
        else
            mpt::cast(low.data(), all.data(), size);
    };
    const std::string type = file.tensors().empty() ? "F32" : file.tensors()[0].dtype;
    if (type == "F16")
        read(mpt::fp16());
    else if (type == "BF16")
        read(mpt::bf16());
    else
        read(0.0f);
    return all;
}

template <class T>
void write(const std::string& form, const std::string& to, const mpt::gpt_config& c, int words,
           const std::vector<mpt::named_tensor>& tensors, std::span<const float> weights) {
    if (form == "hf") {
        const std::string path = fs::path(to).replace_filename("config.json").string(),
                          text = mpt::hf_config(c, words);
        std::ifstream old(path); // named by nobody, so what is there already stays
        mpt::check(
            !old || std::string(std::istreambuf_iterator<char>(old), {}) == text, "--to ", to,
            ": beside it lies a config.json of another model; choose another folder, or move "
            "it away");
        mpt::write_hf<T>(to, c, words, tensors, weights);
        mpt::output_file file("config", path);
        file.write(text);
        file.commit();
    } else if constexpr (std::is_same_v<T, mpt::fp16>)
        throw mpt::error("--type fp16: llm.c has fp32 and bf16; choose one, or --form hf");
    else
        mpt::write_llmc<T>(to, c, words, tensors, weights);
}

} // namespace

int main(int argc, char** argv) {
    std::string dir, to, form, type = "fp32";
    CLI::App app("A run's weights as other programs read GPT-2's: of Hugging Face, where matrices "
                 "are transposed and config.json is written beside, or of llm.c.",
                 "./run export");
    app.add_option("DIR", dir, "folder of a run, or of a checkpoint")->required();
    app.add_option("--to", to, "the file to write")->required();
    app.add_option("--form", form, "hf or llmc; default: by the file's end, .safetensors or .bin")
        ->check(CLI::IsMember({"hf", "llmc"}));
    app.add_option("--type", type, "fp32 (exact), bf16, fp16 (hf only): rounded to nearest even")
        ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
        ->capture_default_str();
    try {
        app.parse(argc, argv);
        if (form.empty() && to.ends_with(".safetensors")) form = "hf";
        if (form.empty() && to.ends_with(".bin")) form = "llmc";
        mpt::check(!form.empty(), "--to ", to,
                   ": ends neither in .safetensors nor in .bin; say which with --form hf|llmc");
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        const std::string all = e.what();
        std::fprintf(stderr, "export: %s; ./run export --help lists the options\n",
                     all.substr(0, all.find('\n')).c_str());
        return 2;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "export: %s\n", e.what());
        return 2;
    }
    try {
        const mpt::checkpoint c = find_checkpoint(dir);
        options o;
        restore(o, c.list.state);
        const int data_words = mpt::scalar<int>(c.list.state, "data_vocabulary");
        const mpt::gpt_config config = model_config(o, data_words);
        // padding is no word: a model of GPT-2's tokens has 50257, and 50304 rows
        const int words = o.vocabulary == 0 ? data_words : o.vocabulary;
        mpt::gpt_tensors t;
        const mpt::layout map = mpt::gpt_layout(config, t);
        const auto tensors = mpt::named_tensors(map.tensors);
        const std::vector<float> weights = weights_of(c, o, tensors, map.size());
        if (type == "bf16")
            write<mpt::bf16>(form, to, config, words, tensors, weights);
        else if (type == "fp16")
            write<mpt::fp16>(form, to, config, words, tensors, weights);
        else
            write<float>(form, to, config, words, tensors, weights);
        std::fprintf(stderr, "export: %s, step %llu, to %s (%s, %s)\n", c.folder.c_str(),
                     static_cast<unsigned long long>(c.list.step), to.c_str(), form.c_str(),
                     type.c_str());
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "export: %s\n", e.what());
        return 1;
    }
}
