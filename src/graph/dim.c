#include "graph/dim.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"

enum { MAX_ENTRIES = 1 << 15 };
#define LOW ((int64_t)0x5D1A0000) /* the low 32 bits of handles, but for 16 */
#define LARGE ((int64_t)1 << 36)  /* no array has as long an axis */

typedef mc_dim_term term;
typedef mc_dim_parts parts;

/* How many quotients are within each other, and how many symbols it has, each time it names one. */
typedef struct mc_dim_size {
    int depth, weight;
} mc_dim_size;

/* An expression: of a symbol the name, of a quotient two dimensions, of a sum terms; of what is
 * computed two dimensions and the mc_dim_op. */
typedef struct entry {
    int64_t handle;
    mc_dim_kind kind;
    mc_dim_size size;
    size_t bytes;
    const void *data;
} entry;

static struct {
    pthread_mutex_t lock;
    atomic_size_t count; /* also read without the lock: 0 tells that there are no handles */
    size_t users, cap;
    entry **slots; /* [cap] by handle: open addressing */
    mc_arena arena;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local mica_status failed = MICA_ESHAPE; /* why the last MC_DIM_NONE came */
static _Thread_local uint64_t made;

static int64_t fail(mica_status status) {
    failed = status;
    return MC_DIM_NONE;
}

static bool is_none(int64_t a, int64_t b) {
    return a == MC_DIM_NONE || b == MC_DIM_NONE;
}

/* ---- the table ---- */

void mc_dims_retain(void) {
    pthread_mutex_lock(&table.lock);
    table.users++;
    pthread_mutex_unlock(&table.lock);
}

void mc_dims_release(void) {
    pthread_mutex_lock(&table.lock);
    if (--table.users == 0) {
        atomic_store(&table.count, 0);
        mc_free(table.slots);
        table.slots = NULL;
        table.cap = 0;
        mc_arena_deinit(&table.arena);
    }
    pthread_mutex_unlock(&table.lock);
}

/* Under the lock, as all that follows here: the slot of a handle, its own or an empty one. */
static entry **slot_of(int64_t handle) {
    size_t i = (size_t)((uint64_t)handle * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (table.cap - 1);
    while (table.slots[i] && table.slots[i]->handle != handle)
        i = (i + 1) & (table.cap - 1);
    return &table.slots[i];
}

static const entry *find_dim(int64_t handle) {
    return table.cap > 0 ? *slot_of(handle) : NULL;
}

static bool grow(void) {
    size_t cap = table.cap ? 2 * table.cap : 64, old = table.cap;
    entry **slots = mc_calloc(cap, sizeof(entry *)), **was = table.slots;
    if (!slots) return false;
    table.slots = slots;
    table.cap = cap;
    for (size_t i = 0; i < old; i++)
        if (was[i]) *slot_of(was[i]->handle) = was[i];
    mc_free(was);
    return true;
}

static int64_t handle_of(mc_dim_kind kind, const void *data, size_t bytes, uint64_t attempt) {
    uint64_t h = mc_hash(data, bytes, (uint64_t)kind + 8 * attempt);
    return MC_DIM_FIRST | (int64_t)(h & 0x7FFFF) << 32 | LOW | (int64_t)(h >> 32 & 0xFFFF);
}

static entry *new_entry(const entry *e) {
    entry *own = mc_arena_alloc(&table.arena, sizeof *own);
    void *data = mc_arena_alloc(&table.arena, e->bytes);
    if (!own || !data) return NULL;
    memcpy(data, e->data, e->bytes);
    *own = *e;
    own->data = data;
    return own;
}

static int64_t add_entry(entry e) {
    size_t count = atomic_load(&table.count);
    if (e.size.depth > MC_DIM_DEPTH || e.size.weight > MC_DIM_WEIGHT) return fail(MICA_ESHAPE);
    if (count >= MAX_ENTRIES) return fail(MICA_ENOMEM);
    entry *own = 2 * (count + 1) <= table.cap || grow() ? new_entry(&e) : NULL;
    if (!own) return fail(MICA_ENOMEM);
    made++;
    *slot_of(e.handle) = own;
    atomic_store(&table.count, count + 1);
    return e.handle;
}

static int64_t intern(mc_dim_kind kind, const void *data, size_t bytes, mc_dim_size size) {
    int64_t handle;
    const entry *e;
    pthread_mutex_lock(&table.lock);
    for (uint64_t attempt = 0;; attempt++) {
        handle = handle_of(kind, data, bytes, attempt);
        e = find_dim(handle);
        if (handle == MC_DIM_NONE) continue;
        if (!e || (e->kind == kind && e->bytes == bytes && memcmp(e->data, data, bytes) == 0))
            break;
    }
    if (!e) handle = add_entry((entry){handle, kind, size, bytes, data});
    pthread_mutex_unlock(&table.lock);
    return handle;
}

uint64_t mc_dims_made(void) {
    return made;
}

bool mc_dims_live(void) {
    return atomic_load_explicit(&table.count, memory_order_relaxed) > 0;
}

bool mc_dim_has_symbols(int64_t d) {
    if (!mc_dim_in_range(d) || !mc_dims_live()) return false;
    pthread_mutex_lock(&table.lock);
    bool found = find_dim(d) != NULL;
    pthread_mutex_unlock(&table.lock);
    return found;
}

static mc_dim_size size_of(int64_t d) {
    pthread_mutex_lock(&table.lock);
    const entry *e = find_dim(d);
    mc_dim_size size = e ? e->size : (mc_dim_size){0, 1};
    pthread_mutex_unlock(&table.lock);
    return size;
}

static void join_size(mc_dim_size *size, mc_dim_size with) {
    if (with.depth > size->depth) size->depth = with.depth;
    size->weight = size->weight + with.weight; /* each is MC_DIM_WEIGHT at most */
}

void mc_dim_get(int64_t d, parts *p) {
    *p = (parts){.kind = MC_DIM_NUMBER};
    if (!mc_dim_has_symbols(d)) return;
    pthread_mutex_lock(&table.lock);
    const entry *e = find_dim(d);
    if (e) p->kind = e->kind;
    if (e && e->kind == MC_DIM_SYMBOL) memcpy(p->name, e->data, e->bytes);
    if (e && (e->kind == MC_DIM_QUOTIENT || e->kind == MC_DIM_COMPUTED)) {
        p->over = ((const int64_t *)e->data)[0];
        p->under = ((const int64_t *)e->data)[1];
    }
    if (e && e->kind == MC_DIM_COMPUTED) p->op = (mc_dim_op)((const int64_t *)e->data)[2];
    if (e && e->kind == MC_DIM_SUM) {
        p->n = (int64_t)(e->bytes / sizeof *p->terms);
        memcpy(p->terms, e->data, e->bytes);
    }
    pthread_mutex_unlock(&table.lock);
}

int64_t mc_dim_symbol(const char *name) {
    return intern(MC_DIM_SYMBOL, name, strlen(name) + 1, (mc_dim_size){0, 1});
}

bool mc_dim_is_symbol(int64_t d) {
    parts p;
    mc_dim_get(d, &p);
    return p.kind == MC_DIM_SYMBOL;
}

/* ---- what is no dimension ---- */

mica_status mc_dim_check(int64_t d) {
    if (d == MC_DIM_NONE && failed == MICA_ENOMEM)
        return atomic_load(&table.count) < MAX_ENTRIES
                   ? mc_fail_nomem("a length")
                   : mc_fail(MICA_ENOMEM,
                             "the table of lengths with symbols is full: the process "
                             "has %d of them",
                             MAX_ENTRIES);
    if (d == MC_DIM_NONE)
        return mc_fail(failed, "a length with symbols is too large an expression, or is divided by "
                               "0 or less");
    bool small = d > -LARGE && d < LARGE;
    if (small || d == INT64_MAX || mc_dim_has_symbols(d)) return MICA_OK;
    return mc_fail(MICA_EINVAL, "a length was computed from that of a symbol by C's operators: "
                                "mica_dim_add, subtract, multiply and divide do it");
}

/* Whether some handle has these low bits, or is as near as a float holds. */
static bool is_near(double number) {
    bool near = false;
    pthread_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.cap && !near; i++) {
        if (!table.slots[i]) continue;
        double handle = (double)table.slots[i]->handle;
        near = (double)(int32_t)table.slots[i]->handle == number ||
               fabs(handle - fabs(number)) < handle * 0x1p-23 ||
               fabs(handle - 1 / fabs(number)) < handle * 0x1p-21;
    }
    pthread_mutex_unlock(&table.lock);
    return near;
}

bool mc_dim_lost(double number) {
    if (!mc_dims_live()) return false;
    double size = fabs(number);
    bool cut = number >= (double)LOW && number <= (double)(LOW + 0xFFFF);
    bool large = size >= (double)MC_DIM_FIRST && size <= (double)MC_DIM_END;
    bool inverse = size <= 1 / (double)MC_DIM_FIRST && size >= 1 / (double)MC_DIM_END;
    return (cut || large || inverse) && is_near(number);
}

int64_t mc_dim_of_real(double x) {
    if (!(x >= (double)MC_DIM_FIRST && x < (double)MC_DIM_END) || floor(x) != x) return 0;
    return mc_dim_has_symbols((int64_t)x) ? (int64_t)x : 0;
}

/* ---- sums of terms ---- */

typedef struct sum {
    int n;
    bool ok; /* false: too many terms, or numbers above 2^63 */
    term terms[MC_DIM_TERMS];
} sum;

/* The order of terms: those of a higher degree first. */
static int compare(const term *a, const term *b) {
    if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
    for (int64_t i = 0; i < a->degree; i++)
        if (a->atoms[i] != b->atoms[i]) return a->atoms[i] < b->atoms[i] ? -1 : 1;
    return 0;
}

static void insert_term(sum *s, int at, const term *t) {
    if (s->n == MC_DIM_TERMS) {
        s->ok = false;
        return;
    }
    memmove(&s->terms[at + 1], &s->terms[at], (size_t)(s->n++ - at) * sizeof *t);
    s->terms[at] = *t;
}

static void add_term(sum *s, const term *t) {
    int at = 0;
    if (t->factor == 0) return;
    while (at < s->n && compare(&s->terms[at], t) < 0)
        at++;
    if (at == s->n || compare(&s->terms[at], t) != 0) {
        insert_term(s, at, t);
        return;
    }
    int64_t *factor = &s->terms[at].factor;
    if (__builtin_add_overflow(*factor, t->factor, factor)) s->ok = false;
    if (*factor != 0) return;
    s->n--;
    memmove(&s->terms[at], &s->terms[at + 1], (size_t)(s->n - at) * sizeof *t);
}

static sum sum_of(int64_t d) {
    sum s = {.ok = d != MC_DIM_NONE};
    parts p;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_NUMBER) {
        add_term(&s, &(term){.factor = d});
    } else if (p.kind == MC_DIM_SUM) {
        s.n = (int)p.n;
        memcpy(s.terms, p.terms, (size_t)p.n * sizeof *p.terms);
    } else {
        add_term(&s, &(term){.factor = 1, .degree = 1, .atoms = {d}});
    }
    return s;
}

