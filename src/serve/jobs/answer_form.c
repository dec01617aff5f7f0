#include "serve/jobs/answer_form.h"

#include "engine/model.h"
#include "grammar/reasoning.h"
#include "serve/common/put.h"
#include "text/chat/chat_shape.h"

#include <stdio.h>
#include <string.h>

enum { FIELD_TOOLS, FIELD_THINKING, FIELD_DOCUMENT, FIELD_BUDGET };

static bool is_document(const mc_answer_form *form) {
    return form->kind != MICA_CONSTRAINT_NONE || mc_json_exists(form->schema);
}

bool mc_answer_form_is_forced(const mc_answer_form *form) {
    bool called = form->tools_text.len && (form->tool[0] || form->choice == MC_TOOLS_REQUIRED);
    return called || mc_json_exists(form->schema) || form->kind == MICA_CONSTRAINT_JSON_OBJECT ||
           form->kind == MICA_CONSTRAINT_CHOICE;
}

static bool prepare_tools(mc_answer_form *form, mc_failure *failure) {
    const char *name = form->fields[FIELD_TOOLS];
    if (form->choice == MC_TOOLS_NONE && !form->tool[0]) mc_buffer_clear(&form->tools_text);
    if (!form->tools_text.len) {
        if (!form->tool[0] && form->choice != MC_TOOLS_REQUIRED) return true;
        return mc_failure_set(failure, 400, "invalid_value", name,
                              "%s: a tool must be called, but there is none", name);
    }
    if (is_document(form))
        return mc_failure_set(failure, 400, "unsupported_field", name, "%s: not together with %s",
                              name, form->fields[FIELD_DOCUMENT]);
    if (!mc_buffer_cstr(&form->tools_text))
        return mc_failure_of(failure, mc_fail_nomem("tools"), NULL);
    mica_status status = mc_tools_read(form->tools_text.data, form->tools_text.len, &form->tools);
    return status == MICA_OK || mc_failure_of(failure, status, name);
}

/* Adds up to 40 characters of a word to what is left out. */
static void add_word(mc_answer_form *form, const char *before, mc_str word) {
    char text[44];
    size_t len = word.len < 40 ? word.len : 40, at = strlen(form->left_out);
    for (size_t i = 0; i < len; i++) {
        char c = word.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-' || c == '.';
        text[i] = good ? c : '?';
    }
    text[len] = '\0';
    snprintf(form->left_out + at, sizeof form->left_out - at, "%s%s", before, text);
}

void mc_answer_form_leave_out(mc_answer_form *form, mc_str type, mc_str name) {
    enum { ROOM = 2 * 42 + 8 }; /* of this one, and of what stands for the others */
    if (strlen(form->left_out) + ROOM > sizeof form->left_out) {
        if (!strstr(form->left_out, ", ...")) strcat(form->left_out, ", ...");
        return;
    }
    add_word(form, form->left_out[0] ? ", " : "tools: ", type);
    if (name.len && !mc_str_eq(type, name)) add_word(form, " ", name);
}

bool mc_answer_form_prepare(mc_answer_form *form, const mica_model *model, mc_failure *failure) {
    const char *name = form->fields[FIELD_THINKING];
    form->format = *mc_model_format(model);
    if (form->advised && !form->format.think_end) {
        form->limited = false;
        if (form->thinking == MC_PROMPT_THINKING_ON) form->thinking = MC_PROMPT_THINKING_DEFAULT;
    }
    if (form->thinking == MC_PROMPT_THINKING_ON && !form->format.think_end)
        return mc_failure_set(failure, 400, "unsupported_value", name,
                              "%s: the model's chat template marks no thoughts", name);
    name = form->fields[FIELD_BUDGET];
    if (form->limited && form->budget > 0 && !form->format.think_end)
        return mc_failure_set(failure, 400, "unsupported_value", name,
                              "%s: the model's chat template marks no thoughts, so that they "
                              "cannot be counted",
                              name);
    return prepare_tools(form, failure);
}

void mc_answer_form_limit(mc_answer_form *form, mc_str chat_template, mc_str effort) {
    static const struct {
        const char *effort;
        int64_t budget;
    } rows[] = {{"minimal", 1024}, {"low", 1024}, {"medium", 8192}, {"high", 24576}};
    if (form->limited || !form->format.think_end || mc_chat_shape_effort(chat_template)) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (effort.ptr && mc_str_is(effort, rows[i].effort)) {
            form->limited = true;
            form->budget = rows[i].budget;
        }
}

