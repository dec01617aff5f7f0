# How tests, fuzz targets, examples and benchmarks are declared.

set(MICA_TEST_ENVIRONMENT
  ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1
  UBSAN_OPTIONS=print_stacktrace=1
  TSAN_OPTIONS=halt_on_error=1
  MICA_GGUF_CACHE=${PROJECT_BINARY_DIR}/tests/gguf-cache # not the user's
  MICA_MLX_LM_PYTHON=no-python) # for a model that mica does not know it would be started
# The tests that make test runs under AddressSanitizer have the label `first`: what parses and
# serves, and a golden or two of each other room. make asan-rest runs the others.
set(MICA_FIRST_ROOMS answer base cli fuzz grammar graph hub io onnx serve text web)
set(MICA_FIRST convert.gguf convert.recipe cpu.copy device.memory engine.native engine.options
  exec.compile exec.program_file grad.tape model.lm_load model.packing op.golden op.refuse
  schedule.turns session.session_file session.session_golden task.score tune.log)
# Of those rooms, what takes long because a model computes much or the command is started often.
set(MICA_FIRST_NOT cli.alias cli.answer cli.batch cli.bench cli.bench_failure cli.chat cli.context
  cli.eval cli.resume cli.run cli.tune serve.batches serve.crowd serve.echo serve.memory
  text.tokenizer.regex.interpreted)
# Rooms whose tests make asan-kernels runs with instrumented kernels: label `kernels`.
set(MICA_KERNEL_ROOMS cpu exec grad model op)
# Rooms whose other tests make asan-models runs: label `models`.
set(MICA_MODEL_ROOMS engine schedule session task tune)
find_program(MICA_VALGRIND valgrind)
file(STRINGS ${PROJECT_SOURCE_DIR}/tests/qemu_slow.txt MICA_QEMU_SLOW REGEX "^[a-z]")
list(TRANSFORM MICA_QEMU_SLOW REPLACE " .*" "")
set(MICA_LEFT_OUT "") # tests that the system cannot run
if(WIN32)
  list(APPEND MICA_TEST_ENVIRONMENT MICA_TEST_WINE=1)
  file(STRINGS ${PROJECT_SOURCE_DIR}/tests/windows_not.txt MICA_LEFT_OUT REGEX "^[a-z]")
  list(TRANSFORM MICA_LEFT_OUT REPLACE " .*" "")
endif()
if(NOT DEFINED MICA_TEST_DEVICES)
  set(MICA_TEST_DEVICES witness) # besides the cpu: tests/support/witness.h
endif()
set(MICA_TEST_LABEL "" CACHE STRING "Tests without this label are not built by default")
mark_as_advanced(MICA_VALGRIND MICA_TEST_LABEL)

