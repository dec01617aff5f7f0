#include "task/batch_rows.h"

#include "base/alloc.h"
#include "base/system.h"
#include "task/task.h"

static const char no_text[] = ""; /* of a row without text, or without memory for its text */

mica_status mc_batch_check_parallel(const mica_batch_options *options) {
    if (options->parallel < 0 || options->parallel > MC_MAX_ROWS)
        return mc_fail(MICA_EINVAL, "parallel %d: want 1 to %d, or 0 for %d", options->parallel,
                       MC_MAX_ROWS, MC_BATCH_ROWS);
    return MICA_OK;
}

mica_status mc_batch_rows_open(mc_batch_rows *rows, const mica_batch_options *options,
                               size_t count) {
    *rows = (mc_batch_rows){.options = options};
    rows->results = mc_calloc(1, sizeof *rows->results);
    if (!rows->results) return mc_fail_nomem("a batch");
    rows->results->rows = mc_calloc(count, sizeof *rows->results->rows);
    if (!rows->results->rows) return mc_fail_nomem("a batch");
    rows->metrics = mc_calloc(count, sizeof *rows->metrics);
    if (!rows->metrics) return mc_fail_nomem("a batch");
    rows->results->count = count;
    for (size_t i = 0; i < count; i++)
        rows->results->rows[i] =
            (mica_batch_row){.error = "", .text = no_text, .metrics = &rows->metrics[i]};
    return MICA_OK;
}

mica_status mc_batch_rows_close(mc_batch_rows *rows, mica_status status, uint64_t start,
                                mica_batch_results **results) {
    if (status != MICA_OK) {
        mica_batch_free(&rows->results);
        return status;
    }
    rows->results->seconds = (double)(mc_now_us() - start) * 1e-6;
    *results = rows->results;
    return MICA_OK;
}

mica_status mc_batch_output_add(mc_batch_output *output, const mica_token *token,
                                const mica_generate_options *options) {
    bool logprobs = options->logprobs || options->top_logprobs;
    if (!mc_buffer_add(&output->text, token->text, token->len))
        return mc_fail_nomem("a row's text");
    if (token->id < 0) return MICA_OK;
    if (!MC_BUFFER_PUSH(&output->ids, int32_t, token->id) ||
        (logprobs && !MC_BUFFER_PUSH(&output->logprobs, float, token->logprob)))
        return mc_fail_nomem("a row's tokens");
    return MICA_OK;
}

void mc_batch_output_deinit(mc_batch_output *output) {
    mc_buffer_deinit(&output->ids);
    mc_buffer_deinit(&output->logprobs);
    mc_buffer_deinit(&output->text);
}

/* Moves the output to its row. The text is lost if there is no memory for its NUL. */
static mica_status move_out(mc_batch_output *output, mica_batch_row *row) {
    bool whole = mc_buffer_cstr(&output->text) != NULL;
    row->count = MC_BUFFER_COUNT(&output->ids, int32_t);
    row->ids = (const int32_t *)(void *)output->ids.data;
    row->logprobs = (const float *)(void *)output->logprobs.data;
    output->ids = output->logprobs = (mc_buffer){0};
    if (!whole) return mc_fail_nomem("a row's text");
    row->len = output->text.len;
    row->text = output->text.data;
    output->text = (mc_buffer){0};
    return MICA_OK;
}

void mc_batch_rows_end(mc_batch_rows *rows, size_t i, mica_status status, mica_finish finish) {
    mica_batch_row *row = &rows->results->rows[i];
    row->status = status;
    row->error = mc_task_error(status);
    row->finish = finish;
    rows->results->prompt_tokens += row->metrics->prompt_tokens;
    rows->results->generated_tokens += row->metrics->generated_tokens;
    if (rows->options->done) rows->options->done(rows->options->user, i, row);
}

void mc_batch_rows_end_with(mc_batch_rows *rows, size_t i, mica_status status, mica_finish finish,
                            mc_batch_output *output) {
    mica_batch_row *row = &rows->results->rows[i];
    if (status == MICA_OK) {
        status = move_out(output, row);
        if (status != MICA_OK) finish = MICA_FINISH_ERROR;
    } else {
        const char *error = mc_task_error(status);
        (void)move_out(output, row);
        status = mc_fail(status, "%s", error);
        mc_task_error_free(status, error);
    }
    mc_buffer_clear(&output->ids);
    mc_buffer_clear(&output->logprobs);
    mc_buffer_clear(&output->text);
    mc_batch_rows_end(rows, i, status, finish);
}

mica_finish mc_batch_finish_of(mica_status status) {
    return status == MICA_ECANCELLED ? MICA_FINISH_CANCELLED : MICA_FINISH_ERROR;
}

static void free_row(const mica_batch_row *row) {
    mc_task_error_free(row->status, row->error);
    mc_free((void *)row->ids);
    mc_free((void *)row->logprobs);
    if (row->text != no_text) mc_free((void *)row->text);
}

void mica_batch_free(mica_batch_results **results) {
    if (!results || !*results) return;
    for (size_t i = 0; i < (*results)->count; i++)
        free_row(&(*results)->rows[i]);
    if ((*results)->count > 0) mc_free((void *)(*results)->rows[0].metrics); /* of all rows */
    mc_free((*results)->rows);
    mc_free(*results);
    *results = NULL;
}
