#include "device/backend.h"

#include "base/alloc.h"

void mc_lowered_free(mc_lowered *l) {
    if (!l) return;
    mica_scope_close(&l->graph);
    mc_free(l->params);
    mc_free(l->results);
    mc_free(l->stays);
    mc_free(l);
}
