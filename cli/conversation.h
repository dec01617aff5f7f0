/* The messages of a chat. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include <mica/mica.h>

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: empty. The first message is the system's, where there is one. */
typedef struct cli_conversation {
    mica_message *messages; /* [count], contents owned */
    size_t count, room;
    char *model, *adapter; /* the folders that its file told, NULL: none */
} cli_conversation;

/** Appends a message; content is copied, role lives on.  returns false after it reported that
 *  memory is out */
bool cli_conversation_add(cli_conversation *c, const char *role, const char *content);

/** Replaces what the last message says.  returns as cli_conversation_add */
bool cli_conversation_replace(cli_conversation *c, const char *content);

/** Drops the last message. */
void cli_conversation_drop(cli_conversation *c);

/** Replaces the system's message; "" for none.  returns as cli_conversation_add */
bool cli_conversation_set_system(cli_conversation *c, const char *content);

/** The system's message, NULL where there is none. */
const char *cli_conversation_system(const cli_conversation *c);

/** Forgets all but the system's message. */
void cli_conversation_clear(cli_conversation *c);

/** Writes the messages to a file, a JSON object {"role", "content"} a line, by mica_file_save.
 *
 *  model    a folder, told in a first line {"model"}; NULL: none.
 *  adapter  the folder of that model's adapter, told there too; NULL: none.
 *  quiet    an error is not reported.
 *  returns  false after an error */
bool cli_conversation_save(const cli_conversation *c, const char *path, const char *model,
                           const char *adapter, bool quiet);

/** Reads such a file in place of the messages; they stay after an error. It must be a regular file.
 *
 *  returns  false after it reported an error */
bool cli_conversation_load(cli_conversation *c, const char *path);

/** Frees the messages. */
void cli_conversation_deinit(cli_conversation *c);

#endif
