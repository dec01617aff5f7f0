/* Every op over operands whose elements lie in other ways than in row-major order, against the same
 * op over dense copies: what a device says that it supports, its kernels take. Results are the same
 * to the bit, but of ops that sum in another order where an operand's rows do not lie side by
 * side. */
#include <mica/mica.h>

#include <math.h>
#include <string.h>

#include "graph/graphs.h"
#include "support/support.h"

enum { MAX_IN = 8, MAX_BYTES = 1 << 14 };

typedef enum how {
    DENSE,
    TRANSPOSED,
    REVERSED,
    WIDE,           /* a part of longer rows */
    BEHIND,         /* the second half of an array */
    BROADCAST,      /* the first place of the first axis, again and again */
    BROADCAST_LAST, /* that of the last axis */
    EMPTY,          /* no place of the first axis */
    WAYS
} how;

static mica_device *device;
static int compared;

static void check(mica_array x) {
    if (!mica_valid(x) || mica_eval(x.scope, x) != MICA_OK) fail_msg("%s", mica_last_error());
}

static mica_array reverse(mica_scope *s, mica_array x) {
    for (int k = 0; k < mica_array_ndim(x); k++)
        x = mica_flip(s, x, k);
    return x;
}

static mica_array repeat(mica_scope *s, mica_array x, int axis) {
    mica_array first = mica_slice_axis(s, x, axis, 0, 1);
    return mica_broadcast_to(s, first, mica_array_shape(x), mica_array_ndim(x));
}

/* The elements of x, or some of them, lying in that way: an evaluated array of s. */
static mica_array lay(mica_scope *s, mica_array x, how way) {
    int64_t n = mica_array_dim(x, 0), length = mica_array_dim(x, -1);
    mica_array y = x, twice[] = {x, x};
    if (mica_array_size(x) == 0 || mica_array_ndim(x) == 0) return x;
    switch (way) {
    case TRANSPOSED:
        check(y = mica_contiguous(s, mica_transpose(s, x, NULL)));
        y = mica_transpose(s, y, NULL);
        break;
    case REVERSED:
        check(y = mica_contiguous(s, reverse(s, x)));
        y = reverse(s, y);
        break;
    case WIDE:
        check(y = mica_concatenate(s, twice, 2, -1));
        y = mica_slice_axis(s, y, -1, 0, length);
        break;
    case BEHIND:
        check(y = mica_concatenate(s, twice, 2, 0));
        y = mica_slice_axis(s, y, 0, n, 2 * n);
        break;
    case BROADCAST:
        y = repeat(s, x, 0);
        break;
    case BROADCAST_LAST:
        y = repeat(s, x, -1);
        break;
    case EMPTY:
        y = mica_slice_axis(s, x, 0, n, n);
        break;
    default:
        break;
    }
    check(y);
    return y;
}

