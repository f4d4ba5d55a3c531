# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=... [-DRUNNER=qemu-aarch64] -DWANTED=digest.txt [-DDIFFERS=1] -P same_bits.cmake
# PROGRAM runs and prints exactly the lines of WANTED; with DIFFERS it runs and must not.
execute_process(COMMAND ${RUNNER} ${PROGRAM} OUTPUT_VARIABLE is RESULT_VARIABLE status)
if(is MATCHES "^skipped:")
  message("${is}")
  return()
endif()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM}: exit status ${status}")
endif()
file(READ ${WANTED} wanted)
if(DIFFERS AND is STREQUAL wanted)
  message(FATAL_ERROR "the digests do not notice that one code in millions is wrong")
elseif(NOT DIFFERS AND NOT is STREQUAL wanted)
  message(FATAL_ERROR "other bits than in ${WANTED}:\n${wanted}this build has\n${is}")
endif()
message("${is}")
