/* Experts whose matrices are tensors of their own in the files: one matrix with an axis for them.
 *
 * Files have a layer's tensors in the order of their names, so the experts' matrices of a kind lie
 * one distance apart, though not in the order of their numbers: 1, 10, 11, 2. Then, if they are in
 * one file, the matrix is a view of it, and picks are looked up in a table of places. Otherwise it
 * is a copy; also where a device would have to be given what lies between them. What is made of
 * published tensors (scales of codes that lie in the file) is a copy in the order of the codes. */
#include "model/load/load.h"

#include "base/alloc.h"
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 320

enum { WEIGHT, SCALES, BIASES, GAINS, PARTS };

typedef struct entry {
    const mc_weight_tensor *tensor;
    int64_t expert;
} entry;

typedef struct list {
    const mc_loader *loader;
    const char *module; /* with a '*' for the expert's number */
    int64_t n;
    mc_linear *each;       /* [n] */
    entry *entries[PARTS]; /* [n] sorted by address */
    int64_t steps[PARTS];  /* elements from one to the next */
} list;

static void put_name(const list *l, int64_t expert, const char *ending, char name[NAME_BYTES]) {
    const char *star = strchr(l->module, '*');
    snprintf(name, NAME_BYTES, "%.*s%lld%s%s", (int)(star - l->module), l->module,
             (long long)expert, star + 1, ending);
}

static mica_array *part_of(mc_linear *linear, int part) {
    mica_array *const parts[] = {&linear->weight, &linear->scales, &linear->biases, &linear->gains};
    return parts[part];
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const entry *)a)->tensor->data;
    uintptr_t y = (uintptr_t)((const entry *)b)->tensor->data;
    return (x > y) - (x < y);
}

static void find_entries(list *l, int part) {
    static const char *const endings[] = {".weight", ".scales", ".biases", ".gains"};
    char name[NAME_BYTES];
    for (int64_t i = 0; i < l->n; i++) {
        put_name(l, i, endings[part], name);
        const mc_weight_tensor *t = mc_weights_find(l->loader->weights, name);
        if (!t) { /* a weight that is called as its module */
            put_name(l, i, "", name);
            t = mc_weights_find(l->loader->weights, name);
        }
        l->entries[part][i] = (entry){t, i};
    }
    qsort(l->entries[part], (size_t)l->n, sizeof(entry), by_address);
}

/* Whether the device reads a mapped file where it is: then it does not matter how much of it a view
 * spans. */
static bool reads_files(const list *l) {
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(mica_scope_device(l->loader->scope), &info);
    return info.unified_memory;
}

/* Whether a part's tensors lie in one file, one distance apart, in the order of the weights. */
static bool lie_evenly(list *l, int part) {
    const entry *e = l->entries[part], *weights = l->entries[WEIGHT];
    uintptr_t size = mica_dtype_bytes(e->tensor->dtype), at = (uintptr_t)e->tensor->data;
    uintptr_t step = l->n > 1 ? (uintptr_t)e[1].tensor->data - at : e->tensor->bytes;
    for (int64_t i = 0; i < l->n; i++)
        if (!e[i].tensor->data || (uintptr_t)e[i].tensor->data != at + (uintptr_t)i * step ||
            e[i].tensor->file != e->tensor->file || e[i].tensor->dtype != e->tensor->dtype ||
            e[i].expert != weights[i].expert)
            return false;
    l->steps[part] = (int64_t)(step / size);
    return step % size == 0 && (step == e->tensor->bytes || reads_files(l));
}

/* A part of all experts as a view of the file. */
static mica_status view(const list *l, int part, mica_array *array) {
    mica_scope *s = l->loader->scope;
    const mc_weight_tensor *t = l->entries[part]->tensor;
    const int64_t shape[] = {l->n, t->shape[0], t->shape[1]};
    int64_t count = (l->n - 1) * l->steps[part] + shape[1] * shape[2];
    mc_layout layout;
    mica_array all = mc_leaf_memory(s, t->data, t->dtype, &count, 1, NULL, NULL);
    MC_TRY(mica_scope_status(s));
    MC_TRY(mc_layout_init(&layout, t->dtype, shape, 3));
    layout.strides[0] = l->steps[part];
    *array = mc_leaf(s, &layout, mc_storage_retain(mc_node_of(all)->storage), 0);
    return mica_scope_status(s);
}

