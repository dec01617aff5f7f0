/* Templates to tokens: text outside of tags, with white space around tags already dealt with, and
 * the words inside of tags. */
#ifndef TEXT_JINJA_JINJA_LEX_H
#define TEXT_JINJA_JINJA_LEX_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

typedef enum mc_jtoken_kind {
    MC_T_TEXT,        /* outside of tags; never empty */
    MC_T_BEGIN_PRINT, /* {{ */
    MC_T_END_PRINT,
    MC_T_BEGIN_BLOCK, /* {% */
    MC_T_END_BLOCK,
    MC_T_NAME,
    MC_T_STRING, /* what is between the quotes, as written */
    MC_T_INT,
    MC_T_FLOAT,
    MC_T_OPERATOR,
    MC_T_END
} mc_jtoken_kind;

typedef struct mc_jtoken {
    mc_jtoken_kind kind;
    uint32_t line; /* from 1 */
    mc_str text;   /* in the source */
} mc_jtoken;

/* Adds the tokens (mc_jtoken), an END last. source is valid UTF-8, with lines ended by \n, and
 * outlives them. `name` is the template's, for errors. errors  MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_jlex(mc_str source, const char *name, mc_buffer *tokens);

#endif
