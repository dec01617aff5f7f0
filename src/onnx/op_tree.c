/* Ensembles of trees: TreeEnsemble, and the classifier and regressor before it.
 *
 * All rows walk down all trees at once: a table each says of a node which feature it compares, with
 * what, and which node follows. Leaves follow themselves; after as many steps as the deepest tree
 * has levels all are at leaves, whose weights are added. */
#include "onnx/ml.h"

#include "base/alloc.h"
#include "base/integer.h"

#include <mica/ops.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEQ, LT, GTE, GT, EQ, NEQ, MODES, LEAF = MODES }; /* modes of nodes */

enum { MAX_NODES = 1 << 24, MAX_LEVELS = 1024, NODE_BYTES = 33 /* of a forest, at least */ };

typedef struct forest {
    int64_t nodes, trees, rows, columns; /* rows of weights: leaves */
    int32_t *feature, *yes, *no, *mode, *row, *roots;
    float *value, *weights; /* [nodes], [rows, columns] */
    bool *missing;          /* NaN goes the way of yes */
    int levels;
} forest;

static void close_forest(forest *f) {
    void *const lists[] = {f->feature, f->yes,   f->no,      f->mode,   f->row,
                           f->roots,   f->value, f->weights, f->missing};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        mc_free(lists[i]);
    *f = (forest){.nodes = 0};
}

static mica_status open_forest(mc_onnx_node *n, int64_t nodes, int64_t rows, int64_t columns,
                               double fill, forest *f) {
    *f = (forest){.nodes = nodes, .rows = rows, .columns = columns};
    if (nodes < 1 || nodes > MAX_NODES || rows < 1 || columns < 1 || columns > INT32_MAX ||
        rows > INT64_MAX / 16 / columns)
        return mc_fail(MICA_EFORMAT, "its trees are out of range");
    MC_TRY(mc_onnx_charge(n->import, (uint64_t)(rows * columns) * sizeof(float)));
    MC_TRY(mc_onnx_charge_again(n, (uint64_t)nodes * NODE_BYTES));
    size_t count = (size_t)nodes;
    int32_t **const lists[] = {&f->feature, &f->yes, &f->no, &f->mode, &f->row, &f->roots};
    bool ok = true;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        *lists[i] = mc_calloc(count, sizeof(int32_t));
        ok = ok && *lists[i];
    }
    f->value = mc_calloc(count, sizeof *f->value);
    f->missing = mc_calloc(count, sizeof *f->missing);
    f->weights = mc_array_alloc((size_t)(rows * columns) + 1, sizeof *f->weights);
    if (!ok || !f->value || !f->missing || !f->weights) return mc_fail_nomem("trees");
    for (int64_t i = 0; i < rows * columns; i++)
        f->weights[i] = (float)fill;
    for (int64_t i = 0; i < nodes; i++) {
        f->mode[i] = LEAF;
        f->yes[i] = f->no[i] = (int32_t)i;
    }
    return MICA_OK;
}

/* Counts, by each node's longest way from a node that none leads to, how many steps lead to leaves.
 * before [nodes] and queue [nodes] are zero. */
static mica_status order_nodes(forest *f, int32_t *before, int32_t *level, int32_t *queue) {
    int64_t end = 0;
    for (int64_t i = 0; i < f->nodes; i++) {
        const int32_t next[] = {f->yes[i], f->no[i]};
        for (int k = 0; f->mode[i] != LEAF && k < 2; k++) {
            if (next[k] < 0 || next[k] >= f->nodes)
                return mc_fail(MICA_EFORMAT, "a tree leads to a node that is not there");
            before[next[k]]++;
        }
    }
    for (int64_t i = 0; i < f->nodes; i++)
        if (before[i] == 0) queue[end++] = (int32_t)i;
    for (int64_t at = 0; at < end; at++) {
        int32_t node = queue[at];
        const int32_t next[] = {f->yes[node], f->no[node]};
        for (int k = 0; f->mode[node] != LEAF && k < 2; k++) {
            level[next[k]] = (int32_t)mc_max(level[next[k]], level[node] + 1);
            f->levels = (int)mc_max(f->levels, level[next[k]]);
            if (--before[next[k]] == 0) queue[end++] = next[k];
        }
    }
    if (end < f->nodes) return mc_fail(MICA_EFORMAT, "its trees go in circles");
    if (f->levels > MAX_LEVELS)
        return mc_fail(MICA_EUNSUPPORTED, "its trees have more than %d levels", MAX_LEVELS);
    return MICA_OK;
}

