/* Downloading a repository's files to the cache, several at once. */
#ifndef HUB_DOWNLOAD_H
#define HUB_DOWNLOAD_H

#include "hub/http.h"
#include "hub/listing.h"
#include "hub/repository.h"

typedef struct mc_download_options { /* borrowed */
    mc_http *http;
    const char *endpoint, *name, *commit;
    const mc_repository *repository;
    int connections;
    mica_progress progress;
    void *progress_user;
    const mica_cancel *cancel;
} mc_download_options;

/* The bytes of a file that the cache has: all of them, its beginning, or 0. */
uint64_t mc_download_present(const mc_repository *repository, const mc_hub_file *file);

/* Downloads what the cache lacks of the files, then links all of them to the snapshot, config.json
 * last: a snapshot looks like a model only when it is whole. A file whose lock somebody else has is
 * waited for.
 *
 * files   [count]
 * errors  those of mica_pull. What was downloaded stays in the cache */
mica_status mc_download(const mc_download_options *options, const mc_hub_file *files, size_t count);

#endif
