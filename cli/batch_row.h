/* One line of the output of `batch`: mica's own rows, and those of OpenAI's batches. */
#ifndef CLI_BATCH_ROW_H
#define CLI_BATCH_ROW_H

#include "batch_item.h"

#include <mica/mica.h>

#include <stdio.h>

/** Prints the line of a row that has ended, or that was refused. model: what answers of OpenAI's
 *  form call it, where the request names none. */
void cli_batch_row_print(FILE *out, const cli_batch_item *item, const mica_batch_row *result,
                         const char *model);

/** Whether a parsed line is a row of an earlier run. answered: receives whether it has an answer;
 *  rows with an error are to be repeated. */
bool cli_batch_row_is(const cli_json *json, bool *answered);

/** Whether a text is the beginning of a row, cut off anywhere. */
bool cli_batch_row_begins(const char *text, size_t len);

#endif
