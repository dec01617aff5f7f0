/* Random programs with symbols against the same programs recorded for numbers: the same bits, and
 * for lengths that meet no others the same nodes.
 *
 *     test_exec random_symbols [programs [seed]]
 *
 * What a program does is chosen by what its lengths are made of, which is the same with symbols and
 * with numbers: an axis has the number of a length in a list, and equal numbers are equal
 * lengths. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device.h"
#include "exec/expect.h"

enum {
    MAX_ARRAYS = 24,
    MAX_LENGTHS = 200,
    MAX_NDIM = 4,
    LEAST = 5,
    MOST = 13,
    RESULTS = 3,
    KEYS = 6
};
#define MAX_ELEMENTS 30000

static int programs = 300;
static uint64_t seed = 1;

/* A length: what it is in this recording, at least and at most, and for lengths that tell it from
 * others. */
typedef struct length {
    char op; /* 'n' a symbol or number; or of a and b */
    int a;
    int64_t b;
    int64_t dim, least, most, keys[KEYS];
} length;

typedef struct value {
    mica_array x;
    int ndim;
    int axes[MAX_NDIM]; /* numbers of lengths */
} value;

typedef struct program {
    mica_scope *s;
    uint64_t state;
    int n, n_lengths;
    value all[MAX_ARRAYS];
    length lengths[MAX_LENGTHS];
    char text[2048];
} program;

static int below(program *p, int n) {
    p->state ^= p->state << 13;
    p->state ^= p->state >> 7;
    p->state ^= p->state << 17;
    return (int)((p->state >> 11) % (uint64_t)n);
}

/* ---- lengths ---- */

static int64_t apply(char op, int64_t a, int64_t b) {
    return op == '+'   ? mica_dim_add(a, b)
           : op == '*' ? mica_dim_multiply(a, b)
                       : mica_dim_divide(a, b);
}

static int add_length(program *p, length l) {
    for (int i = 0; i < p->n_lengths; i++)
        if (memcmp(p->lengths[i].keys, l.keys, sizeof l.keys) == 0) return i;
    if (p->n_lengths == MAX_LENGTHS) fail_msg("too many lengths");
    p->lengths[p->n_lengths] = l;
    return p->n_lengths++;
}

static int fixed(program *p, int64_t n) {
    length l = {.op = '=', .dim = n, .least = n, .most = n};
    for (int k = 0; k < KEYS; k++)
        l.keys[k] = n;
    return add_length(p, l);
}

/* Of a, and b, which is the length number `number`, or one of no list. */
static int made(program *p, int i, char op, const length *b, int64_t number) {
    const length a = p->lengths[i];
    length l = {op,
                i,
                number,
                apply(op, a.dim, b->dim),
                apply(op, a.least, b->least),
                apply(op, a.most, b->most),
                {0}};
    for (int k = 0; k < KEYS; k++)
        l.keys[k] = apply(op, a.keys[k], b->keys[k]);
    return add_length(p, l);
}

static int with(program *p, int i, char op, int64_t b) {
    length l = {.dim = b, .least = b, .most = b};
    for (int k = 0; k < KEYS; k++)
        l.keys[k] = b;
    return made(p, i, op, &l, b);
}

static int joined(program *p, int i, char op, int k) {
    const length b = p->lengths[k];
    return made(p, i, op, &b, k);
}

static int64_t dim(const program *p, int i) {
    return p->lengths[i].dim;
}

/* ---- arrays ---- */

static double most_elements(const program *p, const value *v) {
    double n = 1;
    for (int k = 0; k < v->ndim; k++)
        n *= (double)p->lengths[v->axes[k]].most;
    return n;
}

/* Keeps an array whose axes are v's. */
static void keep(program *p, const char *op, value v, mica_array x) {
    if (p->n == MAX_ARRAYS || most_elements(p, &v) > MAX_ELEMENTS) return;
    size_t used = strlen(p->text);
    snprintf(p->text + used, sizeof p->text - used, " %s", op);
    if (!mica_valid(x)) fail_msg("%s: %s", p->text, mica_last_error());
    if (mica_array_ndim(x) != v.ndim) fail_msg("%s: %d axes", p->text, mica_array_ndim(x));
    for (int k = 0; k < v.ndim; k++)
        if (mica_array_dim(x, k) != dim(p, v.axes[k])) fail_msg("%s: axis %d differs", p->text, k);
    v.x = x;
    p->all[p->n++] = v;
}

static value pick(program *p) {
    return p->all[below(p, p->n)];
}

static void shape_of(const program *p, const value *v, int64_t *shape) {
    for (int k = 0; k < v->ndim; k++)
        shape[k] = dim(p, v->axes[k]);
}

