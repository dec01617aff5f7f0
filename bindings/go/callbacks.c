#include "callbacks.h"

#include "_cgo_export.h"

void mica_go_progress(void *user, uint64_t done, uint64_t total)
{
    goProgress(user, done, total);
}

bool mica_go_token(void *user, size_t row, const mica_token *token)
{
    return goToken(user, row, (mica_token *)token);
}

void mica_go_report(void *user, const mica_tune_report *report)
{
    goReport(user, (mica_tune_report *)report);
}

mica_status mica_go_source(void *user, mica_tune_set set, mica_tune_example *example, bool *there)
{
    return goSource(user, set, example, there);
}

mica_status mica_go_record(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results)
{
    return goRecord(user, s, (mica_array *)args, n_args, results, n_results);
}

bool mica_go_next(mica_stream *stream, mica_token *token, mica_status *status, char *text,
                  size_t bytes)
{
    const bool there = mica_stream_next(stream, token);
    *status = there ? MICA_OK : mica_stream_status(stream);
    if (*status) mica_error_text(text, bytes);
    return there;
}
