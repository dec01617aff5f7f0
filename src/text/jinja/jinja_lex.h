/* The lexer: turns a template to tokens. Tokens are the text outside tags, already trimmed around
 * tags, and the words inside tags. */
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
    MC_T_STRING, /* the text between the quotes, with its escapes */
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

/* Adds the tokens (mc_jtoken), the last of kind MC_T_END. source is valid UTF-8 with lines ended by
 * \n; it must outlive the tokens. `name` is the template's, for error texts.
 * errors  MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_jlex(mc_str source, const char *name, mc_buffer *tokens);

#endif
