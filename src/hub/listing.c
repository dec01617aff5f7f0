#include "hub/listing.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/system.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_PAGES = 1024, MAX_PAGE_BYTES = 16 << 20, MAX_FILES = 250000, MAX_TRIES = 3 };

/* ---- addresses ---- */

bool mc_url_add(mc_buffer *url, const char *text, bool keep_slashes) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; *text; text++) {
        bool as_it_is = strchr(plain, *text) || (*text == '/' && keep_slashes);
        if (as_it_is ? !mc_buffer_add_byte(url, *text)
                     : !mc_buffer_printf(url, "%%%02X", (unsigned)(unsigned char)*text))
            return false;
    }
    return true;
}

/* ---- errors ---- */

mica_status mc_hub_explain(const mc_http_transfer *t, const char *endpoint, const char *name,
                           const char *what) {
    if (t->status != MICA_OK)
        return mc_fail(t->status, "%s: cannot get %s of %s: %s", endpoint, what, name, t->failure);
    if (strcmp(t->error_code, "GatedRepo") == 0)
        return mc_fail(MICA_EIO,
                       "%s is gated: ask for access at %s/%s, then set HF_TOKEN to a token of "
                       "yours, or run hf auth login",
                       name, endpoint, name);
    if (strcmp(t->error_code, "RevisionNotFound") == 0)
        return mc_fail(MICA_ENOENT, "%s has no such revision", name);
    if (strcmp(t->error_code, "EntryNotFound") == 0)
        return mc_fail(MICA_ENOENT, "%s has no %s", name, what);
    if (t->code == 401 || t->code == 404)
        return mc_fail(MICA_ENOENT,
                       "%s has no repository %s, or it is private: then set HF_TOKEN to a token "
                       "that may read it",
                       endpoint, name);
    if (t->code == 403)
        return mc_fail(MICA_EIO, "%s does not let this token read %s%s%s", endpoint, name,
                       t->error_text[0] ? ": " : "", t->error_text);
    if (t->code == 429)
        return t->retry_after
                   ? mc_fail(MICA_EIO,
                             "%s answers that there were too many requests: try again in %" PRId64
                             " s",
                             endpoint, t->retry_after)
                   : mc_fail(MICA_EIO,
                             "%s answers that there were too many requests: try again later",
                             endpoint);
    return mc_fail(MICA_EIO, "%s answers %d for %s of %s%s%s", endpoint, t->code, what, name,
                   t->error_text[0] ? ": " : "", t->error_text);
}

static mica_status fail_answer(const char *endpoint, const char *why) {
    return mc_fail(MICA_EFORMAT, "%s: the hub's answer is malformed: %s", endpoint, why);
}

/* ---- pages ---- */

static mica_status take_text(mc_http_transfer *t, const void *bytes, size_t count) {
    mc_buffer *text = t->user;
    if (text->len + count > MAX_PAGE_BYTES)
        return mc_fail(MICA_EFORMAT, "the answer has more than %d MiB", MAX_PAGE_BYTES >> 20);
    return mc_buffer_add(text, bytes, count) ? MICA_OK : mc_fail_nomem("an answer of the hub");
}

/* Asks until there is a body, or an answer that would be the same another time. */
static mica_status ask(mc_http *http, mc_http_transfer *t) {
    for (int tries = 1;; tries++) {
        MC_TRY(mc_http_start(http, t));
        while (!t->ended)
            MC_TRY(mc_http_wait(http, MC_HTTP_WAIT_MS));
        if (mc_http_answered(t) || tries > MAX_TRIES || !mc_http_may_retry(t)) return MICA_OK;
        mc_http_drop(http, t);
        mc_buffer_clear(t->user);
        uint64_t until = mc_http_retry_us(http, t, tries);
        for (until += mc_now_us(); mc_now_us() < until;)
            MC_TRY(mc_http_wait(http, MC_HTTP_WAIT_MS));
    }
}

/* Gets a page and the address of the next one: "" behind the last. */
static mica_status get_page(mc_http *http, const char *endpoint, const char *name, mc_buffer *url,
                            const char *what, mc_json_doc **doc) {
    mc_buffer text = {0};
    mc_http_transfer t = {.url = mc_buffer_cstr(url), .take = take_text, .user = &text};
    *doc = NULL;
    if (!t.url) return mc_fail_nomem("an address");
    mica_status status = ask(http, &t);
    if (status == MICA_OK && !mc_http_answered(&t))
        status = mc_hub_explain(&t, endpoint, name, what);
    if (status == MICA_OK) status = mc_json_parse(text.data, text.len, endpoint, doc);
    mc_http_drop(http, &t);
    mc_buffer_deinit(&text);
    mc_buffer_clear(url);
    if (status != MICA_OK || mc_buffer_add_text(url, t.next)) return status;
    mc_json_close(doc);
    return mc_fail_nomem("an address");
}

/* ---- answers ---- */

