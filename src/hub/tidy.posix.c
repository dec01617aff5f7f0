/* Removing models from the cache, and what nobody needs. */
#define _DEFAULT_SOURCE /* flock, d_type */
#define _DARWIN_C_SOURCE

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/save_folder.h"
#include "hub/repository.h"
#include "io/gguf_cache.h"
#include "io/hub_cache.h"

#include <mica/hub.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 32 };

/* ---- walking ---- */

typedef struct walk walk;
struct walk {
    /* Called for each entry but folders, and for folders behind what is in them. */
    mica_status (*visit)(walk *w, const char *path, const struct stat *info);
    mc_arena *arena; /* holds texts of `names` */
    mc_map *names;   /* refs: commits; links: blobs' names */
    mc_map *gone;    /* in a dry run of several visits: how many names of a file would be removed */
    uint64_t bytes;
    bool dry_run;
    bool busy;   /* a lock is held */
    bool sweeps; /* removes what broken-off conversions have left, too */
};

static mica_status walk_folder(walk *w, const char *path, int depth);

static mica_status walk_entry(walk *w, const char *path, int depth) {
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? MICA_OK : mc_fail_errno(errno, "cannot read %s", path);
    if (S_ISDIR(info.st_mode)) MC_TRY(walk_folder(w, path, depth + 1));
    return w->visit(w, path, &info);
}

/* Nothing is done where there is no folder. */
static mica_status walk_folder(walk *w, const char *path, int depth) {
    DIR *dir = opendir(path);
    mica_status status = MICA_OK;
    if (!dir) return errno == ENOENT ? MICA_OK : mc_fail_errno(errno, "cannot read %s", path);
    if (depth > DEEPEST) status = mc_fail(MICA_EIO, "%s: more than %d folders deep", path, DEEPEST);
    for (struct dirent *entry; status == MICA_OK && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *child = mc_path_join(path, entry->d_name);
        status = child ? walk_entry(w, child, depth) : mc_fail_nomem("a path");
        mc_free(child);
    }
    closedir(dir);
    return status;
}

/* Walks through a folder of the repository. */
static mica_status walk_below(walk *w, const char *folder, const char *below) {
    char *path = mc_path_join(folder, below);
    mica_status status = path ? walk_folder(w, path, 0) : mc_fail_nomem("a path");
    mc_free(path);
    return status;
}

/* ---- visits ---- */

static mica_status add_name(walk *w, const char *name, size_t len) {
    const char *copy = mc_arena_strndup(w->arena, name, len);
    if (!copy || !mc_map_put(w->names, (mc_str){copy, len}, 1)) return mc_fail_nomem("a name");
    return MICA_OK;
}

static bool has_name(const walk *w, const char *name) {
    uint64_t value;
    return mc_map_find(w->names, mc_str_of(name), &value);
}

typedef struct file_id {
    uint64_t disk, number;
} file_id;

/* How many names of the file a dry run has found to remove. */
static uint64_t count_gone(const walk *w, const struct stat *info) {
    file_id id = {(uint64_t)info->st_dev, (uint64_t)info->st_ino};
    uint64_t count = 0;
    bool found = w->gone && mc_map_find(w->gone, (mc_str){(const char *)&id, sizeof id}, &count);
    return found ? count : 0;
}

/* The last of a file's names counts, which goes when all others have gone. */
static mica_status count_bytes(walk *w, const struct stat *info) {
    uint64_t names = info->st_nlink, gone = count_gone(w, info) + 1;
    if (!S_ISREG(info->st_mode)) return MICA_OK;
    if (names <= (w->gone ? gone : 1)) w->bytes += (uint64_t)info->st_size;
    if (!w->gone || names == 1) return MICA_OK;
    file_id id = {(uint64_t)info->st_dev, (uint64_t)info->st_ino};
    const char *key = mc_arena_strndup(w->arena, (const char *)&id, sizeof id);
    bool noted = key && mc_map_put(w->gone, (mc_str){key, sizeof id}, gone);
    return noted ? MICA_OK : mc_fail_nomem("a name");
}