static mica_status count_levels(forest *f) {
    size_t n = (size_t)f->nodes;
    int32_t *lists = mc_calloc(3 * n, sizeof *lists);
    mica_status status =
        lists ? order_nodes(f, lists, lists + n, lists + 2 * n) : mc_fail_nomem("trees");
    mc_free(lists);
    return status;
}

/* ---- the walk ---- */

static mica_array table_of(mc_onnx_node *n, const void *data, mica_dtype dtype, int64_t length) {
    return mica_from_data(n->s, data, dtype, &length, 1);
}

/* Whether x compares so with a node's value, as its mode is. */
static mica_array compare(mc_onnx_node *n, mica_array x, mica_array value, mica_array modes,
                          unsigned used) {
    static const mc_onnx_binary fns[] = {mica_less_equal, mica_less,  mica_greater_equal,
                                         mica_greater,    mica_equal, mica_not_equal};
    mica_array y = MICA_NONE;
    for (int i = 0; i < MODES; i++) {
        if (!(used >> i & 1)) continue;
        mica_array own = fns[i](n->s, x, value);
        y = y.scope ? mica_where(n->s, mica_equal(n->s, modes, mica_i32(n->s, i)), own, y) : own;
    }
    return y;
}

/* The leaves that rows x [N, F] come to: nodes [N, trees]. */
static mica_array walk(mc_onnx_node *n, const forest *f, mica_array x) {
    mica_scope *s = n->s;
    mica_array features = table_of(n, f->feature, MICA_I32, f->nodes);
    mica_array values = table_of(n, f->value, MICA_F32, f->nodes);
    mica_array yes = table_of(n, f->yes, MICA_I32, f->nodes);
    mica_array no = table_of(n, f->no, MICA_I32, f->nodes);
    mica_array modes = table_of(n, f->mode, MICA_I32, f->nodes);
    mica_array missing = table_of(n, f->missing, MICA_BOOL, f->nodes);
    bool any_missing = false;
    unsigned used = 0;
    for (int64_t i = 0; i < f->nodes; i++) {
        if (f->mode[i] != LEAF) used |= 1u << f->mode[i];
        any_missing = any_missing || f->missing[i];
    }
    mica_array at = mica_from_data(s, f->roots, MICA_I32, (int64_t[]){1, f->trees}, 2);
    at = mica_broadcast_to(s, at, (int64_t[]){mica_array_dim(x, 0), f->trees}, 2);
    for (int i = 0; i < f->levels; i++) {
        mica_array own = mica_take_along_axis(s, x, mica_take(s, features, at, 0), 1);
        mica_array mode = used & (used - 1) ? mica_take(s, modes, at, 0) : MICA_NONE;
        mica_array goes = compare(n, own, mica_take(s, values, at, 0), mode, used);
        if (any_missing) {
            mica_array none = mica_logical_and(s, mica_isnan(s, own), mica_take(s, missing, at, 0));
            goes = mica_logical_or(s, goes, none);
        }
        at = mica_where(s, goes, mica_take(s, yes, at, 0), mica_take(s, no, at, 0));
    }
    return at;
}

typedef enum joining { SUM, AVERAGE, MIN, MAX, JOININGS } joining;

static double fill_of(joining how) {
    return how == MIN ? INFINITY : how == MAX ? -INFINITY : 0;
}

