/* mica chat: a conversation, line by line. */
#define _POSIX_C_SOURCE 200809L
#include "answer.h"
#include "conversation.h"
#include "lines.h"
#include "model.h"
#include "report.h"
#include "talk.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct chat_values {
    cli_model_values model;
    cli_answer_values answer;
    cli_talk_values talk;
    const char *session;
} chat_values;

typedef struct chat {
    cli_answer_values values; /* /set changes them */
    cli_conversation conversation;
    mica_model *model, *draft; /* draft NULL: none */
    mica_session *session;
    cli_text variables; /* of the chat template, as JSON */
    const char *file;   /* keeps the conversation; NULL: none */
    cli_lines lines;
    int64_t used; /* tokens of the context */
    bool failed;  /* an answer */
    bool unkept;  /* the file could not be written, which was told */
} chat;

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

static void print_settings(const chat *c) {
    const char *system = cli_conversation_system(&c->conversation);
    for (size_t i = 0; i < CLI_ANSWER_SETTABLE; i++) {
        fprintf(stderr, "%-18s  ", cli_answer_options[i].name);
        cli_option_print(&cli_answer_options[i], &c->values, stderr);
        fputc('\n', stderr);
    }
    fprintf(stderr, "%-18s  %s\n", "system", system ? system : "");
}

