#define _DEFAULT_SOURCE /* mkstemp */
#define _DARWIN_C_SOURCE
#include "serve/common/file_store.h"

#include "base/alloc.h"
#include "base/system.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct mc_file_entry {
    mc_file_entry *next;
    mc_stored_file about;
    int fd;
    uint64_t written_us; /* when it was complete */
    bool read;
};

enum { PATH_BYTES = 512 };

mica_status mc_file_store_init(mc_file_store *store, size_t keys) {
    *store = (mc_file_store){.last = &store->first};
    store->shares = mc_calloc(keys + 1, sizeof *store->shares);
    if (!store->shares) return mc_fail_nomem("a server");
    pthread_mutex_init(&store->lock, NULL);
    return MICA_OK;
}

static mc_file_share *share_of(const mc_file_store *store, const mc_stored_file *about) {
    return &store->shares[about->key];
}

static void remove_entry(mc_file_store *store, mc_file_entry **link) {
    mc_file_entry *entry = *link;
    close(entry->fd);
    *link = entry->next;
    if (!*link) store->last = link;
    share_of(store, &entry->about)->count--;
    share_of(store, &entry->about)->bytes -= entry->about.bytes;
    mc_free(entry);
}

void mc_file_store_deinit(mc_file_store *store) {
    while (store->first)
        remove_entry(store, &store->first);
    mc_free(store->shares);
    pthread_mutex_destroy(&store->lock);
}

/* ---- writing ---- */

/* Makes a file without a name, mode 0600: the descriptors that write and read it. */
static mica_status make_file(mc_file_writer *writer) {
    char path[PATH_BYTES];
    /* $TMPDIR: where a server keeps uploaded files (default: /tmp; on Windows %TEMP%) */
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent) parent = "/tmp";
    int n = snprintf(path, sizeof path, "%s/mica-serve-XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof path) return mc_fail(MICA_EIO, "$TMPDIR is too long");
    int fd = mkstemp(path);
    if (fd < 0) return mc_fail_errno(errno, "cannot make a file in %s", parent);
    unlink(path);
    writer->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (writer->fd >= 0) writer->file = fdopen(fd, "w");
    if (writer->file) return MICA_OK;
    mica_status status = mc_fail_errno(errno, "cannot make a file in %s", parent);
    close(fd);
    return status;
}

/* A name for answers: its first bytes that are UTF-8. */
static void set_filename(mc_stored_file *about, mc_str name) {
    size_t n = name.len < MC_FILE_NAME - 1 ? name.len : MC_FILE_NAME - 1;
    while (n > 0 && !mc_utf8_valid(name.ptr, n))
        n--;
    memcpy(about->filename, name.ptr ? name.ptr : "", n);
    about->filename[n] = '\0';
}

mica_status mc_file_writer_open(mc_file_writer *writer, mc_file_store *store, size_t key,
                                mc_str filename, const char *purpose) {
    *writer =
        (mc_file_writer){.store = store,
                         .fd = -1,
                         .about = {.purpose = purpose, .key = key, .created = (int64_t)time(NULL)}};
    mc_chance_name("file", writer->about.id);
    set_filename(&writer->about, filename);
    pthread_mutex_lock(&store->lock);
    mica_status status = MICA_OK;
    mc_file_share *share = share_of(store, &writer->about);
    if (share->count >= MC_FILES)
        status = mc_fail(MICA_EBUSY,
                         "the server has %d files of yours, as many as may be: delete "
                         "some",
                         MC_FILES);
    if (status == MICA_OK) share->count++;
    pthread_mutex_unlock(&store->lock);
    if (status != MICA_OK) return status;
    status = make_file(writer);
    return status == MICA_OK ? status : mc_file_writer_close(writer, status);
}

