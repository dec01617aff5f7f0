#include "base/cancel.h"

#include "base/alloc.h"

mica_status mica_cancel_open(mica_cancel **cancel) {
    if (!cancel) return mc_fail(MICA_EINVAL, "mica_cancel_open: cancel is NULL");
    *cancel = mc_calloc(1, sizeof **cancel);
    if (!*cancel) return mc_fail_nomem("a flag for cancelling");
    atomic_init(&(*cancel)->set, false);
    return MICA_OK;
}

void mc_cancel_init_either(mica_cancel *either, const mica_cancel *a, const mica_cancel *b) {
    atomic_init(&either->set, false);
    either->also[0] = a;
    either->also[1] = b;
}

void mica_cancel_set(mica_cancel *cancel) {
    if (cancel) atomic_store_explicit(&cancel->set, true, memory_order_relaxed);
}

void mica_cancel_close(mica_cancel **cancel) {
    if (!cancel) return;
    mc_free(*cancel);
    *cancel = NULL;
}

static bool is_set(const mica_cancel *cancel) {
    return cancel && atomic_load_explicit(&cancel->set, memory_order_relaxed);
}

mica_status mc_cancel_check(const mica_cancel *cancel) {
    if (!cancel || !(is_set(cancel) || is_set(cancel->also[0]) || is_set(cancel->also[1])))
        return MICA_OK;
    return mc_fail(MICA_ECANCELLED, "the work was cancelled");
}
