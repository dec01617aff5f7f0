#include "io/gguf_write.h"

#include "base/alloc.h"
#include "base/half.h"
#include "base/save.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 32, MAGIC = 0x46554747, VERSION = 3 };

/* Types of values in the file, of those that are written. */
enum { U8 = 0, U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

/* ---- plain values ---- */

static bool put_int(mc_buffer *out, uint64_t value, int bytes) {
    uint8_t data[8];
    for (int i = 0; i < bytes; i++)
        data[i] = (uint8_t)(value >> 8 * i);
    return mc_buffer_add(out, data, (size_t)bytes);
}

static bool put_text(mc_buffer *out, mc_str text) {
    return put_int(out, text.len, 8) && (text.len == 0 || mc_buffer_add(out, text.ptr, text.len));
}

static bool put_key(mc_gguf_pairs *p, const char *key, uint32_t type) {
    p->count++;
    return put_text(&p->bytes, mc_str_of(key)) && put_int(&p->bytes, type, 4);
}

static bool begin_array(mc_gguf_pairs *p, const char *key, uint32_t element, uint64_t count) {
    return put_key(p, key, ARRAY) && put_int(&p->bytes, element, 4) && put_int(&p->bytes, count, 8);
}

void mc_gguf_pairs_deinit(mc_gguf_pairs *p) {
    mc_buffer_deinit(&p->bytes);
    *p = (mc_gguf_pairs){0};
}

bool mc_gguf_put_u32(mc_gguf_pairs *p, const char *key, uint32_t value) {
    return put_key(p, key, U32) && put_int(&p->bytes, value, 4);
}

bool mc_gguf_put_f32(mc_gguf_pairs *p, const char *key, float value) {
    return put_key(p, key, F32) && mc_gguf_add_f32(p, value);
}

bool mc_gguf_put_bool(mc_gguf_pairs *p, const char *key, bool value) {
    return put_key(p, key, BOOL) && mc_gguf_add_bool(p, value);
}

bool mc_gguf_put_str(mc_gguf_pairs *p, const char *key, mc_str value) {
    return put_key(p, key, STRING) && put_text(&p->bytes, value);
}

bool mc_gguf_begin_strs(mc_gguf_pairs *p, const char *key, uint64_t count) {
    return begin_array(p, key, STRING, count);
}

bool mc_gguf_begin_i32s(mc_gguf_pairs *p, const char *key, uint64_t count) {
    return begin_array(p, key, I32, count);
}

bool mc_gguf_begin_f32s(mc_gguf_pairs *p, const char *key, uint64_t count) {
    return begin_array(p, key, F32, count);
}

bool mc_gguf_begin_bools(mc_gguf_pairs *p, const char *key, uint64_t count) {
    return begin_array(p, key, BOOL, count);
}

bool mc_gguf_put_bytes(mc_gguf_pairs *p, const char *key, const void *bytes, size_t count) {
    return begin_array(p, key, U8, count) && mc_buffer_add(&p->bytes, bytes, count);
}

bool mc_gguf_add_str(mc_gguf_pairs *p, mc_str value) {
    return put_text(&p->bytes, value);
}

bool mc_gguf_add_i32(mc_gguf_pairs *p, int32_t value) {
    return put_int(&p->bytes, (uint32_t)value, 4);
}

bool mc_gguf_add_f32(mc_gguf_pairs *p, float value) {
    return put_int(&p->bytes, mc_f32_bits(value), 4);
}

bool mc_gguf_add_bool(mc_gguf_pairs *p, bool value) {
    return mc_buffer_add_byte(&p->bytes, value);
}

/* ---- the file ---- */

typedef struct place {
    const mc_ggml_type *type; /* NULL: the tensor has no data yet */
    uint64_t offset;
} place;

struct mc_gguf_writer {
    mc_save save;
    const mc_gguf_tensor *tensors;
    size_t count, next;
    fpos_t begin;   /* of the header */
    place *places;  /* [count] */
    mc_buffer head; /* the header, but for types and positions */
    uint64_t at;    /* bytes of data that are written */
    uint64_t left;  /* bytes of the current tensor that are still to come */
    size_t list;    /* where the list of tensors begins in `head` */
};

static mica_status fail_write(const mc_gguf_writer *w) {
    return mc_fail_errno(errno ? errno : EIO, "cannot write %s", w->save.path);
}

static mica_status write_bytes(mc_gguf_writer *w, const void *data, size_t bytes) {
    errno = 0;
    if (bytes == 0 || fwrite(data, 1, bytes, w->save.file) == bytes) return MICA_OK;
    return fail_write(w);
}

/* Adds the list of tensors to the header. Its size does not depend on types and positions. */
static bool put_tensors(mc_gguf_writer *w) {
    bool done = true;
    w->head.len = w->list;
    for (size_t i = 0; done && i < w->count; i++) {
        const mc_gguf_tensor *t = &w->tensors[i];
        const place *p = &w->places[i];
        done = put_text(&w->head, mc_str_of(t->name)) && put_int(&w->head, (uint64_t)t->ndim, 4);
        for (int k = t->ndim; done && k-- > 0;)
            done = put_int(&w->head, (uint64_t)t->shape[k], 8);
        done = done && put_int(&w->head, p->type ? p->type->id : 0, 4) &&
               put_int(&w->head, p->offset, 8);
    }
    while (done && w->head.len % ALIGNMENT != 0)
        done = mc_buffer_add_byte(&w->head, 0);
    return done;
}

static mica_status begin_file(mc_gguf_writer *w, const mc_gguf_pairs *pairs) {
    bool done = put_int(&w->head, MAGIC, 4) && put_int(&w->head, VERSION, 4) &&
                put_int(&w->head, w->count, 8) && put_int(&w->head, pairs->count, 8) &&
                mc_buffer_add(&w->head, pairs->bytes.data, pairs->bytes.len);
    w->list = w->head.len;
    if (!done || !put_tensors(w)) return mc_fail_nomem(w->save.path);
    errno = 0;
    if (fgetpos(w->save.file, &w->begin) != 0) return fail_write(w);
    return write_bytes(w, w->head.data, w->head.len);
}

mica_status mc_gguf_writer_open(const char *path, const mc_gguf_pairs *pairs,
                                const mc_gguf_tensor *tensors, size_t count,
                                mc_gguf_writer **writer) {
    mc_gguf_writer *w = mc_calloc(1, sizeof *w);
    *writer = NULL;
    if (!w) return mc_fail_nomem(path);
    w->tensors = tensors;
    w->count = count;
    w->places = mc_calloc(count + 1, sizeof *w->places);
    mica_status status = w->places ? mc_save_open(&w->save, path) : mc_fail_nomem(path);
    if (status != MICA_OK) {
        mc_free(w->places);
        mc_free(w);
        return status;
    }
    *writer = w;
    status = begin_file(w, pairs);
    return status == MICA_OK ? MICA_OK : mc_gguf_writer_close(writer, status);
}

static mica_status check_complete(const mc_gguf_writer *w) {
    if (w->left == 0) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: data of tensor %s is missing", w->save.path,
                   w->tensors[w->next - 1].name);
}

