#include "io/safetensors.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/system.h"
#include "io/config.h"
#include "io/published.h"
#include "io/recognise.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_BYTES 8               /* the header's length */
#define FIRST_BYTES 64               /* of a file that are read at first */
#define MAX_HEADER_BYTES 100000000   /* as the reference implementation */
#define MAX_BITS (UINT64_C(1) << 62) /* of a tensor */
#define COPY_ALIGN 64                /* of copies of tensors that are unaligned in their file */
#define TEXT_BYTES 512
#define MAX_NAME_SHOWN 200 /* of a name, in an error text */

/* Memory of tensors: a file's, or the copy of an unaligned tensor. */
typedef struct block {
    mc_filemap bytes;
    const char *file; /* its path */
} block;

/* An entry of the metadata, in the arena. */
typedef struct pair {
    const char *key, *value;
} pair;

struct mc_weights {
    const char *path;   /* file or folder that was opened */
    mc_arena arena;     /* names and paths */
    mc_buffer blocks;   /* block[] */
    mc_buffer tensors;  /* mc_weight_tensor[] */
    mc_map by_name;     /* index in tensors */
    mc_buffer metadata; /* pair[] */
    mc_weights_options options;
    uint64_t done, total; /* bytes of the files: read so far, and in all */
};

/* ---- dtypes ---- */

typedef struct kind {
    const char *name;
    unsigned bits; /* of an element */
    bool has_dtype;
    mica_dtype dtype;
} kind;

static const kind kinds[] = {
    {"BOOL", 8, true, MICA_BOOL}, {"U8", 8, true, MICA_U8},      {"U16", 16, true, MICA_U16},
    {"U32", 32, true, MICA_U32},  {"U64", 64, true, MICA_U64},   {"I8", 8, true, MICA_I8},
    {"I16", 16, true, MICA_I16},  {"I32", 32, true, MICA_I32},   {"I64", 64, true, MICA_I64},
    {"F16", 16, true, MICA_F16},  {"BF16", 16, true, MICA_BF16}, {"F32", 32, true, MICA_F32},
    {"F64", 64, true, MICA_F64},  {"C64", 64, true, MICA_C64},   {"F8_E4M3", 8, false, 0},
    {"F8_E5M2", 8, false, 0},     {"F8_E8M0", 8, false, 0},      {"F8_E4M3FNUZ", 8, false, 0},
    {"F8_E5M2FNUZ", 8, false, 0}, {"F6_E2M3", 6, false, 0},      {"F6_E3M2", 6, false, 0},
    {"F4", 4, false, 0},
};

static const kind *find_kind(mc_str name) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (mc_str_is(name, kinds[i].name)) return &kinds[i];
    }
    return NULL;
}

const char *mc_weight_kind(mica_dtype dtype) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].has_dtype && kinds[i].dtype == dtype) return kinds[i].name;
    }
    return NULL;
}

/* ---- one tensor of a header ---- */

/* The file and tensor that are being read. */
typedef struct place {
    mc_weights *w;
    const char *file;
    mc_str tensor;
    const uint8_t *data; /* the file's data after the header; NULL if only the header was read */
    uint64_t size;       /* of data */
} place;

/* An error "file: tensor 'name': <text>". */
static mica_status bad(const place *at, mica_status status, const char *fmt, ...) MC_PRINTF(3, 4);

static mica_status bad(const place *at, mica_status status, const char *fmt, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int len = at->tensor.len < MAX_NAME_SHOWN ? (int)at->tensor.len : MAX_NAME_SHOWN;
    return mc_fail(status, "%s: tensor '%.*s': %s", at->file, len, at->tensor.ptr, text);
}

static mica_status read_kind(const place *at, mc_json v, mc_weight_tensor *t, const kind **out) {
    mc_str name;
    if (!mc_json_get_str(v, &name)) {
        return bad(at, MICA_EFORMAT, mc_json_exists(v) ? "dtype: want a text" : "has no dtype");
    }
    const kind *k = find_kind(name);
    if (!k) {
        return bad(at, MICA_EUNSUPPORTED, "dtype: '%.*s' is not a safetensors dtype",
                   name.len < 40 ? (int)name.len : 40, name.ptr);
    }
    t->kind = k->name;
    t->has_dtype = k->has_dtype;
    t->dtype = k->dtype;
    *out = k;
    return MICA_OK;
}

