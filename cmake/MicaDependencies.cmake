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
