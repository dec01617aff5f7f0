/* The steps of a schedule whose model computes in this process. */
#include "base/alloc.h"
#include "base/integer.h"
#include "base/system.h"
#include "schedule/state.h"

#include <stdio.h>

/* ---- rows ---- */

mica_status mc_rows_open(mc_schedule *s) {
    s->rows.rows = mc_calloc((size_t)s->options.rows, sizeof *s->rows.rows);
    if (!s->rows.rows) return mc_fail_nomem("a schedule");
    return mc_batch_init(&s->rows.batch, s->local);
}

void mc_rows_close(mc_schedule *s) {
    if (!s->rows.rows) return;
    for (int i = 0; i < s->options.rows; i++)
        mc_session_close(&s->rows.rows[i].session);
    mc_batch_deinit(&s->rows.batch);
    mc_free(s->rows.rows);
}

static mica_metrics metrics_of(const mc_row *row) {
    mica_metrics m = {.prompt_tokens = (int64_t)row->request->given.n_ids};
    if (row->stream) m = mc_stream_metrics(row->stream);
    m.decode_seconds += (double)row->decode_us * 1e-6; /* the stream's is the time of sampling */
    m.decode_rate = row->decode_us ? (double)row->decoded / m.decode_seconds : 0.0;
    return m;
}

/* Ends a row and frees it. */
static void leave(mc_schedule *s, mc_row *row, mica_status status, mica_finish finish) {
    const mica_metrics metrics = metrics_of(row);
    mc_schedule_end(s, row->request, row->choice, status, finish, &metrics);
    row->request = NULL;
    mc_stream_close(&row->stream);
    if (row->session) mc_session_reset(row->session);
}

static void leave_with_error(mc_schedule *s, mc_row *row, mica_status status) {
    leave(s, row, status, status == MICA_ECANCELLED ? MICA_FINISH_CANCELLED : MICA_FINISH_ERROR);
}

/* ---- prompts ---- */

static mica_status open_stream(mc_schedule *s, mc_row *row) {
    mc_request *request = row->request;
    mica_generate_options options = request->generate;
    options.seed += row->choice;
    if (!row->session)
        MC_TRY(mc_session_open(s->local, mc_min(s->options.step_tokens, 512), &row->session));
    MC_TRY(mc_stream_open(row->session, request->given.ids, request->given.n_ids, &options,
                          &row->stream));
    mc_stream_share(row->stream);
    if (request->constraints && request->constraints[row->choice]) {
        mc_constraint *constraint = request->constraints[row->choice];
        request->constraints[row->choice] = NULL;
        MC_TRY(mc_stream_constrain(row->stream, constraint));
    }
    return mc_stream_read(row->stream, 0, &row->left);
}

/* Takes choices into all free rows. */
static void take_choices(mc_schedule *s) {
    for (int i = 0; i < s->options.rows; i++) {
        mc_row *row = &s->rows.rows[i];
        while (!row->request) {
            if (!mc_schedule_take(s, &row->request, &row->choice)) return;
            row->number = s->rows.taken++;
            row->decode_us = 0;
            row->decoded = 0;
            mica_status status = open_stream(s, row);
            if (status != MICA_OK) leave_with_error(s, row, status);
        }
    }
}

/* Reads up to n tokens of a row's prompt. */
static void read_prompt(mc_schedule *s, mc_row *row, int64_t n) {
    for (int64_t end = mc_max(row->left - n, 0); row->left > end;) {
        mica_status status = mc_stream_read(row->stream, row->left - end, &row->left);
        if (status != MICA_OK) {
            leave_with_error(s, row, status);
            return;
        }
        const mica_metrics m = mc_stream_metrics(row->stream);
        mc_request_tell(row->request, m.prompt_tokens - row->left, m.prompt_tokens,
                        m.reused_tokens);
        if (!row->left) mc_schedule_count_prompt(s, m.prompt_tokens, m.reused_tokens);
    }
}

/* Lists the rows whose prompts are not read, those with the fewest tokens left first. Returns how
 * many there are. */