static mica_status read_shape(const place *at, mc_json v, mc_weight_tensor *t) {
    if (mc_json_get_type(v) != MC_JSON_ARRAY) {
        return bad(at, MICA_EFORMAT,
                   mc_json_exists(v) ? "shape: want a list of integers" : "has no shape");
    }
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) {
        int64_t dim;
        if (!mc_json_get_int(it.value, &dim) || dim < 0) {
            return bad(at, MICA_EFORMAT, "shape: want integers >= 0");
        }
        if (t->ndim == MICA_MAX_NDIM) {
            return bad(at, MICA_EUNSUPPORTED, "shape: has more than %d axes", MICA_MAX_NDIM);
        }
        t->shape[t->ndim++] = dim;
    }
    return MICA_OK;
}

/* Sets *bytes to the size of a tensor; false if it is not a whole number, or too large: zero axes
 * are left out there, so that whoever multiplies some of the others has no overflow. */
static bool shape_bytes(const mc_weight_tensor *t, unsigned bits, uint64_t *bytes) {
    uint64_t n = bits;
    bool empty = false;
    for (int i = 0; i < t->ndim; i++) {
        uint64_t dim = t->shape[i] ? (uint64_t)t->shape[i] : 1;
        empty = empty || t->shape[i] == 0;
        if (n > MAX_BITS / dim) return false;
        n *= dim;
    }
    *bytes = empty ? 0 : n / 8;
    return empty || n % 8 == 0;
}

bool mc_weight_bytes(const mc_weight_tensor *tensor, uint64_t *bytes) {
    const kind *k = tensor->kind ? find_kind(mc_str_of(tensor->kind)) : NULL;
    return k && shape_bytes(tensor, k->bits, bytes);
}

static mica_status read_offsets(const place *at, mc_json v, uint64_t *begin, uint64_t *end) {
    int64_t offsets[2] = {0};
    size_t n = 0;
    bool good = mc_json_get_type(v) == MC_JSON_ARRAY && mc_json_count(v) == 2;
    for (mc_json_iter it = mc_json_begin(v); good && mc_json_next(&it);) {
        good = mc_json_get_int(it.value, &offsets[n]) && offsets[n] >= 0;
        n++;
    }
    if (!good) {
        return bad(at, MICA_EFORMAT,
                   mc_json_exists(v) ? "data_offsets: want two integers >= 0"
                                     : "has no data_offsets");
    }
    *begin = (uint64_t)offsets[0];
    *end = (uint64_t)offsets[1];
    if (*begin > *end) return bad(at, MICA_EFORMAT, "data_offsets: begins after its end");
    if (*end <= at->size) return MICA_OK;
    return bad(at, MICA_EFORMAT,
               "data_offsets: ends at byte %" PRIu64 " of the data, of which the file has %" PRIu64
               " (is it cut short?)",
               *end, at->size);
}

static mica_status read_tensor(const place *at, mc_json v, mc_weight_tensor *t) {
    if (mc_json_get_type(v) != MC_JSON_OBJECT) {
        return bad(at, MICA_EFORMAT, "want an object of dtype, shape and data_offsets");
    }
    if (memchr(at->tensor.ptr, 0, at->tensor.len)) {
        return bad(at, MICA_EFORMAT, "its name holds a zero byte");
    }
    const kind *k = NULL;
    uint64_t begin = 0, end = 0, bytes = 0;
    MC_TRY(read_kind(at, mc_json_find(v, "dtype"), t, &k));
    MC_TRY(read_shape(at, mc_json_find(v, "shape"), t));
    MC_TRY(read_offsets(at, mc_json_find(v, "data_offsets"), &begin, &end));
    if (!shape_bytes(t, k->bits, &bytes)) {
        return bad(at, MICA_EFORMAT, "shape: its size in bytes overflows or is not an integer");
    }
    if (bytes != end - begin) {
        return bad(at, MICA_EFORMAT,
                   "data_offsets: %" PRIu64 " bytes, but shape and dtype %s make %" PRIu64,
                   end - begin, k->name, bytes);
    }
    t->file = at->file;
    t->data = at->data ? at->data + begin : NULL;
    t->begin = (size_t)begin; /* <= at->size, which is a size_t */
    t->bytes = (size_t)bytes;
    t->name = mc_arena_strndup(&at->w->arena, at->tensor.ptr, at->tensor.len);
    return t->name ? MICA_OK : mc_fail_nomem(at->file);
}

