/* Text to ids: added tokens are cut out; the texts between them are normalised, split and
 * encoded. */
#include "text/tokenizer/tokenizer.h"

#include "base/utf8.h"

typedef struct encoding {
    const mica_tokenizer *tok;
    mc_work work;
    mc_normalizing normal;
    mc_pretokenizing pieces;
    mc_token_scratch model;
    mc_buffer ids; /* of int32 */
} encoding;

typedef mica_status (*segment_fn)(encoding *e, mc_str text, bool at_start);

static mica_status add_id(encoding *e, int32_t id) {
    return MC_BUFFER_PUSH(&e->ids, int32_t, id) ? MICA_OK : mc_fail_nomem("ids");
}

/* Adds the ids of the added tokens in text, and calls `between` for the texts between them. */
static mica_status cut_out(encoding *e, const mc_added *added, mc_str text, bool at_start,
                           segment_fn between) {
    mc_added_match match;
    size_t from = 0;
    while (mc_added_find(added, text, from, &match)) {
        mc_str before = {text.ptr + from, match.start - from};
        if (before.len) MC_TRY(between(e, before, at_start && from == 0));
        MC_TRY(add_id(e, match.id));
        from = match.end;
    }
    if (from == text.len) return MICA_OK;
    return between(e, (mc_str){text.ptr + from, text.len - from}, at_start && from == 0);
}

static mica_status encode_piece(void *arg, mc_str piece) {
    encoding *e = arg;
    return mc_token_model_encode(&e->tok->model, &e->tok->vocab, piece, &e->model, &e->ids);
}

static mica_status encode_pieces(encoding *e, mc_str text, bool at_start) {
    return mc_pretokenize(&e->pieces, text, at_start);
}

static mica_status encode_segment(encoding *e, mc_str text, bool at_start) {
    MC_TRY(mc_normalize(&e->tok->normalizer, text, &e->normal, &text));
    return cut_out(e, &e->tok->added_normalized, text, at_start, encode_pieces);
}

static mica_status encode_text(encoding *e, mc_str text, bool add_special) {
    const mc_template *around = &e->tok->around;
    MC_TRY(mc_token_model_begin(&e->tok->model, &e->model, text.len));
    if (add_special && !mc_buffer_add(&e->ids, around->before.data, around->before.len)) {
        return mc_fail_nomem("ids");
    }
    MC_TRY(cut_out(e, &e->tok->added_raw, text, true, encode_segment));
    if (add_special && !mc_buffer_add(&e->ids, around->after.data, around->after.len)) {
        return mc_fail_nomem("ids");
    }
    return mc_buffer_reserve(&e->ids, sizeof(int32_t)) ? MICA_OK : mc_fail_nomem("ids");
}

static void encoding_deinit(encoding *e) {
    mc_work_deinit(&e->work);
    mc_normalizing_deinit(&e->normal);
    mc_pretokenizing_deinit(&e->pieces);
    mc_token_scratch_deinit(&e->model);
    mc_buffer_deinit(&e->ids);
}

static mica_status check_text(const char *text, size_t len) {
    if (len > INT32_MAX) {
        return mc_fail(MICA_EINVAL, "encode: the text has %zu bytes, the limit is 2^31 - 1", len);
    }
    if (mc_utf8_valid(text, len)) return MICA_OK;
    size_t at = 0;
    uint32_t codepoint;
    for (size_t n; at < len && (n = mc_utf8_decode(text + at, len - at, &codepoint)) > 0;)
        at += n;
    return mc_fail(MICA_EFORMAT, "encode: the text is not UTF-8 at byte %zu of %zu (0x%02X)", at,
                   len, (unsigned)(uint8_t)text[at]);
}

/* The ids of a text; *ids belongs to the caller also after an error. */
static mica_status encode_alone(const mica_tokenizer *tok, const char *text, size_t len,
                                bool add_special, mc_buffer *ids) {
    if (len == 0) text = "";
    MC_TRY(check_text(text, len));
    encoding e = {.tok = tok};
    e.pieces.pretokenizer = &tok->pretokenizer;
    e.pieces.take = encode_piece;
    e.pieces.arg = &e;
    e.pieces.work = e.normal.work = &e.work;
    mc_work_begin(&e.work, len, MC_GROWTH_ENCODE);
    mc_regex_begin(&e.work.regex, len);
    mica_status status = encode_text(&e, (mc_str){text, len}, add_special);
    *ids = e.ids;
    e.ids = (mc_buffer){0};
    encoding_deinit(&e);
    return status;
}

static int32_t *take_ids(mc_buffer *ids) {
    int32_t *taken = MC_BUFFER_AT(ids, int32_t);
    *ids = (mc_buffer){0};
    return taken;
}

mica_status mica_tokenizer_encode(const mica_tokenizer *tok, const char *text, size_t len,
                                  bool add_special, int32_t **ids, size_t *n) {
    if (ids) *ids = NULL;
    if (n) *n = 0;
    if (!tok || !ids || !n || (!text && len)) {
        return mc_fail(MICA_EINVAL, "mica_tokenizer_encode: an argument is NULL");
    }
    mc_buffer made = {0};
    mica_status status = encode_alone(tok, text, len, add_special, &made);
    if (status == MICA_OK) {
        *n = MC_BUFFER_COUNT(&made, int32_t);
        *ids = take_ids(&made);
    }
    mc_buffer_deinit(&made);
    return status;
}

/* The ids of two texts, then those of the pair. */
typedef struct pair {
    mc_buffer first, second, ids, types;
} pair;

static mica_status encode_both(const mica_tokenizer *tok, mc_str first, mc_str second, pair *p) {
    MC_TRY(encode_alone(tok, first.ptr, first.len, false, &p->first));
    MC_TRY(encode_alone(tok, second.ptr, second.len, false, &p->second));
    return mc_template_join(&tok->around, MC_BUFFER_AT(&p->first, int32_t),
                            MC_BUFFER_COUNT(&p->first, int32_t), MC_BUFFER_AT(&p->second, int32_t),
                            MC_BUFFER_COUNT(&p->second, int32_t), &p->ids, &p->types);
}

mica_status mica_tokenizer_encode_pair(const mica_tokenizer *tok, const char *text, size_t len,
                                       const char *second, size_t second_len, int32_t **ids,
                                       int32_t **types, size_t *n) {
    if (ids) *ids = NULL;
    if (types) *types = NULL;
    if (n) *n = 0;
    if (!tok || !ids || !types || !n || (!text && len) || (!second && second_len))
        return mc_fail(MICA_EINVAL, "mica_tokenizer_encode_pair: an argument is NULL");
    pair p = {0};
    mica_status status = encode_both(tok, (mc_str){text, len}, (mc_str){second, second_len}, &p);
    bool room = mc_buffer_reserve(&p.ids, 1) && mc_buffer_reserve(&p.types, 1);
    if (status == MICA_OK && !room) status = mc_fail_nomem("ids");
    if (status == MICA_OK) {
        *n = MC_BUFFER_COUNT(&p.ids, int32_t);
        *ids = take_ids(&p.ids);
        *types = take_ids(&p.types);
    }
    mc_buffer_deinit(&p.first);
    mc_buffer_deinit(&p.second);
    mc_buffer_deinit(&p.ids);
    mc_buffer_deinit(&p.types);
    return status;
}
