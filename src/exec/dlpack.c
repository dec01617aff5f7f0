/* DLPack's tensors. The structs are those of its C API, by the page that mica/dlpack.h names. */
#include <mica/dlpack.h>

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "graph/graph.h"

enum { HOST = 1, READ_ONLY = 1, MAJOR = 1 };

typedef struct tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major order */
    uint64_t byte_offset;
} tensor;

typedef struct unversioned {
    tensor tensor;
    void *context;
    void (*deleter)(struct unversioned *self);
} unversioned;

typedef struct versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct versioned *self);
    uint64_t flags;
    tensor tensor;
} versioned;

/* Kinds of elements: signed, unsigned, float, bfloat, complex, bool. */
static const struct {
    uint8_t code, bits;
} kinds[MICA_DTYPE_COUNT] = {
    [MICA_BOOL] = {6, 8}, [MICA_U8] = {1, 8},   [MICA_U16] = {1, 16},  [MICA_U32] = {1, 32},
    [MICA_U64] = {1, 64}, [MICA_I8] = {0, 8},   [MICA_I16] = {0, 16},  [MICA_I32] = {0, 32},
    [MICA_I64] = {0, 64}, [MICA_F16] = {2, 16}, [MICA_BF16] = {4, 16}, [MICA_F32] = {2, 32},
    [MICA_F64] = {2, 64}, [MICA_C64] = {5, 64},
};

/* ---- out ---- */

/* A tensor with what it keeps: a scope of its own, whose one array shares the memory. */
typedef struct lent {
    union {
        versioned versioned;
        unversioned unversioned;
    } managed;
    mica_scope *scope;
    int64_t shape[MICA_MAX_NDIM], strides[MICA_MAX_NDIM];
} lent;

static void end_lent(lent *l) {
    mica_scope_close(&l->scope);
    mc_free(l);
}

static void delete_versioned(versioned *self) {
    if (self) end_lent(self->context);
}

static void delete_unversioned(unversioned *self) {
    if (self) end_lent(self->context);
}

static tensor describe(lent *l, mica_array x, const void *data) {
    const mc_layout *layout = mc_layout_of(x);
    tensor t = {.data = (void *)(uintptr_t)data, .ndim = layout->ndim};
    t.device.type = HOST;
    t.dtype.code = kinds[layout->dtype].code;
    t.dtype.bits = kinds[layout->dtype].bits;
    t.dtype.lanes = 1;
    for (int i = 0; i < layout->ndim; i++) {
        l->shape[i] = layout->shape[i];
        l->strides[i] = layout->strides[i];
    }
    t.shape = l->shape;
    t.strides = l->strides;
    return t;
}

static mica_status lend(lent *l, mica_array x, bool with_version, bool writable) {
    MC_TRY(mica_scope_open(mica_scope_device(x.scope), &l->scope));
    mc_scope_expect_few(l->scope);
    mica_array own = mica_detach(l->scope, x);
    MC_TRY(mica_scope_status(l->scope));
    const void *data = mc_data(own);
    if (!data && mica_array_size(own) > 0)
        return mc_fail(
            MICA_EUNSUPPORTED,
            "array_to_dlpack: the host cannot see the memory of device %s; use mica_read",
            mica_scope_device(x.scope)->backend->name);
    if (with_version) {
        versioned *v = &l->managed.versioned;
        *v = (versioned){.context = l, .deleter = delete_versioned};
        v->version.major = MAJOR;
        v->flags = writable ? 0 : READ_ONLY;
        v->tensor = describe(l, own, data);
    } else {
        unversioned *u = &l->managed.unversioned;
        *u = (unversioned){.context = l, .deleter = delete_unversioned};
        u->tensor = describe(l, own, data);
    }
    return MICA_OK;
}

