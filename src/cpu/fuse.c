#include "cpu/fuse.h"

#include <string.h>

#include "cpu/block.h"
#include "cpu/cpu.h"

/* ---- which ops ---- */

typedef enum kind { NONE, UNARY_OP, ALIKE_OP, BINARY_OP, CONVERSION } kind;

/* The step of an op, of binary ones that with an array; the others follow in this order. */
enum { ARRAY, NUMBER, ITSELF, FROM_ARRAY, FROM_NUMBER };

static const struct op_row {
    kind kind;
    mk_step_op step;
} op_table[MC_OP_COUNT] = {
#define ALIKE(op, name, expression) [MC_OP_##op] = {ALIKE_OP, MK_STEP_##name##_array},
#define BINARY(op, name, expression) [MC_OP_##op] = {BINARY_OP, MK_STEP_##name##_array},
#define UNARY(op, name, expression) [MC_OP_##op] = {UNARY_OP, MK_STEP_##name},
#define COSTLY UNARY
#include "cpu/kern/elem/elem_step_list.h"
    [MC_OP_ASTYPE] = {CONVERSION, MK_STEP_COUNT}};

/* Integers that are read as floats, and written; `round` is a quotient that is rounded first. */
static const struct dtype_row {
    mica_dtype dtype;
    mk_step_op load, store, round;
} dtype_table[] = {{MICA_U8, MK_STEP_load_u8, MK_STEP_store_u8, MK_STEP_round_u8},
                   {MICA_I8, MK_STEP_load_i8, MK_STEP_store_i8, MK_STEP_round_i8},
                   {MICA_I32, MK_STEP_load_i32, MK_STEP_COUNT, MK_STEP_COUNT}};

static const struct dtype_row *row_of(mica_dtype dtype) {
    for (size_t k = 0; k < sizeof dtype_table / sizeof *dtype_table; k++)
        if (dtype_table[k].dtype == dtype) return &dtype_table[k];
    return NULL;
}

/* How many elements axes [0, *n) hold in which each stride is that of a dense array whose elements
 * are `elements` apart, or, where `elements` is 0, none; *n becomes how many axes are left. */
static int64_t take_axes(const mc_layout *l, int *n, int64_t elements) {
    int64_t count = 1;
    for (; *n > 0; count *= l->shape[--*n])
        if (l->shape[*n - 1] != 1 && l->strides[*n - 1] != elements * count) break;
    return count;
}

/* Whether x is dense rows, each of which is there for some elements that follow each other
 * (mk_step.row, every). */
static bool is_rows(const mc_layout *l, int64_t *row, int64_t *every) {
    int n = l->ndim;
    *row = take_axes(l, &n, 1);
    *every = *row * take_axes(l, &n, 0);
    take_axes(l, &n, *row);
    return n == 0;
}

/* Whether x is dense f32, or one number for all, or rows. */
static bool can_read(const mc_operand *x) {
    int64_t row, every;
    return x->layout->dtype == MICA_F32 &&
           (mc_layout_is_dense(x->layout) || mc_block_is_one(x->layout) ||
            is_rows(x->layout, &row, &every));
}

/* Between f32 and integers, of a dense array. */
static bool can_convert(const mc_call *call) {
    const mica_dtype from = call->in[0].layout->dtype, to = call->out.layout->dtype;
    if (!mc_layout_is_dense(call->in[0].layout)) return false;
    if (to == MICA_F32) return row_of(from) != NULL;
    return from == MICA_F32 && row_of(to) && row_of(to)->store != MK_STEP_COUNT;
}

bool mc_can_fuse(const mc_call *call) {
    const kind k = op_table[call->op].kind;
    if (k == CONVERSION) return can_convert(call);
    if (k == NONE || call->out.layout->dtype != MICA_F32) return false;
    return can_read(&call->in[0]) && (k == UNARY_OP || can_read(&call->in[1]));
}

/* ---- who reads what ---- */

static bool lies_in(const void *at, const mc_operand *x) {
    uintptr_t from = (uintptr_t)x->data, p = (uintptr_t)at;
    return p >= from && p - from < (uintptr_t)mc_layout_bytes(x->layout);
}

static bool reads(const mc_call *call, const mc_operand *x) {
    for (int k = 0; k < call->n_in; k++)
        if (call->in[k].layout && lies_in(call->in[k].data, x)) return true;
    return false;
}

/* Whether elements of x are the values of a call's result, in its order: no other view of it. */
static bool is_result(const mc_operand *x, const mc_operand *result) {
    return x->data == result->data && x->layout->dtype == result->layout->dtype &&
           mc_layout_is_dense(x->layout);
}

