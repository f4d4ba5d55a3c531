// SPDX-License-Identifier: MIT
// options.cpp -- the command line of `train`, its checks, and the options that a checkpoint keeps.
#include "model_config.hpp"
#include "optimizer.hpp"
#include "options.hpp"

#include "mpt/base/error.hpp"              // check, error
#include "mpt/base/version.hpp"            // version
#include "mpt/comm/launch_environment.hpp" // launch
#include "mpt/dist/offload_place.hpp"      // parse_offload
#include "mpt/nn/checkpointing.hpp"        // checkpointing: parse
#include "mpt/train/loss_scale.hpp"        // shortest
#include "run_folder.hpp"                  // find_checkpoint, latest_run

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>

namespace {

// Bytes as people write them: 1000000, 64M, 2G (powers of 1024).
std::size_t bytes_of(const std::string& text) {
    std::size_t value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, failed] = std::from_chars(text.data(), last, value);
    const std::string unit(end, last);
    const std::string units = "KMGT";
    const std::size_t power = unit.empty() ? 0 : units.find(char(std::toupper(unit[0]))) + 1;
    const bool known = unit.empty() || (power > 0 && (unit.size() == 1 || unit.substr(1) == "iB"));
    mpt::check(failed == std::errc() && known, "--device-memory ", text,
               ": not a number of bytes; write 500000000, 64M or 2G");
    for (std::size_t i = 0; i < power; ++i) {
        mpt::check(value <= SIZE_MAX / 1024, "--device-memory ", text,
                   ": more than there is; write less");
        value *= 1024;
    }
    return value;
}

