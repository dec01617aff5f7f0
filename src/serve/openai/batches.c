/* /v1/batches: files of requests, which are answered when there is time. */
#include "serve/http/endpoint.h"
#include "serve/jobs/state.h"
#include "serve/openai/openai.h"

#include <string.h>

typedef struct batch_values {
    mc_str input;
    mc_json metadata;
    int endpoint;
} batch_values;

/* In the order of the field's choices. */
static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                    "/v1/responses",        "/v1/score",       "/v1/rerank",
                                    "/v1/classify"};

static const mc_field fields[] = {
    MC_FIELD_AT(
        TEXT, "input_file_id", offsetof(batch_values, input), .required = true,
        .help =
            "a file of /v1/files with a line {\"custom_id\", \"method\": \"POST\", \"url\", "
            "\"body\"} for each request, up to 50000; url is the endpoint. The answers are lines "
            "{\"id\", \"custom_id\", \"response\": {\"status_code\", \"request_id\", \"body\"}, "
            "\"error\"} of the output file, those that are errors of the error file, in any order"),
    MC_FIELD_AT(CHOICE, "endpoint", offsetof(batch_values, endpoint), .required = true,
                .choices = "/v1/chat/completions /v1/completions /v1/embeddings /v1/responses "
                           "/v1/score /v1/rerank /v1/classify",
                .help = "what answers them"),
    MC_FIELD(ONLY, "completion_window", .required = true, .choices = "\"24h\"",
             .help = "what is not answered then is an error"),
    MC_FIELD_AT(JSON, "metadata", offsetof(batch_values, metadata), .types = MC_FIELD_IS_OBJECT,
                .help =
                    "up to 16 texts of up to 512 bytes, by names of up to 64, kept with the batch"),
    MC_FIELD(REFUSED, "output_expires_after",
             .help = "files stay until they are deleted, or the server ends"),
};

static bool is_missing(mc_exchange *http, mc_str id) {
    return mc_failure_set(&http->failure, 404, "batch_not_found", "id", "there is no batch %.*s",
                          (int)(id.len < 60 ? id.len : 60), id.ptr);
}

static bool create(mc_exchange *http) {
    batch_values values;
    mc_stored_file file;
    mc_buffer metadata = {0};
    if (!mc_exchange_read(http, &values) ||
        !mc_openai_check_metadata(values.metadata, &http->failure))
        return false;
    if (!mc_file_store_find(&http->server->files, http->key, values.input, &file))
        return mc_failure_set(&http->failure, 400, "file_not_found", "input_file_id",
                              "input_file_id: there is no file %.*s",
                              (int)(values.input.len < 60 ? values.input.len : 60),
                              values.input.ptr);
    if (strcmp(file.purpose, "batch") != 0)
        return mc_failure_set(&http->failure, 400, "invalid_value", "input_file_id",
                              "input_file_id: the file's purpose is %s, not batch", file.purpose);
    mc_put kept = mc_put_into(&metadata);
    if (mc_json_exists(values.metadata)) mc_put_value(&kept, NULL, values.metadata);
    mc_put put = mc_put_into(&http->out);
    if (kept.failed || !mc_buffer_cstr(&metadata))
        mc_failure_of(&http->failure, mc_fail_nomem("a batch"), NULL);
    else
        mc_batch_queue_add(&http->server->batches, http->key, file.id, paths[values.endpoint],
                           &metadata, &put, &http->failure);
    mc_buffer_deinit(&metadata);
    return !http->failure.status && mc_exchange_send(http, &put);
}

static bool retrieve(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_str id = mc_str_of(http->tail);
    return mc_batch_queue_put(&http->server->batches, http->key, id, &put)
               ? mc_exchange_send(http, &put)
               : is_missing(http, id);
}

/* POST /v1/batches/ID/cancel. */
static bool cancel(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_str id = mc_str_of(http->tail);
    bool ended;
    if (!mc_str_ends(id, MC_STR("/cancel"))) return is_missing(http, id);
    id.len -= 7;
    if (!mc_batch_queue_cancel(&http->server->batches, http->key, id, &put, &ended))
        return is_missing(http, id);
    if (ended)
        return mc_failure_set(&http->failure, 409, "batch_ended", NULL, "the batch has ended");
    return mc_exchange_send(http, &put);
}

static bool list(mc_exchange *http) {
    const char *after = http->query[0];
    size_t limit = 20;
    if (!mc_openai_read_limit(http->query[1], 100, &limit, &http->failure)) return false;
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    bool known = mc_batch_queue_list(&http->server->batches, http->key,
                                     after ? mc_str_of(after) : (mc_str){NULL, 0}, limit, &put);
    mc_put_close(&put, '}');
    if (!known)
        return mc_failure_set(&http->failure, 400, "batch_not_found", "after",
                              "after: there is no such batch");
    return mc_exchange_send(http, &put);
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT(
        "POST", "/v1/batches", create, .tables = {{fields, sizeof fields / sizeof *fields, 0}},
        .help =
            "answers the requests of a file after everything else. Batches end with the server"),
    MC_ENDPOINT("GET", "/v1/batches", list, .flags = MC_ENDPOINT_ALWAYS, .query = "after limit",
                .help = "the batches of the same key, newest first: up to limit (20) of those "
                        "before the one called after"),
    MC_ENDPOINT("GET", "/v1/batches/*", retrieve, .flags = MC_ENDPOINT_ALWAYS,
                .help = "one of them"),
    MC_ENDPOINT("POST", "/v1/batches/*", cancel, .flags = MC_ENDPOINT_ALWAYS,
                .help = "ends one: /v1/batches/ID/cancel"),
};

const mc_endpoint_list mc_endpoints_openai_batches = {"OpenAI: batches", endpoints,
                                                      sizeof endpoints / sizeof *endpoints};
