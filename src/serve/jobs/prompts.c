#include "serve/jobs/prompts.h"

#include "base/alloc.h"
#include "serve/common/ids.h"
#include "text/chat/prompt.h"

static bool read_text(mc_str text, const char *name, const mica_tokenizer *tok,
                      const mc_text_reader *reader, mc_completion_prompt *prompt,
                      mc_failure *failure) {
    mica_status status = reader
                             ? mc_encode_ids(reader, text, &prompt->ids, &prompt->n, &prompt->skip)
                             : mc_prompt_encode(tok, text.ptr, text.len, &prompt->ids, &prompt->n);
    return status == MICA_OK || mc_failure_of(failure, status, name);
}

static bool read_ids(mc_json array, const char *name, size_t vocab, mc_completion_prompt *prompt,
                     mc_failure *failure) {
    mc_buffer ids = {0};
    if (!mc_ids_read(array, vocab, name, &ids, failure)) return false;
    prompt->n = MC_BUFFER_COUNT(&ids, int32_t);
    prompt->ids = MC_BUFFER_AT(&ids, int32_t); /* of mc_alloc, as mica_free wants it */
    return true;
}

static bool read_one(mc_json value, const char *name, const mica_tokenizer *tok, size_t vocab,
                     const mc_text_reader *reader, mc_completion_prompt *prompt,
                     mc_failure *failure) {
    mc_str text;
    bool is_text = mc_json_get_str(value, &text);
    if (!is_text && mc_json_get_type(value) != MC_JSON_ARRAY)
        return mc_failure_set(failure, 400, "invalid_type", name,
                              "%s: want a text, texts, token ids, or arrays of them", name);
    if (!(is_text ? read_text(text, name, tok, reader, prompt, failure)
                  : read_ids(value, name, vocab, prompt, failure)))
        return false;
    return prompt->n > 0 ||
           mc_failure_set(failure, 400, "invalid_value", name, "%s: a prompt has no tokens", name);
}

/* Whether it is one prompt: a text, or an array of numbers. */
static bool is_one(mc_json value) {
    mc_json_iter it = mc_json_begin(value);
    int64_t id;
    return mc_json_get_type(value) != MC_JSON_ARRAY ||
           (mc_json_next(&it) && mc_json_get_int(it.value, &id));
}

bool mc_prompts_read(mc_json value, const char *name, const mica_tokenizer *tok, size_t vocab,
                     const mc_text_reader *reader, mc_completion_prompt **prompts, size_t *count,
                     mc_failure *failure) {
    size_t n = is_one(value) ? 1 : mc_json_count(value), i = 0;
    *prompts = NULL;
    *count = 0;
    if (n == 0 || n > MC_PROMPTS)
        return mc_failure_set(failure, 400, "invalid_value", name, "%s: want 1 to %d prompts", name,
                              MC_PROMPTS);
    mc_completion_prompt *all = mc_calloc(n, sizeof *all);
    if (!all) return mc_failure_of(failure, mc_fail_nomem("prompts"), NULL);
    bool done = true;
    if (is_one(value)) {
        done = read_one(value, name, tok, vocab, reader, all, failure);
    } else {
        for (mc_json_iter it = mc_json_begin(value); done && mc_json_next(&it); i++)
            done = read_one(it.value, name, tok, vocab, reader, &all[i], failure);
    }
    if (!done) {
        mc_prompts_free(all, n);
        return false;
    }
    *prompts = all;
    *count = n;
    return true;
}

void mc_prompts_free(mc_completion_prompt *prompts, size_t count) {
    for (size_t i = 0; prompts && i < count; i++)
        mica_free(prompts[i].ids);
    mc_free(prompts);
}
