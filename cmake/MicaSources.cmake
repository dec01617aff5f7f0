# Sources that need flags of their own.

# What the build is for: x86_64, aarch64, or what the system calls another one.
string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" MICA_PROCESSOR)
if(MICA_PROCESSOR MATCHES "^(amd64|x86_64)$")
  set(MICA_PROCESSOR x86_64)
elseif(MICA_PROCESSOR MATCHES "^(arm64|aarch64)$")
  set(MICA_PROCESSOR aarch64)
endif()

# MICA_ISAS native: the instruction sets that this machine lacks are left out, and kernels that its
# better ones replace. These are more than half of the seconds that kernels take to compile. It asks
# the functions that choose kernels when mica runs.
set(MICA_ISAS "all" CACHE STRING "Instruction sets of the kernels: all, or native: this machine's")
set_property(CACHE MICA_ISAS PROPERTY STRINGS all native)
set(mica_isas_left_out "")
set(mica_weakest_isa ref)
if(MICA_ISAS STREQUAL "native" AND NOT CMAKE_CROSSCOMPILING AND NOT MICA_KERNELS_OF)
  include(MicaIsas)
endif()

# mica_kernel_sources(<processor> [ISA <set>] [FLAGS <flag>...] SOURCES <file>...)
#
# Adds kernel files to the library where the build is for <processor> (x86_64, aarch64 or any) and
# not without the instruction set, and to these files alone the flags. Release builds compile
# kernels with -O3, and so do builds with sanitizers, for which most of int8_*.c would take minutes:
# these stay as they are. Files of src/cpu/kern/ are the target mica_kernels, which another build
# may link (MICA_KERNELS_OF).
#
#   mica_kernel_sources(any SOURCES dot_ref.c)
#   mica_kernel_sources(x86_64 ISA avx2 FLAGS -mavx2 -mfma SOURCES dot_avx2.c)
function(mica_kernel_sources processor)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ISA" "FLAGS;SOURCES")
  if(arg_ISA IN_LIST mica_isas_left_out)
    return()
  endif()
  if(NOT processor STREQUAL "any" AND NOT processor STREQUAL MICA_PROCESSOR)
    return()
  endif()
  set(target mica_objects)
  if(CMAKE_CURRENT_SOURCE_DIR STREQUAL "${PROJECT_SOURCE_DIR}/src/cpu/kern")
    set(target mica_kernels)
  endif()
  if(NOT TARGET ${target})
    return() # it is another build's
  endif()
  # gcc before 13 puts vectors of 64 bytes at addresses of 32 where AddressSanitizer lays out the
  # stack (its bug 110027). Kernels keep the checks of heap and globals, and kcheck's guard pages.
  if(MICA_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(APPEND arg_FLAGS --param=asan-stack=0)
  endif()
  # No fuzz target reaches a kernel, and compilers take minutes to instrument one.
  if(MICA_LIBFUZZER OR NOT MICA_SANITIZE_KERNELS)
    list(APPEND arg_FLAGS -fno-sanitize=all)
  endif()
  foreach(source ${arg_SOURCES})
    get_filename_component(file ${source} NAME_WE)
    if(mica_better_${file})
      set(better ${mica_better_${file}})
      get_filename_component(folder ${source} DIRECTORY) # its object is where the file's was
      configure_file(file_left_out.c.in ${folder}/${file}.c @ONLY)
      target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${folder}/${file}.c)
      list(REMOVE_ITEM arg_SOURCES ${source})
    endif()
  endforeach()
  if(NOT arg_SOURCES)
    return()
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  target_sources(${target} PRIVATE ${arg_SOURCES})
  set_source_files_properties(${arg_SOURCES} TARGET_DIRECTORY ${target} PROPERTIES
    COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>;${arg_FLAGS}")
  # Reading weights, which nobody writes, would be nine tenths of an answer under ThreadSanitizer.
  # How results are divided among threads is the same for float matmuls, whose kernels it sees.
  if(MICA_SANITIZE MATCHES "thread")
    set(quantized ${arg_SOURCES})
    list(FILTER quantized INCLUDE REGEX "/(quant|int8)/")
    set_property(SOURCE ${quantized} TARGET_DIRECTORY ${target} APPEND PROPERTY
      COMPILE_OPTIONS -fno-sanitize=thread)
  endif()
  if(MICA_SANITIZE AND NOT MICA_LIBFUZZER)
    list(FILTER arg_SOURCES EXCLUDE REGEX
      "/int8_[^/]*(avx2|vnni|vnni256|once|quarters|twice|amx|neon|dotprod|i8mm)\\.c$")
    set_property(SOURCE ${arg_SOURCES} TARGET_DIRECTORY ${target} APPEND PROPERTY
      COMPILE_OPTIONS -O3)
  endif()
endfunction()
