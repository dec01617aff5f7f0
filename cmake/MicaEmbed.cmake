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
