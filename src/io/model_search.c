#include "io/model_search.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/map.h"
#include "base/system.h"

#include <string.h>

enum { DEEPEST = 8, MAX_REVISION = 255 };

static const char repository[] = "models--"; /* a folder of the Hugging Face cache */

typedef struct folder {
    const char *path;
    int depth;
} folder;

typedef struct search {
    mc_arena *arena;
    const char *root;
    mc_buffer queue; /* folder: those still to be searched */
    mc_map seen;     /* mc_path_info.id of folders that were put into the queue */
    mc_buffer *found;
} search;

static mica_status no_memory(void) {
    return mc_fail_nomem("a search for models");
}

/* "dir/name" in the arena; NULL: no memory. */
static const char *join(search *s, const char *dir, const char *name) {
    char *path = mc_path_join(dir, name);
    const char *copy = path ? mc_arena_strndup(s->arena, path, strlen(path)) : NULL;
    mc_free(path);
    return copy;
}

/* The entries of a folder; none if it cannot be read. */
static mica_status list(search *s, const char *path, const char *suffix, const char ***names,
                        size_t *count) {
    *count = 0;
    mica_status status = mc_dir_list(path, suffix, s->arena, names, count);
    if (status != MICA_OK) *count = 0;
    return status == MICA_ENOMEM ? status : MICA_OK;
}

/* ---- model folders ---- */

/* Describes the weights' files of a folder, without its name; a folder that is no model's has
 * none. */
static mica_status look_at(search *s, const char *path, mc_found_folder *found) {
    const char **names, *config = join(s, path, "config.json");
    size_t count;
    *found = (mc_found_folder){.path = path};
    if (!config) return no_memory();
    if (!mc_path_is_file(config)) return MICA_OK;
    MC_TRY(list(s, path, ".safetensors", &names, &count));
    for (size_t i = 0; i < count; i++) {
        mc_path_info info;
        const char *file = join(s, path, names[i]);
        if (!file) return no_memory();
        if (!mc_path_stat(file, &info) || !info.is_file) continue;
        found->weight_files++;
        found->weight_bytes += info.bytes;
    }
    return MICA_OK;
}

static mica_status add_found(search *s, mc_found_folder found, const char *name) {
    found.name = name;
    return MC_BUFFER_PUSH(s->found, mc_found_folder, found) ? MICA_OK : no_memory();
}

/* The path relative to the root; for the root its last part. */
static const char *name_below(const search *s, const char *path) {
    size_t root = strlen(s->root);
    if (!path[root]) return mc_path_name(path);
    return path + root + mc_is_slash(path[root]);
}

/* ---- the Hugging Face cache ---- */

static bool is_repository(const char *path) {
    return strncmp(mc_path_name(path), repository, strlen(repository)) == 0;
}

/* "models--org--name" -> "org/name" */
static mica_status name_repository(search *s, const char *path, const char **name) {
    const char *from = mc_path_name(path) + strlen(repository);
    char *text = mc_arena_alloc(s->arena, strlen(from) + 1), *to = text;
    if (!text) return no_memory();
    while (*from) {
        bool slash = from[0] == '-' && from[1] == '-';
        *to++ = slash ? '/' : *from;
        from += slash ? 2 : 1;
    }
    *to = 0;
    *name = text;
    return MICA_OK;
}

/* The snapshot that refs/main names; *path is NULL if it names none. */
static mica_status find_main(search *s, const char *repo, const char *snapshots,
                             const char **path) {
    mc_filemap map = {0};
    size_t file_bytes;
    *path = NULL;
    const char *main = join(s, repo, "refs/main");
    if (!main) return no_memory();
    mica_status status = mc_path_is_file(main)
                             ? mc_filemap_read_head(main, MAX_REVISION, &map, &file_bytes)
                             : MICA_ENOENT;
    if (status != MICA_OK) return status == MICA_ENOMEM ? status : MICA_OK;
    size_t len = 0;
    while (len < map.size && map.data[len] > ' ' && map.data[len] != '/')
        len++;
    const char *revision = mc_arena_strndup(s->arena, (const char *)map.data, len);
    mc_filemap_close(&map);
    if (!revision) return no_memory();
    if (!*revision || *revision == '.') return MICA_OK;
    *path = join(s, snapshots, revision);
    return *path ? MICA_OK : no_memory();
}

