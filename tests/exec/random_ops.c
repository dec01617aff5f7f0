/* Random programs of all ops, with branches and loops in them.
 *
 * On the cpu, all that a program gives has the same bits, whether its nodes are evaluated one by
 * one as they are recorded, all at once, or as an executable: in each mode, without passes, queued,
 * through slots and through handles. On other devices each op over the same operands agrees with
 * the cpu.
 *
 *     random_ops [PROGRAMS]    so many programs; 300, on other devices 100 */
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/any_op.h"
#include "exec/expect.h"
#include "graph/graph.h"

enum { MAX_NODES = 40, LEAVES = 4, MAX_RESULTS = 6, MAX_BYTES = 8 * ANY_OP_MAX };

/* A value, kept outside of any scope. */
typedef struct value {
    mica_dtype dtype;
    int64_t shape[MICA_MAX_NDIM];
    int ndim;
    size_t bytes;
    char data[MAX_BYTES];
} value;

/* A program: leaves, then ops, each over three earlier nodes. */
typedef struct recipe {
    int n, kinds[MAX_NODES], in[MAX_NODES][3];
    uint64_t seeds[MAX_NODES];
    int results[MAX_RESULTS], n_results;
} recipe;

static int programs;
static char op_seen[MC_OP_COUNT];

/* ---- values ---- */

static void keep(mica_array x, value *v) {
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    v->dtype = mica_array_dtype(x);
    v->ndim = mica_array_ndim(x);
    for (int k = 0; k < v->ndim; k++)
        v->shape[k] = mica_array_dim(x, k);
    v->bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(v->dtype);
    if (v->bytes > MAX_BYTES) fail_msg("%zu bytes", v->bytes);
    if (mica_read(x, v->data, v->bytes) != MICA_OK) fail_msg("%s", mica_last_error());
}

static mica_array array_of(mica_scope *s, const value *v) {
    mica_array x = mica_from_data(s, v->data, v->dtype, v->shape, v->ndim);
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    return x;
}

/* The elements in f64, NaN as such. */
static double number_at(mica_scope *s, const value *v, size_t i, float *wide) {
    if (i == 0) {
        mica_array x = mica_astype(s, array_of(s, v), MICA_F32);
        size_t bytes = v->bytes / mica_dtype_bytes(v->dtype) * sizeof *wide;
        must(mica_read(x, wide, bytes));
    }
    return (double)wide[i];
}

static bool has_same_bits(const value *a, const value *b) {
    if (a->dtype != b->dtype || a->bytes != b->bytes || a->ndim != b->ndim) return false;
    if (memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) != 0) return false;
    if (memcmp(a->data, b->data, a->bytes) == 0) return true;
    if (a->dtype != MICA_F32) return false; /* bits of a NaN may differ */
    for (size_t i = 0; i < a->bytes / sizeof(float); i++) {
        float x, y;
        memcpy(&x, a->data + i * sizeof x, sizeof x);
        memcpy(&y, b->data + i * sizeof y, sizeof y);
        if (memcmp(&x, &y, sizeof x) != 0 && !(isnan(x) && isnan(y))) return false;
    }
    return true;
}

/* ---- programs ---- */

static recipe recipe_of(int number) {
    any_op g = {NULL, (uint64_t)number * 1000};
    recipe r = {.n = LEAVES + 2 + any_below(&g, MAX_NODES - LEAVES - 2)};
    for (int i = 0; i < r.n; i++) {
        r.seeds[i] = (uint64_t)any_below(&g, 1 << 30);
        r.kinds[i] = any_below(&g, any_op_count());
        for (int k = 0; k < 3 && i > 0; k++) /* often one of the last, so that chains are long */
            r.in[i][k] = any_below(&g, 2) ? any_below(&g, i) : i - 1 - any_below(&g, i < 3 ? i : 3);
    }
    r.n_results = 1 + any_below(&g, MAX_RESULTS);
    for (int k = 0; k < r.n_results; k++)
        r.results[k] = k == 0 ? r.n - 1 : any_below(&g, r.n);
    return r;
}

