/* The device of a test program: opened before its tests, and closed with nothing left on it. */
#ifndef EXEC_DEVICE_H
#define EXEC_DEVICE_H

#include <mica/mica.h>

#include "support/support.h"

static mica_device *device;

static inline int open_device(void **state) {
    (void)state;
    return test_device_open(&(mica_device_options){.threads = 2}, &device) != MICA_OK;
}

static inline int close_device(void **state) {
    (void)state;
    test_forget_plans(device);
    int64_t left = (int64_t)mica_device_active_bytes(device);
    mica_device_close(&device);
    return left != 0 && !test_device_is_other();
}

#endif