void add_options(CLI::App& app, options& o) {
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.add_option(
           "--precision", o.precision,
           "weights and activations: fp32, tf32 (fp32, products of rounded operands), fp16, bf16")
        ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16"}))
        ->capture_default_str();
    const char* model = "Model";
    app.add_option("--layers", o.layers, "blocks")->group(model)->capture_default_str();
    app.add_option("--heads", o.heads, "query heads")->group(model)->capture_default_str();
    app.add_option("--kv-heads", o.kv_heads, "key/value heads; 0: as many as --heads")
        ->group(model)
        ->capture_default_str();
    app.add_option("--channels", o.channels, "width")->group(model)->capture_default_str();
    app.add_option("--context", o.context, "tokens a row")->group(model)->capture_default_str();
    app.add_option("--vocabulary", o.vocabulary,
                   "rows of the token table; 0: as the data needs, GPT-2's 50257 as 50304")
        ->group(model)
        ->capture_default_str();
    app.add_option(
           "--init", o.init,
           "begin with GPT-2's weights: a safetensors file of Hugging Face, or llm.c's .bin; "
           "the sizes are then the file's, --context at most")
        ->group(model);
    app.add_option("--dropout", o.dropout, "share of activations dropped, 0 up to below 1")
        ->group(model)
        ->capture_default_str();

    app.add_option("--norm", o.norm,
                   "layernorm; tfixup: no layer norms, not even the last, but T-Fixup's first "
                   "weights, which need no warm-up; none: without these, too")
        ->check(CLI::IsMember({"layernorm", "tfixup", "none"}))
        ->group(model)
        ->capture_default_str();
    app.add_option("--residual-scale", o.residual_scale,
                   "a learnable factor for each branch: its first value, 0 (ReZero) or another; "
                   "none")
        ->group(model)
        ->type_name("NUMBER")
        ->capture_default_str();
    app.add_option(
           "--checkpoint-activations", o.checkpointing,
           "run blocks again in backward instead of keeping what they computed; every:K: in "
           "segments of K blocks; sqrt: in about as many as each has blocks; blocks:0,2,5: "
           "these; none. The same bits for less memory and more time")
        ->group(model)
        ->type_name("PLAN")
        ->capture_default_str();

    const char* work = "Data and steps";
    app.add_option(
           "--data", o.data,
           "a text file (its bytes are the tokens) or a file of GPT-2 tokens as llm.c writes it; "
           "without: the corpus that comes with mpt")
        ->group(work);
    app.add_option("--steps", o.steps, "steps in all; sets the learning rate's schedule")
        ->group(work)
        ->capture_default_str();
    app.add_option("--stop-after", o.stop_after, "save and exit after this step; 0: after the last")
        ->group(work)
        ->capture_default_str();
    app.add_option("--micro-batches", o.micro_batches, "gradients accumulated over so many a step")
        ->group(work)
        ->capture_default_str();
    app.add_option("--batch", o.batch, "rows a micro-batch, on each rank")
        ->group(work)
        ->capture_default_str();
    app.add_option("--seed", o.seed, "of weights, data order, dropout and the sample")
        ->group(work)
        ->capture_default_str();

    const char* adam = "Optimizer";
    app.add_option("--optimizer", o.optimizer,
                   "adamw, adam8bit (adamw with moments in 8 bits), adam (decay in the gradient), "
                   "sgd, lamb (a rate a tensor)")
        ->check(CLI::IsMember({"adamw", "adam8bit", "adam", "sgd", "lamb"}))
        ->group(adam)
        ->capture_default_str();
    app.add_option("--schedule", o.schedule,
                   "of the rate: cosine (after warm-up, down to --min-lr), warmup-linear and "
                   "warmup-log (from --min-lr up, then --lr), constant")
        ->check(CLI::IsMember({"cosine", "warmup-linear", "warmup-log", "constant"}))
        ->group(adam)
        ->capture_default_str();
    app.add_option("--lr", o.lr, "learning rate after warm-up; sgd wants some 30 times adamw's")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--min-lr", o.min_lr,
                   "at the last step, -1: a tenth of --lr; with warmup-*: at the first, -1: 0")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--warmup", o.warmup, "applied steps; -1: a twentieth of --steps")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--weight-decay", o.weight_decay, "of matrices")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--beta1", o.beta1, "of all but sgd")->group(adam)->capture_default_str();
    app.add_option("--beta2", o.beta2, "of all but sgd")->group(adam)->capture_default_str();
    app.add_option("--moments", o.moments,
                   "of adamw: fp32, or bf16, rounded stochastically: 4 bytes a parameter less")
        ->check(CLI::IsMember({"fp32", "bf16"}))
        ->group(adam)
        ->capture_default_str();
    app.add_option("--momentum", o.momentum, "of sgd; 0: none, and no buffer for it")
        ->group(adam)
        ->capture_default_str();
    app.add_flag("--stochastic-rounding", o.stochastic_rounding,
                 "16-bit weights without an fp32 master: 4 bytes a parameter less")
        ->group(adam);
    app.add_option("--clip", o.clip, "largest global norm of the gradients; 0: any")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--scale", o.scale,
                   "loss scale: dynamic, or a number; default: dynamic for fp16, 1 for the others")
        ->group(adam);
    app.add_option("--scale-start", o.scale_start, "dynamic scale at the first step")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--scale-min", o.scale_min,
                   "dynamic scale's floor; an overflow there ends the run")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--scaler", o.scaler,
                   "who moves a dynamic scale: grad (PyTorch's GradScaler), or deepspeed "
                   "(hysteresis: an outlier alone does not lower it)")
        ->check(CLI::IsMember({"grad", "deepspeed"}))
        ->group(adam)
        ->capture_default_str();
    app.add_option("--scale-interval", o.scale_interval,
                   "finite steps before a dynamic scale doubles; 0: 2000, with deepspeed 1000")
        ->group(adam)
        ->capture_default_str();
    app.add_option("--scale-hysteresis", o.scale_hysteresis,
                   "of deepspeed: the overflow that halves the scale; 1: each")
        ->group(adam)
        ->capture_default_str();
    app.add_flag("--scale-consecutive-hysteresis", o.scale_consecutive_hysteresis,
                 "of deepspeed: every finite step refills the hysteresis")
        ->group(adam);

    const char* spread = "Ranks";
    app.add_option("--ranks", o.ranks,
                   "ranks, as threads of this program; under mpirun its processes, with --device "
                   "cuda those of torchrun or srun, too, and this is left out. A step's batch is "
                   "ranks x micro-batches x batch. May be another on resume, as the two below")
        ->group(spread)
        ->capture_default_str();
    app.add_option("--zero", o.zero,
                   "stage of ZeRO, what ranks share out: 0: nothing (ddp), 1: what the optimizer "
                   "keeps, 2: gradients, too, 3: weights, too")
        ->group(spread)
        ->capture_default_str();
    app.add_option("--reduce", o.reduce,
                   "add gradients over ranks once a step, or with every micro-batch: other bits, "
                   "by rounding; default: once, from --zero 2 on every")
        ->check(CLI::IsMember({"once", "every"}))
        ->group(spread);
    app.add_option("--sums", o.sums,
                   "of processes that speak NCCL: rank-order (the bits of all other ranks), nccl "
                   "(in whatever order it chooses)")
        ->check(CLI::IsMember({"rank-order", "nccl"}))
        ->group(spread)
        ->capture_default_str();
    app.add_flag("--narrate", o.narrate,
                 "print who gathers, reduces and frees what in the first step")
        ->group(spread);

    const char* machine = "Machine";
    app.add_option("--device", o.device,
                   "cpu (plain loops), emulator (the CUDA kernels, emulated: slow, for small "
                   "models), cuda (a GPU; several ranks: each process one, by NCCL, under "
                   "mpirun through the host). A run may be resumed on another")
        ->check(CLI::IsMember({"cpu", "emulator", "cuda"}))
        ->group(machine)
        ->capture_default_str();
    app.add_option("--products", o.products,
                   "with --device cuda, who multiplies matrices: cublas (the default where it was "
                   "found), kernels (mpt's own). A run may be resumed with the other")
        ->check(CLI::IsMember({"kernels", "cublas"}))
        ->group(machine);
    app.add_option("--threads", o.threads, "of all ranks together; 0: all cores")
        ->group(machine)
        ->capture_default_str();
    app.add_option_function<std::string>(
           "--device-memory", [&o](const std::string& text) { o.device_memory = bytes_of(text); },
           "budget of each rank in bytes (64M, 2G): what does not fit is refused; default: none")
        ->group(machine)
        ->type_name("BYTES");

    app.add_option("--offload", o.offload,
                   "keep what the optimizer keeps, and gradients, outside of the device: host (its "
                   "memory), file (in --offload-dir, with --zero 3 weights, too; gradients in the "
                   "host's memory); none. The same bits; may be another on resume")
        ->check(CLI::IsMember({"none", "host", "file"}))
        ->group(machine)
        ->capture_default_str();
    app.add_option("--offload-dir", o.offload_dir,
                   "folder for --offload file, on a fast disk with 12 bytes a parameter free, with "
                   "--zero 3 and 16-bit weights 14; the files are gone with the run")
        ->group(machine)
        ->type_name("DIR");

    const char* left = "Output";
    app.add_option("--out", o.out, "folder of the run; default: a fresh runs/NNN")->group(left);
    app.add_flag("--resume", o.resume,
                 "go on from the newest checkpoint in --out (default: the latest of runs/)")
        ->group(left);
    app.add_option("--from", o.from, "with --resume: an older checkpoint, as step-00000150")
        ->group(left);
    app.add_option("--save-every", o.save_every, "steps between checkpoints; 0: ten a run")
        ->group(left)
        ->capture_default_str();
    app.add_option("--validate-every", o.validate_every, "steps between validations; 0: ten a run")
        ->group(left)
        ->capture_default_str();
    app.add_option("--trace", o.trace,
                   "write a trace for ui.perfetto.dev to this file, all ranks' rows in one")
        ->group(left);
    app.add_option("--prompt", o.prompt, "the text that the closing sample continues")
        ->group(left)
        ->capture_default_str();
    app.add_option("--sample-tokens", o.sample_tokens, "length of the sample; 0: none")
        ->group(left)
        ->capture_default_str();
    app.add_option("--temperature", o.temperature, "of the sample; 0: always the likeliest")
        ->group(left)
        ->capture_default_str();
    app.add_option("--top-k", o.top_k, "sample among the k likeliest; 0: all")
        ->group(left)
        ->capture_default_str();
}

