#include "io/gguf.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/map.h"
#include "base/utf8.h"
#include "io/gguf_cache.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 512, DEFAULT_ALIGNMENT = 32 };

/* Types of values in the file. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_TYPES };

static const uint8_t type_bytes[N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* A pair of the metadata. Of an array, data is its first element. */
typedef struct pair {
    uint32_t type, element; /* element: of an array */
    uint64_t count;         /* of an array */
    const uint8_t *data;
} pair;

struct mc_gguf {
    const char *path;
    mc_arena arena;
    mc_filemap map;
    mc_buffer tensors; /* mc_gguf_tensor[] */
    mc_buffer pairs;   /* pair[] */
    mc_map by_name;    /* index in tensors */
    mc_map by_key;     /* index in pairs */
    mc_buffer others;  /* mc_gguf *[]: the other files of the model */
};

/* What is read, and how much of it is left. */
typedef struct reader {
    const char *path;
    const uint8_t *at;
    size_t left;
} reader;

static mica_status cut(const reader *r, const char *what) {
    return mc_fail(MICA_EFORMAT, "%s: ends within %s (is it cut short?)", r->path, what);
}

/* ---- plain values ---- */

static uint64_t little_endian(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static mica_status read_int(reader *r, size_t bytes, const char *what, uint64_t *value) {
    if (r->left < bytes) return cut(r, what);
    *value = little_endian(r->at, bytes);
    r->at += bytes;
    r->left -= bytes;
    return MICA_OK;
}

static mica_status read_u32(reader *r, const char *what, uint32_t *value) {
    uint64_t wide = 0;
    MC_TRY(read_int(r, 4, what, &wide));
    *value = (uint32_t)wide;
    return MICA_OK;
}

static mica_status read_str(reader *r, const char *what, mc_str *text) {
    uint64_t len = 0;
    MC_TRY(read_int(r, 8, what, &len));
    if (len > r->left) return cut(r, what);
    *text = (mc_str){(const char *)r->at, (size_t)len};
    r->at += len;
    r->left -= (size_t)len;
    return MICA_OK;
}

/* Copies a name to the arena. */
static mica_status read_name(reader *r, mc_gguf *g, const char *what, char **name) {
    mc_str text;
    MC_TRY(read_str(r, what, &text));
    if (text.len == 0 || text.len > MAX_NAME || memchr(text.ptr, 0, text.len) ||
        !mc_utf8_valid(text.ptr, text.len))
        return mc_fail(MICA_EFORMAT, "%s: %s is ill-formed or has %zu bytes, at most %d", r->path,
                       what, text.len, MAX_NAME);
    *name = mc_arena_strndup(&g->arena, text.ptr, text.len);
    return *name ? MICA_OK : mc_fail_nomem(r->path);
}

/* ---- metadata ---- */

/* Steps over the elements of an array. */
static mica_status skip_elements(reader *r, const char *key, const pair *p) {
    mc_str text;
    if (p->element == STRING) {
        for (uint64_t i = 0; i < p->count; i++)
            MC_TRY(read_str(r, key, &text));
        return MICA_OK;
    }
    size_t bytes = type_bytes[p->element];
    if (p->count > r->left / bytes) return cut(r, key);
    r->at += p->count * bytes;
    r->left -= (size_t)p->count * bytes;
    return MICA_OK;
}

static mica_status read_value(reader *r, const char *key, pair *p) {
    mc_str text;
    uint64_t value = 0;
    MC_TRY(read_u32(r, key, &p->type));
    if (p->type >= N_TYPES)
        return mc_fail(MICA_EFORMAT, "%s: %s has the unknown type %u", r->path, key,
                       (unsigned)p->type);
    p->data = r->at;
    if (p->type == STRING) return read_str(r, key, &text);
    if (p->type != ARRAY) return read_int(r, type_bytes[p->type], key, &value);
    MC_TRY(read_u32(r, key, &p->element));
    MC_TRY(read_int(r, 8, key, &p->count));
    if (p->element >= N_TYPES || p->element == ARRAY)
        return mc_fail(MICA_EFORMAT, "%s: %s is an array of the unknown type %u", r->path, key,
                       (unsigned)p->element);
    p->data = r->at;
    return skip_elements(r, key, p);
}

static mica_status read_pair(reader *r, mc_gguf *g) {
    char *key;
    pair p = {0};
    uint64_t there;
    MC_TRY(read_name(r, g, "a key of the metadata", &key));
    MC_TRY(read_value(r, key, &p));
    if (mc_map_find(&g->by_key, mc_str_of(key), &there))
        return mc_fail(MICA_EFORMAT, "%s: %s is there twice", r->path, key);
    if (!mc_map_put(&g->by_key, mc_str_of(key), MC_BUFFER_COUNT(&g->pairs, pair)) ||
        !mc_buffer_add(&g->pairs, &p, sizeof p))
        return mc_fail_nomem(r->path);
    return MICA_OK;
}

/* ---- tensors ---- */

/* A tensor's offset in the data is kept in `bytes` until the data's place is known. */
static mica_status read_shape(reader *r, mc_gguf_tensor *t) {
    uint32_t ndim = 0;
    uint64_t dims[MICA_MAX_NDIM] = {0}, n = 1;
    MC_TRY(read_u32(r, t->name, &ndim));
    if (ndim > MICA_MAX_NDIM)
        return mc_fail(MICA_EUNSUPPORTED, "%s: tensor %s has %u axes, at most %d", r->path, t->name,
                       (unsigned)ndim, MICA_MAX_NDIM);
    for (uint32_t i = 0; i < ndim; i++) {
        MC_TRY(read_int(r, 8, t->name, &dims[i]));
        if (dims[i] > INT64_MAX || (dims[i] > 0 && n > INT64_MAX / 8 / dims[i]))
            return mc_fail(MICA_EFORMAT, "%s: tensor %s: its size overflows", r->path, t->name);
        n *= dims[i];
    }
    t->ndim = (int)ndim;
    for (uint32_t i = 0; i < ndim; i++)
        t->shape[ndim - 1 - i] = (int64_t)dims[i];
    return MICA_OK;
}

/* A type of which mica knows the name alone: what to take instead. */
static mica_status refuse_type(const reader *r, const char *tensor, const mc_ggml_type *type) {
    bool coded = type->name[0] == 'I';
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: tensor %s has blocks of %s, %s: take another file of the model, such as "
                   "one with %s in its name%s",
                   r->path, tensor, type->name,
                   coded ? "whose codebook mica does not have"
                         : "whose matrices have scales in tensors of their own",
                   coded ? "Q2_K, Q3_K_S or IQ4_XS" : "MXFP4, IQ4_XS or Q4_K_M",
                   coded ? "" : ", or the folder that it was made of");
}

