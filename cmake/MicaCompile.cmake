# mica_compile: what every C and C++ file of the project is compiled with.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

add_library(mica_compile INTERFACE)

# Same numbers from every compiler: a * b + c is fused only where a kernel says so.
target_compile_options(mica_compile INTERFACE
  -ffp-contract=off
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wundef
  # constants are enumerators here, and long texts of a list are split over lines
  $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-enum-float-conversion -Wno-string-concatenation>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${MICA_WERROR}>:-Werror>)

if(WIN32) # what POSIX has, in UTF-8: src/base/windows/posix.h
  target_include_directories(mica_compile BEFORE INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src/base/windows/include>)
  target_compile_definitions(mica_compile INTERFACE
    _FILE_OFFSET_BITS=64 _POSIX_C_SOURCE=200809L)
endif()

if(MICA_SANITIZE)
  target_compile_options(mica_compile INTERFACE
    -fsanitize=${MICA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mica_compile INTERFACE -fsanitize=${MICA_SANITIZE})
endif()

if(MICA_LIBFUZZER)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "MICA_LIBFUZZER needs clang, this is ${CMAKE_C_COMPILER_ID}")
  endif()
  target_compile_options(mica_compile INTERFACE -fsanitize=fuzzer-no-link)
endif()