static int64_t dim_of(const sum *s) {
    mc_dim_size size = {0, 0};
    if (!s->ok) return fail(MICA_ESHAPE);
    if (s->n == 0) return 0;
    if (s->n == 1 && s->terms[0].degree == 0) return s->terms[0].factor;
    if (s->n == 1 && s->terms[0].degree == 1 && s->terms[0].factor == 1)
        return s->terms[0].atoms[0];
    for (int i = 0; i < s->n; i++)
        for (int64_t k = 0; k < s->terms[i].degree; k++)
            join_size(&size, size_of(s->terms[i].atoms[k]));
    return intern(MC_DIM_SUM, s->terms, (size_t)s->n * sizeof *s->terms, size);
}

/* a + factor * b. */
static sum add_dims(int64_t a, int64_t b, int64_t factor) {
    sum s = sum_of(a), t = sum_of(b);
    s.ok = s.ok && t.ok;
    for (int i = 0; i < t.n; i++) {
        if (__builtin_mul_overflow(t.terms[i].factor, factor, &t.terms[i].factor)) s.ok = false;
        add_term(&s, &t.terms[i]);
    }
    return s;
}

int64_t mc_dim_add_slow(int64_t a, int64_t b, int64_t factor) {
    if (is_none(a, b)) return MC_DIM_NONE;
    const sum s = add_dims(a, b, factor);
    return dim_of(&s);
}

