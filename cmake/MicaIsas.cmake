# Sets mica_isas_left_out: the instruction sets of src/cpu/kern/isa_list.h that this machine cannot
# run, by the functions that choose kernels when mica runs; none where that cannot be found out, or
# where they are few. And mica_better_<file>, where a file's kernels are all replaced: by which set,
# and mica_weakest_isa: from which on no set has lost a kernel so.
if(NOT MICA_PROCESSOR STREQUAL "x86_64")
  return()
endif()
set(kern ${PROJECT_SOURCE_DIR}/src/cpu/kern)
set(probe ${PROJECT_BINARY_DIR}/isas${CMAKE_EXECUTABLE_SUFFIX})
file(WRITE ${probe}.c [[
#include "cpu/kern/kern.h"
#include <stdio.h>
int main(void) {
#define ISA(name) if (!mk_has_##name()) puts(#name);
#include "cpu/kern/isa_list.h"
    return 0;
}
]])
file(GLOB sources ${kern}/isa_*.c)
list(FILTER sources EXCLUDE REGEX "neon")
# The kernels that the sets have are not there: sections that nothing reaches are left out.
try_compile(mica_isas_known ${PROJECT_BINARY_DIR}/isas.dir
  SOURCES ${probe}.c ${sources} ${kern}/x86.c ${kern}/has_amx.${mica_system}.c
  CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/include;${PROJECT_SOURCE_DIR}/src"
  COMPILE_DEFINITIONS -O2 -std=c11 -ffunction-sections
  LINK_OPTIONS -Wl,--gc-sections
  COPY_FILE ${probe})
if(mica_isas_known)
  execute_process(COMMAND ${probe} OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" mica_isas_left_out "${lines}")
  file(STRINGS ${kern}/below_list.h rows REGEX "^BELOW")
  foreach(row ${rows})
    string(REGEX MATCH "\\([a-z0-9]+, ([a-z0-9_]+), ([a-z0-9]+)\\)" row "${row}")
    if(NOT CMAKE_MATCH_2 IN_LIST mica_isas_left_out)
      set(mica_better_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
      set(mica_weakest_isa ${CMAKE_MATCH_2})
    endif()
  endforeach()
endif()
