/* A chat: chat.c reads its lines, chat_answer.c answers, chat_command.c does what /COMMAND says,
 * chat_set.c what /set says; chat_complete.c knows what Tab completes, chat_keep.c where the talk
 * is kept. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "answer.h"
#include "conversation.h"
#include "kept.h"
#include "lines.h"
#include "model.h"
#include "talk.h"

/* How a chat is opened. */
typedef struct cli_chat_values {
    cli_model_values model;
    cli_answer_values answer;
    cli_talk_values talk;
    const char *session; /* a file; NULL: none */
    bool resume;
    const char *prompt; /* the first message; NULL: none, or a word */
} cli_chat_values;

typedef struct cli_chat {
    cli_answer_values values; /* /set changes them, and what shapes the conversation */
    cli_talk_values talk;
    cli_conversation conversation;
    mica_model *model, *draft; /* draft NULL: none */
    mica_session *session;
    cli_text variables;       /* of the chat template, as JSON: those of talk */
    const char *file;         /* of --session, keeps the conversation; NULL: none */
    bool keeps;               /* without one it is kept for a while (kept.h) */
    char kept[CLI_KEPT_PATH]; /* where; "": nowhere yet */
    cli_lines lines;
    int64_t used;    /* tokens of the context */
    size_t left_out; /* of the messages behind the system's: how many of the oldest the model no
                        longer gets, for the context is full */
    bool told_full;  /* that it is */
    uint64_t again;  /* how often the last message was answered anew */
    bool failed;     /* an answer or a command */
    bool ended;      /* by a command */
    bool unkept;     /* the file could not be written, which was told */
} cli_chat;

/** Runs a chat.
 *
 *  model    the word that names the model; NULL: none.
 *  first    a message that is answered before any is read; NULL: none.
 *  returns  an exit code */
int cli_chat_run(const char *verb_name, const cli_chat_values *values, const char *model,
                 const char *first);

/** Adds a message and its answer, which is printed, to the conversation, and keeps that in the
 *  chat's file. Where it fails, c->failed is set and the message is dropped. */
void cli_chat_answer(cli_chat *c, const char *message);

/** Answers the last message anew, in place of its last answer, which stays where that fails: then
 *  c->failed is set. */
void cli_chat_answer_again(cli_chat *c);

/** Runs the command that a line, which is changed, begins with; c->failed is set where it fails,
 *  c->ended where it ends the chat. */
void cli_chat_command(cli_chat *c, char *line);

/* What follows a command, as /help has it. */
#define CLI_CHAT_SETTING "[NAME VALUE]"
#define CLI_CHAT_FILE "FILE"

/** The name of the i-th command, NULL past the end. argument: receives what follows it, "" for
 *  nothing; may be NULL. */
const char *cli_chat_command_name(size_t i, const char **argument);

/** The name of the i-th thing that can be set, NULL past the end. */
const char *cli_chat_setting_name(size_t i);

/** What may stand in place of a line's end, as cli_completer. */
void cli_chat_complete(const char *line, cli_completions *found);

/** Does what /set says: `rest`, which is changed, is what follows it.  returns false after it
 *  reported an error */
bool cli_chat_set(cli_chat *c, char *rest);

/** Keeps the conversation, after each answer, in the chat's file or for a while. */
void cli_chat_keep(cli_chat *c);

/** It was saved: it need not be kept for a while. */
void cli_chat_keep_saved(cli_chat *c);

/** What follows is another conversation; this one stays where it is kept. */
void cli_chat_keep_another(cli_chat *c);

/** Takes the conversation that was kept last.  returns CLI_DONE or CLI_FAILED */
int cli_chat_resume(cli_chat *c);

/** Tells a person at the end that it is kept. */
void cli_chat_tell_kept(const cli_chat *c);

/** Whether there is a file at a path, or what cannot be one; not so with a device, which takes what
 *  is saved and keeps nothing. */
bool cli_chat_is_kept(const char *path);

/** Saves the conversation in a file, and its caches beside it.
 *
 *  quiet    an error of the file was told before.
 *  returns  false after it reported an error */
bool cli_chat_save(const cli_chat *c, const char *path, bool quiet);

/** Loads such a file, and the caches where they are of use.  returns as cli_chat_save */
bool cli_chat_load(cli_chat *c, const char *path);

#endif
