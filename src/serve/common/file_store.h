/* The files of a server: those that clients upload, and the results of batches.
 *
 * They lie in $TMPDIR without names, so that nothing of them is left however the process ends:
 * each takes a descriptor. A file is there only for requests that have the same of the server's
 * keys as the one that made it. Each key may have up to MC_FILES of them and MC_FILE_BYTES, so that
 * none takes the room of others.
 *
 * Threads: any. */
#ifndef SERVE_COMMON_FILE_STORE_H
#define SERVE_COMMON_FILE_STORE_H

#include "base/status.h"
#include "base/str.h"
#include "serve/common/chance.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MC_FILES = 1024, MC_FILE_NAME = 256 };
#define MC_FILE_BYTES ((int64_t)1 << 30)

/* What is known of a file. */
typedef struct mc_stored_file {
    char id[MC_NAME_BYTES];
    char filename[MC_FILE_NAME]; /* as the client called it: UTF-8, for answers alone */
    const char *purpose;         /* "batch" or "batch_output" */
    size_t key;                  /* whose it is (mc_exchange.key) */
    int64_t bytes;
    int64_t created; /* seconds since 1970 */
} mc_stored_file;

typedef struct mc_file_entry mc_file_entry;

/* What a key has, with what is being written. */
typedef struct mc_file_share {
    size_t count;
    int64_t bytes;
} mc_file_share;

typedef struct mc_file_store {
    pthread_mutex_t lock;
    mc_file_entry *first, **last;
    mc_file_share *shares; /* [keys + 1], by mc_exchange.key */
} mc_file_store;

/* keys: how many the server has. errors  MICA_ENOMEM. After an error there is nothing to deinit. */
mica_status mc_file_store_init(mc_file_store *store, size_t keys);
void mc_file_store_deinit(mc_file_store *store); /* removes all files */

/* A file that is being written. */
typedef struct mc_file_writer {
    mc_file_store *store;
    FILE *file;
    int fd; /* of the same file, for its readers */
    mc_stored_file about;
} mc_file_writer;

/* Begins a file. errors  MICA_EBUSY the key has as many as may be; MICA_EIO, MICA_ENOMEM */
mica_status mc_file_writer_open(mc_file_writer *writer, mc_file_store *store, size_t key,
                                mc_str filename, const char *purpose);
/* errors  MICA_EBUSY the key's files have as many bytes as may be; MICA_EIO */
mica_status mc_file_writer_add(mc_file_writer *writer, const void *bytes, size_t n);
/* Ends it: with MICA_OK it is among the store's files, else it is removed, and that status
 * returned. errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_file_writer_close(mc_file_writer *writer, mica_status status);

/* What is known of a file. false: there is none. */
bool mc_file_store_find(mc_file_store *store, size_t key, mc_str id, mc_stored_file *about);

/* What is known of all files of a key, in the order of making, into files [MC_FILES]: as they are
 * at one time. Returns their count. */
size_t mc_file_store_list(mc_file_store *store, size_t key, mc_stored_file *files);

/* A descriptor of a file; it may be removed meanwhile. Its place is everybody's: read by pread.
 * -1: there is none. */
int mc_file_store_open_file(mc_file_store *store, size_t key, mc_str id, mc_stored_file *about);

/* Whether results of a batch are there that were written within so many seconds and that nobody has
 * read. */
bool mc_file_store_has_news(mc_file_store *store, int seconds);

bool mc_file_store_remove(mc_file_store *store, size_t key, mc_str id); /* false: there is none */

#endif
