/* A device and a scope for each test. */
#ifndef GRAPH_FIXTURE_H
#define GRAPH_FIXTURE_H

#include <mica/array.h>

#include "support/support.h"

typedef struct fixture {
    mica_device *device;
    mica_scope *s;
} fixture;

static inline int open_scope(void **state) {
    static fixture f;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &f.device), 0);
    assert_int_equal(mica_scope_open(f.device, &f.s), MICA_OK);
    *state = &f;
    return 0;
}

/* Twice: the second time there is nothing to close. */
static inline int close_scope(void **state) {
    fixture *f = *state;
    mica_scope_close(&f->s);
    mica_scope_close(&f->s);
    assert_int_equal(mica_device_active_bytes(f->device), 0);
    mica_device_close(&f->device);
    mica_device_close(&f->device);
    return 0;
}

#endif