# What code inside the library's walls is linked with: every symbol and every header of src/.
add_library(mica_internal INTERFACE)
target_include_directories(mica_internal INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(mica_internal INTERFACE mica_compile mica_static Threads::Threads)

# The programs that tests start, as they start them: those of a cross build by a script that calls
# the emulator, which does not follow a program to what that starts.
function(mica_started target out)
  set(${out} $<TARGET_FILE:${target}> PARENT_SCOPE)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    get_target_property(name ${target} OUTPUT_NAME)
    if(NOT name)
      set(name ${target})
    endif()
    set(script ${PROJECT_BINARY_DIR}/run/${name})
    get_target_property(made ${target} MICA_STARTED)
    if(NOT made) # a file is generated once
      list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
      file(GENERATE OUTPUT ${script}
        CONTENT "#!/bin/sh\nexec ${emulator} $<TARGET_FILE:${target}> \"$@\"\n"
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
      set_target_properties(${target} PROPERTIES MICA_STARTED ${script})
    endif()
    set(${out} ${script} PARENT_SCOPE)
  endif()
endfunction()

# The same for what a test program starts itself: what runs under Wine starts others there.
function(mica_started_by_program target out)
  mica_started(${target} program)
  if(WIN32)
    set(program $<TARGET_FILE:${target}>)
  endif()
  set(${out} ${program} PARENT_SCOPE)
endfunction()

# Limits of a test. What it may compute is CPU time, of all its threads (tests/support/main.c): that
# is the same on a busy machine. Time on the wall is there for tests that wait for what never comes.
set(MICA_TEST_CPU_SECONDS 600)
set(MICA_TEST_TIMEOUT 1200)
if(MICA_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(MICA_TEST_CPU_SECONDS 1800)
  set(MICA_TEST_TIMEOUT 2400)
endif()
# What tests let one input compute is seconds of the processor itself. QEMU was seen to take twelve
# times as long (an interpreter of patterns, which jumps a lot); another's may be slower.
set(MICA_TEST_EMULATED_TIMES 1)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  set(MICA_TEST_EMULATED_TIMES 30)
endif()

# Gives a test the labels `first`, `kernels` and `models`, if it is one of those; in a build without
# sanitizers the first ones are labelled `twice`, for make release-rest.
function(mica_label_sanitized name labels)
  string(REGEX REPLACE "[.].*" "" room ${name})
  set(all ${${labels}})
  if(NOT name IN_LIST MICA_FIRST_NOT AND NOT name MATCHES "[.]whole$|^serve[.]clients[.]" AND
      (room IN_LIST MICA_FIRST_ROOMS OR name IN_LIST MICA_FIRST))
    if(MICA_SANITIZE MATCHES "address")
      list(APPEND all first)
    elseif(NOT MICA_SANITIZE)
      list(APPEND all twice)
    endif()
  endif()
  if(MICA_SANITIZE MATCHES "address" AND room IN_LIST MICA_KERNEL_ROOMS)
    list(APPEND all kernels)
  elseif(MICA_SANITIZE MATCHES "address" AND room IN_LIST MICA_MODEL_ROOMS AND
      NOT "first" IN_LIST all)
    list(APPEND all models)
  endif()
  set(${labels} ${all} PARENT_SCOPE)
endfunction()

# mica_add_test(<ctest name> <target> [LABELS <label>...] [ARGS <arg>...])
#
# Runs the target as a test. Exit status 77 counts as skipped. A test with the label `valgrind` is
# run once more as valgrind.<name>, whose only label is `memcheck`. Where MICA_TEST_LABEL is set, a
# target whose last test lacks that label is not built by default, unless it is a room's program.
function(mica_add_test name target)
  if(name IN_LIST MICA_LEFT_OUT)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LABELS;ARGS")
  mica_label_sanitized(${name} arg_LABELS)
  if(CMAKE_CROSSCOMPILING AND name IN_LIST MICA_QEMU_SLOW)
    list(APPEND arg_LABELS qemu_slow)
  endif()
  if(MICA_TEST_LABEL AND TARGET ${target} AND NOT target MATCHES "^test_[a-z]+$")
    set(left_out TRUE)
    if(MICA_TEST_LABEL IN_LIST arg_LABELS)
      set(left_out FALSE)
    endif()
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ${left_out})
  endif()
  add_test(NAME ${name} COMMAND ${target} ${arg_ARGS} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${MICA_TEST_TIMEOUT}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${MICA_TEST_ENVIRONMENT}")
  # Until it is known what a test takes, slow ones start before the others.
  if("slow" IN_LIST arg_LABELS)
    set_tests_properties(${name} PROPERTIES COST 10)
  endif()
  if(MICA_VALGRIND AND NOT MICA_SANITIZE AND "valgrind" IN_LIST arg_LABELS)
    add_test(NAME valgrind.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      COMMAND ${MICA_VALGRIND} --quiet --error-exitcode=1 --leak-check=full
        --errors-for-leak-kinds=definite,indirect,possible $<TARGET_FILE:${target}> ${arg_ARGS})
    set_tests_properties(valgrind.${name} PROPERTIES LABELS memcheck TIMEOUT ${MICA_TEST_TIMEOUT}
      SKIP_RETURN_CODE 77)
  endif()
endfunction()

# mica_test_in_room(<target> <name> <function> <built> <source>...)
#
# Adds the sources to the program of a room, the first of them with its main as <function>.
function(mica_test_in_room target name function built source)
  if(NOT TARGET ${target})
    add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/support/main.c)
    target_link_libraries(${target} PRIVATE mica_test_models mica_test_support)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${target})
    target_compile_definitions(${target} PRIVATE MICA_TEST_CPU_SECONDS=${MICA_TEST_CPU_SECONDS})
    set_target_properties(${target} PROPERTIES MICA_TESTS "" EXCLUDE_FROM_ALL TRUE
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests LINKER_LANGUAGE CXX)
    file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}/test_list.h
      CONTENT "$<JOIN:$<TARGET_PROPERTY:${target},MICA_TESTS>,\n>\n")
  endif()
  if(NOT built)
    return()
  endif()
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL FALSE)
  set_property(TARGET ${target} APPEND PROPERTY MICA_TESTS "TEST(${function}, \"${name}\")")
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
    "-DMICA_TEST_MAIN=${function};-include;${PROJECT_SOURCE_DIR}/tests/support/test_main.h")
  get_target_property(there ${target} SOURCES)
  foreach(file ${source} ${ARGN})
    get_filename_component(file ${file} ABSOLUTE)
    if(NOT file IN_LIST there) # several tests may share it
      target_sources(${target} PRIVATE ${file})
    endif()
  endforeach()