/* False: the degree, or a number, is too large. */
static bool multiply(const term *a, const term *b, term *out) {
    term c = {.degree = a->degree + b->degree};
    int64_t i = 0, j = 0;
    if (c.degree > MC_DIM_DEGREE || __builtin_mul_overflow(a->factor, b->factor, &c.factor))
        return false;
    for (int64_t k = 0; k < c.degree; k++)
        c.atoms[k] = j == b->degree || (i < a->degree && a->atoms[i] <= b->atoms[j])
                         ? a->atoms[i++]
                         : b->atoms[j++];
    *out = c;
    return true;
}

/* s += a * t. */
static void add_product(sum *s, const term *a, const sum *t) {
    term product;
    for (int i = 0; i < t->n; i++) {
        if (multiply(a, &t->terms[i], &product))
            add_term(s, &product);
        else
            s->ok = false;
    }
}

static sum multiply_sums(const sum *a, const sum *b) {
    sum s = {.ok = a->ok && b->ok};
    for (int i = 0; i < a->n; i++)
        add_product(&s, &a->terms[i], b);
    return s;
}

int64_t mc_dim_mul_slow(int64_t a, int64_t b) {
    if (is_none(a, b)) return MC_DIM_NONE;
    const sum x = sum_of(a), y = sum_of(b), s = multiply_sums(&x, &y);
    return dim_of(&s);
}

