#include "task/encode_text.h"

#include "model/sentence.h"
#include "text/tokenizer/tokenizer.h"

#include <string.h>

size_t mc_encode_max_tokens(const mica_tokenizer *tok, const mc_lm *lm) {
    int64_t max = lm->sentence ? lm->sentence->max_tokens : 0;
    if (!max) max = tok->max_tokens;
    if (!max || max > lm->spec.context) max = lm->spec.context;
    return (size_t)max;
}

/* Takes tokens from the end of a text, in front of the special ones behind it. */
static void cut(const mica_tokenizer *tok, size_t max, int32_t *ids, size_t *n) {
    size_t after = MC_BUFFER_COUNT(&tok->around.after, int32_t);
    if (*n <= max) return;
    if (after > max) after = max;
    memmove(ids + max - after, ids + *n - after, after * sizeof *ids);
    *n = max;
}

/* ---- one text ---- */

static mica_status find_prompt(const mc_lm *lm, mc_str name, mc_str *prompt) {
    *prompt = MC_STR("");
    if (lm->sentence) {
        MC_TRY(mc_sentence_check(lm->sentence));
        return mc_sentence_prompt(lm->sentence, name, prompt);
    }
    if (!name.len) return MICA_OK;
    return mc_fail(MICA_EINVAL, "no prompt is called '%.*s': the model has none", MC_STR_ARG(name));
}

mica_status mc_text_reader_set_prompt(mc_text_reader *reader, mc_str prompt) {
    int32_t *ids;
    size_t n;
    reader->prompt = prompt;
    reader->skip = 0;
    if (!prompt.len || !reader->lm->sentence || !reader->lm->sentence->skip_prompt) return MICA_OK;
    MC_TRY(mica_tokenizer_encode(reader->tok, prompt.ptr, prompt.len, true, &ids, &n));
    reader->skip = n && mica_tokenizer_is_special(reader->tok, ids[n - 1]) ? n - 1 : n;
    mica_free(ids);
    return MICA_OK;
}

mica_status mc_text_reader_init(const mica_tokenizer *tok, const mc_lm *lm, mc_str prompt_name,
                                mc_text_reader *reader) {
    mc_str prompt;
    *reader = (mc_text_reader){.tok = tok, .lm = lm, .max = mc_encode_max_tokens(tok, lm)};
    MC_TRY(find_prompt(lm, prompt_name, &prompt));
    return mc_text_reader_set_prompt(reader, prompt);
}

static mica_status fit(const mc_text_reader *reader, int32_t *ids, size_t *n) {
    if (reader->whole && *n > reader->max)
        return mc_fail(MICA_ECONTEXT, "a text has %zu tokens, the model reads %zu at most", *n,
                       reader->max);
    cut(reader->tok, reader->max, ids, n);
    return MICA_OK;
}

mica_status mc_encode_ids(const mc_text_reader *reader, mc_str text, int32_t **ids, size_t *n,
                          size_t *skip) {
    mc_buffer whole = {0};
    *ids = NULL;
    *skip = reader->skip;
    bool joined = mc_buffer_add(&whole, reader->prompt.ptr, reader->prompt.len) &&
                  mc_buffer_add(&whole, text.ptr, text.len);
    mica_status status = joined ? MICA_OK : mc_fail_nomem("a text");
    if (status == MICA_OK)
        status = mica_tokenizer_encode(reader->tok, whole.data, whole.len, true, ids, n);
    if (status == MICA_OK) status = fit(reader, *ids, n);
    mc_buffer_deinit(&whole);
    if (status == MICA_OK) return MICA_OK;
    mica_free(*ids);
    *ids = NULL;
    return status;
}

/* ---- pairs ---- */

/* Cuts two texts to `max` tokens in all, the longer one first. */
static void cut_pair(size_t max, size_t *a, size_t *b) {
    size_t *shorter = *a <= *b ? a : b, *longer = *a <= *b ? b : a;
    if (*a + *b <= max) return;
    size_t left = max > *shorter ? max - *shorter : 0;
    *longer = left > *shorter ? left : *shorter;
    if (*shorter + *longer <= max) return;
    *shorter = max / 2;
    *longer = *shorter + max % 2;
}

mica_status mc_encode_pair(const mica_tokenizer *tok, const int32_t *a, size_t n_a,
                           const int32_t *b, size_t n_b, size_t max, int32_t **ids, int32_t **types,
                           size_t *n) {
    size_t special = mc_template_around_pair(&tok->around);
    mc_buffer joined = {0}, kinds = {0};
    cut_pair(max > special ? max - special : 0, &n_a, &n_b);
    mica_status status = mc_template_join(&tok->around, a, n_a, b, n_b, &joined, &kinds);
    *n = MC_BUFFER_COUNT(&joined, int32_t);
    *ids = MC_BUFFER_AT(&joined, int32_t);
    *types = MC_BUFFER_AT(&kinds, int32_t);
    if (status == MICA_OK) return MICA_OK;
    mica_free(*ids);
    mica_free(*types);
    *ids = *types = NULL;
    return status;
}
