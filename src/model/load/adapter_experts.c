/* Factors of experts, as programs name and arrange them, for the matrices that a model has.
 *
 * mlx-lm has a pair of factors of all experts at once, A [experts, rank, in] and
 * B [experts, out, rank]. PEFT has one for each expert whose matrix is a module; or, of a parameter
 * that holds all of them (target_parameters), A [experts rank, in] and B [out, rank experts],
 * called as the module around it: of two parameters the first one's are "experts.base_layer". Gate
 * and up may be one matrix, in the adapter and in the model. All become mlx-lm's, of the model's
 * matrices, with the scale in B. */
#include "base/half.h"
#include "io/adapter.h"
#include "model/family.h"
#include "model/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a pair of an adapter is of. */
typedef struct role {
    const mc_adapter_pair *pair;
    int layer;
    int slot;       /* of mc_block_experts; -1: the shapes say */
    int64_t expert; /* -1: all */
    bool inner;     /* "base_layer" follows the module's name */
} role;

/* The factors of a slot: a [experts, rank, in], b [experts, out, rank]. */
typedef struct stack {
    const mc_adapter_pair *pair; /* one of them, for names in errors; NULL: there are none */
    int64_t experts, rank, in, out;
    float *a, *b;
} stack;

typedef struct fitting {
    mc_adapter *adapter;
    const mc_decoder_spec *spec;
    mc_buffer roles; /* role, sorted by layer and slot */
    size_t next;     /* the first of these of which no stack was made */
    mc_buffer pairs; /* mc_adapter_pair */
} fitting;

static const mc_block_spec *experts_of(const mc_decoder_spec *spec, int layer) {
    const mc_block_spec *b = NULL;
    for (int k = 0; layer < spec->n_layers && (b = mc_spec_block(spec, layer, k)); k++)
        if (b->kind == &mc_block_experts) return b;
    return NULL;
}

/* ---- names ---- */

static const struct {
    const char *name;
    int slot;
} parts[] = {{"gate_proj", MC_EXPERTS_GATE},
             {"w1", MC_EXPERTS_GATE},
             {"up_proj", MC_EXPERTS_UP},
             {"w3", MC_EXPERTS_UP},
             {"fc1", MC_EXPERTS_UP},
             {"down_proj", MC_EXPERTS_DOWN},
             {"w2", MC_EXPERTS_DOWN},
             {"fc2", MC_EXPERTS_DOWN},
             {"output_linear", MC_EXPERTS_DOWN},
             {"gate_up_proj", MC_EXPERTS_GATE_UP},
             {"input_linear", MC_EXPERTS_GATE_UP}};

static int slot_of(mc_str part) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (mc_str_is(part, parts[i].name)) return parts[i].slot;
    return -1;
}

static bool is_container(mc_str part) {
    return mc_str_is(part, "experts") || mc_str_is(part, "switch_mlp") ||
           mc_str_is(part, "switch_glu") || mc_str_is(part, "block_sparse_moe");
}

/* The number that a part is; -1: it is none. */
static int64_t number_of(mc_str part) {
    int64_t n = 0;
    for (size_t i = 0; i < part.len; i++) {
        if (part.ptr[i] < '0' || part.ptr[i] > '9' || n > MC_MAX_EXPERTS) return -1;
        n = 10 * n + (part.ptr[i] - '0');
    }
    return part.len ? n : -1;
}

/* Reads what follows the layer's number: "mlp.experts.7.up_proj". false: it is not of experts. */
static bool read_role(mc_str rest, role *r) {
    bool within = false;
    r->slot = -1;
    r->expert = -1;
    r->inner = false;
    while (rest.len) {
        const char *dot = memchr(rest.ptr, '.', rest.len);
        mc_str part = {rest.ptr, dot ? (size_t)(dot - rest.ptr) : rest.len};
        rest = (mc_str){part.ptr + part.len + (dot != NULL), rest.len - part.len - (dot != NULL)};
        if (mc_str_is(part, "base_layer"))
            r->inner = true;
        else if (is_container(part))
            within = true;
        else if (within && r->slot < 0 && number_of(part) >= 0)
            r->expert = number_of(part);
        else if (within && (r->slot >= 0 || (r->slot = slot_of(part)) < 0))
            return false;
    }
    return within;
}

/* ---- stacks ---- */

static mica_status misfit(const mc_adapter_pair *pair, const char *what) {
    return mc_fail(MICA_ESHAPE, "%s: tensor %s: %s", pair->a->file, pair->a->name, what);
}

