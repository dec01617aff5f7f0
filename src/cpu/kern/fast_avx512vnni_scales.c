/* AVX-512 VNNI: scales of 16 rows and up to 16 groups brought into lanes. */
#include "cpu/kern/fast_avx512vnni.h"

/* The usual case, and what takes time of mxfp4, have code of their own. */
void mk_fast_stage_avx512vnni(const mk_qrows *w, const lanes *l, int64_t g, int64_t count,
                              bool fetch, stage *st) {
    const scale_kind kind = scale_kind_of(w);
    staging on;
    if (kind == BF16_SCALES && count == STAGE && l->whole) {
        lanes all = *l;
        all.last = INT64_MAX; /* no row is looked for */
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; part++)
            stage_part(BF16_SCALES, w, &all, g, STAGE, fetch, part, &on, st);
    } else if (kind == E8M0_SCALES) {
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; part++)
            stage_part(E8M0_SCALES, w, l, g, count, fetch, part, &on, st);
    } else {
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; part++)
            stage_any_part(w, l, g, count, fetch, part, &on, st);
    }
}
