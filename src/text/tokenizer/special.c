/* tokenizer_config.json: which tokens begin and end a text, and whether they are added. Tokens that
 * it does not name are those of special_tokens_map.json. sentence_bert_config.json: whether letters
 * are lowered. */
#include "text/tokenizer/tokenizer.h"

#include "base/alloc.h"
#include "base/filemap.h"

/* Reads "bos_token" or the like, if none is known: a text, or an object with "content". Text
 * that is no token leaves -1. */
static mica_status read_token(const mica_tokenizer *tok, mc_json config, const char *key,
                              int32_t *id) {
    mc_json v = mc_json_find(config, key);
    mc_str text;
    if (*id >= 0 || !mc_json_exists(v)) return MICA_OK;
    if (!mc_json_get_str(v, &text) && !mc_json_get_str(mc_json_find(v, "content"), &text)) {
        return mc_fail(MICA_EFORMAT, "'%s' is not a token", key);
    }
    *id = mc_vocab_find(&tok->vocab, text);
    return MICA_OK;
}

/* Adds the token to `ids`, at the start of those before a text or the end of those after it, or
 * removes it. */
static mica_status set_edge(mc_buffer *ids, bool at_start, int32_t id, bool wanted) {
    size_t n = MC_BUFFER_COUNT(ids, int32_t), at = at_start ? 0 : n - 1;
    bool there = n > 0 && MC_BUFFER_AT(ids, int32_t)[at] == id;
    if (there == wanted || id < 0) return MICA_OK;
    if (wanted) {
        if (!MC_BUFFER_PUSH(ids, int32_t, id)) return mc_fail_nomem("tokenizer");
        int32_t *all = MC_BUFFER_AT(ids, int32_t);
        for (size_t i = n; at_start && i > 0; i--) {
            all[i] = all[i - 1];
            all[i - 1] = id;
        }
        return MICA_OK;
    }
    int32_t *all = MC_BUFFER_AT(ids, int32_t);
    for (size_t i = at; i + 1 < n; i++)
        all[i] = all[i + 1];
    ids->len -= sizeof *all;
    return MICA_OK;
}

/* If the key is missing, the template of tokenizer.json is not changed. */
static mica_status read_added(mica_tokenizer *tok, mc_json config, const char *key, bool at_start) {
    mc_json v = mc_json_find(config, key);
    bool wanted;
    if (!mc_json_exists(v)) return MICA_OK;
    if (!mc_json_get_bool(v, &wanted)) {
        return mc_fail(MICA_EFORMAT, "'%s' is not true or false", key);
    }
    return set_edge(at_start ? &tok->around.before : &tok->around.after, at_start,
                    at_start ? tok->bos : tok->eos, wanted);
}

static mica_status read_tokens(mica_tokenizer *tok, mc_json config) {
    MC_TRY(read_token(tok, config, "bos_token", &tok->bos));
    MC_TRY(read_token(tok, config, "eos_token", &tok->eos));
    MC_TRY(read_token(tok, config, "pad_token", &tok->pad));
    return read_token(tok, config, "unk_token", &tok->unk);
}

/* model_max_length; a number that no text reaches says that there is none. */
static void read_max(mica_tokenizer *tok, mc_json config) {
    double max = 0.0;
    mc_json_get_float(mc_json_find(config, "model_max_length"), &max);
    if (max >= 1.0 && max < (double)INT32_MAX) tok->max_tokens = (int32_t)max;
}

static mica_status read_edges(mica_tokenizer *tok, mc_json config) {
    read_max(tok, config);
    MC_TRY(read_added(tok, config, "add_bos_token", true));
    return read_added(tok, config, "add_eos_token", false);
}

/* Loads a file of the folder; *doc NULL: there is none. */
static mica_status load_file(const char *folder, const char *name, mc_json_doc **doc) {
    char *path = mc_path_join(folder, name);
    if (!path) return mc_fail_nomem("path");
    mica_status status = mc_json_load(path, MC_FILE_TOKENIZER_CONFIG, doc);
    mc_free(path);
    return status == MICA_ENOENT ? MICA_OK : status;
}

typedef mica_status (*read_fn)(mica_tokenizer *tok, mc_json config);

static mica_status read_doc(mica_tokenizer *tok, const mc_json_doc *doc, read_fn read,
                            const char *folder, const char *name) {
    mica_status status = doc ? read(tok, mc_json_root(doc)) : MICA_OK;
    return status == MICA_OK ? MICA_OK : mc_fail_context(status, "%s/%s", folder, name);
}

static const char config_name[] = "tokenizer_config.json", map_name[] = "special_tokens_map.json";

mica_status mc_tokenizer_config_open(const char *folder, mc_tokenizer_config *config) {
    *config = (mc_tokenizer_config){0};
    MC_TRY(load_file(folder, config_name, &config->config));
    return load_file(folder, map_name, &config->map);
}

void mc_tokenizer_config_close(mc_tokenizer_config *config) {
    mc_json_close(&config->config);
    mc_json_close(&config->map);
}

mc_json mc_tokenizer_config_added(const mc_tokenizer_config *config) {
    const mc_json none = {0};
    if (!config->config) return none;
    mc_json added = mc_json_find(mc_json_root(config->config), "added_tokens_decoder");
    return mc_json_get_type(added) == MC_JSON_OBJECT ? added : none;
}

static mica_status read_lower(mica_tokenizer *tok, mc_json config) {
    bool lower = false;
    mc_json_get_bool(mc_json_find(config, "do_lower_case"), &lower);
    return lower ? mc_normalizer_lower(&tok->normalizer) : MICA_OK;
}

/* An embedder may lower texts that its tokenizer does not. */
static mica_status read_sentence(mica_tokenizer *tok, const char *folder) {
    static const char name[] = "sentence_bert_config.json";
    mc_json_doc *doc = NULL;
    MC_TRY(load_file(folder, name, &doc));
    mica_status status = read_doc(tok, doc, read_lower, folder, name);
    mc_json_close(&doc);
    return status;
}

static mica_status add_special(mica_tokenizer *tok, int32_t id) {
    mc_token *token = id >= 0 ? &tok->vocab.tokens[id] : NULL;
    if (!token || (token->flags & MC_TOKEN_ADDED)) return MICA_OK;
    token->flags |= MC_TOKEN_ADDED | MC_TOKEN_SPECIAL;
    return mc_added_put(&tok->added_raw, mc_token_str(token), id, 0);
}

mica_status mc_tokenizer_read_config(mica_tokenizer *tok, const char *folder,
                                     const mc_tokenizer_config *c) {
    MC_TRY(read_doc(tok, c->config, read_tokens, folder, config_name));
    MC_TRY(read_doc(tok, c->map, read_tokens, folder, map_name));
    MC_TRY(read_doc(tok, c->config, read_edges, folder, config_name));
    MC_TRY(read_sentence(tok, folder));
    const int32_t special[] = {tok->bos, tok->eos, tok->pad, tok->unk};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        MC_TRY(add_special(tok, special[i]));
    return MICA_OK;
}

int32_t mica_tokenizer_bos(const mica_tokenizer *tok) {
    return tok ? tok->bos : -1;
}

int32_t mica_tokenizer_eos(const mica_tokenizer *tok) {
    return tok ? tok->eos : -1;
}

int32_t mica_tokenizer_pad(const mica_tokenizer *tok) {
    return tok ? tok->pad : -1;
}

int32_t mica_tokenizer_unk(const mica_tokenizer *tok) {
    return tok ? tok->unk : -1;
}