static void print_state(const chat *c) {
    mica_model_info info = mica_model_get_info(c->model);
    char used[CLI_NUMBER], all[CLI_NUMBER];
    fprintf(stderr, "model         %s, %s\nquantisation  %s\ncontext       %s of %s tokens\n",
            info.path, info.architecture, info.quantization,
            cli_format_count((uint64_t)c->used, used),
            cli_format_count((uint64_t)info.context_length, all));
    fprintf(stderr, "messages      %zu\n", c->conversation.count);
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

/* ---- files ---- */

enum { PATH_BYTES = 4096 };

/* The file of a conversation's caches, beside that of its messages; false: the name is too long. */
static bool cache_path(const char *path, char out[PATH_BYTES]) {
    int n = snprintf(out, PATH_BYTES, "%s.cache", path);
    if (n > 0 && n < PATH_BYTES) return true;
    cli_fail("the name of the file is too long");
    return false;
}

static bool save(const chat *c, const char *path, bool quiet) {
    char cache[PATH_BYTES];
    if (!cache_path(path, cache) || !cli_conversation_save(&c->conversation, path, quiet))
        return false;
    mica_status status = mica_session_save(c->session, cache);
    if (status == MICA_EUNSUPPORTED) {
        remove(cache); /* of an earlier conversation */
        return true;
    }
    if (status != MICA_OK) cli_fail_status(status);
    return status == MICA_OK;
}

/* The caches spare computing; without them, or with another model's, the messages suffice. */
static bool load(chat *c, const char *path) {
    char cache[PATH_BYTES];
    mica_session *session = NULL;
    if (!cache_path(path, cache) || !cli_conversation_load(&c->conversation, path)) return false;
    c->used = 0;
    const mica_session_options options = {.draft_model = c->draft};
    mica_status status = mica_session_load(c->model, cache, &options, &session);
    if (status == MICA_OK) {
        mica_session_close(&c->session);
        c->session = session;
        return true;
    }
    mica_session_reset(c->session);
    if (status != MICA_ENOENT && status != MICA_EUNSUPPORTED) {
        cli_fail_status(status);
        cli_hint("The conversation is read again instead.");
    }
    return true;
}

/* /save and /load. */
static bool with_file(chat *c, const char *name, const char *path) {
    if (!*path) {
        cli_fail("%s needs the name of a file", name);
        return false;
    }
    return strcmp(name, "/save") == 0 ? save(c, path, false) : load(c, path);
}

/* ---- running commands ---- */

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
        c->used = 0;
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

/* ---- talking ---- */

static void answer(chat *c, const char *line) {
    cli_conversation *conversation = &c->conversation;
    cli_text kept = {0};
    mica_stream *stream = NULL;
    mica_generate_options options = cli_answer_generate_options(&c->values);
    if (c->variables.len > 0) options.template_variables = c->variables.data;
    if (!cli_conversation_add(conversation, "user", line)) {
        c->failed = true;
        return;
    }
    mica_status status =
        mica_chat(c->session, conversation->messages, conversation->count, &options, &stream);
    int code = CLI_FAILED;
    if (status == MICA_OK)
        code =
            cli_answer_print(&stream, mica_model_tokenizer(c->model), &c->values, &kept, &c->used);
    else
        cli_fail_status(status);
    if (status == MICA_ECONTEXT) cli_hint("Or type /clear, which forgets the conversation.");

    /* What was printed was said, also where it was interrupted. */
    if (code == CLI_FAILED ||
        !cli_conversation_add(conversation, "assistant", kept.data ? kept.data : "")) {
        cli_conversation_drop(conversation);
        c->failed = true;
    } else if (c->file) {
        c->unkept = !cli_conversation_save(conversation, c->file, false);
        c->failed |= c->unkept;
    }
    free(kept.data);
}

/* Returns an exit code. A person has seen what failed; a script is told at the end. */
static int talk(chat *c) {
    int got;
    bool at_terminal = cli_stdin_is_terminal();
    while ((got = cli_lines_read(&c->lines)) > 0) {
        char *message = c->lines.message.data;
        bool go_on = true;
        if (message[0] == '/' && !c->lines.quoted)
            go_on = command(c, message);
        else if (message[strspn(message, " \t\r\n")])
            answer(c, message);
        if (!go_on) return c->failed && !at_terminal ? CLI_FAILED : CLI_DONE;
        if (!cli_flush()) return CLI_FAILED;
    }
    if (at_terminal) fputc('\n', stderr);
    return got < 0 || (c->failed && !at_terminal) ? CLI_FAILED : CLI_DONE;
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
    chat c = {.values = values->answer, .file = values->session};
    int code = cli_talk_variables(&values->talk, "chat", &c.variables);
    if (code != CLI_DONE) return code;
    c.model = cli_model_open_default(&values->model, count > 0 ? args[0] : NULL, "chat",
                                     values->answer.quiet, &code);
    if (!c.model) goto done;
    code = CLI_FAILED;
    c.session = cli_model_open_session(c.model, &values->model, values->answer.draft_model,
                                       values->answer.quiet, &c.draft);
    if (!c.session) goto done;
    if (c.file && access(c.file, F_OK) == 0 && !load(&c, c.file)) goto done;
    if (values->talk.system && !cli_conversation_set_system(&c.conversation, values->talk.system))
        goto done;
    cli_lines_open(&c.lines);
    if (cli_stdin_is_terminal() && !values->answer.quiet) greet(&c);
    code = talk(&c);
    /* Once more, also where that failed lately: it was told then. */
    if (c.file && c.conversation.count > 0 && !save(&c, c.file, c.unkept)) code = CLI_FAILED;
done:
    cli_lines_close(&c.lines);
    cli_conversation_deinit(&c.conversation);
    free(c.variables.data);
    mica_session_close(&c.session);
    mica_model_close(&c.draft);
    mica_model_close(&c.model);
    return code;
}

static const cli_option session_option[] = {
    {.name = "session",
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "go on with the conversation in FILE, where there is one, and keep it there",
     .offset = offsetof(chat_values, session)},
};

const cli_verb cli_verb_chat = {
    .synopsis = "[MODEL]",
    .details =
        "Answers line by line, and keeps the conversation in mind. Lines are read from\n"
        "a terminal with editing and a history, or from a pipe. Ctrl-C stops an answer,\n"
        "Ctrl-D ends the conversation. A line that ends in \\ goes on in the next, and\n"
        "\"\"\" begins and ends a text of several lines. /help lists what else can be typed.\n"
        "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica chat\n"
                "  mica chat ~/models/gemma-3-1b-it --system \"Answer in verse\" -T 0.8\n"
                "  printf 'What is curl?\\nWho wrote it?\\n' | mica chat --quiet\n",
    .max_args = 1,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(chat_values),
    .groups = {{"Conversation", cli_talk_options, CLI_TALK_OPTIONS, offsetof(chat_values, talk)},
               {"Keeping it", session_option, CLI_COUNT(session_option), 0},
               {"Answer", cli_answer_options, CLI_ANSWER_CHAT, offsetof(chat_values, answer)},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(chat_values, model)}},
    .run = run,
};