static value with_axis(value v, int axis, int is) {
    v.axes[axis] = is;
    return v;
}

static value without_axis(value v, int axis) {
    memmove(v.axes + axis, v.axes + axis + 1, (size_t)(v.ndim - axis - 1) * sizeof *v.axes);
    v.ndim--;
    return v;
}

static value with_new_axis(value v, int axis, int is) {
    memmove(v.axes + axis + 1, v.axes + axis, (size_t)(v.ndim - axis) * sizeof *v.axes);
    v.axes[axis] = is;
    v.ndim++;
    return v;
}

/* ---- ops ---- */

static void unary(program *p, value v, int axis) {
    static mica_array (*const fns[])(mica_scope *, mica_array) = {mica_tanh, mica_abs, mica_silu,
                                                                  mica_negative, mica_erf};
    (void)axis;
    keep(p, "unary", v, fns[below(p, 5)](p->s, v.x));
}

static void binary(program *p, value v, int axis) {
    value w = v;
    mica_array mean = mica_mean(p->s, v.x, &axis, 1, true);
    keep(p, "center", v, mica_subtract(p->s, v.x, mean));
    for (int i = 0; i < p->n; i++)
        if (p->all[i].ndim == v.ndim &&
            memcmp(p->all[i].axes, v.axes, (size_t)v.ndim * sizeof(int)) == 0)
            w = p->all[i];
    keep(p, "add", v, mica_add(p->s, v.x, mica_multiply(p->s, w.x, mica_f32(p->s, 0.5f))));
}

static void reduce(program *p, value v, int axis) {
    bool kept = below(p, 2);
    value w = kept ? with_axis(v, axis, fixed(p, 1)) : without_axis(v, axis);
    switch (below(p, 5)) {
    case 0:
        keep(p, "mean", w, mica_mean(p->s, v.x, &axis, 1, kept));
        break;
    case 1:
        keep(p, "max", w, mica_max(p->s, v.x, &axis, 1, kept));
        break;
    case 2:
        keep(p, "std", w, mica_std(p->s, v.x, &axis, 1, kept, 1));
        break;
    case 3:
        keep(p, "logsumexp", w, mica_logsumexp(p->s, v.x, &axis, 1, kept));
        break;
    default:
        keep(p, "argmax", w, mica_astype(p->s, mica_argmax(p->s, v.x, axis, kept), MICA_F32));
    }
}

static void along(program *p, value v, int axis) {
    switch (below(p, 6)) {
    case 0:
        keep(p, "softmax", v, mica_softmax(p->s, v.x, axis));
        break;
    case 1:
        keep(p, "cumsum", v, mica_cumsum(p->s, v.x, axis, below(p, 2), below(p, 2)));
        break;
    case 2:
        keep(p, "sort", v, mica_sort(p->s, v.x, axis));
        break;
    case 3:
        keep(p, "flip", v, mica_flip(p->s, v.x, axis));
        break;
    case 4:
        if (p->lengths[v.axes[axis]].least > 3)
            keep(p, "roll", v, mica_roll(p->s, v.x, below(p, 7) - 3, axis));
        break;
    default:
        keep(p, "layer_norm", v, mica_layer_norm(p->s, v.x, MICA_NONE, MICA_NONE, 1e-5f));
    }
}

static void turn(program *p, value v, int axis) {
    value w = with_axis(v, axis, v.axes[0]);
    w.axes[0] = v.axes[axis];
    keep(p, "swapaxes", w, mica_swapaxes(p->s, v.x, 0, axis));
}

static void slice(program *p, value v, int axis) {
    const int64_t least = p->lengths[v.axes[axis]].least, cut = 1 + below(p, 4);
    if (least < 6) return;
    const int64_t end = dim(p, v.axes[axis]);
    int less = with(p, v.axes[axis], '+', -cut);
    switch (below(p, 5)) {
    case 0:
        keep(p, "rest", with_axis(v, axis, less), mica_slice_axis(p->s, v.x, axis, cut, end));
        break;
    case 1:
        keep(p, "head", with_axis(v, axis, less), mica_slice_axis(p->s, v.x, axis, 0, -cut));
        break;
    case 2:
        keep(p, "last", with_axis(v, axis, fixed(p, cut)),
             mica_slice_axis(p->s, v.x, axis, mica_dim_subtract(end, cut), MICA_END_OF_AXIS));
        break;
    case 3:
        keep(p, "first", with_axis(v, axis, fixed(p, cut)),
             mica_slice_axis(p->s, v.x, axis, 0, cut));
        break;
    default: {
        int64_t step[MAX_NDIM] = {1, 1, 1, 1};
        step[axis] = 2;
        int half = with(p, with(p, v.axes[axis], '+', 1), '/', 2);
        keep(p, "every second", with_axis(v, axis, half), mica_slice(p->s, v.x, NULL, NULL, step));
    }
    }
}

