/* Conversations that are saved automatically for a limited time, each in a file in the folder of
 * the history. */
#ifndef CLI_KEPT_H
#define CLI_KEPT_H

#include <stdbool.h>

enum { CLI_KEPT_MAX = 20, CLI_KEPT_DAYS = 30, CLI_KEPT_PATH = 4096 };

/** Makes the path of a new conversation. Before, it removes conversations that have not changed for
 *  CLI_KEPT_DAYS, and the oldest ones beyond CLI_KEPT_MAX, counting the new one.
 *
 *  returns false if there is no folder for it */
bool cli_kept_new(char out[CLI_KEPT_PATH]);

/** Finds the conversation that changed last.  returns false if there is none */
bool cli_kept_last(char out[CLI_KEPT_PATH]);

#endif