int64_t mc_dim_of_terms(const term *terms, int64_t n) {
    sum s = {.ok = true};
    for (int64_t i = 0; i < n; i++) {
        sum product = {.ok = true};
        add_term(&product, &(term){.factor = terms[i].factor});
        for (int64_t k = 0; k < terms[i].degree; k++) {
            const sum atom = sum_of(terms[i].atoms[k]);
            product = multiply_sums(&product, &atom);
        }
        s.ok = s.ok && product.ok;
        for (int k = 0; k < product.n; k++)
            add_term(&s, &product.terms[k]);
    }
    return dim_of(&s);
}

/* ---- quotients ---- */

/* a / b, where b divides a: no atom of b that a lacks, and its factor. */
static bool divide(const term *a, const term *b, term *out) {
    if (a->factor == INT64_MIN || a->factor % b->factor != 0) return false;
    term c = {.factor = a->factor / b->factor};
    int64_t j = 0;
    for (int64_t i = 0; i < a->degree; i++) {
        if (j < b->degree && a->atoms[i] == b->atoms[j])
            j++;
        else
            c.atoms[c.degree++] = a->atoms[i];
    }
    *out = c;
    return j == b->degree;
}

/* Divides as polynomials are divided: a = b * quotient + rest. */
static void divide_sums(const sum *a, const sum *b, sum *quotient, sum *rest) {
    sum left = *a;
    *quotient = *rest = (sum){.ok = true};
    for (int rounds = 0; left.n > 0 && left.ok && rounds < 4 * MC_DIM_TERMS; rounds++) {
        term first = left.terms[0], part;
        if (first.factor == INT64_MIN) break;
        if (divide(&first, &b->terms[0], &part)) {
            add_term(quotient, &part);
            part.factor = -part.factor;
            add_product(&left, &part, b);
        } else {
            add_term(rest, &first);
            first.factor = -first.factor;
            add_term(&left, &first);
        }
    }
    quotient->ok = quotient->ok && left.ok && left.n == 0;
}

/* Divides each term by a number: what is left of its factor is below the number. */
static void divide_by_number(const sum *a, int64_t b, sum *quotient, sum *rest) {
    *quotient = *rest = (sum){.ok = true};
    for (int i = 0; i < a->n; i++) {
        term whole = a->terms[i], left = whole;
        left.factor = whole.factor % b + (whole.factor % b < 0 ? b : 0);
        whole.factor = whole.factor / b - (whole.factor % b < 0);
        add_term(quotient, &whole);
        add_term(rest, &left);
    }
}

static bool is_number(const sum *s) {
    return s->n == 0 || (s->n == 1 && s->terms[0].degree == 0);
}

static int64_t number_of(const sum *s) {
    return s->n > 0 ? s->terms[0].factor : 0;
}

/* a = b * quotient + rest, as far as it can be told. */
static bool split(int64_t a, int64_t b, sum *quotient, sum *rest) {
    const sum x = sum_of(a), y = sum_of(b);
    *quotient = *rest = (sum){.ok = false};
    if (!x.ok || !y.ok || b == 0 || mc_dim_sign(b) < 0) return false;
    if (is_number(&y))
        divide_by_number(&x, number_of(&y), quotient, rest);
    else
        divide_sums(&x, &y, quotient, rest);
    quotient->ok = quotient->ok && rest->ok;
    return quotient->ok;
}

static int64_t add_quotient(int64_t a, int64_t b) {
    const int64_t both[2] = {a, b};
    mc_dim_size size = size_of(a);
    if (is_none(a, b)) return MC_DIM_NONE;
    join_size(&size, size_of(b));
    size.depth++;
    return intern(MC_DIM_QUOTIENT, both, sizeof both, size);
}

int64_t mc_dim_div_slow(int64_t a, int64_t b) {
    sum quotient, rest;
    if (is_none(a, b)) return MC_DIM_NONE;
    if (!split(a, b, &quotient, &rest) || rest.n == 0) return dim_of(&quotient);
    if (!mc_dim_has_symbols(b))
        return is_number(&rest) ? dim_of(&quotient)
                                : mc_dim_add(dim_of(&quotient), add_quotient(dim_of(&rest), b));
    return add_quotient(a, b);
}

int64_t mc_dim_div_up_slow(int64_t a, int64_t b) {
    sum quotient, rest;
    if (is_none(a, b)) return MC_DIM_NONE;
    if (split(a, b, &quotient, &rest) && rest.n == 0) return dim_of(&quotient);
    return mc_dim_div_slow(mc_dim_add(a, mc_dim_sub(b, 1)), b);
}