static void make_leaf(const recipe *r, int i, value *v) {
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F32, MICA_BF16, MICA_I32, MICA_F16};
    any_op g = {NULL, r->seeds[i]};
    float numbers[ANY_OP_MAX];
    mica_device *cpu;
    mica_scope *s;
    v->ndim = any_below(&g, 4);
    int64_t size = 1;
    for (int k = 0; k < v->ndim; k++) {
        v->shape[k] = any_below(&g, 25) == 0 ? 0 : 1 + any_below(&g, 6);
        if (v->ndim == 1 && any_below(&g, 2)) /* so that loops for long rows run */
            v->shape[k] = any_below(&g, 2) ? 120 + any_below(&g, 97) : 512 + any_below(&g, 88);
        size *= v->shape[k];
    }
    for (int64_t k = 0; k < size; k++)
        numbers[k] = (float)(any_below(&g, 4001) - 2000) / 1000.0f;
    if (size > 0 && any_below(&g, 6) == 0)
        numbers[any_below(&g, (int)size)] = any_below(&g, 2) ? NAN : -INFINITY;
    must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &cpu));
    must(mica_scope_open(cpu, &s));
    mica_array x = mica_from_data(s, numbers, MICA_F32, v->shape, v->ndim);
    keep(mica_astype(s, x, dtypes[any_below(&g, 5)]), v);
    mica_scope_close(&s);
    mica_device_close(&cpu);
}

/* Records node i over arrays of earlier nodes. */
static mica_array make_node(const recipe *r, int i, mica_scope *s, const mica_array *nodes) {
    any_op g = {s, r->seeds[i]};
    const mica_array in[3] = {nodes[r->in[i][0]], nodes[r->in[i][1]], nodes[r->in[i][2]]};
    mica_array x = any_op_make(&g, r->kinds[i], in);
    if (!mica_valid(x)) fail_msg("%s: %s", any_op_name(r->kinds[i]), mica_last_error());
    return x;
}

static void note_ops(mica_scope *s) {
    for (uint32_t i = 0; i < mc_scope_count(s); i++)
        op_seen[mc_scope_node(s, i)->op] = 1;
}

/* Each node is evaluated before the next one is recorded. */
static void evaluate_singly(mica_device *device, const recipe *r, value *all) {
    mica_array nodes[MAX_NODES];
    mica_scope *s;
    must(mica_scope_open(device, &s));
    for (int i = 0; i < r->n; i++) {
        if (i < LEAVES) make_leaf(r, i, &all[i]);
        nodes[i] = i < LEAVES ? array_of(s, &all[i]) : make_node(r, i, s, nodes);
        keep(nodes[i], &all[i]);
    }
    note_ops(s);
    mica_scope_close(&s);
}

static void expect_same_value(const recipe *r, int number, const char *way, int result,
                              mica_array got, const value *all) {
    static value v;
    int i = r->results[result];
    keep(got, &v);
    if (has_same_bits(&v, &all[i])) return;
    fail_msg("program %d, %s: node %d, %s of %%%d %%%d %%%d, differs", number, way, i,
             i < LEAVES ? "leaf" : any_op_name(r->kinds[i]), r->in[i][0], r->in[i][1], r->in[i][2]);
}

/* Records all nodes over parameters, or over the leaves' values. */
static mica_program *build(mica_scope *s, const recipe *r, const value *all) {
    static const char *const names[LEAVES] = {"a", "b", "c", "d"};
    mica_array nodes[MAX_NODES], ys[MAX_RESULTS];
    mica_param params[LEAVES];
    mica_program *p;
    for (int i = 0; i < r->n; i++) {
        nodes[i] = i < LEAVES ? mica_program_param(s, all[i].dtype, all[i].shape, all[i].ndim)
                              : make_node(r, i, s, nodes);
        if (i < LEAVES) params[i] = (mica_param){.name = names[i], .array = nodes[i]};
    }
    for (int k = 0; k < r->n_results; k++)
        ys[k] = nodes[r->results[k]];
    must(mica_program_build(s, params, LEAVES, ys, (size_t)r->n_results, NULL, &p));
    note_ops(s);
    return p;
}

