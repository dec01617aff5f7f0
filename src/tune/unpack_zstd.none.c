/* A build without libzstd. */
#include "tune/lines.h"

const mc_unpacker mc_unpacker_zstd = {
    .name = "zstd", .magic = {0x28, 0xb5, 0x2f, 0xfd}, .magic_bytes = 4};
