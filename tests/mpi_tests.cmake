# SPDX-License-Identifier: MIT
# Tests of ranks that are processes of MPI.
# mpt_mpi_test(NAME source... [RANKS n...] [LABELS label...])
#     one doctest program that every process runs, with tests/mpi_main.cpp as its main; an entry
#     NAME.n for each number of processes (3 and 4 if none is given). Without MPI: a visible skip.
# mpt_mpi_environment: what lets any mpirun start more processes than cores, also as root.
set(mpt_mpi_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    # what MPI itself keeps until the end, and how its threads speak, is not ours
    ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1)

if(TARGET mpt::mpi)
  add_library(mpt_mpi_test_main OBJECT mpi_main.cpp)
  target_link_libraries(mpt_mpi_test_main PUBLIC mpt_own mpt::mpi doctest::doctest)
endif()

function(mpt_mpi_test name)
  cmake_parse_arguments(arg "" "" "RANKS;LABELS" ${ARGN})
  if(NOT arg_RANKS)
    set(arg_RANKS 3 4)
  endif()
  if(TARGET mpt::mpi)
    add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PRIVATE mpt_mpi_test_main mpt_own_native)
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    if(TARGET mpt::mpi)
      add_test(NAME ${name}.${ranks} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
               COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
      set_tests_properties(${name}.${ranks} PROPERTIES LABELS "mpi;${arg_LABELS}" TIMEOUT 300
                           PROCESSORS 2 ENVIRONMENT "${mpt_mpi_environment}")
    else()
      add_test(NAME ${name}.${ranks} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${mpt_mpi_missing}")
      set_tests_properties(${name}.${ranks} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:"
                           LABELS "mpi;${arg_LABELS}")
    endif()
  endforeach()
endfunction()
