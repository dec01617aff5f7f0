#include "io/safetensors_write.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/json_write.h"
#include "base/map.h"
#include "base/save.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_BYTES 8             /* the header's length */
#define MAX_HEADER_BYTES 100000000 /* as readers */
#define NAME_BYTES 64              /* of a shard */

/* ---- the header ---- */

static mica_status check_text(const char *path, const char *what, const char *text) {
    if (!text) return mc_fail(MICA_EINVAL, "%s: a %s has no name", path, what);
    if (!mc_utf8_valid(text, strlen(text)))
        return mc_fail(MICA_EINVAL, "%s: a %s is not UTF-8: '%s'", path, what, text);
    return MICA_OK;
}

static mica_status check_name(const char *path, mc_map *seen, const char *name) {
    uint64_t there;
    MC_TRY(check_text(path, "tensor", name));
    if (strcmp(name, "__metadata__") == 0)
        return mc_fail(MICA_EINVAL, "%s: a tensor cannot be called __metadata__", path);
    if (mc_map_find(seen, mc_str_of(name), &there))
        return mc_fail(MICA_EINVAL, "%s: two tensors are called '%s'", path, name);
    return mc_map_put(seen, mc_str_of(name), 1) ? MICA_OK : mc_fail_nomem(path);
}

static bool put_metadata(mc_buffer *out, const mica_metadata *metadata, size_t count) {
    bool done = mc_buffer_add_text(out, "\"__metadata__\":{");
    for (size_t i = 0; done && i < count; i++)
        done = (i == 0 || mc_buffer_add_byte(out, ',')) && mc_json_put_text(out, metadata[i].key) &&
               mc_buffer_add_byte(out, ':') && mc_json_put_text(out, metadata[i].value);
    return done && mc_buffer_add_byte(out, '}');
}

static bool put_tensor(mc_buffer *out, const mc_weight_tensor *t, uint64_t begin, uint64_t end) {
    bool done = mc_json_put_text(out, t->name) &&
                mc_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", t->kind);
    for (int i = 0; done && i < t->ndim; i++)
        done = mc_buffer_printf(out, i ? ",%" PRId64 : "%" PRId64, t->shape[i]);
    return done &&
           mc_buffer_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

static mica_status add_tensor(const char *path, const mc_weight_tensor *t, bool first, mc_map *seen,
                              mc_buffer *out, uint64_t *end) {
    uint64_t bytes = 0;
    MC_TRY(check_name(path, seen, t->name));
    bool valid = t->ndim >= 0 && t->ndim <= MICA_MAX_NDIM;
    for (int i = 0; valid && i < t->ndim; i++)
        valid = t->shape[i] >= 0;
    if (!valid || !mc_weight_bytes(t, &bytes) || *end > INT64_MAX - bytes)
        return mc_fail(MICA_EINVAL,
                       "%s: tensor '%s': dtype %s and its shape are none of the format, or too "
                       "large for it",
                       path, t->name, t->kind ? t->kind : "NULL");
    if ((!first && !mc_buffer_add_byte(out, ',')) || !put_tensor(out, t, *end, *end + bytes))
        return mc_fail_nomem(path);
    *end += bytes;
    return MICA_OK;
}

/* Makes the header's text, padded with blanks, and sets *bytes to the size of the data. */
static mica_status make_header(const char *path, const mc_weight_tensor *tensors, size_t count,
                               const mica_metadata *metadata, size_t n_metadata, mc_buffer *out,
                               uint64_t *bytes) {
    mc_map seen = {0};
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < n_metadata; i++) {
        status = check_text(path, "key of the metadata", metadata[i].key);
        if (status == MICA_OK)
            status = check_text(path, "value of the metadata", metadata[i].value);
    }
    if (status == MICA_OK && (!mc_buffer_add_byte(out, '{') ||
                              (n_metadata > 0 && !put_metadata(out, metadata, n_metadata))))
        status = mc_fail_nomem(path);
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        status = add_tensor(path, &tensors[i], i == 0 && n_metadata == 0, &seen, out, bytes);
    mc_map_deinit(&seen);
    MC_TRY(status);
    bool done = mc_buffer_add_byte(out, '}');
    while (done && out->len % PREFIX_BYTES != 0)
        done = mc_buffer_add_byte(out, ' ');
    if (!done) return mc_fail_nomem(path);
    if (out->len <= MAX_HEADER_BYTES) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: a header of %zu bytes, readers take at most %d: use shards",
                   path, out->len, MAX_HEADER_BYTES);
}

