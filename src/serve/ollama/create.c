/* Models of models by ollama's API: /api/create and /api/copy. */
#include "serve/ollama/answer.h"
#include "serve/ollama/ollama.h"

#include "serve/jobs/state.h"

typedef struct create_values {
    mc_str model, name, from, system;
    mc_json parameters;
    bool stream;
} create_values;

#define AT(member) offsetof(create_values, member)

const mc_field mc_ollama_create_fields[MC_OLLAMA_CREATE_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", AT(model), .help = "the new name, with or without :latest"),
    MC_FIELD_AT(TEXT, "name", AT(name), .help = "the same, as older clients call it"),
    MC_FIELD_AT(TEXT, "from", AT(from), .required = true,
                .help = "the model that it is: a name that /api/tags has, never a path"),
    MC_FIELD_AT(TEXT, "system", AT(system),
                .help = "the system prompt of conversations that begin without one, in every API"),
    MC_FIELD_AT(JSON, "parameters", AT(parameters), .types = MC_FIELD_IS_OBJECT,
                .help = "options of ollama's API, for requests to it that do not say otherwise"),
    MC_FIELD_AT(BOOL, "stream", AT(stream), .initial = 1, .help = "say it in lines of JSON"),
    MC_FIELD(ONLY, "template", .choices = "\"\"",
             .help = "a model has the chat template that it was opened with"),
    MC_FIELD(ONLY, "messages", .choices = "[]", .help = "requests have the conversation"),
    MC_FIELD(NOTED, "license", .help = "it is not shown"),
    MC_FIELD(
        REFUSED, "modelfile",
        .help = "the other fields say what it would; clients of ollama 0.5.5 and later send these"),
    MC_FIELD(REFUSED, "quantize", .help = "mica quantize does it"),
    MC_FIELD(REFUSED, "files", .help = "requests bring no weights"),
    MC_FIELD(REFUSED, "adapters", .help = "the server names them"),
};

typedef struct copy_values {
    mc_str source, destination;
} copy_values;

const mc_field mc_ollama_copy_fields[MC_OLLAMA_COPY_FIELDS] = {
    MC_FIELD_AT(TEXT, "source", offsetof(copy_values, source), .required = true,
                .help = "the model's name"),
    MC_FIELD_AT(TEXT, "destination", offsetof(copy_values, destination), .required = true,
                .help = "its other name"),
};

/* Whether a name can be a new model's: it is none of the server's, and fit to be shown. */
static bool check_name(mc_exchange *http, mc_str name, const char *field) {
    enum { MAX_NAME = 200 };
    mc_arena arena = {0};
    mc_model_row row;
    mc_failure none;
    bool good = name.len > 0 && name.len <= MAX_NAME;
    for (size_t i = 0; good && i < name.len; i++)
        good = (unsigned char)name.ptr[i] > ' ' && name.ptr[i] != 0x7f;
    if (!good)
        return mc_failure_set(&http->failure, 400, "invalid_value", field,
                              "%s: want 1 to %d bytes without blanks", field, MAX_NAME);
    bool taken = mc_models_row(&http->server->models, name, &arena, &row, &none);
    mc_arena_deinit(&arena);
    return !taken || mc_failure_set(&http->failure, 409, "name_in_use", field,
                                    "%s: %.*s is a model of the server", field, MC_STR_ARG(name));
}

/* Makes a model of another one, which may have been made itself: what is not given is that one's.
 * parameters: of a JSON object; ptr NULL: not given. */
static bool make(mc_exchange *http, mc_str name, const char *field, mc_str from, mc_str system,
                 mc_str parameters) {
    mc_made_list *list = &http->server->models.made;
    mc_arena arena = {0};
    mc_model_row row;
    name = mc_ollama_plain_name(name);
    if (!check_name(http, name, field)) return false;
    mc_made *old = mc_made_hold(list, http->key, mc_ollama_plain_name(from));
    bool done = mc_ollama_row(http, from, &arena, &row);
    if (!system.ptr) system = old ? mc_str_of(old->system) : MC_STR("");
    if (!parameters.ptr) parameters = old ? mc_str_of(old->parameters) : MC_STR("{}");
    done = done && mc_made_add(list, http->key, name, mc_str_of(row.name), system, parameters,
                               &http->failure);
    mc_made_drop(list, old);
    mc_arena_deinit(&arena);
    return done;
}

bool mc_ollama_create(mc_exchange *http) {
    create_values values = {0};
    if (!mc_exchange_read(http, &values)) return false;
    mc_str name = values.model.ptr ? values.model : values.name;
    if (!name.ptr)
        return mc_failure_set(&http->failure, 400, "missing_field", "model", "model is missing");
    if (!mc_ollama_check_parameters(values.parameters, &http->failure)) return false;
    mc_buffer text = {0};
    mc_put put = mc_put_into(&text);
    mc_str parameters = {NULL, 0};
    if (mc_json_exists(values.parameters)) {
        mc_put_value(&put, NULL, values.parameters);
        parameters = (mc_str){text.data, text.len};
    }
    bool done = (!put.failed || mc_failure_of(&http->failure, mc_fail_nomem("a model"), NULL)) &&
                make(http, name, "model", values.from, values.system, parameters);
    mc_buffer_deinit(&text);
    if (!done) return false;
    put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "status", "success");
    mc_put_close(&put, '}');
    if (!values.stream) return mc_exchange_send(http, &put);
    if (put.failed || !mc_buffer_add_byte(&http->out, '\n'))
        return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    mc_exchange_reply(http, 200, "application/x-ndjson");
    return true;
}

bool mc_ollama_copy(mc_exchange *http) {
    copy_values values = {0};
    if (!mc_exchange_read(http, &values)) return false;
    if (!make(http, values.destination, "destination", values.source, (mc_str){NULL, 0},
              (mc_str){NULL, 0}))
        return false;
    mc_exchange_reply(http, 200, NULL); /* without a body, as ollama's */
    return true;
}
