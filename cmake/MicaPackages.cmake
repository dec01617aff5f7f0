# Packages by cpack: a .tar.gz of what make install installs, one of the source, and a formula for
# Homebrew. tools/packages makes and checks them, and Debian's packages (make packages).
set(CPACK_PACKAGE_NAME mica)
set(CPACK_PACKAGE_VENDOR "The mica authors")
set(CPACK_PACKAGE_CONTACT "The mica authors <mica@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION
"mica runs, serves and fine-tunes language models. It is a C library and a command. The files of a
 model are mapped into memory as they are: nothing is converted. A small model comes with it.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)

set(mica_deb_machine ${CMAKE_SYSTEM_PROCESSOR})
string(REPLACE x86_64 amd64 mica_deb_machine ${mica_deb_machine})
string(REPLACE aarch64 arm64 mica_deb_machine ${mica_deb_machine})
set(CPACK_SYSTEM_NAME ${mica_deb_machine})
set(CPACK_GENERATOR TGZ)

# The source, for whoever builds: a Homebrew formula names it. In a checkout it is what git tracks;
# elsewhere, what is there, but for builds and hidden folders.
set(CPACK_SOURCE_GENERATOR TGZ)
string(REGEX REPLACE "[^A-Za-z0-9_/-]" "." mica_source_pattern ${PROJECT_SOURCE_DIR})
set(CPACK_SOURCE_IGNORE_FILES "^${mica_source_pattern}/build/" "/\\\\.git(/|$)" "~$")
if(NOT EXISTS ${PROJECT_SOURCE_DIR}/.git)
  list(APPEND CPACK_SOURCE_IGNORE_FILES "^${mica_source_pattern}/\\\\.[^/]*/")
endif()
set(CPACK_SOURCE_PACKAGE_FILE_NAME mica-${PROJECT_VERSION}-source)

# A .tar.gz is unpacked anywhere. What git does not track is known when the source is packed.
file(WRITE ${PROJECT_BINARY_DIR}/package_prefix.cmake [[
if(CPACK_PACKAGE_FILE_NAME STREQUAL CPACK_SOURCE_PACKAGE_FILE_NAME)
  foreach(source IN LISTS CPACK_INSTALLED_DIRECTORIES)
    if(EXISTS ${source}/.git)
      execute_process(COMMAND git -c core.quotePath=off ls-files --others --directory
        WORKING_DIRECTORY ${source} OUTPUT_VARIABLE untracked COMMAND_ERROR_IS_FATAL ANY)
      string(REGEX REPLACE "[^A-Za-z0-9_/\n-]" "." untracked "${untracked}")
      string(REGEX MATCHALL "[^\n]+" untracked "${untracked}")
      string(REGEX REPLACE "[^A-Za-z0-9_/-]" "." pattern ${source})
      foreach(name IN LISTS untracked)
        string(REGEX REPLACE "/$" "" name ${name})
        list(APPEND CPACK_IGNORE_FILES "^${pattern}/${name}(/|$)")
      endforeach()
    endif()
  endforeach()
elseif(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
endif()
]])
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package_prefix.cmake)

# Homebrew's names of the libraries that were found; Apple's own need none.
set(mica_brew "")
foreach(pair "pcre2:TRUE" "simdjson:TRUE" "utf8proc:TRUE" "libyaml:MICA_HAVE_YAML"
    "zstd:MICA_HAVE_ZSTD" "protobuf-c:MICA_HAVE_ONNX" "openssl@3:MICA_HAVE_HUB"
    "libmicrohttpd:MICA_HAVE_SERVE" "zeromq:MICA_HAVE_ZMQ" "xxhash:MICA_HAVE_XXHASH")
  string(REGEX MATCH "^([^:]*):(.*)$" pair ${pair})
  if(${CMAKE_MATCH_2})
    string(APPEND mica_brew "  depends_on \"${CMAKE_MATCH_1}\"\n")
  endif()
endforeach()
# The formula's addresses. Without those of a release they are files of this machine.
set(mica_archive ${CPACK_SOURCE_PACKAGE_FILE_NAME}.tar.gz)
set(mica_formula_for "# For this machine alone: no address of a release was given.\n")
set(mica_homepage file://${PROJECT_SOURCE_DIR}/README.md)
set(mica_url file://${PROJECT_SOURCE_DIR}/build/packages/${mica_archive})
if(MICA_HOMEPAGE)
  set(mica_formula_for "")
  set(mica_homepage ${MICA_HOMEPAGE})
  set(mica_url ${MICA_HOMEPAGE}/releases/download/v${PROJECT_VERSION}/${mica_archive})
  if(MICA_DOWNLOADS)
    set(mica_url ${MICA_DOWNLOADS}/${mica_archive})
  endif()
elseif(MICA_DOWNLOADS)
  message(FATAL_ERROR "MICA_DOWNLOADS is given without MICA_HOMEPAGE, which the formula needs, too")
endif()
configure_file(cmake/mica.rb.in mica.rb @ONLY)
include(CPack)