static void resize(program *p, value v, int axis) {
    int64_t before[MAX_NDIM] = {0}, after[MAX_NDIM] = {0}, reps[MAX_NDIM] = {1, 1, 1, 1};
    const int old = v.axes[axis];
    switch (below(p, 5)) {
    case 0:
        before[axis] = below(p, 3);
        after[axis] = below(p, 3);
        keep(p, "pad", with_axis(v, axis, with(p, old, '+', before[axis] + after[axis])),
             mica_pad(p->s, v.x, before, after, mica_f32(p->s, 0.25f)));
        break;
    case 1:
        keep(p, "repeat", with_axis(v, axis, with(p, old, '*', 2)),
             mica_repeat(p->s, v.x, 2, axis));
        break;
    case 2:
        reps[axis] = 3;
        keep(p, "tile", with_axis(v, axis, with(p, old, '*', 3)),
             mica_tile(p->s, v.x, reps, v.ndim));
        break;
    case 3:
        keep(p, "concatenate", with_axis(v, axis, joined(p, old, '+', old)),
             mica_concatenate(p->s, (mica_array[]){v.x, mica_negative(p->s, v.x)}, 2, axis));
        break;
    default: {
        int64_t shape[MAX_NDIM];
        shape_of(p, &v, shape);
        shape[axis] = dim(p, 0);
        keep(p, "join", with_axis(v, axis, joined(p, old, '+', 0)),
             mica_concatenate(p->s, (mica_array[]){v.x, mica_ones(p->s, shape, v.ndim, MICA_F32)},
                              2, axis));
    }
    }
}

static void reshape(program *p, value v, int axis) {
    int64_t shape[MAX_NDIM + 1];
    if (axis + 1 < v.ndim) {
        value w = without_axis(v, axis + 1);
        w.axes[axis] = joined(p, v.axes[axis], '*', v.axes[axis + 1]);
        shape_of(p, &w, shape);
        if (below(p, 2)) shape[axis] = -1;
        keep(p, "merge", w, mica_reshape(p->s, v.x, shape, w.ndim));
        return;
    }
    if (v.ndim == MAX_NDIM) return;
    length l = p->lengths[v.axes[axis]];
    if (l.op != '*') {
        value w = with_new_axis(v, axis, fixed(p, 1));
        keep(p, "expand", w, mica_expand_dims(p->s, v.x, axis));
        return;
    }
    int second = l.b < p->n_lengths && dim(p, l.a) != l.dim &&
                         apply('*', dim(p, l.a), dim(p, (int)l.b)) == l.dim
                     ? (int)l.b
                     : fixed(p, l.b);
    if (apply('*', dim(p, l.a), dim(p, second)) != l.dim) return;
    value w = with_new_axis(with_axis(v, axis, second), axis, l.a);
    shape_of(p, &w, shape);
    keep(p, "split", w, mica_reshape(p->s, v.x, shape, w.ndim));
}

static void product(program *p, value v, int axis) {
    (void)axis;
    if (v.ndim < 2) return;
    value w = with_axis(v, v.ndim - 1, v.axes[v.ndim - 2]);
    keep(p, "matmul", w, mica_matmul(p->s, v.x, mica_swapaxes(p->s, v.x, -1, -2)));
    keep(p, "tril", v, mica_tril(p->s, v.x, below(p, 3) - 1));
}

static void positions(program *p, value v, int axis) {
    int64_t shape[MAX_NDIM] = {1, 1, 1, 1};
    shape[axis] = dim(p, v.axes[axis]);
    mica_array at = mica_arange(p->s, 0, (double)shape[axis], 1, MICA_I32);
    keep(p, "take", v, mica_take(p->s, v.x, at, axis));
    mica_array scale = mica_scalar(p->s, (double)shape[axis], MICA_F32);
    at = mica_divide(p->s, mica_reshape(p->s, mica_astype(p->s, at, MICA_F32), shape, v.ndim),
                     scale);
    keep(p, "positions", v, mica_add(p->s, v.x, at));
}

static void window(program *p, value v, int axis) {
    const int64_t stride = 1 + below(p, 3);
    mica_window_options o = {.exclude_padding = false};
    if (p->lengths[v.axes[axis]].least < 4) return;
    o.window[axis] = 3;
    o.stride[axis] = stride;
    o.padding_lo[axis] = 1;
    int count = with(p, with(p, with(p, v.axes[axis], '+', -2), '/', stride), '+', 1);
    keep(p, "window", with_axis(v, axis, count),
         mica_reduce_window(p->s, v.x, MICA_WINDOW_SUM, &o));
}

