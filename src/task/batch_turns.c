/* Batches of engines that do not compute in this process: one row after another. */
#include "base/alloc.h"
#include "base/options.h"
#include "base/system.h"
#include "task/batch.h"
#include "task/batch_rows.h"
#include "task/task.h"

typedef struct turns {
    const mc_batch_task *task;
    const mica_batch_options *options;
    mc_batch_rows rows;
    mica_session *session;
    mica_stream *stream; /* of the row at hand */
    mica_generate_options row_options;
    mc_batch_output output;
} turns;

/* Cancels during a prefill, and calls the row's own progress function. */
static void on_prefill(void *user, uint64_t done, uint64_t total) {
    turns *t = user;
    const mica_generate_options *options = &t->row_options;
    if (mc_cancel_check(t->options->cancel) != MICA_OK) mica_stream_cancel(t->stream);
    if (options->progress) options->progress(options->progress_user, done, total);
}

static mica_status open_stream(turns *t, size_t i) {
    int32_t *ids;
    size_t n;
    MC_TRY(mc_cancel_check(t->options->cancel));
    MC_TRY(MC_OPTIONS_COPY(mica_generate_options, constraint_text, &t->row_options,
                           t->task->items[i].options));
    mica_generate_options options = t->row_options;
    options.progress = on_prefill;
    options.progress_user = t;
    MC_TRY(t->task->encode(t->task->context, i, &ids, &n));
    mica_status status = mica_generate_ids(t->session, ids, n, &options, &t->stream);
    mica_free(ids);
    return status;
}

/* Takes all output of the row's stream. */
static mica_status take_output(turns *t, size_t i) {
    const mica_batch_options *options = t->options;
    for (mica_token token; mica_stream_next(t->stream, &token);) {
        MC_TRY(mc_batch_output_add(&t->output, &token, &t->row_options));
        if (options->token && !options->token(options->user, i, &token))
            mica_stream_cancel(t->stream);
        if (mc_cancel_check(options->cancel) != MICA_OK) mica_stream_cancel(t->stream);
    }
    return mica_stream_status(t->stream);
}

static void run_row(turns *t, size_t i) {
    mica_status status = open_stream(t, i);
    if (status != MICA_OK) {
        mc_batch_rows_end(&t->rows, i, status, mc_batch_finish_of(status));
        return;
    }
    status = take_output(t, i);
    mica_finish finish =
        status == MICA_OK ? mica_stream_finish(t->stream) : mc_batch_finish_of(status);
    t->rows.metrics[i].struct_bytes = sizeof(mica_metrics);
    mica_stream_metrics(t->stream, &t->rows.metrics[i]);
    mica_stream_close(&t->stream);
    mc_batch_rows_end_with(&t->rows, i, status, finish, &t->output);
}

mica_status mc_batch_in_turn(const mica_model *model, const mc_batch_task *task,
                             const mica_batch_options *options, mica_batch_results **results) {
    uint64_t start = mc_now_us();
    turns t = {.task = task, .options = options};
    *results = NULL;
    MC_TRY(mc_batch_check_parallel(options));
    mica_status status = mc_batch_rows_open(&t.rows, options, task->count);
    if (status == MICA_OK) status = mica_session_open(model, NULL, &t.session);
    for (size_t i = 0; status == MICA_OK && i < task->count; i++)
        run_row(&t, i);
    mica_session_close(&t.session);
    mc_batch_output_deinit(&t.output);
    return mc_batch_rows_close(&t.rows, status, start, results);
}
