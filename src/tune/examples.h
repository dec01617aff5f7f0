/* A file of examples as token ids.
 *
 * Records (tune/records.h) are read once and encoded. Ids are kept in memory up to a limit, and
 * behind it in a temporary file without a name: only 24 bytes an example stay in memory. Kinds of
 * records, told by their keys:
 *
 *     {"messages": [...], "tools": [...]}        a conversation; tools may be missing
 *     {"prompt": "...", "completion": "..."}     a question and its answer
 *     {"text": "..."}                            plain text; the token that ends answers is added
 *     {"instruction": "...", "input": "...", "output": "..."}   Alpaca's question and answer; a
 *                                                system message may be in "system"
 *     {"conversations": [{"from": "human", "value": "..."}, ...]}   ShareGPT's conversation
 *     {"prompt": "...", "chosen": "...", "rejected": "..."}   a preference; each of the three may
 *                                                be messages, and chosen and rejected may hold the
 *                                                prompt's
 *
 * A prompt is the part that the tokens of a conversation without its last answer share with it.
 * Threads: one at a time. Source: the shapes of mlx-lm's and trl's data. */
#ifndef TUNE_EXAMPLES_H
#define TUNE_EXAMPLES_H

#include "base/buffer.h"
#include "text/chat/prompt.h"
#include "tune/conversation.h"

#include <mica/tune.h>

#include <stdio.h>

/* A text of an example. Of a pair the chosen text is followed by the rejected one. */
typedef struct mc_example {
    uint64_t at;     /* of its first id among all */
    uint32_t length; /* ids */
    uint32_t prompt; /* ids of the prompt, which may be masked */
    uint64_t line;
} mc_example;

typedef struct mc_examples {
    mc_buffer list; /* mc_example */
    mc_buffer ids;  /* int32: those in memory, the first ones */
    FILE *spill;    /* the others; NULL: there are none */
    uint64_t count; /* of all ids */
    uint64_t hash;  /* of all ids, and of where texts begin */
    uint64_t cut;   /* examples longer than the limit */
    uint64_t skipped;
    uint64_t longest; /* ids of the longest text, before cutting */
    char *path;
} mc_examples;

typedef struct mc_examples_options {
    const mc_prompt *prompt;
    const char *chat; /* built-in chat format of the model's family */
    int64_t vocab;    /* of the model: its ids are below */
    bool pairs;       /* lines are preferences */
    bool need_answer; /* texts need a token behind their prompt: the prompt is masked */
    int64_t max_length;
    mc_data_keys keys; /* of lines */
    mica_tune_long too_long;
    bool skip_bad;
    uint64_t memory_bytes; /* of ids in memory; 0: 256 MiB */
    const mica_cancel *cancel;
    mica_tune_source source; /* in the place of a file; NULL: none */
    void *source_user;
    mica_tune_set set; /* of the source */
} mc_examples_options;

/* Reads a file; or a source, whose set may be empty: then path is a name for errors.
 *
 * errors  MICA_EFORMAT lines that are no examples (the text lists the first eight, with numbers and
 *         reasons), unless these are skipped; an empty file; those of mc_lines, and of the
 *         source; MICA_ECANCELLED, MICA_ENOMEM. Closed by mc_examples_close, after an error too */
mica_status mc_examples_open(mc_examples *e, const char *path, const mc_examples_options *options);
void mc_examples_close(mc_examples *e);

size_t mc_examples_count(const mc_examples *e); /* of texts: two a pair */
const mc_example *mc_examples_at(const mc_examples *e, size_t i);
/* Reads the ids of a text: [length]. errors  MICA_EIO */
mica_status mc_examples_read(const mc_examples *e, size_t i, int32_t *ids);

#endif
