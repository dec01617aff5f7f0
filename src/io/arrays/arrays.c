/* Files of arrays: safetensors, npz and npy to arrays of a scope, and safetensors back. */
#include <mica/io.h>

#include <mica/ops.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "io/arrays/arrays.h"
#include "io/npz.h"
#include "io/safetensors.h"
#include "io/safetensors_write.h"

#include <stdlib.h>
#include <string.h>

/* One of the two kinds. */
struct mica_array_file {
    mc_weights *weights;
    mc_npz *npz;
};

/* ---- reading ---- */

mica_status mica_array_file_open(const char *path, mica_array_file **file) {
    if (!path || !file) return mc_fail(MICA_EINVAL, "mica_array_file_open: NULL");
    *file = mc_calloc(1, sizeof **file);
    if (!*file) return mc_fail_nomem(path);
    mica_status status = mc_npz_is(path) ? mc_npz_open(path, &(*file)->npz)
                                         : mc_weights_open(path, NULL, &(*file)->weights);
    if (status != MICA_OK) mica_array_file_close(file);
    return status;
}

void mica_array_file_close(mica_array_file **file) {
    if (!file || !*file) return;
    mc_weights_close(&(*file)->weights);
    mc_npz_close(&(*file)->npz);
    mc_free(*file);
    *file = NULL;
}

size_t mica_array_file_count(const mica_array_file *file) {
    if (!file) return 0;
    return file->npz ? mc_npz_count(file->npz) : mc_weights_count(file->weights);
}

const char *mica_array_file_name(const mica_array_file *file, size_t i) {
    if (i >= mica_array_file_count(file)) return NULL;
    return file->npz ? mc_npz_at(file->npz, i)->name : mc_weights_at(file->weights, i)->name;
}

bool mica_array_file_find(const mica_array_file *file, const char *name, size_t *i) {
    size_t found;
    if (file && file->npz && name) {
        if (!mc_npz_find(file->npz, name, &found)) return false;
        if (i) *i = found;
        return true;
    }
    const mc_weight_tensor *t = file && name ? mc_weights_find(file->weights, name) : NULL;
    if (t && i) *i = (size_t)(t - mc_weights_at(file->weights, 0));
    return t != NULL;
}

bool mica_array_file_shape(const mica_array_file *file, size_t i, int64_t shape[MICA_MAX_NDIM],
                           int *ndim) {
    if (i >= mica_array_file_count(file) || !shape || !ndim) return false;
    const int64_t *from =
        file->npz ? mc_npz_at(file->npz, i)->npy.shape : mc_weights_at(file->weights, i)->shape;
    *ndim = file->npz ? mc_npz_at(file->npz, i)->npy.ndim : mc_weights_at(file->weights, i)->ndim;
    memcpy(shape, from, (size_t)*ndim * sizeof *shape);
    return true;
}

bool mica_array_file_metadata(const mica_array_file *file, size_t i, mica_metadata *entry) {
    return file && file->weights && entry &&
           mc_weights_metadata_at(file->weights, i, &entry->key, &entry->value);
}

/* An array whose file has the order of its transposed one is read as that. */
static mica_array load_npz(const mc_npz *npz, size_t i, mica_scope *s) {
    const mc_npz_array *a = mc_npz_at(npz, i);
    int64_t shape[MICA_MAX_NDIM];
    int ndim = a->npy.ndim;
    void *data;
    if (!a->npy.has_dtype)
        return mc_scope_fail(s, MICA_EDTYPE, "array '%s': mica has no dtype for numpy's kind '%s'",
                             a->name, a->npy.descr);
    for (int k = 0; k < ndim; k++)
        shape[k] = a->npy.shape[a->npy.fortran ? ndim - 1 - k : k];
    mica_status status = mc_npz_read(npz, i, &data);
    if (status != MICA_OK) return mc_scope_fail(s, status, "%s", mica_last_error());
    mica_array x = mica_from_data(s, data, a->npy.dtype, shape, ndim);
    mc_free(data);
    return a->npy.fortran ? mica_transpose(s, x, NULL) : x;
}

mica_array mica_array_file_load(const mica_array_file *file, size_t i, mica_scope *s) {
    if (!s || i >= mica_array_file_count(file))
        return mc_scope_fail(s, MICA_EINVAL, "array_file_load: there is no array %zu", i);
    if (file->npz) return load_npz(file->npz, i, s);
    const mc_weight_tensor *t = mc_weights_at(file->weights, i);
    if (!t->has_dtype)
        return mc_scope_fail(s, MICA_EDTYPE, "%s: tensor '%s': mica has no dtype %s", t->file,
                             t->name, t->kind);
    return mica_from_data(s, t->data, t->dtype, t->shape, t->ndim);
}

/* The bytes of all names with their NULs. */
static size_t name_bytes(const mica_array_file *file) {
    size_t bytes = 0;
    for (size_t i = 0; i < mica_array_file_count(file); i++)
        bytes += strlen(mica_array_file_name(file, i)) + 1;
    return bytes;
}

