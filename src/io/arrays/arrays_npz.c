/* Arrays as files of numpy's: npz and npy. */
#include <mica/io.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"
#include "io/arrays/arrays.h"
#include "io/npy.h"
#include "io/zip.h"

#include <errno.h>
#include <string.h>

enum { MAX_NAME = 1024 };

static mica_status check_array(const char *path, const char *name, mica_array x) {
    if (!x.scope) return mc_fail(MICA_EINVAL, "%s: array '%s' is MICA_NONE", path, name);
    return mica_eval(x.scope, x);
}

static mica_status check_names(const char *path, const mica_named_array *arrays, size_t n) {
    mc_map seen = {0};
    mica_status status = MICA_OK;
    uint64_t there;
    for (size_t i = 0; status == MICA_OK && i < n; i++) {
        mc_str name = mc_str_of(arrays[i].name ? arrays[i].name : "");
        if (name.len == 0 || name.len > MAX_NAME || !mc_utf8_valid(name.ptr, name.len))
            status = mc_fail(MICA_EINVAL, "%s: array %zu has no name of 1 to %d bytes in UTF-8",
                             path, i, MAX_NAME);
        else if (mc_map_find(&seen, name, &there))
            status = mc_fail(MICA_EINVAL, "%s: two arrays are called '%s'", path, name.ptr);
        else if (!mc_map_put(&seen, name, i))
            status = mc_fail_nomem(path);
    }
    mc_map_deinit(&seen);
    return status;
}

static mica_status header_of(mica_array x, mc_buffer *out) {
    return mc_npy_put_header(mica_array_dtype(x), mica_array_shape(x), mica_array_ndim(x), out);
}

/* ---- npz ---- */

static mica_status add_to_zip(void *writer, const void *data, size_t bytes) {
    return mc_zip_writer_add(writer, data, bytes);
}

static mica_status write_entry(mc_zip_writer *w, const char *name, mica_array x, bool compress) {
    mc_buffer header = {0}, file = {0};
    mica_status status = header_of(x, &header);
    if (status == MICA_OK && !(mc_buffer_printf(&file, "%s.npy", name) && mc_buffer_cstr(&file)))
        status = mc_fail_nomem("an array's name");
    if (status == MICA_OK) status = mc_zip_writer_begin(w, file.data, compress);
    if (status == MICA_OK) status = mc_zip_writer_add(w, header.data, header.len);
    if (status == MICA_OK) status = mc_array_bytes(x, add_to_zip, w);
    if (status == MICA_OK) status = mc_zip_writer_end(w);
    mc_buffer_deinit(&header);
    mc_buffer_deinit(&file);
    return status;
}

mica_status mica_save_npz(const char *path, const mica_named_array *arrays, size_t n,
                          bool compress) {
    mc_zip_writer w;
    if (!path || (n && !arrays)) return mc_fail(MICA_EINVAL, "mica_save_npz: NULL");
    MC_TRY(check_names(path, arrays, n));
    for (size_t i = 0; i < n; i++)
        MC_TRY(check_array(path, arrays[i].name, arrays[i].array));
    MC_TRY(mc_zip_writer_open(&w, path));
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < n; i++)
        status = write_entry(&w, arrays[i].name, arrays[i].array, compress);
    return mc_zip_writer_close(&w, status);
}

/* ---- npy ---- */

static mica_status write_bytes(void *context, const void *data, size_t bytes) {
    const mc_save *save = context;
    errno = 0;
    if (bytes == 0 || fwrite(data, 1, bytes, save->file) == bytes) return MICA_OK;
    return mc_fail_errno(errno ? errno : EIO, "cannot write %s", save->path);
}

mica_status mica_save_npy(const char *path, mica_array x) {
    mc_save save;
    mc_buffer header = {0};
    if (!path) return mc_fail(MICA_EINVAL, "mica_save_npy: NULL");
    MC_TRY(check_array(path, "", x));
    mica_status status = header_of(x, &header);
    if (status == MICA_OK) status = mc_save_open(&save, path);
    if (status == MICA_OK) {
        status = write_bytes(&save, header.data, header.len);
        if (status == MICA_OK) status = mc_array_bytes(x, write_bytes, &save);
        status = mc_save_close(&save, status);
    }
    mc_buffer_deinit(&header);
    return status;
}