static bool has_shape(const mc_weight_tensor *t, int64_t n, int64_t rows, int64_t columns) {
    const int64_t shape[] = {n, rows, columns};
    int skip = n ? 0 : 1;
    return t->ndim == 3 - skip &&
           memcmp(t->shape, shape + skip, (size_t)t->ndim * sizeof *shape) == 0;
}

static float number_at(const mc_weight_tensor *t, int64_t i) {
    if (t->dtype == MICA_F32) return ((const float *)t->data)[i];
    uint16_t h = ((const uint16_t *)t->data)[i];
    return t->dtype == MICA_BF16 ? mc_bf16_to_f32(h) : mc_f16_to_f32(h);
}

static bool is_readable(const mc_weight_tensor *t) {
    return t->has_dtype && (t->dtype == MICA_F32 || t->dtype == MICA_BF16 || t->dtype == MICA_F16);
}

static void set_sizes(const mc_block_spec *b, int slot, stack *s) {
    const mc_slot *kind = &b->kind->slots[slot];
    s->experts = b->experts.count;
    s->in = kind->columns(b);
    s->out = kind->rows(b);
}

/* Copies what a pair has of one expert from row `row` of its rank on. */
static void copy_expert(const stack *s, const role *r, int64_t expert, int64_t n) {
    const mc_adapter_pair *p = r->pair;
    bool all = r->expert < 0, mlx = p->kind == MC_ADAPTER_MLX;
    int64_t e = all ? expert : 0, last = all && !mlx ? s->experts : 1;
    float *a = s->a + expert * s->rank * s->in, *b = s->b + expert * s->out * s->rank;
    for (int64_t i = 0; i < n * s->in; i++)
        a[i] = number_at(p->a, e * n * s->in + i);
    for (int64_t o = 0; o < s->out; o++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = mlx ? (e * s->out + o) * n + i : (o * n + i) * last + e;
            b[o * s->rank + i] = (float)((double)number_at(p->b, at) * p->scale);
        }
}

static mica_status check_role(const stack *s, const role *r) {
    const mc_adapter_pair *p = r->pair;
    int64_t n = p->rank, all = s->experts;
    if (p->m || p->bias)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s: of adapters of experts mica reads those without DoRA and "
                       "biases",
                       p->a->file, p->a->name);
    if (!is_readable(p->a) || !is_readable(p->b))
        return mc_fail(MICA_EDTYPE, "%s: tensor %s is %s, want F32, F16 or BF16", p->a->file,
                       p->a->name, p->a->kind);
    if (r->expert >= all) return misfit(p, "the model has no expert of that number");
    bool fits = p->kind == MC_ADAPTER_MLX
                    ? has_shape(p->a, all, n, s->in) && has_shape(p->b, all, s->out, n)
                : r->expert >= 0
                    ? has_shape(p->a, 0, n, s->in) && has_shape(p->b, 0, s->out, n)
                    : has_shape(p->a, 0, n * all, s->in) && has_shape(p->b, 0, s->out, n * all);
    return fits ? MICA_OK : misfit(p, "does not fit the experts of its layer");
}

static mica_status allocate(fitting *f, stack *s) {
    float **places[] = {&s->a, &s->b};
    const int64_t columns[] = {s->in, s->out};
    for (int i = 0; i < 2; i++) {
        size_t n = (size_t)s->experts * (size_t)columns[i]; /* below 2^38 */
        if ((size_t)s->rank > SIZE_MAX / sizeof(float) / n) return mc_fail_nomem("an adapter");
        *places[i] = mc_adapter_room(f->adapter, n * (size_t)s->rank * sizeof(float));
        if (!*places[i]) return mc_fail_nomem("an adapter");
    }
    return MICA_OK;
}

/* Takes the next roles, if they are of the slot: [*from, f->next). */
static mica_status take_roles(fitting *f, int layer, int slot, stack *s, size_t *from) {
    const role *roles = MC_BUFFER_AT(&f->roles, role);
    size_t n = MC_BUFFER_COUNT(&f->roles, role);
    *s = (stack){.pair = NULL};
    set_sizes(experts_of(f->spec, layer), slot, s);
    for (*from = f->next; f->next < n; f->next++) {
        const role *r = &roles[f->next];
        if (r->layer != layer || r->slot != slot) break;
        MC_TRY(check_role(s, r));
        s->pair = r->pair;
        if (s->pair->rank > s->rank) s->rank = s->pair->rank;
    }
    return MICA_OK;
}

