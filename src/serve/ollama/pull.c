/* Models of a hub by ollama's API: /api/pull and /api/delete. Only a server that was told so may
 * change the cache (mica_server_options.downloads). */
#include "serve/ollama/ollama.h"

#include "base/system.h"
#include "serve/jobs/state.h"

#include <mica/hub.h>

#include <stdio.h>
#include <string.h>

enum { MAX_PULLS = 4, REPORT_US = 100000 };

/* Handlers that pull. Others must be left for other requests. */
static atomic_int pulls;

typedef struct hub_values {
    mc_str model, name;
    bool stream;
} hub_values;

#define AT(member) offsetof(hub_values, member)

const mc_field mc_ollama_pull_fields[MC_OLLAMA_PULL_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", AT(model), .help = "ORG/NAME of the hub"),
    MC_FIELD_AT(TEXT, "name", AT(name), .help = "the same, as older clients call it"),
    MC_FIELD_AT(BOOL, "stream", AT(stream), .initial = 1,
                .help = "tell the progress, a line of JSON each time"),
    MC_FIELD(ONLY, "insecure", .choices = "false"),
    MC_FIELD(REFUSED, "username", .help = "the server has its own token"),
    MC_FIELD(REFUSED, "password", .help = "the server has its own token"),
};

const mc_field mc_ollama_delete_fields[MC_OLLAMA_DELETE_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", AT(model), .help = "ORG/NAME of the hub"),
    MC_FIELD_AT(TEXT, "name", AT(name), .help = "the same, as older clients call it"),
};

/* Reads a request, if it is allowed, and its repository. */
static bool read_request(mc_exchange *http, hub_values *values, char *name, size_t bytes) {
    if (!mc_exchange_read(http, values)) return false;
    if (!http->server->options.downloads)
        return mc_failure_set(&http->failure, 403, "downloads_not_allowed", NULL,
                              "requests may not change the cache of models: the "
                              "server does not allow downloads");
    mc_str given = values->model.ptr ? values->model : values->name;
    if (!given.ptr)
        return mc_failure_set(&http->failure, 400, "missing_field", "model", "model is missing");
    if (given.len >= bytes || memchr(given.ptr, '\0', given.len))
        return mc_failure_set(&http->failure, 400, "invalid_value", "model",
                              "model: want ORG/NAME of the hub");
    snprintf(name, bytes, "%.*s", MC_STR_ARG(given));
    return true;
}

/* ---- pull ---- */

typedef struct pull {
    mc_exchange *http;
    bool stream;
    char commit[64];
    uint64_t reported_us;
} pull;

/* Sends a line with a status; total 0: without the numbers. */
static void report(pull *at, const char *status, uint64_t done, uint64_t total) {
    mc_buffer line = {0};
    mc_put put = mc_put_into(&line);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "status", status);
    if (total) {
        mc_put_text(&put, "digest", at->commit);
        mc_put_int(&put, "total", (int64_t)total);
        mc_put_int(&put, "completed", (int64_t)done);
    }
    mc_put_close(&put, '}');
    if (!put.failed && mc_buffer_add_byte(&line, '\n'))
        mc_exchange_write(at->http, line.data, line.len);
    mc_buffer_deinit(&line);
}

static bool on_plan(void *user, const mica_pull_plan *plan) {
    pull *at = user;
    snprintf(at->commit, sizeof at->commit, "%s", plan->commit);
    return true;
}

static void on_progress(void *user, uint64_t done, uint64_t total) {
    pull *at = user;
    char status[80];
    uint64_t now = mc_now_us();
    if (!at->stream || (done < total && now - at->reported_us < REPORT_US)) return;
    at->reported_us = now;
    snprintf(status, sizeof status, "pulling %.12s", at->commit);
    report(at, status, done, total);
}

/* The end of a stream: what became of it. */
static void end_stream(pull *at, mica_status status) {
    if (status == MICA_OK) {
        report(at, "success", 0, 0);
    } else {
        mc_failure failure;
        mc_buffer line = {0};
        mc_put put = mc_put_into(&line);
        mc_failure_of(&failure, status, "model");
        mc_failure_put(&failure, MC_API_OLLAMA, NULL, &put);
        if (!put.failed && mc_buffer_add_byte(&line, '\n'))
            mc_exchange_write(at->http, line.data, line.len);
        mc_buffer_deinit(&line);
    }
    mc_exchange_end(at->http);
}

static bool reply_success(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "status", "success");
    mc_put_close(&put, '}');
    return mc_exchange_send(http, &put);
}

static bool run_pull(mc_exchange *http, const char *name, bool stream) {
    pull at = {.http = http, .stream = stream};
    char *folder = NULL;
    const mica_pull_options options = {
        .struct_bytes = sizeof options,
        .confirm = on_plan,
        .confirm_user = &at,
        .progress = on_progress,
        .progress_user = &at,
        .cancel = &http->cancel,
    };
    if (stream) {
        mc_exchange_stream(http, "application/x-ndjson");
        report(&at, "pulling manifest", 0, 0);
    }
    mica_status status = mica_pull(name, &options, &folder);
    mica_free(folder);
    if (status == MICA_OK) mc_models_refresh(&http->server->models);
    if (stream) {
        end_stream(&at, status);
        return true;
    }
    return status == MICA_OK ? reply_success(http) : mc_failure_of(&http->failure, status, "model");
}

bool mc_ollama_pull(mc_exchange *http) {
    hub_values values = {0};
    char name[256];
    if (!read_request(http, &values, name, sizeof name)) return false;
    bool done = false;
    if (atomic_fetch_add(&pulls, 1) < MAX_PULLS)
        done = run_pull(http, name, values.stream);
    else
        mc_failure_set(&http->failure, 503, "overloaded", NULL, "%d models are being pulled",
                       MAX_PULLS);
    atomic_fetch_sub(&pulls, 1);
    return done;
}

/* ---- delete ---- */

bool mc_ollama_delete(mc_exchange *http) {
    hub_values values = {0};
    char name[256];
    if (!mc_exchange_read(http, &values)) return false;
    mc_str given = values.model.ptr ? values.model : values.name;
    if (given.ptr &&
        mc_made_remove(&http->server->models.made, http->key, mc_ollama_plain_name(given)))
        return reply_success(http);
    if (!read_request(http, &values, name, sizeof name)) return false;
    return mc_models_remove(&http->server->models, name, &http->failure) && reply_success(http);
}
