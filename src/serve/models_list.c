/* /v1/models: the models that are served, as OpenAI's and Anthropic's APIs list them: each has the
 * members of both. */
#include "serve/endpoint.h"
#include "serve/put_time.h"
#include "serve/state.h"

static void put_model(mc_put *put, const mc_served *served) {
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(served->model, &info);
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "id", served->name);
    mc_put_text(put, "object", "model");
    mc_put_int(put, "created", served->created);
    mc_put_text(put, "owned_by", "mica");
    mc_put_int(put, "max_model_len", info.context_length);
    mc_put_text(put, "type", "model");
    mc_put_text(put, "display_name", served->name);
    mc_put_time(put, "created_at", served->created);
    mc_put_int(put, "max_input_tokens", info.context_length);
    mc_put_close(put, '}');
}

static bool send(mc_exchange *http, const mc_put *put) {
    if (put->failed) return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    mc_exchange_reply(http, 200, NULL);
    return true;
}

static bool list(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "object", "list");
    const mc_served *first = mc_models_first(&http->server->models), *last = first;
    mc_put_open(&put, "data", '[');
    for (const mc_served *at = first; at; at = at->next) {
        put_model(&put, at);
        last = at;
    }
    mc_put_close(&put, ']');
    mc_put_bool(&put, "has_more", false);
    mc_put_text(&put, "first_id", first ? first->name : NULL);
    mc_put_text(&put, "last_id", last ? last->name : NULL);
    mc_put_close(&put, '}');
    return send(http, &put);
}

static bool retrieve(mc_exchange *http) {
    const mc_served *served =
        mc_models_find(&http->server->models, mc_str_of(http->tail), &http->failure);
    if (!served) return false;
    mc_put put = mc_put_into(&http->out);
    put_model(&put, served);
    return send(http, &put);
}

static const mc_endpoint endpoints[] = {
    {.method = "GET",
     .path = "/v1/models",
     .flags = MC_ENDPOINT_AT_ONCE,
     .handle = list,
     .help = "the models that are served"},
    {.method = "GET",
     .path = "/v1/models/*",
     .flags = MC_ENDPOINT_AT_ONCE,
     .handle = retrieve,
     .help = "one of them, by its name"},
};

const mc_endpoint_list mc_endpoints_models = {"Models", endpoints,
                                              sizeof endpoints / sizeof *endpoints};