static mica_status read_tensor(reader *r, mc_gguf *g) {
    mc_gguf_tensor t = {0};
    uint32_t type = 0;
    uint64_t offset = 0, there;
    char *name;
    MC_TRY(read_name(r, g, "a tensor's name", &name));
    t.name = name;
    MC_TRY(read_shape(r, &t));
    MC_TRY(read_u32(r, name, &type));
    MC_TRY(read_int(r, 8, name, &offset));
    t.type = mc_ggml_type_find(type);
    if (!t.type)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s has ggml's type %u, which mica cannot read", r->path, name,
                       (unsigned)type);
    if (!t.type->decode) return refuse_type(r, name, t.type);
    if (offset > SIZE_MAX) return cut(r, name);
    t.bytes = (size_t)offset;
    if (mc_map_find(&g->by_name, mc_str_of(name), &there))
        return mc_fail(MICA_EFORMAT, "%s: tensor %s is there twice", r->path, name);
    if (!mc_map_put(&g->by_name, mc_str_of(name), MC_BUFFER_COUNT(&g->tensors, mc_gguf_tensor)) ||
        !mc_buffer_add(&g->tensors, &t, sizeof t))
        return mc_fail_nomem(r->path);
    return MICA_OK;
}

/* Finds a tensor's data, the file's data being at `at`. */
static mica_status place_tensor(const reader *r, mc_gguf_tensor *t) {
    size_t offset = t->bytes;
    uint64_t n = 1, row = t->ndim ? (uint64_t)t->shape[t->ndim - 1] : 1;
    for (int i = 0; i < t->ndim; i++)
        n *= (uint64_t)t->shape[i];
    if (row % t->type->block != 0)
        return mc_fail(MICA_EFORMAT, "%s: tensor %s: rows of %" PRIu64 " are no whole blocks of %u",
                       r->path, t->name, row, t->type->block);
    uint64_t blocks = n / t->type->block;
    if (blocks > SIZE_MAX / t->type->bytes || offset > r->left ||
        blocks * t->type->bytes > r->left - offset)
        return mc_fail(MICA_EFORMAT, "%s: tensor %s ends behind the file (is it cut short?)",
                       r->path, t->name);
    t->data = r->at + offset;
    t->bytes = (size_t)(blocks * t->type->bytes);
    return MICA_OK;
}

