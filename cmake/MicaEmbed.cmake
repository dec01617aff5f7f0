# mica_embed(<file> <out> <header> <name>)
#
# Writes the C file <out>: the bytes of <file> as the array <name>, and their number as
# <name>_bytes, which <header> declares. Configures anew when <file> changes.
function(mica_embed file out header name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} bytes HEX)
  mica_embed_hex("${bytes}" ${out} ${header} ${name})
endfunction()

# mica_embed_gzip(<file> <out> <header> <name>): the same of <file> compressed by gzip, with a
# header of ten bytes that says no time, so that builds of the same sources are equal.
function(mica_embed_gzip file out header name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  set(packed ${CMAKE_CURRENT_BINARY_DIR}/${name}.gz)
  file(ARCHIVE_CREATE OUTPUT ${packed} PATHS ${file} FORMAT raw COMPRESSION GZip
    COMPRESSION_LEVEL 9)
  file(READ ${packed} bytes OFFSET 10 HEX)
  file(READ ${packed} head LIMIT 4 HEX)
  if(NOT head STREQUAL "1f8b0800")
    message(FATAL_ERROR "${packed} begins with ${head}: want gzip without a name")
  endif()
  mica_embed_hex("1f8b08000000000002ff${bytes}" ${out} ${header} ${name})
endfunction()

# mica_embed_licences(<out> <header> <name>): the texts, also as licences.txt of the build, of the
# licences of mica, of the page, and of what is in the folder MICA_LICENCES, each behind its name;
# without one, of the headers whose functions are compiled in: licences/.
function(mica_embed_licences out header name)
  set(text "")
  set(plain "")
  if(MICA_LICENCES)
    file(GLOB files ${MICA_LICENCES}/*)
  else()
    file(GLOB files ${PROJECT_SOURCE_DIR}/cmake/licences/*)
  endif()
  foreach(file ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/web/dist/LICENSES ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(what ${file} NAME_WE)
    if(what STREQUAL "LICENSE")
      set(what mica)
    elseif(what STREQUAL "LICENSES")
      set(what "The page of mica serve")
    endif()
    string(HEX "==== ${what} ====\n\n" title)
    file(READ ${file} bytes HEX)
    string(APPEND text "${title}${bytes}0a")
    execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${file} OUTPUT_VARIABLE bytes)
    string(APPEND plain "==== ${what} ====\n\n${bytes}\n")
  endforeach()
  file(WRITE ${PROJECT_BINARY_DIR}/licences.txt "${plain}")
  mica_embed_hex("${text}" ${out} ${header} ${name})
endfunction()

function(mica_embed_hex bytes out header name)
  string(LENGTH "${bytes}" digits)
  math(EXPR count "${digits} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "@header@"

const unsigned char @name@[] = {
@bytes@};
const size_t @name@_bytes = @count@;
]])
endfunction()
