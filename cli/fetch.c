#define _POSIX_C_SOURCE 200809L
#include "fetch.h"

#include "gguf.h"
#include "interrupt.h"
#include "path.h"
#include "print.h"
#include "report.h"
#include "stdin.h"
#include "ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "org/name@revision" in two. */
typedef struct target {
    char *name;           /* owned */
    const char *revision; /* in name's memory; NULL: none is given */
} target;

bool cli_is_repository(const char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t org = strspn(name, letters), rest = 0;
    if (org > 0 && name[0] != '.' && name[org] == '/') rest = strspn(name + org + 1, letters);
    const char *end = name + org + 1 + rest;
    if (rest > 0 && *end == ':') end += 1 + strspn(end + 1, letters);
    return rest > 0 && (!*end || (*end == '@' && end[1]));
}

bool cli_means_gguf(const char *name) {
    static const char usual[] = "-gguf";
    size_t len = strcspn(name, "@"), n = strlen(usual);
    return memchr(name, ':', len) || (len > n && strncasecmp(name + len - n, usual, n) == 0);
}

/* The model folder of a GGUF file that mica_pull has found, by the name that was asked for. */
static const char *made_folder(const char *name, const char *file, int *code) {
    char whole[600];
    bool usual = !strchr(name, ':');
    int n = snprintf(whole, sizeof whole, "%.*s%s%s", (int)strcspn(name, "@"), name,
                     usual ? ":Q4_K_M" : "", strchr(name, '@') ? strchr(name, '@') : "");
    if (n < 0 || (size_t)n >= sizeof whole) {
        *code = cli_fail("%.100s...: the name is too long", name);
        return NULL;
    }
    for (char *c = strchr(whole, ':'); c && *c && *c != '@'; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c & ~32); /* one name for q4_0 and Q4_0 */
    return cli_gguf_folder(file, whole, code);
}

static bool split(const char *name, target *out) {
    out->name = malloc(strlen(name) + 1);
    if (!out->name) return false;
    strcpy(out->name, name);
    char *at = strchr(out->name, '@');
    if (at) *at = '\0';
    out->revision = at ? at + 1 : NULL;
    return true;
}

/* ---- asking ---- */

typedef struct question {
    const cli_fetch_options *options;
    mica_cancel *cancel;
    bool declined;
} question;

/* Ctrl-C at the question ends the program. */
static bool confirm(void *user, const mica_pull_plan *plan) {
    question *q = user;
    char bytes[CLI_NUMBER];
    if (plan->download_files == 0) return true;
    if (q->options->quiet && !q->options->ask) return true;
    cli_progress_wipe();
    cli_print(stderr, "%s: %" PRIu64 " %s, %s to download%s", plan->name, plan->download_files,
              plan->download_files == 1 ? "file" : "files",
              cli_format_bytes(plan->download_bytes, bytes),
              q->options->ask ? ". Download it? [Y/n] " : "\n");
    if (q->options->ask) {
        fflush(stderr);
        cli_interrupt_watch_task(NULL);
        q->declined = !cli_read_yes();
        cli_interrupt_watch_task(q->cancel);
    }
    return !q->declined;
}

/* ---- downloading ---- */

static void tell(void *user, const char *text) {
    (void)user;
    cli_progress_wipe();
    cli_print(stderr, "mica: %s\n", text);
}

static int report(mica_status status, const char *name, const question *q) {
    if (status != MICA_ECANCELLED) return cli_fail("%s", mica_last_error());
    if (q->declined) return CLI_FAILED;
    cli_print(stderr, "mica: stopped; mica pull %s continues\n", name);
    return CLI_INTERRUPTED;
}

const char *cli_fetch(const char *name, const cli_fetch_options *options, int *code) {
    target t;
    char *folder = NULL;
    const char *kept = NULL;
    question q = {.options = options};
    *code = CLI_FAILED;
    if (!split(name, &t)) {
        cli_fail("out of memory");
        return NULL;
    }
    mica_status status = mica_cancel_open(&q.cancel);
    const mica_pull_options pull = {.struct_bytes = sizeof pull,
                                    .revision = t.revision ? t.revision : options->revision,
                                    .include = options->include.values,
                                    .include_count = options->include.count,
                                    .cache = options->cache,
                                    .offline = options->offline,
                                    .connections = (int)options->connections,
                                    .confirm = confirm,
                                    .confirm_user = &q,
                                    .progress = cli_progress_tick,
                                    .cancel = q.cancel,
                                    .notice = tell};
    cli_interrupt_watch_task(q.cancel);
    cli_progress_start(t.name, options->quiet);
    if (status == MICA_OK) status = mica_pull(t.name, &pull, &folder);
    cli_progress_clear();
    cli_interrupt_watch_task(NULL);
    mica_cancel_close(&q.cancel);
    if (status != MICA_OK)
        *code = report(status, name, &q);
    else if (options->include.count == 0 && cli_means_gguf(name))
        kept = made_folder(name, folder, code);
    else
        kept = cli_path_keep(folder);
    if (kept) *code = CLI_DONE;
    mica_free(folder);
    free(t.name);
    return kept;
}

const char *cli_fetch_cached(const char *name, int *code) {
    target t;
    char *folder = NULL;
    const char *kept = NULL;
    *code = CLI_DONE;
    if (!split(name, &t)) return NULL;
    const mica_pull_options pull = {
        .struct_bytes = sizeof pull, .revision = t.revision, .offline = true};
    if (mica_pull(t.name, &pull, &folder) == MICA_OK)
        kept = cli_means_gguf(name) ? made_folder(name, folder, code) : cli_path_keep(folder);
    mica_free(folder);
    free(t.name);
    return kept;
}