void check_plan(const options& o) {
    try {
        mpt::checkpointing::parse(o.checkpointing, o.layers);
    } catch (const mpt::error& e) {
        throw mpt::error(mpt::join("--checkpoint-activations: ", e.what()));
    }
}

template <class V>
void at_least(const char* name, V value, V least, const char* what) {
    mpt::check(value >= least, name, ' ', value, ": wanted ", least, " or more ", what);
}

// May a loss scale be it? 1 over a subnormal one would be infinite.
bool has_inverse(float scale) { return scale > 0 && std::isnormal(scale); }

// A finite number, or this word.
void number_or(const char* name, const std::string& text, const char* word, const char* wanted) {
    if (text == word) return;
    char* end = nullptr;
    const float value = std::strtof(text.c_str(), &end);
    mpt::check(!text.empty() && *end == 0 && std::isfinite(value), name, ' ', text, ": wanted ",
               wanted);
}

// Values that no single option shows to be wrong, and ranges. One line each.
void check_values(const options& o) {
    at_least("--batch", o.batch, 1, "rows");
    at_least("--micro-batches", o.micro_batches, 1, "a step");
    at_least("--steps", o.steps, 1L, "steps");
    at_least("--stop-after", o.stop_after, 0L, "steps (0: after the last)");
    mpt::check(o.stop_after <= o.steps, "--stop-after ", o.stop_after, " of --steps ", o.steps,
               ": wanted at most the last step");
    at_least("--layers", o.layers, 1, "blocks");
    at_least("--heads", o.heads, 1, "heads");
    at_least("--kv-heads", o.kv_heads, 0, "heads (0: as --heads)");
    at_least("--channels", o.channels, 1, "channels");
    at_least("--context", o.context, 1, "tokens");
    at_least("--vocabulary", o.vocabulary, 0, "words (0: as the data needs)");
    at_least("--ranks", o.ranks, 1, "ranks");
    mpt::check(o.zero >= 0 && o.zero <= 3, "--zero ", o.zero, ": wanted 0, 1, 2 or 3");
    at_least("--threads", o.threads, 0, "threads (0: all cores)");
    at_least("--save-every", o.save_every, 0L, "steps (0: ten a run)");
    at_least("--validate-every", o.validate_every, 0L, "steps (0: ten a run)");
    at_least("--sample-tokens", o.sample_tokens, 0, "tokens");
    at_least("--top-k", o.top_k, 0, "tokens (0: all)");
    at_least("--scale-interval", o.scale_interval, 0, "steps (0: the scaler's own)");
    at_least("--scale-hysteresis", o.scale_hysteresis, 1, "overflows");
    const auto in_range = [](const char* name, float value, bool ok, const char* wanted) {
        mpt::check(ok && std::isfinite(value), name, ' ', value, ": wanted ", wanted,
                   std::isfinite(value) ? "" : ", and finite");
    };
    in_range("--dropout", o.dropout, o.dropout >= 0 && o.dropout < 1, "0 up to below 1");
    in_range("--lr", o.lr, o.lr > 0, "more than 0");
    number_or("--residual-scale", o.residual_scale, "none", "none, or a finite number as 0 or 1");
    in_range("--min-lr", o.min_lr, o.min_lr >= 0 || o.min_lr == -1,
             "0 or more, or -1 for a tenth of --lr");
    mpt::check(o.min_lr <= o.lr, "--min-lr ", o.min_lr, " is above --lr ", o.lr,
               ": wanted at most --lr");
    mpt::check(o.warmup >= -1 && o.warmup < o.steps, "--warmup ", o.warmup, " of --steps ", o.steps,
               ": wanted less than --steps, or -1 for a twentieth");
    in_range("--weight-decay", o.weight_decay, o.weight_decay >= 0, "0 or more");
    in_range("--beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "0 up to below 1");
    in_range("--beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "0 up to below 1");
    in_range("--momentum", o.momentum, o.momentum >= 0 && o.momentum < 1, "0 up to below 1");
    mpt::check(!o.stochastic_rounding || o.precision == "fp16" || o.precision == "bf16",
               "--stochastic-rounding with --precision ", o.precision,
               ": its weights are fp32 and have no master; wanted bf16 or fp16");
    mpt::check(o.warmup == -1 || o.warmup >= 2 || !o.schedule.starts_with("warmup"), "--warmup ",
               o.warmup, " with --schedule ", o.schedule, ": wanted 2 or more, or -1");
    in_range("--clip", o.clip, o.clip >= 0, "0 or more");
    in_range("--scale-start", o.scale_start, has_inverse(o.scale_start), "1.2e-38 or more");
    in_range("--scale-min", o.scale_min, o.scale_min >= 0 && o.scale_min <= o.scale_start,
             "0 up to --scale-start");
    mpt::check(o.scaler != "deepspeed" || o.scale_min > 0, "--scale-min ", o.scale_min,
               ": --scaler deepspeed has a floor always; give more than 0");
    in_range("--temperature", o.temperature, o.temperature >= 0, "0 or more");
    if (!o.scale.empty() && o.scale != "dynamic") {
        char* end = nullptr;
        const float value = std::strtof(o.scale.c_str(), &end);
        mpt::check(*end == 0 && has_inverse(value), "--scale ", o.scale,
                   ": wanted dynamic, or a finite number above 0, 1.2e-38 or more");
    }
}

// Options of a scaler, or of --scaler deepspeed, where nothing would listen to them.
void check_scaler(const CLI::App& app, const options& o) {
    for (const char* name : {"--scale-hysteresis", "--scale-consecutive-hysteresis"})
        mpt::check(app.count(name) == 0 || o.scaler == "deepspeed", name, ": --scaler ", o.scaler,
                   " has no hysteresis; add --scaler deepspeed");
    const auto has_mover = [&](const std::string& what) {
        mpt::check(!fixed_scale(o), what, ": the scale is fixed ",
                   o.scale.empty() ? "at 1 with --precision " + o.precision
                                   : "by --scale " + o.scale,
                   " and nobody moves it; add --scale dynamic");
    };
    if (o.scaler == "deepspeed") has_mover("--scaler deepspeed");
    for (const char* name : {"--scale-start", "--scale-min", "--scale-interval"})
        if (app.count(name) > 0) has_mover(name);
}

// Options that a device has nothing for.
void check_device(const CLI::App& app, const options& o, const mpt::launch& place) {
    const auto refuse = [&](bool is, const std::string& what, const char* instead) {
        mpt::check(!is, what, " with --device ", o.device, ": ", instead);
    };
    refuse(o.products == "cublas" && o.device != "cuda", "--products cublas",
           "it is a library for GPUs; leave it out, or use --device cuda");
    refuse(app.count("--sums") > 0 && (o.device != "cuda" || !o.processes || place.mpi),
           "--sums " + o.sums,
           "it is of processes that speak NCCL, which torchrun or srun starts; all others add in "
           "rank order, leave it out");
    refuse(o.products == "kernels" && o.device == "cpu", "--products kernels",
           "the CPU multiplies by its own loop or its BLAS; leave it out, or use another device");
    if (o.device == "cpu") return;
    const std::string n = std::to_string(o.ranks);
    const bool alone = o.device == "cuda" && !o.processes;
    refuse(alone && o.ranks > 1, "--ranks " + n,
           ("ranks on GPUs are processes; start them with torchrun --no-python --nproc-per-node " +
            n + " ./run train, with srun -n " + n + " or mpirun -n " + n + ", and leave it out")
               .c_str());
    refuse(alone && o.zero > 0, "--zero " + std::to_string(o.zero),
           "one process has nothing to share out; start several, one a GPU, with torchrun, srun or "
           "mpirun");
    refuse(o.optimizer != "adamw" && o.optimizer != "adam8bit", "--optimizer " + o.optimizer,
           "the device has adamw and adam8bit; choose one, or --device cpu");
    refuse(o.moments != "fp32", "--moments " + o.moments,
           "the device keeps them in fp32, or in 8 bits with --optimizer adam8bit");
    refuse(o.scaler != "grad", "--scaler " + o.scaler,
           "the device moves its scale by the rules of grad; choose it, or --device cpu");
    refuse(app.count("--trace") > 0, "--trace",
           "the host does not know when the device does what; use the device's own profiler");
}

// Bytes a parameter in files, of all ranks together: master, m and v as far as the optimizer keeps
// them, and weights.
int file_bytes(const options& o) {
    const auto keeps = optimizer(o).kind();
    const int moments = keeps == mpt::optimizer_kind::momentum ? 1
                        : keeps == mpt::optimizer_kind::sgd    ? 0
                                                               : 2;
    const int weight = o.precision == "fp16" || o.precision == "bf16" ? 2 : 4;
    return 4 * (1 + moments) + (weights_in_files(o) ? weight : 0);
}

// States outside of the device: of which optimizers, and where.
void check_offload(const options& o) {
    const mpt::offload_to where = mpt::parse_offload(o.offload, o.offload_dir);
    if (where == mpt::offload_to::none) return;
    mpt::check(o.device == "cpu", "--offload ", o.offload, " with --device ", o.device,
               ": steps are the device's own there; choose --device cpu, or --offload none");
    mpt::check(!o.stochastic_rounding, "--offload ", o.offload,
               " with --stochastic-rounding: weights would lose what no master keeps; leave one of "
               "the two out");
    optimizer(o).require_offloadable(o.moments == "fp32" ? "--optimizer " + o.optimizer
                                                         : "--moments " + o.moments);
    if (where == mpt::offload_to::host) return;
    std::error_code none;
    mpt::check(fs::is_directory(o.offload_dir, none), "--offload-dir ", o.offload_dir,
               ": is no folder; make it, on a fast disk with ", file_bytes(o),
               " bytes a parameter free");
}

// Options that the optimizer or the schedule has no use for.
void check_optimizer(const CLI::App& app, const options& o) {
    const auto only = [&](const char* name, bool used, const std::string& beside) {
        mpt::check(app.count(name) == 0 || used, name, " with ", beside,
                   ": it has no use for that; leave one of the two out");
    };
    only("--moments", o.optimizer == "adamw", "--optimizer " + o.optimizer);
    only("--momentum", o.optimizer == "sgd", "--optimizer " + o.optimizer);
    only("--beta1", o.optimizer != "sgd", "--optimizer sgd");
    only("--beta2", o.optimizer != "sgd", "--optimizer sgd");
    only("--min-lr", o.schedule != "constant", "--schedule constant");
    only("--warmup", o.schedule != "constant", "--schedule constant");
}

} // namespace

std::map<std::string, std::string> lasting(const options& o) {
    return {{"precision", o.precision},
            {"layers", std::to_string(o.layers)},
            {"heads", std::to_string(o.heads)},
            {"kv-heads", std::to_string(o.kv_heads)},
            {"channels", std::to_string(o.channels)},
            {"context", std::to_string(o.context)},
            {"vocabulary", std::to_string(o.vocabulary)},
            {"dropout", mpt::shortest(o.dropout)},
            {"norm", o.norm},
            {"residual-scale", o.residual_scale},
            {"checkpoint-activations", o.checkpointing},
            {"data", o.data},
            {"micro-batches", std::to_string(o.micro_batches)},
            {"batch", std::to_string(o.batch)},
            {"steps", std::to_string(o.steps)},
            {"seed", std::to_string(o.seed)},
            {"optimizer", o.optimizer},
            {"moments", o.moments},
            {"schedule", o.schedule},
            {"momentum", mpt::shortest(o.momentum)},
            {"stochastic-rounding", o.stochastic_rounding ? "true" : "false"},
            {"lr", mpt::shortest(o.lr)},
            {"min-lr", mpt::shortest(o.min_lr)},
            {"warmup", std::to_string(o.warmup)},
            {"weight-decay", mpt::shortest(o.weight_decay)},
            {"beta1", mpt::shortest(o.beta1)},
            {"beta2", mpt::shortest(o.beta2)},
            {"clip", mpt::shortest(o.clip)},
            {"scale", o.scale},
            {"scale-start", mpt::shortest(o.scale_start)},
            {"scale-min", mpt::shortest(o.scale_min)},
            {"scale-interval", std::to_string(o.scale_interval)},
            {"scaler", o.scaler},
            {"scale-hysteresis", std::to_string(o.scale_hysteresis)},
            {"scale-consecutive-hysteresis", o.scale_consecutive_hysteresis ? "true" : "false"},
            {"save-every", std::to_string(o.save_every)},
            {"validate-every", std::to_string(o.validate_every)}};
}

void restore(options& o, const std::map<std::string, std::string>& saved) {
    CLI::App app;
    add_options(app, o);
    std::vector<std::string> words;
    for (const auto& [name, value] : lasting(o)) {
        const auto found = saved.find(name);
        mpt::check(found != saved.end(), "checkpoint: it does not say --", name,
                   "; it was written by another program or version");
        if (!found->second.empty()) words.push_back("--" + name + "=" + found->second);
    }
    std::reverse(words.begin(), words.end()); // CLI11 takes them from the back
    try {
        app.parse(words);
    } catch (const CLI::ParseError& e) {
        throw mpt::error(mpt::join("checkpoint: its options cannot be read (", e.what(),
                                   "); it was written by another program or version"));
    }
    check_values(o);
    check_plan(o);
}

// The sizes of the weights in --init; what is given must agree.
static void take_sizes(const CLI::App& app, options& o) {
    mpt::check(o.norm == "layernorm" && o.residual_scale == "none", "--init ", o.init,
               o.norm == "layernorm" ? " with --residual-scale " + o.residual_scale
                                     : " with --norm " + o.norm,
               ": GPT-2 has layer norms and no scales; leave the option out");
    const mpt::gpt_config c = sizes_of(o.init, app.count("--heads") ? o.heads : 0);
    const auto take = [&](const char* name, int& mine, int file, bool fewer = false) {
        const bool given = app.count(name) > 0 && mine != 0;
        mpt::check(!given || mine == file || (fewer && mine < file), name, ' ', mine, ": ", o.init,
                   " has ", file, "; leave the option out");
        if (!given) mine = file;
    };
    take("--layers", o.layers, c.layers);
    take("--heads", o.heads, c.heads);
    take("--kv-heads", o.kv_heads, c.kv_heads);
    take("--channels", o.channels, c.channels);
    take("--context", o.context, c.context, true);
    if (app.count("--vocabulary") == 0) o.vocabulary = c.vocabulary; // without the padding
}

// Ranks that are threads, or the processes that a launcher has started.
static void take_ranks(const CLI::App& app, options& o, const mpt::launch& place) {
    const int started = place.world_size;
    const std::string n = std::to_string(started);
    if (started > 1 && o.device != "cuda")
        mpt::check(place.mpi, place.said,
                   ": on the CPU ranks are processes of MPI; start with "
                   "mpirun -n ",
                   n, " ./run train, or leave these variables out and give --ranks ", n,
                   " for threads");
    mpt::check(started == 1 || app.count("--ranks") == 0 || o.ranks == started, "--ranks ", o.ranks,
               ": ", place.said, " has started ", n, "; leave --ranks out");
    mpt::check(o.trace.empty() || place.local_size == 0 || place.local_size == started,
               "--trace: ", place.local_size, " of ", started,
               " ranks are on this machine; clocks of several differ, leave it out");
    o.processes = place.mpi || started > 1;
    o.again = place.mpi ? "mpirun -n " + n + ' ' : o.processes ? "as " + n + " processes, " : "";
    if (started > 1) o.ranks = started;
    mpt::check(!o.narrate || shared(o), "--narrate with one rank: it gathers and frees nothing; "
                                        "add --ranks 2, or --zero 3");
}

options parse_train(std::vector<std::string> words, const mpt::launch& place) {
    options o;
    CLI::App app(
        "Train a small GPT on text, in mixed precision with master weights and loss scaling.\n"
        "Without options: the corpus that comes with mpt, fp16, about 3 minutes on 2 cores.",
        "./run train");
    app.set_version_flag("--version", mpt::version);
    app.get_formatter()->column_width(34);
    add_options(app, o);
    try {
        std::reverse(words.begin(), words.end()); // CLI11 takes them from the back
        app.parse(words);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) std::exit(app.exit(e)); // --help, --version
        const std::string all = e.what();
        throw mpt::error(all.substr(0, all.find('\n')) + "; ./run train --help lists the options");
    }
    if (!o.resume) check_values(o); // else beside the checkpoint's: restore() does
    mpt::check(o.from.empty() || (o.resume && mpt::plain_name(o.from)), "--from ", o.from,
               ": wanted the name of a checkpoint in --out, as step-00000150, and --resume");
    mpt::check(o.init.empty() || !o.resume, "--init ", o.init,
               " with --resume: the checkpoint has the weights; leave one of the two out");
    if (!o.init.empty()) take_sizes(app, o);
    if (o.resume) {
        if (o.out.empty()) o.out = latest_run();
        const mpt::checkpoint found = find_checkpoint(o.out, true, o.from);
        o.from = found.folder;
        const auto& saved = found.list.state;
        options before;
        restore(before, saved);
        const std::string plan = "checkpoint-activations"; // changes no bit, so it may be changed
        const bool given = app.count("--" + plan) > 0;
        // its tokens' check sum is saved: the same text may lie elsewhere by now
        const std::string data = app.count("--data") && saved.count("data_crc32c") ? o.data : "";
        const auto was = lasting(before), now = lasting(o);
        for (const auto& [name, value] : now)
            mpt::check(app.count("--" + name) == 0 || value == was.at(name) || name == plan ||
                           (name == "data" && !data.empty()),
                       "--resume: the run in ", o.out, " has --", name, ' ',
                       was.at(name).empty() ? "(default)" : was.at(name), ", given is ", value,
                       "; leave it out, or begin another run");
        restore(o, saved);
        if (given) o.checkpointing = now.at(plan);
        if (!data.empty()) o.data = data;
    }
    take_ranks(app, o, place);
    check_scaler(app, o);
    check_optimizer(app, o);
    check_device(app, o, place);
    check_offload(o);
    check_plan(o); // the number of layers is known now
    if (o.threads == 0) o.threads = int(std::max(1u, std::thread::hardware_concurrency()));
    const int here = o.processes && place.local_size > 0 ? place.local_size : o.ranks;
    o.threads = std::max(1, o.threads / here);
    return o;
}
