#define _XOPEN_SOURCE 700 /* realpath */

#include "io/gguf_cache.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/system.h"

#include <mica/file.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_FILES = 1000, MAX_ORIGIN = 1 << 20, MAX_PATH_TEXT = 4096 };

static const char ending[] = ".gguf", origin_name[] = "mica_gguf.txt";
static const char origin_begin[] = "mica gguf ";   /* of every version's */
static const char origin_head[] = "mica gguf 2\n"; /* counts up when conversions change */

static mica_status no_memory(void) {
    return mc_fail_nomem("the path of a GGUF file");
}

mica_status mc_gguf_cache_find(char **path) {
    /* $MICA_GGUF_CACHE: the folder of GGUF files in this layout (default: mica/gguf in
     * $XDG_CACHE_HOME) */
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"MICA_GGUF_CACHE", ""}, {"XDG_CACHE_HOME", "mica/gguf"}, {"HOME", ".cache/mica/gguf"}};
    *path = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !*value) continue;
        *path = *places[i].below ? mc_path_join(value, places[i].below) : mc_strdup(value);
        return *path ? MICA_OK : no_memory();
    }
    return MICA_OK;
}

/* ---- names ---- */

const char *mc_gguf_quant_of(const char *name, size_t *name_bytes) {
    static const char usual[] = "Q4_K_M", suffix[] = "-gguf";
    const char *colon = strchr(name, ':');
    *name_bytes = colon ? (size_t)(colon - name) : strlen(name);
    if (colon) return colon[1] ? colon + 1 : NULL;
    size_t n = strlen(suffix);
    return *name_bytes > n && strcasecmp(name + *name_bytes - n, suffix) == 0 ? usual : NULL;
}

/* The number of a file of several, and how many there are: "...-00002-of-00003.gguf"; false: it is
 * one alone. *at: where the number begins. */
static bool read_split(const char *path, size_t *at, int *number, int *count) {
    static const char form[] = "-00000-of-00000.gguf";
    size_t len = strlen(path), n = sizeof form - 1;
    if (len <= n) return false;
    const char *from = path + len - n;
    for (size_t i = 0; i < n; i++)
        if (form[i] == '0' ? from[i] < '0' || from[i] > '9' : from[i] != form[i]) return false;
    *at = len - n + 1;
    *number = atoi(from + 1);
    *count = atoi(from + 10);
    return *count >= 1 && *count <= MAX_FILES && *number >= 1 && *number <= *count;
}

/* Whether the name of a file ends in a quantisation's, or its folder is called so. */
static bool has_quant(const char *path, const char *quant) {
    const char *name = mc_path_name(path);
    size_t at, len = strlen(name) - strlen(ending), n = strlen(quant);
    int number, count;
    if (read_split(name, &at, &number, &count)) len = at - 1;
    bool last = len >= n && strncasecmp(name + len - n, quant, n) == 0 &&
                (len == n || strchr("-._", name[len - n - 1]));
    size_t folder = name > path ? (size_t)(name - path) - 1 : 0;
    return last || (folder >= n && strncasecmp(path + folder - n, quant, n) == 0 &&
                    (folder == n || mc_is_slash(path[folder - n - 1])));
}

/* ---- files ---- */

static mica_status add_split(const char *path, size_t at, int count, mc_arena *arena,
                             mc_buffer *files) {
    for (int i = 1; i <= count; i++) {
        char *file = mc_arena_strndup(arena, path, strlen(path));
        char number[16];
        if (!file) return no_memory();
        snprintf(number, sizeof number, "%05d", i);
        memcpy(file + at, number, 5);
        if (!mc_path_is_file(file))
            return mc_fail(MICA_ENOENT, "%s: is one of %d files, of which %s is missing", path,
                           count, mc_path_name(file));
        if (!MC_BUFFER_PUSH(files, const char *, file)) return no_memory();
    }
    return MICA_OK;
}

static mica_status add_model(const char *path, mc_arena *arena, mc_buffer *files) {
    size_t at;
    int number, count;
    if (read_split(path, &at, &number, &count)) return add_split(path, at, count, arena, files);
    const char *file = mc_arena_strndup(arena, path, strlen(path));
    return file && MC_BUFFER_PUSH(files, const char *, file) ? MICA_OK : no_memory();
}

