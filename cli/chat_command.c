#define _POSIX_C_SOURCE 200809L
#include "chat.h"

#include "report.h"
#include "ui.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- commands ---- */

static const char *const command_names[] = {"/help", "/clear", "/set", "/show",
                                            "/save", "/load",  "/bye"};

static void print_commands(void) {
    fputs("/set             what can be set, and to what it is\n"
          "/set NAME VALUE  set temperature, top-k, top-p, min-p, repetition-penalty,\n"
          "                 presence-penalty, frequency-penalty, penalty-window, max-tokens,\n"
          "                 min-tokens, seed or system\n"
          "/show            what the model is, and how full its context\n"
          "/save FILE       keep the conversation in FILE, its caches in FILE.cache\n"
          "/load FILE       go on with a conversation that was kept\n"
          "/clear           forget the conversation\n"
          "/bye             end it, as Ctrl-D does; Ctrl-C stops an answer\n"
          "\nA line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several\n"
          "lines.\n",
          stderr);
}

static void print_settings(const cli_chat *c) {
    const char *system = cli_conversation_system(&c->conversation);
    for (size_t i = 0; i < CLI_ANSWER_SETTABLE; i++) {
        fprintf(stderr, "%-18s  ", cli_answer_options[i].name);
        cli_option_print(&cli_answer_options[i], &c->values, stderr);
        fputc('\n', stderr);
    }
    fprintf(stderr, "%-18s  %s\n", "system", system ? system : "");
}

static void print_state(const cli_chat *c) {
    mica_model_info info = mica_model_get_info(c->model);
    char used[CLI_NUMBER], all[CLI_NUMBER];
    fprintf(stderr, "model         %s, %s\nquantisation  %s\ncontext       %s of %s tokens\n",
            info.path, info.architecture, info.quantization,
            cli_format_count((uint64_t)c->used, used),
            cli_format_count((uint64_t)info.context_length, all));
    fprintf(stderr, "messages      %zu", c->conversation.count);
    if (c->left_out > 0) fprintf(stderr, ", the oldest %zu left out", c->left_out);
    fputc('\n', stderr);
}

/* /set NAME VALUE; false after a wrong one. */
static bool set(cli_chat *c, char *name) {
    char why[160];
    const char *names[CLI_ANSWER_SETTABLE + 1] = {"system"};
    char *value = name + strcspn(name, " \t");
    if (*value) *value++ = '\0';
    value += strspn(value, " \t");
    if (!*name) {
        print_settings(c);
        return true;
    }
    if (strcmp(name, "system") == 0) return cli_conversation_set_system(&c->conversation, value);
    for (size_t i = 0; i < CLI_ANSWER_SETTABLE; i++) {
        const cli_option *option = &cli_answer_options[i];
        names[i + 1] = option->name;
        if (strcmp(name, option->name) != 0) continue;
        cli_answer_values changed = c->values;
        if (!cli_option_store(option, value, &changed, why, sizeof why)) {
            cli_fail("%s: %s", name, why);
            return false;
        }
        c->values = changed;
        return true;
    }
    const char *nearest = cli_nearest(name, names, CLI_COUNT(names));
    cli_fail("there is no '%s' to set%s%s%s", name, nearest ? "; did you mean '" : "",
             nearest ? nearest : "", nearest ? "'?" : "");
    return false;
}

/* ---- files ---- */

enum { PATH_BYTES = 4096 };

/* The file of a conversation's caches, beside that of its messages; false: the name is too long. */
static bool cache_path(const char *path, char out[PATH_BYTES]) {
    int n = snprintf(out, PATH_BYTES, "%s.cache", path);
    if (n > 0 && n < PATH_BYTES) return true;
    cli_fail("the name of the file is too long");
    return false;
}

bool cli_chat_is_kept(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISCHR(info.st_mode);
}

bool cli_chat_save(const cli_chat *c, const char *path, bool quiet) {
    char cache[PATH_BYTES];
    if (!cache_path(path, cache) || !cli_conversation_save(&c->conversation, path, quiet))
        return false;
    if (!cli_chat_is_kept(path)) return true; /* and no caches are kept beside it */
    mica_status status = mica_session_save(c->session, cache);
    if (status == MICA_EUNSUPPORTED) {
        remove(cache); /* of an earlier conversation */
        return true;
    }
    if (status != MICA_OK) cli_fail_status(status);
    return status == MICA_OK;
}

/* The conversation is another one, of which the session knows nothing. */
static void begin_anew(cli_chat *c) {
    mica_session_reset(c->session);
    c->used = 0;
    c->left_out = 0;
    c->told_full = false;
}

/* The caches spare computing; without them, or with another model's, the messages suffice. */
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
        cli_hint("The conversation is read again instead.");
    }
    return true;
}

/* /save and /load. */
static bool with_file(cli_chat *c, const char *name, const char *path) {
    if (!*path) {
        cli_fail("%s needs the name of a file", name);
        return false;
    }
    return strcmp(name, "/save") == 0 ? cli_chat_save(c, path, false) : cli_chat_load(c, path);
}

/* ---- running commands ---- */

bool cli_chat_command(cli_chat *c, char *line) {
    char *rest = line + strcspn(line, " \t");
    if (*rest) *rest++ = '\0';
    rest += strspn(rest, " \t");
    if (strcmp(line, "/bye") == 0) return false;
    if (strcmp(line, "/help") == 0) {
        print_commands();
    } else if (strcmp(line, "/clear") == 0) {
        cli_conversation_clear(&c->conversation);
        begin_anew(c);
    } else if (strcmp(line, "/show") == 0) {
        print_state(c);
    } else if (strcmp(line, "/save") == 0 || strcmp(line, "/load") == 0) {
        c->failed |= !with_file(c, line, rest);
    } else if (strcmp(line, "/set") == 0) {
        c->failed |= !set(c, rest);
    } else {
        const char *nearest = cli_nearest(line, command_names, CLI_COUNT(command_names));
        cli_fail("there is no command %s%s%s%s", line, nearest ? "; did you mean " : "",
                 nearest ? nearest : "", nearest ? "?" : "");
        cli_hint("/help lists the commands.");
        c->failed = true;
    }
    return true;
}
