#include "onnx/model.h"

#include "base/alloc.h"
#include "base/integer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- nesting ---- */

/* The messages on the way from a model to a graph within it. */
typedef enum message { MODEL, GRAPH, FUNCTION, NODE, ATTRIBUTE, NO_MESSAGE } message;

enum { MAX_MESSAGES = 3 * MC_ONNX_DEPTH + 1, BYTES = 2, MAX_VARINT = 10 };

static message message_of(message outer, uint64_t field) {
    static const struct {
        message outer;
        uint64_t field;
        message inner;
    } rows[] = {
        {MODEL, 7, GRAPH},    {MODEL, 25, FUNCTION},     {GRAPH, 1, NODE},      {FUNCTION, 7, NODE},
        {NODE, 5, ATTRIBUTE}, {FUNCTION, 11, ATTRIBUTE}, {ATTRIBUTE, 6, GRAPH},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].outer == outer && rows[i].field == field) return rows[i].inner;
    return NO_MESSAGE;
}

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int i = 0; i < MAX_VARINT && *at < end; i++) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) return true;
    }
    return false;
}

/* The bytes of a field of a wire type; length is that of BYTES. false: there is no such type. */
static bool field_bytes(uint64_t type, const uint8_t **at, const uint8_t *end, uint64_t *bytes) {
    uint64_t ignored;
    *bytes = 0;
    if (type == 0) return read_varint(at, end, &ignored);
    if (type == BYTES) return read_varint(at, end, bytes);
    *bytes = type == 1 ? 8 : 4;
    return type == 1 || type == 5;
}

/* A walk over the messages that may hold graphs, with a stack of its own. */
static mica_status check_nesting(const uint8_t *at, size_t size) {
    struct {
        message kind;
        const uint8_t *end;
    } open[MAX_MESSAGES];
    int depth = 1;
    open[0].kind = MODEL;
    open[0].end = at + size;
    while (depth > 0) {
        uint64_t tag, bytes;
        const uint8_t *end = open[depth - 1].end;
        if (at == end) {
            depth--;
            continue;
        }
        if (!read_varint(&at, end, &tag) || !field_bytes(tag & 7, &at, end, &bytes) ||
            bytes > (uint64_t)(end - at))
            return mc_fail(MICA_EFORMAT, "no ONNX file, or it was altered or cut short");
        message inner = message_of(open[depth - 1].kind, tag >> 3);
        if ((tag & 7) != BYTES || inner == NO_MESSAGE) {
            at += bytes;
            continue;
        }
        if (depth == MAX_MESSAGES)
            return mc_fail(MICA_EUNSUPPORTED, "graphs nest more than %d deep", MC_ONNX_DEPTH);
        open[depth].kind = inner;
        open[depth++].end = at + bytes;
    }
    return MICA_OK;
}

/* ---- decoding ---- */

/* Memory for protobuf-c: a message of two bytes becomes a structure of some 100, a number of a list
 * 8 bytes. Large files have few of the former. */
typedef struct budget {
    uint64_t left;
    bool failed; /* there was no memory */
} budget;

enum { MIN_BUDGET = 1 << 20, MAX_STRUCTURES = 1 << 28, EXPANSION = 120, NUMBER = 8 };

static void *take_memory(void *user, size_t bytes) {
    budget *b = user;
    if (bytes > b->left) return NULL;
    b->left -= bytes;
    void *ptr = mc_alloc(bytes);
    b->failed = b->failed || !ptr;
    return ptr;
}

static void give(void *user, void *ptr) {
    (void)user;
    mc_free(ptr);
}

mica_status mc_onnx_decode(const void *data, size_t bytes, mc_onnx_model **model) {
    uint64_t structures = (uint64_t)mc_min(MAX_STRUCTURES, EXPANSION * (int64_t)bytes);
    budget b = {.left = MIN_BUDGET + structures + NUMBER * (uint64_t)bytes};
    ProtobufCAllocator allocator = {take_memory, give, &b};
    *model = NULL;
    if (bytes == 0) return mc_fail(MICA_EFORMAT, "no ONNX file: it is empty");
    MC_TRY(check_nesting(data, bytes));
    *model = mc__onnx__model__unpack(&allocator, bytes, data);
    if (!*model && b.failed) return mc_fail_nomem("an ONNX file");
    if (!*model) return mc_fail(MICA_EFORMAT, "no ONNX file, or it was altered");
    if ((*model)->graph && (*model)->n_opset_import > 0) return MICA_OK;
    mc_onnx_close(model);
    return mc_fail(MICA_EFORMAT, "no ONNX file: it has no graph, or no operator set");
}

