/* Goldens of views, arranging, indexing and making: ops/index.json. Indices are Python's, as text:
 * "[:, i, 1:3]", where i is an input. If the reference applied the op to a part of the input, the
 * golden's shapes show which part. */
#include "op/golden.h"

#include <stdlib.h>
#include <string.h>

/* ---- Python's index expressions ---- */

typedef enum part_kind { PART_SLICE, PART_INT, PART_NEW, PART_INPUT } part_kind;

typedef struct part {
    part_kind kind;
    int64_t start, stop, step;
    char input[8];
} part;

typedef struct index_text {
    part parts[2 * MICA_MAX_NDIM];
    int n;
} index_text;

static const part everything = {.kind = PART_SLICE, .stop = MICA_END_OF_AXIS, .step = 1};

/* Parses "1", ":", "3:0:-1", "::2", "None" or the name of an input. */
static part parse_part(const char *text, size_t len) {
    part p = everything;
    char buf[32];
    assert_true(len > 0 && len < sizeof buf);
    memcpy(buf, text, len);
    buf[len] = '\0';
    if (strcmp(buf, "None") == 0) {
        p.kind = PART_NEW;
        return p;
    }
    if (buf[0] >= 'a' && buf[0] <= 'z') {
        p.kind = PART_INPUT;
        assert_true(len < sizeof p.input);
        memcpy(p.input, buf, len + 1);
        return p;
    }
    char *first = strchr(buf, ':'), *second = first == NULL ? NULL : strchr(first + 1, ':');
    if (first == NULL) {
        p.kind = PART_INT;
        p.start = strtoll(buf, NULL, 10);
        p.stop = p.start == -1 ? MICA_END_OF_AXIS : p.start + 1;
        return p;
    }
    if (second != NULL && second[1] != '\0') p.step = strtoll(second + 1, NULL, 10);
    p.start = first != buf ? strtoll(buf, NULL, 10) : p.step > 0 ? 0 : MICA_END_OF_AXIS;
    if (first[1] != '\0' && first + 1 != second) p.stop = strtoll(first + 1, NULL, 10);
    return p;
}

/* Parses an index into a part for each of ndim axes: the ellipsis, and axes that are not named, are
 * slices. */
static index_text parse_index(const char *text, int ndim) {
    index_text index = {.n = 0};
    int named = 0, ellipsis = -1;
    assert_true(*text == '[');
    text++;
    while (*text != ']') {
        text += strspn(text, ", ");
        size_t len = strcspn(text, ",]");
        if (len == 3 && memcmp(text, "...", 3) == 0) {
            ellipsis = index.n;
        } else {
            assert_true(index.n < MICA_MAX_NDIM);
            index.parts[index.n] = parse_part(text, len);
            if (index.parts[index.n].kind != PART_NEW) named++;
            index.n++;
        }
        text += len;
    }
    int more = ndim - named, at = ellipsis >= 0 ? ellipsis : index.n;
    assert_true(more >= 0);
    memmove(index.parts + at + more, index.parts + at, (size_t)(index.n - at) * sizeof(part));
    for (int i = 0; i < more; i++)
        index.parts[at + i] = everything;
    index.n += more;
    return index;
}

typedef struct cut {
    int64_t start[MICA_MAX_NDIM], stop[MICA_MAX_NDIM], step[MICA_MAX_NDIM];
} cut;

static cut cut_of(const index_text *index) {
    cut c = {{0}, {0}, {0}};
    int axis = 0;
    for (int i = 0; i < index->n; i++) {
        if (index->parts[i].kind == PART_NEW) continue;
        c.start[axis] = index->parts[i].start;
        c.stop[axis] = index->parts[i].stop;
        c.step[axis++] = index->parts[i].step;
    }
    return c;
}

