/* What a status must be. */
#ifndef EXEC_EXPECT_H
#define EXEC_EXPECT_H

#include <mica/status.h>

#include <string.h>

#include "support/support.h"

static inline void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static inline void expect_refused(mica_status status, mica_status want, const char *text) {
    if (status != want || !strstr(mica_last_error(), text))
        fail_msg("%s: %s", mica_status_name(status), mica_last_error());
}

#endif