static mica_status remove_entry(walk *w, const char *path, const struct stat *info) {
    bool folder = S_ISDIR(info->st_mode);
    MC_TRY(count_bytes(w, info));
    if (w->dry_run || (folder ? rmdir(path) : unlink(path)) == 0 || errno == ENOENT) return MICA_OK;
    return mc_fail_errno(errno, "cannot remove %s", path);
}

static mica_status note_ref(walk *w, const char *path, const struct stat *info) {
    mc_filemap map = {0};
    size_t bytes;
    if (!S_ISREG(info->st_mode)) return MICA_OK;
    MC_TRY(mc_filemap_read_head(path, MC_COMMIT_TEXT - 1, &map, &bytes));
    mica_status status = add_name(w, (const char *)map.data, map.size);
    mc_filemap_close(&map);
    return status;
}

static mica_status note_link(walk *w, const char *path, const struct stat *info) {
    char text[4096]; /* more than a link may have */
    if (!S_ISLNK(info->st_mode)) return MICA_OK;
    ssize_t len = readlink(path, text, sizeof text);
    if (len < 0) return mc_fail_errno(errno, "cannot read %s", path);
    if (len == sizeof text) return mc_fail(MICA_EIO, "%s: the link is too long", path);
    text[len] = '\0';
    const char *name = mc_path_name(text);
    return add_name(w, name, strlen(name));
}

/* A blob with a second name is a snapshot's, where links are hard ones (hub/link.h). */
static mica_status remove_unlinked(walk *w, const char *path, const struct stat *info) {
    uint64_t names = (uint64_t)info->st_nlink - count_gone(w, info);
    if (S_ISDIR(info->st_mode) || names > 1 || has_name(w, mc_path_name(path))) return MICA_OK;
    return remove_entry(w, path, info);
}

static mica_status try_lock(walk *w, const char *path, const struct stat *info) {
    if (!S_ISREG(info->st_mode)) return MICA_OK;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* another user's */
    if (fd < 0) {
        w->busy = w->busy || errno != ENOENT; /* nobody knows */
        return MICA_OK;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) w->busy = true;
    close(fd);
    return MICA_OK;
}

/* ---- repositories ---- */

/* Whether somebody is downloading files of it. */
static mica_status is_busy(const char *locks, bool *busy) {
    walk w = {.visit = try_lock};
    mica_status status = walk_folder(&w, locks, 0);
    *busy = w.busy;
    return status;
}

static mica_status remove_folder(walk *w, const char *path) {
    struct stat info;
    w->visit = remove_entry;
    if (lstat(path, &info) != 0) return MICA_OK;
    if (S_ISDIR(info.st_mode)) MC_TRY(walk_folder(w, path, 0));
    return remove_entry(w, path, &info);
}

static mica_status remove_repository(const mc_repository *r, const char *name, walk *w) {
    bool busy;
    MC_TRY(is_busy(r->locks, &busy));
    if (busy)
        return mc_fail(MICA_EBUSY, "%s is being downloaded: try again when that has ended", name);
    MC_TRY(remove_folder(w, r->folder));
    uint64_t bytes = w->bytes;
    MC_TRY(remove_folder(w, r->locks));
    w->bytes = bytes;
    return MICA_OK;
}

/* ---- models of GGUF files ---- */

/* Counts the bytes of a model's folder, or removes it and its lock. Sets w->busy, and does nothing,
 * while somebody is making it. */
static mica_status remove_locked(walk *w, const char *path, const char *lock_path) {
    int lock = -1;
    walk probe = {.visit = try_lock}, count = {.dry_run = true};
    if (w->dry_run) {
        MC_TRY(walk_entry(&probe, lock_path, 0));
        w->busy = probe.busy;
        return w->busy ? MICA_OK : remove_folder(w, path);
    }
    MC_TRY(mc_lock_try(lock_path, &lock));
    w->busy = lock < 0;
    if (w->busy) return MICA_OK;
    mica_status status = remove_folder(&count, path);
    if (status == MICA_OK) status = mc_save_folder_discard(path);
    if (status == MICA_OK) w->bytes += count.bytes;
    unlink(lock_path);
    mc_lock_release(&lock);
    return status;
}

