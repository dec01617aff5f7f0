#include "session/largest.h"

#include "exec/read.h"
#include "model/lm.h"

#include <mica/ops.h>

#include <math.h>

_Static_assert(sizeof(mc_largest) == (2 * MC_LARGEST + 1) * sizeof(float), "words alone");

void mc_best_record(mica_scope *s, mica_array logits, mica_array arrays[MC_BEST_ARRAYS]) {
    const int last = -1;
    arrays[0] = mica_argmax(s, logits, last, false);
    arrays[1] = mica_max(s, logits, &last, 1, false);
}

mica_status mc_best_read(const mica_array arrays[MC_BEST_ARRAYS], mc_best *best, size_t rows) {
    uint32_t ids[MC_MAX_ROWS];
    float logits[MC_MAX_ROWS];
    MC_TRY(mc_read_part(arrays[0], 0, ids, rows * sizeof *ids));
    MC_TRY(mc_read_part(arrays[1], 0, logits, rows * sizeof *logits));
    for (size_t i = 0; i < rows; i++)
        best[i] = (mc_best){(int32_t)ids[i], logits[i]};
    return MICA_OK;
}

double mc_largest_error(const mc_largest *largest) {
    return 2e-4 + 0x1p-21 * fabs((double)largest->log_total);
}

/* logsumexp of rows [rows, vocab] -> [rows, 1], by parts about as long as there are parts: a long
 * sum in f32 would lose its small terms. */
static mica_array log_totals(mica_scope *s, mica_array x) {
    const int64_t vocab = mica_array_dim(x, 1);
    const int last = -1;
    int64_t part = 1;
    while (part * part < vocab)
        part *= 2;
    const int64_t whole = vocab / part * part, cut[] = {vocab / part, part};
    mica_array parts = mica_unflatten(s, mica_slice_axis(s, x, 1, 0, whole), 1, cut, 2);
    mica_array sums = mica_logsumexp(s, parts, &last, 1, false);
    if (whole < vocab) {
        mica_array rest = mica_slice_axis(s, x, 1, whole, vocab);
        const mica_array both[] = {sums, mica_logsumexp(s, rest, &last, 1, true)};
        sums = mica_concatenate(s, both, 2, 1);
    }
    return mica_logsumexp(s, sums, &last, 1, true);
}

mc_largest_parts mc_largest_find(mica_scope *s, mica_array x) {
    mc_largest_parts parts;
    parts.values = mica_topk_indices(s, x, MC_LARGEST, -1, &parts.ids);
    parts.log_total = log_totals(s, x);
    return parts;
}

mica_array mc_largest_join(mica_scope *s, const mc_largest_parts *parts) {
    const mica_array words[] = {mica_view(s, parts->values, MICA_U32), parts->ids,
                                mica_view(s, parts->log_total, MICA_U32)};
    return mica_concatenate(s, words, 3, 1);
}

mica_array mc_largest_record(mica_scope *s, mica_array logits) {
    const mc_largest_parts parts = mc_largest_find(s, mica_flatten(s, logits, 0, 1));
    return mc_largest_join(s, &parts);
}

mica_status mc_largest_read(mica_array array, mc_largest *largest, size_t rows) {
    return mc_read_part(array, 0, largest, rows * sizeof *largest);
}
