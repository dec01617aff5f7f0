/* Turning a line of a data set to token ids. Threads: any. */
#ifndef TUNE_CONVERSATION_H
#define TUNE_CONVERSATION_H

#include "base/str.h"
#include "text/chat/prompt.h"

/* A text to train with. */
typedef struct mc_text {
    int32_t *ids; /* [n] freed with mica_free */
    size_t n;
    size_t prompt; /* number of the first ids that are its prompt */
} mc_text;

/* The keys of a line of data; NULL: "prompt", "completion", "messages", "text". */
typedef struct mc_data_keys {
    const char *prompt, *completion, *messages, *text;
} mc_data_keys;

typedef struct mc_conversation_options {
    const mc_prompt *prompt;
    const char *chat; /* built-in chat format for a model without a template */
    const mc_data_keys *keys;
    bool pairs; /* lines are preferences */
} mc_conversation_options;

/* Reads a line: one text, or, of a preference, the chosen and the rejected text.
 *
 * texts   [2] zeroed; their ids are to be freed after an error too
 * errors  MICA_EFORMAT no JSON, keys that are no example's, an empty text; those of
 *         mc_prompt_text */
mica_status mc_conversation_read(const mc_conversation_options *options, mc_str line,
                                 mc_text texts[2], size_t *n);

#endif
