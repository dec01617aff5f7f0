/* Functions that mica calls, with the types of its headers; each calls Go. */
#ifndef MICA_GO_CALLBACKS_H
#define MICA_GO_CALLBACKS_H

#include <mica/mica.h>

void mica_go_progress(void *user, uint64_t done, uint64_t total);
bool mica_go_token(void *user, size_t row, const mica_token *token);
void mica_go_report(void *user, const mica_tune_report *report);
mica_status mica_go_source(void *user, mica_tune_set set, mica_tune_example *example, bool *there);
mica_status mica_go_record(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results);

/* mica_stream_next, with the text of an error: that belongs to the thread of the call, and Go may
 * go on in another one. */
bool mica_go_next(mica_stream *stream, mica_token *token, mica_status *status, char *text,
                  size_t bytes);

#endif
