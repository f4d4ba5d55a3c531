# SPDX-License-Identifier: MIT
# mpt_component(NAME): finds one optional part and defines mpt::NAME, or says what is missing.
# Used by the build and by the installed package, so that both find the same things.
# The links stay off mpt::mpt: installing on a machine with CUDA must not ask CUDA of every user.
macro(mpt_component name)
  set(mpt_${name}_missing "")
  set(mpt_${name}_what "")
  if(NOT TARGET mpt::${name})
    cmake_language(CALL mpt_find_${name})
    if(NOT mpt_${name}_missing)
      add_library(mpt::${name} INTERFACE IMPORTED GLOBAL)
      string(TOUPPER ${name} mpt_upper)
      if(mpt_upper STREQUAL "BLAS")
        set(mpt_upper CBLAS)
      endif()
      set_target_properties(mpt::${name} PROPERTIES
        INTERFACE_LINK_LIBRARIES "mpt::mpt;${mpt_libraries}"
        INTERFACE_INCLUDE_DIRECTORIES "${mpt_includes}"
        INTERFACE_COMPILE_DEFINITIONS "MPT_HAS_${mpt_upper}=1")
    endif()
  endif()
endmacro()

# Any library with the C interface of BLAS: <cblas.h> and cblas_sgemm.
macro(mpt_find_blas)
  find_path(MPT_CBLAS_INCLUDE cblas.h
            PATH_SUFFIXES openblas openblas-pthread blis
            HINTS ENV OPENBLAS_HOME ENV MKLROOT PATHS /opt/homebrew/opt/openblas/include)
  find_library(MPT_CBLAS_LIBRARY NAMES openblas blis mkl_rt cblas
               PATH_SUFFIXES openblas-pthread
               HINTS ENV OPENBLAS_HOME ENV MKLROOT PATHS /opt/homebrew/opt/openblas/lib)
  set(mpt_includes "${MPT_CBLAS_INCLUDE}")
  set(mpt_libraries "${MPT_CBLAS_LIBRARY}")
  set(mpt_blas_what "${MPT_CBLAS_LIBRARY}")
  if(NOT MPT_CBLAS_INCLUDE OR NOT MPT_CBLAS_LIBRARY)
    set(mpt_blas_missing "no cblas.h with its library (Debian: libopenblas-dev)")
  elseif(CMAKE_CXX_COMPILER_LOADED)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES "${MPT_CBLAS_INCLUDE}")
    set(CMAKE_REQUIRED_LIBRARIES "${MPT_CBLAS_LIBRARY}")
    set(CMAKE_REQUIRED_QUIET TRUE)
    check_cxx_source_compiles("#include <cblas.h>
      int main() { float x = 1; cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, 1, 1, 1,
                                            1, &x, 1, &x, 1, 0, &x, 1); }" MPT_CBLAS_LINKS)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    unset(CMAKE_REQUIRED_QUIET)
    if(NOT MPT_CBLAS_LINKS)
      set(mpt_blas_missing "${MPT_CBLAS_LIBRARY} does not link with cblas_sgemm")
    endif()
  endif()
endmacro()

macro(mpt_find_mpi)
  find_program(MPT_MPICXX NAMES mpicxx mpic++ mpiicpc)  # a fast no; FindMPI takes its time
  if(MPT_MPICXX OR MPT_MPI STREQUAL "ON")
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  if(MPI_CXX_FOUND)  # the variables, not MPI::MPI_CXX: that target is not seen outside this folder
    set(mpt_includes "${MPI_CXX_INCLUDE_DIRS}")
    set(mpt_libraries "${MPI_CXX_LIBRARIES}")
    set(mpt_mpi_what "MPI ${MPI_CXX_VERSION}")
  else()
    set(mpt_mpi_missing "no MPI for C++ (Debian: libopenmpi-dev)")
  endif()
endmacro()

# nvcc alone proves little: half a toolkit is common, so the headers and cudart are asked for too.
macro(mpt_find_cuda)
  find_program(MPT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT MPT_NVCC)
    set(mpt_cuda_missing "no nvcc")
  else()
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_FOUND AND CUDA_CUDART)
      set(mpt_includes "${CUDAToolkit_INCLUDE_DIRS}")
      set(mpt_libraries "${CUDA_CUDART}")
      set(mpt_cuda_what "CUDA ${CUDAToolkit_VERSION}")
    else()
      set(mpt_cuda_missing "${MPT_NVCC} is there, the rest of the CUDA toolkit is not")
    endif()
  endif()
endmacro()

# cuBLASLt, which is a part of cuBLAS: of the toolkit, but a package of its own in many systems.
macro(mpt_find_cublas)
  if(NOT TARGET mpt::cuda)
    set(mpt_cublas_missing "cuBLAS needs CUDA")
  else()
    find_path(MPT_CUBLAS_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    set(mpt_includes "${MPT_CUBLAS_INCLUDE}")
    set(mpt_libraries "mpt::cuda;${CUDA_cublasLt_LIBRARY}")
    set(mpt_cublas_what "${CUDA_cublasLt_LIBRARY}")
    if(NOT MPT_CUBLAS_INCLUDE OR NOT CUDA_cublasLt_LIBRARY)
      set(mpt_cublas_missing "no cublasLt.h with its library")
    endif()
  endif()
endmacro()

macro(mpt_find_nccl)
  if(NOT TARGET mpt::cuda)
    set(mpt_nccl_missing "NCCL needs CUDA")
  else()
    find_path(MPT_NCCL_INCLUDE nccl.h HINTS ENV NCCL_HOME PATH_SUFFIXES include)
    find_library(MPT_NCCL_LIBRARY nccl HINTS ENV NCCL_HOME PATH_SUFFIXES lib lib64)
    set(mpt_includes "${MPT_NCCL_INCLUDE}")
    set(mpt_libraries "mpt::cuda;${MPT_NCCL_LIBRARY}")
    set(mpt_nccl_what "${MPT_NCCL_LIBRARY}")
    if(NOT MPT_NCCL_INCLUDE OR NOT MPT_NCCL_LIBRARY)
      set(mpt_nccl_missing "no nccl.h with its library")
    endif()
  endif()
endmacro()
