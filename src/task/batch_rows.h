/* The rows of a batch's results (mica_batch_generate), whoever computes them.
 *
 * Threads: one at a time. */
#ifndef TASK_BATCH_ROWS_H
#define TASK_BATCH_ROWS_H

#include "base/buffer.h"
#include "base/status.h"

#include <mica/tasks.h>

enum { MC_BATCH_ROWS = 8 }; /* computed together by default */

typedef struct mc_batch_rows {
    const mica_batch_options *options;
    mica_batch_results *results;
    mica_metrics *metrics; /* [count] of the results' rows */
} mc_batch_rows;

/* errors  MICA_EINVAL options->parallel is out of range */
mica_status mc_batch_check_parallel(const mica_batch_options *options);

/* Makes `count` empty rows. After an error close them, too. errors  MICA_ENOMEM */
mica_status mc_batch_rows_open(mc_batch_rows *rows, const mica_batch_options *options,
                               size_t count);
/* Gives the results out, begun at `start` (mc_now_us), or frees them if status is an error.
 * Returns the status. */
mica_status mc_batch_rows_close(mc_batch_rows *rows, mica_status status, uint64_t start,
                                mica_batch_results **results);

/* The output of a row that is being computed; zero is empty. */
typedef struct mc_batch_output {
    mc_buffer ids, logprobs, text; /* int32; float; UTF-8 */
} mc_batch_output;

/* options: of the row. errors  MICA_ENOMEM */
mica_status mc_batch_output_add(mc_batch_output *output, const mica_token *token,
                                const mica_generate_options *options);
void mc_batch_output_deinit(mc_batch_output *output);

/* Ends row i, whose metrics are set, and tells the caller; with its output, which is then empty.
 * The thread's error text is that of the status. */
void mc_batch_rows_end(mc_batch_rows *rows, size_t i, mica_status status, mica_finish finish);
void mc_batch_rows_end_with(mc_batch_rows *rows, size_t i, mica_status status, mica_finish finish,
                            mc_batch_output *output);

/* How a row ended that an error kept from beginning. */
mica_finish mc_batch_finish_of(mica_status status);

#endif
