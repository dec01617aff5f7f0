/* mica chat: a conversation, line by line. */
#define _POSIX_C_SOURCE 200809L
#include "answer.h"
#include "conversation.h"
#include "edit.h"
#include "model.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct chat_values {
    cli_model_values model;
    cli_answer_values answer;
    const char *system;
} chat_values;

typedef struct chat {
    cli_answer_values values; /* /set changes them */
    cli_conversation conversation;
    mica_model *model;
    mica_session *session;
    cli_edit *edit; /* NULL: lines are read as they come */
    cli_text line;
    bool failed; /* an answer */
} chat;

/* ---- lines ---- */

/* The history's file, its folders made; NULL where there is no place for it. */
static const char *history_file(char *out, size_t out_bytes) {
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n;
    if (state && *state == '/')
        n = snprintf(out, out_bytes, "%s/mica/history", state);
    else if (home && *home == '/')
        n = snprintf(out, out_bytes, "%s/.local/state/mica/history", home);
    else
        return NULL;
    if (n < 0 || (size_t)n >= out_bytes) return NULL;
    for (char *slash = out + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        bool made = mkdir(out, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) return NULL;
    }
    return out;
}

/* The next line, NULL at the end; *failed after an error. */
static const char *read_line(chat *c, bool *failed) {
    if (c->edit) return cli_edit_read(c->edit);
    if (cli_stdin_is_terminal())
        fprintf(stderr, "%s>%s ", cli_style(CLI_BOLD), cli_style(CLI_PLAIN));
    int got = cli_text_read_line(&c->line, stdin);
    *failed = got < 0 || (got > 0 && !cli_text_check(&c->line));
    return got > 0 && !*failed ? c->line.data : NULL;
}

/* ---- commands ---- */

static const char *const command_names[] = {"/help", "/clear", "/set", "/bye"};

static void print_commands(void) {
    fputs("/set             what can be set, and to what it is\n"
          "/set NAME VALUE  set temperature, top-k, top-p, min-p, repetition-penalty,\n"
          "                 max-tokens, seed or system\n"
          "/clear           forget the conversation\n"
          "/bye             end it, as Ctrl-D does; Ctrl-C stops an answer\n",
          stderr);
}

static void print_settings(const chat *c) {
    const char *system = cli_conversation_system(&c->conversation);
    for (size_t i = 0; i < CLI_ANSWER_SETTABLE; i++) {
        fprintf(stderr, "%-18s  ", cli_answer_options[i].name);
        cli_option_print(&cli_answer_options[i], &c->values, stderr);
        fputc('\n', stderr);
    }
    fprintf(stderr, "%-18s  %s\n", "system", system ? system : "");
}