bool mc_can_follow(const mc_call *calls, int n) {
    const mc_call *call = &calls[n];
    for (int k = 0; k < call->n_in; k++)
        for (int m = 0; m < n; m++)
            if (lies_in(call->in[k].data, &calls[m].out) && !is_result(&call->in[k], &calls[m].out))
                return false;
    return mc_can_fuse(call);
}

/* Calls [0, n) that run as one, of [0, all) of their span. */
typedef struct group {
    const mc_call *calls;
    int n, all;
} group;

/* Whether somebody reads the result of call k from memory: a call from `next` on, before one writes
 * over it, which that call may do, or one behind the span. */
static bool is_read(const group *g, int k, int next) {
    const mc_operand *x = &g->calls[k].out;
    for (int m = k + 1; m < g->all; m++) {
        if (m >= next && reads(&g->calls[m], x)) return true;
        if (g->calls[m].out.data == x->data) return false;
    }
    return !g->calls[k].inner;
}

/* The next call of the group reads the result as it is made. */
static bool is_kept(const group *g, int k) {
    return is_read(g, k, k + 1 < g->n ? k + 2 : k + 1);
}

bool mc_is_read_behind(const mc_call *calls, int next, int all) {
    return is_kept(&(group){calls, next + 1, all}, 0);
}

/* ---- bytes ---- */

/* Whether call k of the group is the op over what the call before gave alone, as its first operand
 * or, of ALIKE ops, any. *other: the number beside it. */
static bool goes_on(const group *g, int k, mc_op op, const float **other) {
    if (k >= g->n || g->calls[k].op != op || (k > 0 && is_kept(g, k - 1))) return false;
    const mc_call *call = &g->calls[k];
    const void *v = k > 0 ? g->calls[k - 1].out.data : call->in[0].data;
    bool second = op == MC_OP_ADD && call->in[0].data != v;
    const mc_operand *x = call->n_in > 1 ? &call->in[!second] : NULL;
    if (call->in[second].data != v || (x && (x->data == v || !mc_block_is_one(x->layout))))
        return false;
    if (k > 0 && !is_result(&call->in[second], &g->calls[k - 1].out)) return false;
    if (x) *other = x->data;
    return true;
}

int mc_match_rounding(const mc_call *calls, int n, int all, mc_rounding *r) {
    const group g = {calls, n, all};
    int k = 0;
    *r = (mc_rounding){0};
    if (n > 0 && calls[0].out.layout->dtype == MICA_F32 && !mc_block_is_one(calls[0].in[0].layout))
        k += goes_on(&g, k, MC_OP_DIVIDE, &r->scale);
    if (!goes_on(&g, k, MC_OP_ROUND, NULL)) return 0;
    k += 1 + goes_on(&g, k + 1, MC_OP_ADD, &r->zero);
    if (!goes_on(&g, k, MC_OP_ASTYPE, NULL)) return 0;
    r->out = &calls[k].out;
    const mica_dtype to = r->out->layout->dtype;
    if (calls[0].in[0].layout->dtype != MICA_F32 || (to != MICA_U8 && to != MICA_I8)) return 0;
    return k + 1;
}

/* ---- steps ---- */

static void add_step(mc_fusion *f, mk_step_op op, const mc_operand *x) {
    mk_step *step = &f->steps[f->n_steps++];
    *step = (mk_step){.op = op, .x = x ? x->data : NULL};
    if (x && !mc_layout_is_dense(x->layout) && !mc_block_is_one(x->layout))
        is_rows(x->layout, &step->row, &step->every);
}

/* v becomes x. */
static void add_load(mc_fusion *f, const mc_operand *x) {
    const struct dtype_row *row = row_of(x->layout->dtype);
    add_step(f,
             row                          ? row->load
             : mc_block_is_one(x->layout) ? MK_STEP_load_number
                                          : MK_STEP_load,
             x);
}

/* Integers are floats while they are v; *kept is false afterwards, where they are stored. */
static void add_conversion(mc_fusion *f, const mc_call *call, bool from_v, bool *kept) {
    const mica_dtype to = call->out.layout->dtype;
    if (!from_v) add_load(f, &call->in[0]);
    if (to == MICA_F32) return;
    f->steps[f->n_steps++] = (mk_step){.op = row_of(to)->store, .y = *kept ? call->out.data : NULL};
    *kept = false;
}

