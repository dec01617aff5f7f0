#include "base/cancel.h"

#include "base/alloc.h"

#include <stdatomic.h>

struct mica_cancel {
    atomic_bool set;
};

mica_status mica_cancel_open(mica_cancel **cancel) {
    if (!cancel) return mc_fail(MICA_EINVAL, "mica_cancel_open: cancel is NULL");
    *cancel = mc_calloc(1, sizeof **cancel);
    if (!*cancel) return mc_fail_nomem("a flag for cancelling");
    atomic_init(&(*cancel)->set, false);
    return MICA_OK;
}

void mica_cancel_set(mica_cancel *cancel) {
    if (cancel) atomic_store_explicit(&cancel->set, true, memory_order_relaxed);
}

void mica_cancel_close(mica_cancel **cancel) {
    if (!cancel) return;
    mc_free(*cancel);
    *cancel = NULL;
}

mica_status mc_cancel_check(const mica_cancel *cancel) {
    if (!cancel || !atomic_load_explicit(&cancel->set, memory_order_relaxed)) return MICA_OK;
    return mc_fail(MICA_ECANCELLED, "the work was cancelled");
}
