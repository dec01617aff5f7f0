#include "session/answer.h"

#include "base/system.h"

/* ---- opening ---- */

/* How many tokens of a prompt of n are kept if it may be truncated. */
static int64_t truncated_length(int64_t n, int64_t room, int64_t max_tokens) {
    int64_t half = (room + 1) / 2, max = half;
    if (!max_tokens && n <= room) return n;
    if (max_tokens && max_tokens <= room + 1 - half) max = room + 1 - max_tokens;
    return n < max ? n : max;
}

/* Checks the prompt and takes it, truncated if that is asked for. */
static mica_status take_prompt(mc_answer *answer, const mc_answer_model *model, const int32_t *ids,
                               size_t n, const mica_generate_options *options) {
    int64_t room = model->room, kept = (int64_t)n;
    if (n == 0) return mc_fail(MICA_EINVAL, "the prompt is empty: give at least one token");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= model->vocab)
            return mc_fail(MICA_EINVAL,
                           "token %zu of the prompt is %d; the model's vocabulary is 0 to %lld", i,
                           (int)ids[i], (long long)model->vocab - 1);
    if (options->truncate) kept = truncated_length(kept, room, options->max_tokens);
    if (kept > room)
        return mc_fail(MICA_ECONTEXT,
                       "the prompt has %zu tokens, the model's context %lld: shorten the prompt, "
                       "or truncate it",
                       n, (long long)room);
    if (!mc_tokens_reserve(&answer->text, kept)) return mc_fail_nomem("an answer");
    (void)mc_tokens_add(&answer->text, ids, 1);
    (void)mc_tokens_add(&answer->text, ids + n - (size_t)(kept - 1), kept - 1);
    answer->prompt = kept;
    answer->truncated = (int64_t)n - kept;
    return MICA_OK;
}

static mica_status check_counts(const mica_generate_options *o) {
    if (o->max_tokens < 0)
        return mc_fail(MICA_EINVAL, "max_tokens %lld: want 1 or more, or 0 for no limit",
                       (long long)o->max_tokens);
    if (o->min_tokens < 0 || (o->max_tokens && o->min_tokens > o->max_tokens))
        return mc_fail(MICA_EINVAL, "min_tokens %lld: want 0 to max_tokens, %lld",
                       (long long)o->min_tokens, (long long)o->max_tokens);
    if (o->top_logprobs < 0)
        return mc_fail(MICA_EINVAL, "top_logprobs %d: want 0 or more", o->top_logprobs);
    if (o->stop_count && !o->stop_ids)
        return mc_fail(MICA_EINVAL, "stop_ids is NULL, stop_count %zu", o->stop_count);
    return MICA_OK;
}

static mica_status take_stops(mc_answer *answer, const mc_answer_model *model,
                              const mica_generate_options *options) {
    size_t id = sizeof(int32_t);
    if (!mc_buffer_add(&answer->stops, options->stop_ids, options->stop_count * id) ||
        (!options->ignore_eos &&
         !mc_buffer_add(&answer->stops, model->stop_ids, model->stop_count * id)))
        return mc_fail_nomem("an answer");
    MC_TRY(
        mc_stop_text_init(&answer->stop_text, options->stop_strings, options->stop_string_count));
    if (options->stop_string_count && !model->tokenizer)
        return mc_fail(MICA_EINVAL, "stop strings, but the model has no tokenizer");
    return MICA_OK;
}

mica_status mc_answer_open(mc_answer *answer, const mc_answer_model *model, const int32_t *ids,
                           size_t n, const mica_generate_options *options) {
    *answer = (mc_answer){.room = model->room, .opened_us = mc_now_us()};
    atomic_init(&answer->cancelled, false);
    MC_TRY(check_counts(options));
    MC_TRY(take_prompt(answer, model, ids, n, options));
    MC_TRY(take_stops(answer, model, options));
    answer->min_tokens = options->min_tokens;
    answer->max_tokens = options->max_tokens ? options->max_tokens : INT64_MAX;
    answer->echo = options->echo ? answer->prompt : 0;
    answer->tokenizer = model->tokenizer;
    if (!model->tokenizer) return MICA_OK;
    return mica_decoder_stream_open(model->tokenizer, true, &answer->decoder);
}

void mc_answer_close(mc_answer *answer) {
    mica_decoder_stream_close(&answer->decoder);
    mc_stop_text_deinit(&answer->stop_text);
    mc_tokens_deinit(&answer->text);
    mc_buffer_deinit(&answer->stops);
}

void mc_answer_cancel(mc_answer *answer) {
    atomic_store_explicit(&answer->cancelled, true, memory_order_relaxed);
}

bool mc_answer_is_cancelled(const mc_answer *answer) {
    return atomic_load_explicit(&answer->cancelled, memory_order_relaxed);
}

mica_status mc_answer_check(const mc_answer *answer) {
    if (!mc_answer_is_cancelled(answer)) return MICA_OK;
    return mc_fail(MICA_ECANCELLED, "the answer was cancelled");
}

/* ---- handing out ---- */