/* The factors that the adapter has of a slot: s->pair is NULL if it has none. */
static mica_status make_stack(fitting *f, int layer, int slot, stack *s) {
    size_t from;
    MC_TRY(take_roles(f, layer, slot, s, &from));
    if (!s->pair) return MICA_OK;
    MC_TRY(allocate(f, s));
    bool *seen = mc_adapter_room(f->adapter, (size_t)s->experts);
    if (!seen) return mc_fail_nomem("an adapter");
    for (size_t i = from; i < f->next; i++) {
        const role *r = &MC_BUFFER_AT(&f->roles, role)[i];
        int64_t first = r->expert < 0 ? 0 : r->expert;
        int64_t end = r->expert < 0 ? s->experts : r->expert + 1;
        for (int64_t e = first; e < end; e++) {
            if (seen[e]) return misfit(r->pair, "is the second for its matrix");
            seen[e] = true;
            copy_expert(s, r, e, r->pair->rank);
        }
    }
    return MICA_OK;
}

/* ---- gate and up ---- */

/* The row of both that is row i of gate (0) or up (1). gpt-oss has them in turns. */
static int64_t row_of(const mc_block_spec *b, int which, int64_t i) {
    return b->experts.limit != 0 ? 2 * i + which : which * b->experts.width + i;
}

/* One of two matrices whose factors are of both. */
static mica_status split(fitting *f, const mc_block_spec *b, const stack *both, int which,
                         stack *one) {
    *one = *both;
    one->out = b->experts.width;
    if (!both->pair) return MICA_OK;
    MC_TRY(allocate(f, one));
    memcpy(one->a, both->a, (size_t)(both->experts * both->rank * both->in) * sizeof(float));
    for (int64_t e = 0; e < one->experts; e++)
        for (int64_t o = 0; o < one->out; o++)
            memcpy(one->b + (e * one->out + o) * one->rank,
                   both->b + (e * both->out + row_of(b, which, o)) * both->rank,
                   (size_t)one->rank * sizeof(float));
    return MICA_OK;
}

static void put_part(const mc_block_spec *b, const stack *one, int which, int64_t from,
                     const stack *both) {
    for (int64_t e = 0; one->pair && e < both->experts; e++) {
        memcpy(both->a + (e * both->rank + from) * both->in, one->a + e * one->rank * one->in,
               (size_t)(one->rank * one->in) * sizeof(float));
        for (int64_t o = 0; o < one->out; o++)
            memcpy(both->b + (e * both->out + row_of(b, which, o)) * both->rank + from,
                   one->b + (e * one->out + o) * one->rank, (size_t)one->rank * sizeof(float));
    }
}

/* Both of two matrices with factors of their own. */
static mica_status join(fitting *f, const mc_block_spec *b, const stack *gate, const stack *up,
                        stack *both) {
    *both = (stack){.pair = gate->pair ? gate->pair : up->pair, .rank = gate->rank + up->rank};
    set_sizes(b, MC_EXPERTS_GATE_UP, both);
    if (!both->pair) return MICA_OK;
    MC_TRY(allocate(f, both));
    put_part(b, gate, 0, 0, both);
    put_part(b, up, 1, gate->rank, both);
    return MICA_OK;
}

/* ---- the model's pairs ---- */

static mica_status put_tensor(fitting *f, const mc_weight_tensor *like, const float *data,
                              const int64_t shape[3], const mc_weight_tensor **tensor) {
    mc_weight_tensor *t = mc_adapter_room(f->adapter, sizeof *t);
    if (!t) return mc_fail_nomem("an adapter");
    *t = (mc_weight_tensor){.name = like->name,
                            .file = like->file,
                            .kind = "F32",
                            .has_dtype = true,
                            .dtype = MICA_F32,
                            .ndim = 3,
                            .shape = {shape[0], shape[1], shape[2]},
                            .data = data,
                            .bytes = (size_t)(shape[0] * shape[1] * shape[2]) * sizeof(float)};
    *tensor = t;
    return MICA_OK;
}

static mica_status put_pair(fitting *f, int layer, int slot, const stack *s) {
    char text[MC_MODULE_BYTES];
    const mc_block_spec *b = experts_of(f->spec, layer);
    const char *name = b->names[slot];
    const int64_t a[] = {s->experts, s->rank, s->in}, bs[] = {s->experts, s->out, s->rank};
    mc_adapter_pair pair = {.kind = MC_ADAPTER_MLX, .rank = s->rank, .scale = 1};
    if (!s->pair) return MICA_OK;
    if (!name) return misfit(s->pair, "is of a matrix that the model's experts do not have");
    if (strchr(name, '*') && b->usual[slot]) name = b->usual[slot];
    int len = snprintf(text, sizeof text, "model.%s.%d.%s", mc_spec_layers(f->spec), layer, name);
    char *module = mc_adapter_room(f->adapter, (size_t)len + 1);
    if (!module) return mc_fail_nomem("an adapter");
    pair.module = memcpy(module, text, (size_t)len + 1);
    MC_TRY(put_tensor(f, s->pair->a, s->a, a, &pair.a));
    MC_TRY(put_tensor(f, s->pair->b, s->b, bs, &pair.b));
    return MC_BUFFER_PUSH(&f->pairs, mc_adapter_pair, pair) ? MICA_OK : mc_fail_nomem("an adapter");
}