endfunction()

# What mica_test does where it has BRIEF.
macro(mica_test_brief)
  if(arg_BRIEF_SANITIZED OR (arg_BRIEF AND (NOT MICA_SANITIZE OR "first" IN_LIST arg_LABELS)))
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT MICA_TEST_BRIEF=1)
    if(NOT CMAKE_CROSSCOMPILING AND NOT (MICA_SANITIZE AND arg_BRIEF_SANITIZED))
      set(whole_labels ${arg_LABELS})
      list(FILTER whole_labels INCLUDE REGEX "golden|cases")
      mica_add_test(${name}.whole ${target} LABELS slow long ${whole_labels} ARGS ${arg_ARGS})
    endif()
  endif()
endmacro()

# mica_test(<room>/<name> [LABELS <label>...] [SOURCES <file>...] [ARGS <arg>...] [ALONE] [WEAKER]
#           [DEVICES | DEVICES_LONG] [MLX_MODES | MLX_LONG | NO_MLX] [BRIEF | BRIEF_SANITIZED])
#
# tests/<room>/<name>.c, a cmocka program, as the ctest <room>.<name>; SOURCES are further files
# beside it. The tests of a room are one program, the target test_<room>, that takes a test's name
# without the room's as its first argument: build/tests/test_op norm. ALONE: a program of its own,
# the target test_<room>_<name>, for a test that starts itself or replaces malloc, and for tools.
# Where MICA_TEST_LABEL is set, a room's program has the tests with that label.
#
# Labels that tools look for: golden (reads every case of $MICA_FIXTURES, whatever these are
# called), cases (reads cases of tests/fixtures by their names), tsan (worth running under
# ThreadSanitizer), valgrind, slow (not for make test-quick), long (for make release-rest alone).
#
# WEAKER: again as <room>.<name>.avx2
# and .avx512vnni with the kernels, and the choices of src/cpu/, of processors that have less than
# this one; not under sanitizers, where that would take a minute. DEVICES: again as
# <room>.<name>.<device> on each of MICA_TEST_DEVICES, of which sanitizers see the tests labelled
# tsan; the test opens its device by test_device_open. These copies are long, but for those of
# goldens that compute little (not in tests/qemu_slow.txt). DEVICES_LONG: the same, for tests of
# thousands of passes: the witness then has kernels for fused ops.
# Both: again as <room>.<name>.mlx on MLX's CPU where MLX is there, but not under sanitizers, which
# do not see into it; MLX_MODES: as <room>.<name>.mlx.eager and .compiled, too, which are long;
# MLX_LONG: the copy on MLX is long; NO_MLX: not there, for what needs that a row has the same bits
# alone and among others.
#
# BRIEF: fewer of the cases that are alike (test_is_brief); all of them as <room>.<name>.whole,
# which is long. Sanitizers that do not run it `first` see all of them. BRIEF_SANITIZED: those never
# do.
function(mica_test path)
  cmake_parse_arguments(PARSE_ARGV 1 arg
    "ALONE;WEAKER;DEVICES;DEVICES_LONG;MLX_MODES;MLX_LONG;NO_MLX;BRIEF;BRIEF_SANITIZED" ""
    "LABELS;SOURCES;ARGS")
  string(REPLACE "/" "." name ${path})
  string(REPLACE "/" "_" id test/${path})
  if(name IN_LIST MICA_LEFT_OUT)
    return()
  endif()
  if(arg_ALONE)
    set(target ${id})
    add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/${path}.c ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE mica_test_models mica_test_support)
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests LINKER_LANGUAGE CXX)
  else()
    string(REGEX MATCH "^([a-z]+)[.](.*)$" own ${name})
    set(target test_${CMAKE_MATCH_1})
    set(own ${CMAKE_MATCH_2})
    set(built TRUE)
    mica_label_sanitized(${name} arg_LABELS)
    if(MICA_TEST_LABEL AND NOT MICA_TEST_LABEL IN_LIST arg_LABELS)
      set(built FALSE)
    endif()
    mica_test_in_room(${target} ${own} ${id} ${built} ${PROJECT_SOURCE_DIR}/tests/${path}.c
      ${arg_SOURCES})
    list(PREPEND arg_ARGS ${own})
  endif()
  mica_add_test(${name} ${target} LABELS ${arg_LABELS} ARGS ${arg_ARGS})
  mica_test_brief()
  set(slow slow)
  if(NOT arg_LABELS MATCHES "golden" OR name IN_LIST MICA_QEMU_SLOW) # make test has the others
    list(APPEND slow long)
  endif()
  if(arg_WEAKER AND NOT MICA_SANITIZE AND MICA_PROCESSOR STREQUAL "x86_64")
    set(weaker_labels ${arg_LABELS})
    list(FILTER weaker_labels INCLUDE REGEX "golden|cases")
    foreach(isa avx2 avx512vnni)
      mica_add_test(${name}.${isa} ${target} LABELS ${slow} ${weaker_labels} ARGS ${arg_ARGS})
      set_property(TEST ${name}.${isa} APPEND PROPERTY ENVIRONMENT MICA_CPU=${isa})
      set_tests_properties(${name}.${isa} PROPERTIES
        SKIP_REGULAR_EXPRESSION "MICA_CPU is ${isa}, which this machine cannot run")
    endforeach()
  endif()
  set(device_labels ${arg_LABELS})
  list(FILTER device_labels INCLUDE REGEX "golden|cases")
  set(devices)
  if((arg_DEVICES OR arg_DEVICES_LONG) AND (NOT MICA_SANITIZE OR "tsan" IN_LIST arg_LABELS))
    set(devices ${MICA_TEST_DEVICES})
    if(arg_NO_MLX)
      list(FILTER devices EXCLUDE REGEX "^mlx")
    endif()
  endif()
  foreach(device IN LISTS devices)
    set(opened ${device})
    if(arg_DEVICES_LONG AND device STREQUAL "witness")
      set(opened witness:fused)
    endif()
    mica_add_test(${name}.${device} ${target} LABELS ${slow} tsan ${device_labels} ARGS ${arg_ARGS})
    set_property(TEST ${name}.${device} APPEND PROPERTY ENVIRONMENT MICA_TEST_DEVICE=${opened})
    if(device STREQUAL "mlx:gpu") # MLX's CUDA compiles its kernels when they are first used
      set_tests_properties(${name}.${device} PROPERTIES TIMEOUT 1800)
    endif()
  endforeach()
  if((arg_DEVICES OR arg_DEVICES_LONG) AND MICA_HAVE_MLX AND NOT arg_NO_MLX AND NOT MICA_SANITIZE)
    set(modes lazy)
    if(arg_MLX_MODES)
      list(APPEND modes eager compiled)
    endif()
    foreach(mode IN LISTS modes)
      string(REPLACE .lazy "" test ${name}.mlx.${mode})
      set(mode_labels ${slow})
      if(arg_MLX_LONG OR NOT mode STREQUAL "lazy")
        list(APPEND mode_labels long)
      endif()
      mica_add_test(${test} ${target} LABELS ${mode_labels} ${device_labels} ARGS ${arg_ARGS})
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
        MICA_TEST_DEVICE=mlx:cpu MICA_MLX_MODE=${mode} OPENBLAS_NUM_THREADS=1)
    endforeach()
  endif()
