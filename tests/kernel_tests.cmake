# SPDX-License-Identifier: MIT
# Tests of what runs on a device: one source file, three machines.
# mpt_simt_test(NAME source... [LABELS label...])     g++ or clang++, on the emulator
# mpt_checked_test(NAME source... [LABELS label...])  the same with every load and store looked at
# mpt_probe_program(NAME compiler source...)          a checked program by this compiler, if it is here
# mpt_cuda_test(NAME source [LABELS label...])        nvcc, on a GPU; only where MPT_CUDA is ON
# mpt_kernel_test(NAME source)  NAME, NAME.checked and NAME.cuda, all from the very same file

function(mpt_simt_test name)
  mpt_test(${name} ${ARGN})
  target_compile_options(${name} PRIVATE -DMPT_SIMT)
endfunction()

function(mpt_skipped_test name labels reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:" LABELS "${labels}")
endfunction()

function(mpt_checked_test name)
  if(mpt_probe_missing)
    cmake_parse_arguments(arg "" "" "LABELS" ${ARGN})
    mpt_skipped_test(${name} "${arg_LABELS}" "${mpt_probe_missing}")
    return()
  endif()
  mpt_test(${name} ${ARGN})
  mpt_probe(${name})
endfunction()

function(mpt_probe_program name compiler)  # sets NAME_found
  find_program(found_${compiler} ${compiler})
  set(${name}_found FALSE PARENT_SCOPE)
  if(NOT found_${compiler})
    return()
  endif()
  set(${name}_found TRUE PARENT_SCOPE)
  set(flags -DMPT_SIMT -DMPT_SIMT_CHECK -fsanitize=thread -g1 -O1)
  if(compiler MATCHES "clang")
    list(APPEND flags ${mpt_probe_clang})
  else()
    list(APPEND flags ${mpt_probe_gnu})
  endif()
  if(MPT_WERROR)
    list(APPEND flags -Werror)
  endif()
  get_target_property(doctest doctest::doctest INTERFACE_INCLUDE_DIRECTORIES)
  set(objects "")
  file(GLOB headers ${PROJECT_SOURCE_DIR}/mpt/simt/*.hpp)
  foreach(source IN LISTS ARGN)
    get_filename_component(source ${source} ABSOLUTE)
    get_filename_component(stem ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.${stem}.o)
    add_custom_command(OUTPUT ${object} VERBATIM DEPENDS ${source} ${headers}
      COMMAND ${found_${compiler}} -std=c++20 ${flags} -ffp-contract=off -Wall -Wextra -Wpedantic
              -I${PROJECT_SOURCE_DIR} -idirafter ${doctest}
              -c ${source} -o ${object})
    list(APPEND objects ${object})
  endforeach()
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${name})
  add_custom_command(OUTPUT ${program} VERBATIM DEPENDS ${objects}
    COMMAND ${found_${compiler}} -pthread ${mpt_probe_link} ${objects} -o ${program})
  add_custom_target(${name}_program ALL DEPENDS ${program})
endfunction()

function(mpt_cuda_test name source)
  if(NOT CMAKE_CUDA_COMPILER)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "LABELS" ${ARGN})
  if(NOT TARGET mpt_cuda_test_main)
    add_library(mpt_cuda_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/cuda_main.cpp)
    target_link_libraries(mpt_cuda_test_main PUBLIC mpt_own mpt::cuda doctest::doctest)
  endif()
  mpt_cuda_source(generated ${source})
  add_executable(${name} ${generated})
  target_link_libraries(${name} PRIVATE mpt_cuda_test_main mpt_own)
  mpt_cuda_program(${name})
  add_test(NAME ${name} COMMAND ${MPT_CUDA_RUNNER} $<TARGET_FILE:${name}>
           WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "cuda;${arg_LABELS}" SKIP_RETURN_CODE 77)
  # The tools of compute-sanitizer, where it is installed: for a real GPU, so not behind a runner.
  if(MPT_COMPUTE_SANITIZER AND NOT MPT_CUDA_RUNNER)
    foreach(tool memcheck racecheck initcheck synccheck)
      add_test(NAME ${name}.${tool} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
               COMMAND ${MPT_COMPUTE_SANITIZER} --tool ${tool} --error-exitcode 9
                       $<TARGET_FILE:${name}>)
      set_tests_properties(${name}.${tool} PROPERTIES LABELS "cuda;compute-sanitizer"
                           SKIP_RETURN_CODE 77 TIMEOUT 600)
    endforeach()
  endif()
endfunction()

function(mpt_kernel_test name source)
  mpt_simt_test(${name} ${source} LABELS kernels)
  mpt_checked_test(${name}.checked ${source} LABELS kernels)
  mpt_cuda_test(${name}.cuda ${source} LABELS kernels)
endfunction()
