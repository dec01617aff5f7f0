# mica_embed(<file> <out> <header> <name>)
#
# Writes the C file <out>: the bytes of <file> as the array <name>, and their number as
# <name>_bytes, which <header> declares. Configures anew when <file> changes.
function(mica_embed file out header name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} bytes HEX)
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