/* Adds the first files of a folder's models, and of those in its folders. */
static mica_status list_models(const char *folder, const char *quant, int depth, mc_arena *arena,
                               mc_buffer *models) {
    const char **names;
    size_t n, at;
    int number, count;
    MC_TRY(mc_dir_list(folder, "", arena, &names, &n));
    for (size_t i = 0; i < n; i++) {
        char *joined = mc_path_join(folder, names[i]);
        const char *path = joined ? mc_arena_strndup(arena, joined, strlen(joined)) : NULL;
        mc_free(joined);
        if (!path) return no_memory();
        if (depth < 1 && mc_path_is_dir(path))
            MC_TRY(list_models(path, quant, depth + 1, arena, models));
        if (!mc_str_ends(mc_str_of(path), mc_str_of(ending)) || strstr(names[i], "mmproj") ||
            (read_split(path, &at, &number, &count) && number > 1) ||
            (quant && !has_quant(path, quant)) || !mc_path_is_file(path))
            continue;
        if (!MC_BUFFER_PUSH(models, const char *, path)) return no_memory();
    }
    return MICA_OK;
}

static mica_status fail_several(const char *path, const mc_buffer *models) {
    mc_buffer text = {0};
    size_t n = MC_BUFFER_COUNT(models, const char *);
    bool done = true;
    for (size_t i = 0; done && i < n && i < 3; i++)
        done = mc_buffer_printf(&text, "%s%s", i ? ", " : "",
                                mc_path_name(MC_BUFFER_AT(models, const char *)[i]));
    if (done && n > 3) done = mc_buffer_printf(&text, " and %zu more", n - 3);
    mica_status status =
        done && mc_buffer_cstr(&text)
            ? mc_fail(MICA_EINVAL, "%s: holds %zu models of GGUF files: name one of them: %s", path,
                      n, text.data)
            : no_memory();
    mc_buffer_deinit(&text);
    return status;
}

static mica_status find_in_folder(const char *path, const char *quant, mc_arena *arena,
                                  mc_buffer *files) {
    mc_buffer models = {0};
    mica_status status = list_models(path, quant, 0, arena, &models);
    size_t n = MC_BUFFER_COUNT(&models, const char *);
    if (status == MICA_OK && n == 0)
        status = mc_fail(MICA_ENOENT, "%s: holds no GGUF file%s%s", path, quant ? " of " : "",
                         quant ? quant : "");
    if (status == MICA_OK && n > 1) status = fail_several(path, &models);
    if (status == MICA_OK) status = add_model(MC_BUFFER_AT(&models, const char *)[0], arena, files);
    mc_buffer_deinit(&models);
    return status;
}

mica_status mc_gguf_files_find(const char *path, const char *quant, mc_arena *arena,
                               const char ***files, size_t *count) {
    mc_buffer found = {0};
    *files = NULL;
    *count = 0;
    mica_status status = mc_path_is_dir(path) ? find_in_folder(path, quant, arena, &found)
                                              : add_model(path, arena, &found);
    if (status == MICA_OK) {
        *count = MC_BUFFER_COUNT(&found, const char *);
        *files = mc_arena_alloc(arena, found.len);
        if (*files)
            memcpy(*files, found.data, found.len);
        else
            status = no_memory();
    }
    mc_buffer_deinit(&found);
    return status;
}

/* ---- origins ---- */

static bool add_line(mc_buffer *out, const char *path, const mc_path_info *info) {
    return mc_buffer_printf(out, "%" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 " %s\n",
                            info->bytes, info->modified, info->modified_ns, info->id[1], path);
}

mica_status mc_gguf_origin_make(const char *const *files, size_t count, mc_buffer *out) {
    if (!mc_buffer_add_text(out, origin_head)) return no_memory();
    for (size_t i = 0; i < count; i++) {
        mc_path_info info;
        char *real = realpath(files[i], NULL);
        mica_status status = MICA_OK;
        if (!real || !mc_path_stat(real, &info) || !info.is_file)
            status = mc_fail(MICA_ENOENT, "there is no file %s", files[i]);
        else if (strchr(real, '\n'))
            status = mc_fail(MICA_EINVAL, "%s: a line break in a path of a GGUF file", real);
        else if (!add_line(out, real, &info))
            status = no_memory();
        free(real);
        MC_TRY(status);
    }
    return MICA_OK;
}

