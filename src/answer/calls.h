/* Calls of tools that were read. Threads: any. */
#ifndef ANSWER_CALLS_H
#define ANSWER_CALLS_H

#include "answer/tools.h"
#include "base/buffer.h"

typedef struct mc_tool_call { /* places in mc_calls.text */
    size_t name, name_len;
    size_t arguments, arguments_len; /* the text of a JSON object */
} mc_tool_call;

typedef struct mc_calls { /* zero is empty */
    mc_buffer list;       /* mc_tool_call */
    mc_buffer text;
} mc_calls;

static inline void mc_calls_deinit(mc_calls *calls) {
    mc_buffer_deinit(&calls->list);
    mc_buffer_deinit(&calls->text);
}

#endif