static void list_inputs(const value *all, mica_input *in) {
    static const char *const names[LEAVES] = {"a", "b", "c", "d"};
    for (int i = 0; i < LEAVES; i++)
        in[i] = (mica_input){
            .name = names[i], .data = all[i].data, .bytes = all[i].bytes, .dtype = all[i].dtype};
}

/* Twice: the second run replays. */
static void run_mode(mica_device *device, const mica_program *p, const recipe *r, int number,
                     const value *all, const char *way, mica_mode mode, const char *off) {
    mica_executable *x;
    mica_input in[LEAVES];
    mica_array ys[MAX_RESULTS];
    list_inputs(all, in);
    must(mica_executable_open(p, &(mica_executable_options){.mode = mode, .passes_off = off}, &x));
    for (int turn = 0; turn < 2; turn++) {
        mica_scope *s;
        mica_ticket *ticket;
        must(mica_scope_open(device, &s));
        if (turn == 0) {
            must(mica_executable_run(x, in, LEAVES, s, ys));
        } else {
            must(mica_executable_run_async(x, in, LEAVES, &ticket));
            must(mica_ticket_wait(&ticket, s, ys));
        }
        for (int k = 0; k < r->n_results; k++)
            expect_same_value(r, number, way, k, ys[k], all);
        mica_scope_close(&s);
    }
    mica_executable_close(&x);
}

/* Inputs by position; those of an odd program stay set, as handles do. */
static void run_slots(const mica_program *p, const recipe *r, int number, const value *all) {
    mica_executable *x;
    mica_input in[LEAVES];
    const void *data[LEAVES] = {NULL};
    const mica_slot *slots;
    size_t n;
    list_inputs(all, in);
    must(mica_executable_open(p, NULL, &x));
    for (int i = 0; i < LEAVES; i++) {
        if (number % 2)
            must(mica_executable_set(x, &in[i]));
        else
            data[i] = all[i].data;
    }
    must(mica_executable_slots(x, &slots, &n));
    assert_int_equal(n, r->n_results);
    must(mica_executable_run_slots(x, data, LEAVES));
    for (size_t k = 0; k < n; k++) {
        static value v;
        v = all[r->results[k]];
        assert_int_equal(slots[k].bytes, v.bytes);
        memcpy(v.data, (const char *)mica_executable_arena(x) + slots[k].offset, v.bytes);
        if (!has_same_bits(&v, &all[r->results[k]]))
            fail_msg("program %d, slots: result %zu differs", number, k);
    }
    mica_executable_close(&x);
}

static void run_at_once(mica_device *device, const recipe *r, int number, const value *all) {
    mica_array nodes[MAX_NODES], ys[MAX_RESULTS];
    mica_scope *s;
    must(mica_scope_open(device, &s));
    for (int i = 0; i < r->n; i++)
        nodes[i] = i < LEAVES ? array_of(s, &all[i]) : make_node(r, i, s, nodes);
    for (int k = 0; k < r->n_results; k++)
        ys[k] = nodes[r->results[k]];
    if (mica_eval_n(s, ys, (size_t)r->n_results) != MICA_OK)
        fail_msg("program %d: %s", number, mica_last_error());
    for (int k = 0; k < r->n_results; k++)
        expect_same_value(r, number, "at once", k, ys[k], all);
    mica_scope_close(&s);
}

static value all[MAX_NODES];