mica_status mc_file_writer_add(mc_file_writer *writer, const void *bytes, size_t n) {
    mc_file_store *store = writer->store;
    pthread_mutex_lock(&store->lock);
    mc_file_share *share = share_of(store, &writer->about);
    bool fits = share->bytes + (int64_t)n <= MC_FILE_BYTES;
    if (fits) share->bytes += (int64_t)n;
    pthread_mutex_unlock(&store->lock);
    if (!fits)
        return mc_fail(MICA_EBUSY,
                       "your files have %lld MiB on the server, as many as may be: delete some",
                       (long long)(MC_FILE_BYTES >> 20));
    writer->about.bytes += (int64_t)n;
    if (n == 0 || fwrite(bytes, n, 1, writer->file) == 1) return MICA_OK;
    return mc_fail_errno(errno, "cannot write a file in $TMPDIR");
}

mica_status mc_file_writer_close(mc_file_writer *writer, mica_status status) {
    mc_file_store *store = writer->store;
    if (writer->file && fclose(writer->file) != 0 && status == MICA_OK)
        status = mc_fail_errno(errno, "cannot write a file in $TMPDIR");
    writer->file = NULL;
    mc_file_entry *entry = status == MICA_OK ? mc_calloc(1, sizeof *entry) : NULL;
    if (status == MICA_OK && !entry) status = mc_fail_nomem("a file");
    pthread_mutex_lock(&store->lock);
    if (entry) {
        entry->fd = writer->fd;
        entry->about = writer->about;
        entry->written_us = mc_now_us();
        *store->last = entry;
        store->last = &entry->next;
    } else {
        if (writer->fd >= 0) close(writer->fd);
        share_of(store, &writer->about)->count--;
        share_of(store, &writer->about)->bytes -= writer->about.bytes;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* ---- reading ---- */

/* The link to an entry, or to the list's end. Called with the lock held. */
static mc_file_entry **find_file(mc_file_store *store, size_t key, mc_str id) {
    mc_file_entry **link = &store->first;
    while (*link && ((*link)->about.key != key || !mc_str_is(id, (*link)->about.id)))
        link = &(*link)->next;
    return link;
}

bool mc_file_store_find(mc_file_store *store, size_t key, mc_str id, mc_stored_file *about) {
    pthread_mutex_lock(&store->lock);
    mc_file_entry *entry = *find_file(store, key, id);
    if (entry) *about = entry->about;
    pthread_mutex_unlock(&store->lock);
    return entry != NULL;
}

size_t mc_file_store_list(mc_file_store *store, size_t key, mc_stored_file *files) {
    size_t n = 0;
    pthread_mutex_lock(&store->lock);
    for (const mc_file_entry *entry = store->first; entry && n < MC_FILES; entry = entry->next)
        if (entry->about.key == key) files[n++] = entry->about;
    pthread_mutex_unlock(&store->lock);
    return n;
}

int mc_file_store_open_file(mc_file_store *store, size_t key, mc_str id, mc_stored_file *about) {
    int fd = -1;
    pthread_mutex_lock(&store->lock);
    mc_file_entry *entry = *find_file(store, key, id);
    if (entry) {
        *about = entry->about;
        entry->read = true;
        fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
    }
    pthread_mutex_unlock(&store->lock);
    return fd;
}

bool mc_file_store_has_news(mc_file_store *store, int seconds) {
    uint64_t now = mc_now_us(), limit = (uint64_t)seconds * 1000000u;
    bool found = false;
    pthread_mutex_lock(&store->lock);
    for (const mc_file_entry *at = store->first; at && !found; at = at->next)
        found = !at->read && strcmp(at->about.purpose, "batch_output") == 0 &&
                now - at->written_us < limit;
    pthread_mutex_unlock(&store->lock);
    return found;
}

bool mc_file_store_remove(mc_file_store *store, size_t key, mc_str id) {
    pthread_mutex_lock(&store->lock);
    mc_file_entry **link = find_file(store, key, id);
    bool found = *link != NULL;
    if (found) remove_entry(store, link);
    pthread_mutex_unlock(&store->lock);
    return found;
}
