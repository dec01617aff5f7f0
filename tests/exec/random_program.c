/* Random programs against the same computed at once on plain C arrays: results that share memory,
 * are written in place, are views of each other and are evaluated in any order keep their values.
 * Each program runs twice with other data, so that the second time replays the plan of the
 * first. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { N = 24, MAX_ARRAYS = 40, PROGRAMS = 600 };

/* Two streams of random numbers: what the program does, and what its data are. */
static uint64_t structure_state, data_state;

static int next_below(uint64_t *state, int n) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (int)((*state >> 11) % (uint64_t)n);
}

/* 0 to n - 1. */
static int below(int n) {
    return next_below(&structure_state, n);
}

/* Every array has N elements, under one of these shapes. */
static const struct shape {
    int ndim;
    int64_t dims[3];
} shapes[] = {{1, {24}}, {2, {4, 6}}, {2, {6, 4}}, {3, {2, 3, 4}}, {3, {4, 3, 2}}, {3, {3, 1, 8}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* An array and what it must hold. */
typedef struct known {
    mica_array x;
    bool moved;
    int shape;
    int32_t want[N];
} known;

typedef struct program {
    mica_scope *s;
    mica_scope *outer; /* where moved arrays come from */
    bool moving;       /* some arrays are moved in, and may be overwritten */
    int n;
    known all[MAX_ARRAYS];
    char text[4096];
} program;

static void note(program *p, const char *op, int a, int b) {
    size_t used = strlen(p->text);
    snprintf(p->text + used, sizeof p->text - used, " %%%d=%s(%%%d,%d)", p->n, op, a, b);
}

static known *add_known(program *p, int shape) {
    known *k = &p->all[p->n++];
    k->shape = shape;
    k->moved = false;
    return k;
}

/* Whether it is a moved array itself: its value is gone after an evaluation that reads it. */
static bool is_moved(const program *p, const known *k) {
    for (int i = 0; i < p->n; i++)
        if (p->all[i].moved && p->all[i].x.node == k->x.node) return true;
    return false;
}

/* ---- ops: each adds one array ---- */

static void fresh(program *p) {
    note(p, "data", 0, 0);
    known *k = add_known(p, below(SHAPES));
    for (int i = 0; i < N; i++)
        k->want[i] = next_below(&data_state, 1000);
    bool moved = p->moving && below(2) == 0;
    mica_array x = mica_from_data(moved ? p->outer : p->s, k->want, MICA_I32, shapes[k->shape].dims,
                                  shapes[k->shape].ndim);
    k->x = moved ? mica_move(p->s, x) : x;
    k->moved = moved;
}

/* b under a's shape. */
static mica_array as(program *p, const known *b, int shape) {
    return mica_reshape(p->s, b->x, shapes[shape].dims, shapes[shape].ndim);
}

static void sum(program *p, const known *a, const known *b) {
    note(p, "add", (int)(a - p->all), (int)(b - p->all));
    known *k = add_known(p, a->shape);
    for (int i = 0; i < N; i++)
        k->want[i] = (a->want[i] + b->want[i]) % 100000;
    mica_array total = mica_add(p->s, a->x, as(p, b, a->shape));
    k->x = mica_remainder(p->s, total, mica_i32(p->s, 100000));
}

static void reshape(program *p, const known *a) {
    int shape = below(SHAPES);
    note(p, "reshape", (int)(a - p->all), shape);
    known *k = add_known(p, shape);
    memcpy(k->want, a->want, sizeof k->want);
    k->x = as(p, a, shape);
}

static void turn(program *p, const known *a) {
    note(p, "transpose", (int)(a - p->all), 0);
    known *k = add_known(p, 0);
    const struct shape *sh = &shapes[a->shape];
    int64_t d[3] = {1, 1, 1};
    for (int i = 0; i < sh->ndim; i++)
        d[3 - sh->ndim + i] = sh->dims[i];
    for (int64_t i = 0, n = 0; i < d[2]; i++)
        for (int64_t j = 0; j < d[1]; j++)
            for (int64_t l = 0; l < d[0]; l++)
                k->want[n++] = a->want[(l * d[1] + j) * d[2] + i];
    mica_array t = mica_transpose(p->s, a->x, NULL);
    k->x = below(2) ? mica_flatten(p->s, t, 0, -1) : mica_reshape(p->s, t, shapes[0].dims, 1);
}

static void flip(program *p, const known *a) {
    note(p, "flip", (int)(a - p->all), 0);
    known *k = add_known(p, a->shape);
    int64_t rows = shapes[a->shape].dims[0], row = N / rows;
    for (int64_t i = 0; i < rows; i++)
        memcpy(k->want + i * row, a->want + (rows - 1 - i) * row, (size_t)row * sizeof(int32_t));
    k->x = mica_flip(p->s, a->x, 0);
}

/* A row of b into a row of a, at a place that is part of the structure or data. */
static void update(program *p, const known *a, const known *b) {
    note(p, "update", (int)(a - p->all), (int)(b - p->all));
    known *k = add_known(p, a->shape);
    int rows = (int)shapes[a->shape].dims[0], row = N / rows, to = below(rows), from = below(rows);
    memcpy(k->want, a->want, sizeof k->want);
    memcpy(k->want + to * row, b->want + from * row, (size_t)row * sizeof(int32_t));
    mica_array part = mica_slice_axis(p->s, as(p, b, a->shape), 0, from, from + 1);
    int64_t start[3] = {to, 0, 0}, stop[3] = {to + 1, MICA_END_OF_AXIS, MICA_END_OF_AXIS};
    k->x = below(2) ? mica_slice_update(p->s, a->x, part, start, stop, NULL)
                    : mica_slice_update_at(p->s, a->x, part, mica_i32(p->s, to), 0);
}

/* Elements of a from b: every second one from b reversed, or all in another order. */
static void put(program *p, const known *a, const known *b) {
    note(p, "put", (int)(a - p->all), (int)(b - p->all));
    bool all = below(2) == 0;
    known *k = add_known(p, 0);
    memcpy(k->want, a->want, sizeof k->want);
    int32_t at[N];
    int64_t n = all ? N : N / 2;
    for (int i = 0; i < n; i++) {
        at[i] = all ? (5 * i + 1) % N : 2 * i;
        k->want[at[i]] = b->want[all ? i : N - 1 - i];
    }
    mica_array places = mica_from_data(p->s, at, MICA_I32, &n, 1), values = as(p, b, 0);
    if (!all) values = mica_slice_axis(p->s, mica_flip(p->s, values, 0), 0, 0, n);
    k->x = mica_put_along_axis(p->s, as(p, a, 0), places, values, 0);
}

static void roll(program *p, const known *a) {
    int by = below(N);
    note(p, "roll", (int)(a - p->all), by);
    known *k = add_known(p, 0);
    for (int i = 0; i < N; i++)
        k->want[(i + by) % N] = a->want[i];
    k->x = mica_roll(p->s, as(p, a, 0), by, 0);
}

static void step(program *p) {
    const known *a = &p->all[below(p->n)], *b = &p->all[below(p->n)];
    if (below(3)) a = &p->all[p->n - 1]; /* chains: what is read last may be overwritten */
    switch (below(9)) {
    case 0:
        fresh(p);
        break;
    case 1:
        reshape(p, a);
        break;
    case 2:
        turn(p, a);
        break;
    case 3:
        flip(p, a);
        break;
    case 4:
        put(p, a, b);
        break;
    case 5:
        roll(p, a);
        break;
    case 6:
        update(p, a, b);
        break;
    default:
        sum(p, a, b);
        break;
    }
    if (!mica_valid(p->all[p->n - 1].x)) fail_msg("%s: %s", p->text, mica_last_error());
}

static void check(program *p, const known *k) {
    int32_t got[N];
    if (mica_read(k->x, got, sizeof got) != MICA_OK)
        fail_msg("%s: %%%d: %s", p->text, (int)(k - p->all), mica_last_error());
    for (int i = 0; i < N; i++)
        if (got[i] != k->want[i])
            fail_msg("%s: %%%d: element %d is %d, not %d", p->text, (int)(k - p->all), i, got[i],
                     k->want[i]);
}

/* The same seed makes the same program. */
static void run(mica_device *device, uint64_t seed, uint64_t data_seed) {
    static program p;
    p.n = 0;
    p.text[0] = '\0';
    structure_state = seed;
    data_state = data_seed;
    p.moving = below(2) == 0;
    assert_int_equal(mica_scope_open(device, &p.s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &p.outer), MICA_OK);
    fresh(&p);
    for (int n = 3 + below(MAX_ARRAYS - 4); n > 0; n--)
        step(&p);
    mica_array targets[4];
    int n = 1 + below(4), which[4];
    for (int i = 0; i < n; i++) {
        which[i] = i == 0 ? p.n - 1 : below(p.n);
        targets[i] = p.all[which[i]].x;
    }
    if (mica_eval_n(p.s, targets, (size_t)n) != MICA_OK)
        fail_msg("%s: %s", p.text, mica_last_error());
    for (int i = 0; i < n; i++)
        if (!is_moved(&p, &p.all[which[i]])) check(&p, &p.all[which[i]]);
    for (int i = p.n - 1; i >= 0 && !p.moving;
         i--) /* later ones first: earlier ones must be left */
        check(&p, &p.all[i]);
    mica_scope_close(&p.s);
    mica_scope_close(&p.outer);
}

static void random_programs(void **state) {
    (void)state;
    mica_device *device = NULL;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    for (uint64_t i = 1; i <= PROGRAMS; i++) {
        run(device, i * 0x9e3779b97f4a7c15u, i);
        run(device, i * 0x9e3779b97f4a7c15u, i + PROGRAMS);
    }
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