static void spread(program *p, value v, int axis) {
    int64_t shape[MAX_NDIM];
    (void)axis;
    if (v.ndim == MAX_NDIM) return;
    value w = with_new_axis(v, 0, below(p, 2));
    shape_of(p, &w, shape);
    keep(p, "broadcast", w, mica_broadcast_to(p->s, v.x, shape, w.ndim));
    keep(p, "stack", with_new_axis(v, 0, fixed(p, 2)),
         mica_stack(p->s, (mica_array[]){v.x, v.x}, 2, 0));
}

static mica_status step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_add(s, mica_multiply(s, args[0], mica_f32(s, 0.5f)), args[1]);
    results[1] = mica_tanh(s, results[0]);
    return MICA_OK;
}

static void scan(program *p, value v, int axis) {
    int64_t shape[MAX_NDIM];
    mica_array y, rows;
    (void)axis;
    if (v.ndim < 2) return;
    value w = without_axis(v, 0);
    shape_of(p, &w, shape);
    mica_array zeros = mica_zeros(p->s, shape, w.ndim, MICA_F32);
    must(mica_scan(p->s, step, NULL, &zeros, 1, &v.x, 1, NULL, &y, &rows, 1));
    keep(p, "scan", w, y);
    keep(p, "scanned", v, rows);
}

static void convolve(program *p, value v, int axis) {
    (void)axis;
    if (v.ndim != 2 || p->lengths[v.axes[0]].least < 3 || p->lengths[v.axes[1]].least < 3) return;
    mica_array x = mica_expand_dims(p->s, mica_expand_dims(p->s, v.x, 0), 3);
    mica_array w = mica_arange(p->s, 0, 9, 1, MICA_F32);
    w = mica_multiply(p->s, mica_reshape(p->s, w, (int64_t[]){1, 3, 3, 1}, 4),
                      mica_f32(p->s, 0.1f));
    const mica_conv_options o = {.stride = {2, 1}, .padding_lo = {1, 1}, .padding_hi = {1, 1}};
    x = mica_conv2d(p->s, x, w, MICA_CHANNELS_LAST, &o);
    value half = with_axis(v, 0, with(p, with(p, with(p, v.axes[0], '+', -1), '/', 2), '+', 1));
    keep(p, "conv2d", half, mica_squeeze(p->s, mica_squeeze(p->s, x, 3), 0));
}

static void gradient(program *p, value v, int axis) {
    mica_array loss =
        mica_sum(p->s, mica_square(p->s, mica_softmax(p->s, v.x, axis)), NULL, 0, false);
    mica_array dx;
    const value x = p->all[0];
    /* Lengths choose the order of sums, and the checkpoints. */
    if (strstr(p->text, "matmul") || (strstr(p->text, "scan") && strstr(p->text, "gradient")))
        return;
    if (mica_grad(p->s, loss, MICA_NONE, &x.x, 1, &dx) != MICA_OK)
        fail_msg("%s gradient: %s", p->text, mica_last_error());
    keep(p, "gradient", x, dx);
}

static void (*const ops[])(program *p, value v, int axis) = {
    unary,   binary,    reduce, along,  turn, slice,    resize,  reshape,
    product, positions, window, spread, scan, convolve, reshape, gradient};
enum { OPS = sizeof ops / sizeof *ops };

/* ---- programs ---- */

