#define _POSIX_C_SOURCE 200809L
#include "chat.h"
#include "info.h"

#include "path.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "wrap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files ---- */

enum { PATH_BYTES = 4096 };

/* Sets the path of the file of caches beside a conversation.  returns false if it is too long */
static bool cache_path(const char *path, char out[PATH_BYTES]) {
    int n = snprintf(out, PATH_BYTES, "%s.cache", path);
    if (n > 0 && n < PATH_BYTES) return true;
    cli_fail("the name of the file is too long");
    return false;
}

/* Whether a path names an open file descriptor. It can be saved to, but not loaded. */
static bool names_descriptor(const char *path) {
    static const char *const names[] = {"/dev/fd/", "/dev/std", "/proc/self/fd/"};
    for (size_t i = 0; i < CLI_COUNT(names); i++)
        if (strncmp(path, names[i], strlen(names[i])) == 0) return true;
    return false;
}

bool cli_chat_is_kept(const char *path) {
    struct stat info;
    return !names_descriptor(path) && stat(path, &info) == 0 && !S_ISCHR(info.st_mode);
}

bool cli_chat_save(const cli_chat *c, const char *path, bool quiet) {
    char cache[PATH_BYTES];
    if (!cache_path(path, cache) ||
        !cli_conversation_save(&c->conversation, path, NULL, NULL, quiet))
        return false;
    if (!cli_chat_is_kept(path)) return true; /* a device has no caches beside it */
    mica_status status = mica_session_save(c->session, cache);
    if (status == MICA_EUNSUPPORTED) {
        remove(cache); /* the caches of an earlier conversation */
        return true;
    }
    if (status != MICA_OK) cli_fail_status(status);
    return status == MICA_OK;
}

/* Begins a new conversation with an empty session. */
static void begin_anew(cli_chat *c) {
    cli_chat_keep_another(c);
    mica_session_reset(c->session);
    c->used = 0;
    c->left_out = 0;
    c->told_full = false;
}

/* Caches only save time. Without them, or with those of another model, the messages are enough. */
bool cli_chat_load(cli_chat *c, const char *path) {
    char cache[PATH_BYTES];
    mica_session *session = NULL;
    if (!cache_path(path, cache) || !cli_conversation_load(&c->conversation, path)) return false;
    begin_anew(c);
    const mica_session_options options = {.draft_model = c->draft};
    mica_status status = mica_session_load(c->model, cache, &options, &session);
    if (status == MICA_OK) {
        mica_session_close(&c->session);
        c->session = session;
        return true;
    }
    if (status != MICA_ENOENT && status != MICA_EUNSUPPORTED) {
        cli_fail_status(status);
        cli_hint("The messages are computed again instead.");
    }
    return true;
}

/* ---- commands ---- */

static bool show_commands(cli_chat *c, char *rest);

static bool set(cli_chat *c, char *rest) {
    return cli_chat_set(c, rest);
}

static bool show(cli_chat *c, char *rest) {
    (void)rest;
    mica_model_info info = cli_model_info(c->model);
    char used[CLI_NUMBER], all[CLI_NUMBER];
    cli_print(stderr, "model         %s, %s\nquantisation  %s\ncontext       %s of %s tokens\n",
              info.path, info.architecture, info.quantization,
              cli_format_count((uint64_t)c->used, used),
              cli_format_count((uint64_t)info.context_length, all));
    fprintf(stderr, "messages      %zu", c->conversation.count);
    if (c->left_out > 0) fprintf(stderr, ", the oldest %zu left out", c->left_out);
    fputc('\n', stderr);
    return true;
}

/* Prints a message and its role. */
static void print_message(const mica_message *message, bool wraps) {
    cli_wrap wrap = {0};
    size_t len = strlen(message->content);
    int columns = cli_columns(stderr);
    if (strcmp(message->role, "assistant") != 0) {
        const char *sign = strcmp(message->role, "user") == 0 ? ">" : "system:";
        cli_set_style(CLI_BOLD);
        cli_print(stderr, "%s ", sign);
        cli_set_style(CLI_PLAIN);
        wrap.column = (int)strlen(sign) + 1;
    }
    if (wraps)
        cli_wrap_put(&wrap, message->content, len, columns, stderr);
    else
        cli_print(stderr, "%s", message->content);
    cli_wrap_end(&wrap, columns, stderr);
    fputc('\n', stderr);
}

static bool print_history(cli_chat *c, char *rest) {
    (void)rest;
    for (size_t i = 0; i < c->conversation.count; i++)
        print_message(&c->conversation.messages[i], c->values.wrap && cli_stderr_is_terminal());
    return true;
}

