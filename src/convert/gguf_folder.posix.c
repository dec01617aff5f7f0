/* mica_gguf_folder: a GGUF file's model folder in the cache. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include <mica/convert.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cancel.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/save_folder.h"
#include "convert/converting.h"
#include "io/gguf_cache.h"

#include <string.h>
#include <time.h>

typedef struct making {
    const mica_gguf_options *options;
    mc_arena arena;
    const char **files;
    size_t count;
    mc_buffer origin, lock_path;
    char *cache, *target; /* the cache, and the model's folder below it */
} making;

static mica_status no_memory(void) {
    return mc_fail_nomem("the model of a GGUF file");
}

/* errors  MICA_EINVAL a name that leads out of the cache */
static mica_status check_name(const char *name) {
    for (const char *part = name;;) {
        size_t n = strcspn(part, "/");
        if (!mc_is_entry_name((mc_str){part, n}))
            return mc_fail(MICA_EINVAL, "mica_gguf_folder: the name '%.100s' is none of a model",
                           name);
        if (!part[n]) return MICA_OK;
        part += n + 1;
    }
}

static mica_status find_target(making *m) {
    const char *name = m->options->name, *cache = m->options->cache;
    if (name) MC_TRY(check_name(name));
    if (cache && *cache)
        m->cache = mc_strdup(cache);
    else
        MC_TRY(mc_gguf_cache_find(&m->cache));
    if (!m->cache && !(cache && *cache))
        return mc_fail(MICA_ENOENT, "no place for the models of GGUF files: set MICA_GGUF_CACHE, "
                                    "or HOME");
    char *below = name ? mc_strdup(name) : mc_gguf_folder_name(m->files[0]);
    m->target = m->cache && below ? mc_path_join(m->cache, below) : NULL;
    mc_free(below);
    return m->target ? MICA_OK : no_memory();
}

/* Makes the folder that the target is in; the lock is a hidden file there. The target has a slash
 * behind the cache. */
static mica_status prepare(making *m) {
    const char *slash = strrchr(m->target, '/');
    size_t n = (size_t)(slash - m->target);
    char *parent = mc_strndup(m->target, n);
    mica_status status = parent ? mc_folder_make(parent) : no_memory();
    bool done =
        status != MICA_OK || (mc_buffer_printf(&m->lock_path, "%s/.%s.lock", parent, slash + 1) &&
                              mc_buffer_cstr(&m->lock_path));
    mc_free(parent);
    return done ? status : no_memory();
}

static bool is_made(const making *m) {
    return mc_gguf_origin_is(m->target, (mc_str){m->origin.data, m->origin.len});
}

/* Waits for whoever makes the folder now. */
static mica_status take_lock(const making *m, int *lock) {
    const struct timespec pause = {0, 100000000};
    for (;;) {
        MC_TRY(mc_lock_try(m->lock_path.data, lock));
        if (*lock >= 0) return MICA_OK;
        MC_TRY(mc_cancel_check(m->options->cancel));
        nanosleep(&pause, NULL);
    }
}

static mica_status convert(const making *m) {
    const mica_gguf_options *o = m->options;
    const mica_convert_options options = {.struct_bytes = sizeof options,
                                          .progress = o->progress,
                                          .progress_user = o->progress_user,
                                          .cancel = o->cancel,
                                          .threads = o->threads};
    if (is_made(m)) return MICA_OK; /* while the lock was waited for */
    mc_path_info there;
    mc_gguf_made made;
    MC_TRY(mc_gguf_origin_find(m->target, &made));
    if (made != MC_GGUF_FOREIGN) /* of another file, or of this as it was */
        MC_TRY(mc_save_folder_discard(m->target));
    else if (mc_path_stat(m->target, &there))
        return mc_fail(MICA_EINVAL, "%s: exists and was not made of a GGUF file", m->target);
    return mc_convert_kept(m->files[0], m->target, &options,
                           (mc_str){m->origin.data, m->origin.len});
}

static mica_status make(making *m, const char *path) {
    int lock = -1;
    MC_TRY(mc_gguf_files_find(path, NULL, &m->arena, &m->files, &m->count));
    MC_TRY(mc_gguf_origin_make(m->files, m->count, &m->origin));
    MC_TRY(find_target(m));
    if (is_made(m)) return MICA_OK;
    MC_TRY(prepare(m));
    mica_status status = take_lock(m, &lock);
    if (status == MICA_OK) status = convert(m);
    mc_lock_release(&lock);
    return status;
}

mica_status mica_gguf_folder(const char *path, const mica_gguf_options *given, char **folder) {
    mica_gguf_options options;
    if (!folder) return mc_fail(MICA_EINVAL, "mica_gguf_folder: folder is NULL");
    *folder = NULL;
    if (!path) return mc_fail(MICA_EINVAL, "mica_gguf_folder: path is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_gguf_options, cancel, &options, given));
    making m = {.options = &options};
    mica_status status = make(&m, path);
    if (status == MICA_OK) {
        *folder = m.target;
        m.target = NULL;
    }
    mc_free(m.target);
    mc_free(m.cache);
    mc_buffer_deinit(&m.origin);
    mc_buffer_deinit(&m.lock_path);
    mc_arena_deinit(&m.arena);
    return status;
}
