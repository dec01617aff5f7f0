/* mica's own endpoints around the tokenizer: what a text's tokens are, and back. */
#include "engine/model.h"
#include "serve/common/ids.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/chat_prompt.h"
#include "serve/jobs/state.h"
#include "serve/openai/form.h"

#include <string.h>

typedef struct tokenize_values {
    mc_str model, prompt;
    bool add_special, pieces;
} tokenize_values;

static const mc_field tokenize_fields[] = {
    MC_FIELD_AT(TEXT, "model", offsetof(tokenize_values, model),
                .help = "the model; without it, the first one"),
    MC_FIELD_AT(TEXT, "prompt", offsetof(tokenize_values, prompt), .required = true,
                .help = "the text"),
    MC_FIELD_AT(BOOL, "add_special_tokens", offsetof(tokenize_values, add_special), .initial = 1,
                .help = "add the tokens that the tokenizer puts around a text, such as <bos>"),
    MC_FIELD_AT(BOOL, "return_token_strs", offsetof(tokenize_values, pieces),
                .help = "also the tokens as the vocabulary spells them"),
};

static void put_tokens(mc_put *put, const mica_tokenizer *tok, const int32_t *ids, size_t n,
                       bool pieces) {
    mc_put_open(put, "tokens", '[');
    for (size_t i = 0; i < n; i++)
        mc_put_int(put, NULL, ids[i]);
    mc_put_close(put, ']');
    if (!pieces) return;
    mc_put_open(put, "token_strs", '[');
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *piece = mica_tokenizer_token(tok, ids[i], &len);
        mc_put_str(put, NULL, (mc_str){piece ? piece : "", piece ? len : 0});
    }
    mc_put_close(put, ']');
}

static bool tokenize(mc_exchange *http) {
    tokenize_values values;
    int32_t *ids;
    size_t n;
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.model);
    if (!served) return false;
    const mica_tokenizer *tok = mica_model_tokenizer(served->model);
    mica_status status = mica_tokenizer_encode(tok, values.prompt.ptr, values.prompt.len,
                                               values.add_special, &ids, &n);
    if (status != MICA_OK) return mc_failure_of(&http->failure, status, "prompt");
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(served->model, &info);
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_int(&put, "count", (int64_t)n);
    mc_put_int(&put, "max_model_len", info.context_length);
    put_tokens(&put, tok, ids, n, values.pieces);
    mc_put_close(&put, '}');
    mica_free(ids);
    return mc_exchange_send(http, &put);
}

typedef struct detokenize_values {
    mc_str model;
    mc_json tokens;
    bool skip_special;
} detokenize_values;

static const mc_field detokenize_fields[] = {
    MC_FIELD_AT(TEXT, "model", offsetof(detokenize_values, model),
                .help = "the model; without it, the first one"),
    MC_FIELD_AT(JSON, "tokens", offsetof(detokenize_values, tokens), .types = MC_FIELD_IS_ARRAY,
                .required = true, .help = "token ids"),
    MC_FIELD_AT(BOOL, "skip_special_tokens", offsetof(detokenize_values, skip_special),
                .help = "leave out special tokens"),
};

static bool detokenize(mc_exchange *http) {
    detokenize_values values;
    mc_buffer ids = {0};
    char *text;
    size_t len;
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.model);
    if (!served) return false;
    const mica_tokenizer *tok = mica_model_tokenizer(served->model);
    if (!mc_ids_read(values.tokens, mica_tokenizer_vocab_size(tok), "tokens", &ids, &http->failure))
        return false;
    mica_status status =
        mica_tokenizer_decode(tok, MC_BUFFER_AT(&ids, int32_t), MC_BUFFER_COUNT(&ids, int32_t),
                              values.skip_special, &text, &len);
    mc_buffer_deinit(&ids);
    if (status != MICA_OK) return mc_failure_of(&http->failure, status, "tokens");
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_str(&put, "prompt", (mc_str){text, len});
    mc_put_close(&put, '}');
    mica_free(text);
    return mc_exchange_send(http, &put);
}

typedef struct template_values {
    mc_str model;
    mc_chat_values chat;
    mc_json tools;
} template_values;

static const mc_field template_fields[] = {
    MC_FIELD_AT(TEXT, "model", offsetof(template_values, model),
                .help = "the model; without it, the first one"),
    MC_FIELD_AT(JSON, "tools", offsetof(template_values, tools), .types = MC_FIELD_IS_ARRAY,
                .help = "functions that the model may call"),
};

