/* mica chat: a conversation. */
#define _POSIX_C_SOURCE 200809L
#include "chat.h"

#include "info.h"
#include "prompt.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

/* Runs a command, or answers a message. */
static void obey(cli_chat *c) {
    char *message = c->lines.message.data;
    bool slash = message[0] == '/' && !c->lines.quoted, text = slash && message[1] == '/';
    if (slash && !text)
        cli_chat_command(c, message);
    else if (message[strspn(message, " \t\r\n")])
        cli_chat_answer(c, message + text);
}

/* Reads and handles messages until the chat ends. Returns an exit code: at a terminal it is 0 even
 * after an error, because the user saw the error. */
static int talk(cli_chat *c) {
    bool at_terminal = cli_stdin_is_terminal(), again = false; /* again: a second Ctrl-C ends the
                                                                  chat */
    for (;;) {
        cli_typed typed = cli_lines_read(&c->lines);
        if (typed == CLI_TYPED_ERROR) return CLI_FAILED;
        if (typed == CLI_TYPED_END) break;
        if (typed == CLI_TYPED_INTERRUPT && again) return CLI_INTERRUPTED;
        if (typed == CLI_TYPED_INTERRUPT) cli_hint("Ctrl-C again, or Ctrl-D, ends the chat.");
        again = typed != CLI_TYPED_LINE;
        if (typed == CLI_TYPED_LINE) obey(c);
        if (c->ended) return c->failed && !at_terminal ? CLI_FAILED : CLI_DONE;
        if (!cli_flush()) return CLI_FAILED;
    }
    if (at_terminal) fputc('\n', stderr);
    return c->failed && !at_terminal ? CLI_FAILED : CLI_DONE;
}

static void greet(const cli_chat *c) {
    mica_model_info info = cli_model_info(c->model);
    char bytes[CLI_NUMBER];
    cli_wrap line = {0};
    cli_set_style(CLI_DIM);
    cli_say(&line, "%s, %s, %s. /help lists commands, Ctrl-D ends.", info.path, info.architecture,
            cli_format_bytes(info.weight_bytes, bytes));
    if (c->conversation.count > 0)
        cli_say(&line, "\n%zu earlier messages: /history shows them.", c->conversation.count);
    cli_say_end(&line);
    cli_set_style(CLI_PLAIN);
}

/* Opens the model, the session and the conversation. Without a named model, a resumed conversation
 * determines the model and the adapter.  returns an exit code */
static int open_chat(cli_chat *c, const char *verb_name, const cli_chat_values *values,
                     const char *model) {
    bool quiet = values->answer.quiet;
    cli_model_values of_model = values->model;
    int code = cli_talk_variables(&values->talk, verb_name, &c->variables);
    if (code == CLI_DONE && values->resume) code = cli_chat_resume(c);
    if (code != CLI_DONE) return code;
    if (!model && !of_model.model) {
        model = c->conversation.model;
        if (!of_model.adapter) of_model.adapter = c->conversation.adapter;
    }
    c->model = cli_model_open_default(&of_model, model, verb_name, quiet, &code);
    if (!c->model) return code;
    c->session =
        cli_model_open_session(c->model, &of_model, values->answer.draft_model, quiet, &c->draft);
    if (!c->session) return CLI_FAILED;
    if (c->file && cli_chat_is_kept(c->file) && !cli_chat_load(c, c->file)) return CLI_FAILED;
    const char *system = values->talk.system;
    return !system || cli_conversation_set_system(&c->conversation, system) ? CLI_DONE : CLI_FAILED;
}