/* ---- the hub's mxfp4 ---- */

/* The name of "x_blocks", and of "x_scales", as MLX has it; NULL: it is another name. */
static const char *mlx_ending(mc_str name, size_t *cut) {
    static const char *const endings[][2] = {{"_blocks", ".weight"}, {"_scales", ".scales"}};
    for (size_t i = 0; i < 2; i++) {
        *cut = strlen(endings[i][0]);
        if (mc_str_ends(name, mc_str_of(endings[i][0]))) return endings[i][1];
    }
    return NULL;
}

static char *mlx_name(mc_weights *w, mc_str name) {
    size_t cut;
    const char *ending = mlx_ending(name, &cut);
    size_t len = name.len - cut;
    char *text = mc_arena_alloc(&w->arena, len + strlen(ending) + 1);
    if (!text) return NULL;
    memcpy(text, name.ptr, len);
    memcpy(text + len, ending, strlen(ending) + 1);
    return text;
}

/* x_blocks [..., groups, 16] are bytes, two values in each, the low nibble first; with x_scales
 * they are the same bytes as MLX's x.weight [..., groups * 4] of words, and x.scales. */
static mica_status see_blocks(mc_weights *w, mc_weight_tensor *t) {
    size_t cut;
    const char *ending = mlx_ending(mc_str_of(t->name), &cut);
    if (!ending || !t->has_dtype || t->dtype != MICA_U8) return MICA_OK;
    if (strcmp(ending, ".weight") == 0) {
        int last = t->ndim - 1;
        if (last < 2 || t->shape[last] != 16 || t->shape[last - 1] > INT64_MAX / 4) return MICA_OK;
        t->ndim = last;
        t->shape[last - 1] *= 4;
        t->dtype = MICA_U32;
        t->kind = mc_weight_kind(MICA_U32);
    }
    t->name = mlx_name(w, mc_str_of(t->name));
    return t->name ? MICA_OK : mc_fail_nomem(t->file);
}

/* The tensor that an index calls so. */
static mica_status find_stored(mc_weights *w, mc_str name, const mc_weight_tensor **t) {
    size_t cut;
    uint64_t i;
    bool found = mc_map_find(&w->by_name, name, &i);
    if (!found && mlx_ending(name, &cut)) {
        const char *own = mlx_name(w, name);
        if (!own) return mc_fail_nomem("an index of tensors");
        found = mc_map_find(&w->by_name, mc_str_of(own), &i);
    }
    *t = found ? mc_weights_at(w, (size_t)i) : NULL;
    return MICA_OK;
}

/* ---- one file ---- */

static mica_status add_tensor(place *at, mc_json v) {
    mc_weights *w = at->w;
    mc_weight_tensor t = {0};
    MC_TRY(read_tensor(at, v, &t));
    MC_TRY(see_blocks(w, &t));
    uint64_t i = MC_BUFFER_COUNT(&w->tensors, mc_weight_tensor);
    mc_str name = mc_str_of(t.name);
    uint64_t other;
    if (mc_map_find(&w->by_name, name, &other)) {
        return bad(at, MICA_EFORMAT, "is stored twice, first in %s",
                   MC_BUFFER_AT(&w->tensors, mc_weight_tensor)[other].file);
    }
    if (!mc_map_put(&w->by_name, name, i) || !mc_buffer_add(&w->tensors, &t, sizeof t)) {
        return mc_fail_nomem(at->file);
    }
    return MICA_OK;
}

static int compare_data(const void *a, const void *b) {
    const mc_weight_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* empty ones first */
    return strcmp(x->name, y->name);
}

