/* Anthropic's tools, made what chat templates take: OpenAI's. Threads: any. */
#ifndef SERVE_ANTHROPIC_TOOLS_H
#define SERVE_ANTHROPIC_TOOLS_H

#include "base/buffer.h"
#include "base/json.h"
#include "serve/failure.h"

/* Adds tools, {"name", "description", "input_schema", "strict"}, as a JSON array in OpenAI's form;
 * nothing where there are none.
 * returns  false: *failure names the place */
bool mc_anthropic_tools(mc_json tools, mc_buffer *out, mc_failure *failure);

#endif
