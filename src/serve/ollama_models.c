/* What ollama's API says about models. */
#include "serve/ollama.h"

#include "serve/put_time.h"
#include "serve/state.h"

#include <mica/version.h>
#include <stdio.h>

static mica_model_info info_of(const mc_served *served) {
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(served->model, &info);
    return info;
}

/* "20.5M", "1.0B": the number of parameters for people. */
static void put_count(mc_put *put, const char *key, uint64_t parameters) {
    char text[32];
    double n = (double)parameters;
    if (n >= 1e9)
        snprintf(text, sizeof text, "%.1fB", n / 1e9);
    else
        snprintf(text, sizeof text, "%.1fM", n / 1e6);
    mc_put_text(put, key, text);
}

static void put_details(mc_put *put, const mica_model_info *info) {
    mc_put_open(put, "details", '{');
    mc_put_text(put, "parent_model", "");
    mc_put_text(put, "format", "safetensors");
    mc_put_text(put, "family", info->family);
    mc_put_open(put, "families", '[');
    mc_put_text(put, NULL, info->family);
    mc_put_close(put, ']');
    put_count(put, "parameter_size", info->parameters);
    mc_put_text(put, "quantization_level", info->quantization);
    mc_put_close(put, '}');
}

/* What both lists have of a model. */
static void put_entry(mc_put *put, const mc_served *served, const mica_model_info *info) {
    mc_put_text(put, "name", served->name);
    mc_put_text(put, "model", served->name);
    mc_put_int(put, "size", (int64_t)info->weight_bytes);
    mc_put_text(put, "digest", "");
    put_details(put, info);
}

static bool put_list(mc_exchange *http, bool running) {
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_open(&put, "models", '[');
    for (const mc_served *at = mc_models_first(&http->server->models); at; at = at->next) {
        mica_model_info info = info_of(at);
        mc_put_open(&put, NULL, '{');
        put_entry(&put, at, &info);
        if (running) {
            mc_put_text(&put, "expires_at", "9999-12-31T23:59:59Z"); /* never */
            mc_put_int(&put, "size_vram", 0);
            mc_put_int(&put, "context_length", info.context_length);
        } else {
            mc_put_time(&put, "modified_at", at->created);
        }
        mc_put_close(&put, '}');
    }
    mc_put_close(&put, ']');
    mc_put_close(&put, '}');
    return mc_ollama_reply(http, &put);
}

bool mc_ollama_tags(mc_exchange *http) {
    return put_list(http, false);
}

bool mc_ollama_ps(mc_exchange *http) {
    return put_list(http, true);
}

bool mc_ollama_version(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "version", mica_version());
    mc_put_close(&put, '}');
    return mc_ollama_reply(http, &put);
}

/* ---- one model ---- */

typedef struct show_values {
    mc_str model, name;
} show_values;

const mc_field mc_ollama_show_fields[MC_OLLAMA_SHOW_FIELDS] = {
    {.name = "model",
     .kind = MC_FIELD_TEXT,
     .offset = offsetof(show_values, model),
     .help = "the model's name"},
    {.name = "name",
     .kind = MC_FIELD_TEXT,
     .offset = offsetof(show_values, name),
     .help = "the same, as older clients call it"},
    {.name = "verbose",
     .kind = MC_FIELD_ONLY,
     .choices = "false",
     .help = "vocabularies are not sent"},
    {.name = "system", .kind = MC_FIELD_ONLY, .choices = "\"\""},
    {.name = "template", .kind = MC_FIELD_ONLY, .choices = "\"\""},
    {.name = "options", .kind = MC_FIELD_ONLY, .choices = "{}"},
};

/* A member of model_info, whose name begins with the architecture's. */
static void put_property(mc_put *put, const mica_model_info *info, const char *name,
                         int64_t value) {
    char key[128];
    snprintf(key, sizeof key, "%.60s.%s", info->architecture, name);
    mc_put_int(put, key, value);
}

static void put_properties(mc_put *put, const mica_model_info *info) {
    mc_put_open(put, "model_info", '{');
    mc_put_text(put, "general.architecture", info->architecture);
    mc_put_int(put, "general.parameter_count", (int64_t)info->parameters);
    put_property(put, info, "context_length", info->context_length);
    put_property(put, info, "embedding_length", info->hidden_size);
    put_property(put, info, "block_count", info->layers);
    put_property(put, info, "feed_forward_length", info->intermediate_size);
    put_property(put, info, "attention.head_count", info->heads);
    put_property(put, info, "attention.head_count_kv", info->kv_heads);
    put_property(put, info, "attention.key_length", info->head_dim);
    if (info->sliding_window)
        put_property(put, info, "attention.sliding_window", info->sliding_window);
    put_property(put, info, "vocab_size", info->vocab_size);
    mc_put_close(put, '}');
}

bool mc_ollama_show(mc_exchange *http) {
    show_values values;
    if (!mc_exchange_read(http, &values)) return false;
    mc_str name = values.model.ptr ? values.model : values.name;
    if (!name.ptr)
        return mc_failure_set(&http->failure, 400, "missing_field", "model", "model is missing");
    const mc_served *served = mc_ollama_find(http, name);
    if (!served) return false;
    mica_model_info info = info_of(served);
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "modelfile", "");
    mc_put_text(&put, "parameters", "");
    mc_put_text(&put, "template", "");
    put_details(&put, &info);
    put_properties(&put, &info);
    mc_put_open(&put, "capabilities", '[');
    mc_put_text(&put, NULL, "completion");
    mc_put_close(&put, ']');
    mc_put_time(&put, "modified_at", served->created);
    mc_put_close(&put, '}');
    return mc_ollama_reply(http, &put);
}
