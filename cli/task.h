/* Shared by `classify`, `embed`, `score`, `eval` and `batch`: an open model, and a flag that Ctrl-C
 * sets. */
#ifndef CLI_TASK_H
#define CLI_TASK_H

#include "model.h"

typedef struct cli_task {
    mica_model *model;
    mica_cancel *cancel; /* the first interrupt sets it; a second one ends the program */
} cli_task;

/** Opens the model, as cli_model_open_default, and the flag. *task is zeroed.
 *
 *  returns CLI_DONE, or an exit code after it reported the error. It must be closed in both
 *  cases */
int cli_task_open(cli_task *task, const cli_model_values *values, const char *word,
                  const char *verb_name, bool quiet);

/** Reports a failed call, unless it was cancelled.
 *
 *  returns CLI_FAILED, or CLI_INTERRUPTED for MICA_ECANCELLED */
int cli_task_fail(mica_status status);

/** Closes the model and the flag. */
void cli_task_close(cli_task *task);

#endif
