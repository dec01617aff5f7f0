/* Prompts by their ids, as tasks over several of them ask for them. */
#ifndef TASK_PROMPTS_H
#define TASK_PROMPTS_H

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

enum { MAX_PROMPTS = 20 };

typedef struct prompts {
    const int32_t *ids[MAX_PROMPTS];
    size_t lengths[MAX_PROMPTS];
} prompts;

static inline mica_status encode(void *context, size_t i, int32_t **ids, size_t *n) {
    const prompts *p = context;
    if (!p->ids[i]) return mc_fail(MICA_EFORMAT, "prompt %zu is broken", i);
    *n = p->lengths[i];
    *ids = mc_array_alloc(*n, sizeof **ids);
    if (!*ids) return mc_fail_nomem("a prompt");
    memcpy(*ids, p->ids[i], *n * sizeof **ids);
    return MICA_OK;
}

#endif
