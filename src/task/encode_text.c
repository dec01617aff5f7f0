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

/* The tokens that a prompt is at the front of every text: those before the text included. */
static mica_status count_prompt(const mica_tokenizer *tok, mc_str prompt, size_t *skip) {
    int32_t *ids;
    size_t n;
    *skip = 0;
    if (!prompt.len) return MICA_OK;
    MC_TRY(mica_tokenizer_encode(tok, prompt.ptr, prompt.len, true, &ids, &n));
    *skip = n && mica_tokenizer_is_special(tok, ids[n - 1]) ? n - 1 : n;
    mica_free(ids);
    return MICA_OK;
}

/* Takes tokens from the end of a text, in front of the special ones behind it. */
static void cut(const mica_tokenizer *tok, size_t max, int32_t *ids, size_t *n) {
    size_t after = MC_BUFFER_COUNT(&tok->around.after, int32_t);
    if (*n <= max) return;
    if (after > max) after = max;
    memmove(ids + max - after, ids + *n - after, after * sizeof *ids);
    *n = max;
}

mica_status mc_encode_prompt(const mc_lm *lm, const char *name, mc_str *prompt) {
    *prompt = MC_STR("");
    if (lm->sentence) {
        MC_TRY(mc_sentence_check(lm->sentence));
        return mc_sentence_prompt(lm->sentence, name, prompt);
    }
    if (!name || !*name) return MICA_OK;
    return mc_fail(MICA_EINVAL, "no prompt is called '%s': the model has none", name);
}

mica_status mc_encode_ids(const mica_tokenizer *tok, const mc_lm *lm, const char *prompt_name,
                          mc_str text, int32_t **ids, size_t *n, size_t *skip) {
    mc_str prompt = MC_STR("");
    mc_buffer whole = {0};
    *ids = NULL;
    *skip = 0;
    MC_TRY(mc_encode_prompt(lm, prompt_name, &prompt));
    bool joined =
        mc_buffer_add(&whole, prompt.ptr, prompt.len) && mc_buffer_add(&whole, text.ptr, text.len);
    mica_status status = joined ? MICA_OK : mc_fail_nomem("a text");
    if (status == MICA_OK) status = mica_tokenizer_encode(tok, whole.data, whole.len, true, ids, n);
    mc_buffer_deinit(&whole);
    if (status != MICA_OK) return status;
    cut(tok, mc_encode_max_tokens(tok, lm), *ids, n);
    if (lm->sentence && lm->sentence->skip_prompt) return count_prompt(tok, prompt, skip);
    return MICA_OK;
}

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
