/* Answers whose thoughts are between special tokens, which have no text: told apart for printing,
 * as other models write them. */
#ifndef CLI_PARTS_H
#define CLI_PARTS_H

#include "text.h"

#include <mica/answer.h>

typedef struct cli_parts {
    mica_answer *answer;   /* NULL: the model's tokens have all that there is to print */
    size_t thoughts, text; /* bytes that were taken */
} cli_parts;

/** Opens the parts of a model's answer.
 *
 *  returns false after it reported the error */
bool cli_parts_open(cli_parts *parts, const mica_model *model);

/** Takes a token; NULL: the answer has ended.
 *
 *  shown   receives what is to be printed.
 *  said    receives what the model says, without thoughts; may be NULL.
 *  returns false after it reported the error */
bool cli_parts_take(cli_parts *parts, const mica_token *token, cli_text *shown, cli_text *said);

void cli_parts_close(cli_parts *parts);

#endif