/* ---- compiling ---- */

static mc_thinking thinking_of(const mc_answer_form *form) {
    if (form->is_open) return MC_THINKING_IS_OPEN;
    bool may = form->format.think_end && form->thinking != MC_PROMPT_THINKING_OFF;
    return may ? MC_THINKING_MAY : MC_THINKING_NONE;
}

static mica_status compile_document(mc_answer_form *form) {
    mc_buffer text = {0};
    mc_put put = mc_put_into(&text);
    bool has_schema = mc_json_exists(form->schema);
    const mc_buffer *source = has_schema ? &text : &form->source;
    if (has_schema) mc_put_value(&put, NULL, form->schema);
    mica_status status =
        put.failed
            ? mc_fail_nomem("a schema")
            : mc_answer_grammar_document(has_schema ? MICA_CONSTRAINT_JSON_SCHEMA : form->kind,
                                         source->data ? source->data : "", source->len,
                                         &form->format, thinking_of(form), &form->grammar);
    mc_buffer_deinit(&text);
    if (status != MICA_OK) mc_fail_context(status, "%s", form->fields[FIELD_DOCUMENT]);
    return status;
}

/* The field that the grammar is of. */
static const char *name_of(const mc_answer_form *form) {
    return form->fields[is_document(form) ? FIELD_DOCUMENT : FIELD_TOOLS];
}

bool mc_answer_form_compile(mc_answer_form *form, const mica_model *model, const int32_t *ids,
                            size_t n, mc_failure *failure) {
    const char *name = name_of(form);
    mica_status status = mc_answer_format_find_open(&form->format, mica_model_tokenizer(model), ids,
                                                    n, &form->is_open);
    if (form->in_thoughts && form->format.think_end) form->is_open = true;
    if (status == MICA_OK && is_document(form)) status = compile_document(form);
    if (status == MICA_OK && form->tools_text.len)
        status = mc_answer_grammar_tools(&form->tools, form->choice,
                                         form->tool[0] ? form->tool : NULL, !form->single,
                                         &form->format, thinking_of(form), &form->grammar);
    return status == MICA_OK || mc_failure_of(failure, status, name);
}

bool mc_answer_form_check(const mc_answer_form *form, const mica_model *model, size_t owner,
                          mc_failure *failure) {
    const char *name = name_of(form);
    if (!form->grammar) return true;
    mica_status status = mc_grammars_check(mc_model_grammars(model), form->grammar, owner);
    if (status == MICA_EUNSUPPORTED) mc_fail_context(status, "%s", name);
    return status == MICA_OK || mc_failure_of(failure, status, name);
}

/* ---- answers ---- */

mica_status mc_answer_form_constrain(const mc_answer_form *form, const mica_model *model,
                                     size_t owner, mc_constraint **constraint) {
    mc_grammars *grammars = mc_model_grammars(model);
    mc_constraint *inner = NULL;
    bool budget = form->limited && form->format.think_end;
    *constraint = NULL;
    if (!form->grammar && !budget) return MICA_OK;
    if (form->grammar) MC_TRY(mc_grammars_constrain(grammars, form->grammar, owner, &inner));
    if (budget)
        return mc_reasoning_constrain(grammars, &form->format, form->budget, form->is_open, inner,
                                      constraint);
    *constraint = inner;
    return MICA_OK;
}

mica_status mc_answer_form_split(const mc_answer_form *form, mc_take_piece take, void *user,
                                 mc_splitter **splitter) {
    MC_TRY(mc_splitter_open(&form->format, form->tools_text.len ? &form->tools : NULL,
                            form->is_open, take, user, splitter));
    if (form->single) mc_splitter_keep_one_call(*splitter);
    return MICA_OK;
}

void mc_answer_form_deinit(mc_answer_form *form) {
    mc_grammar_close(&form->grammar);
    mc_tools_deinit(&form->tools);
    mc_buffer_deinit(&form->tools_text);
    mc_buffer_deinit(&form->source);
    mc_json_close(&form->parsed);
}
