/* mica ps: lists the models that a server has in memory. */
#define _POSIX_C_SOURCE 200809L
#include "print.h"
#include "remote.h"
#include "report.h"
#include "ui.h"
#include "verb.h"
#include "width.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct ps_values {
    cli_remote_values remote;
    bool json;
} ps_values;

enum { COLUMNS = 4, TEXT = 48 };

/* Seconds since 1970 of a time as "2026-01-31T12:00:00.000000000Z"; -1: it is none. */
static int64_t read_time(const char *text) {
    int year, month, day, hour, minute, second;
    if (sscanf(text, "%d-%d-%dT%d:%d:%d", &year, &month, &day, &hour, &minute, &second) != 6)
        return -1;
    int64_t y = month > 2 ? year : year - 1, m = (month + 9) % 12; /* years that begin in March */
    int64_t days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 719469;
    return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

/* How long a model stays, if nobody asks. */
static const char *format_until(const char *expires, char out[TEXT]) {
    int64_t left = read_time(expires) - (int64_t)time(NULL);
    if (strncmp(expires, "9999", 4) == 0) return "it is stopped";
    if (left < 1) return "now";
    if (left < 120)
        snprintf(out, TEXT, "in %" PRId64 " seconds", left);
    else if (left < 7200)
        snprintf(out, TEXT, "in %" PRId64 " minutes", (left + 30) / 60);
    else
        snprintf(out, TEXT, "in %" PRId64 " hours", (left + 1800) / 3600);
    return out;
}

static const char *text_of(const cli_json *json, const cli_json_node *object, const char *key) {
    const cli_json_node *node = cli_json_find(json, object, key);
    return node ? node->text : "";
}

/* The texts of a model's row; `texts` holds some of them. */
static void row(const cli_json *json, const cli_json_node *model, char texts[2][TEXT],
                const char *out[COLUMNS]) {
    out[0] = text_of(json, model, "name");
    out[1] = cli_format_bytes(strtoull(text_of(json, model, "size"), NULL, 10), texts[0]);
    out[2] = text_of(json, model, "context_length");
    out[3] = format_until(text_of(json, model, "expires_at"), texts[1]);
}

static void print_row(const char *const texts[COLUMNS], const int widths[COLUMNS]) {
    for (int c = 0; c < COLUMNS - 1; c++)
        cli_print_cell(stdout, texts[c], widths[c] + 2);
    cli_print(stdout, "%s\n", texts[COLUMNS - 1]);
}

static void print_table(const cli_json *json, const cli_json_node *models) {
    static const char *const head[COLUMNS] = {"name", "weights", "context", "until"};
    const char *out[COLUMNS];
    char texts[2][TEXT];
    int widths[COLUMNS];
    for (int c = 0; c < COLUMNS; c++)
        widths[c] = (int)strlen(head[c]);
    for (int printing = 0; printing < 2; printing++) { /* widths first */
        if (printing) print_row(head, widths);
        for (const cli_json_node *m = cli_json_first(json, models); m; m = cli_json_next(json, m)) {
            row(json, m, texts, out);
            if (printing) print_row(out, widths);
            for (int c = 0; c < COLUMNS; c++) {
                int width = cli_width_of(out[c], strlen(out[c]));
                if (width > widths[c]) widths[c] = width;
            }
        }
    }
}

static int run(const void *verb_values, char **args, int count) {
    const ps_values *values = verb_values;
    char *answer = NULL;
    cli_json json = {0};
    (void)args, (void)count;
    int code = cli_remote_ask(&values->remote, "GET", "/api/ps", NULL, &answer, &json);
    const cli_json_node *models =
        code == CLI_DONE ? cli_json_find(&json, json.nodes, "models") : NULL;
    if (code == CLI_DONE && !models)
        code = cli_fail("what answers there is no mica serve");
    else if (code == CLI_DONE && values->json)
        cli_print(stdout, "%s\n", answer);
    else if (code == CLI_DONE && cli_json_first(&json, models))
        print_table(&json, models);
    else if (code == CLI_DONE)
        cli_hint("The server has no model in memory.");
    cli_json_deinit(&json);
    mica_free(answer);
    return code;
}

static const cli_option ps_options[] = {
    CLI_OPTION(FLAG, "json", ps_values, json, .help = "print what the server's /api/ps says"),
};

const cli_verb cli_verb_ps = {
    .synopsis = "",
    .details =
        "Lists the models that a running mica serve has in memory, and until when they stay\n"
        "if nobody asks for them.\n",
    .examples = "  mica ps\n"
                "  mica ps --host 10.0.0.1 --port 8000\n"
                "  MICA_HOST=unix:/run/mica.sock mica ps --json\n",
    .max_args = 0,
    .words = CLI_WORDS_NONE,
    .values_bytes = sizeof(ps_values),
    .groups = {{"Server", cli_remote_options, CLI_REMOTE_OPTIONS, offsetof(ps_values, remote)},
               {"Output", ps_options, CLI_COUNT(ps_options), 0}},
    .run = run,
};