void mc_onnx_close(mc_onnx_model **model) {
    ProtobufCAllocator allocator = {take_memory, give, NULL};
    if (*model) mc__onnx__model__free_unpacked(*model, &allocator);
    *model = NULL;
}

/* ---- tensors ---- */

mica_status mc_onnx_dtype(int64_t number, mica_dtype *dtype) {
    static const struct {
        int number;
        mica_dtype dtype;
    } rows[] = {
        {1, MICA_F32},  {2, MICA_U8},   {3, MICA_I8},   {4, MICA_U16},  {5, MICA_I16},
        {6, MICA_I32},  {7, MICA_I64},  {9, MICA_BOOL}, {10, MICA_F16}, {MC_ONNX_DOUBLE, MICA_F32},
        {12, MICA_U32}, {13, MICA_U64}, {14, MICA_C64}, {16, MICA_BF16}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].number != number) continue;
        *dtype = rows[i].dtype;
        return MICA_OK;
    }
    const mc_onnx_small *small = mc_onnx_small_of(number);
    return mc_fail(MICA_EUNSUPPORTED, "mica has no dtype for ONNX's %s (%lld)",
                   small         ? mc_onnx_small_name(small)
                   : number == 8 ? "STRING"
                                 : "kind",
                   (long long)number);
}

mica_status mc_onnx_any_dtype(int64_t number, mica_dtype *dtype, const mc_onnx_small **small) {
    *small = mc_onnx_small_of(number);
    if (!*small) return mc_onnx_dtype(number, dtype);
    *dtype = mc_onnx_small_dtype(*small);
    return MICA_OK;
}

static void close_file(mc_onnx_outside *outside) {
    mc_filemap_close(&outside->map);
    mc_free(outside->name);
    outside->name = NULL;
}

void mc_onnx_outside_close(mc_onnx_outside *outside) {
    close_file(outside);
    mc_buffer_deinit(&outside->seen);
}

/* Whether a path is one within a folder, on whatever system: relative, and without "..". */
static bool is_inside(const char *path) {
    static const char slashes[] = "/\\";
    if (!*path || strchr(slashes, *path)) return false;
    for (const char *part = path; part; part = strpbrk(part, slashes)) {
        part += strspn(part, slashes);
        if (strcspn(part, slashes) == 2 && strncmp(part, "..", 2) == 0) return false;
    }
    return true;
}

/* Counts the bytes of a file, once for all names that it has. */
static mica_status see_file(mc_onnx_outside *outside, const char *path) {
    mc_path_info info;
    if (!mc_path_stat(path, &info)) return MICA_OK; /* its tensors are charged whole */
    for (size_t at = 0; at < outside->seen.len; at += sizeof info.id)
        if (memcmp(outside->seen.data + at, info.id, sizeof info.id) == 0) return MICA_OK;
    if (!mc_buffer_add(&outside->seen, info.id, sizeof info.id))
        return mc_fail_nomem("a tensor's file");
    outside->unread += outside->map.size;
    *outside->more_left += outside->more_by_byte * outside->map.size;
    return MICA_OK;
}

static mica_status open_outside(mc_onnx_outside *outside, const char *name) {
    if (!outside->folder || !is_inside(name))
        return mc_fail(MICA_EINVAL,
                       "its data is in the file '%s', which is not in the model's "
                       "folder",
                       name);
    if (outside->name && strcmp(outside->name, name) == 0) return MICA_OK;
    close_file(outside);
    char *path = mc_path_join(outside->folder, name);
    outside->name = mc_strdup(name);
    mica_status status = path && outside->name
                             ? mc_filemap_open(path, MC_FILE_WEIGHTS, &outside->map)
                             : mc_fail_nomem("a tensor's file");
    if (status == MICA_OK) status = see_file(outside, path);
    mc_free(path);
    if (status != MICA_OK) close_file(outside);
    return status;
}

/* Takes the bytes of a tensor from those of the files, or from what tensors may share. */
static mica_status take_bytes(mc_onnx_outside *outside, uint64_t bytes) {
    uint64_t own = bytes < outside->unread ? bytes : outside->unread;
    if (bytes - own > *outside->more_left)
        return mc_fail(MICA_EUNSUPPORTED,
                       "its constants take too much memory: tensors share bytes of '%s'",
                       outside->name);
    outside->unread -= own;
    *outside->more_left -= bytes - own;
    return MICA_OK;
}

