#include "text/tokenizer/model.h"

typedef struct mc_token_kind {
    const char *type;
    mc_json_type vocab;
    mica_status (*check)(mc_json model); /* NULL: there is nothing to check before loading */
    mica_status (*load)(mc_token_model *m, const mc_vocab *v, mc_json model, bool ends_in_bytes);
    mica_status (*begin)(mc_token_scratch *s, size_t text_len); /* NULL: nothing is remembered */
    mica_status (*encode)(const mc_token_model *m, const mc_vocab *v, mc_str piece,
                          mc_token_scratch *s, mc_buffer *ids);
} mc_token_kind;

static mica_status load_bpe(mc_token_model *m, const mc_vocab *v, mc_json model,
                            bool ends_in_bytes) {
    return mc_bpe_load(&m->bpe, v, model, ends_in_bytes);
}

static mica_status begin_bpe(mc_token_scratch *s, size_t text_len) {
    return mc_bpe_remember(&s->bpe, text_len);
}

static mica_status encode_bpe(const mc_token_model *m, const mc_vocab *v, mc_str piece,
                              mc_token_scratch *s, mc_buffer *ids) {
    return mc_bpe_encode(&m->bpe, v, piece, &s->bpe, ids);
}

static mica_status load_wordpiece(mc_token_model *m, const mc_vocab *v, mc_json model,
                                  bool ends_in_bytes) {
    (void)ends_in_bytes;
    return mc_wordpiece_load(&m->wordpiece, v, model);
}

static mica_status encode_wordpiece(const mc_token_model *m, const mc_vocab *v, mc_str piece,
                                    mc_token_scratch *s, mc_buffer *ids) {
    (void)v;
    (void)s;
    return mc_wordpiece_encode(&m->wordpiece, piece, ids);
}

static mica_status load_unigram(mc_token_model *m, const mc_vocab *v, mc_json model,
                                bool ends_in_bytes) {
    (void)ends_in_bytes;
    return mc_unigram_load(&m->unigram, v, model);
}

static mica_status encode_unigram(const mc_token_model *m, const mc_vocab *v, mc_str piece,
                                  mc_token_scratch *s, mc_buffer *ids) {
    return mc_unigram_encode(&m->unigram, v, piece, &s->unigram, ids);
}

/* The first is that of files without a type. */
static const mc_token_kind kinds[] = {
    {"BPE", MC_JSON_OBJECT, mc_bpe_check, load_bpe, begin_bpe, encode_bpe},
    {"WordPiece", MC_JSON_OBJECT, NULL, load_wordpiece, NULL, encode_wordpiece},
    {"Unigram", MC_JSON_ARRAY, NULL, load_unigram, NULL, encode_unigram},
};

static const mc_token_kind *find_kind(mc_str type) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (mc_str_is(type, kinds[i].type)) return &kinds[i];
    }
    return NULL;
}

mica_status mc_token_model_check(mc_token_model *m, mc_json model, mc_json_type *vocab) {
    mc_str type = mc_str_of(kinds->type);
    if (mc_json_get_type(model) != MC_JSON_OBJECT) {
        return mc_fail(MICA_EFORMAT, "model: %s",
                       mc_json_exists(model) ? "not an object" : "missing");
    }
    mc_json_get_str(mc_json_find(model, "type"), &type);
    m->kind = find_kind(type);
    if (!m->kind)
        return mc_fail(MICA_EUNSUPPORTED,
                       "model: the type '%.*s' is not supported, only BPE, WordPiece and Unigram "
                       "are",
                       MC_STR_ARG(type));
    *vocab = m->kind->vocab;
    return m->kind->check ? m->kind->check(model) : MICA_OK;
}

mica_status mc_token_model_load(mc_token_model *m, const mc_vocab *v, mc_json model,
                                bool ends_in_bytes) {
    return m->kind->load(m, v, model, ends_in_bytes);
}

void mc_token_model_deinit(mc_token_model *m) {
    mc_bpe_deinit(&m->bpe);
    mc_wordpiece_deinit(&m->wordpiece);
    mc_unigram_deinit(&m->unigram);
}

mica_status mc_token_model_begin(const mc_token_model *m, mc_token_scratch *s, size_t text_len) {
    return m->kind->begin ? m->kind->begin(s, text_len) : MICA_OK;
}

mica_status mc_token_model_encode(const mc_token_model *m, const mc_vocab *v, mc_str piece,
                                  mc_token_scratch *s, mc_buffer *ids) {
    return m->kind->encode(m, v, piece, s, ids);
}

void mc_token_scratch_deinit(mc_token_scratch *s) {
    mc_bpe_scratch_deinit(&s->bpe);
    mc_unigram_scratch_deinit(&s->unigram);
}