/* What the leaves say together: [N, columns]. */
static mica_array join(mc_onnx_node *n, const forest *f, mica_array leaves, joining how) {
    mica_scope *s = n->s;
    mica_array row = mica_take(s, table_of(n, f->row, MICA_I32, f->nodes), leaves, 0), y;
    mica_array w = mica_from_data(s, f->weights, MICA_F32, (int64_t[]){f->rows, f->columns}, 2);
    w = mica_take(s, w, row, 0); /* [N, trees, columns] */
    if (how == SUM || how == AVERAGE) {
        y = mica_sum(s, w, (int[]){1}, 1, false);
        if (how == SUM) return y;
        return mica_divide(s, y, mica_scalar(s, (double)f->trees, MICA_F32));
    }
    y = how == MIN ? mica_min(s, w, (int[]){1}, 1, false) : mica_max(s, w, (int[]){1}, 1, false);
    return mica_where(s, mica_isinf(s, y), mica_scalar(s, 0, MICA_F32), y);
}

static mica_status walk_and_join(mc_onnx_node *n, forest *f, joining how, mica_array *y) {
    mica_array x;
    MC_TRY(count_levels(f));
    MC_TRY(mc_onnx_rows(n, &x));
    for (int64_t i = 0; i < f->nodes; i++)
        if (f->mode[i] != LEAF && (f->feature[i] < 0 || f->feature[i] >= mica_array_dim(x, 1)))
            return mc_fail(MICA_ESHAPE, "its trees read feature %d of %lld", f->feature[i],
                           (long long)mica_array_dim(x, 1));
    *y = join(n, f, walk(n, f, x), how);
    return mica_scope_status(n->s);
}

static mica_status read_joining(const mc_onnx_node *n, joining *how) {
    static const char *const names[] = {"SUM", "AVERAGE", "MIN", "MAX"};
    mc_str text = mc_onnx_text(n, "aggregate_function", "SUM");
    for (int i = 0; i < JOININGS; i++) {
        if (!mc_str_is(text, names[i])) continue;
        *how = (joining)i;
        return MICA_OK;
    }
    return mc_onnx_refuse("this aggregate_function");
}

/* ---- lists ---- */

/* Integers of an attribute. errors  MICA_EFORMAT there are not `want`, or one is no number of 32
 * bits */
static mica_status ints_of(const mc_onnx_node *n, const char *name, int64_t want,
                           const int64_t **list) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, name);
    size_t count = a ? a->n_ints : 0;
    *list = a ? a->ints : NULL;
    if ((int64_t)count != want)
        return mc_fail(MICA_EFORMAT, "%s has %zu numbers, where %lld belong", name, count,
                       (long long)want);
    for (size_t i = 0; i < count; i++)
        if ((*list)[i] < 0 || (*list)[i] > INT32_MAX)
            return mc_fail(MICA_EFORMAT, "%s is out of range", name);
    return MICA_OK;
}

static int64_t count_ints(const mc_onnx_node *n, const char *name) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, name);
    return a ? (int64_t)a->n_ints : 0;
}

/* Numbers of a list of floats, or of a tensor, as f32: *list [*count], freed by the caller.
 *
 * as_tensor  the tensor's attribute, or NULL */
static mica_status reals_of(mc_onnx_node *n, const char *name, const char *as_tensor, float **list,
                            int64_t *count) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, name);
    const mc_onnx_attribute *t = as_tensor ? mc_onnx_attr(n, as_tensor) : NULL;
    mica_scope *s = n->import->constants;
    mica_array x = MICA_NONE;
    *list = NULL;
    *count = a ? (int64_t)a->n_floats : 0;
    if (t && t->t) {
        MC_TRY(mc_onnx_tensor_array(t->t, &n->import->outside, s, &x));
        x = mica_astype(s, x, MICA_F32);
        *count = mica_array_size(x);
    }
    *list = mc_array_alloc((size_t)*count + 1, sizeof **list);
    if (!*list) return mc_fail_nomem("trees");
    if (x.scope) return mica_read(x, *list, (size_t)*count * sizeof **list);
    if (*count > 0) memcpy(*list, a->floats, (size_t)*count * sizeof **list);
    return MICA_OK;
}

/* ---- the classifier and the regressor of opset 1 to 4 ---- */

/* Where nodes are, by tree and number. */
typedef struct places {
    mc_map map;
    struct place {
        int64_t tree, node;
    } * keys;
} places;