int64_t mc_dim_mod(int64_t a, int64_t b) {
    sum quotient, rest;
    if (mc_dim_numbers(a, b)) return a % b;
    if (!split(a, b, &quotient, &rest)) return 0;
    return is_number(&rest) && !mc_dim_has_symbols(b) ? number_of(&rest) : 0;
}

/* ---- what is computed in f32 ---- */

static float float_of(int64_t bits) {
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

int64_t mc_dim_real(float x) {
    uint32_t bits;
    if (!(fabsf(x) < (float)LARGE)) return fail(MICA_ESHAPE);
    if (x == floorf(x)) return (int64_t)x;
    memcpy(&bits, &x, sizeof bits);
    const int64_t data[3] = {bits, 0, MC_DIM_CONSTANT};
    return intern(MC_DIM_COMPUTED, data, sizeof data, (mc_dim_size){0, 1});
}

int64_t mc_dim_real_of(int64_t bits) {
    return mc_dim_real(float_of(bits));
}

bool mc_dim_is_constant(int64_t d, double *x) {
    parts p;
    mc_dim_get(d, &p);
    *x = p.kind == MC_DIM_NUMBER ? (double)d : (double)float_of(p.over);
    return p.kind == MC_DIM_NUMBER || (p.kind == MC_DIM_COMPUTED && p.op == MC_DIM_CONSTANT);
}

bool mc_dim_is_whole(int64_t d) {
    parts p;
    if (!mc_dim_in_range(d)) return true;
    mc_dim_get(d, &p);
    if (p.kind != MC_DIM_COMPUTED) return true;
    if (p.op == MC_DIM_MIN || p.op == MC_DIM_MAX)
        return mc_dim_is_whole(p.over) && mc_dim_is_whole(p.under);
    return p.op >= MC_DIM_FLOOR;
}

static double compute(mc_dim_op op, double a, double b) {
    float x = (float)a, y = (float)b;
    switch (op) {
    case MC_DIM_ADD_F32:
        return (double)(x + y);
    case MC_DIM_SUB_F32:
        return (double)(x - y);
    case MC_DIM_MUL_F32:
        return (double)(x * y);
    case MC_DIM_DIV_F32:
        return (double)(x / y);
    case MC_DIM_MIN:
        return fmin(a, b);
    case MC_DIM_MAX:
        return fmax(a, b);
    case MC_DIM_FLOOR:
        return floor(a);
    case MC_DIM_CEIL:
        return ceil(a);
    default:
        return trunc(a);
    }
}

/* Rounds d / n, or d times a fraction of small numbers, by whole numbers: that has one form
 * whatever it was computed by. What f32 makes of it is the same below 2^24. */
static bool round_exactly(mc_dim_op op, int64_t d, int64_t *y) {
    parts p;
    double by;
    int64_t under = 1;
    mc_dim_get(d, &p);
    bool divides = p.op == MC_DIM_DIV_F32;
    if (p.kind != MC_DIM_COMPUTED || (!divides && p.op != MC_DIM_MUL_F32)) return false;
    bool second = mc_dim_is_constant(p.under, &by), first = !second && !divides;
    if (!second && !(first && mc_dim_is_constant(p.over, &by))) return false;
    int64_t over = first ? p.under : p.over;
    while (!divides && by != floor(by) && under < 64)
        by *= 2, under *= 2;
    if (by != floor(by) || !(by >= 1 && by <= 1 << 16) || !mc_dim_is_whole(over)) return false;
    if (divides)
        under = (int64_t)by;
    else
        over = mc_dim_mul(over, (int64_t)by);
    if (op == MC_DIM_TRUNC && mc_dim_sign(over) <= 0) return false;
    *y = op == MC_DIM_CEIL ? mc_dim_div_up(over, under) : mc_dim_div(over, under);
    return true;
}

int64_t mc_dim_compute(mc_dim_op op, int64_t a, int64_t b) {
    double x, y;
    int64_t exact;
    bool chooses = op == MC_DIM_MIN || op == MC_DIM_MAX;
    if (is_none(a, b)) return MC_DIM_NONE;
    if (op >= MC_DIM_FLOOR && mc_dim_is_whole(a)) return a;
    if (op >= MC_DIM_FLOOR && round_exactly(op, a, &exact)) return exact;
    if (chooses && !mc_dim_has_symbols(a) && !mc_dim_has_symbols(b))
        return (a < b) == (op == MC_DIM_MIN) ? a : b;
    if (mc_dim_is_constant(a, &x) && mc_dim_is_constant(b, &y)) {
        if (chooses) return (x < y) == (op == MC_DIM_MIN) ? a : b;
        return mc_dim_real((float)compute(op, x, y));
    }
    if (chooses && b <= a) return a == b ? a : mc_dim_compute(op, b, a);
    const int64_t data[3] = {a, b, (int64_t)op};
    mc_dim_size size = size_of(a);
    join_size(&size, size_of(b));
    size.depth++;
    return intern(MC_DIM_COMPUTED, data, sizeof data, size);
}

/* ---- comparisons ---- */

static bool is_positive(int64_t d);

/* Of a quotient: with operands whose atoms are 0 or more. */
static bool has_positive_atoms(int64_t d) {
    const sum s = sum_of(d);
    bool all = s.ok;
    for (int i = 0; i < s.n; i++)
        for (int64_t k = 0; k < s.terms[i].degree; k++)
            all = all && is_positive(s.terms[i].atoms[k]);
    return all;
}

static bool is_computed_positive(const parts *p) {
    switch (p->op) {
    case MC_DIM_CONSTANT:
        return float_of(p->over) >= 0;
    case MC_DIM_SUB_F32:
        return false;
    case MC_DIM_MAX:
        return is_positive(p->over) || is_positive(p->under);
    default: /* the second operand of what rounds is 0 */
        return is_positive(p->over) && is_positive(p->under);
    }
}

static int sign_of(const sum *s) {
    int sign = 0;
    if (!s->ok) return 0;
    for (int i = 0; i < s->n; i++) {
        int own = s->terms[i].factor > 0 ? 1 : -1;
        if (sign != 0 && own != sign) return 0;
        for (int64_t k = 0; k < s->terms[i].degree; k++)
            if (!is_positive(s->terms[i].atoms[k])) return 0;
        sign = own;
    }
    return sign;
}

/* Whether d is 0 or more for all values of symbols but some small ones. */
static bool is_positive(int64_t d) {
    parts p;
    if (!mc_dim_has_symbols(d)) return d >= 0;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_SYMBOL) return true;
    if (p.kind == MC_DIM_QUOTIENT) return has_positive_atoms(p.over) && has_positive_atoms(p.under);
    if (p.kind == MC_DIM_COMPUTED) return is_computed_positive(&p);
    const sum s = sum_of(d);
    return sign_of(&s) > 0;
}