static mica_status fit_gates(fitting *f, int layer) {
    const mc_block_spec *b = experts_of(f->spec, layer);
    stack gate, up, both;
    MC_TRY(make_stack(f, layer, MC_EXPERTS_GATE, &gate));
    MC_TRY(make_stack(f, layer, MC_EXPERTS_UP, &up));
    MC_TRY(make_stack(f, layer, MC_EXPERTS_GATE_UP, &both));
    if (both.pair && (gate.pair || up.pair))
        return misfit(both.pair, "is the second for its matrix");
    if (b->names[MC_EXPERTS_GATE_UP]) {
        if (!both.pair) MC_TRY(join(f, b, &gate, &up, &both));
        return put_pair(f, layer, MC_EXPERTS_GATE_UP, &both);
    }
    if (both.pair) MC_TRY(split(f, b, &both, 0, &gate));
    if (both.pair) MC_TRY(split(f, b, &both, 1, &up));
    MC_TRY(put_pair(f, layer, MC_EXPERTS_GATE, &gate));
    return put_pair(f, layer, MC_EXPERTS_UP, &up);
}

static mica_status fit_layer(fitting *f, int layer) {
    stack down;
    MC_TRY(fit_gates(f, layer));
    MC_TRY(make_stack(f, layer, MC_EXPERTS_DOWN, &down));
    return put_pair(f, layer, MC_EXPERTS_DOWN, &down);
}

/* ---- the whole ---- */

/* The matrix of a parameter whose name is not told: which of them its factors fit. */
static int slot_by_shape(const mc_block_spec *b, const role *r) {
    const mc_adapter_pair *p = r->pair;
    int64_t in = p->a->ndim == 2 ? p->a->shape[1] : 0, out = p->b->ndim == 2 ? p->b->shape[0] : 0;
    int64_t hidden = b->hidden, width = b->experts.width;
    if (in == hidden && out == 2 * width) return MC_EXPERTS_GATE_UP;
    if (in == width && out == hidden && !(r->inner && width == hidden)) return MC_EXPERTS_DOWN;
    return in == hidden && out == width ? MC_EXPERTS_UP : MC_EXPERTS_DOWN;
}

static bool find_role(const fitting *f, const mc_adapter_pair *pair, role *r) {
    mc_str rest;
    mc_str module = mc_decoder_name(mc_str_of(pair->module));
    *r = (role){.pair = pair, .layer = mc_spec_layer(f->spec, module, &rest)};
    const mc_block_spec *b = r->layer < 0 ? NULL : experts_of(f->spec, r->layer);
    if (!b || pair->kind == MC_ADAPTER_PEFT_EMBEDDING || !read_role(rest, r)) return false;
    if (r->slot < 0) r->slot = slot_by_shape(b, r);
    return true;
}

static int by_place(const void *a, const void *b) {
    const role *x = a, *y = b;
    return x->layer != y->layer ? (x->layer > y->layer) - (x->layer < y->layer)
                                : (x->slot > y->slot) - (x->slot < y->slot);
}

static mica_status sort_pairs(fitting *f) {
    bool done = true;
    role r;
    for (size_t i = 0; done && i < mc_adapter_count(f->adapter); i++) {
        const mc_adapter_pair *pair = mc_adapter_at(f->adapter, i);
        done = find_role(f, pair, &r) ? MC_BUFFER_PUSH(&f->roles, role, r)
                                      : MC_BUFFER_PUSH(&f->pairs, mc_adapter_pair, *pair);
    }
    if (f->roles.len)
        qsort(f->roles.data, MC_BUFFER_COUNT(&f->roles, role), sizeof(role), by_place);
    return done ? MICA_OK : mc_fail_nomem("an adapter");
}

mica_status mc_adapter_fit(mc_adapter *adapter, const mc_decoder_spec *spec) {
    fitting f = {.adapter = adapter, .spec = spec};
    mica_status status = sort_pairs(&f);
    bool any = f.roles.len > 0;
    for (int i = 0; status == MICA_OK && any && i < spec->n_layers; i++)
        if (experts_of(spec, i)) status = fit_layer(&f, i);
    if (status == MICA_OK && any) mc_adapter_set_pairs(adapter, &f.pairs);
    mc_buffer_deinit(&f.roles);
    mc_buffer_deinit(&f.pairs);
    return status;
}