static bool run_slice(golden *g) {
    char text[64];
    mica_array a = golden_in(g, "a");
    if (!golden_text(g, "index", text)) return false;
    index_text index = parse_index(text, mica_array_ndim(a));
    cut c = cut_of(&index);
    mica_array y = mica_slice(g->s, a, c.start, c.stop, c.step);
    int64_t shape[MICA_MAX_NDIM];
    int ndim = 0, axis = 0;
    for (int i = 0; i < index.n; i++) {
        part_kind kind = index.parts[i].kind;
        if (kind == PART_INPUT) return false;
        if (kind == PART_NEW) shape[ndim++] = 1;
        if (kind == PART_SLICE) shape[ndim++] = mica_array_dim(y, axis);
        if (kind != PART_NEW) axis++;
    }
    g->out[0] = mica_reshape(g->s, y, shape, ndim);
    return true;
}

/* Slices first, then gathers along the axes that inputs index, which are neighbours. The axes of
 * the indices replace them. */
static bool run_gather(golden *g) {
    char text[64];
    mica_array a = golden_in(g, "a"), indices[MICA_MAX_NDIM];
    if (!golden_text(g, "index", text)) return false;
    index_text index = parse_index(text, mica_array_ndim(a));
    cut c = cut_of(&index);
    mica_array y = mica_slice(g->s, a, c.start, c.stop, c.step);
    int axes[MICA_MAX_NDIM], n = 0, index_ndim = 0;
    int64_t sizes[MICA_MAX_NDIM];
    for (int i = 0; i < index.n; i++) {
        sizes[i] = mica_array_dim(y, i);
        if (index.parts[i].kind == PART_SLICE) continue;
        if (index.parts[i].kind != PART_INPUT) return false;
        indices[n] = golden_in(g, index.parts[i].input);
        int ndim = mica_array_ndim(indices[n]);
        index_ndim = ndim > index_ndim ? ndim : index_ndim;
        sizes[i] = 1;
        axes[n++] = i;
    }
    y = mica_gather(g->s, y, indices, n, axes, sizes);
    for (int i = n - 1; i >= 0; i--)
        y = mica_squeeze(g->s, y, index_ndim + axes[i]);
    for (int i = 0; i < index_ndim; i++)
        y = mica_moveaxis(g->s, y, 0, axes[0] + index_ndim - 1);
    g->out[0] = y;
    return true;
}

/* ---- reading and writing by index ---- */

static bool run_take(golden *g) {
    mica_array a = golden_in(g, "a");
    if (!golden_has(g, "axis")) a = mica_flatten(g->s, a, 0, -1);
    g->out[0] = mica_take(g->s, a, golden_in(g, "i"), (int)golden_int(g, "axis", 0));
    return true;
}

static bool run_take_along_axis(golden *g) {
    g->out[0] = mica_take_along_axis(g->s, golden_in(g, "a"), golden_in(g, "i"),
                                     (int)golden_int(g, "axis", 0));
    return true;
}

static bool run_put_along_axis(golden *g) {
    g->out[0] = mica_put_along_axis(g->s, golden_in(g, "a"), golden_in(g, "i"), golden_in(g, "v"),
                                    (int)golden_int(g, "axis", 0));
    return true;
}

/* Combines a[i] with v, which broadcasts to i's shape followed by that of a row of a. */
static void scatter(golden *g, mica_array v, mica_scatter_mode mode) {
    mica_array a = golden_in(g, "a"), i = golden_in(g, "i");
    int64_t shape[MICA_MAX_NDIM];
    int ndim = 0, axis = 0, index_ndim = mica_array_ndim(i);
    for (int k = 0; k < index_ndim; k++)
        shape[ndim++] = mica_array_dim(i, k);
    for (int k = 1; k < mica_array_ndim(a); k++)
        shape[ndim++] = mica_array_dim(a, k);
    v = mica_expand_dims(g->s, mica_broadcast_to(g->s, v, shape, ndim), index_ndim);
    g->out[0] = mica_scatter(g->s, a, &i, 1, &axis, v, mode);
}

static bool run_scatter_set(golden *g) {
    scatter(g, golden_in(g, "v"), MICA_SCATTER_SET);
    return true;
}

static bool run_scatter_add(golden *g) {
    scatter(g, golden_in(g, "v"), MICA_SCATTER_ADD);
    return true;
}

static bool run_scatter_subtract(golden *g) {
    scatter(g, mica_negative(g->s, golden_in(g, "v")), MICA_SCATTER_ADD);
    return true;
}

