/* Walks over grammars, for targets that compile some: documents of them, byte by byte. */
#ifndef FUZZ_WALK_H
#define FUZZ_WALK_H

#include "base/alloc.h"
#include "base/json.h"
#include "grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

static inline void fuzz_must(bool truth) {
    if (!truth) abort();
}

/* The byte that `choice` chooses of those that may come; -1: none may. */
static inline int fuzz_choose(mc_matcher *m, uint8_t choice, int32_t *next) {
    int bytes[256];
    int32_t states[256];
    size_t n = 0;
    for (int byte = 0; byte < 256; byte++) {
        int32_t to;
        if (mc_matcher_step(m, m->held, (uint8_t)byte, &to) != MICA_OK) return -2;
        if (to == MC_STATE_DEAD) continue;
        bytes[n] = byte;
        states[n++] = to;
    }
    if (!n) return -1;
    *next = states[choice % n];
    return bytes[choice % n];
}

static inline void fuzz_check_document(const mc_buffer *text) {
    mc_json_doc *doc = NULL;
    mica_status status = mc_json_parse(text->data ? text->data : "", text->len, "fuzz", &doc);
    fuzz_must(status == MICA_OK || status == MICA_ENOMEM);
    mc_json_close(&doc);
}

/* Writes a document as `choices` say. In every state something may come, or it may end, and where
 * it may it parses, if it is JSON. */
static inline void fuzz_walk(mc_grammar *g, mc_str choices, bool json) {
    mc_matcher m;
    mc_buffer text = {0};
    if (mc_matcher_open(g, 0, &m) != MICA_OK) return;
    for (size_t i = 0; i < choices.len && i < 400; i++) {
        int32_t next = 0;
        bool may_end = mc_matcher_state(&m, m.held)->may_end;
        mc_matcher_refill(&m);
        if (may_end && json) fuzz_check_document(&text);
        int byte = fuzz_choose(&m, (uint8_t)choices.ptr[i], &next);
        if (byte == -1) fuzz_must(may_end);
        if (byte < 0 || !mc_buffer_add_byte(&text, (char)byte)) break;
        m.held = next;
        if (mc_matcher_trim(&m) != MICA_OK) break;
    }
    mc_buffer_deinit(&text);
    mc_matcher_close(&m);
}

/* Splits an input at its first NUL into a source and what chooses among its documents, and runs
 * them: twice, the second time with an allocation that fails. */
static inline int fuzz_source(const uint8_t *data, size_t size,
                              void (*run)(mc_str source, mc_str choices)) {
    const char *text = (const char *)data, *end = size ? memchr(text, '\0', size) : NULL;
    size_t len = end ? (size_t)(end - text) : size;
    mc_str source = {size ? text : "", len},
           choices = {end ? end + 1 : "", end ? size - len - 1 : 0};
    run(source, choices);
    if (size == 0) return 0;
    mc_alloc_fail_at(1 + data[size - 1] % 64);
    run(source, choices);
    mc_alloc_fail_at(0);
    return 0;
}

#endif
