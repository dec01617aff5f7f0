/* The keys that requests to mica serve must have. */
#ifndef CLI_SERVE_KEYS_H
#define CLI_SERVE_KEYS_H

#include <stddef.h>

typedef struct cli_keys { /* zero is none */
    char **texts;         /* [count] */
    size_t count;
} cli_keys;

/** Takes the key of an option and those of a file, one a line, which is refused if it has
 *  blanks in it; lines that begin with # are none. Either may be NULL.
 *  returns an exit code, after it reported an error */
int cli_keys_read(const char *key, const char *file, cli_keys *keys);

void cli_keys_free(cli_keys *keys);

#endif
