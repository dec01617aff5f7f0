#include "convert/source.h"

void mc_source_close(mc_source *source) {
    if (source->close) source->close(source);
    mc_arena_deinit(&source->arena);
    *source = (mc_source){0};
}