static bool regenerate(cli_chat *c, char *rest) {
    (void)rest;
    cli_chat_answer_again(c);
    return true;
}

/* Returns the path that a command names; NULL after it reported an error. */
static const char *file_name(const char *command, const char *rest) {
    if (*rest) return cli_path_expand(rest);
    cli_fail("%s needs the name of a file", command);
    return NULL;
}

static bool save(cli_chat *c, char *rest) {
    const char *path = file_name("/save", rest);
    bool saved = path && cli_chat_save(c, path, false);
    if (saved && cli_chat_is_kept(path)) cli_chat_keep_saved(c);
    return saved;
}

static bool load(cli_chat *c, char *rest) {
    const char *path = file_name("/load", rest);
    return path && cli_chat_load(c, path);
}

static bool clear(cli_chat *c, char *rest) {
    (void)rest;
    cli_conversation_clear(&c->conversation);
    begin_anew(c);
    return true;
}

static bool end(cli_chat *c, char *rest) {
    (void)rest;
    c->ended = true;
    return true;
}

/* The commands in the order of /help. Names of one function are adjacent, mica's own name first. */
static const struct {
    const char *name, *argument, *help;
    bool (*run)(cli_chat *c, char *rest); /* rest: the argument. Returns false after an error */
} commands[] = {
    {"/set", CLI_CHAT_SETTING, "change a setting; alone: list all settings", set},
    {"/show", "", "describe the model, and how full its context is", show},
    {"/history", "", "print the conversation", print_history},
    {"/regenerate", "", "answer the last message again", regenerate},
    {"/save", CLI_CHAT_FILE, "save the conversation in FILE, its caches in FILE.cache", save},
    {"/load", CLI_CHAT_FILE, "continue a saved conversation", load},
    {"/clear", "", "begin a new conversation", clear},
    {"/reset", "", "", clear},
    {"/help", "", "this", show_commands},
    {"/?", "", "", show_commands},
    {"/bye", "", "end the chat, as Ctrl-D does", end},
    {"/exit", "", "", end},
    {"/quit", "", "", end},
};

/* ---- running commands ---- */

static bool show_commands(cli_chat *c, char *rest) {
    enum { WIDTH = 20 };
    (void)c, (void)rest;
    for (size_t i = 0; i < CLI_COUNT(commands);) {
        int n = cli_print(stderr, "%s%s%s", commands[i].name, *commands[i].argument ? " " : "",
                          commands[i].argument);
        size_t first = i++;
        while (i < CLI_COUNT(commands) && commands[i].run == commands[first].run)
            n += cli_print(stderr, ", %s", commands[i++].name);
        cli_print(stderr, "%*s  %s\n", n < WIDTH ? WIDTH - n : 0, "", commands[first].help);
    }
    fputs(
        "\nCtrl-C stops an answer, or clears the line; twice on an empty line it ends the chat.\n"
        "Tab completes commands. A line that ends in \\ continues on the next. \"\"\" begins and\n"
        "ends a text of several lines, // a text that begins with a slash.\n",
        stderr);
    return true;
}

const char *cli_chat_command_name(size_t i, const char **argument) {
    if (i >= CLI_COUNT(commands)) return NULL;
    if (argument) *argument = commands[i].argument;
    return commands[i].name;
}

static void tell_unknown(const char *name) {
    const char *names[CLI_COUNT(commands)];
    for (size_t i = 0; i < CLI_COUNT(commands); i++)
        names[i] = cli_chat_command_name(i, NULL);
    const char *nearest = cli_nearest(name, names, CLI_COUNT(names));
    cli_fail("there is no command %s%s%s%s", name, nearest ? "; did you mean " : "",
             nearest ? nearest : "", nearest ? "?" : "");
    cli_hint("/help lists the commands; // begins a text that begins with a slash.");
}

void cli_chat_command(cli_chat *c, char *line) {
    static const char blanks[] = " \t\r\n";
    size_t len = strlen(line), i = 0;
    while (len > 0 && strchr(blanks, line[len - 1]))
        line[--len] = '\0';
    char *rest = line + strcspn(line, blanks);
    if (*rest) *rest++ = '\0';
    rest += strspn(rest, blanks);
    while (i < CLI_COUNT(commands) && strcmp(line, commands[i].name) != 0)
        i++;
    bool known = i < CLI_COUNT(commands);
    if (!known) tell_unknown(line);
    c->failed |= !known || !commands[i].run(c, rest);
}
