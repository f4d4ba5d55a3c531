// SPDX-License-Identifier: MIT
// gpu_ranks.cu -- this process as one of several, each with a GPU: started by torchrun, srun or a
// shell loop they speak NCCL, started by mpirun MPI. What depends on no precision stands here.
#include "options.hpp"

#include "mpt/base/crc32c.hpp"             // crc32c
#include "mpt/base/error.hpp"              // check
#include "mpt/comm/launch_device.hpp"      // launch_device, launch_device_warning, require_gpu
#include "mpt/comm/mpi_cuda.hpp"           // mpi_cuda_rank
#include "mpt/comm/nccl.hpp"               // nccl_rank
#include "mpt/dist/consistency.hpp"        // odd_ones
#include "mpt/kernels/device.cuh"          // require
#include "mpt/kernels/rank_order_sum.cuh"  // rank_order_sum

#include <cstdio>
#include <memory>
#include <span>
#include <string>

// Chooses this rank's GPU. Rank 0 prints what looks wrong about the launch.
static void take_gpu(const struct mpt::launch& place) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
    mpt::require_gpu(place, devices);
    mpt::kernels::require(cudaSetDevice(mpt::launch_device(place, devices)), "cudaSetDevice");
    if (place.rank != 0) return;
    const std::string crowded = place.mpi ? "" : mpt::launch_device_warning(place, devices);
    for (const std::string& w : place.warnings) std::fprintf(stderr, "train: %s\n", w.c_str());
    if (!crowded.empty()) std::fprintf(stderr, "train: %s\n", crowded.c_str());
}

// Throws on every rank where one was started with other options: it would send what nobody expects.
static void check_same_options(const options& o, mpt::communicator& comm) {
    std::string all = o.reduce + ' ' + o.from + ' ' + o.init + ' ' + std::to_string(o.zero) + ' ' +
                      std::to_string(o.stop_after) + ' ' + std::to_string(o.resume) + ' ' +
                      std::to_string(o.sample_tokens) + ' ' + o.prompt + ' ' + o.sums;
    for (const auto& [name, value] : lasting(o)) all += ' ' + name + '=' + value;
    const double mine[] = {double(mpt::crc32c(std::as_bytes(std::span(all))))};
    std::string who;
    for (const int r : mpt::odd_ones(comm.gather(mine))) who += ' ' + std::to_string(r);
    mpt::check(who.empty(), "launch: rank", who,
               " was started with other options than the others; give all of them the same");
}

__attribute__((visibility("default"))) int
train_on_gpus(const options& o, const struct mpt::launch& place, mpt::mpi_process* process) {
#if defined(MPT_HAS_MPI)
    if (process) {
        take_gpu(place);
        mpt::mpi_cuda_rank comm(*process);
        check_same_options(o, comm);
        return train_on_cuda(o, comm);
    }
#endif
#if defined(MPT_HAS_NCCL)
    take_gpu(place);
    namespace k = mpt::kernels;
    const mpt::rank_order_sums in_order = {k::rank_order_sum<float>, k::rank_order_sum<double>,
                                           k::rank_order_sum<__half>,
                                           k::rank_order_sum<__nv_bfloat16>};
    const auto of = std::make_shared<mpt::nccl_comm>(place);
    try {
        mpt::nccl_rank comm(of, nullptr, o.sums == "nccl" ? mpt::rank_order_sums() : in_order);
        check_same_options(o, comm);
        return train_on_cuda(o, comm);
    } catch (const std::exception& e) {
        of->fail(e.what()); // an end that the others have to agree to would be waited for
        throw;
    }
#else
    static_cast<void>(process);
    throw mpt::error(mpt::join("--device cuda on ", place.world_size, " ranks by ", place.said,
                               ": this program was built without NCCL, which was not beside nvcc; "
                               "install it and build again, or start with mpirun -n ",
                               place.world_size));
#endif
}