/* /set NAME VALUE; false after a wrong one. */
static bool set(chat *c, char *name) {
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

/* Runs a command; false at /bye. */
static bool command(chat *c, char *line) {
    char *rest = line + strcspn(line, " \t");
    if (*rest) *rest++ = '\0';
    rest += strspn(rest, " \t");
    if (strcmp(line, "/bye") == 0) return false;
    if (strcmp(line, "/help") == 0) {
        print_commands();
    } else if (strcmp(line, "/clear") == 0) {
        cli_conversation_clear(&c->conversation);
        mica_session_reset(c->session);
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

/* ---- talking ---- */

static void answer(chat *c, const char *line) {
    cli_conversation *conversation = &c->conversation;
    cli_text kept = {0};
    mica_stream *stream = NULL;
    mica_generate_options options = cli_answer_generate_options(&c->values);
    if (!cli_conversation_add(conversation, "user", line)) {
        c->failed = true;
        return;
    }
    mica_status status =
        mica_chat(c->session, conversation->messages, conversation->count, &options, &stream);
    int code = CLI_FAILED;
    if (status == MICA_OK)
        code = cli_answer_print(&stream, &c->values, &kept);
    else
        cli_fail_status(status);
    if (status == MICA_ECONTEXT) cli_hint("Or type /clear, which forgets the conversation.");

    /* What was printed was said, also where it was interrupted. */
    if (code == CLI_FAILED ||
        !cli_conversation_add(conversation, "assistant", kept.data ? kept.data : "")) {
        cli_conversation_drop(conversation);
        c->failed = true;
    }
    free(kept.data);
}

/* Returns an exit code. A person has seen what failed; a script is told at the end. */
static int talk(chat *c) {
    bool failed = false;
    const char *read;
    while ((read = read_line(c, &failed))) {
        char *line = strdup(read);
        if (!line) return cli_fail("out of memory");
        bool go_on = true;
        if (line[0] == '/')
            go_on = command(c, line);
        else if (line[strspn(line, " \t\r")])
            answer(c, line);
        free(line);
        if (!go_on) return c->failed && !cli_stdin_is_terminal() ? CLI_FAILED : CLI_DONE;
        if (!cli_flush()) return CLI_FAILED;
    }
    if (cli_stdin_is_terminal()) fputc('\n', stderr);
    return failed || (c->failed && !cli_stdin_is_terminal()) ? CLI_FAILED : CLI_DONE;
}

static void greet(const chat *c) {
    mica_model_info info = mica_model_get_info(c->model);
    char bytes[CLI_NUMBER];
    fprintf(stderr, "%s%s, %s, %s. /help lists commands, Ctrl-D ends.%s\n", cli_style(CLI_DIM),
            info.path, info.architecture, cli_format_bytes(info.weight_bytes, bytes),
            cli_style(CLI_PLAIN));
}

static int run(const void *verb_values, char **args, int count) {
    const chat_values *values = verb_values;
    chat c = {.values = values->answer};
    char prompt[32], history[4096];
    int code;
    c.model = cli_model_open_default(&values->model, count > 0 ? args[0] : NULL, "chat",
                                     values->answer.quiet, &code);
    if (!c.model) return code;
    mica_status status = mica_session_open(c.model, NULL, &c.session);
    code = CLI_FAILED;
    if (status != MICA_OK) {
        cli_fail_status(status);
        goto done;
    }
    if (values->system && !cli_conversation_set_system(&c.conversation, values->system)) goto done;
    if (cli_stdin_is_terminal() && cli_stderr_is_terminal()) {
        bool plain = !*cli_style(CLI_BOLD);
        snprintf(prompt, sizeof prompt, plain ? "> " : "\1%s\1>\1%s\1 ", cli_style(CLI_BOLD),
                 cli_style(CLI_PLAIN));
        c.edit = cli_edit_open(prompt, history_file(history, sizeof history));
    }
    if (cli_stdin_is_terminal() && !values->answer.quiet) greet(&c);
    code = talk(&c);
done:
    cli_edit_close(&c.edit);
    cli_conversation_deinit(&c.conversation);
    free(c.line.data);
    mica_session_close(&c.session);
    mica_model_close(&c.model);
    return code;
}

static const cli_option system_option[] = {
    {.name = "system",
     .letter = 'S',
     .kind = CLI_TEXT,
     .placeholder = "TEXT",
     .help = "what the model is told before the conversation",
     .offset = offsetof(chat_values, system)},
};

const cli_verb cli_verb_chat = {
    .synopsis = "[MODEL]",
    .details = "Answers line by line, and keeps the conversation in mind. Lines are read from\n"
               "a terminal with editing and a history, or from a pipe. Ctrl-C stops an answer,\n"
               "Ctrl-D ends the conversation. /help lists what else can be typed.\n"
               "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica chat\n"
                "  mica chat ~/models/gemma-3-1b-it --system \"Answer in verse\" -T 0.8\n"
                "  printf 'What is curl?\\nWho wrote it?\\n' | mica chat --quiet\n",
    .max_args = 1,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(chat_values),
    .groups = {{"Conversation", system_option, CLI_COUNT(system_option), 0},
               {"Answer", cli_answer_options, CLI_ANSWER_OPTIONS, offsetof(chat_values, answer)},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(chat_values, model)}},
    .run = run,
};