static mica_status remove_made(walk *w, const char *path) {
    mc_buffer text = {0};
    const char *name = mc_path_name(path);
    bool named = mc_buffer_printf(&text, "%.*s.%s.lock", (int)(name - path), path, name) &&
                 mc_buffer_cstr(&text);
    mica_status status = named ? remove_locked(w, path, text.data) : mc_fail_nomem("a path");
    mc_buffer_deinit(&text);
    return status;
}

/* What is done to each folder that was made of GGUF files, below a folder. */
typedef mica_status made_visit(walk *w, const char *path, const char *name, mc_gguf_made made);

static mica_status walk_made(walk *w, made_visit *visit, const char *folder, const char *name,
                             int depth) {
    const char **names;
    size_t count = 0;
    mc_arena arena = {0};
    mica_status status = mc_dir_list(folder, "", &arena, &names, &count);
    if (status == MICA_OK && w->sweeps) w->bytes += mc_save_folder_sweep(folder, w->dry_run);
    for (size_t i = 0; status == MICA_OK && i < count; i++) {
        char *path = mc_path_join(folder, names[i]);
        char *whole = *name ? mc_path_join(name, names[i]) : mc_strdup(names[i]);
        mc_gguf_made made = MC_GGUF_FOREIGN;
        status = path && whole ? mc_gguf_origin_find(path, &made) : mc_fail_nomem("a path");
        if (status == MICA_OK && made != MC_GGUF_FOREIGN)
            status = visit(w, path, whole, made);
        else if (status == MICA_OK && depth < 2 && mc_path_is_dir(path))
            status = walk_made(w, visit, path, whole, depth + 1);
        mc_free(whole);
        mc_free(path);
    }
    mc_arena_deinit(&arena);
    return status == MICA_ENOENT ? MICA_OK : status;
}

static mica_status collect_made(walk *w, const char *path, const char *name, mc_gguf_made made) {
    (void)name;
    return made == MC_GGUF_STANDS ? MICA_OK : remove_made(w, path);
}

/* Removes a model by its name, or all of a repository's. */
typedef struct named_walk {
    walk walk; /* the first member */
    const char *name;
    size_t removed;
} named_walk;

static mica_status remove_named(walk *w, const char *path, const char *name, mc_gguf_made made) {
    (void)made;
    named_walk *n = (named_walk *)(void *)w;
    size_t len = strlen(n->name);
    if (strncasecmp(name, n->name, len) != 0 || (name[len] && name[len] != ':')) return MICA_OK;
    n->removed++;
    MC_TRY(remove_made(w, path));
    return w->busy ? mc_fail(MICA_EBUSY, "%s is being made: try again when that has ended", name)
                   : MICA_OK;
}

static mica_status walk_cache(walk *w, made_visit *visit) {
    char *cache = NULL;
    MC_TRY(mc_gguf_cache_find(&cache));
    mica_status status = cache ? walk_made(w, visit, cache, "", 0) : MICA_OK;
    mc_free(cache);
    return status;
}

/* ---- removing ---- */

static mica_status remove_downloaded(const char *name, const char *cache, bool required,
                                     uint64_t *bytes) {
    mc_repository r;
    walk w = {0};
    MC_TRY(mc_repository_init(&r, cache, name));
    mica_status status = MICA_OK;
    if (mc_path_is_dir(r.folder))
        status = remove_repository(&r, name, &w);
    else if (required)
        status = mc_fail(MICA_ENOENT, "the cache %s has no repository %s", r.cache, name);
    mc_repository_deinit(&r);
    *bytes += w.bytes;
    return status;
}

