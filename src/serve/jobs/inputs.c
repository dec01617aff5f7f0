#include "serve/jobs/inputs.h"

#include "base/alloc.h"
#include "engine/model.h"
#include "task/encode.h"
#include "task/task.h"

/* Whether a text is empty, which a token that begins all texts would hide. */
static bool has_empty_text(mc_json value) {
    mc_str text;
    if (mc_json_get_str(value, &text)) return text.len == 0;
    for (mc_json_iter it = mc_json_begin(value); mc_json_next(&it);)
        if (mc_json_get_str(it.value, &text) && text.len == 0) return true;
    return false;
}

bool mc_input_reader(const mica_model *model, const mc_input_form *form, mc_text_reader *own,
                     const mc_text_reader **reader, mc_failure *failure) {
    const mc_session_model *local;
    mica_status status = mc_model_local(model, &local);
    const char *field = form->prompt.ptr ? "prompt" : "prompt_name";
    *reader = NULL;
    if (status != MICA_OK) return mc_failure_of(failure, status, "model");
    if (!mc_encodes(local->lm))
        return !(form->prompt.ptr || form->prompt_name.len) ||
               mc_failure_set(failure, 400, "invalid_value", field,
                              "%s: is for embedders, which the model is not", field);
    status = mc_text_reader_init(local->tokenizer, local->lm,
                                 form->prompt.ptr ? MC_STR("") : form->prompt_name, own);
    if (status == MICA_OK && form->prompt.ptr)
        status = mc_text_reader_set_prompt(own, form->prompt);
    own->whole = form->whole;
    *reader = own;
    return status == MICA_OK || mc_failure_of(failure, status, field);
}

bool mc_inputs_read(mc_json value, const char *name, const mica_model *model,
                    const mc_input_form *form, mc_inputs *inputs, mc_failure *failure) {
    const mica_tokenizer *tok = mica_model_tokenizer(model);
    const mc_session_model *local;
    const mc_text_reader *reader = NULL;
    mc_text_reader own;
    mica_status status = mc_model_local(model, &local);
    if (status != MICA_OK) return mc_failure_of(failure, status, "model");
    if (form && !mc_input_reader(model, form, &own, &reader, failure)) return false;
    if (!reader && has_empty_text(value))
        return mc_failure_set(failure, 400, "invalid_value", name, "%s: a text is empty", name);
    if (!mc_prompts_read(value, name, tok, mica_tokenizer_vocab_size(tok), reader, &inputs->prompts,
                         &inputs->count, failure))
        return false;
    for (size_t i = 0; i < inputs->count; i++) {
        const mc_completion_prompt *prompt = &inputs->prompts[i];
        status = mc_task_check_ids(local, prompt->ids, prompt->n);
        if (status != MICA_OK) return mc_failure_of(failure, status, name);
        inputs->tokens += (int64_t)prompt->n;
    }
    return true;
}

void mc_inputs_free(mc_inputs *inputs) {
    mc_prompts_free(inputs->prompts, inputs->count);
    *inputs = (mc_inputs){0};
}

void mc_inputs_put_usage(mc_put *put, int64_t tokens) {
    mc_put_open(put, "usage", '{');
    mc_put_int(put, "prompt_tokens", tokens);
    mc_put_int(put, "total_tokens", tokens);
    mc_put_close(put, '}');
}

mica_status mc_inputs_texts(const mc_completion_prompt *prompts, size_t count, mc_text **texts) {
    *texts = mc_array_alloc(count + 1, sizeof **texts);
    if (!*texts) return mc_fail_nomem("texts");
    for (size_t i = 0; i < count; i++)
        (*texts)[i] =
            (mc_text){.ids = prompts[i].ids, .n = (int64_t)prompts[i].n, .skip = prompts[i].skip};
    return MICA_OK;
}
