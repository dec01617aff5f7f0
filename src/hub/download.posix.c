#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE /* O_NOFOLLOW */

#include "hub/download.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/system.h"
#include "hub/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* MAX_WAITING: files that wait, for a lock or for another try, beside those under way. KEPT_LOCKS:
 * locks kept to the end: a lock is a descriptor, of which a process has a thousand. */
enum { MAX_TRIES = 5, PIECE = 1 << 20, LOCK_WAIT_US = 200000, MAX_WAITING = 32, KEPT_LOCKS = 16 };

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

typedef struct item { /* a content, whatever number of files has it */
    const mc_hub_file *file;
    uint64_t present; /* bytes of it that the cache has */
} item;

typedef struct batch {
    const mc_download_options *options;
    item *items;         /* [count] */
    size_t count, begun; /* the next item to begin */
    load *loads;         /* [slots], each of an item that was begun, or of none */
    size_t slots, running, reading;
    char *piece; /* [PIECE], or NULL: what is read of a file's beginning */
    uint64_t loaded, later,
        total; /* bytes: of items that ended, there of those not yet begun, all */
    int kept[KEPT_LOCKS];
    size_t kept_count;
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
    MC_TRY(mc_regular_open(l->part, &l->fd));
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

static mica_status take_bytes(mc_http_transfer *t, const void *bytes, size_t count) {
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
    l->transfer = (mc_http_transfer){.url = l->url, .from = l->have, .take = take_bytes, .user = l};
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

/* Begins a file, or waits for its lock. */
static mica_status begin(batch *b, load *l) {
    const mc_repository *repository = b->options->repository;
    bool whole = l->fd < 0 && is_whole(repository, l->file);
    if (!whole && l->lock < 0) {
        MC_TRY(mc_repository_lock(repository, l->file->blob, &l->lock));
        l->at_us = mc_now_us() + LOCK_WAIT_US;
        if (l->lock < 0) return MICA_OK;
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
        l->at_us = mc_now_us() + mc_http_retry_us(o->http, t, l->tries);
    }
    mc_http_drop(o->http, t);
    return status;
}

static bool is_running(const load *l) {
    return l->state == READING || l->state == LOADING;
}

/* Frees what an item's load has. Its lock stays where it is one of those kept: mica_cache_collect
 * leaves a repository alone while one of its locks is held. */
static void end_load(batch *b, load *l) {
    mc_http_drop(b->options->http, &l->transfer);
    close_part(l);
    if (l->lock >= 0 && b->kept_count < KEPT_LOCKS) {
        b->kept[b->kept_count++] = l->lock;
        l->lock = -1;
    }
    mc_lock_release(&l->lock);
    mc_free(l->part);
    mc_free(l->url);
    *l = (load){.lock = -1, .fd = -1};
}

/* Gives a load that has ended the next item. false: there is none. */
static bool take_next(batch *b, load *l) {
    if (l->file && l->state == LOADED) {
        b->loaded += l->file->size;
        end_load(b, l);
    }
    if (l->file) return true;
    if (b->begun == b->count) return false;
    const item *next = &b->items[b->begun++];
    l->file = next->file;
    l->have = next->present;
    b->later -= next->present;
    return true;
}

/* Begins items until one takes time. */
static mica_status begin_next(batch *b, load *l, uint64_t now) {
    while (take_next(b, l)) {
        if (l->state != WAITING || l->at_us > now) return MICA_OK;
        MC_TRY(begin(b, l));
        if (l->state != LOADED) break;
    }
    b->running += is_running(l);
    b->reading += l->state == READING;
    return MICA_OK;
}

/* One look at every load. */
static mica_status look(batch *b) {
    uint64_t now = mc_now_us();
    b->running = b->reading = 0;
    for (size_t i = 0; i < b->slots; i++) {
        load *l = &b->loads[i];
        if (l->state == READING) MC_TRY(read_on(b, l));
        if (l->state == LOADING && l->transfer.ended) MC_TRY(go_on(b, l));
        b->running += is_running(l);
        b->reading += l->state == READING;
    }
    for (size_t i = 0; i < b->slots && b->running < (size_t)b->options->connections; i++)
        if (!is_running(&b->loads[i])) MC_TRY(begin_next(b, &b->loads[i], now));
    return MICA_OK;
}

/* Reports progress.  returns whether all is there */
static bool tell(const batch *b) {
    uint64_t have = b->loaded + b->later;
    bool all = b->begun == b->count;
    for (size_t i = 0; i < b->slots; i++) {
        const load *l = &b->loads[i];
        have += l->have;
        all = all && (!l->file || l->state == LOADED);
    }
    if (b->options->progress) b->options->progress(b->options->progress_user, have, b->total);
    return all;
}

/* ---- all files ---- */

static mica_status link_all(const batch *b, const mc_hub_file *files, size_t count) {
    const mc_download_options *o = b->options;
    for (int last = 0; last < 2; last++) {
        for (size_t i = 0; i < count; i++) {
            const mc_hub_file *file = &files[i];
            if ((strcmp(file->path, "config.json") == 0) != last) continue;
            MC_TRY(mc_repository_link(o->repository, o->commit, file->path, file->blob));
        }
    }
    return MICA_OK;
}

/* The files' contents, each once. seen: numbers of items, by their checksum. */
static mica_status add_item(batch *b, const mc_hub_file *file, mc_map *seen) {
    uint64_t at;
    const mc_download_options *o = b->options;
    if (mc_map_find(seen, mc_str_of(file->blob), &at)) {
        if (b->items[at].file->size == file->size) return MICA_OK;
        return mc_fail(MICA_EFORMAT, "%s: the hub says two sizes of one content, for %s and %s",
                       o->name, b->items[at].file->path, file->path);
    }
    if (file->size > UINT64_MAX - b->total)
        return mc_fail(MICA_EFORMAT, "%s: the files of the hub have more bytes than there are",
                       o->name);
    if (!mc_map_put(seen, mc_str_of(file->blob), b->count)) return mc_fail_nomem("a download");
    b->items[b->count] = (item){file, mc_download_present(o->repository, file)};
    b->total += file->size;
    b->later += b->items[b->count++].present;
    return MICA_OK;
}

static mica_status open_batch(batch *b, const mc_hub_file *files, size_t count) {
    mc_map seen = {0};
    mica_status status = MICA_OK;
    b->items = mc_calloc(count, sizeof *b->items);
    if (!b->items) return mc_fail_nomem("a download");
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        status = add_item(b, &files[i], &seen);
    mc_map_deinit(&seen);
    MC_TRY(status);
    size_t slots = (size_t)b->options->connections + MAX_WAITING;
    if (slots > b->count) slots = b->count;
    b->loads = mc_calloc(slots, sizeof *b->loads);
    if (!b->loads) return mc_fail_nomem("a download");
    for (; b->slots < slots; b->slots++)
        b->loads[b->slots] = (load){.lock = -1, .fd = -1};
    return MICA_OK;
}

static void close_batch(batch *b) {
    for (size_t i = 0; i < b->slots; i++)
        end_load(b, &b->loads[i]);
    for (size_t i = 0; i < b->kept_count; i++)
        mc_lock_release(&b->kept[i]);
    mc_free(b->piece);
    mc_free(b->loads);
    mc_free(b->items);
}

mica_status mc_download(const mc_download_options *options, const mc_hub_file *files,
                        size_t count) {
    batch b = {.options = options};
    mica_status status = open_batch(&b, files, count);
    if (status == MICA_OK) (void)tell(&b);
    while (status == MICA_OK) {
        status = look(&b);
        if (status != MICA_OK || tell(&b)) break;
        status = mc_http_wait(options->http, b.reading ? 0 : MC_HTTP_WAIT_MS);
    }
    if (status == MICA_OK) status = link_all(&b, files, count);
    close_batch(&b);
    return status;
}