int mc_dim_sign_slow(int64_t d) {
    const sum s = sum_of(d);
    return sign_of(&s);
}

bool mc_dim_less_slow(int64_t a, int64_t b) {
    const sum apart = add_dims(b, a, -1);
    return sign_of(&apart) > 0;
}

static bool has_quotient(const sum *s) {
    for (int i = 0; i < s->n; i++)
        for (int64_t k = 0; k < s->terms[i].degree; k++)
            if (!mc_dim_is_symbol(s->terms[i].atoms[k])) return true;
    return false;
}

bool mc_dim_depends(int64_t d, int64_t symbol) {
    parts p;
    if (!mc_dim_in_range(d)) return false;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_SYMBOL) return d == symbol;
    if (p.kind == MC_DIM_QUOTIENT || p.kind == MC_DIM_COMPUTED)
        return mc_dim_depends(p.over, symbol) || mc_dim_depends(p.under, symbol);
    for (int64_t i = 0; i < p.n; i++)
        for (int64_t k = 0; k < p.terms[i].degree; k++)
            if (mc_dim_depends(p.terms[i].atoms[k], symbol)) return true;
    return false;
}

bool mc_dim_is_computed(int64_t d) {
    parts p;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_COMPUTED) return true;
    if (p.kind == MC_DIM_QUOTIENT) return mc_dim_is_computed(p.over) || mc_dim_is_computed(p.under);
    for (int64_t i = 0; i < p.n; i++)
        for (int64_t k = 0; k < p.terms[i].degree; k++)
            if (mc_dim_is_computed(p.terms[i].atoms[k])) return true;
    return false;
}

/* Whether a has a symbol that b has not; a has no quotients. */
static bool has_another_symbol(int64_t a, int64_t b) {
    const sum s = sum_of(a);
    for (int i = 0; i < s.n; i++)
        for (int64_t k = 0; k < s.terms[i].degree; k++)
            if (!mc_dim_depends(b, s.terms[i].atoms[k])) return true;
    return false;
}

static int64_t times_in(const term *t, int64_t atom) {
    int64_t times = 0;
    for (int64_t k = 0; k < t->degree; k++)
        times += t->atoms[k] == atom;
    return times;
}

