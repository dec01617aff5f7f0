/* Why a request is refused: what every API's error says, before it is written in that API's form.
 *
 * It holds its texts, so that refusing needs no memory. Threads: one at a time. */
#ifndef SERVE_COMMON_FAILURE_H
#define SERVE_COMMON_FAILURE_H

#include "base/status.h"
#include "serve/common/put.h"

#include <stdbool.h>

/* Whose form an error has. */
typedef enum mc_api { MC_API_OPENAI, MC_API_ANTHROPIC, MC_API_OLLAMA } mc_api;

typedef struct mc_failure {
    int status;         /* of HTTP; 0: nothing failed */
    const char *type;   /* OpenAI's word for the kind, such as "invalid_request_error" */
    const char *code;   /* OpenAI's word for the case; NULL: none */
    char param[96];     /* the field at fault; "": none */
    char message[1024]; /* UTF-8 */
    int retry_seconds;  /* of Retry-After; 0: none */
    char allow[32];     /* methods of Allow; "": none */
} mc_failure;

/* Sets it, with the type that goes with the status. param may be NULL. Returns false, so that a
 * check can end with it. */
bool mc_failure_set(mc_failure *failure, int status, const char *code, const char *param,
                    const char *fmt, ...) MC_PRINTF(5, 6);

/* Sets it to a 400: the role of the message at `place` is none of those that are wanted. Returns
 * false. */
bool mc_failure_role(mc_failure *failure, const char *param, const char *place, mc_str role,
                     const char *wanted);

/* Sets it from a failed call: the HTTP status that stands for it, and the thread's error text.
 * Returns false. */
bool mc_failure_of(mc_failure *failure, mica_status status, const char *param);

/* Writes it as that API's clients read it: {"error": {"message", "type", "param", "code"}}.
 * request_id: of the request that failed; Anthropic's form has it. */
void mc_failure_put(const mc_failure *failure, mc_api api, const char *request_id, mc_put *put);

#endif
