#include "task.h"

#include "interrupt.h"
#include "report.h"
#include "verb.h"

int cli_task_open(cli_task *task, const cli_model_values *values, const char *word,
                  const char *verb_name, bool quiet) {
    int code = CLI_FAILED;
    task->model = cli_model_open_default(values, word, verb_name, quiet, &code);
    if (!task->model) return code;
    mica_status status = mica_cancel_open(&task->cancel);
    if (status != MICA_OK) return cli_fail_status(status);
    cli_interrupt_watch_task(task->cancel);
    return CLI_DONE;
}

int cli_task_fail(mica_status status) {
    if (status == MICA_ECANCELLED) return CLI_INTERRUPTED;
    cli_fail("%s", mica_last_error());
    if (status == MICA_ECONTEXT) cli_hint("With --context N its oldest tokens are forgotten.");
    return CLI_FAILED;
}

void cli_task_close(cli_task *task) {
    cli_interrupt_watch_task(NULL);
    mica_cancel_close(&task->cancel);
    mica_model_close(&task->model);
}