static mica_status load_all(const mica_array_file *file, mica_scope *s, mica_named_array **arrays,
                            size_t *n) {
    size_t count = mica_array_file_count(file);
    mica_named_array *list = mc_alloc(count * sizeof *list + name_bytes(file));
    if (!list) return mc_fail_nomem("the arrays of a file");
    char *name = (char *)(list + count);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(mica_array_file_name(file, i)) + 1;
        memcpy(name, mica_array_file_name(file, i), len);
        list[i] = (mica_named_array){name, mica_array_file_load(file, i, s)};
        name += len;
        if (mica_valid(list[i].array)) continue;
        mc_free(list);
        mica_status status = mica_scope_status(s);
        mica_scope_clear_error(s);
        return status;
    }
    *arrays = list;
    *n = count;
    return MICA_OK;
}

/* Loads all arrays of a file of one of the two kinds. */
static mica_status load_file(const char *path, mica_scope *s, mica_named_array **arrays, size_t *n,
                             bool npz) {
    mica_array_file *file;
    *arrays = NULL;
    *n = 0;
    MC_TRY(mica_scope_status(s));
    MC_TRY(mica_array_file_open(path, &file));
    bool fits = (file->npz != NULL) == npz;
    mica_status status = fits ? load_all(file, s, arrays, n)
                              : mc_fail(MICA_EFORMAT, "%s: is %s", path,
                                        npz ? "neither an npz nor an npy file"
                                            : "a file of numpy's, want safetensors");
    mica_array_file_close(&file);
    return status;
}

mica_status mica_load_safetensors(const char *path, mica_scope *s, mica_named_array **arrays,
                                  size_t *n) {
    if (!s || !arrays || !n) return mc_fail(MICA_EINVAL, "mica_load_safetensors: NULL");
    return load_file(path, s, arrays, n, false);
}

mica_status mica_load_npz(const char *path, mica_scope *s, mica_named_array **arrays, size_t *n) {
    if (!s || !arrays || !n) return mc_fail(MICA_EINVAL, "mica_load_npz: NULL");
    return load_file(path, s, arrays, n, true);
}

/* ---- writing ---- */

/* An array that is to be saved, and its place among the others. */
typedef struct saved {
    mica_array array;
    mc_weight_tensor tensor;
    size_t place;
} saved;

static int by_element_size(const void *a, const void *b) {
    const saved *x = a, *y = b;
    size_t p = mica_dtype_bytes(x->tensor.dtype), q = mica_dtype_bytes(y->tensor.dtype);
    if (p != q) return p > q ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static mica_status describe(const mica_named_array *named, size_t place, saved *out) {
    mica_array x = named->array;
    if (!x.scope)
        return mc_fail(MICA_EINVAL, "mica_save_safetensors: array '%s' is MICA_NONE",
                       named->name ? named->name : "");
    MC_TRY(mica_eval(x.scope, x));
    mica_dtype dtype = mica_array_dtype(x);
    *out = (saved){.array = x, .place = place};
    out->tensor = (mc_weight_tensor){.name = named->name,
                                     .kind = mc_weight_kind(dtype),
                                     .has_dtype = true,
                                     .dtype = dtype,
                                     .ndim = mica_array_ndim(x)};
    for (int i = 0; i < out->tensor.ndim; i++)
        out->tensor.shape[i] = mica_array_shape(x)[i];
    out->tensor.bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(dtype);
    return MICA_OK;
}

mica_status mc_array_bytes(mica_array x,
                           mica_status (*use)(void *context, const void *data, size_t bytes),
                           void *context) {
    const void *data;
    size_t bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    mica_status status = mica_array_host(x, &data);
    if (status == MICA_OK) return use(context, data, bytes);
    if (status != MICA_EUNSUPPORTED && status != MICA_EINVAL) return status;
    void *copy = mc_alloc(bytes);
    if (!copy) return mc_fail_nomem("an array");
    status = mica_read(x, copy, bytes);
    if (status == MICA_OK) status = use(context, copy, bytes);
    mc_free(copy);
    return status;
}

static mica_status add_bytes(void *writer, const void *data, size_t bytes) {
    return mc_weights_writer_add(writer, data, bytes);
}

static mica_status write_arrays(const char *path, const saved *list, size_t n,
                                const mica_metadata *metadata, size_t n_metadata) {
    mc_weights_writer *w;
    mc_weight_tensor *tensors = mc_array_alloc(n ? n : 1, sizeof *tensors);
    if (!tensors) return mc_fail_nomem(path);
    for (size_t i = 0; i < n; i++)
        tensors[i] = list[i].tensor;
    mica_status status = mc_weights_writer_open(path, tensors, n, metadata, n_metadata, &w);
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        status = mc_array_bytes(list[i].array, add_bytes, w);
    mc_free(tensors);
    return mc_weights_writer_close(&w, status);
}

mica_status mica_save_safetensors(const char *path, const mica_named_array *arrays, size_t n,
                                  const mica_metadata *metadata, size_t n_metadata) {
    if (!path || (n && !arrays) || (n_metadata && !metadata))
        return mc_fail(MICA_EINVAL, "mica_save_safetensors: NULL");
    saved *list = mc_array_alloc(n ? n : 1, sizeof *list);
    mica_status status = list ? MICA_OK : mc_fail_nomem(path);
    for (size_t i = 0; status == MICA_OK && i < n; i++)
        status = describe(&arrays[i], i, &list[i]);
    if (status == MICA_OK) qsort(list, n, sizeof *list, by_element_size);
    if (status == MICA_OK) status = write_arrays(path, list, n, metadata, n_metadata);
    mc_free(list);
    return status;
}
