/* /v1/files: what batches read and write. */
#include "base/alloc.h"
#include "serve/common/failure.h"
#include "serve/common/file_store.h"
#include "serve/common/multipart.h"
#include "serve/common/put.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/state.h"
#include "serve/openai/openai.h"

#include <string.h>

static const mc_field fields[] = {
    MC_FIELD(TEXT, "file", .required = true, .help = "the file: JSON lines, see /v1/batches"),
    MC_FIELD(ONLY, "purpose", .required = true, .choices = "\"batch\""),
    MC_FIELD(REFUSED, "expires_after",
             .help = "files stay until they are deleted, or the server ends"),
};

/* What is known of a file, as an object. */
static void put_file(mc_put *put, const mc_stored_file *file) {
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "id", file->id);
    mc_put_text(put, "object", "file");
    mc_put_int(put, "bytes", file->bytes);
    mc_put_int(put, "created_at", file->created);
    mc_put_text(put, "filename", file->filename);
    mc_put_text(put, "purpose", file->purpose);
    mc_put_text(put, "status", "processed");
    mc_put_close(put, '}');
}

/* A file that cannot be written; paths are not told. Returns false. */
static bool fail_file(mc_failure *failure, mica_status status) {
    if (status == MICA_EBUSY)
        return mc_failure_set(failure, 413, "too_many_files", "file", "%s", mica_last_error());
    return mc_failure_set(
        failure, 500, NULL, NULL,
        "the server cannot write the file: its $TMPDIR is full, or not for writing");
}

/* ---- uploads ---- */

/* Checks a part by its name, and finds the file among them. */
static bool check_part(const mc_part *part, const mc_part **file, bool *purpose,
                       mc_failure *failure) {
    char name[64];
    size_t len = part->name.len < sizeof name - 1 ? part->name.len : sizeof name - 1;
    memcpy(name, part->name.ptr, len);
    name[len] = '\0';
    bool again = mc_str_is(part->name, "file") ? *file != NULL
                                               : *purpose && mc_str_is(part->name, "purpose");
    if (again)
        return mc_failure_set(failure, 400, "repeated_field", name, "%s is given twice", name);
    if (mc_str_is(part->name, "file")) {
        *file = part;
    } else if (mc_str_is(part->name, "purpose")) {
        *purpose = true;
        if (!mc_str_is(part->content, "batch"))
            return mc_failure_set(failure, 400, "unsupported_value", name,
                                  "purpose: mica supports only batch here");
    } else if (mc_str_starts(part->name, MC_STR("expires_after"))) {
        return mc_failure_set(failure, 400, "unsupported_field", "expires_after",
                              "expires_after is not supported: %s", fields[2].help);
    } else {
        return mc_failure_set(failure, 400, "unknown_field", name, "there is no field %s", name);
    }
    return true;
}

static bool upload(mc_exchange *http) {
    mc_part parts[MC_PARTS];
    const mc_part *file = NULL;
    bool purpose = false;
    size_t n;
    mc_failure *failure = &http->failure;
    if (!mc_multipart_read((mc_str){http->body.data, http->body.len}, parts, &n, failure))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!check_part(&parts[i], &file, &purpose, failure)) return false;
    if (!file || !purpose) {
        const char *name = file ? "purpose" : "file";
        return mc_failure_set(failure, 400, "missing_field", name, "%s is missing", name);
    }
    mc_file_writer writer;
    mica_status status =
        mc_file_writer_open(&writer, &http->server->files, http->key, file->filename, "batch");
    if (status == MICA_OK) {
        status = mc_file_writer_add(&writer, file->content.ptr, file->content.len);
        status = mc_file_writer_close(&writer, status);
    }
    if (status != MICA_OK) return fail_file(failure, status);
    mc_put put = mc_put_into(&http->out);
    put_file(&put, &writer.about);
    return mc_exchange_send(http, &put);
}

/* ---- what there is ---- */

static bool is_missing(mc_exchange *http) {
    return mc_failure_set(&http->failure, 404, "file_not_found", "id", "there is no file %.60s",
                          http->tail);
}