mica_status mc_gguf_writer_next(mc_gguf_writer *w, const mc_ggml_type *type) {
    static const uint8_t zeros[ALIGNMENT];
    MC_TRY(check_complete(w));
    if (w->next == w->count)
        return mc_fail(MICA_EINVAL, "%s: more tensors than were named", w->save.path);
    const mc_gguf_tensor *t = &w->tensors[w->next];
    uint64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= (uint64_t)t->shape[i];
    if (n % type->block != 0 || (t->ndim > 0 && t->shape[t->ndim - 1] % type->block != 0))
        return mc_fail(MICA_EINVAL, "%s: tensor %s: its rows are no whole blocks of %s",
                       w->save.path, t->name, type->name);
    size_t pad = (size_t)(-w->at & (ALIGNMENT - 1));
    MC_TRY(write_bytes(w, zeros, pad));
    w->at += pad;
    w->places[w->next++] = (place){type, w->at};
    w->left = n / type->block * type->bytes;
    return MICA_OK;
}

mica_status mc_gguf_writer_add(mc_gguf_writer *w, const void *data, size_t bytes) {
    if (bytes > w->left)
        return mc_fail(MICA_EINVAL, "%s: more data than a tensor has", w->save.path);
    w->left -= bytes;
    w->at += bytes;
    return write_bytes(w, data, bytes);
}

uint64_t mc_gguf_writer_bytes(const mc_gguf_writer *w) {
    return w->at;
}

/* Writes the header again, with types and positions, and pads the last tensor. */
static mica_status end_file(mc_gguf_writer *w) {
    static const uint8_t zeros[ALIGNMENT];
    MC_TRY(check_complete(w));
    if (w->next < w->count)
        return mc_fail(MICA_EINVAL, "%s: tensor %s has no data", w->save.path,
                       w->tensors[w->next].name);
    MC_TRY(write_bytes(w, zeros, (size_t)(-w->at & (ALIGNMENT - 1))));
    if (!put_tensors(w)) return mc_fail_nomem(w->save.path);
    errno = 0;
    if (fsetpos(w->save.file, &w->begin) != 0) return fail_write(w);
    return write_bytes(w, w->head.data, w->head.len);
}

mica_status mc_gguf_writer_close(mc_gguf_writer **writer, mica_status status) {
    mc_gguf_writer *w = *writer;
    if (!w) return status;
    *writer = NULL;
    if (status == MICA_OK) status = end_file(w);
    status = mc_save_close(&w->save, status);
    mc_buffer_deinit(&w->head);
    mc_free(w->places);
    mc_free(w);
    return status;
}
