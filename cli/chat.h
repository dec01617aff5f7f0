/* A chat. chat.c reads the lines, chat_answer.c answers, chat_command.c runs /COMMAND, chat_set.c
 * runs /set, chat_complete.c completes words on Tab, chat_keep.c saves conversations
 * automatically. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "answer.h"
#include "constraint.h"
#include "conversation.h"
#include "kept.h"
#include "lines.h"
#include "model.h"
#include "talk.h"

/* Options of `mica chat`. */
typedef struct cli_chat_values {
    cli_model_values model;
    cli_answer_values answer;
    cli_constraint_values constraint;
    cli_talk_values talk;
    const char *session; /* a file, or NULL */
    bool resume;
    /* The first message, as of cli_prompt_values. Both NULL: none, or it is an argument. */
    const char *prompt, *file;
} cli_chat_values;

typedef struct cli_chat {
    cli_answer_values values; /* /set changes these and the conversation's */
    cli_talk_values talk;
    cli_constraint constraint; /* of each answer */
    cli_conversation conversation;
    mica_model *model, *draft; /* draft may be NULL */
    mica_session *session;
    cli_text variables;       /* of the chat template, as JSON; from `talk` */
    const char *file;         /* of --session, holds the conversation; NULL: none */
    bool keeps;               /* without a file, saves automatically (kept.h) */
    char kept[CLI_KEPT_PATH]; /* path of the automatic file; "": none yet */
    cli_lines lines;
    int64_t used;    /* number of tokens in the context */
    size_t left_out; /* number of oldest messages, system message excluded, that no longer fit
                        the context: the model does not get them */
    bool told_full;  /* the user was told that the context is full */
    uint64_t again;  /* number of new answers to the last message */
    bool failed;     /* an answer or a command failed */
    bool ended;      /* a command ended the chat */
    bool unkept;     /* saving failed, and the user was told */
} cli_chat;

/** Runs a chat.
 *
 *  model    the MODEL argument; NULL: none.
 *  first    a message to answer before any is read; NULL: none.
 *  returns  an exit code */
int cli_chat_run(const char *verb_name, const cli_chat_values *values, const char *model,
                 const char *first);

/** Adds a message to the conversation, prints and adds the answer, and saves the conversation.
 *  After an error c->failed is set and the message is dropped. */
void cli_chat_answer(cli_chat *c, const char *message);

/** Answers the last message again. The new answer replaces the old one. After an error the old
 *  answer stays and c->failed is set. */
void cli_chat_answer_again(cli_chat *c);

/** Runs the command at the beginning of a line, and changes the line. Sets c->failed after an
 *  error, c->ended if the command ends the chat. */
void cli_chat_command(cli_chat *c, char *line);

/* Arguments of commands, as /help prints them. */
#define CLI_CHAT_SETTING "[NAME VALUE]"
#define CLI_CHAT_FILE "FILE"

/** Returns the name of the i-th command, NULL past the end.
 *
 *  argument  receives the command's argument, "" for none; may be NULL */
const char *cli_chat_command_name(size_t i, const char **argument);

/** Returns the name of the i-th setting of /set, NULL past the end. */
const char *cli_chat_setting_name(size_t i);

/** Completes a line, as cli_completer. */
void cli_chat_complete(const char *line, cli_completions *found);

/** Runs /set with the arguments in `rest`, which is changed.  returns false after it reported an
 *  error */
bool cli_chat_set(cli_chat *c, char *rest);

/** Saves the conversation after an answer: in the file of --session, or automatically (kept.h). */
void cli_chat_keep(cli_chat *c);

/** Removes the automatic file, because the user saved the conversation. */
void cli_chat_keep_saved(cli_chat *c);

/** Begins another automatic file. The earlier one stays. */
void cli_chat_keep_another(cli_chat *c);

/** Loads the conversation that was saved automatically last.  returns CLI_DONE or CLI_FAILED */
int cli_chat_resume(cli_chat *c);

/** At the end, tells the user at a terminal how to resume the conversation. */
void cli_chat_tell_kept(const cli_chat *c);

/** Whether a path names a file, or anything else that cannot be loaded as one. False for a device,
 *  which can be written and holds nothing. */
bool cli_chat_is_kept(const char *path);

/** Saves the conversation in a file, and the session's caches beside the file.
 *
 *  quiet    errors of the file are not reported, because they were before.
 *  returns  false after an error */
bool cli_chat_save(const cli_chat *c, const char *path, bool quiet);

/** Loads such a file, and its caches if they fit the model.  returns as cli_chat_save */
bool cli_chat_load(cli_chat *c, const char *path);

#endif