static mica_array copy(mica_scope *s, mica_array x) {
    static char bytes[MAX_BYTES];
    size_t size = (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    assert_true(size <= sizeof bytes);
    if (mica_read(x, bytes, size) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_array y =
        mica_from_data(s, bytes, mica_array_dtype(x), mica_array_shape(x), mica_array_ndim(x));
    check(y);
    return y;
}

static bool has_other_orders(mc_op op) {
    return op == MC_OP_MATMUL || op == MC_OP_GATHER_MM || op == MC_OP_SDPA ||
           op == MC_OP_SDPA_LSE || op == MC_OP_PAGED_SDPA;
}

/* The op over operands, its results read one behind the other; the size, or -1 where it refuses
 * them. */
static int64_t compute(mica_scope *s, const mc_node *node, const mica_array *in, char *bytes) {
    const mc_op_def *def = mc_op_get(node->op);
    mica_array made = mc_record(s, node->op, node->attr, in, (int)node->n_in);
    int64_t all = 0;
    if (!mica_valid(made)) return -1;
    const mc_node *own = mc_node_of(made);
    for (int i = 0; i < mc_node_n_out(own); i++) {
        mica_array y = own->results ? mc_record_part(s, made, i) : made;
        if (has_other_orders(node->op)) y = mica_astype(s, y, MICA_F32);
        int64_t size = mica_array_size(y) * (int64_t)mica_dtype_bytes(mica_array_dtype(y));
        assert_true(all + size <= MAX_BYTES);
        mica_status status = mica_read(y, bytes + all, (size_t)size);
        if (status == MICA_EINVAL && node->op == MC_OP_DENSE_SOLVE) return -1; /* it is singular */
        if (status != MICA_OK) fail_msg("%s: %s", def->name, mica_last_error());
        all += size;
    }
    return all;
}

static bool is_same(const mc_node *node, mica_dtype floats, const char *got, const char *want,
                    int64_t size) {
    const float tolerance = floats == MICA_F32 ? 1e-6f : floats == MICA_F16 ? 2e-3f : 2e-2f;
    if (!has_other_orders(node->op)) return memcmp(got, want, (size_t)size) == 0;
    for (int64_t i = 0; i < size; i += (int64_t)sizeof(float)) {
        float x, y;
        memcpy(&x, got + i, sizeof x);
        memcpy(&y, want + i, sizeof y);
        if (x != y && !(fabsf(x - y) <= tolerance * (1 + fabsf(y)))) return false;
    }
    return true;
}

/* The op with operand `which` (all: n_in) lying in that way, floats being of a dtype. */
static void compare(const mica_array *operands, const mc_node *node, uint32_t which, how way,
                    mica_dtype floats) {
    static char got[MAX_BYTES], want[MAX_BYTES];
    mica_array in[MAX_IN], dense[MAX_IN];
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    for (uint32_t k = 0; k < node->n_in; k++) {
        in[k] = dense[k] = MICA_NONE;
        if (!mica_valid(operands[k])) continue;
        in[k] = copy(s, operands[k]);
        if (mica_array_dtype(in[k]) == MICA_F32) check(in[k] = mica_astype(s, in[k], floats));
        if (which == k || which == node->n_in) in[k] = lay(s, in[k], way);
        dense[k] = copy(s, in[k]);
    }
    int64_t size = compute(s, node, dense, want);
    if (size >= 0) {
        assert_int_equal(compute(s, node, in, got), size);
        compared++;
        if (!is_same(node, floats, got, want, size))
            fail_msg("%s: operand %u of %u, way %d, %s: other bits", mc_op_get(node->op)->name,
                     which, node->n_in, (int)way, mica_dtype_name(floats));
    }
    mica_scope_close(&s);
}

static void compare_node(test_graph *g, const mc_node *node) {
    static const mica_dtype floats[] = {MICA_F32, MICA_F16, MICA_BF16};
    mica_array operands[MAX_IN];
    assert_true(node->n_in <= MAX_IN);
    for (uint32_t k = 0; k < node->n_in; k++) {
        operands[k] = node->in[k] == MC_ABSENT ? MICA_NONE : (mica_array){g->s, node->in[k]};
        if (mica_valid(operands[k])) check(operands[k]);
    }
    for (how way = TRANSPOSED; way < WAYS; way++)
        for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
            for (uint32_t which = 0; which <= node->n_in; which++)
                compare(operands, node, which, way, floats[i]);
}

static void test_every_op_takes_operands_as_they_lie(void **state) {
    (void)state;
    static bool seen[MC_OP_COUNT];
    test_graph g;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device), 0);
    for (size_t i = 0; i < test_graph_n_parts; i++) {
        test_graph_open(&g, device, &test_graph_parts[i]);
        for (uint32_t k = 0; k < mc_scope_count(g.s); k++) {
            const mc_node *node = mc_scope_node(g.s, k);
            seen[node->op] = true;
            if (node->state == MC_PENDING && node->op != MC_OP_PART) compare_node(&g, node);
        }
        test_graph_close(&g);
    }
    for (int op = 0; op < MC_OP_COUNT; op++)
        if (!seen[op]) fail_msg("%s is in no graph", mc_op_get((mc_op)op)->name);
    assert_true(compared > 4000);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_takes_operands_as_they_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