static size_t list_readers(mc_schedule *s, mc_row **readers) {
    size_t n = 0;
    for (int i = 0; i < s->options.rows; i++) {
        mc_row *row = &s->rows.rows[i];
        if (!row->request || !row->left) continue;
        size_t at = n++;
        for (; at && readers[at - 1]->left > row->left; at--)
            readers[at] = readers[at - 1];
        readers[at] = row;
    }
    return n;
}

/* Reads as many tokens of prompts as a step may. One half is for the row that has waited longest;
 * the shortest prompts come first with the others, so that a long one does not hold them up. */
static void read_prompts(mc_schedule *s) {
    mc_row *readers[MC_MAX_ROWS], *oldest = NULL;
    size_t n = list_readers(s, readers);
    for (size_t i = 0; i < n; i++)
        if (!oldest || readers[i]->number < oldest->number) oldest = readers[i];
    int64_t budget = s->options.step_tokens;
    int64_t kept = oldest ? mc_min(oldest->left, (budget + 1) / 2) : 0;
    for (size_t i = 0; i < n; i++) {
        if (readers[i] == oldest) kept = 0;
        int64_t part = mc_min(readers[i]->left, budget - kept);
        budget -= part;
        if (part > 0) read_prompt(s, readers[i], part);
    }
}

/* ---- steps ---- */

/* Hands out the row's tokens until one must be computed (true, in *pending), or it ends. */
static bool pull(mc_schedule *s, mc_row *row, int32_t *pending) {
    mica_token token;
    while (!mc_stream_pending(row->stream, pending)) {
        if (!mc_stream_next(row->stream, &token)) {
            leave(s, row, mc_stream_status(row->stream), mc_stream_finish(row->stream));
            return false;
        }
        if (!mc_request_give(row->request, row->choice, &token)) mc_stream_cancel(row->stream);
    }
    return true;
}

/* The inputs of one step. */
typedef struct step {
    mc_row *rows[MC_MAX_ROWS];
    mc_session *sessions[MC_MAX_ROWS];
    int32_t ids[MC_MAX_ROWS];
    size_t n;
} step;

/* Hands out all tokens that are computed, and collects the rows that need another. */
static void collect(mc_schedule *s, step *t) {
    t->n = 0;
    for (int i = 0; i < s->options.rows; i++) {
        mc_row *row = &s->rows.rows[i];
        int32_t id;
        if (!row->request || row->left || !pull(s, row, &id)) continue;
        t->rows[t->n] = row;
        t->sessions[t->n] = row->session;
        t->ids[t->n++] = id;
    }
}

/* Makes room for a token in each row. Rows that get none leave. */
static void reserve(mc_schedule *s, step *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        mica_status status = mc_batch_reserve(t->sessions[i]);
        if (status != MICA_OK) {
            leave_with_error(s, t->rows[i], status);
            continue;
        }
        t->rows[n] = t->rows[i];
        t->sessions[n] = t->sessions[i];
        t->ids[n++] = t->ids[i];
    }
    t->n = n;
}

static void compute(mc_schedule *s, const step *t) {
    char error[1024];
    uint64_t start = mc_now_us();
    mica_status status = mc_batch_feed(&s->rows.batch, t->sessions, t->ids, t->n);
    uint64_t took = mc_now_us() - start;
    snprintf(error, sizeof error, "%s", mica_last_error());
    mc_schedule_count_step(s, t->n);
    for (size_t i = 0; i < t->n; i++) {
        t->rows[i]->decode_us += took;
        t->rows[i]->decoded++;
        if (status != MICA_OK) leave_with_error(s, t->rows[i], mc_fail(status, "%s", error));
    }
}

/* Cancels the rows of requests that are over. */
static void cancel_rows(mc_schedule *s) {
    for (int i = 0; i < s->options.rows; i++) {
        mc_row *row = &s->rows.rows[i];
        if (!row->request || !mc_schedule_is_over(s, row->request)) continue;
        mc_stream_cancel(row->stream);
        if (row->left) read_prompt(s, row, 1); /* which ends it */
    }
}

void mc_rows_step(mc_schedule *s) {
    step t;
    cancel_rows(s);
    take_choices(s);
    collect(s, &t); /* rows that ended leave before the next ones come in */
    reserve(s, &t);
    if (t.n) compute(s, &t);
    collect(s, &t);
    read_prompts(s);
}
