# SPDX-License-Identifier: MIT
# The CUDA language for our own programs. It is switched on only when asked for: it costs seconds
# and needs a whole toolkit. ./run asks for it where there are a GPU and nvcc.
# mpt_cuda_source(result source): a file that nvcc compiles as CUDA and that is `source`, so that
#     one file can be compiled by g++ and by nvcc. Its errors name `source`.
# mpt_cuda_program(target): the target is built by `mpt_cuda`.
set(MPT_CUDA_RUNNER "$ENV{MPT_CUDA_RUNNER}" CACHE STRING
    "Command put before each program that wants a GPU; a list. Empty: the GPU of this machine")

if(MPT_CUDA STREQUAL "ON")
  if(NOT CMAKE_CUDA_COMPILER AND MPT_NVCC)
    set(CMAKE_CUDA_COMPILER ${MPT_NVCC})  # the one that mpt::cuda found; it may be off the PATH
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)  # before enable_language, or CMake picks its own
    execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
    if(no_gpu EQUAL 0 AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.24)
      set(CMAKE_CUDA_ARCHITECTURES native)     # needs a GPU at configure time
    elseif(CMAKE_VERSION VERSION_GREATER_EQUAL 3.23)
      set(CMAKE_CUDA_ARCHITECTURES all-major)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_RUNTIME_LIBRARY)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # as mpt::cuda links it: two runtimes know nothing of each other
  endif()
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
    message(FATAL_ERROR "MPT_CUDA=ON, but nvcc is ${CMAKE_CUDA_COMPILER_VERSION}: C++20 needs 12.0 "
                        "or newer. Install a newer CUDA, or configure with -DMPT_CUDA=OFF")
  endif()
  find_program(MPT_COMPUTE_SANITIZER compute-sanitizer HINTS ${CUDAToolkit_BIN_DIR})
endif()

function(mpt_cuda_source result source)
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(name ${source} NAME_WE)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.cu)
  file(CONFIGURE OUTPUT ${generated} CONTENT "#include \"${source}\"\n")
  set(${result} ${generated} PARENT_SCOPE)
endfunction()

function(mpt_cuda_program target)
  set_property(GLOBAL APPEND PROPERTY mpt_cuda_programs ${target})
endfunction()