bool mc_answer_stops_at(const mc_answer *answer, int32_t id) {
    const int32_t *stops = MC_BUFFER_AT(&answer->stops, int32_t);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&answer->stops, int32_t); i++)
        if (stops[i] == id) return true;
    return false;
}

static bool fail(mc_answer *answer, mica_status status) {
    answer->status = status;
    answer->finish = status == MICA_ECANCELLED ? MICA_FINISH_CANCELLED : MICA_FINISH_ERROR;
    answer->ended = true;
    return false;
}

/* Searches a token's text for stop strings. */
static mica_status look_for_stops(mc_answer *answer, mica_token *token, mc_stop_mode mode,
                                  bool *found) {
    *found = false;
    if (!answer->stop_text.count) return MICA_OK;
    return mc_stop_text_push(&answer->stop_text, token->text, token->len, mode, &token->text,
                             &token->len, found);
}

/* Ends a whole answer. Text that was held back is handed out first. */
static bool end(mc_answer *answer, mica_finish finish, mica_token *token) {
    mica_status status = MICA_OK;
    bool found = false;
    *token = (mica_token){.id = -1, .text = ""};
    answer->ended = true;
    if (answer->decoder)
        status = mica_decoder_stream_flush(answer->decoder, &token->text, &token->len);
    if (status == MICA_OK) status = look_for_stops(answer, token, MC_STOPS_LAST, &found);
    if (status != MICA_OK) return fail(answer, status);
    answer->finish = found ? MICA_FINISH_STOP : finish;
    return token->len > 0;
}

static bool is_special(const mc_answer *answer, int32_t id) {
    return answer->decoder && mica_tokenizer_is_special(answer->tokenizer, id);
}

/* Decodes the text of a new token. Stop strings do not go on behind special tokens: what comes
 * before these is handed out before them. */
static mica_status decode_text(mc_answer *answer, mica_token *token, bool *found) {
    bool early = answer->generated < answer->min_tokens;
    if (answer->decoder)
        MC_TRY(mica_decoder_stream_push(answer->decoder, token->id, &token->text, &token->len));
    MC_TRY(look_for_stops(answer, token, early ? MC_STOPS_IGNORED : MC_STOPS_ON, found));
    if (*found || !answer->stop_text.count || !is_special(answer, token->id)) return MICA_OK;
    return mc_stop_text_break(&answer->stop_text, &token->text, &token->len);
}

/* Hands out a token of the prompt. */
static bool echo(mc_answer *answer, mica_token *token) {
    token->id = MC_BUFFER_AT(&answer->text.ids, int32_t)[answer->prompt - answer->echo];
    token->prompt = true;
    mica_status status = mc_answer_check(answer);
    if (status == MICA_OK && answer->decoder)
        status = mica_decoder_stream_push(answer->decoder, token->id, &token->text, &token->len);
    if (status != MICA_OK) return fail(answer, status);
    answer->echo--;
    return true;
}

bool mc_answer_is_full(const mc_answer *answer) {
    return answer->generated >= answer->max_tokens ||
           answer->prompt + answer->generated > answer->room;
}

/* Computes a token, and adds it to the text. */
static mica_status compute_token(mc_answer *answer, mc_answer_compute compute, void *context,
                                 mica_token *token, mica_finish *stopped) {
    MC_TRY(mc_answer_check(answer));
    MC_TRY(compute(context, token, stopped));
    if (*stopped == MICA_FINISH_NONE && !mc_tokens_add(&answer->text, &token->id, 1))
        return mc_fail_nomem("an answer's tokens");
    return MICA_OK;
}

double mc_answer_seconds(const mc_answer *answer) {
    uint64_t end = answer->ended_us ? answer->ended_us : mc_now_us();
    return (double)(end - answer->opened_us) * 1e-6;
}

/* mc_answer_next of an answer that has not ended */
static bool next_token(mc_answer *answer, mc_answer_compute compute, void *context,
                       mica_token *token) {
    mica_token next = {.id = -1, .text = ""};
    bool found = false;
    mica_finish stopped = MICA_FINISH_NONE;
    if (answer->echo) return echo(answer, token);
    if (mc_answer_is_full(answer)) return end(answer, MICA_FINISH_LENGTH, token);
    mica_status status = compute_token(answer, compute, context, &next, &stopped);
    if (status == MICA_OK && stopped != MICA_FINISH_NONE) return end(answer, stopped, token);
    if (status == MICA_OK && mc_answer_stops_at(answer, next.id))
        return end(answer, MICA_FINISH_STOP, token);
    if (status == MICA_OK) status = decode_text(answer, &next, &found);
    if (status != MICA_OK) return fail(answer, status);
    *token = next;
    answer->generated++;
    if (found) {
        answer->ended = true;
        answer->finish = MICA_FINISH_STOP;
    }
    return true;
}

bool mc_answer_next(mc_answer *answer, mc_answer_compute compute, void *context,
                    mica_token *token) {
    *token = (mica_token){.id = -1, .text = ""};
    if (answer->ended) return false;
    bool given = next_token(answer, compute, context, token);
    if (answer->ended) answer->ended_us = mc_now_us();
    return given;
}
