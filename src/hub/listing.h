/* What a hub has: the files of a repository's revision, by its API. */
#ifndef HUB_LISTING_H
#define HUB_LISTING_H

#include "base/arena.h"
#include "base/buffer.h"
#include "hub/http.h"
#include "hub/repository.h"

typedef struct mc_hub_file {
    const char *path; /* in the repository; mc_is_file_path holds */
    const char *blob; /* its checksum in hexadecimal digits, which is its name in the cache */
    uint64_t size;
    bool sha256; /* of the checksum; false: git's SHA-1 */
} mc_hub_file;

typedef struct mc_listing { /* zero is empty */
    char commit[MC_COMMIT_TEXT];
    mc_buffer files; /* mc_hub_file, in the hub's order */
    mc_arena arena;  /* holds their texts */
} mc_listing;

/* Asks the hub. errors  those of mica_pull */
mica_status mc_listing_load(mc_http *http, const char *endpoint, const char *name,
                            const char *revision, mc_listing *listing);
void mc_listing_deinit(mc_listing *listing);

/* Sets an error that says what an ended transfer, which brought no body, tells about a repository.
 * returns  its status */
mica_status mc_hub_explain(const mc_http_transfer *transfer, const char *endpoint, const char *name,
                           const char *what);

/* Adds a text as a part of an address: all but letters, digits and "-._~" are encoded, and slashes
 * unless keep_slashes. false: no memory. */
bool mc_url_add(mc_buffer *url, const char *text, bool keep_slashes);

#endif