static mica_status list_places(const int64_t *trees, const int64_t *numbers, int64_t count,
                               places *p) {
    p->keys = mc_array_alloc((size_t)count + 1, sizeof *p->keys);
    if (!p->keys) return mc_fail_nomem("trees");
    for (int64_t i = 0; i < count; i++) {
        uint64_t there;
        p->keys[i] = (struct place){trees[i], numbers[i]};
        mc_str key = {(const char *)&p->keys[i], sizeof p->keys[i]};
        if (mc_map_find(&p->map, key, &there))
            return mc_fail(MICA_EFORMAT, "two nodes of a tree have one number");
        if (!mc_map_put(&p->map, key, (uint64_t)i)) return mc_fail_nomem("trees");
    }
    return MICA_OK;
}

static void close_places(places *p) {
    mc_map_deinit(&p->map);
    mc_free(p->keys);
}

/* The node of a number of a tree; -1: there is none. */
static int32_t find_place(const places *p, int64_t tree, int64_t node) {
    const struct place place = {tree, node};
    uint64_t i;
    bool found = mc_map_find(&p->map, (mc_str){(const char *)&place, sizeof place}, &i);
    return found ? (int32_t)i : -1;
}

static mica_status read_modes(const mc_onnx_node *n, forest *f) {
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
    const mc_onnx_attribute *a = mc_onnx_attr(n, "nodes_modes");
    if (!a || (int64_t)a->n_strings != f->nodes)
        return mc_fail(MICA_EFORMAT, "nodes_modes does not fit");
    for (int64_t i = 0; i < f->nodes; i++) {
        f->mode[i] = -1;
        for (int k = 0; k <= LEAF; k++)
            if (mc_str_is((mc_str){(const char *)a->strings[i].data, a->strings[i].len}, names[k]))
                f->mode[i] = k;
        if (f->mode[i] < 0) return mc_onnx_refuse("this mode of a node");
    }
    return MICA_OK;
}

/* Nodes, links and roots: the first node of each tree that no other leads to. */
static mica_status read_nodes(mc_onnx_node *n, forest *f, const places *p) {
    const int64_t *trees, *features, *yes, *no;
    const mc_onnx_attribute *missing = mc_onnx_attr(n, "nodes_missing_value_tracks_true");
    float *values = NULL;
    int64_t count;
    MC_TRY(ints_of(n, "nodes_treeids", f->nodes, &trees));
    MC_TRY(ints_of(n, "nodes_featureids", f->nodes, &features));
    MC_TRY(ints_of(n, "nodes_truenodeids", f->nodes, &yes));
    MC_TRY(ints_of(n, "nodes_falsenodeids", f->nodes, &no));
    MC_TRY(read_modes(n, f));
    mica_status status = reals_of(n, "nodes_values", "nodes_values_as_tensor", &values, &count);
    if (status == MICA_OK && count != f->nodes)
        status = mc_fail(MICA_EFORMAT, "nodes_values does not fit");
    bool *has_parent = mc_calloc((size_t)f->nodes, sizeof *has_parent);
    if (status == MICA_OK && !has_parent) status = mc_fail_nomem("trees");
    for (int64_t i = 0; status == MICA_OK && i < f->nodes; i++) {
        bool leaf = f->mode[i] == LEAF;
        f->feature[i] = leaf ? 0 : (int32_t)features[i];
        f->value[i] = values[i];
        f->yes[i] = leaf ? (int32_t)i : find_place(p, trees[i], yes[i]);
        f->no[i] = leaf ? (int32_t)i : find_place(p, trees[i], no[i]);
        if (missing && i < (int64_t)missing->n_ints) f->missing[i] = missing->ints[i] != 0;
        if (f->yes[i] < 0 || f->no[i] < 0)
            status = mc_fail(MICA_EFORMAT, "a tree leads to a node that is not there");
        if (status == MICA_OK && !leaf) has_parent[f->yes[i]] = has_parent[f->no[i]] = true;
    }
    for (int64_t i = 0; status == MICA_OK && i < f->nodes; i++)
        if (!has_parent[i]) f->roots[f->trees++] = (int32_t)i;
    mc_free(values);
    mc_free(has_parent);
    return status;
}

