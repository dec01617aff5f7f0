/* mica stop: has a server unload models. */
#include "print.h"
#include "remote.h"
#include "report.h"
#include "text.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

typedef struct stop_values {
    cli_remote_values remote;
    bool quiet;
} stop_values;

static int stop(const stop_values *values, const char *name) {
    cli_text body = {0};
    char *answer = NULL;
    cli_json json = {0};
    int code = CLI_FAILED;
    cli_text_printf(&body, "{\"model\": ");
    cli_text_append_json(&body, name, strlen(name));
    if (cli_text_printf(&body, ", \"keep_alive\": 0}"))
        code = cli_remote_ask(&values->remote, "POST", "/api/generate", body.data, &answer, &json);
    if (code == CLI_DONE && !values->quiet) cli_print(stderr, "stopped %s\n", name);
    cli_json_deinit(&json);
    mica_free(answer);
    free(body.data);
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    int code = CLI_DONE;
    if (count == 0) return cli_usage("stop", "which model? Give a name that mica ps shows");
    for (int i = 0; i < count && code == CLI_DONE; i++)
        code = stop(verb_values, args[i]);
    return code;
}

static const cli_option stop_options[] = {
    CLI_OPTION(FLAG, "quiet", stop_values, quiet, .letter = 'q',
               .help = "do not print what was stopped"),
};

const cli_verb cli_verb_stop = {
    .synopsis = "MODEL...",
    .details = "Has a running mica serve unload models: each one when it has no more requests. A\n"
               "request that names one later loads it again. To end the server itself, interrupt "
               "it.\n",
    .examples = "  mica stop mlx-community/gemma-3-1b-it-4bit\n",
    .max_args = -1,
    .words = CLI_WORDS_NONE,
    .values_bytes = sizeof(stop_values),
    .groups = {{"Server", cli_remote_options, CLI_REMOTE_OPTIONS, offsetof(stop_values, remote)},
               {"Output", stop_options, CLI_COUNT(stop_options), 0}},
    .run = run,
};
