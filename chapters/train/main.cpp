// SPDX-License-Identifier: MIT
// main.cpp -- `./run train`: one translation unit a precision and machine does the work.
#include "options.hpp"

#include "mpt/base/error.hpp"
#include "mpt/comm/launch_environment.hpp" // launch, take_launch_arguments
#include "mpt/comm/mpi.hpp"                // mpi_process, mpi_rank
#include "mpt/comm/world.hpp"              // run_ranks, communicator
#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace mpt {
struct kernel_ops;
}
using mpt::communicator, mpt::kernel_ops;
extern template int train<float>(const options&, communicator&);
extern template int train<mpt::fp16>(const options&, communicator&);
extern template int train<mpt::bf16>(const options&, communicator&);
extern template int train_on_device<float, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::fp16, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::bf16, kernel_ops>(const options&, communicator&);

#if !defined(MPT_TRAIN_CUDA)
int train_on_cuda(const options&, communicator&) {
    throw mpt::error("--device cuda: this program was built without CUDA; build with "
                     "-DMPT_CUDA=ON where nvcc is, or use --device cpu");
}
int train_on_gpus(const options& o, const mpt::launch&, mpt::mpi_process*) {
    throw mpt::error(mpt::join("--device cuda: this program was built without CUDA; build with "
                               "-DMPT_CUDA=ON where nvcc is, or use mpirun -n ",
                               o.ranks, " and --device cpu"));
}
#endif

// f(T()) with the weights' type of the precision.
template <class F>
static int with_weights(const options& o, F f) {
    if (o.precision == "fp16") return f(mpt::fp16());
    if (o.precision == "bf16") return f(mpt::bf16());
    return f(0.0f); // fp32, and tf32: fp32 with rounded operands in products
}

// The run of one rank.
static int train_rank(const options& o, communicator& comm) {
    if (o.device == "cuda") return train_on_cuda(o, comm);
    return with_weights(o, [&]<class T>(T) {
        return o.device == "emulator" ? train_on_device<T, kernel_ops>(o, comm) : train<T>(o, comm);
    });
}

static void say(const std::string& what) { std::fprintf(stderr, "train: %s\n", what.c_str()); }

// Only rank 0 answers what ends the program by itself.
static bool asks(const std::vector<std::string>& words) {
    return std::any_of(words.begin(), words.end(), [](const std::string& w) {
        return w == "--help" || w == "-h" || w == "--version";
    });
}

// All ranks are threads of this process.
static int train_threads(const std::vector<std::string>& words, const mpt::launch& place) {
    options o;
    try {
        o = parse_train(words, place);
    } catch (const std::exception& e) {
        say(e.what());
        return 2;
    }
    try {
        int status = 0; // the same on all ranks
        mpt::run_ranks(o.ranks, [&](communicator& comm) {
            const int mine = train_rank(o, comm);
            if (comm.rank() == 0) status = mine;
        });
        return status;
    } catch (const std::exception& e) {
        say(e.what());
        return 1;
    }
}

#ifdef MPT_HAS_MPI
// This process is one of the ranks.
static int train_process(const std::vector<std::string>& words, const mpt::launch& place) {
    if (asks(words)) return place.rank == 0 ? train_threads(words, place) : 0;
    std::optional<mpt::mpi_process> process;
    try {
        process.emplace();
        std::optional<mpt::mpi_rank> comm(*process);
        options o;
        std::string wrong;
        try {
            o = parse_train(words, place);
        } catch (const std::exception& e) {
            wrong = e.what();
        }
        const double mine[] = {wrong.empty() ? 0.0 : 1.0};
        const std::vector<double> all = comm->gather(mine);
        const auto first = std::find(all.begin(), all.end(), 1.0);
        if (first != all.end()) { // one speaks for all
            if (first - all.begin() == comm->rank()) say(wrong);
            return 2;
        }
        if (o.device != "cuda") return train_rank(o, *comm);
        comm.reset(); // another with its buffers on the GPU
        return train_on_gpus(o, place, &*process);
    } catch (const std::exception& e) {
        const std::string rank = "rank " + std::to_string(place.rank), what = e.what();
        const auto of_mine = [&](const std::string& text) {
            return text.rfind(rank + ':', 0) == 0 || text.rfind(rank + ' ', 0) == 0;
        };
        const std::string known = process ? process->failed() : "";
        if (known.empty() || of_mine(known)) // else the rank that was first says it
            say(of_mine(what) ? what : rank + ": " + what);
        if (process) process->end_job(what);
        return 1;
    }
}
#else
static int train_process(const std::vector<std::string>&, const mpt::launch& place) {
    if (place.rank == 0)
        say(place.said + ": started by mpirun, but this program was built without MPI; build it "
                         "where MPI is, or give --ranks N for threads");
    return 2;
}
#endif

// This process is one of those that torchrun, srun or a shell loop has started, one a GPU.
static int train_gpu(const std::vector<std::string>& words, const mpt::launch& place,
                     const mpt::launch_arguments& given) {
    if (asks(words)) return place.rank == 0 ? train_threads(words, place) : 0;
    options o;
    try {
        o = parse_train(words, place);
    } catch (const std::exception& e) {
        say(e.what());
        return 2;
    }
    try {
        return train_on_gpus(o, mpt::launch_environment(given), nullptr); // with MASTER_ADDR
    } catch (const std::exception& e) {
        const std::string rank = "rank " + std::to_string(place.rank), what = e.what();
        say(what.rfind(rank + ':', 0) == 0 ? what : rank + ": " + what);
        return 1;
    }
}

int main(int argc, char** argv) {
    try {
        std::vector<std::string> words(argv + 1, argv + argc);
        const mpt::launch_arguments given = mpt::take_launch_arguments(words);
        const mpt::launch place = mpt::launch_environment(given, [](const char* name) {
            const char* const value = std::getenv(name); // MPI's ranks find each other without it
            return value || name != std::string("MASTER_ADDR") ? value : "127.0.0.1";
        });
        return place.mpi              ? train_process(words, place)
               : place.world_size > 1 ? train_gpu(words, place, given)
                                      : train_threads(words, place);
    } catch (const std::exception& e) {
        say(e.what());
        return 2;
    }
}