/* Weights of leaves. *only: the one column with some, or below 0. *positive: none is negative. */
static mica_status read_weights(mc_onnx_node *n, forest *f, const places *p, const char *prefix,
                                joining how, int64_t *only, bool *positive) {
    char name[64], tensor[64];
    const int64_t *trees, *nodes, *ids;
    float *weights = NULL;
    int64_t count;
    snprintf(name, sizeof name, "%s_weights", prefix);
    snprintf(tensor, sizeof tensor, "%s_weights_as_tensor", prefix);
    mica_status status = reals_of(n, name, tensor, &weights, &count);
    snprintf(name, sizeof name, "%s_treeids", prefix);
    if (status == MICA_OK) status = ints_of(n, name, count, &trees);
    snprintf(name, sizeof name, "%s_nodeids", prefix);
    if (status == MICA_OK) status = ints_of(n, name, count, &nodes);
    snprintf(name, sizeof name, "%s_ids", prefix);
    if (status == MICA_OK) status = ints_of(n, name, count, &ids);
    *only = -1;
    *positive = true;
    for (int64_t i = 0; status == MICA_OK && i < count; i++) {
        int32_t node = find_place(p, trees[i], nodes[i]);
        if (node < 0 || f->mode[node] != LEAF || ids[i] >= f->columns) {
            status =
                mc_fail(MICA_EFORMAT, "a weight of its trees belongs to no leaf, or no result");
            break;
        }
        float *w = &f->weights[f->row[node] * f->columns + ids[i]];
        *w = how == MIN   ? fminf(*w, weights[i])
             : how == MAX ? fmaxf(*w, weights[i])
                          : *w + weights[i];
        *positive = *positive && weights[i] >= 0;
        *only = i == 0 || *only == ids[i] ? ids[i] : -2;
    }
    mc_free(weights);
    return status;
}

/* Reads all of it and records the walk. */
static mica_status read_forest(mc_onnx_node *n, const char *prefix, int64_t columns, joining how,
                               mica_array *y, int64_t *only, bool *positive) {
    int64_t count = count_ints(n, "nodes_treeids"), leaves = 0;
    const int64_t *trees, *numbers;
    forest f = {.nodes = 0};
    places p = {.keys = NULL};
    MC_TRY(ints_of(n, "nodes_treeids", count, &trees));
    MC_TRY(ints_of(n, "nodes_nodeids", count, &numbers));
    const mc_onnx_attribute *modes = mc_onnx_attr(n, "nodes_modes");
    for (size_t i = 0; modes && i < modes->n_strings; i++)
        leaves += modes->strings[i].len == 4; /* LEAF */
    mica_status status = open_forest(n, count, leaves, columns, fill_of(how), &f);
    if (status == MICA_OK) status = list_places(trees, numbers, count, &p);
    if (status == MICA_OK) status = read_nodes(n, &f, &p);
    leaves = 0;
    for (int64_t i = 0; status == MICA_OK && i < count; i++)
        if (f.mode[i] == LEAF) f.row[i] = (int32_t)leaves++;
    if (status == MICA_OK) status = read_weights(n, &f, &p, prefix, how, only, positive);
    if (status == MICA_OK) status = walk_and_join(n, &f, how, y);
    close_places(&p);
    close_forest(&f);
    return status;
}

/* Adds what each result begins with. */
static mica_status add_base(mc_onnx_node *n, mica_array *y, int64_t columns) {
    float *base = NULL;
    int64_t count;
    mica_status status = reals_of(n, "base_values", "base_values_as_tensor", &base, &count);
    if (status == MICA_OK && count != 0 && count != columns && count != 1)
        status = mc_fail(MICA_EFORMAT, "base_values has %lld numbers", (long long)count);
    if (status == MICA_OK && count > 0)
        *y = mica_add(n->s, *y, mica_from_data(n->s, base, MICA_F32, &count, 1));
    mc_free(base);
    return status == MICA_OK ? mica_scope_status(n->s) : status;
}

