/* The messages of a chat. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include <mica/mica.h>

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: empty. The first message is the system message if there is one. */
typedef struct cli_conversation {
    mica_message *messages; /* [count], contents are owned */
    size_t count, room;
    char *model, *adapter; /* folders from the file, or NULL */
} cli_conversation;

/** Appends a message. `content` is copied; `role` is borrowed for the conversation's life.  returns
 *  false after it reported that memory is out */
bool cli_conversation_add(cli_conversation *c, const char *role, const char *content);

/** Replaces the content of the last message.  returns as cli_conversation_add */
bool cli_conversation_replace(cli_conversation *c, const char *content);

/** Removes the last message. */
void cli_conversation_drop(cli_conversation *c);

/** Replaces the system message; "" removes it.  returns as cli_conversation_add */
bool cli_conversation_set_system(cli_conversation *c, const char *content);

/** Returns the system message, or NULL. */
const char *cli_conversation_system(const cli_conversation *c);

/** Removes all messages but the system message. */
void cli_conversation_clear(cli_conversation *c);

/** Writes the messages to a file by mica_file_save, each on a line as a JSON object {"role",
 *  "content"}.
 *
 *  model    the model's folder, for a first line {"model"}; NULL: no such line.
 *  adapter  the adapter's folder, for that line, too; NULL: none.
 *  quiet    errors are not reported.
 *  returns  false after an error */
bool cli_conversation_save(const cli_conversation *c, const char *path, const char *model,
                           const char *adapter, bool quiet);

/** Replaces the messages by those of such a file. After an error they are unchanged. It must be a
 *  regular file.
 *
 *  returns  false after it reported an error */
bool cli_conversation_load(cli_conversation *c, const char *path);

/** Frees the messages. */
void cli_conversation_deinit(cli_conversation *c);

#endif