mica_status mica_array_to_dlpack(mica_array x, bool with_version, bool writable, void **out) {
    if (!out) return mc_fail(MICA_EINVAL, "array_to_dlpack: tensor is NULL");
    *out = NULL;
    MC_TRY(mc_check_valid(x, "array_to_dlpack"));
    MC_TRY(mica_eval(x.scope, x));
    lent *l = mc_calloc(1, sizeof *l);
    if (!l) return mc_fail(MICA_ENOMEM, "out of memory: a tensor of DLPack");
    mica_status status = lend(l, x, with_version, writable);
    if (status == MICA_OK)
        *out = &l->managed;
    else
        end_lent(l);
    return status;
}

/* ---- in ---- */

static void return_versioned(void *user) {
    versioned *v = user;
    if (v->deleter) v->deleter(v);
}

static void return_unversioned(void *user) {
    unversioned *u = user;
    if (u->deleter) u->deleter(u);
}

static mica_status find_dtype(const tensor *t, mica_dtype *dtype) {
    for (int i = 0; i < MICA_DTYPE_COUNT; i++)
        if (t->dtype.lanes == 1 && kinds[i].code == t->dtype.code &&
            kinds[i].bits == t->dtype.bits) {
            *dtype = (mica_dtype)i;
            return MICA_OK;
        }
    return mc_fail(MICA_EDTYPE,
                   "from_dlpack: mica has no dtype for %d lanes of DLPack's code %d of %d bits",
                   t->dtype.lanes, t->dtype.code, t->dtype.bits);
}

static bool is_row_major(const tensor *t) {
    int64_t step = 1;
    for (int i = t->ndim - 1; t->strides && i >= 0; i--) {
        if (t->shape[i] <= 0) return true; /* of no elements; a negative length is refused later */
        if (t->shape[i] != 1 && t->strides[i] != step) return false;
        if (t->shape[i] > INT64_MAX / step) return false;
        step *= t->shape[i];
    }
    return true;
}

static mica_status check_tensor(const tensor *t, mica_dtype *dtype) {
    if (t->device.type != HOST)
        return mc_fail(MICA_EUNSUPPORTED,
                       "from_dlpack: the tensor is in the memory of a device (DLPack's type %d): "
                       "copy it to the host first",
                       (int)t->device.type);
    if (t->ndim < 0 || t->ndim > MICA_MAX_NDIM || (t->ndim > 0 && !t->shape))
        return mc_fail(MICA_EINVAL,
                       "from_dlpack: the tensor has %d axes, of which mica has up to %d",
                       (int)t->ndim, MICA_MAX_NDIM);
    MC_TRY(find_dtype(t, dtype));
    if (!is_row_major(t))
        return mc_fail(
            MICA_EINVAL,
            "from_dlpack: the tensor is not in row-major order: make it contiguous first");
    return MICA_OK;
}

static mica_array take_tensor(mica_scope *s, const tensor *t, mica_release release, void *user) {
    mica_dtype dtype = MICA_F32;
    mica_status status = check_tensor(t, &dtype);
    if (status != MICA_OK) {
        mc_scope_set_status(s, status);
        release(user);
        return mc_invalid(s);
    }
    const char *data = t->data ? (const char *)t->data + t->byte_offset : NULL;
    size_t part = mica_dtype_bytes(dtype) / (dtype == MICA_C64 ? 2 : 1);
    if ((uintptr_t)data % part == 0)
        return mica_from_host(s, data, dtype, t->shape, t->ndim, release, user);
    mica_array copy = mica_from_data(s, data, dtype, t->shape, t->ndim);
    release(user);
    return copy;
}

mica_array mica_from_dlpack(mica_scope *s, void *given, bool with_version) {
    if (!s || !given)
        return mc_scope_fail(s, MICA_EINVAL, "from_dlpack: %s is NULL", s ? "tensor" : "the scope");
    if (!with_version) {
        unversioned *u = given;
        return take_tensor(s, &u->tensor, return_unversioned, u);
    }
    versioned *v = given;
    if (v->version.major == MAJOR) return take_tensor(s, &v->tensor, return_versioned, v);
    mica_array failed = mc_scope_fail(s, MICA_EUNSUPPORTED,
                                      "from_dlpack: the tensor is of version %u.%u, mica knows 1",
                                      (unsigned)v->version.major, (unsigned)v->version.minor);
    return_versioned(v);
    return failed;
}