static void test_every_way_gives_the_same_bits(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* bits are the cpu's */
    mica_device *device;
    must(test_device_open(&(mica_device_options){.threads = 2}, &device));
    for (int number = 1; number <= programs; number++) {
        const recipe r = recipe_of(number);
        mica_scope *s;
        evaluate_singly(device, &r, all);
        run_at_once(device, &r, number, all);
        must(mica_scope_open(device, &s));
        mica_program *p = build(s, &r, all);
        run_mode(device, p, &r, number, all, "lazy", MICA_MODE_LAZY, NULL);
        run_mode(device, p, &r, number, all, "eager", MICA_MODE_EAGER, NULL);
        run_mode(device, p, &r, number, all, "compiled", MICA_MODE_COMPILED, NULL);
        run_mode(device, p, &r, number, all, "without passes", MICA_MODE_COMPILED, "all");
        run_slots(p, &r, number, all);
        mica_program_close(&p);
        mica_scope_close(&s);
    }
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

/* ---- other devices ---- */

/* Floats within so much of the largest one; everything else is the same. What sums and differences
 * within an op cancel is not seen in its result: ten times as much for ops of many steps. */
static double slack_of(mica_dtype dtype, const char *name) {
    static const char *const long_ones[] = {"gradient", "control", "recurrence", "solve"};
    double slack = dtype == MICA_F16 ? 4e-3 : dtype == MICA_BF16 ? 3e-2 : 1e-5;
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++)
        if (!strcmp(name, long_ones[i])) slack *= 10;
    return slack;
}

static void expect_near_value(mica_scope *s, const value *got, const value *want, int number, int i,
                              const recipe *r) {
    static float a[MAX_BYTES], b[MAX_BYTES];
    const char *name = any_op_name(r->kinds[i]);
    if (got->dtype != want->dtype || got->bytes != want->bytes)
        fail_msg("program %d: node %d, %s: another dtype or size", number, i, name);
    if (has_same_bits(got, want)) return;
    size_t n = want->bytes / mica_dtype_bytes(want->dtype);
    double largest = 1;
    for (size_t k = 0; k < n; k++) {
        double v = fabs(number_at(s, want, k, b));
        (void)number_at(s, got, k, a);
        if (isfinite(v) && v > largest) largest = v;
    }
    for (size_t k = 0; k < n; k++) {
        double x = (double)a[k], y = (double)b[k];
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (mica_dtype_is_float(want->dtype) &&
            fabs(x - y) <= slack_of(want->dtype, name) * largest)
            continue;
        fail_msg("program %d: node %d, %s (seed %llu): element %zu is %.9g, not %.9g", number, i,
                 name, (unsigned long long)r->seeds[i], k, x, y);
    }
}

static void test_every_op_agrees_with_the_cpu(void **state) {
    (void)state;
    static value got;
    mica_device *device, *cpu;
    must(test_device_open(&(mica_device_options){.threads = 2}, &device));
    must(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &cpu));
    for (int number = 1; number <= programs; number++) {
        const recipe r = recipe_of(number);
        evaluate_singly(cpu, &r, all);
        for (int i = LEAVES; i < r.n; i++) {
            mica_array nodes[MAX_NODES];
            mica_scope *s, *plain;
            must(mica_scope_open(device, &s));
            must(mica_scope_open(cpu, &plain));
            for (int k = 0; k < 3; k++)
                nodes[r.in[i][k]] = array_of(s, &all[r.in[i][k]]);
            keep(make_node(&r, i, s, nodes), &got);
            expect_near_value(plain, &got, &all[i], number, i, &r);
            mica_scope_close(&s);
            mica_scope_close(&plain);
        }
    }
    mica_device_close(&cpu);
    mica_device_close(&device);
}

/* Every op of the list was recorded, but those that do more than compute. */
static void test_every_op_was_there(void **state) {
    (void)state;
    int missing = 0;
    if (programs < 300) skip();
    for (int op = 0; op < MC_OP_COUNT; op++)
        if (!op_seen[op] && !mc_op_get((mc_op)op)->acts) {
            print_error("%s was not recorded\n", mc_op_get((mc_op)op)->name);
            missing++;
        }
    assert_int_equal(missing, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_gives_the_same_bits),
        cmocka_unit_test(test_every_op_agrees_with_the_cpu),
        cmocka_unit_test(test_every_op_was_there),
    };
    programs = argc > 1 ? atoi(argv[1]) : test_device_is_other() ? 100 : 300;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