/* Takes what all terms have as a factor out of a sum. */
static void divide_by_common(sum *s) {
    for (int64_t k = s->n > 0 ? s->terms[0].degree - 1 : -1; k >= 0; k--) {
        int64_t atom = s->terms[0].atoms[k];
        bool common = true;
        for (int i = 0; i < s->n; i++)
            common = common && times_in(&s->terms[i], atom) > 0;
        for (int i = 0; common && i < s->n; i++) {
            term *t = &s->terms[i];
            int64_t at = 0;
            while (t->atoms[at] != atom)
                at++;
            for (t->degree--; at < t->degree; at++)
                t->atoms[at] = t->atoms[at + 1];
        }
    }
}

/* Whether terms of a sign have a symbol that those of the other do not. */
static bool has_own_symbol(const sum *s, bool positive) {
    for (int i = 0; i < s->n; i++) {
        const term *t = &s->terms[i];
        for (int64_t k = 0; (t->factor > 0) == positive && k < t->degree; k++) {
            bool other = false;
            for (int j = 0; j < s->n; j++)
                other = other || ((s->terms[j].factor > 0) != positive &&
                                  times_in(&s->terms[j], t->atoms[k]) > 0);
            if (!other) return true;
        }
    }
    return false;
}

bool mc_dim_may_equal(int64_t a, int64_t b) {
    if (a == b || mc_dim_numbers(a, b)) return a == b;
    sum apart = add_dims(a, b, -1);
    if (has_quotient(&apart) || (has_another_symbol(a, b) && has_another_symbol(b, a))) return true;
    divide_by_common(&apart); /* n n and n m are equal where n and m are */
    return has_own_symbol(&apart, true) && has_own_symbol(&apart, false);
}

bool mc_dim_is_of(int64_t d, const mc_symbol *symbols, size_t n) {
    parts p;
    bool all = true;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_QUOTIENT || p.kind == MC_DIM_COMPUTED)
        return mc_dim_is_of(p.over, symbols, n) && mc_dim_is_of(p.under, symbols, n);
    for (size_t i = 0; p.kind == MC_DIM_SYMBOL && i < n; i++)
        if (symbols[i].dim == d) return true;
    for (int64_t i = 0; i < p.n; i++)
        for (int64_t k = 0; k < p.terms[i].degree; k++)
            all = all && mc_dim_is_of(p.terms[i].atoms[k], symbols, n);
    return all && p.kind != MC_DIM_SYMBOL;
}

/* ---- values ---- */

static mica_status too_large(void) {
    return mc_fail(MICA_ESHAPE, "a length is above 2^63");
}

static mica_status value_of_quotient(const parts *p, const mc_dim_values *values, int64_t *value) {
    int64_t a, b;
    MC_TRY(mc_dim_value(p->over, values, &a));
    MC_TRY(mc_dim_value(p->under, values, &b));
    if (b <= 0) return mc_fail(MICA_ESHAPE, "a length is divided by %lld", (long long)b);
    *value = a / b - (a % b < 0);
    return MICA_OK;
}

static mica_status value_of_real(int64_t d, const mc_dim_values *values, double *value) {
    parts p;
    int64_t whole;
    double a, b;
    if (mc_dim_is_constant(d, value)) return MICA_OK;
    mc_dim_get(d, &p);
    if (p.kind != MC_DIM_COMPUTED) {
        MC_TRY(mc_dim_value(d, values, &whole));
        *value = (double)whole;
        return MICA_OK;
    }
    MC_TRY(value_of_real(p.over, values, &a));
    MC_TRY(value_of_real(p.under, values, &b));
    *value = compute(p.op, a, b);
    return MICA_OK;
}

static mica_status value_of_computed(int64_t d, const mc_dim_values *values, int64_t *value) {
    double real;
    MC_TRY(value_of_real(d, values, &real));
    if (!(fabs(real) < 0x1p62)) return too_large();
    *value = (int64_t)real;
    return MICA_OK;
}

static mica_status value_of_symbol(int64_t d, const char *name, const mc_dim_values *values,
                                   int64_t *value) {
    for (size_t i = 0; i < values->n; i++)
        if (values->symbols[i].dim == d) {
            *value = values->values[i];
            return MICA_OK;
        }
    return mc_fail(MICA_ESHAPE, "symbol %.63s has no value", name);
}

static mica_status value_of_sum(const parts *p, const mc_dim_values *values, int64_t *value) {
    *value = 0;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t product = p->terms[i].factor, atom;
        for (int64_t k = 0; k < p->terms[i].degree; k++) {
            MC_TRY(mc_dim_value(p->terms[i].atoms[k], values, &atom));
            if (__builtin_mul_overflow(product, atom, &product)) return too_large();
        }
        if (__builtin_add_overflow(*value, product, value)) return too_large();
    }
    return MICA_OK;
}

