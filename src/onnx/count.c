/* Lengths that a run counts: what Shape tells of an axis whose length depends on values. In
 * expressions each is a symbol that is none of the program's. As an array it is the count; in the
 * shape of a result it is the room that there is, and the result has that count. */
#include "onnx/import.h"

#include "graph/dim.h"
#include "graph/graph.h"

#include <mica/ops.h>

#include <stdio.h>

struct mc_onnx_count {
    int64_t dim, room;
    mica_array count; /* [], i64 */
    unsigned number;
    const mc_onnx_count *next;
};

mica_status mc_onnx_count_dim(mc_onnx_import *import, mica_array count, int64_t room,
                              int64_t *dim) {
    char name[32];
    unsigned number = 0;
    for (const mc_onnx_count *c = import->counts; c; c = c->next) {
        if (c->count.scope == count.scope && c->count.node == count.node && c->room == room) {
            *dim = c->dim;
            return MICA_OK;
        }
        if (c->number >= number) number = c->number + 1;
    }
    mc_onnx_count *c = mc_arena_alloc(&import->arena, sizeof *c);
    if (!c) return mc_fail_nomem("a count");
    const mc_symbol *symbols;
    size_t n = mc_scope_symbols(import->s, &symbols);
    int64_t own;
    do { /* a name that the file has not */
        snprintf(name, sizeof name, "count %u", number++);
        own = mc_dim_symbol(name);
    } while (mc_dim_is_symbol(own) && mc_dim_is_of(own, symbols, n));
    *c = (mc_onnx_count){own, room, count, number - 1, import->counts};
    import->counts = c;
    *dim = c->dim;
    return mc_dim_check(c->dim);
}

static const mc_onnx_count *find_count(const mc_onnx_import *import, int64_t d) {
    const mc_onnx_count *c = import->counts;
    while (c && c->dim != d)
        c = c->next;
    return c;
}

bool mc_onnx_is_counted(const mc_onnx_import *import, int64_t d) {
    for (const mc_onnx_count *c = import->counts; c; c = c->next)
        if (mc_dim_depends(d, c->dim)) return true;
    return false;
}

/* The room of a term with a count: no such one is subtracted, and of a product no factor is
 * below 0. */
static int64_t room_of_term(const mc_onnx_import *import, const mc_dim_term *t) {
    int64_t product = t->factor;
    bool counted = false, positive = t->factor > 0;
    for (int64_t k = 0; k < t->degree; k++) {
        counted = counted || mc_onnx_is_counted(import, t->atoms[k]);
        positive = positive && (t->degree == 1 || mc_dim_sign(t->atoms[k]) > 0);
        product = mc_dim_mul(product, mc_onnx_room(import, t->atoms[k]));
    }
    return counted && !positive ? MC_DIM_NONE : product;
}

int64_t mc_onnx_room(const mc_onnx_import *import, int64_t d) {
    mc_dim_parts p;
    int64_t sum = 0;
    if (!mc_onnx_is_counted(import, d)) return d;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_SYMBOL) return find_count(import, d)->room;
    if (p.kind == MC_DIM_QUOTIENT && !mc_onnx_is_counted(import, p.under))
        return mc_dim_div(mc_onnx_room(import, p.over), p.under);
    if (p.kind == MC_DIM_COMPUTED && p.op == MC_DIM_MIN)
        return mc_dim_compute(p.op, mc_onnx_room(import, p.over), mc_onnx_room(import, p.under));
    if (p.kind != MC_DIM_SUM) return MC_DIM_NONE;
    for (int64_t i = 0; i < p.n; i++)
        sum = mc_dim_add(sum, room_of_term(import, &p.terms[i]));
    return sum;
}

static mica_array record_sum(const mc_onnx_import *import, mica_scope *s, const mc_dim_parts *p) {
    mica_array sum = mica_scalar(s, 0, MICA_I64);
    for (int64_t i = 0; i < p->n; i++) {
        mica_array product = mica_scalar(s, (double)p->terms[i].factor, MICA_I64);
        for (int64_t k = 0; k < p->terms[i].degree; k++) {
            mica_array atom = mc_onnx_record_dim(import, s, p->terms[i].atoms[k]);
            product = mica_multiply(s, product, atom);
        }
        sum = mica_add(s, sum, product);
    }
    return sum;
}

static mica_array record_computed(const mc_onnx_import *import, mica_scope *s, int64_t d,
                                  const mc_dim_parts *p) {
    static mica_array (*const ops[])(mica_scope *, mica_array, mica_array) = {
        [MC_DIM_ADD_F32] = mica_add,      [MC_DIM_SUB_F32] = mica_subtract,
        [MC_DIM_MUL_F32] = mica_multiply, [MC_DIM_DIV_F32] = mica_divide,
        [MC_DIM_MIN] = mica_minimum,      [MC_DIM_MAX] = mica_maximum};
    mica_array a = mc_onnx_record_dim(import, s, p->over), b;
    if (p->op == MC_DIM_FLOOR) a = mica_floor(s, a);
    if (p->op == MC_DIM_CEIL) a = mica_ceil(s, a);
    if (p->op >= MC_DIM_FLOOR) return mica_astype(s, a, MICA_I64);
    b = mc_onnx_record_dim(import, s, p->under);
    if (!mc_dim_is_whole(d)) a = mica_astype(s, a, MICA_F32), b = mica_astype(s, b, MICA_F32);
    return ops[p->op](s, a, b);
}

mica_array mc_onnx_record_dim(const mc_onnx_import *import, mica_scope *s, int64_t d) {
    mc_dim_parts p;
    double x;
    bool whole = mc_dim_is_whole(d);
    if (whole && !mc_onnx_is_counted(import, d)) return mica_scalar(s, (double)d, MICA_I64);
    if (mc_dim_is_constant(d, &x)) return mica_scalar(s, x, MICA_F32);
    mc_dim_get(d, &p);
    switch (p.kind) {
    case MC_DIM_SYMBOL:
        return find_count(import, d)->count;
    case MC_DIM_QUOTIENT:
        return mica_floor_divide(s, mc_onnx_record_dim(import, s, p.over),
                                 mc_onnx_record_dim(import, s, p.under));
    case MC_DIM_SUM:
        return record_sum(import, s, &p);
    default:
        return record_computed(import, s, d, &p);
    }
}