static int by_place(const void *a, const void *b) {
    const mc_gguf_tensor *x = *(const mc_gguf_tensor *const *)a;
    const mc_gguf_tensor *y = *(const mc_gguf_tensor *const *)b;
    const char *p = x->data, *q = y->data;
    if (p != q) return p < q ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Tensors that share bytes are those of a damaged file. */
static mica_status check_overlaps(const mc_gguf *g) {
    size_t n = mc_gguf_count(g);
    const mc_gguf_tensor **all = mc_array_alloc(n + 1, sizeof *all);
    mica_status status = MICA_OK;
    if (!all) return mc_fail_nomem(g->path);
    for (size_t i = 0; i < n; i++)
        all[i] = mc_gguf_at(g, i);
    qsort((void *)all, n, sizeof *all, by_place);
    for (size_t i = 1; i < n && status == MICA_OK; i++)
        if ((const char *)all[i - 1]->data + all[i - 1]->bytes > (const char *)all[i]->data)
            status = mc_fail(MICA_EFORMAT, "%s: tensors %s and %s overlap", g->path,
                             all[i - 1]->name, all[i]->name);
    mc_free((void *)all);
    return status;
}

/* ---- the whole ---- */

static mica_status read_header(reader *r, uint64_t *tensors, uint64_t *pairs) {
    uint32_t magic = 0, version = 0;
    MC_TRY(read_u32(r, "the header", &magic));
    if (magic != 0x46554747)
        return mc_fail(MICA_EFORMAT, "%s: does not begin with GGUF: this is another kind of file",
                       r->path);
    MC_TRY(read_u32(r, "the header", &version));
    if (version < 2 || version > 3)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: GGUF's version %u, or big-endian; mica reads versions 2 and 3", r->path,
                       (unsigned)version);
    MC_TRY(read_int(r, 8, "the header", tensors));
    return read_int(r, 8, "the header", pairs);
}

static mica_status align_data(mc_gguf *g, reader *r, size_t size) {
    int64_t alignment = DEFAULT_ALIGNMENT;
    mc_gguf_int(g, "general.alignment", &alignment);
    if (alignment < 1 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0)
        return mc_fail(MICA_EFORMAT, "%s: general.alignment %lld is no power of two up to 1048576",
                       r->path, (long long)alignment);
    size_t pad = (size_t)(-(int64_t)(size - r->left) & (alignment - 1));
    pad = pad < r->left ? pad : r->left; /* a file without data may end before it */
    r->at += pad;
    r->left -= pad;
    return MICA_OK;
}

static mica_status read_all(mc_gguf *g, const uint8_t *bytes, size_t size) {
    reader r = {g->path, bytes, size};
    uint64_t tensors = 0, pairs = 0;
    MC_TRY(read_header(&r, &tensors, &pairs));
    for (uint64_t i = 0; i < pairs; i++) /* each takes bytes of the file, so this ends */
        MC_TRY(read_pair(&r, g));
    for (uint64_t i = 0; i < tensors; i++)
        MC_TRY(read_tensor(&r, g));
    MC_TRY(align_data(g, &r, size));
    for (size_t i = 0; i < mc_gguf_count(g); i++)
        MC_TRY(place_tensor(&r, &MC_BUFFER_AT(&g->tensors, mc_gguf_tensor)[i]));
    return check_overlaps(g);
}

static mica_status new_gguf(const char *path, mc_gguf **gguf) {
    *gguf = mc_calloc(1, sizeof **gguf);
    if (!*gguf) return mc_fail_nomem(path);
    (*gguf)->path = mc_arena_strndup(&(*gguf)->arena, path, strlen(path));
    if ((*gguf)->path) return MICA_OK;
    mc_gguf_close(gguf);
    return mc_fail_nomem(path);
}

