#define _POSIX_C_SOURCE 200809L
#include "exe.h"
#include "fetch.h"
#include "gguf.h"
#include "model.h"
#include "path.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the models that `mica list` shows ---- */

size_t cli_model_places(const char *out[CLI_MODEL_PLACES]) {
    /* $MICA_MODELS: a folder of models, found by name beside those of the Hugging Face cache */
    const char *models = getenv("MICA_MODELS");
    out[0] = NULL;
    if (!models || !*models) return 1;
    out[1] = cli_path_expand(models);
    return out[1] ? 2 : 1;
}

/* What is not there has no models. */
static void discover(mica_model_list *lists[CLI_MODEL_PLACES]) {
    /* $MICA_MODEL: the model where none is named (default: default in $MICA_MODELS, else the one
     * that comes with mica) */
    const char *paths[CLI_MODEL_PLACES];
    size_t count = cli_model_places(paths);
    for (size_t i = 0; i < CLI_MODEL_PLACES; i++)
        if (i >= count || mica_discover(paths[i], &lists[i]) != MICA_OK) lists[i] = NULL;
}

/* The folder of the listed model of that name, NULL where there is none; of two the first. */
static const char *find_listed(const char *name) {
    mica_model_list *lists[CLI_MODEL_PLACES];
    const char *path = NULL;
    discover(lists);
    for (size_t l = 0; l < CLI_MODEL_PLACES; l++) {
        for (size_t i = 0; lists[l] && !path && i < lists[l]->count; i++)
            if (strcmp(lists[l]->models[i]->name, name) == 0)
                path = cli_path_keep(lists[l]->models[i]->path);
        mica_model_list_free(&lists[l]);
    }
    return path;
}

/* The listed name nearest to one, as a whole or behind its last slash; NULL: none is near. */
static const char *nearest_listed(const char *name) {
    mica_model_list *lists[CLI_MODEL_PLACES];
    const char *nearest = NULL;
    discover(lists);
    for (size_t l = 0; l < CLI_MODEL_PLACES; l++) {
        for (size_t i = 0; lists[l] && !nearest && i < lists[l]->count; i++) {
            const char *whole = lists[l]->models[i]->name, *slash = strrchr(whole, '/');
            const char *names[] = {whole, slash ? slash + 1 : whole};
            if (cli_nearest(name, names, CLI_COUNT(names))) nearest = cli_path_keep(whole);
        }
        mica_model_list_free(&lists[l]);
    }
    return nearest;
}

/* ---- names ---- */

bool cli_is_model(const char *path) {
    char file[4096];
    struct stat info;
    int n = snprintf(file, sizeof file, "%s/config.json", path);
    return n > 0 && (size_t)n < sizeof file && stat(file, &info) == 0;
}

static bool is_path(const char *name) {
    size_t dots = name[0] == '~' ? 1 : strspn(name, ".");
    return cli_path_is_whole(name) || ((dots == 1 || dots == 2) && cli_is_slash(name[dots]));
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Whether a word is sooner a path or a model's name than a text: ./x, /x, ~/x, org/name,
 * name:tag, a name with a number in it; with `bare` any name of two letters and more. */
static bool looks_like_model(const char *word, bool bare) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char others[] = "0123456789-._:/";
    size_t len = strlen(word), named = 0;
    if (is_folder(word)) return true;
    if (strcspn(word, " \t\r\n") < len || strstr(word, "://")) return false;
    if (is_path(word)) return len > 1;
    while (named < len && (strchr(letters, word[named]) || strchr(others, word[named])))
        named++;
    if (named < len || len == 0 || !strchr(letters, word[0]) || word[len - 1] == ':') return false;
    return (bare && len > 1) || strpbrk(word, "/:0123456789");
}

/* Reports why a path is no model's, where it is there, or where else the model was looked for. */
static void tell_missing(const char *name) {
    const char *paths[CLI_MODEL_PLACES];
    struct stat info;
    bool two = cli_model_places(paths) > 1;
    mica_model *model = NULL;
    if (stat(name, &info) == 0)
        cli_fail_status(mica_model_open(name, NULL, &model)); /* which says what it is */
    else if (is_path(name))
        cli_fail("there is no model %s: there is no such folder", name);
    else
        cli_fail("there is no model %s: there is no such folder, and the Hugging Face cache%s%s %s",
                 name, two ? " and " : "", two ? paths[1] : "",
                 two ? "have no model of that name" : "has no model of that name");
}

