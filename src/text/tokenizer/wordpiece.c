#include "text/tokenizer/wordpiece.h"

#include "text/unicode.h"

static mica_status read_text(mc_json model, const char *key, mc_str *text) {
    mc_json v = mc_json_find(model, key);
    if (!mc_json_exists(v) || mc_json_get_str(v, text)) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "model.%s: not a string", key);
}

static mica_status load_unk(mc_wordpiece *w, const mc_vocab *v, mc_json model) {
    mc_str text = MC_STR("[UNK]");
    MC_TRY(read_text(model, "unk_token", &text));
    w->unk_id = mc_vocab_find_model(v, text, mc_vocab_hash(text.ptr, text.len));
    if (w->unk_id >= 0) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "model.unk_token: '%.*s' is not in the vocabulary",
                   MC_STR_ARG(text));
}

static mica_status load_prefix(mc_wordpiece *w, mc_json model) {
    mc_str prefix = MC_STR("##");
    MC_TRY(read_text(model, "continuing_subword_prefix", &prefix));
    w->continues = true;
    for (size_t i = 0; i < prefix.len && w->continues; i++)
        w->continues = mc_byte_tree_step(&w->tree, &w->inner, prefix.ptr[i]);
    return MICA_OK;
}

static mica_status load_max(mc_wordpiece *w, mc_json model) {
    mc_json v = mc_json_find(model, "max_input_chars_per_word");
    int64_t max = 100;
    if (mc_json_exists(v) && (!mc_json_get_int(v, &max) || max < 0))
        return mc_fail(MICA_EFORMAT, "model.max_input_chars_per_word: not a count");
    w->max_chars = (size_t)max;
    return MICA_OK;
}

mica_status mc_wordpiece_load(mc_wordpiece *w, const mc_vocab *v, mc_json model) {
    MC_TRY(load_unk(w, v, model));
    MC_TRY(load_max(w, model));
    MC_TRY(mc_vocab_fill_tree(v, &w->tree));
    return load_prefix(w, model);
}

void mc_wordpiece_deinit(mc_wordpiece *w) {
    mc_byte_tree_deinit(&w->tree);
}

/* The length of the longest token from a node on; 0: none. */
static size_t longest(const mc_wordpiece *w, uint32_t node, mc_str text, int32_t *id) {
    size_t best = 0;
    for (size_t i = 0; i < text.len && mc_byte_tree_step(&w->tree, &node, text.ptr[i]); i++) {
        int32_t value = mc_byte_tree_value(&w->tree, node);
        if (value < 0) continue;
        best = i + 1;
        *id = value;
    }
    return best;
}

static bool is_too_long(const mc_wordpiece *w, mc_str word) {
    size_t chars = 0;
    uint32_t c;
    for (size_t at = 0; at < word.len && chars <= w->max_chars; chars++)
        at += mc_next_char(word.ptr + at, &c);
    return chars > w->max_chars;
}

static mica_status add_id(mc_buffer *ids, int32_t id) {
    return MC_BUFFER_PUSH(ids, int32_t, id) ? MICA_OK : mc_fail_nomem("ids");
}

mica_status mc_wordpiece_encode(const mc_wordpiece *w, mc_str word, mc_buffer *ids) {
    size_t before = ids->len;
    if (is_too_long(w, word)) return add_id(ids, w->unk_id);
    for (size_t at = 0, n; at < word.len; at += n) {
        mc_str rest = {word.ptr + at, word.len - at};
        int32_t id = -1;
        bool known = at == 0 || w->continues;
        n = known ? longest(w, at ? w->inner : 0, rest, &id) : 0;
        if (n == 0) {
            ids->len = before;
            return add_id(ids, w->unk_id);
        }
        MC_TRY(add_id(ids, id));
    }
    return MICA_OK;
}
