/* One line of the input of `batch`. */
#ifndef CLI_BATCH_ITEM_H
#define CLI_BATCH_ITEM_H

#include "answer.h"
#include "constraint.h"
#include "records.h"

/* An item. It may be moved by copying only before its options are made. */
typedef struct cli_batch_item {
    char *id;          /* as JSON: the line's id, or its number */
    size_t line;       /* the line's number */
    char why[256];     /* the line's error; "": none */
    cli_json json;     /* the parsed line; other members borrow its texts */
    bool openai;       /* it is a request of OpenAI's batches */
    const char *model; /* which it names; NULL: none */
    const char *prompt;
    mica_message *messages; /* [message_count] */
    size_t message_count;
    cli_answer_values values;
    cli_constraint constraint; /* the line's own; none: that of the command line */
} cli_batch_item;

/** Reads the next line into *item. item->why is its error.
 *
 *  values   options, which the line may change for itself.
 *  returns  1; 0 at the end; -1 after it reported that there is no memory */
int cli_batch_item_next(cli_records *records, const cli_answer_values *values,
                        cli_batch_item *item);

/** Frees the item's memory. */
void cli_batch_item_deinit(cli_batch_item *item);

#endif
