# Libraries of the distribution. Nothing is downloaded.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(simdjson REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

if(MICA_BUILD_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()

# Optional parts: AUTO takes what is there, ON fails where it is not.
set(MICA_HAVE_LIBEDIT OFF)
if(MICA_BUILD_CLI AND NOT MICA_LIBEDIT STREQUAL "OFF")
  pkg_check_modules(LIBEDIT IMPORTED_TARGET libedit)
  if(LIBEDIT_FOUND)
    set(MICA_HAVE_LIBEDIT ON)
  elseif(MICA_LIBEDIT STREQUAL "ON")
    message(FATAL_ERROR "MICA_LIBEDIT is ON and libedit was not found")
  else()
    message(STATUS "libedit was not found: mica chat has no line editing")
  endif()
endif()

# Only headers: the library is loaded when the device is first opened. They are looked for where
# tools/setup-mlx puts them, then where the system has them.
set(MICA_HAVE_MLX OFF)
if(NOT MICA_MLX STREQUAL "OFF")
  find_path(MICA_MLX_INCLUDE mlx/c/mlx.h HINTS ${PROJECT_SOURCE_DIR}/build/mlx/include)
  mark_as_advanced(MICA_MLX_INCLUDE)
  if(EXISTS ${MICA_MLX_INCLUDE}/mlx/version.h)
    set(MICA_HAVE_MLX ON)
    set(MICA_MLX_VERSION "")
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${MICA_MLX_INCLUDE}/mlx/version.h line REGEX "#define MLX_VERSION_${part} ")
      string(REGEX MATCH "[0-9]+" number "${line}")
      list(APPEND MICA_MLX_VERSION ${number})
    endforeach()
    list(JOIN MICA_MLX_VERSION "." MICA_MLX_VERSION)
  elseif(MICA_MLX STREQUAL "ON")
    message(FATAL_ERROR "MICA_MLX is ON and mlx/c/mlx.h was not found: run tools/setup-mlx")
  else()
    message(STATUS "MLX was not found: the device mlx is unavailable (tools/setup-mlx)")
  endif()
endif()

# Nothing is needed to build the engine mlx_lm: it looks for Python and mlx-lm when it is asked.
set(MICA_HAVE_MLX_LM ON)
if(MICA_MLX_LM STREQUAL "OFF")
  set(MICA_HAVE_MLX_LM OFF)
endif()
