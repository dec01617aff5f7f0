# make install: the command with its manual pages and completions, both libraries, the headers, the
# default model, and what find_package(mica) and pkg-config read.
include(CMakePackageConfigHelpers)

install(TARGETS mica_shared mica_static EXPORT mica_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(MICA_BUILD_CLI)
  install(TARGETS mica RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(MICA_BUILD_CLI AND NOT CMAKE_CROSSCOMPILING)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${pages}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(DIRECTORY ${pages}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(DIRECTORY ${pages}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY include/mica TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(DIRECTORY models/default DESTINATION ${CMAKE_INSTALL_DATADIR}/mica/models
  PATTERN golden.json EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mica)
install(EXPORT mica_targets NAMESPACE mica:: DESTINATION ${package_dir})
configure_package_config_file(cmake/mica-config.cmake.in mica-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(mica-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/mica-config.cmake
  ${PROJECT_BINARY_DIR}/mica-config-version.cmake
  DESTINATION ${package_dir})

# The C++ runtime is what a C program must add to link libmica.a.
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(mica_pc_libs_private "-lsimdjson -lc++")
else()
  set(mica_pc_libs_private "-lsimdjson -lstdc++ -lpthread -lm")
endif()
# Written relative to the file itself, so that the tree may be installed with --prefix, or moved.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH mica_pc_libdir ${pc_dir} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH mica_pc_includedir ${pc_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/mica.pc.in mica.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mica.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
