/* What options of an answer constrain it to (mica/model.h). */
#include "base/json.h"
#include "engine/model.h"
#include "grammar/answer_grammar.h"
#include "grammar/grammar_constraint.h"

#include <string.h>

static mica_status check_options(const mica_generate_options *options) {
    mica_constraint_kind kind = options->constraint;
    bool has_text = kind != MICA_CONSTRAINT_NONE && kind != MICA_CONSTRAINT_JSON_OBJECT;
    if (kind < MICA_CONSTRAINT_NONE || kind > MICA_CONSTRAINT_LARK)
        return mc_fail(MICA_EINVAL,
                       "constraint %d: want none (0), a JSON object (1), a JSON schema (2), regex "
                       "(3), choice (4), grammar (5), GBNF (6) or Lark (7)",
                       (int)kind);
    if (has_text && !options->constraint_text)
        return mc_fail(MICA_EINVAL, "constraint_text is NULL, and constraint %d needs it",
                       (int)kind);
    if (!has_text && options->constraint_text)
        return mc_fail(MICA_EINVAL, "constraint_text is given, and constraint %d has none",
                       (int)kind);
    return MICA_OK;
}

/* Whether the variables of a chat template ask for no thoughts. */
static bool turns_off(const char *variables) {
    mc_json_doc *doc = NULL;
    bool thinks = true;
    if (!variables || mc_json_parse(variables, strlen(variables), "variables", &doc) != MICA_OK)
        return false;
    mc_json_get_bool(mc_json_find(mc_json_root(doc), "enable_thinking"), &thinks);
    mc_json_close(&doc);
    return !thinks;
}

static mc_thinking thinking_of(const mc_answer_format *format, bool is_open, bool is_chat,
                               const mica_generate_options *options) {
    if (is_open) return MC_THINKING_IS_OPEN;
    bool may = is_chat && !options->continue_last && format->think_end &&
               !turns_off(options->template_variables);
    return may ? MC_THINKING_MAY : MC_THINKING_NONE;
}

static mica_status compile(const mica_model *model, const int32_t *ids, size_t n, bool is_chat,
                           const mica_generate_options *options, mc_grammar **grammar) {
    const mc_answer_format *format = mc_model_format(model);
    const char *text = options->constraint_text ? options->constraint_text : "";
    bool is_open;
    MC_TRY(mc_answer_format_find_open(format, mica_model_tokenizer(model), ids, n, &is_open));
    return mc_answer_grammar_document(options->constraint, text, strlen(text), format,
                                      thinking_of(format, is_open, is_chat, options), grammar);
}

mica_status mc_model_constrain(const mica_model *model, const int32_t *ids, size_t n, bool is_chat,
                               const mica_generate_options *options, mc_constraint **constraint) {
    enum { OWNER = 0 };
    mc_grammars *grammars = mc_model_grammars(model);
    mc_grammar *grammar = NULL;
    *constraint = NULL;
    MC_TRY(check_options(options));
    if (options->constraint == MICA_CONSTRAINT_NONE) return MICA_OK;
    mica_status status = compile(model, ids, n, is_chat, options, &grammar);
    if (status == MICA_OK) status = mc_grammars_check(grammars, grammar, OWNER);
    if (status == MICA_OK) status = mc_grammars_constrain(grammars, grammar, OWNER, constraint);
    mc_grammar_close(&grammar);
    return status == MICA_OK ? MICA_OK : mc_fail_context(status, "constraint");
}
