/* mica_pull: options and environment, and what the cache has already. */
#include "hub/pull.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/options.h"
#include "io/hub_cache.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CONNECTIONS = 4, MAX_CONNECTIONS = 32, STALL_SECONDS = 30, MAX_TOKEN = 1024 };

/* ---- environment ---- */

static bool is_set(const char *variable) {
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *value = getenv(variable);
    for (size_t i = 0; value && i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(value, yes[i]) == 0) return true;
    return false;
}

static const char *get(const char *variable, const char *otherwise) {
    const char *value = getenv(variable);
    return value && *value ? value : otherwise;
}

/* The token that `hf auth login` keeps; none if it cannot be read. */
static mica_status read_token(mc_pull *pull) {
    char *path = NULL;
    mc_filemap map = {0};
    size_t bytes, len = 0;
    const char *given = get("HF_TOKEN_PATH", NULL);
    if (given && !(path = mc_strdup(given))) return mc_fail_nomem("a token");
    if (!given) MC_TRY(mc_hub_home_find("token", &path));
    mica_status status = MICA_OK;
    if (path && mc_path_is_file(path) && !mc_filemap_read_head(path, MAX_TOKEN, &map, &bytes)) {
        while (len < map.size && map.data[len] > ' ')
            len++;
        if (len) pull->token = mc_strndup((const char *)map.data, len);
        if (len && !pull->token) status = mc_fail_nomem("a token");
    }
    mc_filemap_close(&map);
    mc_free(path);
    if (status == MICA_OK) pull->options.token = pull->token ? pull->token : "";
    return status;
}

static mica_status complete(mc_pull *pull) {
    mica_pull_options *o = &pull->options;
    if (!o->revision) o->revision = "main";
    MC_TRY(mc_revision_check(o->revision));
    if (o->include_count && !o->include) return mc_fail(MICA_EINVAL, "mica_pull: include is NULL");
    if (o->connections < 0 || o->connections > MAX_CONNECTIONS)
        return mc_fail(MICA_EINVAL, "mica_pull: %d connections, at most %d are possible",
                       o->connections, MAX_CONNECTIONS);
    if (o->stall_seconds < 0) return mc_fail(MICA_EINVAL, "mica_pull: stall_seconds is negative");
    if (!o->connections) o->connections = CONNECTIONS;
    if (!o->stall_seconds) o->stall_seconds = atoi(get("HF_HUB_DOWNLOAD_TIMEOUT", "0"));
    if (o->stall_seconds <= 0) o->stall_seconds = STALL_SECONDS;
    if (!o->endpoint) o->endpoint = get("HF_ENDPOINT", "https://huggingface.co");
    o->offline = o->offline || is_set("HF_HUB_OFFLINE");
    if (!o->token && is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")) o->token = "";
    if (!o->token) o->token = get("HF_TOKEN", NULL);
    return o->token ? MICA_OK : read_token(pull);
}

/* ---- the cache ---- */

/* errors  MICA_ENOENT the cache has no snapshot of that revision */
static mica_status find_offline(const mc_pull *pull, char commit[MC_COMMIT_TEXT]) {
    const char *revision = pull->options.revision;
    mica_status status = mc_repository_find(&pull->repository, revision, commit);
    if (status == MICA_ENOMEM) return status;
    char *folder = status == MICA_OK ? mc_repository_snapshot(&pull->repository, commit) : NULL;
    bool there = folder && mc_path_is_dir(folder);
    mc_free(folder);
    if (there) return MICA_OK;
    return mc_fail(MICA_ENOENT,
                   "the cache has no %s at %s, and mica is offline (--offline, HF_HUB_OFFLINE)",
                   pull->name, revision);
}

static mica_status pull_model(mc_pull *pull, char **folder) {
    char commit[MC_COMMIT_TEXT];
    MC_TRY(complete(pull));
    MC_TRY(mc_repository_init(&pull->repository, pull->options.cache, pull->name));
    MC_TRY(pull->options.offline ? find_offline(pull, commit) : mc_pull_online(pull, commit));
    *folder = mc_repository_snapshot(&pull->repository, commit);
    return *folder ? MICA_OK : mc_fail_nomem("a path");
}

mica_status mica_pull(const char *name, const mica_pull_options *options, char **folder) {
    mc_pull pull = {.name = name};
    if (!folder) return mc_fail(MICA_EINVAL, "mica_pull: folder is NULL");
    *folder = NULL;
    if (!name) return mc_fail(MICA_EINVAL, "mica_pull: name is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_pull_options, notice_user, &pull.options, options));
    mica_status status = pull_model(&pull, folder);
    mc_repository_deinit(&pull.repository);
    mc_free(pull.token);
    return status;
}
