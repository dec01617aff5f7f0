#include "cpu/picks.h"

#include <string.h>

#include "cpu/index.h"
#include "cpu/matmul_call.h"
#include "cpu/rows.h"

void mc_picks_cut(mc_picks *picks, const mc_call *call, mc_scratch *from) {
    const mc_layout *out = call->out.layout;
    const mc_layout *x = call->in[MC_MATMUL_X].layout, *w = call->in[MC_MATMUL_W].layout;
    picks->n = mc_row_count(out, out->ndim - 2);
    picks->n_x = mc_row_count(x, x->ndim - 2);
    picks->n_w = mc_row_count(w, w->ndim - 2);
    picks->x = mc_scratch_cut(from, picks->n, sizeof *picks->x);
    picks->w = mc_scratch_cut(from, picks->n, sizeof *picks->w);
    picks->places = mc_scratch_cut(from, picks->n, sizeof *picks->places);
    picks->w_first = mc_scratch_cut(from, picks->n_w + 1, sizeof *picks->w_first);
    picks->of_x = mc_scratch_cut(from, picks->n, sizeof *picks->of_x);
    picks->x_first = mc_scratch_cut(from, picks->n_x + 1, sizeof *picks->x_first);
}

/* The matrices of an operand that the result's places have: those that the operand `index` names,
 * or all in their order. */
static mica_status read_numbers(const mc_call *call, int operand, int index, int64_t *numbers) {
    const mc_layout *x = call->in[operand].layout, *out = call->out.layout;
    const mc_operand *named = index < call->n_in ? &call->in[index] : NULL;
    if (named && !named->layout) named = NULL;
    mc_layout all = *x, order;
    all.ndim -= 2;
    mc_layout_set_dense(&all);
    int64_t count = mc_layout_size(&all), place = 0;
    (void)mc_layout_broadcast(named ? named->layout : &all, out->shape, out->ndim - 2,
                              &order); /* infer checked the shapes */
    mc_walk walk = mc_walk_begin(&order);
    do {
        int64_t *number = &numbers[place++];
        *number = walk.offset;
        if (!named) continue;
        mica_dtype dtype = named->layout->dtype;
        const char *at = (const char *)named->data + *number * (int64_t)mica_dtype_bytes(dtype);
        MC_TRY(mc_index_resolve(mc_op_get(call->op)->name, dtype, at, count, 0, number));
    } while (mc_walk_next(&walk));
    return MICA_OK;
}

mica_status mc_picks_read(mc_picks *picks, const mc_call *call, int lhs) {
    MC_TRY(read_numbers(call, MC_MATMUL_X, lhs, picks->x));
    return read_numbers(call, MC_MATMUL_W, lhs + 1, picks->w);
}

/* Sorts 0 .. n - 1 by their keys, then rising. first[key]: where those of a key begin. */
static void sort(int64_t n, const int64_t *keys, int64_t n_keys, int64_t *first, int64_t *sorted) {
    memset(first, 0, (size_t)(n_keys + 1) * sizeof *first);
    for (int64_t i = 0; i < n; i++)
        first[keys[i] + 1]++;
    for (int64_t key = 0; key < n_keys; key++)
        first[key + 1] += first[key];
    for (int64_t i = 0; i < n; i++)
        sorted[first[keys[i]]++] = i;
    memmove(first + 1, first, (size_t)n_keys * sizeof *first);
    first[0] = 0;
}

void mc_picks_sort(mc_picks *picks) {
    sort(picks->n, picks->w, picks->n_w, picks->w_first, picks->places);
    int64_t *keys = picks->w; /* the matrix of x of each pick */
    for (int64_t i = 0; i < picks->n; i++)
        keys[i] = picks->x[picks->places[i]];
    sort(picks->n, keys, picks->n_x, picks->x_first, picks->of_x);
}
