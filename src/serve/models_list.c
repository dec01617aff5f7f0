/* /v1/models: the models that requests may name, as OpenAI's and Anthropic's APIs list them: each
 * has the members of both. */
#include "serve/endpoint.h"
#include "serve/put_time.h"
#include "serve/state.h"

static void put_context(mc_put *put, const char *key, const mc_model_row *row) {
    if (row->loaded)
        mc_put_int(put, key, row->info.context_length);
    else
        mc_put_null(put, key); /* known when it is loaded */
}

static void put_model(mc_put *put, const mc_model_row *row) {
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "id", row->name);
    mc_put_text(put, "object", "model");
    mc_put_int(put, "created", row->time);
    mc_put_text(put, "owned_by", "mica");
    mc_put_text(put, "root", row->base ? row->base : row->name);
    mc_put_text(put, "parent", row->base);
    mc_put_bool(put, "loaded", row->loaded);
    put_context(put, "max_model_len", row);
    mc_put_text(put, "type", "model");
    mc_put_text(put, "display_name", row->name);
    mc_put_time(put, "created_at", row->time);
    put_context(put, "max_input_tokens", row);
    mc_put_null(put, "max_tokens");
    mc_put_null(put, "capabilities");
    mc_put_close(put, '}');
}

static bool send(mc_exchange *http, const mc_put *put) {
    if (put->failed) return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    mc_exchange_reply(http, 200, NULL);
    return true;
}

static bool list(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_arena arena = {0};
    mc_model_row *rows;
    size_t count;
    mica_status status = mc_models_list(&http->server->models, &arena, &rows, &count);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "object", "list");
    mc_put_open(&put, "data", '[');
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        put_model(&put, &rows[i]);
    mc_put_close(&put, ']');
    mc_put_bool(&put, "has_more", false);
    mc_put_text(&put, "first_id", status == MICA_OK && count ? rows[0].name : NULL);
    mc_put_text(&put, "last_id", status == MICA_OK && count ? rows[count - 1].name : NULL);
    mc_put_close(&put, '}');
    put.failed = put.failed || status != MICA_OK;
    mc_arena_deinit(&arena);
    return send(http, &put);
}

static bool retrieve(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_arena arena = {0};
    mc_model_row row;
    bool found =
        mc_models_row(&http->server->models, mc_str_of(http->tail), &arena, &row, &http->failure);
    if (found) put_model(&put, &row);
    mc_arena_deinit(&arena);
    return found && send(http, &put);
}

static const mc_endpoint endpoints[] = {
    {.method = "GET",
     .path = "/v1/models",
     .handle = list,
     .help =
         "the models that requests may name: those that are loaded, and those that will be when "
         "they are asked for; `loaded` says which, `parent` is what an adapter is for"},
    {.method = "GET",
     .path = "/v1/models/*",
     .handle = retrieve,
     .help = "one of them, by its name"},
};

const mc_endpoint_list mc_endpoints_models = {"Models", endpoints,
                                              sizeof endpoints / sizeof *endpoints};
