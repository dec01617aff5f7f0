#include "io/zip.h"

#include "base/utf8.h"

#include <string.h>

enum {
    LOCAL = 0x04034b50,
    LISTED = 0x02014b50,
    END = 0x06054b50,
    END_64 = 0x06064b50,
    LOCATOR_64 = 0x07064b50,
    LOCAL_BYTES = 30,
    LISTED_BYTES = 46,
    END_BYTES = 22,
    END_64_BYTES = 56,
    LOCATOR_64_BYTES = 20,
    MAX_COMMENT = 65535,
    MAX_RATIO = 1032 /* of deflate */
};

static const uint64_t wide = 0xffffffffu; /* a 32-bit field that means: see the 64-bit one */

typedef struct file {
    const uint8_t *bytes;
    size_t size;
    const char *name;
} file;

static uint64_t le(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

static mica_status bad(const file *f, const char *why) {
    return mc_fail(MICA_EFORMAT, "%s: %s (is it cut short?)", f->name, why);
}

uint32_t mc_zip_sum(uint32_t sum, const void *data, size_t bytes) {
    uint32_t table[256];
    const uint8_t *at = data;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    sum = ~sum;
    for (size_t i = 0; i < bytes; i++)
        sum = sum >> 8 ^ table[(sum ^ at[i]) & 255];
    return ~sum;
}

/* ---- the end of the file ---- */

typedef struct list {
    uint64_t count, begin, bytes;
} list;

/* The 64-bit record, which a locator before the end names. */
static mica_status read_end_64(const file *f, size_t end, list *out) {
    if (end < LOCATOR_64_BYTES || le(f->bytes + end - LOCATOR_64_BYTES, 4) != LOCATOR_64)
        return bad(f, "its 64-bit record is missing");
    uint64_t at = le(f->bytes + end - LOCATOR_64_BYTES + 8, 8);
    if (at > end || end - at < END_64_BYTES || le(f->bytes + at, 4) != END_64)
        return bad(f, "its 64-bit record is missing");
    const uint8_t *record = f->bytes + at;
    *out = (list){le(record + 32, 8), le(record + 48, 8), le(record + 40, 8)};
    return MICA_OK;
}

static mica_status find_list(const file *f, list *out) {
    if (f->size < END_BYTES) return bad(f, "is no zip file");
    size_t last = f->size - END_BYTES, first = last > MAX_COMMENT ? last - MAX_COMMENT : 0;
    size_t at = last + 1;
    do {
        if (at-- == first) return bad(f, "has no list of files at its end");
    } while (le(f->bytes + at, 4) != END);
    const uint8_t *end = f->bytes + at;
    if (le(end + 4, 2) != 0 && le(end + 4, 2) != 0xffff)
        return mc_fail(MICA_EUNSUPPORTED, "%s: a zip file in several parts", f->name);
    *out = (list){le(end + 10, 2), le(end + 16, 4), le(end + 12, 4)};
    if (out->count == 0xffff || out->begin == wide || out->bytes == wide)
        MC_TRY(read_end_64(f, at, out));
    if (out->begin > f->size || out->bytes > f->size - out->begin)
        return bad(f, "its list of files is outside of it");
    return MICA_OK;
}

/* ---- one file ---- */

/* Reads the 64-bit fields that stand for 32-bit ones, in this order. */
static mica_status read_extra(const file *f, const uint8_t *extra, size_t len,
                              uint64_t *fields[3]) {
    while (len >= 4) {
        uint64_t id = le(extra, 2), bytes = le(extra + 2, 2);
        extra += 4;
        len -= 4;
        if (bytes > len) break;
        if (id != 1) {
            extra += bytes;
            len -= (size_t)bytes;
            continue;
        }
        for (int i = 0; i < 3; i++) {
            if (*fields[i] != wide) continue;
            if (bytes < 8) return bad(f, "a 64-bit field is missing");
            *fields[i] = le(extra, 8);
            extra += 8;
            bytes -= 8;
        }
        return MICA_OK;
    }
    for (int i = 0; i < 3; i++)
        if (*fields[i] == wide) return bad(f, "a 64-bit field is missing");
    return MICA_OK;
}

static mica_status find_data(const file *f, uint64_t header, mc_zip_entry *e) {
    if (header > f->size || f->size - header < LOCAL_BYTES || le(f->bytes + header, 4) != LOCAL)
        return bad(f, "a file in it has no header");
    const uint8_t *local = f->bytes + header;
    uint64_t skip = LOCAL_BYTES + le(local + 26, 2) + le(local + 28, 2);
    if (skip > f->size - header || e->packed > f->size - header - skip)
        return bad(f, "a file in it ends behind it");
    e->data = local + skip;
    return MICA_OK;
}

static mica_status check_entry(const file *f, const mc_zip_entry *e, uint64_t flags,
                               uint64_t method) {
    if (flags & 1) return mc_fail(MICA_EUNSUPPORTED, "%s: %s is encrypted", f->name, e->name);
    if (method != 0 && method != 8)
        return mc_fail(MICA_EUNSUPPORTED, "%s: %s is compressed by method %d; mica knows deflate",
                       f->name, e->name, (int)method);
    if (e->deflated ? e->bytes / MAX_RATIO > e->packed : e->bytes != e->packed)
        return mc_fail(MICA_EFORMAT, "%s: %s cannot have the size that it claims", f->name,
                       e->name);
    return MICA_OK;
}

/* Reads an entry of the list; *at moves on. */
static mica_status read_entry(const file *f, const uint8_t **at, const uint8_t *end,
                              mc_arena *arena, mc_zip_entry *e) {
    const uint8_t *p = *at;
    if (end - p < LISTED_BYTES || le(p, 4) != LISTED) return bad(f, "its list of files is broken");
    size_t name = (size_t)le(p + 28, 2), extra = (size_t)le(p + 30, 2);
    size_t comment = (size_t)le(p + 32, 2);
    if ((size_t)(end - p) - LISTED_BYTES < name + extra + comment)
        return bad(f, "its list of files is broken");
    const char *text = (const char *)p + LISTED_BYTES;
    if (memchr(text, 0, name) || !mc_utf8_valid(text, name))
        return bad(f, "a name in it is ill-formed");
    uint64_t header = le(p + 42, 4);
    *e = (mc_zip_entry){.name = mc_arena_strndup(arena, text, name),
                        .packed = le(p + 20, 4),
                        .bytes = le(p + 24, 4),
                        .sum = (uint32_t)le(p + 16, 4),
                        .summed = true,
                        .deflated = le(p + 10, 2) == 8};
    if (!e->name) return mc_fail_nomem(f->name);
    uint64_t *fields[] = {&e->bytes, &e->packed, &header};
    MC_TRY(read_extra(f, p + LISTED_BYTES + name, extra, fields));
    MC_TRY(check_entry(f, e, le(p + 8, 2), le(p + 10, 2)));
    *at = p + LISTED_BYTES + name + extra + comment;
    return find_data(f, header, e);
}

mica_status mc_zip_list(const uint8_t *bytes, size_t size, const char *name, mc_arena *arena,
                        mc_zip_entry **entries, size_t *n) {
    const file f = {bytes, size, name};
    list l = {0};
    MC_TRY(find_list(&f, &l));
    if (l.count > l.bytes / LISTED_BYTES) return bad(&f, "its list of files is broken");
    const uint8_t *at = bytes + l.begin, *end = at + l.bytes;
    *n = (size_t)l.count;
    *entries = mc_arena_calloc(arena, (*n + 1) * sizeof **entries);
    if (!*entries) return mc_fail_nomem(name);
    uint64_t left = size;
    for (size_t i = 0; i < *n; i++) {
        const mc_zip_entry *e = &(*entries)[i];
        MC_TRY(read_entry(&f, &at, end, arena, &(*entries)[i]));
        /* Else a small file could unpack to any size, many times the same bytes. */
        if (e->packed > left)
            return mc_fail(MICA_EFORMAT, "%s: %s overlaps other files in it", name, e->name);
        left -= e->packed;
    }
    return MICA_OK;
}

mica_status mc_zip_read(const mc_zip_entry *e, const char *name, uint8_t *out, size_t bytes) {
    bool whole = bytes == e->bytes;
    if (e->deflated)
        MC_TRY(mc_inflate(name, e->data, (size_t)e->packed, out, bytes, whole));
    else if (bytes > 0)
        memcpy(out, e->data, bytes);
    if (!whole || !e->summed || mc_zip_sum(0, out, bytes) == e->sum) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: %s has another checksum than its data", name, e->name);
}
