# MICA_KERNELS_ONLY: kcheck and the kernels, from libc alone, and kcheck's runs on processors that
# QEMU stands in for.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(mica_kernels OBJECT)
target_include_directories(mica_kernels PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(mica_kernels PRIVATE mica_compile)
add_subdirectory(src/cpu/kern)

set(base src/base/alloc.c src/base/cgroup.c src/base/numa.c src/base/pool.c
  src/base/status.c src/base/system.linux.c src/base/system.posix.c src/base/utf8.c)
include(tests/cpu/kcheck.cmake)
list(TRANSFORM kcheck PREPEND tests/cpu/)
add_executable(kcheck $<TARGET_OBJECTS:mica_kernels> ${base} tests/cpu/kcheck.c ${kcheck})
target_include_directories(kcheck PRIVATE include src tests)
target_link_libraries(kcheck PRIVATE mica_compile Threads::Threads m)

enable_testing()

# kcheck_on(<model> <instruction set>): the strongest set that the model has. What x86 processors
# with less than this one do is asked of the whole build (tests/cpu).
function(kcheck_on model isa)
  if(MICA_PROCESSOR STREQUAL "aarch64")
    add_test(NAME kcheck.${isa} COMMAND qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu ${model}
      $<TARGET_FILE:kcheck> ${isa})
    set_tests_properties(kcheck.${isa} PROPERTIES LABELS kcheck TIMEOUT 1200)
  endif()
endfunction()

kcheck_on(cortex-a72 neon)
kcheck_on(neoverse-n1 neon_dotprod)
kcheck_on(max neon_i8mm)
