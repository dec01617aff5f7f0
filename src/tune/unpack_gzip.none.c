/* A build without zlib. */
#include "tune/lines.h"

const mc_unpacker mc_unpacker_gzip = {.name = "gzip", .magic = {0x1f, 0x8b}, .magic_bytes = 2};
