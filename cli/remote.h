/* Asking a running `mica serve`. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "json.h"
#include "options.h"

/* Where the server is, and the key that it wants. */
typedef struct cli_remote_values {
    const char *host;
    int64_t port;
    const char *api_key, *api_key_file;
    const char *certificates;
    bool insecure;
} cli_remote_values;

/* The table of cli_remote_values. */
enum { CLI_REMOTE_OPTIONS = 6 };
extern const cli_option cli_remote_options[CLI_REMOTE_OPTIONS];

/** Sends a request and reads the answer, which must have the status 200.
 *
 *  body    JSON; NULL: none.
 *  answer  receives the body of the answer; NULL before, freed with mica_free.
 *  json    receives what that says; zeroed before, freed with cli_json_deinit.
 *  returns an exit code, after it reported an error: what the server said is wrong, or why it
 *          cannot be asked */
int cli_remote_ask(const cli_remote_values *values, const char *method, const char *path,
                   const char *body, char **answer, cli_json *json);

#endif
