/* Grammars of whole answers: thoughts, then a document of a schema, or calls of tools in the
 * model's own format (answer/format.h). Threads: any. */
#ifndef GRAMMAR_ANSWER_GRAMMAR_H
#define GRAMMAR_ANSWER_GRAMMAR_H

#include "answer/format.h"
#include "answer/tools.h"
#include "grammar/grammar.h"

#include <mica/model.h>

/* Whether an answer may begin with thoughts. */
typedef enum mc_thinking {
    MC_THINKING_NONE,    /* it may not */
    MC_THINKING_MAY,     /* between the format's marks */
    MC_THINKING_IS_OPEN, /* it begins within a thought: the prompt has the first mark */
} mc_thinking;

/* Answers that are a document of a kind, but MICA_CONSTRAINT_NONE; text: constraint_text of
 * mica_generate_options, which mica/model.h describes.
 * errors  MICA_EINVAL texts to choose from that are not 1 to 256, or one that is empty; those of
 *         grammar/schema.h, grammar/gbnf.h, grammar/lark.h */
mica_status mc_answer_grammar_document(mica_constraint_kind kind, const char *text, size_t len,
                                       const mc_answer_format *format, mc_thinking thinking,
                                       mc_grammar **grammar);

typedef enum mc_tool_choice { MC_TOOLS_AUTO, MC_TOOLS_NONE, MC_TOOLS_REQUIRED } mc_tool_choice;

/* Answers with calls of tools: at least one of any (required), exactly one of the tool `name`, or
 * text with calls within it (auto; only these are constrained, and only if a tool is strict). Where
 * the format does not mark calls, those are that the answer begins with, as the format writes them,
 * in JSON or as a list of calls in Python: a model that writes them in another way, such as Python
 * between fences, is not held to a schema.
 *
 * The arguments keep to the tool's schema. If that is not supported, a strict tool is refused, and
 * one that is not takes any object.
 *
 *  name      the tool that must be called; NULL: none is named.
 *  parallel  whether there may be more than one call; not all formats have that.
 *  grammar   NULL, with MICA_OK: there is nothing to constrain.
 *  errors    MICA_EINVAL no tools, or none of that name; those of grammar/schema.h, with
 *            "tools/NAME" before their pointers */
mica_status mc_answer_grammar_tools(const mc_tools *tools, mc_tool_choice choice, const char *name,
                                    bool parallel, const mc_answer_format *format,
                                    mc_thinking thinking, mc_grammar **grammar);

#endif
