/* Goldens of op/reduce.c, op/scan.c, op/sort.c and op/search.c. */
#include <string.h>

#include "op/golden.h"

/* The axes to reduce. No axes, or a list of none, means all. */
typedef struct axes {
    int n;
    int axis[MICA_MAX_NDIM];
} axes;

static axes axes_of(const golden *g) {
    int64_t list[MICA_MAX_NDIM];
    axes a = {.n = golden_ints(g, "axis", list, MICA_MAX_NDIM)};
    for (int i = 0; i < a.n; i++)
        a.axis[i] = (int)list[i];
    if (a.n < 0) a.n = 0;
    return a;
}

#define REDUCE(name)                                                                              \
    static bool run_##name(golden *g) {                                                           \
        axes a = axes_of(g);                                                                      \
        g->out[0] =                                                                               \
            mica_##name(g->s, golden_in(g, "a"), a.axis, a.n, golden_bool(g, "keepdims", false)); \
        return true;                                                                              \
    }
REDUCE(sum)
REDUCE(prod)
REDUCE(max)
REDUCE(min)
REDUCE(all)
REDUCE(any)
REDUCE(mean)
REDUCE(logsumexp)

#define SPREAD(name)                                                                               \
    static bool run_##name(golden *g) {                                                            \
        axes a = axes_of(g);                                                                       \
        g->out[0] = mica_##name(g->s, golden_in(g, "a"), a.axis, a.n,                              \
                                golden_bool(g, "keepdims", false), (int)golden_int(g, "ddof", 0)); \
        return true;                                                                               \
    }
SPREAD(var)
SPREAD(std)

/* An array and an axis. An axis of null means the flattened array; an absent one does not. */
static mica_array flat(const golden *g, int64_t otherwise, int *axis) {
    mica_array a = golden_in(g, "a");
    bool has_axis = golden_has(g, "axis") || !mc_json_get_type(mc_json_find(g->args, "axis"));
    *axis = has_axis ? (int)golden_int(g, "axis", otherwise) : 0;
    return has_axis ? a : mica_flatten(g->s, a, 0, -1);
}

/* further arguments begin with a comma */
#define ALONG(name, ...)                                    \
    static bool run_##name(golden *g) {                     \
        int axis;                                           \
        mica_array a = flat(g, -1, &axis);                  \
        g->out[0] = mica_##name(g->s, a, axis __VA_ARGS__); \
        return true;                                        \
    }
ALONG(argmax, , false)
ALONG(argmin, , false)
ALONG(sort, )
ALONG(argsort, )
#define SCAN_ARGS , golden_bool(g, "reverse", false), golden_bool(g, "inclusive", true)
ALONG(cumsum, SCAN_ARGS)
ALONG(cumprod, SCAN_ARGS)
ALONG(cummax, SCAN_ARGS)
ALONG(cummin, SCAN_ARGS)
ALONG(logcumsumexp, SCAN_ARGS)

/* The first kth elements of a partition, sorted. */
static bool run_partition(golden *g) {
    int64_t k = golden_int(g, "kth", 0);
    mica_array y = mica_partition(g->s, golden_in(g, "a"), k, -1);
    g->out[0] = mica_slice_axis(g->s, mica_sort(g->s, y, -1), -1, 0, k);
    return true;
}

static bool run_argpartition(golden *g) {
    int64_t k = golden_int(g, "kth", 0);
    mica_array y = mica_argpartition(g->s, golden_in(g, "a"), k, -1);
    g->out[0] = mica_sort(g->s, mica_slice_axis(g->s, y, -1, 0, k), -1);
    return true;
}

static bool run_topk(golden *g) {
    g->out[0] = mica_sort(g->s, mica_topk(g->s, golden_in(g, "a"), golden_int(g, "k", 1), -1), -1);
    return true;
}

static bool run_softmax(golden *g) {
    mica_array x = golden_in(g, "a");
    axes a = axes_of(g);
    g->out[0] = a.n > 1 ? mica_softmax_axes(g->s, x, a.axis, a.n)
                        : mica_softmax(g->s, x, a.n ? a.axis[0] : -1);
    return true;
}

static bool run_median(golden *g) {
    axes a = axes_of(g);
    g->out[0] =
        mica_median(g->s, golden_in(g, "a"), a.axis, a.n, golden_bool(g, "keepdims", false));
    return true;
}

static bool run_searchsorted(golden *g) {
    bool right = golden_bool(g, "right", false);
    g->out[0] = mica_searchsorted(g->s, golden_in(g, "a"), golden_in(g, "v"), right);
    return true;
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {
    ROW(sum),
    ROW(prod),
    ROW(max),
    ROW(min),
    ROW(all),
    ROW(any),
    ROW(mean),
    ROW(var),
    ROW(std),
    ROW(logsumexp),
    ROW(argmax),
    ROW(argmin),
    ROW(sort),
    ROW(argsort),
    ROW(cumsum),
    ROW(cumprod),
    ROW(cummax),
    ROW(cummin),
    ROW(softmax),
    ROW(median),
    ROW(searchsorted),
    ROW(logcumsumexp),
    {.op = "partition.value", .run = run_partition},
    {.op = "topk.sorted", .run = run_topk},
    {.op = "argpartition.set", .run = run_argpartition},
};

const golden_group golden_reduce = {"reduce", rows, sizeof rows / sizeof *rows, NULL};
