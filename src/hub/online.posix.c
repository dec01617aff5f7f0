/* Asking the hub for a model's files, and downloading those that the cache lacks. */
#define _POSIX_C_SOURCE 200809L

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/map.h"
#include "hub/download.h"
#include "hub/listing.h"
#include "hub/pull.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

enum { MEGABYTE = 1000000 };

/* ---- which files ---- */

static bool is_wanted(const mc_pull *pull, const char *path) {
    /* Of folders those of sentence-transformers' modules, 1_Pooling; not original/ and onnx/. */
    static const char *const read[] = {"*.json", "*.jinja", "*.safetensors", "[0-9]_[A-Z]*/*.json",
                                       "[0-9]_[A-Z]*/*.safetensors"};
    const mica_pull_options *o = &pull->options;
    const char *slash = strrchr(path, '/');
    if (pull->one_model && strstr(slash ? slash : path, "mmproj")) return false;
    bool own = o->include_count == 0, folders = own || pull->one_model;
    size_t count = own ? sizeof read / sizeof *read : o->include_count;
    const char *const *patterns = own ? read : o->include;
    for (size_t i = 0; i < count; i++)
        if (patterns[i] && fnmatch(patterns[i], path, folders ? FNM_PATHNAME : 0) == 0) return true;
    return false;
}

/* Moves the wanted files to the front. returns their number */
static size_t choose(const mc_pull *pull, mc_listing *listing) {
    size_t kept = 0, count = MC_BUFFER_COUNT(&listing->files, mc_hub_file);
    mc_hub_file *files = MC_BUFFER_AT(&listing->files, mc_hub_file);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(pull, files[i].path)) files[kept++] = files[i];
    return kept;
}

static mica_status fail_empty(const mc_pull *pull) {
    return mc_fail(MICA_ENOENT, "%s has no %s", pull->name,
                   pull->options.include_count ? "files of those names"
                                               : "files that mica reads: *.json and *.safetensors");
}

/* ---- room on the disk ---- */

/* errors  MICA_EIO what is missing does not fit */
static mica_status check_room(const mc_pull *pull, uint64_t missing) {
    MC_TRY(mc_make_folders(pull->repository.folder));
    uint64_t room = mc_folder_room(pull->repository.cache);
    if (missing <= room) return MICA_OK;
    return mc_fail(MICA_EIO,
                   "%s does not fit on the disk of %s: %" PRIu64
                   " MB are missing of it, and %" PRIu64
                   " MB are free. Set HF_HOME to a folder on another disk",
                   pull->name, pull->repository.cache, missing / MEGABYTE, room / MEGABYTE);
}

/* ---- pulling ---- */

/* The hub's sizes may be any. */
static uint64_t add_bytes(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* seen: blobs of the files so far. */
static mica_status add_to_plan(const mc_pull *pull, const mc_hub_file *file, mc_map *seen,
                               mica_pull_plan *plan) {
    uint64_t there;
    plan->bytes = add_bytes(plan->bytes, file->size);
    if (mc_map_find(seen, mc_str_of(file->blob), &there)) return MICA_OK;
    uint64_t missing = file->size - mc_download_present(&pull->repository, file);
    plan->download_bytes = add_bytes(plan->download_bytes, missing);
    plan->download_files += missing > 0;
    return mc_map_put(seen, mc_str_of(file->blob), 1) ? MICA_OK : mc_fail_nomem("a download");
}

static mica_status make_plan(const mc_pull *pull, const mc_listing *listing, size_t count,
                             mica_pull_plan *plan) {
    mc_map seen = {0};
    mica_status status = MICA_OK;
    *plan = (mica_pull_plan){.struct_bytes = sizeof *plan,
                             .name = pull->name,
                             .commit = listing->commit,
                             .files = count};
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        status = add_to_plan(pull, &MC_BUFFER_AT(&listing->files, mc_hub_file)[i], &seen, plan);
    mc_map_deinit(&seen);
    return status;
}

static mica_status pull_files(mc_pull *pull, mc_http *http, mc_listing *listing) {
    const mica_pull_options *o = &pull->options;
    MC_TRY(mc_listing_load(http, o->endpoint, pull->name, o->revision, listing));
    size_t count = choose(pull, listing);
    if (!count) return fail_empty(pull);
    mica_pull_plan plan;
    MC_TRY(make_plan(pull, listing, count, &plan));
    if (o->confirm && !o->confirm(o->confirm_user, &plan))
        return mc_fail(MICA_ECANCELLED, "%s is not downloaded", pull->name);
    MC_TRY(check_room(pull, plan.download_bytes));
    const mc_download_options options = {.http = http,
                                         .endpoint = o->endpoint,
                                         .name = pull->name,
                                         .commit = listing->commit,
                                         .repository = &pull->repository,
                                         .connections = o->connections,
                                         .progress = o->progress,
                                         .progress_user = o->progress_user,
                                         .cancel = o->cancel};
    MC_TRY(mc_download(&options, MC_BUFFER_AT(&listing->files, mc_hub_file), count));
    return mc_repository_set(&pull->repository, o->revision, listing->commit);
}

mica_status mc_pull_online(mc_pull *pull, char commit[MC_COMMIT_TEXT]) {
    const mica_pull_options *o = &pull->options;
    const mc_http_options options = {.endpoint = o->endpoint,
                                     .token = o->token,
                                     .stall_seconds = o->stall_seconds,
                                     .cancel = o->cancel,
                                     .notice = o->notice,
                                     .notice_user = o->notice_user};
    mc_http *http;
    mc_listing listing = {0};
    MC_TRY(mc_http_open(&options, &http));
    mica_status status = pull_files(pull, http, &listing);
    memcpy(commit, listing.commit, MC_COMMIT_TEXT);
    mc_listing_deinit(&listing);
    mc_http_close(&http);
    return status;
}