/* The same as a copy: of experts in the order of the weights' places, if these are a view. */
static mica_status copy(list *l, int part, bool placed, mica_array *array) {
    mica_scope *s = l->loader->scope;
    mica_array *all = mc_array_alloc((size_t)l->n, sizeof *all);
    if (!all) return mc_fail_nomem(l->module);
    for (int64_t i = 0; i < l->n; i++)
        all[i] = *part_of(&l->each[placed ? l->entries[WEIGHT][i].expert : i], part);
    *array = mica_stack(s, all, (int)l->n, 0);
    mc_free(all);
    return mica_eval(s, *array);
}

/* Where each expert's matrix lies among them; MICA_NONE: in order. */
static mica_status make_places(const list *l, mica_array *places) {
    bool sorted = true;
    int32_t *numbers = mc_array_alloc((size_t)l->n, sizeof *numbers);
    if (!numbers) return mc_fail_nomem(l->module);
    for (int64_t i = 0; i < l->n; i++) {
        numbers[l->entries[WEIGHT][i].expert] = (int32_t)i;
        sorted = sorted && l->entries[WEIGHT][i].expert == i;
    }
    if (!sorted) *places = mica_from_data(l->loader->scope, numbers, MICA_I32, &l->n, 1);
    mc_free(numbers);
    return mica_scope_status(l->loader->scope);
}

/* Whether a part was loaded; biases are not of every kind. */
static bool has_part(const list *l, int part) {
    return mica_valid(*part_of(&l->each[0], part));
}

static mica_status join(list *l, mc_linear *linear) {
    bool even[PARTS] = {false};
    for (int part = 0; part < PARTS; part++) {
        if (!has_part(l, part)) continue;
        find_entries(l, part);
        even[part] = lie_evenly(l, part);
    }
    for (int part = 0; part < PARTS; part++)
        if (has_part(l, part))
            MC_TRY(even[WEIGHT] && even[part] ? view(l, part, part_of(linear, part))
                                              : copy(l, part, even[WEIGHT], part_of(linear, part)));
    for (int64_t i = 0; i < l->n; i++)
        for (int part = 0; part < PARTS; part++)
            if (has_part(l, part)) (void)mica_array_release(*part_of(&l->each[i], part));
    linear->quantised = l->each[0].quantised;
    linear->quant = l->each[0].quant;
    return even[WEIGHT] ? make_places(l, &linear->places) : MICA_OK;
}

/* Whether a matrix has the parts and the layout of another. */
static bool is_alike(mc_linear *a, mc_linear *b) {
    for (int part = 0; part < PARTS; part++)
        if (mica_valid(*part_of(a, part)) != mica_valid(*part_of(b, part))) return false;
    return memcmp(&a->quant, &b->quant, sizeof a->quant) == 0;
}

/* Loads each expert's matrix as one of its own. *whole: none is missing. */
static mica_status load_each(mc_loader *loader, list *l, const mc_linear *linear, bool *whole) {
    char name[NAME_BYTES];
    *whole = true;
    for (int64_t i = 0; i < l->n; i++) {
        mc_linear *one = &l->each[i];
        *one = (mc_linear){.out = linear->out, .in = linear->in};
        put_name(l, i, "", name);
        MC_TRY(mc_linear_load(loader, name, false, one));
        bool biases = one->quantised && one->quant.mode == MICA_QUANT_AFFINE;
        *whole = *whole && mica_valid(one->weight) && (!biases || mica_valid(one->biases));
        if (*whole && !is_alike(one, &l->each[0]))
            return mc_fail(MICA_EUNSUPPORTED, "%s is quantised unlike the first expert", name);
    }
    return MICA_OK;
}

mica_status mc_linear_load_list(mc_loader *loader, const char *module, mc_linear *linear) {
    bool whole = false;
    size_t n = (size_t)linear->experts;
    list l = {.loader = loader, .module = module, .n = linear->experts};
    l.each = mc_calloc(n, sizeof *l.each);
    entry *entries = mc_calloc(PARTS * n, sizeof *entries);
    for (int part = 0; entries && part < PARTS; part++)
        l.entries[part] = entries + (size_t)part * n;
    mica_status status = l.each && entries ? load_each(loader, &l, linear, &whole)
                                           : mc_fail_nomem("the experts of a model");
    if (status == MICA_OK && whole) status = join(&l, linear);
    mc_free(l.each);
    mc_free(entries);
    return status;
}
