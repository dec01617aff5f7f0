/* Opening a tokenizer, and information about its tokens. */
#include "text/tokenizer/tokenizer.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/json.h"

static mica_status read_flag(mc_json token, const char *key, bool *out) {
    mc_json v = mc_json_find(token, key);
    if (!mc_json_exists(v) || mc_json_get_bool(v, out)) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "added_tokens: '%s' is not true or false", key);
}

static mica_status respell(mica_tokenizer *tok, int32_t id, mc_str text) {
    mc_str kept;
    size_t index = MC_BUFFER_COUNT(&tok->spellings, mc_str);
    MC_TRY(mc_store_text(&tok->store, text, &kept));
    if (!mc_buffer_add(&tok->spellings, &kept, sizeof kept) ||
        !mc_pairs_put(&tok->respelled, (uint64_t)id, index)) {
        return mc_fail_nomem("added tokens");
    }
    tok->vocab.tokens[id].flags |= MC_TOKEN_RESPELLED;
    return MICA_OK;
}

static mica_status load_added_token(mica_tokenizer *tok, mc_json v, mc_normalizing *scratch) {
    bool special = false, lstrip = false, rstrip = false, single_word = false;
    mc_str text = {0};
    MC_TRY(read_flag(v, "special", &special));
    MC_TRY(read_flag(v, "lstrip", &lstrip));
    MC_TRY(read_flag(v, "rstrip", &rstrip));
    MC_TRY(read_flag(v, "single_word", &single_word));
    bool normalized = !special;
    MC_TRY(read_flag(v, "normalized", &normalized));
    mc_json_get_str(mc_json_find(v, "content"), &text);
    int32_t id = mc_vocab_find(&tok->vocab, text);
    uint32_t flags = (lstrip ? (uint32_t)MC_ADDED_LSTRIP : 0) | (rstrip ? MC_ADDED_RSTRIP : 0) |
                     (single_word ? MC_ADDED_WORD : 0);
    if (!normalized) return mc_added_put(&tok->added_raw, text, id, flags);
    mc_str content = text;
    MC_TRY(mc_normalize(&tok->normalizer, text, scratch, &text));
    if (!mc_str_eq(text, content)) MC_TRY(respell(tok, id, text));
    return mc_added_put(&tok->added_normalized, text, id, flags);
}

static size_t added_bytes(mc_json added) {
    size_t bytes = 0;
    for (mc_json_iter it = mc_json_begin(added); mc_json_next(&it);) {
        mc_str text;
        if (mc_json_get_str(mc_json_find(it.value, "content"), &text)) bytes += text.len;
    }
    return bytes;
}

/* Whether a token is one of those that only tokenizer_config.json adds, or any is wanted. */
static bool is_wanted(const mica_tokenizer *tok, mc_json v, bool more) {
    mc_str text;
    if (!more) return true;
    if (!mc_json_get_str(mc_json_find(v, "content"), &text)) return false;
    int32_t id = mc_vocab_find(&tok->vocab, text);
    return id >= 0 && (tok->vocab.tokens[id].flags & MC_TOKEN_MORE);
}

/* more: of tokenizer_config.json */
static mica_status load_added(mica_tokenizer *tok, mc_json added, bool more) {
    mc_work work = {0};
    mc_normalizing scratch = {.work = &work};
    mica_status status = MICA_OK;
    mc_work_begin(&work, added_bytes(added), MC_GROWTH_ENCODE);
    mc_regex_begin(&work.regex, added_bytes(added));
    for (mc_json_iter it = mc_json_begin(added); status == MICA_OK && mc_json_next(&it);) {
        if (is_wanted(tok, it.value, more)) status = load_added_token(tok, it.value, &scratch);
    }
    mc_normalizing_deinit(&scratch);
    mc_work_deinit(&work);
    return status;
}

mc_str mc_tokenizer_spelled(const mica_tokenizer *tok, int32_t id) {
    const mc_token *token = mc_vocab_token(&tok->vocab, id);
    uint64_t index;
    if (token && (token->flags & MC_TOKEN_RESPELLED) &&
        mc_pairs_find(&tok->respelled, (uint64_t)id, &index)) {
        return MC_BUFFER_AT(&tok->spellings, mc_str)[index];
    }
    return token ? mc_token_str(token) : (mc_str){NULL, 0};
}

static mc_str spelled(const void *tok, int32_t id) {
    return mc_tokenizer_spelled(tok, id);
}

static mica_status load(mica_tokenizer *tok, mc_json root, mc_json more) {
    mc_json model = mc_json_find(root, "model"), added = mc_json_find(root, "added_tokens");
    mc_store *store = &tok->store;
    if (mc_json_get_type(root) != MC_JSON_OBJECT) {
        return mc_fail(MICA_EFORMAT, "not a JSON object");
    }
    mc_json_type vocab;
    MC_TRY(mc_token_model_check(&tok->model, model, &vocab));
    MC_TRY(mc_normalizer_parse(&tok->normalizer, mc_json_find(root, "normalizer"), store));
    MC_TRY(mc_pretokenizer_parse(&tok->pretokenizer, mc_json_find(root, "pre_tokenizer"), store));
    MC_TRY(mc_decoder_parse(&tok->decoder, mc_json_find(root, "decoder"), store));
    MC_TRY(mc_vocab_load(&tok->vocab, mc_json_find(model, "vocab"), vocab, added, more));
    MC_TRY(
        mc_template_parse(&tok->around, mc_json_find(root, "post_processor"), &tok->vocab, store));
    MC_TRY(load_added(tok, added, false));
    MC_TRY(load_added(tok, more, true));
    MC_TRY(mc_decoder_learn(&tok->decoder, tok->vocab.size, tok->vocab.bytes, spelled, tok));
    MC_TRY(mc_token_model_load(&tok->model, &tok->vocab, model, tok->pretokenizer.spells_bytes));
    tok->pretokenizer.leaves_bytes = tok->model.bpe.takes_bytes;
    return MICA_OK;
}