/* A number of an entry of external data; false: it is none. */
static bool read_number(const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *value = number;
    return *text >= '0' && *text <= '9' && !*end && errno == 0;
}

static mica_status find_outside(const mc_onnx_tensor *t, mc_onnx_outside *outside,
                                const uint8_t **data, size_t *bytes) {
    const char *location = "";
    uint64_t offset = 0, length = UINT64_MAX;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        bool ok = key && value;
        if (ok && strcmp(key, "location") == 0) location = value;
        if (ok && strcmp(key, "offset") == 0) ok = read_number(value, &offset);
        if (ok && strcmp(key, "length") == 0) ok = read_number(value, &length);
        if (!ok) return mc_fail(MICA_EFORMAT, "where its data is cannot be read");
    }
    MC_TRY(open_outside(outside, location));
    if (offset > outside->map.size)
        return mc_fail(MICA_EFORMAT, "its data begins behind the end of '%s'", location);
    *data = outside->map.data;
    if (offset > 0) *data += offset; /* an empty file has no data */
    *bytes = outside->map.size - (size_t)offset;
    if (length != UINT64_MAX && length > *bytes)
        return mc_fail(MICA_EFORMAT, "its data ends behind the end of '%s'", location);
    if (length != UINT64_MAX) *bytes = (size_t)length;
    return MICA_OK;
}

/* Where a tensor's values are lists of numbers: elements of the dtype, made of those. */
static mica_status pack(const mc_onnx_tensor *t, mica_dtype dtype, void *out, size_t n) {
    size_t bytes = mica_dtype_bytes(dtype), have = 0;
    const char *list = "float_data";
    if (dtype == MICA_F32 || dtype == MICA_C64) {
        have = t->n_float_data * sizeof(float) / bytes;
        if (have == n && n > 0) memcpy(out, t->float_data, n * bytes);
    } else if (dtype == MICA_I64) {
        list = "int64_data";
        have = t->n_int64_data;
        if (have == n && n > 0) memcpy(out, t->int64_data, n * bytes);
    } else if (dtype == MICA_U32 || dtype == MICA_U64) {
        list = "uint64_data";
        have = t->n_uint64_data;
        for (size_t i = 0; have == n && i < n; i++)
            memcpy((char *)out + i * bytes, &t->uint64_data[i], bytes); /* little-endian */
    } else {
        list = "int32_data";
        have = t->n_int32_data;
        for (size_t i = 0; have == n && i < n; i++)
            memcpy((char *)out + i * bytes, &t->int32_data[i], bytes);
    }
    if (have == n) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "its shape has %zu elements, its %s %zu", n, list, have);
}

static mica_status shape_of(const mc_onnx_tensor *t, int64_t *n) {
    if (t->n_dims > MICA_MAX_NDIM)
        return mc_fail(MICA_EUNSUPPORTED, "it has %zu axes; mica has %d", t->n_dims, MICA_MAX_NDIM);
    *n = 1;
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0 || __builtin_mul_overflow(*n, t->dims[i], n) || *n > INT64_MAX / 16)
            return mc_fail(MICA_EFORMAT, "its shape is out of range");
    return MICA_OK;
}

/* The elements of a tensor whose data is as in memory. */
static mica_status from_bytes(const mc_onnx_tensor *t, const uint8_t *data, size_t bytes,
                              mica_dtype dtype, size_t want, mica_scope *s, mica_array *x) {
    uint8_t *bools = NULL;
    if (bytes != want)
        return mc_fail(MICA_EFORMAT, "its shape takes %zu bytes, its data has %zu", want, bytes);
    if (!s) return MICA_OK;
    if (dtype == MICA_BOOL) {
        bools = mc_alloc(bytes);
        if (!bools) return mc_fail_nomem("a tensor");
        for (size_t i = 0; i < bytes; i++)
            bools[i] = data[i] != 0;
        data = bools;
    }
    *x = mica_from_data(s, data ? data : (const uint8_t *)"", dtype, t->dims, (int)t->n_dims);
    mc_free(bools);
    return mica_scope_status(s);
}