mica_status mica_cache_remove(const char *name, const char *cache, uint64_t *bytes) {
    named_walk made = {.name = name};
    if (bytes) *bytes = 0;
    if (!name) return mc_fail(MICA_EINVAL, "mica_cache_remove: name is NULL");
    if (!cache) MC_TRY(walk_cache(&made.walk, remove_named));
    mica_status status = MICA_OK;
    if (!made.removed || (!strchr(name, ':') && strncmp(name, "files/", 6) != 0))
        status = remove_downloaded(name, cache, !made.removed, &made.walk.bytes);
    if (bytes) *bytes = made.walk.bytes;
    return status;
}

/* ---- collecting ---- */

/* Removes snapshots that no ref names, if another one is named. In a dry run their links are still
 * there, so what they alone link to is noted by `kept` only. */
static mica_status collect_snapshots(walk *w, const char *folder, mc_map *blobs) {
    const char **names;
    size_t count = 0, named = 0;
    char *snapshots = mc_path_join(folder, "snapshots");
    mica_status status = snapshots ? MICA_OK : mc_fail_nomem("a path");
    if (status == MICA_OK && mc_path_is_dir(snapshots))
        status = mc_dir_list(snapshots, "", w->arena, &names, &count);
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        named += has_name(w, names[i]);
    for (size_t i = 0; status == MICA_OK && i < count; i++) {
        char *path = mc_path_join(snapshots, names[i]);
        walk links = {.visit = note_link, .arena = w->arena, .names = blobs};
        if (!path)
            status = mc_fail_nomem("a path");
        else if (named && !has_name(w, names[i]))
            status = remove_folder(w, path);
        else
            status = walk_folder(&links, path, 0);
        mc_free(path);
    }
    mc_free(snapshots);
    return status;
}

static mica_status collect_repository(walk *total, const char *cache, const char *name) {
    bool busy = true;
    mc_arena arena = {0};
    mc_map commits = {0}, blobs = {0}, gone = {0};
    walk w = {.visit = note_ref, .arena = &arena, .names = &commits, .dry_run = total->dry_run};
    if (w.dry_run) w.gone = &gone;
    char *folder = mc_path_join(cache, name), *all = mc_path_join(cache, ".locks");
    char *locks = all ? mc_path_join(all, name) : NULL;
    mica_status status = folder && locks ? is_busy(locks, &busy) : mc_fail_nomem("a path");
    if (status == MICA_OK && !busy) {
        status = walk_below(&w, folder, "refs");
        if (status == MICA_OK) status = collect_snapshots(&w, folder, &blobs);
        w.visit = remove_unlinked;
        w.names = &blobs;
        if (status == MICA_OK) status = walk_below(&w, folder, "blobs");
    }
    total->bytes += w.bytes;
    mc_map_deinit(&commits);
    mc_map_deinit(&blobs);
    mc_map_deinit(&gone);
    mc_arena_deinit(&arena);
    mc_free(folder);
    mc_free(locks);
    mc_free(all);
    return status;
}

static mica_status collect(const char *cache, walk *total) {
    static const char begin[] = "models--";
    const char **names;
    size_t count;
    mc_arena arena = {0};
    mica_status status = mc_dir_list(cache, "", &arena, &names, &count);
    if (status != MICA_OK) count = 0;
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        if (strncmp(names[i], begin, strlen(begin)) == 0)
            status = collect_repository(total, cache, names[i]);
    mc_arena_deinit(&arena);
    return status == MICA_ENOENT ? MICA_OK : status;
}

mica_status mica_cache_collect(const char *cache, bool dry_run, uint64_t *bytes) {
    char *found = NULL;
    walk total = {.dry_run = dry_run};
    if (bytes) *bytes = 0;
    if (!cache) MC_TRY(mc_hub_cache_find(&found));
    mica_status status = cache || found ? collect(cache ? cache : found, &total) : MICA_OK;
    mc_free(found);
    total.sweeps = true;
    if (status == MICA_OK && !cache) status = walk_cache(&total, collect_made);
    if (bytes) *bytes = total.bytes;
    return status;
}