/* The origin of a folder, with a NUL behind it; empty: it has none. */
static mica_status read_origin(const char *folder, mc_buffer *out) {
    mc_filemap map = {0};
    size_t size;
    char *path = mc_path_join(folder, origin_name);
    mica_status status = path ? MICA_OK : no_memory();
    if (path && mc_path_is_file(path)) status = mc_filemap_read_head(path, MAX_ORIGIN, &map, &size);
    if (status == MICA_OK &&
        (!mc_buffer_add(out, (const char *)map.data, map.size) || !mc_buffer_cstr(out)))
        status = no_memory();
    mc_filemap_close(&map);
    mc_free(path);
    return status;
}

bool mc_gguf_origin_is(const char *folder, mc_str origin) {
    mc_buffer there = {0};
    bool is = read_origin(folder, &there) == MICA_OK &&
              mc_str_eq((mc_str){there.data, there.len}, origin);
    mc_buffer_deinit(&there);
    return is;
}

/* Whether a line is what would be written of its file now. */
static mica_status check_line(const char *line, size_t len, bool *stands) {
    char path[MAX_PATH_TEXT];
    const char *at = line, *end = line + len;
    mc_buffer now = {0};
    mc_path_info info;
    *stands = false;
    for (int spaces = 0; spaces < 4 && at; spaces++) {
        at = memchr(at, ' ', (size_t)(end - at));
        if (at) at++;
    }
    if (!at || (size_t)(end - at) >= sizeof path) return MICA_OK;
    memcpy(path, at, (size_t)(end - at));
    path[end - at] = '\0';
    if (!mc_path_stat(path, &info) || !info.is_file) return MICA_OK;
    mica_status status = add_line(&now, path, &info) ? MICA_OK : no_memory();
    *stands = now.len == len + 1 && memcmp(now.data, line, len) == 0;
    mc_buffer_deinit(&now);
    return status;
}

static mica_status check_origin(const char *text, mc_gguf_made *made) {
    size_t head = sizeof origin_head - 1;
    *made = MC_GGUF_FOREIGN;
    if (strncmp(text, origin_begin, sizeof origin_begin - 1) != 0) return MICA_OK;
    *made = MC_GGUF_MADE;
    bool stands = strncmp(text, origin_head, head) == 0 && text[head];
    for (const char *line = text + head; stands && *line;) {
        size_t len = strcspn(line, "\n");
        MC_TRY(check_line(line, len, &stands));
        line += len + (line[len] == '\n');
    }
    if (stands) *made = MC_GGUF_STANDS;
    return MICA_OK;
}

mica_status mc_gguf_origin_find(const char *folder, mc_gguf_made *made) {
    mc_buffer text = {0};
    mica_status status = read_origin(folder, &text);
    *made = MC_GGUF_FOREIGN;
    if (status == MICA_OK && text.len) status = check_origin(text.data, made);
    mc_buffer_deinit(&text);
    return status;
}

mica_status mc_gguf_origin_write(const char *folder, mc_str origin) {
    char *path = mc_path_join(folder, origin_name);
    mica_status status = path ? mica_file_save(path, origin.ptr, origin.len) : no_memory();
    mc_free(path);
    return status;
}

char *mc_gguf_folder_name(const char *file) {
    mc_buffer text = {0};
    char *real = realpath(file, NULL);
    const char *name = mc_path_name(file);
    size_t len = strlen(name);
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = real ? real : file; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    if (mc_str_ends(mc_str_of(name), mc_str_of(ending))) len -= strlen(ending);
    bool done = mc_buffer_printf(&text, "files/%.*s-%08" PRIx32, (int)len, name, hash);
    char *made = done ? mc_buffer_take(&text) : NULL;
    mc_buffer_deinit(&text);
    free(real);
    return made;
}