static mica_status from_lists(const mc_onnx_tensor *t, mica_dtype dtype, size_t n, mica_scope *s,
                              mica_array *x) {
    size_t have = t->n_float_data + t->n_int32_data + t->n_int64_data + t->n_uint64_data;
    if (n > have) return mc_fail(MICA_EFORMAT, "its shape has %zu elements, its data fewer", n);
    if (!s) return MICA_OK;
    void *data = mc_calloc(n ? n : 1, mica_dtype_bytes(dtype));
    if (!data) return mc_fail_nomem("a tensor");
    mica_status status = pack(t, dtype, data, n);
    if (status == MICA_OK)
        status = from_bytes(t, data, n * mica_dtype_bytes(dtype), dtype,
                            n * mica_dtype_bytes(dtype), s, x);
    mc_free(data);
    return status;
}

/* Doubles, which are computed with as f32. */
static mica_status from_doubles(const mc_onnx_tensor *t, const uint8_t *data, size_t bytes,
                                size_t n, mica_scope *s, mica_array *x, bool *rounds) {
    if (bytes != n * sizeof(double))
        return mc_fail(MICA_EFORMAT, "its shape takes %zu bytes, its data has %zu",
                       n * sizeof(double), bytes);
    if (!s) return MICA_OK;
    float *floats = mc_array_alloc(n + 1, sizeof *floats);
    if (!floats) return mc_fail_nomem("a tensor");
    for (size_t i = 0; i < n; i++) {
        double value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        floats[i] = (float)value;
        *rounds = *rounds || (value == value && (double)floats[i] != value);
    }
    *x = mica_from_data(s, floats, MICA_F32, t->dims, (int)t->n_dims);
    mc_free(floats);
    return mica_scope_status(s);
}

/* A small type's, one byte each. */
static mica_status from_packed(const mc_onnx_tensor *t, const mc_onnx_small *type,
                               const uint8_t *data, size_t bytes, size_t n, mica_scope *s,
                               mica_array *x) {
    if (bytes != mc_onnx_small_bytes(type, n))
        return mc_fail(MICA_EFORMAT, "its shape takes %zu bytes, its data has %zu",
                       mc_onnx_small_bytes(type, n), bytes);
    if (!s) return MICA_OK;
    uint8_t *out = mc_alloc(n + 1);
    if (!out) return mc_fail_nomem("a tensor");
    mc_onnx_small_unpack(type, data, n, out);
    *x = mica_from_data(s, out, mc_onnx_small_dtype(type), t->dims, (int)t->n_dims);
    mc_free(out);
    return mica_scope_status(s);
}

/* The same of a list of bytes. */
static mica_status from_packed_list(const mc_onnx_tensor *t, const mc_onnx_small *type, size_t n,
                                    mica_scope *s, mica_array *x) {
    uint8_t *data = mc_alloc(t->n_int32_data + 1);
    if (!data) return mc_fail_nomem("a tensor");
    for (size_t i = 0; i < t->n_int32_data; i++)
        data[i] = (uint8_t)t->int32_data[i];
    mica_status status = from_packed(t, type, data, t->n_int32_data, n, s, x);
    mc_free(data);
    return status;
}

mica_status mc_onnx_tensor_array(const mc_onnx_tensor *t, mc_onnx_outside *outside, mica_scope *s,
                                 mica_array *x) {
    mica_dtype dtype;
    const mc_onnx_small *small;
    int64_t n = 0;
    *x = MICA_NONE;
    MC_TRY(mc_onnx_any_dtype(t->data_type, &dtype, &small));
    MC_TRY(shape_of(t, &n));
    size_t want = (size_t)n * mica_dtype_bytes(dtype), bytes = t->raw_data.len;
    const uint8_t *data = t->raw_data.data;
    if (t->data_location == 1) {
        MC_TRY(find_outside(t, outside, &data, &bytes));
        if (s) MC_TRY(take_bytes(outside, bytes));
    } else if (!t->has_raw_data && t->data_type == MC_ONNX_DOUBLE) {
        data = (const uint8_t *)t->double_data, bytes = t->n_double_data * sizeof(double);
    } else if (!t->has_raw_data && small) {
        return from_packed_list(t, small, (size_t)n, s, x);
    } else if (!t->has_raw_data) {
        return from_lists(t, dtype, (size_t)n, s, x);
    }
    if (small) return from_packed(t, small, data, bytes, (size_t)n, s, x);
    if (t->data_type == MC_ONNX_DOUBLE)
        return from_doubles(t, data, bytes, (size_t)n, s, x, &outside->rounds_f64);
    return from_bytes(t, data, bytes, dtype, want, s, x);
}
