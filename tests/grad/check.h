/* What tests of gradients share. */
#ifndef GRAD_CHECK_H
#define GRAD_CHECK_H

#include <string.h>

#include "op/floats.h"

#define MUST(call)                                                           \
    do {                                                                     \
        if ((call) != MICA_OK) fail_msg("%s: %s", #call, mica_last_error()); \
    } while (0)
#define REFUSED(call, status, part)                                                  \
    do {                                                                             \
        assert_int_equal(call, status);                                              \
        if (!strstr(mica_last_error(), part)) fail_msg("\"%s\"", mica_last_error()); \
    } while (0)

static inline mica_array total(mica_scope *s, mica_array x) {
    return mica_sum(s, x, NULL, 0, false);
}

static inline mica_array vector(mica_scope *s, float a, float b, float c) {
    return f32s(s, (const float[]){a, b, c}, SHAPE(3));
}

#define EXPECT3(x, a, b, c) expect_f32(x, (const float[]){a, b, c}, SHAPE(3), 1e-6)

#endif