static mica_status read_commit(mc_json root, const char *endpoint, char commit[MC_COMMIT_TEXT]) {
    mc_str text;
    if (!mc_json_get_str(mc_json_find(root, "sha"), &text) || text.len != MC_COMMIT_TEXT - 1)
        return fail_answer(endpoint, "no commit");
    memcpy(commit, text.ptr, text.len);
    commit[text.len] = '\0';
    return mc_is_commit(commit) ? MICA_OK : fail_answer(endpoint, "no commit");
}

static bool is_checksum(mc_str text, size_t digits) {
    for (size_t i = 0; i < text.len; i++)
        if (!memchr("0123456789abcdef", text.ptr[i], 16)) return false;
    return text.len == digits;
}

static mica_status read_file(mc_json entry, const char *endpoint, mc_listing *listing) {
    int64_t size;
    mc_str type, path, blob;
    mc_json lfs = mc_json_find(entry, "lfs");
    if (!mc_json_get_str(mc_json_find(entry, "type"), &type) ||
        !mc_json_get_str(mc_json_find(entry, "path"), &path))
        return fail_answer(endpoint, "an entry without a type or a path");
    if (!mc_str_is(type, "file")) return MICA_OK;
    bool large = mc_json_get_type(lfs) == MC_JSON_OBJECT;
    mc_json from = large ? lfs : entry;
    if (!mc_json_get_int(mc_json_find(from, "size"), &size) || size < 0 ||
        !mc_json_get_str(mc_json_find(from, "oid"), &blob) || !is_checksum(blob, large ? 64 : 40))
        return fail_answer(endpoint, "a file without a size or a checksum");
    mc_hub_file file = {.path = mc_arena_strndup(&listing->arena, path.ptr, path.len),
                        .blob = mc_arena_strndup(&listing->arena, blob.ptr, blob.len),
                        .size = (uint64_t)size,
                        .sha256 = large};
    if (!file.path || !file.blob) return mc_fail_nomem("a list of files");
    if (strlen(file.path) != path.len || !mc_is_file_path(file.path))
        return fail_answer(endpoint, "a file's path that leads out of its folder, or too deep");
    if (MC_BUFFER_COUNT(&listing->files, mc_hub_file) == MAX_FILES)
        return mc_fail(MICA_EFORMAT, "%s: the repository has more than %d files", endpoint,
                       MAX_FILES);
    return MC_BUFFER_PUSH(&listing->files, mc_hub_file, file) ? MICA_OK
                                                              : mc_fail_nomem("a list of files");
}

static mica_status read_page(mc_json root, const char *endpoint, mc_listing *listing) {
    if (mc_json_get_type(root) != MC_JSON_ARRAY) return fail_answer(endpoint, "no list of files");
    for (mc_json_iter it = mc_json_begin(root); mc_json_next(&it);)
        MC_TRY(read_file(it.value, endpoint, listing));
    return MICA_OK;
}

/* ---- asking ---- */

static bool put_address(mc_buffer *url, const char *endpoint, const char *name, const char *what,
                        const char *revision) {
    size_t len = strlen(endpoint);
    while (len > 0 && endpoint[len - 1] == '/')
        len--;
    return mc_buffer_add(url, endpoint, len) && mc_buffer_add_text(url, "/api/models/") &&
           mc_url_add(url, name, true) && mc_buffer_printf(url, "/%s/", what) &&
           mc_url_add(url, revision, false);
}

static mica_status load(mc_http *http, const char *endpoint, const char *name, const char *revision,
                        mc_buffer *url, mc_listing *listing) {
    mc_json_doc *doc;
    if (!put_address(url, endpoint, name, "revision", revision)) return mc_fail_nomem("an address");
    MC_TRY(get_page(http, endpoint, name, url, "the description", &doc));
    mica_status status = read_commit(mc_json_root(doc), endpoint, listing->commit);
    mc_json_close(&doc);
    mc_buffer_clear(url);
    if (status == MICA_OK && (!put_address(url, endpoint, name, "tree", listing->commit) ||
                              !mc_buffer_add_text(url, "?recursive=true")))
        status = mc_fail_nomem("an address");
    for (int page = 0; status == MICA_OK && url->len; page++) {
        if (page == MAX_PAGES) return fail_answer(endpoint, "a list of files without an end");
        MC_TRY(get_page(http, endpoint, name, url, "the list of files", &doc));
        status = read_page(mc_json_root(doc), endpoint, listing);
        mc_json_close(&doc);
    }
    return status;
}

mica_status mc_listing_load(mc_http *http, const char *endpoint, const char *name,
                            const char *revision, mc_listing *listing) {
    mc_buffer url = {0};
    mica_status status = load(http, endpoint, name, revision, &url, listing);
    mc_buffer_deinit(&url);
    return status;
}

void mc_listing_deinit(mc_listing *listing) {
    mc_buffer_deinit(&listing->files);
    mc_arena_deinit(&listing->arena);
    *listing = (mc_listing){0};
}
