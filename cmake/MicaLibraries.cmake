# libmica.a and libmica.so, of the same objects.

# What a user of the static library must link besides.
set(mica_private_libraries simdjson::simdjson PkgConfig::PCRE2 PkgConfig::UTF8PROC Threads::Threads
  ${mica_unpackers}
  $<$<NOT:$<PLATFORM_ID:Darwin>>:m> ${CMAKE_DL_LIBS}
  $<$<PLATFORM_ID:Windows>:ws2_32$<SEMICOLON>bcrypt$<SEMICOLON>advapi32>)

add_library(mica_static STATIC $<TARGET_OBJECTS:mica_objects> ${mica_kernel_objects})
target_link_libraries(mica_static PRIVATE ${mica_private_libraries})

add_library(mica_shared SHARED $<TARGET_OBJECTS:mica_objects> ${mica_kernel_objects})
foreach(library ${mica_private_libraries} mica_compile) # none that its users must have
  target_link_libraries(mica_shared PRIVATE $<BUILD_INTERFACE:${library}>)
endforeach()
set_target_properties(mica_shared PROPERTIES
  EXPORT_NAME mica VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE CXX)
if(APPLE)
  # CMake's default, but where it runs on another system.
  set_target_properties(mica_shared PROPERTIES INSTALL_NAME_DIR @rpath BUILD_WITH_INSTALL_NAME_DIR ON)
  include(CheckLinkerFlag)
  check_linker_flag(C "-Wl,-exported_symbol,_mica_*" MICA_HAVE_EXPORTED_SYMBOL)
  if(MICA_HAVE_EXPORTED_SYMBOL) # not with the linker of tools/setup-zig
    target_link_options(mica_shared PRIVATE "-Wl,-exported_symbol,_mica_*")
  endif()
elseif(WIN32) # no visibility there: what the public headers declare, by name
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/mica/*.h)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
  set(exports)
  foreach(header ${headers})
    file(READ ${header} text)
    string(REGEX MATCHALL "MICA_API[^;(]*[ *]mica_[a-z0-9_]+\\(" found "${text}")
    list(TRANSFORM found REPLACE ".*[ *](mica_[a-z0-9_]+)\\(" "\\1")
    list(APPEND exports ${found})
  endforeach()
  list(JOIN exports "\n" exports)
  file(CONFIGURE OUTPUT mica.def CONTENT "EXPORTS\n${exports}\n" @ONLY)
  target_sources(mica_shared PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/mica.def)
else()
  # Not -Wl, which divides the path of a folder with a comma in its name.
  target_link_options(mica_shared PRIVATE
    "SHELL:-Xlinker \"--version-script=${PROJECT_SOURCE_DIR}/cmake/mica.map\"")
  if(NOT MICA_SANITIZE) # the sanitizers' own names come with the program
    target_link_options(mica_shared PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(mica_shared PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/mica.map)
endif()

foreach(target mica_static mica_shared)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME mica)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
add_library(mica::mica ALIAS mica_shared)
add_library(mica::mica_static ALIAS mica_static)
