#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE

#include "hub/repository.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/lock.h"
#include "hub/link.h"
#include "io/hub_cache.h"

#include <mica/file.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAME = 96, MAX_REVISION = 255, MAX_PATH_BYTES = 1024, MAX_FOLDERS = 16 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static mica_status no_memory(void) {
    return mc_fail_nomem("a path in the Hugging Face cache");
}

/* ---- names ---- */

/* Whether each part between slashes has letters of names only and neither begins nor ends with a
 * dot or dash; at most `slashes` of them. */
static bool has_parts(const char *text, int slashes) {
    for (;;) {
        size_t len = strspn(text, letters);
        if (!len || strchr(".-", text[0]) || strchr(".-", text[len - 1])) return false;
        if (!text[len]) return true;
        if (text[len] != '/' || slashes-- == 0) return false;
        text += len + 1;
    }
}

static mica_status check_name(const char *name) {
    if (strlen(name) <= MAX_NAME && has_parts(name, 1) && !strstr(name, "--") &&
        !strstr(name, ".."))
        return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "%s is no name of a repository, which is ORG/NAME: letters, digits, '-', '_' "
                   "and '.'",
                   name);
}

mica_status mc_revision_check(const char *revision) {
    if (strlen(revision) <= MAX_REVISION && has_parts(revision, MAX_REVISION) &&
        !strstr(revision, ".."))
        return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s is no revision: a branch, a tag or a commit", revision);
}

bool mc_is_commit(const char *text) {
    return strlen(text) == MC_COMMIT_TEXT - 1 &&
           strspn(text, "0123456789abcdef") == MC_COMMIT_TEXT - 1;
}

bool mc_is_file_path(const char *path) {
    size_t len = strlen(path);
    if (!len || len > MAX_PATH_BYTES) return false;
    const char *part = path;
    for (int folders = 0; folders <= MAX_FOLDERS; folders++) {
        size_t n = strcspn(part, "/");
        if (!n || (part[0] == '.' && (n == 1 || (n == 2 && part[1] == '.')))) return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)part[i] < ' ' || part[i] == '\\' || part[i] == 127) return false;
        if (!part[n]) return true;
        part += n + 1;
    }
    return false;
}

/* ---- paths ---- */

/* The printed text in new memory; NULL: no memory. */
static char *take_path(mc_buffer *text, bool whole) {
    char *path = whole ? mc_buffer_take(text) : NULL;
    mc_buffer_deinit(text);
    return path;
}

static char *join3(const char *a, const char *b, const char *c) {
    mc_buffer text = {0};
    return take_path(&text, mc_buffer_printf(&text, "%s/%s/%s", a, b, c));
}

char *mc_repository_blob(const mc_repository *r, const char *name, const char *suffix) {
    mc_buffer text = {0};
    return take_path(&text, mc_buffer_printf(&text, "%s/blobs/%s%s", r->folder, name, suffix));
}

char *mc_repository_snapshot(const mc_repository *r, const char *commit) {
    return join3(r->folder, "snapshots", commit);
}

static char *snapshot_file(const mc_repository *r, const char *commit, const char *path) {
    char *folder = mc_repository_snapshot(r, commit);
    char *file = folder ? mc_path_join(folder, path) : NULL;
    mc_free(folder);
    return file;
}

/* "org/name" becomes "models--org--name". */
static char *folder_name(const char *name) {
    mc_buffer text = {0};
    const char *slash = strchr(name, '/');
    bool whole =
        slash ? mc_buffer_printf(&text, "models--%.*s--%s", (int)(slash - name), name, slash + 1)
              : mc_buffer_printf(&text, "models--%s", name);
    return take_path(&text, whole);
}

mica_status mc_repository_init(mc_repository *r, const char *cache, const char *name) {
    *r = (mc_repository){0};
    MC_TRY(check_name(name));
    if (cache)
        r->cache = mc_strdup(cache);
    else
        MC_TRY(mc_hub_cache_find(&r->cache));
    if (!cache && !r->cache)
        return mc_fail(MICA_ENOENT, "no place for the Hugging Face cache: set HF_HOME, or HOME");
    char *below = folder_name(name);
    r->folder = r->cache && below ? mc_path_join(r->cache, below) : NULL;
    r->locks = r->cache && below ? join3(r->cache, ".locks", below) : NULL;
    mc_free(below);
    if (r->folder && r->locks) return MICA_OK;
    mc_repository_deinit(r);
    return no_memory();
}