/* Checks, as the reference does, that tensors cover the data without overlap, hole or rest. */
static mica_status check_cover(place *at, const mc_weight_tensor *ts, size_t count) {
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = ts[i].begin;
        at->tensor = mc_str_of(ts[i].name);
        if (begin < end) return bad(at, MICA_EFORMAT, "data_offsets: overlaps another tensor");
        if (begin > end) return bad(at, MICA_EFORMAT, "data_offsets: leaves a hole before it");
        end = begin + ts[i].bytes;
    }
    if (end == at->size) return MICA_OK;
    return mc_fail(MICA_EFORMAT,
                   "%s: the tensors end at byte %" PRIu64 " of the data, and %" PRIu64
                   " bytes follow that belong to none",
                   at->file, end, at->size - end);
}

/* The alignment of a kind of elements. Kinds of 8 or fewer bits are always aligned. */
static size_t kind_align(const mc_weight_tensor *t) {
    unsigned bits = find_kind(mc_str_of(t->kind))->bits;
    return bits >= 8 ? bits / 8 : 1;
}

static mica_status align_tensor(mc_weights *w, mc_weight_tensor *t) {
    if ((uintptr_t)t->data % kind_align(t) == 0 || t->bytes == 0) return MICA_OK;
    uint8_t *copy = mc_aligned_alloc(COPY_ALIGN, t->bytes);
    const block b = {{.data = copy, .size = t->bytes, .in_memory = true}, t->file};
    if (!copy || !mc_buffer_add(&w->blocks, &b, sizeof b)) {
        mc_free(copy);
        return mc_fail(MICA_ENOMEM, "out of memory: %s: tensor '%s' is unaligned, and the copy",
                       t->file, t->name);
    }
    memcpy(copy, t->data, t->bytes);
    t->data = copy;
    return MICA_OK;
}

/* Keeps what is text in the metadata, as the format wants all of it to be. */
static mica_status add_metadata(mc_weights *w, mc_json v) {
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) {
        mc_str value;
        if (!mc_json_get_str(it.value, &value)) continue;
        const pair p = {mc_arena_strndup(&w->arena, it.key.ptr, it.key.len),
                        mc_arena_strndup(&w->arena, value.ptr, value.len)};
        if (!p.key || !p.value || !mc_buffer_add(&w->metadata, &p, sizeof p))
            return mc_fail_nomem("a file's metadata");
    }
    return MICA_OK;
}

static mica_status add_header(place *at, mc_json root) {
    mc_weights *w = at->w;
    if (mc_json_get_type(root) != MC_JSON_OBJECT) {
        return mc_fail(MICA_EFORMAT, "%s: the header is not a JSON object", at->file);
    }
    size_t first = MC_BUFFER_COUNT(&w->tensors, mc_weight_tensor);
    if (!mc_map_reserve(&w->by_name, first + mc_json_count(root))) return mc_fail_nomem(at->file);
    for (mc_json_iter it = mc_json_begin(root); mc_json_next(&it);) {
        at->tensor = it.key;
        MC_TRY(mc_str_is(it.key, "__metadata__") ? add_metadata(w, it.value)
                                                 : add_tensor(at, it.value));
    }
    size_t count = MC_BUFFER_COUNT(&w->tensors, mc_weight_tensor) - first;
    if (count == 0) return check_cover(at, NULL, 0);
    mc_weight_tensor *ts = MC_BUFFER_AT(&w->tensors, mc_weight_tensor) + first;
    qsort(ts, count, sizeof *ts, compare_data);
    for (size_t i = 0; i < count; i++) {
        /* This cannot fail: the map has the key already. */
        if (!mc_map_put(&w->by_name, mc_str_of(ts[i].name), first + i)) return MICA_EINTERNAL;
    }
    MC_TRY(check_cover(at, ts, count));
    for (size_t i = 0; i < count; i++)
        MC_TRY(align_tensor(w, &ts[i]));
    return MICA_OK;
}

