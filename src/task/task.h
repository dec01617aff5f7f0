/* Shared by the tasks of mica/tasks.h: rows of results, and feeding a text to a new session.
 *
 * Threads: as the functions of mica/tasks.h. */
#ifndef TASK_TASK_H
#define TASK_TASK_H

#include "base/cancel.h"
#include "session/session.h"

#include <mica/tasks.h>

/* errors  MICA_EINVAL no ids, or one past the vocabulary; MICA_ECONTEXT (with the numbers) */
mica_status mc_task_check_ids(const mc_session_model *model, const int32_t *ids, size_t n);

/* The error of a result that is not a number. what: "a logit". returns MICA_EINVAL */
mica_status mc_task_broken(const char *what);

/* A copy of the thread's last error for a row: never NULL, "" for MICA_OK. */
const char *mc_task_error(mica_status status);
void mc_task_error_free(mica_status status, const char *error);

/* Called when tokens [at, at + n) were computed, with the results of mc_session_pass. */
typedef mica_status (*mc_task_chunk)(void *context, const mica_array *results, int64_t at,
                                     int64_t n);

/* Feeds a text to a new session, chunk by chunk.
 *
 *  results  room for the results of `wish`.
 *  errors   those of mc_task_check_ids, mc_session_pass and chunk */
mica_status mc_task_feed(const mc_session_model *model, const int32_t *ids, size_t n,
                         const mica_task_options *options, const mc_session_wish *wish,
                         mica_array *results, mc_task_chunk chunk, void *context);

#endif