/* ---- one file ---- */

struct mc_weights_writer {
    mc_save save;
    uint64_t left; /* bytes of data that are still to come */
};

static mica_status write_bytes(mc_save *save, const void *data, size_t bytes) {
    errno = 0;
    if (bytes == 0 || fwrite(data, 1, bytes, save->file) == bytes) return MICA_OK;
    return mc_fail_errno(errno ? errno : EIO, "cannot write %s", save->path);
}

static mica_status write_header(mc_save *save, const mc_buffer *header) {
    uint8_t prefix[PREFIX_BYTES];
    for (int i = 0; i < PREFIX_BYTES; i++)
        prefix[i] = (uint8_t)((uint64_t)header->len >> 8 * i);
    MC_TRY(write_bytes(save, prefix, sizeof prefix));
    return write_bytes(save, header->data, header->len);
}

mica_status mc_weights_writer_open(const char *path, const mc_weight_tensor *tensors, size_t count,
                                   const mica_metadata *metadata, size_t n_metadata,
                                   mc_weights_writer **writer) {
    mc_buffer header = {0};
    mc_weights_writer *w = mc_calloc(1, sizeof *w);
    *writer = NULL;
    if (!w) return mc_fail_nomem(path);
    mica_status status = make_header(path, tensors, count, metadata, n_metadata, &header, &w->left);
    if (status == MICA_OK) status = mc_save_open(&w->save, path);
    if (status == MICA_OK) {
        *writer = w;
        status = write_header(&w->save, &header);
        if (status != MICA_OK) status = mc_weights_writer_close(writer, status);
    } else {
        mc_free(w);
    }
    mc_buffer_deinit(&header);
    return status;
}

mica_status mc_weights_writer_add(mc_weights_writer *writer, const void *data, size_t bytes) {
    if (bytes > writer->left)
        return mc_fail(MICA_EINVAL, "%s: more data than its tensors have", writer->save.path);
    writer->left -= bytes;
    return write_bytes(&writer->save, data, bytes);
}

mica_status mc_weights_writer_close(mc_weights_writer **writer, mica_status status) {
    mc_weights_writer *w = *writer;
    if (!w) return status;
    *writer = NULL;
    if (status == MICA_OK && w->left > 0)
        status = mc_fail(MICA_EINVAL, "%s: %" PRIu64 " bytes of its tensors are missing",
                         w->save.path, w->left);
    status = mc_save_close(&w->save, status);
    mc_free(w);
    return status;
}

/* ---- the files of a folder ---- */

struct mc_shard_writer {
    const char *folder;
    const mc_weight_tensor *tensors;
    size_t count;
    uint64_t total, parameters;
    size_t *shard; /* [count] of each tensor */
    size_t n_shards;
    size_t next;             /* first tensor without a file */
    size_t open;             /* shard that is being written */
    char *path;              /* its path */
    mc_weights_writer *file; /* NULL: none */
};

static void shard_name(const mc_shard_writer *w, size_t shard, char name[NAME_BYTES]) {
    if (w->n_shards <= 1)
        snprintf(name, NAME_BYTES, "model.safetensors");
    else
        snprintf(name, NAME_BYTES, "model-%05zu-of-%05zu.safetensors", shard + 1, w->n_shards);
}

static mica_status plan_shards(mc_shard_writer *w, uint64_t shard_bytes) {
    uint64_t used = 0, bytes;
    for (size_t i = 0; i < w->count; i++) {
        if (!mc_weight_bytes(&w->tensors[i], &bytes) || w->total > UINT64_MAX - bytes)
            return mc_fail(MICA_EINVAL, "%s: tensor '%s' has no size", w->folder,
                           w->tensors[i].name);
        if (i > 0 && (bytes > shard_bytes || used > shard_bytes - bytes)) {
            w->n_shards++;
            used = 0;
        }
        w->shard[i] = w->n_shards;
        used += bytes;
        w->total += bytes;
    }
    w->n_shards++;
    return MICA_OK;
}