/* Reads the length of a file's header from the file's first `size` bytes. */
static mica_status read_length(const char *file, const uint8_t *bytes, size_t size,
                               size_t *length) {
    if (size < PREFIX_BYTES) {
        return mc_fail(MICA_EFORMAT,
                       "%s: %zu bytes are too few for a safetensors file (is it cut short?)", file,
                       size);
    }
    uint64_t header = 0;
    for (int i = PREFIX_BYTES; i-- > 0;)
        header = header << 8 | bytes[i];
    if (header > MAX_HEADER_BYTES) {
        return mc_fail(MICA_EFORMAT,
                       "%s: a header of %" PRIu64
                       " bytes, at most %d are taken (is this a safetensors file?)",
                       file, header, MAX_HEADER_BYTES);
    }
    if (header > size - PREFIX_BYTES) {
        return mc_fail(MICA_EFORMAT,
                       "%s: a header of %" PRIu64
                       " bytes, but the file has %zu after its length (is it cut short?)",
                       file, header, size - PREFIX_BYTES);
    }
    *length = (size_t)header;
    return MICA_OK;
}

/* Adds the tensors of one file of `size` bytes. `bytes` ends before the data if only headers are
 * wanted. */
static mica_status add_bytes(mc_weights *w, const char *file, const uint8_t *bytes, size_t size) {
    size_t length = 0;
    MC_TRY(read_length(file, bytes, size, &length));
    size_t data_at = PREFIX_BYTES + length;
    place at = {.w = w, .file = file, .size = size - data_at};
    if (!w->options.headers) at.data = bytes + data_at;
    mc_json_doc *doc;
    mica_status status = mc_json_parse((const char *)bytes + PREFIX_BYTES, length, file, &doc);
    if (status == MICA_EFORMAT) return mc_fail(status, "%s (the header)", mica_last_error());
    if (status != MICA_OK) return status;
    status = add_header(&at, mc_json_root(doc));
    mc_json_close(&doc);
    return status;
}

/* Reads only the header of the file at `path` and adds its tensors. */
static mica_status add_file_header(mc_weights *w, const char *path) {
    mc_filemap head;
    size_t size, length = 0, again = 0;
    MC_TRY(mc_filemap_read_head(path, FIRST_BYTES, &head, &size));
    mica_status status = mc_file_check_pointer(path, head.data, head.size);
    if (status == MICA_OK) status = read_length(path, head.data, size, &length);
    mc_filemap_close(&head);
    if (status != MICA_OK) return status;
    MC_TRY(mc_filemap_read_head(path, PREFIX_BYTES + length, &head, &size));
    if (head.size == PREFIX_BYTES + length) status = read_length(path, head.data, size, &again);
    if (status == MICA_OK && again != length)
        status = mc_fail(MICA_EIO, "%s: changed while it was read", path);
    if (status == MICA_OK) status = add_bytes(w, path, head.data, size);
    mc_filemap_close(&head);
    return status;
}

static mica_status tick(void *context, size_t bytes) {
    mc_weights *w = context;
    const mc_weights_options *options = &w->options;
    w->done += bytes;
    return options->watch ? options->watch(options->context, w->done, w->total) : MICA_OK;
}

/* Maps or reads the file at `path` and adds its tensors. The memory lives as long as w. */
static mica_status add_file(mc_weights *w, const char *path) {
    const mc_file_watch watch = {tick, w};
    block b = {.file = path};
    if (w->options.headers) return add_file_header(w, path);
    MC_TRY(w->options.no_mmap ? mc_filemap_read(path, MC_FILE_WEIGHTS, 0, &watch, &b.bytes)
                              : mc_filemap_open(path, MC_FILE_WEIGHTS, &b.bytes));
    if (!mc_buffer_add(&w->blocks, &b, sizeof b)) {
        mc_filemap_close(&b.bytes);
        return mc_fail_nomem(path);
    }
    MC_TRY(mc_file_check_pointer(path, b.bytes.data, b.bytes.size));
    return add_bytes(w, path, b.bytes.data, b.bytes.size);
}

/* Adds all files dir/names[i]. Their total size is known before the first is read. */
static mica_status add_files(mc_weights *w, const char *dir, const char *const *names,
                             size_t count) {
    mc_path_info info;
    const char **paths = mc_arena_alloc(&w->arena, count * sizeof *paths);
    if (!paths) return mc_fail_nomem(dir);
    for (size_t i = 0; i < count; i++) {
        char *joined = mc_path_join(dir, names[i]);
        paths[i] = joined ? mc_arena_strndup(&w->arena, joined, strlen(joined)) : NULL;
        mc_free(joined);
        if (!paths[i]) return mc_fail_nomem(dir);
        if (mc_path_stat(paths[i], &info)) w->total += info.bytes;
    }
    for (size_t i = 0; i < count; i++)
        MC_TRY(add_file(w, paths[i]));
    return MICA_OK;
}