mica_status mc_onnx_ml_tree_regressor(mc_onnx_node *n) {
    int64_t targets = mc_onnx_int(n, "n_targets", 1), only;
    bool positive;
    joining how = SUM;
    mica_array y;
    MC_TRY(read_joining(n, &how));
    MC_TRY(read_forest(n, "target", targets, how, &y, &only, &positive));
    MC_TRY(add_base(n, &y, targets));
    MC_TRY(mc_onnx_post(n, y, &y));
    return mc_onnx_give(n, 0, y);
}

mica_status mc_onnx_ml_tree_classifier(mc_onnx_node *n) {
    const int64_t *labels;
    size_t count;
    int64_t only;
    bool positive;
    mica_array y;
    MC_TRY(mc_onnx_labels(n, "classlabels_int64s", &labels, &count));
    MC_TRY(read_forest(n, "class", (int64_t)count, SUM, &y, &only, &positive));
    if (count == 2 && only >= 0) { /* a score for one class alone */
        y = mica_slice_axis(n->s, y, 1, only, only + 1);
        MC_TRY(add_base(n, &y, 1));
        return mc_onnx_give_binary(n, labels, y, positive);
    }
    MC_TRY(add_base(n, &y, (int64_t)count));
    MC_TRY(mc_onnx_give_labels(n, labels, count, mica_argmax(n->s, y, 1, false)));
    MC_TRY(mc_onnx_post(n, y, &y));
    return mc_onnx_give(n, 1, y);
}

/* ---- TreeEnsemble, of opset 5 ---- */

enum { MEMBER = 6 }; /* a mode: whether a value is one of several */

/* What the attributes say of inner nodes; leaves have numbers of their own. */
typedef struct ensemble {
    int64_t count, leaves, trees;
    float *splits, *members, *weights, *modes;
    int64_t n_members;
    const int64_t *features, *yes, *no, *yes_leaf, *no_leaf, *targets, *roots;
} ensemble;

static void close_ensemble(ensemble *e) {
    mc_free(e->splits);
    mc_free(e->members);
    mc_free(e->weights);
    mc_free(e->modes);
}

static mica_status read_ensemble(mc_onnx_node *n, ensemble *e) {
    int64_t modes, weights;
    *e = (ensemble){.count = count_ints(n, "nodes_featureids"),
                    .leaves = count_ints(n, "leaf_targetids"),
                    .trees = count_ints(n, "tree_roots")};
    int64_t splits;
    MC_TRY(reals_of(n, "", "nodes_splits", &e->splits, &splits));
    MC_TRY(reals_of(n, "", "membership_values", &e->members, &e->n_members));
    MC_TRY(reals_of(n, "", "leaf_weights", &e->weights, &weights));
    MC_TRY(reals_of(n, "", "nodes_modes", &e->modes, &modes));
    MC_TRY(ints_of(n, "nodes_featureids", e->count, &e->features));
    MC_TRY(ints_of(n, "nodes_truenodeids", e->count, &e->yes));
    MC_TRY(ints_of(n, "nodes_falsenodeids", e->count, &e->no));
    MC_TRY(ints_of(n, "nodes_trueleafs", e->count, &e->yes_leaf));
    MC_TRY(ints_of(n, "nodes_falseleafs", e->count, &e->no_leaf));
    MC_TRY(ints_of(n, "leaf_targetids", e->leaves, &e->targets));
    MC_TRY(ints_of(n, "tree_roots", e->trees, &e->roots));
    if (splits != e->count || modes != e->count || weights != e->leaves || e->trees > e->count)
        return mc_fail(MICA_EFORMAT, "the lists of its trees have different lengths");
    for (int64_t i = 0; i < e->trees; i++)
        if (e->roots[i] >= e->count) return mc_fail(MICA_EFORMAT, "a root is no node");
    return MICA_OK;
}

/* The numbers of a set, which a NaN ends: from *at on. */
static int64_t set_size(const ensemble *e, int64_t at) {
    int64_t size = 0;
    while (at + size < e->n_members && !isnan(e->members[at + size]))
        size++;
    return size;
}

