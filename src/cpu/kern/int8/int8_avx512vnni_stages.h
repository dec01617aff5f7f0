/* AVX-512 VNNI: scales that are brought into lanes while codes are multiplied, or all at once. */
#ifndef CPU_KERN_INT8_INT8_AVX512VNNI_STAGES_H
#define CPU_KERN_INT8_INT8_AVX512VNNI_STAGES_H

#include "cpu/kern/int8/int8_avx512vnni_rows.h"

/* Goes through rows 16 at a time, and through their scales STAGE groups at a time: some are in use
 * while the ones after them are brought into lanes. */
typedef struct stages {
    const mk_qrows *w;
    int64_t n, groups;
    lanes blocks[2];
    lanes *now, *next;  /* of them: of the groups in use and of those in work */
    int64_t row, first; /* of those in work */
    int part, use;
    staging on;
    stage st[2];
} stages;

static inline void stages_begin(stages *s, const mk_qrows *w, int64_t n) {
    s->w = w;
    s->n = n;
    s->groups = w->k / w->group;
    s->now = s->next = &s->blocks[0];
    s->blocks[0] = lanes_of(w, n, 0);
    s->row = s->first = 0;
    s->part = s->use = 0;
}

/* Does a step of what is in work. kind: a constant. */
MK_INLINE void stages_part(scale_kind kind, stages *s) {
    int64_t count = staged_from(s->first, s->groups);
    stage *st = &s->st[1 - s->use];
    int part = s->part++;
    if (kind == ANY_SCALES)
        stage_any_part(s->w, s->next, s->first, count, true, part, &s->on, st);
    else
        stage_part(kind, s->w, s->next, s->first, count, true, part, &s->on, st);
}

/* To the groups after those in use, or at first to the first. What is left of them is done by code
 * that all kinds share. */
static const stage *stages_next(stages *s) {
    if (s->part == 0) { /* nothing has been done: by one call */
        int64_t count = staged_from(s->first, s->groups);
        fill_stage(s->w, s->next, s->first, count, true, &s->st[1 - s->use]);
        s->part = PARTS;
    }
    while (s->part < PARTS)
        stages_part(ANY_SCALES, s);
    s->use = 1 - s->use;
    s->part = 0;
    if (s->first == 0) s->now = s->next;
    s->first += STAGE;
    if (s->first >= s->groups) {
        s->first = 0;
        s->row += s->row + LANES < s->n ? LANES : 0; /* the last ones again, which nobody uses */
        s->next = &s->blocks[s->now == &s->blocks[0]];
        *s->next = lanes_of(s->w, s->n, s->row);
    }
    return &s->st[s->use];
}

/* What is due after `groups` groups have been used. */
MK_INLINE void stages_work(scale_kind kind, stages *s, int groups) {
    for (int i = 0; i < (groups + 1) / 2; i++)
        if (s->part < PARTS) stages_part(kind, s);
}

#endif