/* Reports that there is no such model.  returns CLI_FAILED */
static int no_model(const char *name) {
    const char *nearest = nearest_listed(name);
    char hint[600];
    tell_missing(name);
    if (nearest)
        snprintf(hint, sizeof hint, "Did you mean %.500s?", nearest);
    else
        snprintf(hint, sizeof hint, "To download it: mica pull %.500s", name);
    if (nearest || cli_is_repository(name))
        cli_hint(hint);
    else if (!is_path(name))
        cli_hint("mica list shows the models that are here; mica pull ORG/NAME downloads one.");
    cli_hint("A model is a folder that holds config.json, tokenizer.json and *.safetensors.");
    return CLI_FAILED;
}

/* Whether the user can be asked to download a model. */
static bool may_ask(const char *name) {
    return cli_is_repository(name) && cli_stdin_is_terminal() && cli_stderr_is_terminal() &&
           !nearest_listed(name);
}

/* The folder of a named model; NULL after it reported that there is none. */
static const char *resolve(const char *name, bool yes, int *code) {
    struct stat info;
    const char *path = cli_path_expand(name);
    if (path && cli_is_gguf(path)) return cli_gguf_folder(path, NULL, code);
    if (!path || (stat(path, &info) == 0 && S_ISDIR(info.st_mode))) return path;
    const char *there = find_listed(name);
    int reported = CLI_DONE;
    if (!there && cli_is_repository(name) && (strchr(name, '@') || cli_means_gguf(name)))
        there = cli_fetch_cached(name, &reported);
    if (reported != CLI_DONE) *code = reported;
    if (there || reported != CLI_DONE) return there;
    if (may_ask(name) || (yes && cli_is_repository(name)))
        return cli_fetch(name, &(cli_fetch_options){.ask = !yes}, code);
    no_model(path);
    return NULL;
}

/* ---- finding ---- */

/* Whether a model is at `path` of the folder that is `up` levels above the program's file. */
static bool find_beside(char *out, size_t out_bytes, int up, const char *path) {
    if (!cli_exe_path(out, out_bytes)) return false;
    for (; up > 0; up--) {
        char *slash = strrchr(out, '/');
        *(slash ? slash : out) = '\0';
    }
    size_t at = strlen(out);
    int n = snprintf(out + at, out_bytes - at, "/%s", path);
    return n > 0 && (size_t)n < out_bytes - at && cli_is_model(out);
}

/* The model that comes with mica: beside an installed program (.../bin/mica), in a build folder,
 * which has a link to the source's, and where `make install` puts it. */
static const char *find_own(char *out, size_t out_bytes) {
    if (find_beside(out, out_bytes, 2, "share/mica/models/default") ||
        find_beside(out, out_bytes, 1, "models/default"))
        return out;
    snprintf(out, out_bytes, "%s/default", MICA_INSTALLED_MODELS);
    return cli_is_model(out) ? out : NULL;
}

const char *cli_model_find(const char *option, const char *word, bool yes, const char *verb_name,
                           int *code) {
    static char path[4096];
    const char *paths[CLI_MODEL_PLACES], *variable = getenv("MICA_MODEL");
    if (option && word) {
        *code = cli_usage(verb_name, "two models: --model %s and %s", option, word);
        return NULL;
    }
    *code = CLI_FAILED;
    if (option || word) return resolve(option ? option : word, yes, code);
    if (variable && *variable) return resolve(variable, yes, code);
    if (cli_model_places(paths) > 1) {
        snprintf(path, sizeof path, "%s/default", paths[1]);
        if (is_folder(path)) return path;
    }
    if (find_own(path, sizeof path)) return path;
    cli_fail("there is no default model at %s/default", MICA_INSTALLED_MODELS);
    cli_hint("Name a model's folder, or set MICA_MODEL to one.");
    return NULL;
}

/* Whether a word, which may be a text or a file, is a model. */
static bool names_model(const char *word) {
    if (word[strcspn(word, " \t\r\n")]) return cli_is_model(word);
    struct stat info;
    const char *path = cli_path_expand(word);
    if (!path || cli_is_model(path)) return path;
    if (cli_is_gguf(is_path(word) ? path : word)) return true; /* ~ alone is a text */
    return stat(path, &info) != 0 && (find_listed(word) || may_ask(word));
}

void cli_model_split(const char *option, char **args, int count, const char **model,
                     const char **text) {
    bool first_is_model = count == 2 || (count == 1 && !option && names_model(args[0]));
    *model = first_is_model ? args[0] : NULL;
    *text = count > first_is_model ? args[first_is_model] : NULL;
}

bool cli_model_is_missing(const char *word, bool bare) {
    if (!looks_like_model(word, bare)) return false;
    const char *path = cli_path_expand(word);
    if (path) no_model(path);
    return true;
}
