# SPDX-License-Identifier: MIT
# cmake -DROOT=... -DCOMPILER=... -DFLAGS="..." -DHEADERS="a.hpp b.hpp" -DSOURCES="c.cpp" [-DFAILS=1]
#       -P compiles.cmake
# Each header alone, then each source, goes through COMPILER; with FAILS it must be refused.
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
separate_arguments(headers UNIX_COMMAND "${HEADERS}")
separate_arguments(sources UNIX_COMMAND "${SOURCES}")
get_filename_component(compiler ${COMPILER} NAME)
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER "alone_${compiler}_${header}" unit)
  file(WRITE ${unit}.cpp "#include \"mpt/${header}\"\n")
  list(APPEND sources ${unit}.cpp)
endforeach()
foreach(source IN LISTS sources)
  execute_process(COMMAND ${COMPILER} ${flags} -I${ROOT} ${source}
                  RESULT_VARIABLE status ERROR_VARIABLE said OUTPUT_VARIABLE said)
  if(FAILS AND status EQUAL 0)
    message(FATAL_ERROR "${source} compiles, and should not")
  elseif(NOT FAILS AND NOT status EQUAL 0)
    message(FATAL_ERROR "${compiler} ${FLAGS} ${source}\n${said}")
  endif()
endforeach()
list(LENGTH sources count)
message("${count} files through ${compiler}")