/* GET /v1/files/ID and /v1/files/ID/content. */
static bool retrieve(mc_exchange *http) {
    mc_str id = mc_str_of(http->tail);
    mc_stored_file about;
    if (mc_str_ends(id, MC_STR("/content"))) {
        id.len -= 8;
        int fd = mc_file_store_open_file(&http->server->files, http->key, id, &about);
        if (fd < 0) return is_missing(http);
        mc_exchange_reply_file(http, fd, (uint64_t)about.bytes, "application/octet-stream");
        return true;
    }
    if (!mc_file_store_find(&http->server->files, http->key, id, &about)) return is_missing(http);
    mc_put put = mc_put_into(&http->out);
    put_file(&put, &about);
    return mc_exchange_send(http, &put);
}

/* All files of a key and a purpose, NULL: any, oldest or newest first, into found[MC_FILES].
 * Returns their count. */
static size_t find_files(mc_file_store *store, size_t key, const char *purpose, bool newest,
                         mc_stored_file *found) {
    size_t all = mc_file_store_list(store, key, found), n = 0;
    for (size_t i = 0; i < all; i++)
        if (!purpose || strcmp(purpose, found[i].purpose) == 0) found[n++] = found[i];
    for (size_t i = 0; newest && i < n / 2; i++) {
        const mc_stored_file about = found[i];
        found[i] = found[n - 1 - i];
        found[n - 1 - i] = about;
    }
    return n;
}

static void put_files(mc_put *put, const mc_stored_file *files, size_t n, bool more) {
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "object", "list");
    mc_put_open(put, "data", '[');
    for (size_t i = 0; i < n; i++)
        put_file(put, &files[i]);
    mc_put_close(put, ']');
    mc_put_text(put, "first_id", n ? files[0].id : "");
    mc_put_text(put, "last_id", n ? files[n - 1].id : "");
    mc_put_bool(put, "has_more", more);
    mc_put_close(put, '}');
}

enum { QUERY_AFTER, QUERY_LIMIT, QUERY_ORDER, QUERY_PURPOSE };

static bool list(mc_exchange *http) {
    const char *after = http->query[QUERY_AFTER], *order = http->query[QUERY_ORDER];
    mc_failure *failure = &http->failure;
    size_t limit = MC_FILES, first = 0;
    if (!mc_openai_read_limit(http->query[QUERY_LIMIT], 10000, &limit, failure)) return false;
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return mc_failure_set(failure, 400, "invalid_value", "order", "order: want asc or desc");
    mc_stored_file *found = mc_calloc(MC_FILES, sizeof *found);
    if (!found) return mc_failure_of(failure, mc_fail_nomem("a list"), NULL);
    size_t n = find_files(&http->server->files, http->key, http->query[QUERY_PURPOSE],
                          !order || strcmp(order, "desc") == 0, found);
    while (after && first < n && strcmp(found[first].id, after) != 0)
        first++;
    bool known = !after || first < n;
    if (known) {
        if (after) first++;
        size_t count = n - first < limit ? n - first : limit;
        mc_put put = mc_put_into(&http->out);
        put_files(&put, found + first, count, first + count < n);
        mc_exchange_send(http, &put);
    }
    mc_free(found);
    return known ? !failure->status
                 : mc_failure_set(failure, 400, "file_not_found", "after",
                                  "after: there is no such file");
}

static bool forget(mc_exchange *http) {
    if (!mc_file_store_remove(&http->server->files, http->key, mc_str_of(http->tail)))
        return is_missing(http);
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "id", http->tail);
    mc_put_text(&put, "object", "file");
    mc_put_bool(&put, "deleted", true);
    mc_put_close(&put, '}');
    return mc_exchange_send(http, &put);
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT(
        "POST", "/v1/files", upload, .tables = {{fields, sizeof fields / sizeof *fields, 0}},
        .help = "uploads a file as multipart/form-data, as long as a body may be; the server holds "
                "1024 of them and 1 GiB, in a private folder that it removes when it ends"),
    MC_ENDPOINT("GET", "/v1/files", list, .flags = MC_ENDPOINT_ALWAYS,
                .query = "after limit order purpose",
                .help = "the files of the same key, newest first or in the order asc: up to limit "
                        "(all) of those of a purpose behind the one called after"),
    MC_ENDPOINT("GET", "/v1/files/*", retrieve, .flags = MC_ENDPOINT_ALWAYS,
                .help = "what is known of a file; its content by /v1/files/ID/content"),
    MC_ENDPOINT("DELETE", "/v1/files/*", forget, .flags = MC_ENDPOINT_ALWAYS,
                .help = "deletes one"),
};

const mc_endpoint_list mc_endpoints_openai_files = {"OpenAI: files", endpoints,
                                                    sizeof endpoints / sizeof *endpoints};