static bool run_scatter_multiply(golden *g) {
    scatter(g, golden_in(g, "v"), MICA_SCATTER_MULTIPLY);
    return true;
}

static bool run_scatter_divide(golden *g) {
    scatter(g, mica_reciprocal(g->s, golden_in(g, "v")), MICA_SCATTER_MULTIPLY);
    return true;
}

static bool run_scatter_maximum(golden *g) {
    scatter(g, golden_in(g, "v"), MICA_SCATTER_MAXIMUM);
    return true;
}

static bool run_scatter_minimum(golden *g) {
    scatter(g, golden_in(g, "v"), MICA_SCATTER_MINIMUM);
    return true;
}

static bool run_slice_update(golden *g) {
    char text[64];
    mica_array a = golden_in(g, "a"), v = golden_in(g, "v");
    if (golden_text(g, "index", text)) {
        index_text index = parse_index(text, mica_array_ndim(a));
        cut c = cut_of(&index);
        g->out[0] = mica_slice_update(g->s, a, v, c.start, c.stop, c.step);
        return true;
    }
    int64_t start, axis;
    if (golden_ints(g, "start", &start, 1) != 1 || golden_ints(g, "axes", &axis, 1) != 1)
        return false;
    g->out[0] = mica_slice_update_at(g->s, a, v, mica_i32(g->s, (int32_t)start), (int)axis);
    return true;
}

static bool run_where(golden *g) {
    g->out[0] = mica_where(g->s, golden_in(g, "c"), golden_in(g, "a"), golden_in(g, "b"));
    return true;
}

static bool run_masked_set(golden *g) {
    g->out[0] = mica_where(g->s, golden_in(g, "m"), golden_in(g, "v"), golden_in(g, "a"));
    return true;
}

static bool run_clip(golden *g) {
    g->out[0] = mica_clip(g->s, golden_in(g, "a"), golden_in(g, "lo"), golden_in(g, "hi"));
    return true;
}

/* ---- views ---- */

static bool run_as_strided(golden *g) {
    int64_t shape[MICA_MAX_NDIM], strides[MICA_MAX_NDIM];
    int ndim = golden_ints(g, "shape", shape, MICA_MAX_NDIM);
    if (golden_ints(g, "strides", strides, MICA_MAX_NDIM) != ndim) return false;
    g->out[0] =
        mica_as_strided(g->s, golden_in(g, "a"), shape, strides, ndim, golden_int(g, "offset", 0));
    return true;
}

static bool run_transpose(golden *g) {
    int64_t given[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM], n = golden_ints(g, "axes", given, MICA_MAX_NDIM);
    for (int k = 0; k < n; k++)
        axes[k] = (int)given[k];
    g->out[0] = mica_transpose(g->s, golden_in(g, "a"), n < 0 ? NULL : axes);
    return true;
}

static bool run_swapaxes(golden *g) {
    g->out[0] = mica_swapaxes(g->s, golden_in(g, "a"), (int)golden_int(g, "a", 0),
                              (int)golden_int(g, "b", 0));
    return true;
}

static bool run_moveaxis(golden *g) {
    g->out[0] = mica_moveaxis(g->s, golden_in(g, "a"), (int)golden_int(g, "src", 0),
                              (int)golden_int(g, "dst", 0));
    return true;
}

static bool run_reshape(golden *g) {
    char text[64];
    mica_array a = golden_in(g, "a");
    if (golden_text(g, "after", text)) {
        if (strcmp(text, "transpose(1,0,2)") != 0) return false;
        a = mica_swapaxes(g->s, a, 0, 1);
    }
    g->out[0] = mica_reshape(g->s, a, mica_array_shape(g->want[0]), mica_array_ndim(g->want[0]));
    return true;
}

static bool run_flatten(golden *g) {
    g->out[0] = mica_flatten(g->s, golden_in(g, "a"), (int)golden_int(g, "start", 0),
                             (int)golden_int(g, "end", -1));
    return true;
}

/* Squeezes the first element along that axis. */
static bool run_squeeze(golden *g) {
    int axis = (int)golden_int(g, "axis", 0);
    mica_array one = mica_slice_axis(g->s, golden_in(g, "a"), axis, 0, 1);
    g->out[0] = mica_squeeze(g->s, one, axis);
    return true;
}

