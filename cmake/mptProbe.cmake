# SPDX-License-Identifier: MIT
# mpt_probe(TARGET): a program whose kernels run on the emulator with every load and store looked at.
# The access probe is the compiler's half of ThreadSanitizer with callbacks of our own: compiled so,
# linked without its library. It cannot stand beside a sanitizer that is there already: then
# mpt_probe_missing says so.
# -g1: the lines, which reports name, and nothing else. -O1: the counts are to be of accesses as
# written, neither kept on the stack nor made vectors.
set(mpt_probe_flags -DMPT_SIMT -DMPT_SIMT_CHECK -fsanitize=thread -g1 -O1)
set(mpt_probe_gnu -fsanitize-coverage=trace-pc -fno-tree-sra)  # structures are loaded in one piece
set(mpt_probe_link -Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset)
# also the load of x += 1; also pieces of code that others imply
set(mpt_probe_clang -mllvm -tsan-instrument-read-before-write=1 -fsanitize-coverage=trace-pc,no-prune)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(JOIN mpt_probe_clang " " flags)
  list(APPEND mpt_probe_flags "SHELL:${flags}")
else()
  list(APPEND mpt_probe_flags ${mpt_probe_gnu})
endif()
set(mpt_probe_missing "")
string(TOUPPER "${CMAKE_BUILD_TYPE}" mpt_build_type)
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${mpt_build_type}}" MATCHES "-fsanitize")
  set(mpt_probe_missing "the access probe does not go with another sanitizer")
endif()

function(mpt_probe target)
  target_compile_options(${target} PRIVATE ${mpt_probe_flags})
  target_link_options(${target} PRIVATE ${mpt_probe_link})
  # c++20: under gnu++20 g++ knows the callbacks' names and wants parameters of its own for them
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
