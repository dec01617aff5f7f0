#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE /* O_NOFOLLOW */

#include "hub/download.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/system.h"
#include "hub/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 5, PIECE = 1 << 20, LOCK_WAIT_US = 200000 };

typedef enum load_state {
    WAITING,
    READING, /* what is there of it, for its checksum */
    LOADING,
    LOADED
} load_state;

typedef struct load { /* one file */
    const mc_hub_file *file;
    load_state state;
    uint64_t at_us; /* WAITING: not before that time */
    int lock, fd;   /* -1: none */
    char *part;     /* the path of the file that is being written */
    char *url;
    uint64_t have;     /* bytes that are in it */
    uint64_t read;     /* READING: of these, bytes that the digest has */
    uint64_t max_have; /* the largest number that there were */
    mc_digest *digest;
    int tries;      /* without progress */
    bool continued; /* its beginning was there before */
    bool failed;    /* writing failed: no use in trying again */
    mc_http_transfer transfer;
} load;

typedef struct batch {
    const mc_download_options *options;
    load *loads; /* [count] */
    char *piece; /* [PIECE], or NULL: what is read of a file's beginning */
    size_t count, running, reading;
    uint64_t total;
} batch;

/* ---- files ---- */

static bool is_whole(const mc_repository *repository, const mc_hub_file *file) {
    mc_path_info info;
    char *blob = mc_repository_blob(repository, file->blob, "");
    bool whole = blob && mc_path_stat(blob, &info) && info.is_file && info.bytes == file->size;
    mc_free(blob);
    return whole;
}

uint64_t mc_download_present(const mc_repository *repository, const mc_hub_file *file) {
    mc_path_info info;
    if (is_whole(repository, file)) return file->size;
    char *part = mc_repository_blob(repository, file->blob, ".incomplete");
    bool there = part && mc_path_stat(part, &info) && info.is_file && info.bytes <= file->size;
    mc_free(part);
    return there ? info.bytes : 0;
}

/* Begins the file anew. */
static mica_status empty(load *l) {
    mc_digest_close(&l->digest);
    l->have = 0;
    l->continued = false;
    if (ftruncate(l->fd, 0) != 0 || lseek(l->fd, 0, SEEK_SET) != 0)
        return mc_fail_errno(errno, "cannot write %s", l->part);
    return mc_digest_open(l->file->sha256, l->file->size, &l->digest);
}