void mc_repository_deinit(mc_repository *r) {
    mc_free(r->cache);
    mc_free(r->folder);
    mc_free(r->locks);
    *r = (mc_repository){0};
}

/* ---- refs ---- */

mica_status mc_repository_find(const mc_repository *r, const char *revision,
                               char commit[MC_COMMIT_TEXT]) {
    mc_filemap map = {0};
    size_t bytes;
    if (mc_is_commit(revision)) {
        memcpy(commit, revision, MC_COMMIT_TEXT);
        return MICA_OK;
    }
    char *path = join3(r->folder, "refs", revision);
    if (!path) return no_memory();
    mica_status status = mc_path_is_file(path)
                             ? mc_filemap_read_head(path, MC_COMMIT_TEXT - 1, &map, &bytes)
                             : MICA_ENOENT;
    mc_free(path);
    if (status == MICA_OK && map.size == MC_COMMIT_TEXT - 1) memcpy(commit, map.data, map.size);
    commit[status == MICA_OK && map.size == MC_COMMIT_TEXT - 1 ? MC_COMMIT_TEXT - 1 : 0] = '\0';
    mc_filemap_close(&map);
    if (mc_is_commit(commit)) return MICA_OK;
    return status == MICA_ENOMEM ? status : MICA_ENOENT;
}

mica_status mc_repository_set(const mc_repository *r, const char *revision, const char *commit) {
    if (mc_is_commit(revision)) return MICA_OK;
    char *path = join3(r->folder, "refs", revision);
    if (!path) return no_memory();
    mica_status status = mc_make_folders(path);
    if (status == MICA_OK) status = mica_file_save(path, commit, strlen(commit));
    mc_free(path);
    return status;
}

/* ---- folders and links ---- */

mica_status mc_make_folders(const char *path) {
    char *part = mc_strdup(path);
    if (!part) return no_memory();
    mica_status status = MICA_OK;
    for (char *c = part + 1; *part && *c && status == MICA_OK; c++) {
        if (*c != '/') continue;
        *c = '\0';
        int error = mkdir(part, 0777) == 0 ? 0 : errno;
        if (error && error != EEXIST && !mc_path_is_dir(part))
            status = mc_fail_errno(error, "cannot make the folder %s", part);
        *c = '/';
    }
    mc_free(part);
    return status;
}

/* The blob's path as a link in the snapshot has it, relative to the link's folder. */
static char *relative_blob(const char *path, const char *blob) {
    mc_buffer text = {0};
    bool whole = mc_buffer_add_text(&text, "../../");
    for (; whole && (path = strchr(path, '/')); path++)
        whole = mc_buffer_add_text(&text, "../");
    whole = whole && mc_buffer_printf(&text, "blobs/%s", blob);
    return take_path(&text, whole);
}

/* Where a link is made: among the blobs, for below a snapshot any name may be a file's of the
 * repository. One name has links of one text. */
static char *new_link(const mc_repository *r, const char *blob, const char *target) {
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".link%zu", strlen(target));
    return mc_repository_blob(r, blob, suffix);
}

mica_status mc_repository_link(const mc_repository *r, const char *commit, const char *path,
                               const char *blob) {
    mica_status status = MICA_OK;
    char *target = relative_blob(path, blob);
    char *link = snapshot_file(r, commit, path);
    char *other = target ? new_link(r, blob, target) : NULL;
    if (!target || !link || !other)
        status = no_memory();
    else
        status = mc_make_folders(link);
    if (status == MICA_OK) status = mc_hub_link(link, target, other);
    mc_free(target);
    mc_free(link);
    mc_free(other);
    return status;
}

/* ---- locks ---- */

mica_status mc_repository_lock(const mc_repository *r, const char *blob, int *lock) {
    mc_buffer text = {0};
    *lock = -1;
    char *path = take_path(&text, mc_buffer_printf(&text, "%s/%s.lock", r->locks, blob));
    if (!path) return no_memory();
    mica_status status = mc_make_folders(path);
    if (status == MICA_OK) status = mc_lock_try(path, lock);
    mc_free(path);
    return status;
}
