/* One line of the input of `batch`. */
#ifndef CLI_BATCH_ITEM_H
#define CLI_BATCH_ITEM_H

#include "answer.h"
#include "records.h"

/* Owned; moved by copying only before its options are made. */
typedef struct cli_batch_item {
    char *id;      /* as JSON: the line's, or its number */
    size_t line;   /* its number */
    char why[256]; /* what is wrong with the line; "": nothing */
    cli_json json; /* the line, whose texts the others borrow */
    const char *prompt;
    mica_message *messages; /* [message_count] */
    size_t message_count;
    cli_answer_values values;
} cli_batch_item;

/** Reads the next line into *item; what is wrong with it is in item->why.
 *
 *  values   the options that the line may change.
 *  returns  1; 0 at the end; -1 after it reported that memory is out */
int cli_batch_item_next(cli_records *records, const cli_answer_values *values,
                        cli_batch_item *item);

/** Frees what it holds. */
void cli_batch_item_deinit(cli_batch_item *item);

#endif