static mica_status build(const mc_json_doc *doc, const char *name, mc_json more,
                         mica_tokenizer **tok) {
    mica_tokenizer *made = mc_calloc(1, sizeof *made);
    if (!made) return mc_fail_nomem("tokenizer");
    atomic_init(&made->count, 1u);
    made->bos = made->eos = made->pad = made->unk = -1;
    mica_status status = load(made, mc_json_root(doc), more);
    if (status != MICA_OK) {
        mica_tokenizer_close(&made);
        return mc_fail_context(status, "%s", name);
    }
    *tok = made;
    return MICA_OK;
}

mica_status mc_tokenizer_parse(const char *text, size_t len, const char *name,
                               mica_tokenizer **tok) {
    mc_json_doc *doc = NULL;
    MC_TRY(mc_json_parse(text, len, name, &doc));
    mica_status status = build(doc, name, (mc_json){0}, tok);
    mc_json_close(&doc);
    return status;
}

static mica_status open_file(const char *path, mc_json more, mica_tokenizer **tok) {
    mc_json_doc *doc = NULL;
    MC_TRY(mc_json_load(path, MC_FILE_TOKENIZER, &doc));
    mica_status status = build(doc, path, more, tok);
    mc_json_close(&doc);
    return status;
}

/* Says what a folder without tokenizer.json has instead. */
static mica_status fail_missing(const char *folder) {
    char *model = mc_path_join(folder, "tokenizer.model");
    if (!model) return mc_fail_nomem("path");
    bool there = mc_path_is_file(model);
    mc_free(model);
    if (!there)
        return mc_fail(MICA_ENOENT,
                       "%s/tokenizer.json: there is none: copy it from where the model is from",
                       folder);
    return mc_fail(MICA_ENOENT,
                   "%s/tokenizer.json: there is none beside tokenizer.model, of SentencePiece: "
                   "transformers writes it, by "
                   "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                   folder);
}

static mica_status open_folder(const char *folder, const mc_tokenizer_config *config,
                               mica_tokenizer **tok) {
    char *file = mc_path_join(folder, "tokenizer.json");
    if (!file) return mc_fail_nomem("path");
    mica_status status = open_file(file, mc_tokenizer_config_added(config), tok);
    mc_free(file);
    if (status == MICA_ENOENT) status = fail_missing(folder);
    return status == MICA_OK ? mc_tokenizer_read_config(*tok, folder, config) : status;
}

mica_status mica_tokenizer_open(const char *path, mica_tokenizer **tok) {
    if (tok) *tok = NULL;
    if (!path || !tok) return mc_fail(MICA_EINVAL, "mica_tokenizer_open: an argument is NULL");
    if (!mc_path_is_dir(path)) return open_file(path, (mc_json){0}, tok);
    mc_tokenizer_config config;
    mica_status status = mc_tokenizer_config_open(path, &config);
    if (status == MICA_OK) status = open_folder(path, &config, tok);
    mc_tokenizer_config_close(&config);
    if (status != MICA_OK) mica_tokenizer_close(tok);
    return status;
}

mica_tokenizer *mc_tokenizer_retain(const mica_tokenizer *tok) {
    mica_tokenizer *t = (mica_tokenizer *)tok;
    atomic_fetch_add_explicit(&t->count, 1u, memory_order_relaxed);
    return t;
}

void mica_tokenizer_close(mica_tokenizer **tok) {
    if (!tok || !*tok) return;
    mica_tokenizer *t = *tok;
    *tok = NULL;
    if (atomic_fetch_sub_explicit(&t->count, 1u, memory_order_acq_rel) != 1u) return;
    mc_vocab_deinit(&t->vocab);
    mc_added_deinit(&t->added_raw);
    mc_added_deinit(&t->added_normalized);
    mc_pairs_deinit(&t->respelled);
    mc_buffer_deinit(&t->spellings);
    mc_normalizer_deinit(&t->normalizer);
    mc_pretokenizer_deinit(&t->pretokenizer);
    mc_token_model_deinit(&t->model);
    mc_template_deinit(&t->around);
    mc_decoder_deinit(&t->decoder);
    mc_store_deinit(&t->store);
    mc_free(t);
}

size_t mica_tokenizer_vocab_size(const mica_tokenizer *tok) {
    return tok ? tok->vocab.size : 0;
}

const char *mica_tokenizer_token(const mica_tokenizer *tok, int32_t id, size_t *len) {
    const mc_token *token = tok ? mc_vocab_token(&tok->vocab, id) : NULL;
    if (len) *len = token ? token->len : 0;
    return token ? token->text : NULL;
}

int32_t mica_tokenizer_find(const mica_tokenizer *tok, const char *token, size_t len) {
    return tok && token ? mc_vocab_find(&tok->vocab, (mc_str){token, len}) : -1;
}

bool mica_tokenizer_is_special(const mica_tokenizer *tok, int32_t id) {
    const mc_token *token = tok ? mc_vocab_token(&tok->vocab, id) : NULL;
    return token && (token->flags & MC_TOKEN_SPECIAL);
}