static bool apply_template(mc_exchange *http) {
    template_values values;
    mc_buffer text = {0};
    mc_answer_form form = {0};
    mc_chat_prompt chat = {.field = NULL};
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.model);
    const mc_openai_wish wish = {.tools = values.tools, .effort = values.chat.effort, .budget = -1};
    bool done = served && mc_openai_form_read(&wish, &form, &http->failure) &&
                mc_chat_prompt_set(&chat, &values.chat, &http->failure);
    chat.form = &form;
    done = done && mc_chat_prompt_text(http, served->model, &chat, &text);
    mc_answer_form_deinit(&form);
    mc_buffer_deinit(&chat.messages);
    if (!done) {
        mc_buffer_deinit(&text);
        return false;
    }
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_str(&put, "prompt", (mc_str){text.data, text.len});
    mc_put_close(&put, '}');
    mc_buffer_deinit(&text);
    return mc_exchange_send(http, &put);
}

/* ---- the tokenizer itself ---- */

/* The spelling of a special token; null where there is none. */
static void put_special(mc_put *put, const char *key, const mica_tokenizer *tok, int32_t id) {
    size_t len = 0;
    const char *text = id >= 0 ? mica_tokenizer_token(tok, id, &len) : NULL;
    if (text)
        mc_put_str(put, key, (mc_str){text, len});
    else
        mc_put_null(put, key);
}

/* Whether a text's tokens begin with that one. */
static bool adds(const mica_tokenizer *tok, int32_t id, bool *yes) {
    int32_t *ids;
    size_t n;
    if (mica_tokenizer_encode(tok, "a", 1, true, &ids, &n) != MICA_OK) return false;
    *yes = id >= 0 && n > 0 && ids[0] == id;
    mica_free(ids);
    return true;
}

static bool tell_tokenizer(mc_exchange *http) {
    const mc_str name = {http->query[0], http->query[0] ? strlen(http->query[0]) : 0};
    mc_served *served = mc_models_take(&http->server->models, http, name);
    if (!served) return false;
    const mica_tokenizer *tok = mica_model_tokenizer(served->model);
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(served->model, &info);
    mc_str template = mc_model_template(served->model);
    bool adds_bos = false;
    mc_put put = mc_put_into(&http->out);
    put.failed = !adds(tok, mica_tokenizer_bos(tok), &adds_bos);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "tokenizer_class", "PreTrainedTokenizerFast");
    put_special(&put, "bos_token", tok, mica_tokenizer_bos(tok));
    put_special(&put, "eos_token", tok, mica_tokenizer_eos(tok));
    put_special(&put, "pad_token", tok, mica_tokenizer_pad(tok));
    put_special(&put, "unk_token", tok, mica_tokenizer_unk(tok));
    mc_put_bool(&put, "add_bos_token", adds_bos);
    mc_put_int(&put, "vocab_size", (int64_t)mica_tokenizer_vocab_size(tok));
    mc_put_int(&put, "model_max_length", info.context_length);
    if (template.len)
        mc_put_str(&put, "chat_template", template);
    else
        mc_put_null(&put, "chat_template");
    mc_put_close(&put, '}');
    return mc_exchange_send(http, &put);
}

#define TABLE(fields) \
    { fields, sizeof(fields) / sizeof *(fields), 0 }

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/tokenize", tokenize, .tables = {TABLE(tokenize_fields)},
                .help = "the token ids of a text"),
    MC_ENDPOINT("POST", "/detokenize", detokenize, .tables = {TABLE(detokenize_fields)},
                .help = "the text of token ids"),
    MC_ENDPOINT("GET", "/tokenizer_info", tell_tokenizer, .query = "model",
                .help = "the tokenizer's special tokens, its chat template and the model's "
                        "context, by the names of tokenizer_config.json, as vLLM has it; of the "
                        "model that the query names, or of the first one"),
    MC_ENDPOINT("POST", "/apply-template", apply_template,
                .tables = {TABLE(template_fields),
                           {mc_chat_fields, MC_CHAT_FIELDS, offsetof(template_values, chat)}},
                .help = "the prompt that a conversation becomes"),
};

const mc_endpoint_list mc_endpoints_own = {"mica's own", endpoints,
                                           sizeof endpoints / sizeof *endpoints};