static mica_status open_one(const char *path, mc_gguf **gguf) {
    MC_TRY(new_gguf(path, gguf));
    mica_status status = mc_filemap_open(path, MC_FILE_WEIGHTS, &(*gguf)->map);
    if (status == MICA_OK) status = read_all(*gguf, (*gguf)->map.data, (*gguf)->map.size);
    if (status != MICA_OK) mc_gguf_close(gguf);
    return status;
}

/* ---- several files ---- */

/* Adds another file's tensors. */
static mica_status join(mc_gguf *g, const mc_gguf *other) {
    for (size_t i = 0; i < mc_gguf_count(other); i++) {
        const mc_gguf_tensor *t = mc_gguf_at(other, i);
        uint64_t there;
        if (mc_map_find(&g->by_name, mc_str_of(t->name), &there))
            return mc_fail(MICA_EFORMAT, "%s: tensor %s is in another file, too", other->path,
                           t->name);
        if (!mc_map_put(&g->by_name, mc_str_of(t->name), mc_gguf_count(g)) ||
            !mc_buffer_add(&g->tensors, t, sizeof *t))
            return mc_fail_nomem(other->path);
    }
    return MICA_OK;
}

static mica_status open_other(mc_gguf *g, const char *path) {
    mc_gguf *other;
    MC_TRY(open_one(path, &other));
    if (MC_BUFFER_PUSH(&g->others, mc_gguf *, other)) return join(g, other);
    mc_gguf_close(&other);
    return mc_fail_nomem(path);
}

/* Opens the other files of a model, whose first is open. */
static mica_status open_others(mc_gguf *g, const char *const *files, size_t count) {
    int64_t said = 1, number = 0;
    mc_gguf_int(g, "split.count", &said);
    mc_gguf_int(g, "split.no", &number);
    if (said > 1 && (said != (int64_t)count || number != 0))
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: is one of %lld files of a model, and is not called so: name-00001-of-"
                       "0000N.gguf is the first",
                       g->path, (long long)said);
    for (size_t i = 1; i < count; i++)
        MC_TRY(open_other(g, files[i]));
    return MICA_OK;
}

static mica_status open_files(const char *const *files, size_t count, mc_gguf **gguf) {
    MC_TRY(open_one(files[0], gguf));
    mica_status status = open_others(*gguf, files, count);
    if (status != MICA_OK) mc_gguf_close(gguf);
    return status;
}

mica_status mc_gguf_open(const char *path, mc_gguf **gguf) {
    mc_arena arena = {0};
    const char **files;
    size_t count;
    *gguf = NULL;
    mica_status status = mc_gguf_files_find(path, NULL, &arena, &files, &count);
    if (status == MICA_OK) status = open_files(files, count, gguf);
    mc_arena_deinit(&arena);
    return status;
}

mica_status mc_gguf_parse(const void *bytes, size_t size, const char *name, mc_gguf **gguf) {
    MC_TRY(new_gguf(name, gguf));
    mica_status status = read_all(*gguf, bytes, size);
    if (status != MICA_OK) mc_gguf_close(gguf);
    return status;
}

void mc_gguf_close(mc_gguf **gguf) {
    mc_gguf *g = *gguf;
    if (!g) return;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&g->others, mc_gguf *); i++)
        mc_gguf_close(&MC_BUFFER_AT(&g->others, mc_gguf *)[i]);
    mc_buffer_deinit(&g->others);
    mc_filemap_close(&g->map);
    mc_buffer_deinit(&g->tensors);
    mc_buffer_deinit(&g->pairs);
    mc_map_deinit(&g->by_name);
    mc_map_deinit(&g->by_key);
    mc_arena_deinit(&g->arena);
    mc_free(g);
    *gguf = NULL;
}

const char *mc_gguf_path(const mc_gguf *g) {
    return g->path;
}

size_t mc_gguf_count(const mc_gguf *g) {
    return MC_BUFFER_COUNT(&g->tensors, mc_gguf_tensor);
}

const mc_gguf_tensor *mc_gguf_at(const mc_gguf *g, size_t i) {
    return &MC_BUFFER_AT(&g->tensors, mc_gguf_tensor)[i];
}

