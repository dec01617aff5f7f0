#include "io/zip.h"

#include <errno.h>
#include <string.h>

enum { VERSION = 45, DATE = 0x21 /* 1980-01-01: the same files make the same bytes */ };

/* Adds a little-endian number. */
static bool put(mc_buffer *out, uint64_t value, int bytes) {
    uint8_t data[8];
    for (int i = 0; i < bytes; i++)
        data[i] = (uint8_t)(value >> 8 * i);
    return mc_buffer_add(out, data, (size_t)bytes);
}

static mica_status fail_write(const mc_zip_writer *w) {
    return mc_fail_errno(errno ? errno : EIO, "cannot write %s", w->save.path);
}

static mica_status write_bytes(mc_zip_writer *w, const void *data, size_t bytes) {
    errno = 0;
    if (bytes > 0 && fwrite(data, 1, bytes, w->save.file) != bytes) return fail_write(w);
    w->at += bytes;
    return MICA_OK;
}

mica_status mc_zip_writer_open(mc_zip_writer *w, const char *path) {
    *w = (mc_zip_writer){0};
    return mc_save_open(&w->save, path);
}

/* The header before a file. Sizes are 64 bits wide, in the extra field. */
static mica_status write_header(mc_zip_writer *w) {
    mc_buffer out = {0};
    size_t len = strlen(w->name);
    bool done = put(&out, 0x04034b50, 4) && put(&out, VERSION, 2) && put(&out, 0x800, 2) &&
                put(&out, w->deflated ? 8 : 0, 2) && put(&out, 0, 2) && put(&out, DATE, 2) &&
                put(&out, w->sum, 4) && put(&out, 0xffffffff, 4) && put(&out, 0xffffffff, 4) &&
                put(&out, len, 2) && put(&out, 20, 2) && mc_buffer_add(&out, w->name, len) &&
                put(&out, 1, 2) && put(&out, 16, 2) && put(&out, w->bytes, 8) &&
                put(&out, w->packed, 8);
    mica_status status = done ? write_bytes(w, out.data, out.len) : mc_fail_nomem(w->save.path);
    mc_buffer_deinit(&out);
    return status;
}

static mica_status put_packed(void *context, const void *data, size_t bytes) {
    mc_zip_writer *w = context;
    w->packed += bytes;
    return write_bytes(w, data, bytes);
}

mica_status mc_zip_writer_begin(mc_zip_writer *w, const char *name, bool deflate) {
    w->name = name;
    w->begin = w->at;
    w->packed = w->bytes = 0;
    w->sum = 0;
    w->deflated = deflate;
    if (deflate) MC_TRY(mc_deflater_open(put_packed, w, &w->deflater));
    errno = 0;
    if (fgetpos(w->save.file, &w->header) != 0) return fail_write(w);
    return write_header(w);
}

mica_status mc_zip_writer_add(mc_zip_writer *w, const void *data, size_t bytes) {
    w->sum = mc_zip_sum(w->sum, data, bytes);
    w->bytes += bytes;
    if (w->deflater) return mc_deflater_add(w->deflater, data, bytes, false);
    return put_packed(w, data, bytes);
}

/* Writes the header again, with the sizes, and adds the file to the list. */
mica_status mc_zip_writer_end(mc_zip_writer *w) {
    fpos_t end;
    if (w->deflater) MC_TRY(mc_deflater_add(w->deflater, "", 0, true));
    mc_deflater_close(&w->deflater);
    errno = 0;
    uint64_t at = w->at;
    if (fgetpos(w->save.file, &end) != 0 || fsetpos(w->save.file, &w->header) != 0)
        return fail_write(w);
    MC_TRY(write_header(w));
    if (fsetpos(w->save.file, &end) != 0) return fail_write(w);
    w->at = at;
    w->count++;
    mc_buffer *out = &w->list;
    size_t len = strlen(w->name);
    bool done = put(out, 0x02014b50, 4) && put(out, VERSION, 2) && put(out, VERSION, 2) &&
                put(out, 0x800, 2) && put(out, w->deflated ? 8 : 0, 2) && put(out, 0, 2) &&
                put(out, DATE, 2) && put(out, w->sum, 4) && put(out, 0xffffffff, 4) &&
                put(out, 0xffffffff, 4) && put(out, len, 2) && put(out, 28, 2) && put(out, 0, 2) &&
                put(out, 0, 2) && put(out, 0, 2) && put(out, 0, 4) && put(out, 0xffffffff, 4) &&
                mc_buffer_add(out, w->name, len) && put(out, 1, 2) && put(out, 24, 2) &&
                put(out, w->bytes, 8) && put(out, w->packed, 8) && put(out, w->begin, 8);
    return done ? MICA_OK : mc_fail_nomem(w->save.path);
}

/* numpy knows a file without arrays by the short record alone. */
static mica_status write_list(mc_zip_writer *w) {
    static const uint8_t empty[22] = {'P', 'K', 5, 6};
    mc_buffer *out = &w->list;
    if (w->count == 0) return write_bytes(w, empty, sizeof empty);
    uint64_t begin = w->at, bytes = out->len, end = begin + bytes;
    bool done = put(out, 0x06064b50, 4) && put(out, 44, 8) && put(out, VERSION, 2) &&
                put(out, VERSION, 2) && put(out, 0, 4) && put(out, 0, 4) && put(out, w->count, 8) &&
                put(out, w->count, 8) && put(out, bytes, 8) && put(out, begin, 8) &&
                put(out, 0x07064b50, 4) && put(out, 0, 4) && put(out, end, 8) && put(out, 1, 4) &&
                put(out, 0x06054b50, 4) && put(out, 0, 4) && put(out, 0xffff, 2) &&
                put(out, 0xffff, 2) && put(out, 0xffffffff, 4) && put(out, 0xffffffff, 4) &&
                put(out, 0, 2);
    return done ? write_bytes(w, out->data, out->len) : mc_fail_nomem(w->save.path);
}

mica_status mc_zip_writer_close(mc_zip_writer *w, mica_status status) {
    if (status == MICA_OK) status = write_list(w);
    mc_deflater_close(&w->deflater);
    status = mc_save_close(&w->save, status);
    mc_buffer_deinit(&w->list);
    *w = (mc_zip_writer){0};
    return status;
}
