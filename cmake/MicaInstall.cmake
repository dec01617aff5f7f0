# make install: the command with its manual pages and completions, both libraries, the headers, the
# default model, and what find_package(mica) and pkg-config read.
include(CMakePackageConfigHelpers)

# Components are packages of Debian's (tools/make_debs): library, development, command and
# documentation.
install(TARGETS mica_shared EXPORT mica_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS mica_static EXPORT mica_static_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME command)
if(MICA_BUILD_CLI)
  install(TARGETS mica RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(MICA_BUILD_CLI AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  set(pages ${PROJECT_BINARY_DIR}/pages)
  install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${pages}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(DIRECTORY ${pages}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(DIRECTORY ${pages}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
if(MICA_BUILD_CLI AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  install(FILES cmake/mica.service DESTINATION lib/systemd/system)
endif()
install(DIRECTORY models/default DESTINATION ${CMAKE_INSTALL_DATADIR}/mica/models
  PATTERN golden.json EXCLUDE)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME documentation)
install(FILES README.md CHANGELOG.md SECURITY.md TYPE DOC)
install(FILES LICENSE TYPE DOC RENAME copyright)
if(MICA_BUILD_CLI)
  install(FILES ${PROJECT_BINARY_DIR}/licences.txt TYPE DOC)
endif()
install(DIRECTORY docs examples TYPE DOC PATTERN CMakeLists.txt EXCLUDE)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(DIRECTORY include/mica TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY bindings/go DESTINATION ${CMAKE_INSTALL_DATADIR}/mica
  PATTERN "*_test.go" EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mica)
foreach(targets mica_targets mica_static_targets)
  install(EXPORT ${targets} NAMESPACE mica:: DESTINATION ${package_dir})
endforeach()
# C++'s library, which a linker of C has to be told.
set(mica_cxx_library stdc++)
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin" OR "c++" IN_LIST CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
  set(mica_cxx_library c++)
endif()
configure_package_config_file(cmake/mica-config.cmake.in mica-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(mica-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/mica-config.cmake
  ${PROJECT_BINARY_DIR}/mica-config-version.cmake
  DESTINATION ${package_dir})

# What a C program must add to link libmica.a. Not Requires.private: it brings flags for compiling,
# which would be given for the shared library too.
set(mica_pc_libs ${PCRE2_STATIC_LDFLAGS} ${UTF8PROC_STATIC_LDFLAGS} ${ZLIB_STATIC_LDFLAGS}
  ${ZSTD_STATIC_LDFLAGS} ${PROTOBUF_C_STATIC_LDFLAGS} -lsimdjson)
foreach(dir ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
  list(REMOVE_ITEM mica_pc_libs -L${dir})
endforeach()
list(APPEND mica_pc_libs -l${mica_cxx_library})
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  list(APPEND mica_pc_libs -lpthread -lm)
endif()
list(JOIN mica_pc_libs " " mica_pc_libs_private)
# Written relative to the file itself, so that the tree may be installed with --prefix, or moved.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH mica_pc_libdir ${pc_dir} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH mica_pc_includedir ${pc_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH mica_pc_models ${pc_dir} ${CMAKE_INSTALL_FULL_DATADIR}/mica/models)
file(RELATIVE_PATH mica_pc_go ${pc_dir} ${CMAKE_INSTALL_FULL_DATADIR}/mica/go)
configure_file(cmake/mica.pc.in mica.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mica.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Folders that the system searches need no rpath.
install(CODE "set(libdir ${CMAKE_INSTALL_LIBDIR})")
install(CODE [[
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(file "$ENV{DESTDIR}/usr/${libdir}/pkgconfig/mica.pc")
    file(READ ${file} text)
    string(REPLACE " -Wl,-rpath,\${libdir}" "" text "${text}")
    file(WRITE ${file} "${text}")
  endif()
]])