mica_status mc_dim_value(int64_t d, const mc_dim_values *values, int64_t *value) {
    parts p;
    *value = d;
    if (!mc_dim_in_range(d)) return MICA_OK;
    mc_dim_get(d, &p);
    switch (p.kind) {
    case MC_DIM_SYMBOL:
        return value_of_symbol(d, p.name, values, value);
    case MC_DIM_QUOTIENT:
        return value_of_quotient(&p, values, value);
    case MC_DIM_SUM:
        return value_of_sum(&p, values, value);
    case MC_DIM_COMPUTED:
        return value_of_computed(d, values, value);
    default:
        return MICA_OK;
    }
}

/* ---- text ---- */

/* As an operand of a product or quotient; what is more than a symbol in brackets, if asked. */
static bool print_operand(mc_buffer *text, int64_t d, bool brackets) {
    brackets = brackets && mc_dim_has_symbols(d) && !mc_dim_is_symbol(d);
    return (!brackets || mc_buffer_add_byte(text, '(')) && mc_dim_print(text, d) &&
           (!brackets || mc_buffer_add_byte(text, ')'));
}

static bool print_quotient(mc_buffer *text, const parts *p) {
    return print_operand(text, p->over, true) && mc_buffer_add_byte(text, '/') &&
           print_operand(text, p->under, true);
}

static bool print_computed(mc_buffer *text, int64_t d, const parts *p) {
    static const char *const names[MC_DIM_OPS] = {"",    "+",   "-",     "*",    "/",
                                                  "min", "max", "floor", "ceil", "trunc"};
    double x;
    if (mc_dim_is_constant(d, &x)) return mc_buffer_printf(text, "%.9g", x);
    bool infix = p->op < MC_DIM_MIN;
    return (infix || mc_buffer_add_text(text, names[p->op])) && mc_buffer_add_byte(text, '(') &&
           mc_dim_print(text, p->over) &&
           (p->op >= MC_DIM_FLOOR || (mc_buffer_add_text(text, infix ? names[p->op] : ", ") &&
                                      print_operand(text, p->under, infix))) &&
           mc_buffer_add_byte(text, ')');
}

static bool print_term(mc_buffer *text, const term *t, bool first) {
    bool unit = t->degree > 0 && (t->factor == 1 || t->factor == -1);
    bool ok = first || t->factor < 0 || mc_buffer_add_byte(text, '+');
    if (unit)
        ok = ok && (t->factor > 0 || mc_buffer_add_byte(text, '-'));
    else
        ok = ok && mc_buffer_printf(text, "%lld", (long long)t->factor);
    for (int64_t k = 0; ok && k < t->degree; k++)
        ok = ((unit && k == 0) || mc_buffer_add_byte(text, '*')) &&
             print_operand(text, t->atoms[k], !unit || t->degree > 1);
    return ok;
}

bool mc_dim_print(mc_buffer *text, int64_t d) {
    parts p;
    bool ok = true;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_NUMBER) return mc_buffer_printf(text, "%lld", (long long)d);
    if (p.kind == MC_DIM_SYMBOL) return mc_buffer_add_text(text, p.name);
    if (p.kind == MC_DIM_QUOTIENT) return print_quotient(text, &p);
    if (p.kind == MC_DIM_COMPUTED) return print_computed(text, d, &p);
    for (int64_t i = 0; ok && i < p.n; i++)
        ok = print_term(text, &p.terms[i], i == 0);
    return ok;
}

const char *mc_dim_text(int64_t d, char text[MC_DIM_TEXT]) {
    mc_buffer all = {0};
    if (!mc_dim_has_symbols(d)) {
        snprintf(text, MC_DIM_TEXT, "%lld", (long long)d);
        return text;
    }
    bool ok = mc_dim_print(&all, d);
    const char *whole = ok ? mc_buffer_cstr(&all) : NULL;
    snprintf(text, MC_DIM_TEXT, "%s", whole ? whole : "?");
    mc_buffer_deinit(&all);
    return text;
}

/* ---- the public functions ---- */

int64_t mica_dim_add(int64_t a, int64_t b) {
    return mc_dim_add_to(&a, b) ? a : fail(MICA_ESHAPE);
}

int64_t mica_dim_subtract(int64_t a, int64_t b) {
    if (mc_dim_numbers(a, b)) return __builtin_sub_overflow(a, b, &a) ? fail(MICA_ESHAPE) : a;
    return mc_dim_sub(a, b);
}

int64_t mica_dim_multiply(int64_t a, int64_t b) {
    return mc_dim_mul_to(&a, b) ? a : fail(MICA_ESHAPE);
}

int64_t mica_dim_divide(int64_t a, int64_t b) {
    return mc_dim_div(a, b);
}