/* v is what the call before gave, `before`; NULL: nothing. */
static void add_call(mc_fusion *f, const mc_call *call, const void *before, bool *kept) {
    const struct op_row *row = &op_table[call->op];
    const mc_operand *a = &call->in[0], *b = &call->in[1];
    bool a_is_v = before && a->data == before;
    if (row->kind == CONVERSION) {
        add_conversion(f, call, a_is_v, kept);
        return;
    }
    if (row->kind == UNARY_OP) {
        if (!a_is_v) add_load(f, a);
        add_step(f, row->step, NULL);
        return;
    }
    bool b_is_v = before && b->data == before;
    if (!a_is_v && !b_is_v) {
        add_load(f, a);
        a_is_v = true;
        b_is_v =
            a->data == b->data && mc_layout_is_dense(a->layout) && mc_layout_is_dense(b->layout);
    }
    const mc_operand *other = a_is_v ? b : a;
    int form = mc_block_is_one(other->layout) ? NUMBER : ARRAY;
    if (a_is_v && b_is_v)
        form = ITSELF;
    else if (!a_is_v && row->kind == BINARY_OP)
        form += FROM_ARRAY;
    add_step(f, (mk_step_op)((int)row->step + form), form == ITSELF ? NULL : other);
}

/* ---- tables ---- */

/* Elements from which a table is worth making, and arrays that its making may need. */
enum { TABLE_FROM = 4096, TABLE_ARRAYS = 12, CODES = 256 };

/* Steps over bytes 0 to 255 instead of their arrays. */
typedef struct tabling {
    uint8_t codes[CODES];
    _Alignas(64) float of[TABLE_ARRAYS][CODES]; /* what is stored, of any type */
    const void *arrays[TABLE_ARRAYS];
    const void *x; /* the array of bytes that steps read, but for what they store before */
    int n_arrays;
} tabling;

/* Where the array lies while the table is made; NULL: it is none that steps stored. */
static float *find_stored(tabling *t, const void *array) {
    for (int k = 0; k < t->n_arrays; k++)
        if (t->arrays[k] == array) return t->of[k];
    return NULL;
}

static bool reads_array(mk_step_op op) {
    switch (op) {
    case MK_STEP_load:
#define ALIKE(op, name, expression) case MK_STEP_##name##_array:
#define BINARY(op, name, expression) ALIKE(op, name, expression) case MK_STEP_##name##_from_array:
#define UNARY(op, name, expression)
#define COSTLY UNARY
#include "cpu/kern/elem/elem_step_list.h"
        return true;
    default:
        return false;
    }
}

/* Puts the step's arrays where the table is made; false: it reads others than one of bytes. */
static bool move_step(tabling *t, mk_step *step) {
    const bool bytes = step->op == MK_STEP_load_u8 || step->op == MK_STEP_load_i8;
    if (step->op == MK_STEP_load_i32 || step->row > 0) return false;
    if (bytes || reads_array(step->op)) {
        const void *stored = find_stored(t, step->x);
        if (!stored && (!bytes || (t->x && t->x != step->x))) return false;
        if (!stored) t->x = step->x;
        step->x = stored ? stored : t->codes;
    }
    if (!step->y) return true;
    float *to = find_stored(t, step->y);
    if (!to && t->n_arrays == TABLE_ARRAYS) return false;
    if (!to) {
        to = t->of[t->n_arrays];
        t->arrays[t->n_arrays++] = step->y;
    }
    step->y = to;
    return true;
}

/* Adds a table for the result of call k, if it is read behind the group. */
static bool add_table(mc_fusion *f, const group *g, int k, tabling *t, int *n) {
    const mc_call *call = &g->calls[k];
    const float *from = find_stored(t, call->out.data);
    if (!from || !is_read(g, k, g->n)) return true;
    const mica_dtype dtype = call->out.layout->dtype;
    if ((dtype != MICA_U8 && dtype != MICA_I8) || f->n_tables + *n == MC_MAX_TABLES) return false;
    mc_table *table = &f->tables[f->n_tables + (*n)++];
    *table = (mc_table){.x = t->x, .y = call->out.data};
    if (!f->dry) memcpy(table->bytes, from, CODES);
    return true;
}

/* Makes tables of a group in a region, where its results depend on one array of bytes. Its numbers
 * are there: no call of a region makes any. */
static void make_tables(mc_fusion *f, mc_fused *fused, const group *g) {
    const mk_kernels *kern = fused->kern;
    mk_step steps[MC_FUSE_STEPS * MC_MAX_CHAIN];
    tabling t = {.n_arrays = 0};
    if (g->calls->axis != MC_BY_ELEMENT || mc_layout_size(g->calls->out.layout) < TABLE_FROM)
        return;
    for (int k = 0; k < fused->n_steps; k++) {
        steps[k] = fused->steps[k];
        if (!move_step(&t, &steps[k])) return;
    }
    if (!t.x || find_stored(&t, t.x)) return;
    for (int i = 0; i < CODES; i++)
        t.codes[i] = (uint8_t)i;
    if (!f->dry) kern->elem_steps(0, CODES, steps, fused->n_steps);
    int n = 0;
    for (int k = 0; k < g->n; k++)
        if (!add_table(f, g, k, &t, &n)) return;
    fused->tables = &f->tables[f->n_tables];
    fused->n_tables = n;
    f->n_tables += n;
}

