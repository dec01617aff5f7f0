/* mica_pull: options and environment, and what the cache has already. */
#include "hub/pull.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/options.h"
#include "io/gguf_cache.h"
#include "io/hub_cache.h"

#include <stdio.h>
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
    /* $HF_TOKEN_PATH: the file of the token that `hf auth login` keeps (default: $HF_HOME/token) */
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
    /* $HF_HUB_DOWNLOAD_TIMEOUT: seconds without a byte after which a download tries again (default:
     * 30) */
    if (!o->stall_seconds) o->stall_seconds = atoi(get("HF_HUB_DOWNLOAD_TIMEOUT", "0"));
    if (o->stall_seconds <= 0) o->stall_seconds = STALL_SECONDS;
    /* $HF_ENDPOINT: the address of a mirror (default: https://huggingface.co) */
    if (!o->endpoint) o->endpoint = get("HF_ENDPOINT", "https://huggingface.co");
    /* $HF_HUB_OFFLINE: 1: nothing is downloaded */
    o->offline = o->offline || is_set("HF_HUB_OFFLINE");
    /* $HF_HUB_DISABLE_IMPLICIT_TOKEN: 1: the token that was kept is not sent */
    if (!o->token && is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")) o->token = "";
    /* $HF_TOKEN: the token that is sent, for models that want one */
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
    return mc_fail(
        MICA_ENOENT,
        "the cache has no %s at %s, and mica is offline (the options say so, or HF_HUB_OFFLINE)",
        pull->name, revision);
}

/* ---- models of GGUF files ---- */

enum { QUANT_FORMS = 7, MAX_QUANT = 48, PATTERN_BYTES = 5 * MAX_QUANT + 32 };

/* What is downloaded of "org/name-GGUF:Q4_K_M". */
typedef struct gguf_wish {
    char *name;        /* of the repository */
    const char *quant; /* NULL: it is no such name */
    char patterns[QUANT_FORMS][PATTERN_BYTES];
    const char *include[QUANT_FORMS];
} gguf_wish;

/* The quantisation as a pattern that takes letters of both cases; false: it is no name. */
static bool write_quant(const char *quant, char out[5 * MAX_QUANT]) {
    static const char others[] = "0123456789-_.";
    char *to = out;
    if (!*quant || strlen(quant) > MAX_QUANT - 1) return false;
    for (const char *c = quant; *c; c++) {
        bool letter = (*c | 32) >= 'a' && (*c | 32) <= 'z';
        if (!letter && !strchr(others, *c)) return false;
        if (letter)
            to += snprintf(to, 5, "[%c%c]", *c & ~32, *c | 32);
        else
            *to++ = *c;
    }
    *to = '\0';
    return true;
}

static mica_status read_wish(mc_pull *pull, gguf_wish *wish) {
    /* As deep as mc_gguf_files_find looks. */
    static const char *const forms[QUANT_FORMS] = {
        "%s.gguf",   "*[-._]%s.gguf",   "*[-._]%s-[0-9]*-of-[0-9]*.gguf",  "%s/*.gguf",
        "*/%s.gguf", "*/*[-._]%s.gguf", "*/*[-._]%s-[0-9]*-of-[0-9]*.gguf"};
    char quant[5 * MAX_QUANT];
    size_t n;
    wish->quant = pull->options.include_count ? NULL : mc_gguf_quant_of(pull->name, &n);
    if (!wish->quant) return MICA_OK;
    if (!write_quant(wish->quant, quant))
        return mc_fail(MICA_EINVAL, "%s: what follows the colon is no quantisation's name",
                       pull->name);
    for (size_t i = 0; i < QUANT_FORMS; i++) {
        snprintf(wish->patterns[i], PATTERN_BYTES, forms[i], quant);
        wish->include[i] = wish->patterns[i];
    }
    pull->options.include = wish->include;
    pull->options.include_count = QUANT_FORMS;
    pull->one_model = true;
    pull->name = wish->name = mc_strndup(pull->name, n);
    return wish->name ? MICA_OK : mc_fail_nomem("a name");
}

/* Sets *path, a snapshot's folder, to the wanted file in it. */
static mica_status find_wish(const gguf_wish *wish, char **path) {
    mc_arena arena = {0};
    const char **files;
    size_t count;
    mica_status status = mc_gguf_files_find(*path, wish->quant, &arena, &files, &count);
    char *file = status == MICA_OK ? mc_strdup(files[0]) : NULL;
    mc_arena_deinit(&arena);
    mc_free(*path);
    *path = file;
    return status == MICA_OK && !file ? mc_fail_nomem("a path") : status;
}

/* ---- the whole ---- */

static mica_status pull_model(mc_pull *pull, gguf_wish *wish, char **folder) {
    char commit[MC_COMMIT_TEXT];
    MC_TRY(complete(pull));
    MC_TRY(read_wish(pull, wish));
    MC_TRY(mc_repository_init(&pull->repository, pull->options.cache, pull->name));
    MC_TRY(pull->options.offline ? find_offline(pull, commit) : mc_pull_online(pull, commit));
    *folder = mc_repository_snapshot(&pull->repository, commit);
    if (!*folder) return mc_fail_nomem("a path");
    return wish->quant ? find_wish(wish, folder) : MICA_OK;
}

mica_status mica_pull(const char *name, const mica_pull_options *options, char **folder) {
    mc_pull pull = {.name = name};
    if (!folder) return mc_fail(MICA_EINVAL, "mica_pull: folder is NULL");
    *folder = NULL;
    if (!name) return mc_fail(MICA_EINVAL, "mica_pull: name is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_pull_options, notice_user, &pull.options, options));
    gguf_wish wish = {0};
    mica_status status = pull_model(&pull, &wish, folder);
    mc_free(wish.name);
    mc_repository_deinit(&pull.repository);
    mc_free(pull.token);
    return status;
}