static mica_status add_single(mc_weights *w) {
    mc_path_info info;
    if (mc_path_stat(w->path, &info)) w->total = info.bytes;
    return add_file(w, w->path);
}

/* ---- a folder ---- */

/* Shards of an index, each once. */
typedef struct shard_list {
    mc_map seen;
    mc_buffer names; /* char *[], in the arena of the weights */
} shard_list;

static mica_status add_shard(mc_weights *w, const char *index, mc_str tensor, mc_json v,
                             shard_list *list) {
    mc_str name;
    if (!mc_json_get_str(v, &name)) {
        return mc_fail(MICA_EFORMAT, "%s: weight_map.%.*s: want the name of a file", index,
                       MC_STR_ARG(tensor));
    }
    uint64_t seen;
    if (mc_map_find(&list->seen, name, &seen)) return MICA_OK;
    /* Only files of the folder: an index must not name others. */
    if (!mc_is_entry_name(name)) {
        return mc_fail(MICA_EFORMAT, "%s: weight_map.%.*s: '%.*s' is not a file in this folder",
                       index, MC_STR_ARG(tensor), MC_STR_ARG(name));
    }
    char *copy = mc_arena_strndup(&w->arena, name.ptr, name.len);
    if (!copy || !mc_map_put(&list->seen, (mc_str){copy, name.len}, 1) ||
        !MC_BUFFER_PUSH(&list->names, char *, copy)) {
        return mc_fail_nomem(index);
    }
    return MICA_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mica_status add_shards(mc_weights *w, const char *dir, const char *index, shard_list *list) {
    size_t count = MC_BUFFER_COUNT(&list->names, char *);
    if (count == 0) return mc_fail(MICA_EFORMAT, "%s: weight_map lists no tensors", index);
    const char **names = MC_BUFFER_AT(&list->names, const char *);
    qsort((void *)names, count, sizeof *names, compare_names);
    mica_status status = add_files(w, dir, names, count);
    return status == MICA_ENOENT
               ? mc_fail_context(status,
                                 "%s lists a shard that is not there: fetch it, by mica "
                                 "pull ORG/NAME",
                                 index)
               : status;
}

/* Checks that every tensor of the index is in its shard. Shards may hold more tensors. */
static mica_status check_index(mc_weights *w, const char *index, mc_json weight_map) {
    for (mc_json_iter it = mc_json_begin(weight_map); mc_json_next(&it);) {
        mc_str shard;
        const mc_weight_tensor *t = NULL;
        MC_TRY(find_stored(w, it.key, &t));
        if (!mc_json_get_str(it.value, &shard)) return MICA_EINTERNAL; /* add_shard has checked */
        if (!t || !mc_str_is(shard, mc_path_name(t->file))) {
            return mc_fail(MICA_ENOENT, "%s: tensor '%.*s' is not in %.*s, where the index has it",
                           index, MC_STR_ARG(it.key), MC_STR_ARG(shard));
        }
    }
    return MICA_OK;
}

static mica_status open_weight_map(mc_weights *w, const char *dir, const char *index,
                                   mc_json weight_map) {
    if (mc_json_get_type(weight_map) != MC_JSON_OBJECT) {
        return mc_fail(MICA_EFORMAT, "%s: weight_map: want an object of tensor and file names",
                       index);
    }
    shard_list list = {0};
    mica_status status = MICA_OK;
    for (mc_json_iter it = mc_json_begin(weight_map); status == MICA_OK && mc_json_next(&it);) {
        status = add_shard(w, index, it.key, it.value, &list);
    }
    if (status == MICA_OK) status = add_shards(w, dir, index, &list);
    if (status == MICA_OK) status = check_index(w, index, weight_map);
    mc_map_deinit(&list.seen);
    mc_buffer_deinit(&list.names);
    return status;
}

static mica_status open_index(mc_weights *w, const char *dir, const char *index) {
    mc_json_doc *doc;
    MC_TRY(mc_json_load(index, MC_FILE_INDEX, &doc));
    mica_status status =
        open_weight_map(w, dir, index, mc_json_find(mc_json_root(doc), "weight_map"));
    mc_json_close(&doc);
    return status;
}

/* The number and count of "NAME-00002-of-00005.safetensors"; false: the name is no such. */
static bool read_shard(const char *name, unsigned *number, unsigned *count) {
    const char *of = strstr(name, "-of-");
    if (!of || of - name < 6 || sscanf(of - 6, "-%5u-of-%5u.safetensors", number, count) != 2)
        return false;
    return *number >= 1 && *number <= *count;
}

/* errors  MICA_ENOENT one of the shards that names count is not among these */
static mica_status check_shards(const char *dir, const char **names, size_t n) {
    unsigned number, of = 0, count, want = 1;
    for (size_t i = 0; i < n; i++)
        if (read_shard(names[i], &number, &count)) of = count > of ? count : of;
    bool *there = mc_calloc(n + 2, sizeof *there); /* of n names the first n + 1 lack one */
    if (!there) return mc_fail_nomem(dir);
    for (size_t i = 0; i < n; i++)
        if (read_shard(names[i], &number, &count) && count == of && number <= n)
            there[number] = true;
    while (there[want])
        want++;
    mc_free(there);
    if (want > of) return MICA_OK;
    return mc_fail(MICA_ENOENT,
                   "%s: the weights are in %u files, of which number %u is missing (%zu are "
                   "there): fetch the others, by mica pull ORG/NAME",
                   dir, of, want, n);
}

/* Opens a folder without an index: model.safetensors, else model*.safetensors, else
 * *.safetensors. */
static mica_status open_listed(mc_weights *w, const char *dir) {
    const char **names;
    size_t count, of_model = 0;
    MC_TRY(mc_dir_list(dir, ".safetensors", &w->arena, &names, &count));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "model.safetensors") == 0) return add_files(w, dir, &names[i], 1);
        if (strncmp(names[i], "model", 5) == 0) names[of_model++] = names[i];
    }
    if (count == 0) return mc_recognise_folder(dir, "weights (*.safetensors) are");
    MC_TRY(check_shards(dir, names, of_model ? of_model : count));
    return add_files(w, dir, names, of_model ? of_model : count);
}