const mc_gguf_tensor *mc_gguf_find(const mc_gguf *g, const char *name) {
    uint64_t i;
    return mc_map_find(&g->by_name, mc_str_of(name), &i) ? mc_gguf_at(g, (size_t)i) : NULL;
}

/* ---- values ---- */

static const pair *find_pair(const mc_gguf *g, const char *key) {
    uint64_t i;
    if (!mc_map_find(&g->by_key, mc_str_of(key), &i)) return NULL;
    return &MC_BUFFER_AT(&g->pairs, pair)[i];
}

static bool to_int(uint32_t type, const uint8_t *data, int64_t *value) {
    uint64_t bits = type_bytes[type] ? little_endian(data, type_bytes[type]) : 0;
    switch (type) {
    case BOOL:
    case U8:
    case U16:
    case U32:
        *value = (int64_t)bits;
        return true;
    case I8:
        *value = (int8_t)bits;
        return true;
    case I16:
        *value = (int16_t)bits;
        return true;
    case I32:
        *value = (int32_t)bits;
        return true;
    case U64:
        if (bits > INT64_MAX) return false;
        *value = (int64_t)bits;
        return true;
    case I64:
        memcpy(value, &bits, sizeof *value);
        return true;
    default:
        return false;
    }
}

static bool to_number(uint32_t type, const uint8_t *data, double *value) {
    int64_t integer;
    float f32;
    uint64_t bits = type_bytes[type] ? little_endian(data, type_bytes[type]) : 0;
    if (type == F32) {
        uint32_t low = (uint32_t)bits;
        memcpy(&f32, &low, sizeof f32);
        *value = (double)f32;
        return true;
    }
    if (type == F64) {
        memcpy(value, &bits, sizeof *value);
        return true;
    }
    if (!to_int(type, data, &integer)) return false;
    *value = (double)integer;
    return true;
}

bool mc_gguf_int(const mc_gguf *g, const char *key, int64_t *value) {
    const pair *p = find_pair(g, key);
    return p && p->type != BOOL && to_int(p->type, p->data, value);
}

bool mc_gguf_number(const mc_gguf *g, const char *key, double *value) {
    const pair *p = find_pair(g, key);
    return p && p->type != BOOL && to_number(p->type, p->data, value);
}

bool mc_gguf_bool(const mc_gguf *g, const char *key, bool *value) {
    const pair *p = find_pair(g, key);
    if (!p || p->type != BOOL) return false;
    *value = *p->data != 0;
    return true;
}

bool mc_gguf_str(const mc_gguf *g, const char *key, mc_str *value) {
    const pair *p = find_pair(g, key);
    if (!p || p->type != STRING) return false;
    *value = (mc_str){(const char *)p->data + 8, (size_t)little_endian(p->data, 8)};
    return true;
}

bool mc_gguf_has_strs(const mc_gguf *g, const char *key) {
    const pair *p = find_pair(g, key);
    return p && p->type == ARRAY && p->element == STRING;
}

bool mc_gguf_has_numbers(const mc_gguf *g, const char *key) {
    const pair *p = find_pair(g, key);
    return p && p->type == ARRAY && p->element != STRING;
}

size_t mc_gguf_array(const mc_gguf *g, const char *key) {
    const pair *p = find_pair(g, key);
    return p && p->type == ARRAY ? (size_t)p->count : 0;
}

mc_gguf_iter mc_gguf_begin(const mc_gguf *g, const char *key) {
    const pair *p = find_pair(g, key);
    if (!p || p->type != ARRAY) return (mc_gguf_iter){.index = SIZE_MAX};
    return (mc_gguf_iter){
        .index = SIZE_MAX, .at = p->data, .left = (size_t)p->count, .type = p->element};
}

bool mc_gguf_next(mc_gguf_iter *it) {
    if (it->left == 0) return false;
    it->left--;
    it->index++; /* SIZE_MAX before the first */
    if (it->type == STRING) {
        it->text = (mc_str){(const char *)it->at + 8, (size_t)little_endian(it->at, 8)};
        it->at += 8 + it->text.len;
        return true;
    }
    it->integer = 0;
    it->number = 0;
    to_int(it->type, it->at, &it->integer);
    to_number(it->type, it->at, &it->number);
    it->at += type_bytes[it->type];
    return true;
}