/* Inner nodes are the first ones, then leaves, then a node for each further number of a set: one
 * that compares with the next where the last one was not equal. */
static mica_status fill_forest(const ensemble *e, forest *f) {
    int64_t at = 0, more = e->count + e->leaves, places_of[2];
    for (int64_t i = 0; i < e->count; i++) {
        int64_t size = 1, node = i;
        bool member = e->modes[i] == MEMBER;
        if (!(e->modes[i] >= 0 && e->modes[i] <= MEMBER) || e->modes[i] != floorf(e->modes[i]))
            return mc_fail(MICA_EFORMAT, "a mode of its trees is out of range");
        if (member) size = set_size(e, at);
        if (size < 1) return mc_fail(MICA_EFORMAT, "a set of its trees is empty");
        places_of[0] = e->yes_leaf[i] ? e->count + e->yes[i] : e->yes[i];
        places_of[1] = e->no_leaf[i] ? e->count + e->no[i] : e->no[i];
        for (int k = 0; k < 2; k++)
            if (places_of[k] >= e->count + ((k ? e->no_leaf : e->yes_leaf)[i] ? e->leaves : 0))
                return mc_fail(MICA_EFORMAT, "a tree leads to a node that is not there");
        for (int64_t k = 0; k < size; k++) {
            int64_t next = k + 1 < size ? more++ : places_of[1];
            f->feature[node] = (int32_t)e->features[i];
            f->mode[node] = member ? EQ : (int32_t)e->modes[i];
            f->value[node] = member ? e->members[at + k] : e->splits[i];
            f->yes[node] = (int32_t)places_of[0];
            f->no[node] = (int32_t)next;
            node = next;
        }
        if (member) at += size + 1;
    }
    return MICA_OK;
}

static mica_status read_targets(const ensemble *e, const mc_onnx_attribute *missing, forest *f) {
    for (int64_t i = 0; i < e->leaves; i++) {
        int64_t node = e->count + i;
        if (e->targets[i] >= f->columns) return mc_fail(MICA_EFORMAT, "a leaf has no such target");
        f->row[node] = (int32_t)i;
        f->weights[i * f->columns + e->targets[i]] = e->weights[i];
    }
    for (int64_t i = 0; i < e->trees; i++)
        f->roots[i] = (int32_t)e->roots[i];
    f->trees = e->trees;
    for (int64_t i = 0; missing && i < e->count && i < (int64_t)missing->n_ints; i++)
        f->missing[i] = missing->ints[i] != 0;
    return MICA_OK;
}

mica_status mc_onnx_ml_tree_ensemble(mc_onnx_node *n) {
    static const char *const posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    ensemble e;
    forest f = {.nodes = 0};
    int64_t joined = mc_onnx_int(n, "aggregate_function", 1), columns, extra = 0;
    int64_t post = mc_onnx_int(n, "post_transform", 0);
    mica_array y = MICA_NONE;
    columns = mc_onnx_int(n, "n_targets", 1);
    if (joined < 0 || joined >= JOININGS || post < 0 || post > 4)
        return mc_onnx_refuse("this aggregate_function or post_transform");
    static const joining order[] = {AVERAGE, SUM, MIN, MAX};
    joining how = order[joined];
    mica_status status = read_ensemble(n, &e);
    if (status == MICA_OK) extra = e.n_members;
    if (status == MICA_OK)
        status = open_forest(n, e.count + e.leaves + extra, e.leaves, columns, fill_of(how), &f);
    if (status == MICA_OK) status = fill_forest(&e, &f);
    if (status == MICA_OK)
        status = read_targets(&e, mc_onnx_attr(n, "nodes_missing_value_tracks_true"), &f);
    if (status == MICA_OK) status = walk_and_join(n, &f, how, &y);
    close_ensemble(&e);
    close_forest(&f);
    MC_TRY(status);
    MC_TRY(mc_onnx_post_by(n, mc_str_of(posts[post]), y, &y));
    return mc_onnx_give(n, 0, mica_astype(n->s, y, mica_array_dtype(n->in[0].x)));
}