/* x [n, 4, m] and y [m], of symbols where n is 0. */
static mica_program *record(int number, int64_t n, int64_t m, char *text) {
    static program p;
    p = (program){.state = (seed * 1000003 + (uint64_t)number) * UINT64_C(0x9E3779B97F4A7C15) | 1};
    mica_program *program_made;
    mica_array results[RESULTS];
    must(mica_scope_open(device, &p.s));
    const int64_t dims[2] = {n ? n : mica_program_dim(p.s, "n"),
                             m ? m : mica_program_dim(p.s, "m")};
    for (int i = 0; i < 2; i++)
        p.lengths[p.n_lengths++] = (length){'n',
                                            i,
                                            0,
                                            dims[i],
                                            LEAST + 2 * i,
                                            MOST + 2 * i,
                                            {1009 + 9000 * i, 2004 + 8001 * i, 3005 + 7003 * i,
                                             4096 + 6001 * i, 5001 + 5004 * i, 6008 + 4007 * i}};
    int four = fixed(&p, 4);
    p.all[0] = (value){
        mica_program_param(p.s, MICA_F32, (int64_t[]){dims[0], 4, dims[1]}, 3), 3, {0, four, 1}};
    p.all[1] = (value){mica_program_param(p.s, MICA_F32, &dims[1], 1), 1, {1}};
    p.n = 2;
    const mica_param params[2] = {{.name = "x", .array = p.all[0].x},
                                  {.name = "y", .array = p.all[1].x}};
    for (int i = 0; i < 12; i++) {
        value v = below(&p, 3) ? p.all[p.n - 1] : pick(&p);
        if (v.ndim == 0) continue;
        int axis = below(&p, v.ndim), op = below(&p, OPS);
        ops[op](&p, v, axis);
    }
    for (int i = 0; i < RESULTS; i++)
        results[i] = p.all[p.n - 1 - i % p.n].x;
    if (mica_program_build(p.s, params, 2, results, RESULTS, NULL, &program_made) != MICA_OK)
        fail_msg("program %d:%s: %s", number, p.text, mica_last_error());
    snprintf(text, sizeof p.text, "%s", p.text);
    mica_scope_close(&p.s);
    return program_made;
}

static mica_array data(mica_scope *s, const int64_t *shape, int ndim, uint64_t salt) {
    static float values[4 * 20 * 20];
    size_t n = 1;
    for (int k = 0; k < ndim; k++)
        n *= (size_t)shape[k];
    for (size_t i = 0; i < n; i++)
        values[i] = (float)((i * 7919 + salt * 104729) % 2003) / 1001.5f - 1;
    return mica_from_data(s, values, MICA_F32, shape, ndim);
}

static void expect_same(int number, const char *text, int i, mica_array got, mica_array want) {
    static float a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    size_t n = (size_t)mica_array_size(want);
    if (mica_array_ndim(got) != mica_array_ndim(want) ||
        memcmp(mica_array_shape(got), mica_array_shape(want),
               (size_t)mica_array_ndim(want) * sizeof(int64_t)) != 0)
        fail_msg("program %d:%s: result %d has another shape", number, text, i);
    must(mica_read(got, a, n * sizeof *a));
    must(mica_read(want, b, n * sizeof *b));
    if (memcmp(a, b, n * sizeof *a) != 0)
        fail_msg("program %d:%s: result %d has other bits", number, text, i);
}

/* A file of it, which is another program. */
static mica_program *through_file(const mica_program *p) {
    mica_program *loaded;
    void *file;
    size_t bytes;
    char *text;
    must(mica_program_encode(p, NULL, &file, &bytes));
    must(mica_program_decode(device, file, bytes, NULL, &loaded));
    must(mica_program_diff(p, loaded, &text));
    assert_string_equal(text, "");
    mica_free(text);
    mica_free(file);
    return loaded;
}

static void test_symbols_are_numbers(void **state) {
    (void)state;
    static const int64_t at[][2] = {{5, 7}, {13, 15}, {6, 11}, {11, 13}};
    for (int number = 1; number <= programs; number++) {
        char text[2048], again[2048];
        mica_program *open = record(number, 0, 0, text), *bound;
        if (number % 4 == 0) {
            mica_program *loaded = through_file(open);
            mica_program_close(&open);
            open = loaded;
        }
        for (int i = 0; i < 2; i++) {
            const int64_t n = at[(number + i) % 4][0], m = at[(number + i) % 4][1];
            const mica_length lengths[] = {{"n", n}, {"m", m}};
            mica_program *want = record(number, n, m, again);
            mica_array x[2], got[RESULTS], wanted[RESULTS];
            mica_scope *s;
            assert_string_equal(text, again);
            must(mica_scope_open(device, &s));
            x[0] = data(s, (int64_t[]){n, 4, m}, 3, (uint64_t)number);
            x[1] = data(s, &m, 1, (uint64_t)number + 1);
            size_t count = mica_program_symbol_count(open);
            if (count == 2 && mica_program_bind(open, lengths, 2, &bound) != MICA_OK)
                fail_msg("program %d:%s: %s", number, text, mica_last_error());
            if (count == 2) mica_program_close(&bound);
            if (mica_program_run(open, s, x, got) != MICA_OK)
                fail_msg("program %d:%s: %s", number, text, mica_last_error());
            must(mica_program_run(want, s, x, wanted));
            for (int k = 0; k < RESULTS; k++)
                expect_same(number, text, k, got[k], wanted[k]);
            mica_program_close(&want);
            mica_scope_close(&s);
        }
        mica_program_close(&open);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_symbols_are_numbers)};
    if (argc > 1) programs = atoi(argv[1]);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