/* The newest snapshot that is a model; without files if there is none. */
static mica_status find_newest(search *s, const char *snapshots, mc_found_folder *found) {
    const char **names;
    size_t count;
    int64_t newest = 0;
    *found = (mc_found_folder){0};
    MC_TRY(list(s, snapshots, "", &names, &count));
    for (size_t i = 0; i < count; i++) {
        mc_found_folder at;
        mc_path_info info;
        const char *snapshot = join(s, snapshots, names[i]);
        if (!snapshot) return no_memory();
        MC_TRY(look_at(s, snapshot, &at));
        if (!at.weight_files || !mc_path_stat(snapshot, &info)) continue;
        if (found->weight_files && info.modified <= newest) continue;
        *found = at;
        newest = info.modified;
    }
    return MICA_OK;
}

static mica_status visit_repository(search *s, const char *repo) {
    mc_found_folder found = {0};
    const char *name = NULL, *path = NULL, *snapshots = join(s, repo, "snapshots");
    if (!snapshots) return no_memory();
    MC_TRY(find_main(s, repo, snapshots, &path));
    if (path) MC_TRY(look_at(s, path, &found));
    if (!found.weight_files) MC_TRY(find_newest(s, snapshots, &found));
    if (!found.weight_files) return MICA_OK;
    MC_TRY(name_repository(s, repo, &name));
    return add_found(s, found, name);
}

/* ---- the walk ---- */

/* Puts a folder into the queue unless it was there before, also by another path. */
static mica_status enqueue(search *s, const char *path, int depth) {
    uint64_t before;
    mc_path_info info;
    if (!mc_path_stat(path, &info) || !info.is_dir) return MICA_OK;
    const char *id = mc_arena_strndup(s->arena, (const char *)info.id, sizeof info.id);
    const mc_str key = {id, sizeof info.id};
    if (!id) return no_memory();
    if (mc_map_find(&s->seen, key, &before)) return MICA_OK;
    const folder next = {path, depth};
    if (!mc_map_put(&s->seen, key, 1) || !MC_BUFFER_PUSH(&s->queue, folder, next))
        return no_memory();
    return MICA_OK;
}

static mica_status visit(search *s, folder at) {
    mc_found_folder found;
    const char **names;
    size_t count;
    if (is_repository(at.path)) return visit_repository(s, at.path);
    MC_TRY(look_at(s, at.path, &found));
    if (found.weight_files) return add_found(s, found, name_below(s, at.path));
    if (at.depth == DEEPEST) return MICA_OK;
    MC_TRY(list(s, at.path, "", &names, &count));
    for (size_t i = 0; i < count; i++) {
        const char *path = join(s, at.path, names[i]);
        if (!path) return no_memory();
        MC_TRY(enqueue(s, path, at.depth + 1));
    }
    return MICA_OK;
}

static mica_status walk(search *s, const char *path) {
    const char **names;
    size_t count, len = strlen(path);
    MC_TRY(mc_dir_list(path, "", s->arena, &names, &count)); /* reports an unreadable root */
    while (len > 1 && mc_is_slash(path[len - 1]))
        len--;
    s->root = mc_arena_strndup(s->arena, path, len);
    if (!s->root) return no_memory();
    MC_TRY(enqueue(s, s->root, 0));
    for (size_t i = 0; i < MC_BUFFER_COUNT(&s->queue, folder); i++)
        MC_TRY(visit(s, MC_BUFFER_AT(&s->queue, folder)[i]));
    return MICA_OK;
}

mica_status mc_model_folders_find(const char *path, mc_arena *arena, mc_buffer *found) {
    search s = {.arena = arena, .found = found};
    mica_status status = walk(&s, path);
    mc_buffer_deinit(&s.queue);
    mc_map_deinit(&s.seen);
    return status;
}