static mica_status open_part(batch *b, load *l) {
    mc_free(l->part);
    l->part = mc_repository_blob(b->options->repository, l->file->blob, ".incomplete");
    if (!l->part) return mc_fail_nomem("a path");
    MC_TRY(mc_make_folders(l->part));
    l->fd = open(l->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (l->fd < 0) return mc_fail_errno(errno, "cannot write %s", l->part);
    struct stat info;
    if (fstat(l->fd, &info) != 0 || (uint64_t)info.st_size > l->file->size) return empty(l);
    l->have = (uint64_t)info.st_size;
    l->read = 0;
    if (l->have > 0) l->state = READING;
    return mc_digest_open(l->file->sha256, l->file->size, &l->digest);
}

static void close_part(load *l) {
    mc_digest_close(&l->digest);
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

static mica_status write_all(load *l, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t n = write(l->fd, bytes, count);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return mc_fail_errno(errno, "cannot write %s", l->part);
        bytes += n;
        count -= (size_t)n;
    }
    return MICA_OK;
}

/* ---- a file's transfer ---- */

static mica_status take(mc_http_transfer *t, const void *bytes, size_t count) {
    load *l = t->user;
    mica_status status = MICA_OK;
    if (!t->partial && t->from > 0) { /* the hub sends it from its beginning */
        status = empty(l);
        t->from = 0;
    }
    if (status == MICA_OK && count > l->file->size - l->have)
        status = mc_fail(MICA_EFORMAT, "it is longer than the hub said");
    if (status == MICA_OK) status = write_all(l, bytes, count);
    if (status == MICA_OK && !mc_digest_add(l->digest, bytes, count))
        status = mc_fail_nomem("a checksum");
    l->failed = status != MICA_OK;
    if (l->failed) return status;
    l->have += count;
    if (l->have > l->max_have) l->tries = 0;
    if (l->have > l->max_have) l->max_have = l->have;
    return MICA_OK;
}

static mica_status start_transfer(batch *b, load *l) {
    const mc_download_options *o = b->options;
    mc_buffer url = {0};
    size_t len = strlen(o->endpoint);
    while (len > 0 && o->endpoint[len - 1] == '/')
        len--;
    if (!l->url) {
        bool whole = mc_buffer_add(&url, o->endpoint, len) && mc_buffer_add_byte(&url, '/') &&
                     mc_url_add(&url, o->name, true) &&
                     mc_buffer_printf(&url, "/resolve/%s/", o->commit) &&
                     mc_url_add(&url, l->file->path, true);
        l->url = whole ? mc_buffer_take(&url) : NULL;
        mc_buffer_deinit(&url);
        if (!l->url) return mc_fail_nomem("an address");
    }
    l->transfer = (mc_http_transfer){.url = l->url, .from = l->have, .take = take, .user = l};
    MC_TRY(mc_http_start(o->http, &l->transfer));
    l->state = LOADING;
    return MICA_OK;
}

/* The blob is whole: gives it its name. */
static mica_status name_blob(batch *b, load *l) {
    char *blob = mc_repository_blob(b->options->repository, l->file->blob, "");
    mica_status status = blob ? MICA_OK : mc_fail_nomem("a path");
    if (status == MICA_OK && (!mc_sync(l->fd) || rename(l->part, blob) != 0))
        status = mc_fail_errno(errno, "cannot write %s", blob);
    mc_free(blob);
    return status;
}

/* All bytes are there. A beginning that was there before may be another file's. */
static mica_status check(batch *b, load *l) {
    char text[MC_DIGEST_TEXT];
    if (!mc_digest_end(l->digest, text)) return mc_fail_nomem("a checksum");
    if (strcmp(text, l->file->blob) == 0) {
        MC_TRY(name_blob(b, l));
        close_part(l);
        l->state = LOADED;
        return MICA_OK;
    }
    if (l->continued) {
        MC_TRY(empty(l));
        l->state = WAITING;
        return MICA_OK;
    }
    (void)unlink(l->part);
    return mc_fail(MICA_EFORMAT,
                   "%s of %s is not what the hub says: its checksum is %s, and should be %s. It "
                   "was dropped; try again",
                   l->file->path, b->options->name, text, l->file->blob);
}

/* ---- beginning and going on ---- */

/* Reads a piece of what is there, for the checksum: the other files' transfers go on between two
 * pieces. */
static mica_status read_on(batch *b, load *l) {
    if (!b->piece && !(b->piece = mc_alloc(PIECE))) return mc_fail_nomem(l->part);
    ssize_t n = read(l->fd, b->piece, PIECE);
    if (n < 0 && errno == EINTR) return MICA_OK;
    if (n < 0) return mc_fail_errno(errno, "cannot read %s", l->part);
    if (n > 0) {
        l->read += (uint64_t)n;
        return mc_digest_add(l->digest, b->piece, (size_t)n) ? MICA_OK
                                                             : mc_fail_nomem("a checksum");
    }
    l->have = l->read;
    l->continued = l->have > 0;
    if (l->have > l->file->size) MC_TRY(empty(l));
    return l->have == l->file->size ? check(b, l) : start_transfer(b, l);
}

/* Another file of the same checksum has the lock until the end: this one is whole with it, unless
 * the hub says another size. */
static mica_status check_sizes(const batch *b, const load *l) {
    for (size_t i = 0; i < b->count; i++) {
        const mc_hub_file *file = b->loads[i].file;
        if (file->size != l->file->size && strcmp(file->blob, l->file->blob) == 0)
            return mc_fail(MICA_EFORMAT, "%s: the hub says two sizes of one content, for %s and %s",
                           b->options->name, file->path, l->file->path);
    }
    return MICA_OK;
}

/* Begins a file, or waits for its lock. */
static mica_status begin(batch *b, load *l) {
    const mc_repository *repository = b->options->repository;
    bool whole = l->fd < 0 && is_whole(repository, l->file);
    if (!whole && l->lock < 0) {
        MC_TRY(mc_repository_lock(repository, l->file->blob, &l->lock));
        l->at_us = mc_now_us() + LOCK_WAIT_US;
        if (l->lock < 0) return check_sizes(b, l);
        whole = is_whole(repository, l->file); /* by now, if somebody had the lock */
    }
    if (whole) {
        l->have = l->file->size;
        l->state = LOADED;
        return MICA_OK;
    }
    if (l->fd < 0) MC_TRY(open_part(b, l));
    if (l->state == READING) return MICA_OK;
    if (l->have == l->file->size) return check(b, l);
    return start_transfer(b, l);
}

/* Says why a transfer failed that is not tried again. */
static mica_status explain(const batch *b, const load *l) {
    const mc_http_transfer *t = &l->transfer;
    const mc_download_options *o = b->options;
    if (l->failed || t->code < 200 || t->code > 299)
        return mc_hub_explain(t, o->endpoint, o->name, l->file->path);
    return mc_fail(MICA_EIO,
                   "%s: the connection for %s of %s ended early, when there were %" PRIu64
                   " of %" PRIu64 " bytes%s%s. They are kept: run it again to go on",
                   o->endpoint, l->file->path, o->name, l->have, l->file->size,
                   t->failure[0] ? ": " : "", t->failure);
}

static mica_status go_on(batch *b, load *l) {
    mc_http_transfer *t = &l->transfer;
    const mc_download_options *o = b->options;
    bool answered = mc_http_answered(t);
    mica_status status = MICA_OK;
    if (answered && l->have == l->file->size)
        status = check(b, l);
    else if (l->failed || l->tries++ == MAX_TRIES || !mc_http_may_retry(t))
        status = explain(b, l);
    else {
        if (t->code == 416) status = empty(l);
        l->state = WAITING;
        l->at_us = mc_now_us() + mc_http_retry_us(t, l->tries);
    }
    mc_http_drop(o->http, t);
    return status;
}

static bool is_running(const load *l) {
    return l->state == READING || l->state == LOADING;
}

/* One look at every file. */
static mica_status look(batch *b) {
    uint64_t now = mc_now_us();
    b->running = b->reading = 0;
    for (size_t i = 0; i < b->count; i++) {
        load *l = &b->loads[i];
        if (l->state == READING) MC_TRY(read_on(b, l));
        if (l->state == LOADING && l->transfer.ended) MC_TRY(go_on(b, l));
        b->running += is_running(l);
        b->reading += l->state == READING;
    }
    for (size_t i = 0; i < b->count && b->running < (size_t)b->options->connections; i++) {
        load *l = &b->loads[i];
        if (l->state != WAITING || l->at_us > now) continue;
        MC_TRY(begin(b, l));
        b->running += is_running(l);
        b->reading += l->state == READING;
    }
    return MICA_OK;
}

/* Reports progress.  returns whether all is there */
static bool tell(const batch *b) {
    uint64_t have = 0;
    size_t loaded = 0;
    for (size_t i = 0; i < b->count; i++) {
        have += b->loads[i].have;
        loaded += b->loads[i].state == LOADED;
    }
    if (b->options->progress) b->options->progress(b->options->progress_user, have, b->total);
    return loaded == b->count;
}

/* ---- all files ---- */

static mica_status link_all(const batch *b) {
    const mc_download_options *o = b->options;
    for (int last = 0; last < 2; last++) {
        for (size_t i = 0; i < b->count; i++) {
            const mc_hub_file *file = b->loads[i].file;
            if ((strcmp(file->path, "config.json") == 0) != last) continue;
            MC_TRY(mc_repository_link(o->repository, o->commit, file->path, file->blob));
        }
    }
    return MICA_OK;
}

/* Locks are kept until the snapshot has its links: mica_cache_collect removes files without. */
static void close_all(batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        load *l = &b->loads[i];
        mc_http_drop(b->options->http, &l->transfer);
        close_part(l);
        mc_repository_unlock(&l->lock);
        mc_free(l->part);
        mc_free(l->url);
    }
    mc_free(b->piece);
    mc_free(b->loads);
}

mica_status mc_download(const mc_download_options *options, const mc_hub_file *files,
                        size_t count) {
    mica_status status = MICA_OK;
    batch b = {.options = options, .count = count, .loads = mc_calloc(count, sizeof(load))};
    if (!b.loads) return mc_fail_nomem("a download");
    for (size_t i = 0; i < count; i++) {
        b.loads[i] = (load){.file = &files[i], .lock = -1, .fd = -1};
        b.loads[i].have = mc_download_present(options->repository, &files[i]);
        b.total += files[i].size;
    }
    (void)tell(&b);
    do {
        status = look(&b);
        if (status != MICA_OK || tell(&b)) break;
        status = mc_http_wait(options->http, b.reading ? 0 : MC_HTTP_WAIT_MS);
    } while (status == MICA_OK);
    if (status == MICA_OK) status = link_all(&b);
    close_all(&b);
    return status;
}
