/* Splits any bytes as a body of multipart/form-data: the result is a failure, or parts that lie
 * within the body, one behind the other. */
#include "serve/common/multipart.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether a view lies behind a place of the body. */
static bool is_within(mc_str view, const char *from, const char *end) {
    return !view.ptr ||
           (view.ptr >= from && view.ptr <= end && view.len <= (size_t)(end - view.ptr));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const mc_str body = {size ? (const char *)data : "", size};
    const char *at = body.ptr, *end = body.ptr + size;
    mc_part parts[MC_PARTS];
    mc_failure failure = {0};
    size_t n = 0;
    bool done = mc_multipart_read(body, parts, &n, &failure);
    if (n > MC_PARTS || done == (failure.status == 400) || (done && n == 0)) abort();
    for (size_t i = 0; i < n; i++) {
        if (!parts[i].name.ptr || !is_within(parts[i].name, at, end) ||
            !is_within(parts[i].filename, at, end) || !is_within(parts[i].content, at, end))
            abort();
        at = parts[i].content.ptr + parts[i].content.len;
    }
    return 0;
}
