/* Anthropic's tools, made what chat templates take: OpenAI's. Threads: any. */
#ifndef SERVE_ANTHROPIC_TOOLS_H
#define SERVE_ANTHROPIC_TOOLS_H

#include "base/json.h"
#include "serve/jobs/answer_form.h"

/* Adds tools, {"name", "description", "input_schema", "strict"}, to a form; nothing where there are
 * none. Tools of other types than custom, which a server runs or whose schemas it has to know, and
 * those that only code may call, are left out and noted.
 * returns  false: *failure names the place */
bool mc_anthropic_tools(mc_json tools, mc_answer_form *form, mc_failure *failure);

#endif