/* Begins the file of the next tensors. */
static mica_status next_file(mc_shard_writer *w) {
    static const mica_metadata metadata = {"format", "mlx"};
    char name[NAME_BYTES];
    size_t end = w->next;
    w->open = w->count ? w->shard[w->next] : 0;
    while (end < w->count && w->shard[end] == w->open)
        end++;
    shard_name(w, w->open, name);
    mc_free(w->path);
    w->path = mc_path_join(w->folder, name);
    if (!w->path) return mc_fail_nomem(w->folder);
    const mc_weight_tensor *first = w->count ? w->tensors + w->next : NULL;
    MC_TRY(mc_weights_writer_open(w->path, first, end - w->next, &metadata, 1, &w->file));
    w->next = end;
    return MICA_OK;
}

mica_status mc_shard_writer_open(const char *folder, const mc_weight_tensor *tensors, size_t count,
                                 uint64_t shard_bytes, uint64_t parameters,
                                 mc_shard_writer **writer) {
    mc_shard_writer *w = mc_calloc(1, sizeof *w);
    *writer = w;
    if (!w) return mc_fail_nomem(folder);
    *w = (mc_shard_writer){
        .folder = folder, .tensors = tensors, .count = count, .parameters = parameters};
    w->shard = mc_calloc(count ? count : 1, sizeof *w->shard);
    mica_status status = w->shard ? plan_shards(w, shard_bytes) : mc_fail_nomem(folder);
    if (status == MICA_OK) status = next_file(w);
    return status == MICA_OK ? MICA_OK : mc_shard_writer_close(writer, status);
}

mica_status mc_shard_writer_add(mc_shard_writer *w, const void *data, size_t bytes) {
    while (w->file && w->file->left == 0 && w->next < w->count && bytes > 0) {
        MC_TRY(mc_weights_writer_close(&w->file, MICA_OK));
        MC_TRY(next_file(w));
    }
    if (!w->file) return mc_fail(MICA_EINVAL, "%s: a file has failed before", w->folder);
    return mc_weights_writer_add(w->file, data, bytes);
}

static int by_name(const void *a, const void *b) {
    const mc_weight_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static bool put_index(const mc_shard_writer *w, const mc_weight_tensor **sorted, mc_buffer *out) {
    char name[NAME_BYTES];
    bool done = mc_buffer_printf(out,
                                 "{\n    \"metadata\": {\n        \"total_size\": %" PRIu64
                                 ",\n        \"total_parameters\": %" PRIu64
                                 "\n    },\n    \"weight_map\": {",
                                 w->total, w->parameters);
    for (size_t i = 0; done && i < w->count; i++) {
        shard_name(w, w->shard[sorted[i] - w->tensors], name);
        done = mc_buffer_add_text(out, i ? ",\n        " : "\n        ") &&
               mc_json_put_text(out, sorted[i]->name) && mc_buffer_printf(out, ": \"%s\"", name);
    }
    return done && mc_buffer_add_text(out, "\n    }\n}\n");
}

static mica_status save_bytes(const char *path, const mc_buffer *text) {
    mc_save save;
    MC_TRY(mc_save_open(&save, path));
    return mc_save_close(&save, write_bytes(&save, text->data, text->len));
}

static mica_status write_index(const mc_shard_writer *w) {
    mc_buffer text = {0};
    char *path = mc_path_join(w->folder, "model.safetensors.index.json");
    const mc_weight_tensor **sorted = mc_array_alloc(w->count ? w->count : 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < w->count; i++)
        sorted[i] = &w->tensors[i];
    if (sorted) qsort((void *)sorted, w->count, sizeof *sorted, by_name);
    bool done = path && sorted && put_index(w, sorted, &text);
    mica_status status = done ? save_bytes(path, &text) : mc_fail_nomem(w->folder);
    mc_buffer_deinit(&text);
    mc_free(path);
    mc_free((void *)sorted);
    return status;
}

mica_status mc_shard_writer_close(mc_shard_writer **writer, mica_status status) {
    mc_shard_writer *w = *writer;
    if (!w) return status;
    /* Tensors without elements need no call of mc_shard_writer_add. */
    while (status == MICA_OK && w->file && w->file->left == 0 && w->next < w->count) {
        status = mc_weights_writer_close(&w->file, MICA_OK);
        if (status == MICA_OK) status = next_file(w);
    }
    status = mc_weights_writer_close(&w->file, status);
    if (status == MICA_OK) status = write_index(w);
    mc_free(w->path);
    mc_free(w->shard);
    mc_free(w);
    *writer = NULL;
    return status;
}
