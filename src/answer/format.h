/* What models write in their answers beside text: how they call tools, and how they mark what they
 * think. Each family has been trained on a form of its own, which its chat template shows.
 *
 *     hermes    <tool_call>{"name": ..., "arguments": {...}}</tool_call>, also Qwen's
 *     llama     {"name": ..., "parameters": {...}}, the whole answer; Llama 3
 *     pythonic  [name(a=1, b="x"), ...], the whole answer; Llama 3.2 and 4
 *     gemma     ```tool_code, with calls as in Python, ```
 *     generic   the JSON of either of the first two, as it is or in a ```json fence
 *
 * Threads: formats are constants. */
#ifndef ANSWER_FORMAT_H
#define ANSWER_FORMAT_H

#include "base/str.h"

#include <mica/tokenizer.h>

#include <stdbool.h>

typedef enum mc_call_body { MC_CALLS_JSON, MC_CALLS_PYTHON } mc_call_body;

/* A part of an answer that may hold calls. */
typedef struct mc_call_block {
    const char *begin; /* NULL: the list of blocks ends here */
    const char *end;   /* NULL: the end of the answer */
    mc_call_body body;
    bool first; /* only where no text comes before, and `begin` belongs to the body */
} mc_call_block;

enum { MC_CALL_BLOCKS = 5 };

typedef struct mc_call_format {
    const char *name;
    mc_call_block blocks[MC_CALL_BLOCKS];
    /* How a forced call is written: before the name, between name and arguments, behind these, and
     * between two calls; between NULL: there is one call only. */
    const char *before, *middle, *after, *between;
} mc_call_format;

/* What a model is known to write. */
typedef struct mc_answer_format {
    const mc_call_format *calls;         /* never NULL */
    const char *think_begin, *think_end; /* NULL: it marks no thoughts */
} mc_answer_format;

/* What a chat template shows; text "" for none. */
mc_answer_format mc_answer_format_find(mc_str chat_template);

/* Whether a prompt ends within a thought, which the answer then begins with. */
bool mc_answer_format_is_open(const mc_answer_format *format, mc_str prompt);

/* The same of a prompt's tokens. errors  MICA_ENOMEM */
mica_status mc_answer_format_find_open(const mc_answer_format *format,
                                       const mica_tokenizer *tokenizer, const int32_t *ids,
                                       size_t n, bool *is_open);

/* The format of that name; NULL: there is none. */
const mc_call_format *mc_call_format_find(const char *name);

#endif
