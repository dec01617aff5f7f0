#include "tune/lines.h"

#include "base/filemap.h"

#include <errno.h>
#include <string.h>

enum { PIECE = 1 << 18 };

static const mc_unpacker *const unpackers[] = {&mc_unpacker_gzip, &mc_unpacker_zstd};

static mica_status find_unpacker(mc_lines *l) {
    unsigned char head[4] = {0};
    size_t n = fread(head, 1, sizeof head, l->file);
    rewind(l->file);
    for (size_t i = 0; i < sizeof unpackers / sizeof *unpackers; i++) {
        const mc_unpacker *u = unpackers[i];
        if (n < u->magic_bytes || memcmp(head, u->magic, u->magic_bytes) != 0) continue;
        if (!u->open)
            return mc_fail(MICA_EUNSUPPORTED,
                           "%s: is compressed by %s, which this build of mica cannot read: "
                           "uncompress it",
                           l->path, u->name);
        l->unpacker = u;
        l->state = u->open();
        return l->state ? MICA_OK : mc_fail_nomem(l->path);
    }
    return MICA_OK;
}

mica_status mc_lines_open(mc_lines *l, const char *path) {
    *l = (mc_lines){.path = path};
    mc_path_info info;
    if (mc_path_stat(path, &info) && !info.is_file)
        return mc_fail(MICA_EIO, "%s: is no regular file", path);
    l->file = fopen(path, "rbe");
    if (!l->file) return mc_fail_errno(errno, "%s", path);
    return find_unpacker(l);
}

void mc_lines_close(mc_lines *l) {
    if (l->file) fclose(l->file);
    if (l->state) l->unpacker->close(l->state);
    mc_buffer_deinit(&l->packed);
    mc_buffer_deinit(&l->text);
    *l = (mc_lines){0};
}

/* Reads a piece of the file to the end of a buffer. */
static mica_status read_piece(mc_lines *l, mc_buffer *b) {
    if (!mc_buffer_reserve(b, PIECE)) return mc_fail_nomem(l->path);
    size_t n = fread(b->data + b->len, 1, PIECE, l->file);
    b->len += n;
    if (n > 0) return MICA_OK;
    if (ferror(l->file)) return mc_fail_errno(errno, "%s", l->path);
    l->ended = true;
    return MICA_OK;
}

static mica_status unpack_piece(mc_lines *l) {
    if (l->packed_at == l->packed.len) {
        mc_buffer_clear(&l->packed);
        l->packed_at = 0;
        MC_TRY(read_piece(l, &l->packed));
    }
    size_t left = l->packed.len - l->packed_at, room = PIECE;
    if (!left && !l->done)
        return mc_fail(MICA_EFORMAT, "%s: the %s data is cut off", l->path, l->unpacker->name);
    if (!left || !mc_buffer_reserve(&l->text, PIECE))
        return left ? mc_fail_nomem(l->path) : MICA_OK;
    const unsigned char *in = (const unsigned char *)l->packed.data + l->packed_at;
    l->ended = false; /* what was unpacked may be followed by more of the same piece */
    const char *wrong = l->unpacker->unpack(
        l->state, &in, &left, (unsigned char *)l->text.data + l->text.len, &room, &l->done);
    if (wrong)
        return mc_fail(MICA_EFORMAT, "%s: corrupt %s data: %s", l->path, l->unpacker->name, wrong);
    l->text.len += PIECE - room;
    l->read += l->packed.len - left - l->packed_at;
    l->unpacked += PIECE - room;
    l->packed_at = l->packed.len - left;
    if (l->unpacked <= MC_LINE_MAX + MC_UNPACK_MAX * l->read) return MICA_OK;
    return mc_fail(MICA_EFORMAT,
                   "%s: the %s data is more than %d times as long as the file: uncompress it, if "
                   "that is right",
                   l->path, l->unpacker->name, MC_UNPACK_MAX);
}

/* Gets more text, after moving the rest to the front. */
static mica_status fill(mc_lines *l) {
    size_t rest = l->text.len - l->at;
    if (l->at > 0) memmove(l->text.data, l->text.data + l->at, rest);
    l->text.len = rest;
    l->at = 0;
    if (rest > MC_LINE_MAX)
        return mc_fail(MICA_EFORMAT, "%s: line %llu has more than %d bytes", l->path,
                       (unsigned long long)l->number + 1, MC_LINE_MAX);
    return l->unpacker ? unpack_piece(l) : read_piece(l, &l->text);
}

mica_status mc_lines_next(mc_lines *l, mc_str *line) {
    size_t looked = 0;
    *line = (mc_str){NULL, 0};
    for (;;) {
        size_t rest = l->text.len - l->at;
        const char *begin = rest ? l->text.data + l->at : NULL;
        const char *end = rest > looked ? memchr(begin + looked, '\n', rest - looked) : NULL;
        if (end || (l->ended && rest > 0)) {
            size_t len = end ? (size_t)(end - begin) : rest;
            l->at += end ? len + 1 : len;
            l->number++;
            *line = (mc_str){begin, len};
            return MICA_OK;
        }
        if (l->ended) return MICA_OK;
        looked = rest;
        MC_TRY(fill(l));
    }
}

mica_status mc_lines_part(mc_lines *l, mc_str *part, bool *ends) {
    *part = (mc_str){NULL, 0};
    *ends = false;
    while (l->at == l->text.len) {
        if (l->ended) return MICA_OK;
        MC_TRY(fill(l));
    }
    size_t rest = l->text.len - l->at;
    const char *begin = l->text.data + l->at, *end = memchr(begin, '\n', rest);
    size_t len = end ? (size_t)(end - begin) : rest;
    l->number += !l->within;
    l->within = !end;
    l->at += end ? len + 1 : len;
    *part = (mc_str){begin, len};
    *ends = end != NULL;
    return MICA_OK;
}

mica_status mc_lines_peek(mc_lines *l, char *c) {
    static const char mark[] = "\xEF\xBB\xBF";
    *c = '\0';
    for (size_t i = 0;;) {
        size_t rest = l->text.len - l->at;
        const char *begin = rest ? l->text.data + l->at : NULL;
        for (; i < rest; i++) {
            if (memchr(" \t\r\n", begin[i], 4) || (i < 3 && begin[i] == mark[i])) continue;
            *c = begin[i];
            return MICA_OK;
        }
        if (l->ended) return MICA_OK;
        MC_TRY(fill(l));
    }
}
