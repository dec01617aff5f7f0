/* The fields of a request that make a conversation a prompt. Threads: any. */
#ifndef SERVE_TALK_H
#define SERVE_TALK_H

#include "base/buffer.h"
#include "serve/fields.h"

#include <mica/model.h>

typedef struct mc_talk {
    mc_json messages, variables, tools;
    bool turn; /* the model's turn begins behind the messages */
    bool continue_last;
    int effort; /* of the choices of the field */
} mc_talk;

/* The choices of the effort of reasoning, and one of these words. */
extern const char mc_talk_efforts[];
mc_str mc_talk_effort(int effort);

enum { MC_TALK_FIELDS = 6 };
extern const mc_field mc_talk_fields[MC_TALK_FIELDS];

/* The text of a prompt, with its special tokens.
 *
 *  cancel   watched. Borrowed.
 *  returns  false: *failure says why */
bool mc_talk_text(const mc_talk *conversation, const mica_model *model, const mica_cancel *cancel,
                  mc_buffer *text, mc_failure *failure);

/* Its token ids, freed with mica_free. */
bool mc_talk_ids(const mc_talk *conversation, const mica_model *model, const mica_cancel *cancel,
                 int32_t **ids, size_t *n, mc_failure *failure);

#endif