/* Names all tensors anew. errors  MICA_EFORMAT two have one name */
static mica_status map_names(mc_weights *w) {
    const mc_weight_tensor *all = MC_BUFFER_AT(&w->tensors, mc_weight_tensor);
    size_t n = MC_BUFFER_COUNT(&w->tensors, mc_weight_tensor);
    uint64_t other;
    mc_map_deinit(&w->by_name);
    if (!mc_map_reserve(&w->by_name, n)) return mc_fail_nomem(w->path);
    for (size_t i = 0; i < n; i++) {
        mc_str name = mc_str_of(all[i].name);
        if (mc_map_find(&w->by_name, name, &other))
            return mc_fail(MICA_EFORMAT, "%s: tensor '%.200s' is there as it is, and quantised",
                           all[i].file, all[i].name);
        if (!mc_map_put(&w->by_name, name, i)) return mc_fail_nomem(w->path);
    }
    return MICA_OK;
}

/* Sees matrices that are not quantised as MLX does as if they were. */
static mica_status see_published(mc_weights *w, const char *dir) {
    mc_config *config;
    if (!mc_published_has(&w->tensors, &w->by_name)) return MICA_OK;
    MC_TRY(mc_config_load(dir, "config.json", MC_OPTIONAL, &config));
    mc_json stated = mc_json_find(mc_config_root(config).object, "quantization_config");
    mica_status status =
        mc_published_see(stated, w->options.form, &w->arena, &w->tensors, &w->by_name);
    mc_config_close(&config);
    return status == MICA_OK ? map_names(w) : status;
}

static mica_status open_folder(mc_weights *w, const char *dir) {
    char *index = mc_path_join(dir, "model.safetensors.index.json");
    if (!index) return mc_fail_nomem(dir);
    mica_status status = mc_path_is_file(index) ? open_index(w, dir, index) : open_listed(w, dir);
    mc_free(index);
    return status == MICA_OK ? see_published(w, dir) : status;
}