/* Unflattens axis 1 to the golden's axes 1 and 2. */
static bool run_unflatten(golden *g) {
    g->out[0] = mica_unflatten(g->s, golden_in(g, "a"), 1, mica_array_shape(g->want[0]) + 1, 2);
    return true;
}

/* Broadcasts the first block to the golden's shape. */
static bool run_broadcast_to(golden *g) {
    mica_array first = mica_slice_axis(g->s, golden_in(g, "a"), 0, 0, 1);
    g->out[0] =
        mica_broadcast_to(g->s, first, mica_array_shape(g->want[0]), mica_array_ndim(g->want[0]));
    return true;
}

static bool run_flip(golden *g) {
    g->out[0] = mica_flip(g->s, golden_in(g, "a"), (int)golden_int(g, "axis", 0));
    return true;
}

static bool run_view(golden *g) {
    g->out[0] = mica_view(g->s, golden_in(g, "a"), golden_dtype(g, "dtype", MICA_F32));
    return true;
}

/* ---- arranging ---- */

/* The input with ndim axes: of each leading axis the first element. */
static mica_array with_ndim(golden *g, int ndim) {
    mica_array a = golden_in(g, "a");
    while (mica_array_ndim(a) > ndim)
        a = mica_squeeze(g->s, mica_slice_axis(g->s, a, 0, 0, 1), 0);
    return a;
}

/* "pad": one width for all sides, or [[before, after] for every axis]. */
static bool pad_widths(golden *g, int ndim, int64_t *before, int64_t *after) {
    mc_json pad = mc_json_find(g->args, "pad");
    int64_t width;
    if (mc_json_get_int(pad, &width)) {
        for (int k = 0; k < ndim; k++)
            before[k] = after[k] = width;
        return true;
    }
    int n = 0;
    for (mc_json_iter axis = mc_json_begin(pad); mc_json_next(&axis); n++) {
        mc_json_iter side = mc_json_begin(axis.value);
        if (n >= ndim || !mc_json_next(&side) || !mc_json_get_int(side.value, &before[n]) ||
            !mc_json_next(&side) || !mc_json_get_int(side.value, &after[n]))
            return false;
    }
    return n == ndim;
}

