/* What ollama's API says about models. */
#include "serve/ollama/ollama.h"

#include "serve/common/put_time.h"
#include "serve/jobs/state.h"

#include <mica/version.h>
#include <stdio.h>
#include <string.h>

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
static void put_entry(mc_put *put, const mc_model_row *row) {
    mc_put_text(put, "name", row->name);
    mc_put_text(put, "model", row->name);
    mc_put_int(put, "size", (int64_t)row->info.weight_bytes);
    mc_put_text(put, "digest", "");
    put_details(put, &row->info);
}

static void put_running(mc_put *put, const mc_model_row *row) {
    if (row->expires < 0)
        mc_put_text(put, "expires_at", "9999-12-31T23:59:59Z"); /* never */
    else
        mc_put_time(put, "expires_at", row->expires);
    mc_put_int(put, "size_vram", 0);
    mc_put_int(put, "context_length", row->info.context_length);
}

/* Those that requests of the key have made. */
static void put_made(mc_exchange *http, mc_put *put, const mc_model_row *rows, size_t count) {
    mc_made_list *list = &http->server->models.made;
    mc_made *made;
    for (size_t i = 0; (made = mc_made_at(list, http->key, i)); mc_made_drop(list, made), i++)
        for (size_t j = 0; j < count; j++) {
            mc_model_row row = rows[j];
            if (strcmp(row.name, made->base) != 0) continue;
            row.name = made->name;
            mc_put_open(put, NULL, '{');
            put_entry(put, &row);
            mc_put_time(put, "modified_at", row.time);
            mc_put_close(put, '}');
        }
}

static bool put_list(mc_exchange *http, bool running) {
    mc_put put = mc_put_into(&http->out);
    mc_arena arena = {0};
    mc_model_row *rows;
    size_t count;
    mica_status status = mc_models_list(&http->server->models, &arena, &rows, &count);
    mc_put_open(&put, NULL, '{');
    mc_put_open(&put, "models", '[');
    for (size_t i = 0; status == MICA_OK && i < count; i++) {
        if (running && !rows[i].loaded) continue;
        mc_put_open(&put, NULL, '{');
        put_entry(&put, &rows[i]);
        if (running)
            put_running(&put, &rows[i]);
        else
            mc_put_time(&put, "modified_at", rows[i].time);
        mc_put_close(&put, '}');
    }
    if (!running && status == MICA_OK) put_made(http, &put, rows, count);
    mc_put_close(&put, ']');
    mc_put_close(&put, '}');
    mc_arena_deinit(&arena);
    put.failed = put.failed || status != MICA_OK;
    return mc_exchange_send(http, &put);
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
    return mc_exchange_send(http, &put);
}

/* ---- one model ---- */

typedef struct show_values {
    mc_str model, name;
} show_values;

const mc_field mc_ollama_show_fields[MC_OLLAMA_SHOW_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", offsetof(show_values, model), .help = "the model's name"),
    MC_FIELD_AT(TEXT, "name", offsetof(show_values, name),
                .help = "the same, as older clients call it"),
    MC_FIELD(ONLY, "verbose", .choices = "false", .help = "vocabularies are not sent"),
    MC_FIELD(ONLY, "system", .choices = "\"\""),
    MC_FIELD(ONLY, "template", .choices = "\"\""),
    MC_FIELD(ONLY, "options", .choices = "{}"),
};

/* A member of model_info, whose name begins with the architecture's. */
static void put_property(mc_put *put, const mica_model_info *info, const char *name,
                         int64_t value) {
    char key[128];
    snprintf(key, sizeof key, "%.60s.%s", info->architecture, name);
    mc_put_int(put, key, value);
}

static void put_properties(mc_put *put, const mica_model_info *info, bool loaded) {
    mc_put_open(put, "model_info", '{');
    mc_put_text(put, "general.architecture", info->architecture);
    if (!loaded) { /* known when it is */
        mc_put_close(put, '}');
        return;
    }
    mc_put_int(put, "general.parameter_count", (int64_t)info->parameters);
    put_property(put, info, "context_length", info->context_length);
    put_property(put, info, "embedding_length", info->hidden_size);
    put_property(put, info, "block_count", info->layers);
    if (info->intermediate_size)
        put_property(put, info, "feed_forward_length", info->intermediate_size);
    if (info->experts) {
        put_property(put, info, "expert_count", info->experts);
        put_property(put, info, "expert_used_count", info->experts_per_token);
        put_property(put, info, "expert_feed_forward_length", info->expert_size);
    }
    put_property(put, info, "attention.head_count", info->heads);
    put_property(put, info, "attention.head_count_kv", info->kv_heads);
    put_property(put, info, "attention.key_length", info->head_dim);
    if (info->sliding_window)
        put_property(put, info, "attention.sliding_window", info->sliding_window);
    put_property(put, info, "vocab_size", info->vocab_size);
    mc_put_close(put, '}');
}

/* Of a model that is not loaded it is not known what it can. */
static void put_uses(mc_put *put, const mc_model_row *row) {
    mc_put_open(put, "capabilities", '[');
    if (row->completes || !row->loaded) mc_put_text(put, NULL, "completion");
    if (row->embeds) mc_put_text(put, NULL, "embedding");
    if (row->ranks) mc_put_text(put, NULL, "rerank");
    if (row->calls) mc_put_text(put, NULL, "tools");
    if (row->thinks) mc_put_text(put, NULL, "thinking");
    mc_put_close(put, ']');
}

/* made: the one that was made of it; NULL: none */
static void put_model(mc_put *put, const mc_model_row *row, const mc_made *made) {
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "modelfile", "");
    mc_put_text(put, "parameters", made ? made->parameters : "");
    if (made && *made->system) mc_put_text(put, "system", made->system);
    mc_put_text(put, "template", "");
    put_details(put, &row->info);
    put_properties(put, &row->info, row->loaded);
    put_uses(put, row);
    mc_put_time(put, "modified_at", row->time);
    mc_put_close(put, '}');
}

bool mc_ollama_row(mc_exchange *http, mc_str name, mc_arena *arena, mc_model_row *row) {
    const mc_str tag = MC_STR(":latest");
    mc_models *models = &http->server->models;
    mc_failure first;
    mc_made *made = mc_made_hold(&models->made, http->key, mc_ollama_plain_name(name));
    bool is_made = made && mc_models_row(models, mc_str_of(made->base), arena, row, &http->failure);
    mc_made_drop(&models->made, made);
    if (is_made) return true;
    if (mc_models_row(models, name, arena, row, &http->failure)) return true;
    if (!mc_str_ends(name, tag) || name.len == tag.len) return false;
    first = http->failure;
    bool found =
        mc_models_row(models, (mc_str){name.ptr, name.len - tag.len}, arena, row, &http->failure);
    http->failure = found ? (mc_failure){0} : first;
    return found;
}

bool mc_ollama_show(mc_exchange *http) {
    show_values values;
    if (!mc_exchange_read(http, &values)) return false;
    mc_str name = values.model.ptr ? values.model : values.name;
    if (!name.ptr)
        return mc_failure_set(&http->failure, 400, "missing_field", "model", "model is missing");
    mc_arena arena = {0};
    mc_model_row row;
    mc_put put = mc_put_into(&http->out);
    mc_made_list *list = &http->server->models.made;
    mc_made *made = mc_made_hold(list, http->key, mc_ollama_plain_name(name));
    bool found = mc_ollama_row(http, name, &arena, &row);
    if (found) put_model(&put, &row, made);
    mc_made_drop(list, made);
    mc_arena_deinit(&arena);
    return found && mc_exchange_send(http, &put);
}