/* ---- the whole ---- */

mica_status mc_weights_prefetch(const mc_weights *w, const mc_file_watch *watch) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&w->blocks, block); i++)
        MC_TRY(mc_filemap_prefetch(&MC_BUFFER_AT(&w->blocks, block)[i].bytes, watch));
    return MICA_OK;
}

/* Whether some mapped files are not in memory and all fit in half of it. Such files are read ahead:
 * the first token needs all of them, and reading them at once is faster and gives larger pages. */
static bool are_cold(const mc_weights *w) {
    if (!w->options.cold || w->total > mc_memory_bytes() / 2) return false;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&w->blocks, block); i++)
        if (!mc_filemap_is_present(&MC_BUFFER_AT(&w->blocks, block)[i].bytes)) return true;
    return false;
}

bool mc_weights_were_read(const mc_weights *w) {
    return w->done > 0;
}

/* Reads ahead and locks the files, if the options say so. */
static mica_status hold(mc_weights *w) {
    const mc_file_watch watch = {tick, w};
    block *blocks = MC_BUFFER_AT(&w->blocks, block);
    bool ahead = w->options.prefetch || w->options.lock || are_cold(w);
    if (ahead) MC_TRY(mc_weights_prefetch(w, &watch));
    for (size_t i = 0; w->options.lock && i < MC_BUFFER_COUNT(&w->blocks, block); i++)
        MC_TRY(mc_filemap_lock(&blocks[i].bytes, blocks[i].file));
    return MICA_OK;
}

static mica_status new_weights(const char *path, mc_weights **w) {
    *w = mc_calloc(1, sizeof **w);
    if (!*w) return mc_fail_nomem(path);
    (*w)->path = mc_arena_strndup(&(*w)->arena, path, strlen(path));
    if ((*w)->path) return MICA_OK;
    mc_weights_close(w);
    return mc_fail_nomem(path);
}

mica_status mc_weights_open(const char *path, const mc_weights_options *options, mc_weights **w) {
    MC_TRY(new_weights(path, w));
    if (options) (*w)->options = *options;
    mica_status status = mc_path_is_dir(path) ? open_folder(*w, path) : add_single(*w);
    if (status == MICA_OK) status = hold(*w);
    if (status != MICA_OK) mc_weights_close(w);
    return status;
}

mica_status mc_weights_parse(const void *bytes, size_t size, const char *name, mc_weights **w) {
    MC_TRY(new_weights(name, w));
    mica_status status = add_bytes(*w, (*w)->path, bytes, size);
    if (status != MICA_OK) mc_weights_close(w);
    return status;
}

void mc_weights_close(mc_weights **w) {
    mc_weights *x = *w;
    if (!x) return;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&x->blocks, block); i++)
        mc_filemap_close(&MC_BUFFER_AT(&x->blocks, block)[i].bytes);
    mc_buffer_deinit(&x->blocks);
    mc_buffer_deinit(&x->tensors);
    mc_buffer_deinit(&x->metadata);
    mc_map_deinit(&x->by_name);
    mc_arena_deinit(&x->arena);
    mc_free(x);
    *w = NULL;
}

bool mc_weights_metadata_at(const mc_weights *w, size_t i, const char **key, const char **value) {
    if (i >= MC_BUFFER_COUNT(&w->metadata, pair)) return false;
    const pair *p = &MC_BUFFER_AT(&w->metadata, pair)[i];
    *key = p->key;
    *value = p->value;
    return true;
}

const mc_weight_tensor *mc_weights_find(const mc_weights *w, const char *name) {
    uint64_t i;
    return mc_map_find(&w->by_name, mc_str_of(name), &i) ? mc_weights_at(w, (size_t)i) : NULL;
}

size_t mc_weights_count(const mc_weights *w) {
    return MC_BUFFER_COUNT(&w->tensors, mc_weight_tensor);
}

const mc_weight_tensor *mc_weights_at(const mc_weights *w, size_t i) {
    return &MC_BUFFER_AT(&w->tensors, mc_weight_tensor)[i];
}