int cli_chat_run(const char *verb_name, const cli_chat_values *values, const char *model,
                 const char *first) {
    bool at_terminal = cli_stdin_is_terminal();
    cli_chat c = {.values = values->answer,
                  .talk = values->talk,
                  .file = values->session,
                  .keeps = values->resume || (at_terminal && values->talk.history)};
    if (values->session && values->resume)
        return cli_usage(verb_name, "two conversations: --session and --resume");
    const char *reads_stdin = cli_constraint_stdin(&values->constraint);
    if (reads_stdin)
        return cli_usage(verb_name, "standard input has the messages, not the file of %s",
                         reads_stdin);
    int code = cli_constraint_read(verb_name, &values->constraint, &c.constraint);
    if (code == CLI_DONE) code = open_chat(&c, verb_name, values, model);
    if (code == CLI_DONE) {
        cli_lines_open(&c.lines, cli_chat_complete, values->talk.history);
        if (at_terminal && !values->answer.quiet) greet(&c);
        if (first) cli_chat_answer(&c, first);
        code = talk(&c);
        /* Saving is tried once more, even after it failed; the failure was reported then. */
        if (c.file && c.conversation.count > 0 && !cli_chat_save(&c, c.file, c.unkept))
            code = CLI_FAILED;
        cli_chat_tell_kept(&c);
    }
    cli_lines_close(&c.lines);
    cli_conversation_deinit(&c.conversation);
    cli_constraint_deinit(&c.constraint);
    free(c.variables.data);
    mica_session_close(&c.session);
    mica_model_close(&c.draft);
    mica_model_close(&c.model);
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    const cli_chat_values *values = verb_values;
    const cli_source source = {.noun = "message",
                               .kind = CLI_TEXT_OF_PROMPT,
                               .instead = CLI_MESSAGE_INSTEAD,
                               .joins = true,
                               .may_be_missing = true,
                               .may_be_empty = true,
                               .model = values->model.model,
                               .prompt = values->prompt,
                               .file = values->file};
    const char *model;
    cli_text first = {0};
    int code = cli_prompt_read("chat", &source, args, count, &model, &first);
    if (code == CLI_DONE && first.len > 0 && !cli_is_utf8(first.data, first.len))
        code = cli_fail("the message is not UTF-8");
    if (code == CLI_DONE)
        code = cli_chat_run("chat", values, model, first.len > 0 ? first.data : NULL);
    free(first.data);
    return code;
}

static const cli_option keeping_options[] = {
    CLI_OPTION(FILE, "session", cli_chat_values, session, .placeholder = "FILE",
               .help = "keep the conversation in FILE, and continue the one that FILE has"),
    CLI_OPTION(FLAG, "resume", cli_chat_values, resume, .no_variable = true,
               .help = "continue the last conversation that was not saved, with its model and "
                       "adapter unless others are named"),
};

const cli_verb cli_verb_chat = {
    .synopsis = "[MODEL] [MESSAGE]",
    .details = "Answers MESSAGE, then each line that is typed, and remembers the conversation.\n"
               "Typed lines have editing and a history. Without MESSAGE, each line of a pipe is\n"
               "answered.\n"
               "\n" CLI_JOINED_HELP(
                   "MESSAGE") "\n"
                              "Ctrl-C stops an answer. At the prompt it clears the line; a second "
                              "one on an\n"
                              "empty line ends the chat with the exit code 130. Ctrl-D ends the "
                              "chat, too.\n"
                              "\n"
                              "A line that ends in \\ continues on the next line. \"\"\" begins "
                              "and ends a text of\n"
                              "several lines. /help lists commands, and Tab completes them.\n"
                              "\n"
                              "When the context is full, the oldest turns are left out, but never "
                              "the system\n"
                              "prompt.\n"
                              "\n"
                              "A conversation at a terminal that is not saved by /save or "
                              "--session is kept for\n"
                              "30 days in ~/.local/state/mica/talks, where nobody else can read "
                              "it; the last 20\n"
                              "are kept. --resume continues the last one, /load any of them. "
                              "--no-history keeps\n"
                              "neither conversations nor typed lines.\n"
                              "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica chat\n"
                "  mica chat \"What is curl?\"\n"
                "  mica chat ~/models/gemma-3-1b-it --system \"Answer in verse\" -T 0.8\n"
                "  printf 'What is curl?\\nWho wrote it?\\n' | mica chat --quiet\n",
    .max_args = 3,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(cli_chat_values),
    .groups = {{"Prompt", cli_prompt_options, CLI_PROMPT_TEXTS, offsetof(cli_chat_values, prompt)},
               {"Conversation", cli_talk_options, CLI_TALK_OPTIONS,
                offsetof(cli_chat_values, talk)},
               {"Keeping it", keeping_options, CLI_COUNT(keeping_options), 0},
               {"Answer", cli_answer_options, CLI_ANSWER_CHAT, offsetof(cli_chat_values, answer)},
               {"Structured output", cli_constraint_options, CLI_CONSTRAINT_OPTIONS,
                offsetof(cli_chat_values, constraint)},
               {"Model", cli_model_options, CLI_MODEL_SESSION, offsetof(cli_chat_values, model)}},
    .run = run,
};
