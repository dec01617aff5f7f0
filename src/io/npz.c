#include "io/npz.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/map.h"

#include <string.h>

struct mc_npz {
    const char *path;
    mc_arena arena;
    mc_filemap map;
    mc_npz_array *arrays; /* [count] */
    size_t count;
    mc_map by_name;
};

/* ---- opening ---- */

static bool begins_npy(const uint8_t *bytes, size_t size) {
    return size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0;
}

/* The header of the first file, or the end of an empty list. */
static bool begins_zip(const uint8_t *bytes, size_t size) {
    return size >= 4 && (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "PK\5\6", 4) == 0);
}

bool mc_npz_is(const char *path) {
    mc_filemap head;
    size_t size;
    if (!mc_path_is_file(path) || mc_filemap_read_head(path, 8, &head, &size) != MICA_OK)
        return false;
    bool is = begins_npy(head.data, head.size) || begins_zip(head.data, head.size);
    mc_filemap_close(&head);
    return is;
}

/* Reads the header of a file in the zip file, of which only the beginning is unpacked. */
static mica_status read_header(const mc_npz *z, mc_npz_array *a) {
    size_t bytes =
        a->entry.bytes < MC_NPY_MAX_HEADER + 12 ? (size_t)a->entry.bytes : MC_NPY_MAX_HEADER + 12;
    uint8_t *head = mc_alloc(bytes + 1);
    if (!head) return mc_fail_nomem(z->path);
    mica_status status = mc_zip_read(&a->entry, z->path, head, bytes);
    if (status == MICA_OK) status = mc_npy_parse(head, bytes, z->path, &a->npy);
    mc_free(head);
    if (status != MICA_OK) return mc_fail_context(status, "array %s", a->name);
    if (a->npy.header + a->npy.bytes == a->entry.bytes) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: array %s has %llu bytes, its header says %llu", z->path,
                   a->name, (unsigned long long)a->entry.bytes,
                   (unsigned long long)(a->npy.header + a->npy.bytes));
}

static mica_status add_array(mc_npz *z, const mc_zip_entry *entry, const char *name, size_t len) {
    uint64_t there;
    mc_npz_array *a = &z->arrays[z->count];
    *a = (mc_npz_array){.name = mc_arena_strndup(&z->arena, name, len), .entry = *entry};
    if (!a->name) return mc_fail_nomem(z->path);
    if (mc_map_find(&z->by_name, mc_str_of(a->name), &there))
        return mc_fail(MICA_EFORMAT, "%s: array %s is there twice", z->path, a->name);
    MC_TRY(read_header(z, a));
    if (!mc_map_put(&z->by_name, mc_str_of(a->name), z->count++)) return mc_fail_nomem(z->path);
    return MICA_OK;
}

static mica_status read_zip(mc_npz *z, const uint8_t *bytes, size_t size) {
    mc_zip_entry *entries;
    size_t n;
    MC_TRY(mc_zip_list(bytes, size, z->path, &z->arena, &entries, &n));
    z->arrays = mc_arena_calloc(&z->arena, (n + 1) * sizeof *z->arrays);
    if (!z->arrays) return mc_fail_nomem(z->path);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(entries[i].name);
        if (len < 4 || strcmp(entries[i].name + len - 4, ".npy") != 0) continue;
        MC_TRY(add_array(z, &entries[i], entries[i].name, len - 4));
    }
    return MICA_OK;
}

static mica_status read_npy(mc_npz *z, const uint8_t *bytes, size_t size) {
    const mc_zip_entry entry = {.name = "arr_0", .data = bytes, .packed = size, .bytes = size};
    z->arrays = mc_arena_calloc(&z->arena, sizeof *z->arrays);
    if (!z->arrays) return mc_fail_nomem(z->path);
    return add_array(z, &entry, "arr_0", 5);
}

static mica_status read_all(mc_npz *z, const uint8_t *bytes, size_t size) {
    if (begins_npy(bytes, size)) return read_npy(z, bytes, size);
    if (begins_zip(bytes, size)) return read_zip(z, bytes, size);
    return mc_fail(MICA_EFORMAT, "%s: is neither an npy nor an npz file", z->path);
}

static mica_status new_npz(const char *path, mc_npz **npz) {
    *npz = mc_calloc(1, sizeof **npz);
    if (!*npz) return mc_fail_nomem(path);
    (*npz)->path = mc_arena_strndup(&(*npz)->arena, path, strlen(path));
    if ((*npz)->path) return MICA_OK;
    mc_npz_close(npz);
    return mc_fail_nomem(path);
}

mica_status mc_npz_open(const char *path, mc_npz **npz) {
    MC_TRY(new_npz(path, npz));
    mica_status status = mc_filemap_open(path, MC_FILE_WEIGHTS, &(*npz)->map);
    if (status == MICA_OK) status = read_all(*npz, (*npz)->map.data, (*npz)->map.size);
    if (status != MICA_OK) mc_npz_close(npz);
    return status;
}

mica_status mc_npz_parse(const void *bytes, size_t size, const char *name, mc_npz **npz) {
    MC_TRY(new_npz(name, npz));
    mica_status status = read_all(*npz, bytes, size);
    if (status != MICA_OK) mc_npz_close(npz);
    return status;
}

void mc_npz_close(mc_npz **npz) {
    mc_npz *z = *npz;
    if (!z) return;
    mc_filemap_close(&z->map);
    mc_map_deinit(&z->by_name);
    mc_arena_deinit(&z->arena);
    mc_free(z);
    *npz = NULL;
}

/* ---- reading ---- */

size_t mc_npz_count(const mc_npz *z) {
    return z->count;
}

const mc_npz_array *mc_npz_at(const mc_npz *z, size_t i) {
    return &z->arrays[i];
}

bool mc_npz_find(const mc_npz *z, const char *name, size_t *i) {
    uint64_t found;
    if (!mc_map_find(&z->by_name, mc_str_of(name), &found)) return false;
    *i = (size_t)found;
    return true;
}

mica_status mc_npz_read(const mc_npz *z, size_t i, void **data) {
    const mc_npz_array *a = &z->arrays[i];
    uint8_t *bytes =
        a->entry.bytes < SIZE_MAX ? mc_alloc((size_t)a->entry.bytes + 1) : NULL; /* of 32 bits */
    *data = NULL;
    if (!bytes) return mc_fail_nomem(z->path);
    mica_status status = mc_zip_read(&a->entry, z->path, bytes, (size_t)a->entry.bytes);
    if (status != MICA_OK) {
        mc_free(bytes);
        return status;
    }
    memmove(bytes, bytes + a->npy.header, (size_t)a->npy.bytes);
    for (size_t k = 0; a->npy.has_dtype && a->npy.dtype == MICA_BOOL && k < a->npy.bytes; k++)
        bytes[k] = bytes[k] != 0;
    *data = bytes;
    return MICA_OK;
}
