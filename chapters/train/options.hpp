// SPDX-License-Identifier: MIT
// options.hpp -- what a training run is told. `./run train --help` shows the same list.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mpt {
class communicator;
class mpi_process;
struct launch;
} // namespace mpt

struct options {
    // the model
    std::string precision = "fp16"; // fp32, tf32, fp16, bf16
    int layers = 4, heads = 4, kv_heads = 0, channels = 128, context = 128; // kv_heads 0: as heads
    int vocabulary = 0;                                                     // 0: the data's, padded
    float dropout = 0;
    std::string norm = "layernorm";      // layernorm, none, tfixup (none, with its own weights)
    std::string residual_scale = "none"; // learnable, of each branch: none, or its first value
    std::string checkpointing = "none";  // of activations: none, every:K, sqrt, blocks:0,2,5

    // the data: a text file (its bytes are the tokens) or a file of GPT-2 tokens; "": the corpus
    std::string data;

    // a step: micro_batches of batch rows of context tokens, on each rank
    int micro_batches = 1, batch = 16;
    long steps = 1500;   // in all: sets the learning rate's schedule
    long stop_after = 0; // save and exit after this step; 0: after the last
    std::uint64_t seed = 1;

    // the optimizer
    std::string optimizer = "adamw"; // adamw, adam8bit, adam, sgd, lamb
    std::string moments = "fp32";    // of adamw: fp32, bf16
    std::string schedule = "cosine"; // cosine, warmup-linear, warmup-log, constant
    float lr = 2e-3f, min_lr = -1;   // cosine: at the end, -1: a tenth of lr; warmup-*: at first
    long warmup = -1;                // applied steps; -1: a twentieth of steps
    float weight_decay = 0.1f, beta1 = 0.9f, beta2 = 0.95f, momentum = 0.9f; // momentum: of sgd
    bool stochastic_rounding = false; // 16-bit weights without a master
    float clip = 1;                   // the gradients' global norm at most; 0: off

    // loss scale: "dynamic", a number, or "" for dynamic in fp16 and 1 elsewhere
    std::string scale;
    float scale_start = 65536, scale_min = 1; // of a dynamic scale
    std::string scaler = "grad";              // which machine moves it: grad, deepspeed
    int scale_interval = 0;   // finite steps before it doubles; 0: 2000, with deepspeed 1000
    int scale_hysteresis = 2; // deepspeed: the overflow that halves it
    bool scale_consecutive_hysteresis = false; // ... refilled by every finite step

    // the ranks
    int ranks = 1;          // that share a step's batch, as threads of this program
    bool processes = false; // ... or as processes: of MPI, or each with a GPU
    std::string again;      // processes: how they are started, before the program's name
    int zero = 0;           // stage of ZeRO: 0 (ddp), 1, 2, 3
    std::string reduce; // gradients over ranks: once a window, every micro-batch; "": by the stage
    std::string sums = "rank-order"; // of NCCL's ranks: rank-order (the bits of all others), nccl
    bool narrate = false; // print who gathers, reduces and frees what in the first step

    // the machine
    std::string device = "cpu";    // cpu (plain loops), emulator (kernels, emulated), cuda (a GPU)
    std::string products;          // of cuda: kernels, cublas; "": cublas where it was found
    int threads = 0;               // of each rank; given: of all together, 0: all cores
    std::size_t device_memory = 0; // bytes; 0: no budget
    std::string offload = "none"; // where the optimizer's states are: none (the device), host, file
    std::string offload_dir;      // of file: the folder

    // what it leaves behind
    std::string out;  // "": a fresh runs/NNN
    std::string init; // weights to begin with: a file of Hugging Face or llm.c; "": random ones
    bool resume = false;
    std::string from; // resume, sample: of this checkpoint; given by name, then its folder
    long save_every = 0, validate_every = 0; // steps; 0: ten times a run
    std::string trace;                       // a file for Perfetto; "": none
    std::string prompt = "The ";
    int sample_tokens = 400;
    float temperature = 0.8f;
    int top_k = 40;
};

/// Reads the command line of `train`; with --resume also the checkpoint's options, which a given
/// option may not contradict. place: of this process among those that a launcher started. Throws
/// mpt::error; prints --help and exits by itself.
options parse_train(std::vector<std::string> words, const struct mpt::launch& place);

/// Does S stay what it is? By --scale, or because the precision needs none.
inline bool fixed_scale(const options& o) {
    return o.scale.empty() ? o.precision != "fp16" : o.scale != "dynamic";
}

/// Is there more than one rank, or a strategy that is made for more?
inline bool shared(const options& o) { return o.ranks > 1 || o.zero > 0; }

/// Do a rank's shards of the weights lie in files, beside the optimizer's states? In stage 3, where
/// a device needs them a unit at a time. --offload host leaves them on the device.
inline bool weights_in_files(const options& o) { return o.zero == 3 && o.offload == "file"; }

/// Are gradients reduced over ranks once a window, or with every micro-batch? From stage 2 on a
/// rank keeps its shard of them only, and that takes every; so does one rank with its weights in
/// files, which would have a window's sums on its device (the same bits).
inline bool reduces_once(const options& o) {
    if (o.ranks == 1 && weights_in_files(o)) return false;
    return o.reduce.empty() ? o.zero < 2 : o.reduce == "once";
}

/// The options that make the run what it is: saved with a checkpoint, the same on resume.
std::map<std::string, std::string> lasting(const options& o);

/// `lasting` read back.
void restore(options& o, const std::map<std::string, std::string>& saved);

/// The whole run of one rank, one translation unit a precision. Returns the exit status.
template <class T>
int train(const options& o, mpt::communicator& comm);

/// The same on kernels. Ops: the list of operations.
template <class T, class Ops>
int train_on_device(const options& o, mpt::communicator& comm);

/// The same on a GPU, of a library that nvcc has compiled; where it was not built, throws.
int train_on_cuda(const options& o, mpt::communicator& comm);

/// ... as one of several processes, each with a GPU. process: of MPI; nullptr: they speak NCCL.
int train_on_gpus(const options& o, const struct mpt::launch& place, mpt::mpi_process* process);

/// Continue o.prompt from the checkpoint in o.out, on stdout.
template <class T>
int sample(const options& o);
