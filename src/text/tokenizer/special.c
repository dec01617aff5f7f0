/* tokenizer_config.json: which tokens begin and end a text, and whether they are added. */
#include "text/tokenizer/tokenizer.h"

#include "base/alloc.h"
#include "base/filemap.h"

/* Reads "bos_token" or the like: a text, or an object with "content". -1: null, or not a token. */
static mica_status read_token(const mica_tokenizer *tok, mc_json config, const char *key,
                              int32_t *id) {
    mc_json v = mc_json_find(config, key);
    mc_str text;
    if (!mc_json_exists(v)) return MICA_OK;
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

static mica_status read_config(mica_tokenizer *tok, mc_json config) {
    MC_TRY(read_token(tok, config, "bos_token", &tok->bos));
    MC_TRY(read_token(tok, config, "eos_token", &tok->eos));
    MC_TRY(read_token(tok, config, "pad_token", &tok->pad));
    MC_TRY(read_token(tok, config, "unk_token", &tok->unk));
    MC_TRY(read_added(tok, config, "add_bos_token", true));
    return read_added(tok, config, "add_eos_token", false);
}

mica_status mc_tokenizer_read_config(mica_tokenizer *tok, const char *folder) {
    char *path = mc_path_join(folder, "tokenizer_config.json");
    mc_json_doc *doc = NULL;
    if (!path) return mc_fail_nomem("path");
    mica_status status = mc_json_load(path, MC_FILE_TOKENIZER_CONFIG, &doc);
    if (status == MICA_OK) {
        status = read_config(tok, mc_json_root(doc));
        if (status != MICA_OK) status = mc_fail_context(status, "%s", path);
    }
    mc_json_close(&doc);
    mc_free(path);
    return status == MICA_ENOENT ? MICA_OK : status;
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