endfunction()

# mica_test_steps(<room> <name>...)
#
# Tests declared with DEVICES, again as <room>.<name>.witness_steps on the witness by the lower
# layer (tests/support/witness_steps.c).
function(mica_test_steps room)
  foreach(name IN LISTS ARGN)
    if(${room}.${name} IN_LIST MICA_LEFT_OUT)
      continue()
    endif()
    mica_add_test(${room}.${name}.witness_steps test_${room} LABELS slow ARGS ${name})
    set_property(TEST ${room}.${name}.witness_steps APPEND PROPERTY ENVIRONMENT
      MICA_TEST_DEVICE=witness:steps)
  endforeach()
endfunction()

# mica_fuzz(<name>)
#
# fuzz/<name>.c, which defines LLVMFuzzerTestOneInput, with its corpus in fuzz/corpus/<name>/. With
# MICA_LIBFUZZER this is a libFuzzer program; otherwise a program that replays the corpus, and the
# ctest fuzz.<name>.
function(mica_fuzz name)
  add_executable(fuzz_${name} ${PROJECT_SOURCE_DIR}/fuzz/${name}.c
    $<TARGET_OBJECTS:mica_fuzz_support>)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/fuzz/${name}.c PROPERTIES
    COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=fuzz_target)
  target_link_libraries(fuzz_${name} PRIVATE mica_internal)
  set_target_properties(fuzz_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz LINKER_LANGUAGE CXX)
  if(MICA_LIBFUZZER)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/fuzz/replay_main.c)
    mica_add_test(fuzz.${name} fuzz_${name} LABELS fuzz
      ARGS ${PROJECT_SOURCE_DIR}/fuzz/corpus/${name})
  endif()
endfunction()

# mica_example(<name> [<arg>...])
#
# examples/<name>.c against the public headers alone, run with the arguments as example.<name>.
function(mica_example name)
  add_executable(example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}.c)
  target_link_libraries(example_${name} PRIVATE mica_compile mica_static)
  set_target_properties(example_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples
    LINKER_LANGUAGE CXX)
  mica_add_test(example.${name} example_${name} LABELS example ARGS ${ARGN})
endfunction()

# mica_bench(<name> [RUN [<arg>...]])
#
# bench/<name>.c as build/bench/<name>; with RUN, `make bench` runs it with the arguments.
# Benchmarks print tables for people and fail only where they could not measure.
function(mica_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "RUN")
  add_executable(bench_${name} ${PROJECT_SOURCE_DIR}/bench/${name}.c)
  target_link_libraries(bench_${name} PRIVATE mica_internal)
  set_target_properties(bench_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench LINKER_LANGUAGE CXX)
  if(arg_RUN OR "RUN" IN_LIST ARGN)
    add_custom_command(TARGET bench POST_BUILD VERBATIM WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      COMMAND bench_${name} ${arg_RUN})
    add_dependencies(bench bench_${name})
  endif()
endfunction()