/* ---- where a loop ends for a table ---- */

static bool is_byte(const mc_operand *x) {
    return x->layout->dtype == MICA_U8 || x->layout->dtype == MICA_I8;
}

/* Whether call m of [0, n) reads results of those before it, numbers, and bytes of one array: x. */
static bool reads_bytes_of(const mc_call *calls, int m, const void **x) {
    for (int k = 0; k < calls[m].n_in; k++) {
        const mc_operand *in = &calls[m].in[k];
        bool made = mc_block_is_one(in->layout);
        for (int p = 0; p < m && !made; p++)
            made = is_result(in, &calls[p].out);
        if (made) continue;
        if (!is_byte(in) || (*x && *x != in->data)) return false;
        *x = in->data;
    }
    return true;
}

/* Whether all that calls [0, n) give others are bytes, so few that tables can give them. */
static bool gives_bytes(const mc_call *calls, int n, int all) {
    const group g = {calls, n, all};
    int count = 0;
    for (int k = 0; k < n; k++) {
        if (!is_read(&g, k, n)) continue;
        if (!is_byte(&calls[k].out) || ++count > MC_MAX_TABLES) return false;
    }
    return count > 0;
}

/* How many of calls [0, n) tables can stand for; 0: none. */
static int count_tabled(const mc_call *calls, int n, int all) {
    const void *x = NULL;
    int count = 0;
    for (int m = 0; m < n && reads_bytes_of(calls, m, &x) && calls[m].out.data != x; m++)
        if (is_byte(&calls[m].out) && gives_bytes(calls, m + 1, all)) count = m + 1;
    return count;
}

int mc_count_alike(const mc_call *calls, int n, int all) {
    if (n == 0 || calls->axis != MC_BY_ELEMENT || mc_layout_size(calls->out.layout) < TABLE_FROM)
        return n;
    int count = count_tabled(calls, n, all);
    for (int k = 1; k < n && count == 0; k++)
        if (is_byte(&calls[k - 1].out) && count_tabled(calls + k, n - k, all - k) > 0) count = k;
    return count > 0 ? count : n;
}

/* ---- loops ---- */

void mc_run_fused(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const mc_fused *f = context;
    if (f->n_tables == 0) f->kern->elem_steps(begin, end, f->steps, f->n_steps);
    for (int k = 0; k < f->n_tables; k++)
        f->kern->elem_table(end - begin, f->tables[k].x + begin, f->tables[k].bytes,
                            f->tables[k].y + begin);
}

/* The calls from k on that are one rounding, if they are: how many. */
static int add_rounding(mc_fusion *f, const group *g, int k) {
    mc_rounding r;
    const mc_call *call = &g->calls[k];
    int n = mc_match_rounding(call, g->n - k, g->all - k, &r);
    if (n == 0) return 0;
    if (k == 0 || call->in[0].data != call[-1].out.data) add_load(f, &call->in[0]);
    const mk_step_op op = row_of(r.out->layout->dtype)->round;
    f->steps[f->n_steps++] = (mk_step){
        .op = op, .x = r.scale, .zero = r.zero, .y = is_kept(g, k + n - 1) ? r.out->data : NULL};
    return n;
}

mc_fused *mc_fuse(mc_fusion *f, const mc_call *calls, int n, int all) {
    mc_fused *fused = &f->fused[f->n_fused++];
    const group g = {calls, n, all};
    *fused = (mc_fused){.kern = mc_cpu_of(calls)->kern, .steps = f->steps + f->n_steps};
    int first = f->n_steps;
    for (int k = 0, rounded; k < n; k += rounded ? rounded : 1) {
        rounded = add_rounding(f, &g, k);
        if (rounded) continue;
        bool kept = is_kept(&g, k);
        add_call(f, &calls[k], k > 0 ? calls[k - 1].out.data : NULL, &kept);
        if (kept) f->steps[f->n_steps++] = (mk_step){.op = MK_STEP_store, .y = calls[k].out.data};
    }
    fused->n_steps = f->n_steps - first;
    make_tables(f, fused, &g);
    return fused;
}

void mc_fused_touch(const mc_fused *f, const mc_call *head) {
    for (int k = 0; k < f->n_tables; k++) {
        mc_run_touch(head, f->tables[k].x);
        mc_run_touch(head, f->tables[k].y);
    }
    for (int k = 0; f->n_tables == 0 && k < f->n_steps; k++) {
        mc_run_touch(head, f->steps[k].x);
        mc_run_touch(head, f->steps[k].zero);
        mc_run_touch(head, f->steps[k].y);
    }
}