static bool run_pad(golden *g) {
    int64_t before[MICA_MAX_NDIM], after[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(g->want[0]);
    if (!pad_widths(g, ndim, before, after)) return false;
    mica_array value = mica_f32(g->s, (float)golden_float(g, "value", 0.0));
    g->out[0] = mica_pad(g->s, with_ndim(g, ndim), before, after, value);
    return true;
}

static bool run_pad_edge(golden *g) {
    int64_t before[MICA_MAX_NDIM], after[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(g->want[0]);
    if (!pad_widths(g, ndim, before, after)) return false;
    g->out[0] = mica_pad_edge(g->s, with_ndim(g, ndim), before, after);
    return true;
}

static bool run_repeat(golden *g) {
    g->out[0] = mica_repeat(g->s, golden_in(g, "a"), golden_int(g, "repeats", 1),
                            (int)golden_int(g, "axis", 0));
    return true;
}

/* Tiles the first block, if an axis is repeated that the input has not. */
static bool run_tile(golden *g) {
    int64_t reps[MICA_MAX_NDIM];
    int n = golden_ints(g, "reps", reps, MICA_MAX_NDIM);
    mica_array a = golden_in(g, "a");
    if (n == mica_array_ndim(a) && mica_array_dim(g->want[0], 0) != reps[0] * mica_array_dim(a, 0))
        a = with_ndim(g, n - 1);
    g->out[0] = mica_tile(g->s, a, reps, n);
    return true;
}

static bool run_roll(golden *g) {
    mica_array a = golden_in(g, "a");
    int64_t shift = golden_int(g, "shift", 0);
    if (golden_has(g, "axis")) {
        g->out[0] = mica_roll(g->s, a, shift, (int)golden_int(g, "axis", 0));
        return true;
    }
    mica_array flat = mica_roll(g->s, mica_flatten(g->s, a, 0, -1), shift, 0);
    g->out[0] = mica_reshape(g->s, flat, mica_array_shape(a), mica_array_ndim(a));
    return true;
}

static bool run_tril(golden *g) {
    g->out[0] = mica_tril(g->s, golden_in(g, "a"), golden_int(g, "k", 0));
    return true;
}

static bool run_triu(golden *g) {
    g->out[0] = mica_triu(g->s, golden_in(g, "a"), golden_int(g, "k", 0));
    return true;
}

static bool run_diag(golden *g) {
    g->out[0] = mica_diag(g->s, with_ndim(g, 1), golden_int(g, "k", 0));
    return true;
}

static bool run_diagonal(golden *g) {
    g->out[0] = mica_diagonal(g->s, golden_in(g, "a"), golden_int(g, "offset", 0),
                              (int)golden_int(g, "axis1", 0), (int)golden_int(g, "axis2", 1));
    return true;
}

static bool run_split(golden *g) {
    int64_t indices[GOLDEN_MAX - 1];
    int n = golden_ints(g, "indices", indices, GOLDEN_MAX - 1);
    if (n + 1 != g->n_out) return false;
    assert_int_equal(
        mica_split(g->s, golden_in(g, "a"), indices, n, (int)golden_int(g, "axis", 0), g->out),
        MICA_OK);
    return true;
}

static bool run_concatenate(golden *g) {
    g->out[0] = mica_concatenate(g->s, g->in, g->n_in, (int)golden_int(g, "axis", 0));
    return true;
}

static bool run_stack(golden *g) {
    g->out[0] = mica_stack(g->s, g->in, g->n_in, (int)golden_int(g, "axis", 0));
    return true;
}

/* ---- making ---- */

/* The list "args" as doubles; its length. */
static int number_args(golden *g, double *out, int max) {
    int n = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_find(g->args, "args")); mc_json_next(&it); n++) {
        assert_true(n < max);
        assert_true(mc_json_get_float(it.value, &out[n]));
    }
    return n;
}

static bool run_arange(golden *g) {
    double a[3];
    int n = number_args(g, a, 3);
    double start = n > 1 ? a[0] : 0.0, stop = n > 1 ? a[1] : a[0], step = n > 2 ? a[2] : 1.0;
    g->out[0] = mica_arange(g->s, start, stop, step, mica_array_dtype(g->want[0]));
    return n > 0;
}

static bool run_linspace(golden *g) {
    double a[3];
    if (number_args(g, a, 3) != 3) return false;
    g->out[0] = mica_linspace(g->s, a[0], a[1], (int64_t)a[2]);
    return true;
}

static bool run_eye(golden *g) {
    double a[3];
    if (number_args(g, a, 3) != 3) return false;
    g->out[0] = mica_eye(g->s, (int64_t)a[0], (int64_t)a[1], (int64_t)a[2], MICA_F32);
    return true;
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {
    ROW(slice),
    ROW(gather),
    ROW(take),
    ROW(take_along_axis),
    ROW(put_along_axis),
    ROW(scatter_set),
    ROW(scatter_add),
    ROW(scatter_subtract),
    ROW(scatter_multiply),
    ROW(scatter_divide),
    ROW(scatter_maximum),
    ROW(scatter_minimum),
    ROW(slice_update),
    ROW(where),
    ROW(masked_set),
    ROW(clip),
    ROW(as_strided),
    ROW(transpose),
    ROW(swapaxes),
    ROW(moveaxis),
    ROW(reshape),
    ROW(flatten),
    ROW(squeeze),
    ROW(unflatten),
    ROW(broadcast_to),
    ROW(flip),
    ROW(view),
    ROW(pad),
    ROW(pad_edge),
    ROW(repeat),
    ROW(tile),
    ROW(roll),
    ROW(tril),
    ROW(triu),
    ROW(diag),
    ROW(diagonal),
    ROW(split),
    ROW(concatenate),
    ROW(stack),
    ROW(arange),
    ROW(linspace),
    ROW(eye),
};

const golden_group golden_index = {"index", rows, sizeof rows / sizeof *rows, NULL};
