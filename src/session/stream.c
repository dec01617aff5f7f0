#include "session/stream.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "base/system.h"
#include "session/draft.h"
#include "session/stop_text.h"

#include <stdatomic.h>
#include <string.h>

enum { DRAFT_TOKENS = 7 }; /* the default with a draft model */

struct mc_stream {
    mc_session *session;
    uint64_t number; /* session->streams when this stream began; 0: it has not begun */
    mc_tokens text;  /* prompt, then answer; holds the whole prompt until that is computed */
    mc_buffer stops; /* int32 */
    mc_buffer bias;  /* mica_logit_bias */
    mc_stop_text stop_text;
    mc_sampler sampler;
    mc_draft draft;
    int64_t draft_tokens;         /* max guesses of a pass; 0: none */
    mica_decoder_stream *decoder; /* NULL: tokens have no text */
    int64_t prompt;               /* tokens of the prompt */
    int64_t min_tokens, max_tokens;
    bool logprobs;
    size_t top_logprobs;
    mica_progress progress;
    void *progress_user;
    atomic_bool cancelled;
    mica_finish finish; /* why it ends; text held back may still follow */
    mica_status status;
    bool ended;   /* all text was handed out */
    int64_t echo; /* prompt tokens still to be handed out */
    /* Tokens: truncated from the prompt; reused from the cache; handed out; decoded after the
     * first; guessed and computed; guessed right. */
    int64_t truncated, reused, generated, decoded, drafted, accepted;
    uint64_t prefill_us, decode_us;
};

/* ---- opening ---- */

/* How many tokens of a prompt of n are kept if it may be truncated. */
static int64_t truncated_length(int64_t n, int64_t room, int64_t max_tokens) {
    int64_t half = (room + 1) / 2, max = half;
    if (!max_tokens && n <= room) return n;
    if (max_tokens && max_tokens <= room + 1 - half) max = room + 1 - max_tokens;
    return n < max ? n : max;
}

/* Checks the prompt and takes it, truncated if that is asked for. */
static mica_status take_prompt(mc_stream *stream, const int32_t *ids, size_t n,
                               const mica_generate_options *options) {
    const mc_decoder_spec *spec = &stream->session->model->lm->spec;
    int64_t room = mc_session_room(stream->session), kept = (int64_t)n;
    if (n == 0) return mc_fail(MICA_EINVAL, "the prompt is empty: give at least one token");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= spec->vocab)
            return mc_fail(MICA_EINVAL,
                           "token %zu of the prompt is %d; the model's vocabulary is 0 to %lld", i,
                           (int)ids[i], (long long)spec->vocab - 1);
    if (options->truncate) kept = truncated_length(kept, room, options->max_tokens);
    if (kept > room)
        return mc_fail(MICA_ECONTEXT,
                       "the prompt has %zu tokens, the model's context %lld: shorten the prompt, "
                       "or truncate it",
                       n, (long long)room);
    if (!mc_tokens_reserve(&stream->text, kept)) return mc_fail_nomem("a stream");
    (void)mc_tokens_add(&stream->text, ids, 1);
    (void)mc_tokens_add(&stream->text, ids + n - (size_t)(kept - 1), kept - 1);
    stream->prompt = kept;
    stream->truncated = (int64_t)n - kept;
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
    if (o->draft_tokens < 0 || o->draft_tokens > MC_DRAFT_MAX)
        return mc_fail(MICA_EINVAL, "draft_tokens %d: want 1 to %d, or 0 for none", o->draft_tokens,
                       MC_DRAFT_MAX);
    if (o->stop_count && !o->stop_ids)
        return mc_fail(MICA_EINVAL, "stop_ids is NULL, stop_count %zu", o->stop_count);
    return MICA_OK;
}

static mica_status take_stops(mc_stream *stream, const mica_generate_options *options) {
    const mc_session_model *model = stream->session->model;
    size_t id = sizeof(int32_t);
    if (!mc_buffer_add(&stream->stops, options->stop_ids, options->stop_count * id) ||
        (!options->ignore_eos &&
         !mc_buffer_add(&stream->stops, model->stop_ids, model->stop_count * id)))
        return mc_fail_nomem("a stream");
    MC_TRY(
        mc_stop_text_init(&stream->stop_text, options->stop_strings, options->stop_string_count));
    if (options->stop_string_count && !model->tokenizer)
        return mc_fail(MICA_EINVAL, "stop strings, but the model has no tokenizer");
    return MICA_OK;
}

static mica_status take_sampling(mc_stream *stream, const mica_generate_options *options) {
    mc_sampling sampling;
    MC_TRY(mc_sampling_check(options, stream->session->model->lm->spec.vocab, &sampling));
    if (!mc_buffer_add(&stream->bias, sampling.bias, sampling.bias_count * sizeof *sampling.bias))
        return mc_fail_nomem("a stream");
    sampling.bias = MC_BUFFER_AT(&stream->bias, mica_logit_bias);
    mc_sampler_init(&stream->sampler, &sampling);
    return MICA_OK;
}

static mica_status open_parts(mc_stream *stream, const int32_t *ids, size_t n,
                              const mica_generate_options *options) {
    const mc_session_model *model = stream->session->model;
    MC_TRY(check_counts(options));
    MC_TRY(take_prompt(stream, ids, n, options));
    MC_TRY(take_sampling(stream, options));
    MC_TRY(take_stops(stream, options));
    if (stream->session->history.limit)
        stream->text.limit = mc_max(stream->session->history.limit, options->penalty_window);
    stream->min_tokens = options->min_tokens;
    stream->max_tokens = options->max_tokens ? options->max_tokens : INT64_MAX;
    stream->top_logprobs = (size_t)options->top_logprobs;
    stream->logprobs = options->logprobs || options->top_logprobs;
    stream->draft_tokens = options->draft_tokens;
    if (!options->draft_tokens && stream->session->draft) stream->draft_tokens = DRAFT_TOKENS;
    mc_draft_init(&stream->draft, stream->session);
    stream->echo = options->echo ? stream->prompt : 0;
    stream->progress = options->progress;
    stream->progress_user = options->progress_user;
    if (!model->tokenizer) return MICA_OK;
    return mica_decoder_stream_open(model->tokenizer, true, &stream->decoder);
}

mica_status mc_stream_open(mc_session *session, const int32_t *ids, size_t n,
                           const mica_generate_options *options, mc_stream **out) {
    *out = NULL;
    mc_stream *stream = mc_calloc(1, sizeof *stream);
    if (!stream) return mc_fail_nomem("a stream");
    stream->session = session;
    atomic_init(&stream->cancelled, false);
    mica_status status =
        open_parts(stream, ids, n, options ? options : &(mica_generate_options){0});
    if (status == MICA_OK)
        *out = stream;
    else
        mc_stream_close(&stream);
    return status;
}

void mc_stream_close(mc_stream **stream) {
    if (!stream || !*stream) return;
    mica_decoder_stream_close(&(*stream)->decoder);
    mc_sampler_deinit(&(*stream)->sampler);
    mc_stop_text_deinit(&(*stream)->stop_text);
    mc_buffer_deinit(&(*stream)->bias);
    mc_tokens_deinit(&(*stream)->text);
    mc_buffer_deinit(&(*stream)->stops);
    mc_free(*stream);
    *stream = NULL;
}

void mc_stream_cancel(mc_stream *stream) {
    atomic_store_explicit(&stream->cancelled, true, memory_order_relaxed);
}

static mica_status check_cancelled(const mc_stream *stream) {
    if (!atomic_load_explicit(&stream->cancelled, memory_order_relaxed)) return MICA_OK;
    return mc_fail(MICA_ECANCELLED, "the answer was cancelled");
}

/* ---- computing ---- */

/* How many tokens of the answer the caches get room for with the prompt: as many as a pass may
 * bring. Without that room the first of them would copy full buffers. The last token drawn is never
 * computed. */
static int64_t answer_begun(const mc_stream *stream, const mc_session *session) {
    int64_t n = stream->max_tokens - 1, room = mc_session_room(session) - stream->prompt;
    if (n > room) n = room;
    return n < MC_MAX_AHEAD ? n : MC_MAX_AHEAD;
}

/* Computes the prompt in chunks, without the prefix that the session has already seen. The session
 * is the stream's or its draft model's. */
static mica_status read_prompt(mc_stream *stream, mc_session *session, int64_t *reused,
                               const float **logits) {
    const int32_t *ids = MC_BUFFER_AT(&stream->text.ids, int32_t);
    int64_t at = mc_session_reuse_text(session, &stream->text);
    *reused = at;
    session->to_come += answer_begun(stream, session);
    while (at < stream->prompt) {
        int64_t n = stream->prompt - at;
        if (n > session->chunk) n = session->chunk;
        bool last = at + n == stream->prompt;
        MC_TRY(check_cancelled(stream));
        MC_TRY(mc_session_feed(session, ids + at, n, last ? logits : NULL));
        at += n;
        if (stream->progress && session == stream->session)
            stream->progress(stream->progress_user, (uint64_t)at, (uint64_t)stream->prompt);
    }
    return MICA_OK;
}

static mica_status prefill(mc_stream *stream, const float **logits) {
    mc_session *draft = stream->session->draft;
    int64_t unused;
    MC_TRY(read_prompt(stream, stream->session, &stream->reused, logits));
    if (!draft || stream->prompt > mc_session_room(draft)) return MICA_OK;
    mica_status status = read_prompt(stream, draft, &unused, NULL);
    if (status == MICA_OK || status == MICA_ECANCELLED) return status;
    stream->draft.model = NULL; /* an answer needs no guesses */
    return MICA_OK;
}

/* Whether the best token is enough, without logits. */
static bool is_greedy(const mc_stream *stream) {
    return mc_sampling_is_greedy(&stream->sampler.params) && !stream->min_tokens &&
           !stream->logprobs;
}

static mica_status begin(mc_stream *stream, const float **logits) {
    uint64_t start = mc_now_us();
    stream->number = ++stream->session->streams;
    stream->session->greedy = is_greedy(stream);
    mica_status status = prefill(stream, logits);
    stream->prefill_us = mc_now_us() - start;
    return status;
}

/* Guesses the tokens after the last one, and computes them with it. A right guess is drawn later
 * from the logits that it would have got alone, so nothing else shows that it was guessed. */
static mica_status look_ahead(mc_stream *stream) {
    int32_t ahead[MC_MAX_AHEAD];
    int64_t left = stream->max_tokens - stream->generated, room = mc_session_room(stream->session);
    int64_t max = stream->draft_tokens;
    if (max > left - 1) max = left - 1;
    if (max > room - mc_tokens_count(&stream->text)) max = room - mc_tokens_count(&stream->text);
    int64_t count = mc_draft_make(&stream->draft, &stream->text, max);
    if (count == 0) return MICA_OK;
    ahead[0] = mc_tokens_last(&stream->text);
    memcpy(ahead + 1, stream->draft.ids, (size_t)count * sizeof *ahead);
    stream->drafted += count;
    return mc_session_look_ahead(stream->session, ahead, count + 1);
}

/* Computes the token handed out last, unless it is computed already. */
static mica_status step(mc_stream *stream, const float **logits) {
    int32_t last = mc_tokens_last(&stream->text);
    if (mc_session_knows(stream->session, last))
        stream->accepted += stream->drafted > 0; /* without guesses, a batch computed it */
    else if (stream->draft_tokens)
        MC_TRY(look_ahead(stream));
    return mc_session_feed(stream->session, &last, 1, logits);
}

/* Draws a token from the session's logits. */
static mica_status draw_from(mc_stream *stream, mica_token *token) {
    float *logits = mc_session_logits(stream->session);
    int64_t vocab = stream->session->model->lm->spec.vocab;
    mc_sampler *sampler = &stream->sampler;
    bool early = stream->generated < stream->min_tokens;
    sampler->banned = MC_BUFFER_AT(&stream->stops, int32_t);
    sampler->banned_count = early ? MC_BUFFER_COUNT(&stream->stops, int32_t) : 0;
    const mc_buffer *text = &stream->text.ids;
    MC_TRY(mc_sampler_draw(sampler, logits, vocab, MC_BUFFER_AT(text, int32_t),
                           MC_BUFFER_COUNT(text, int32_t), &token->id));
    if (stream->logprobs)
        MC_TRY(mc_sampler_logprobs(sampler, logits, vocab, token->id, stream->top_logprobs,
                                   &token->logprob, &token->alternatives,
                                   &token->alternative_count));
    return MICA_OK;
}

static mica_status draw(mc_stream *stream, mica_token *token) {
    const mc_best *best = mc_session_best(stream->session);
    if (best) {
        MC_TRY(mc_sampling_check_best(best->logit));
        token->id = best->id;
    } else {
        MC_TRY(draw_from(stream, token));
    }
    if (!mc_tokens_add(&stream->text, &token->id, 1)) return mc_fail_nomem("a stream's tokens");
    return MICA_OK;
}

static mica_status compute(mc_stream *stream, mica_token *token) {
    const float *logits = NULL;
    MC_TRY(check_cancelled(stream));
    if (!stream->number) {
        MC_TRY(begin(stream, &logits));
        return draw(stream, token);
    }
    if (stream->number != stream->session->streams)
        return mc_fail(MICA_EINVAL,
                       "the session was reset, or another answer of it has begun: this "
                       "one is over");
    uint64_t start = mc_now_us();
    MC_TRY(step(stream, &logits));
    MC_TRY(draw(stream, token));
    stream->decode_us += mc_now_us() - start;
    stream->decoded++;
    return MICA_OK;
}

/* ---- handing out ---- */

static bool stops_at(const mc_stream *stream, int32_t id) {
    const int32_t *stops = MC_BUFFER_AT(&stream->stops, int32_t);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&stream->stops, int32_t); i++)
        if (stops[i] == id) return true;
    return false;
}

static bool fail(mc_stream *stream, mica_status status) {
    stream->status = status;
    stream->finish = status == MICA_ECANCELLED ? MICA_FINISH_CANCELLED : MICA_FINISH_ERROR;
    stream->ended = true;
    return false;
}

/* Searches a token's text for stop strings. */
static mica_status look_for_stops(mc_stream *stream, mica_token *token, mc_stop_mode mode,
                                  bool *found) {
    *found = false;
    if (!stream->stop_text.count) return MICA_OK;
    return mc_stop_text_push(&stream->stop_text, token->text, token->len, mode, &token->text,
                             &token->len, found);
}

/* Ends a whole answer. Text that was held back is handed out first. */
static bool end(mc_stream *stream, mica_finish finish, mica_token *token) {
    mica_status status = MICA_OK;
    bool found = false;
    *token = (mica_token){.id = -1, .text = ""};
    stream->ended = true;
    if (stream->decoder)
        status = mica_decoder_stream_flush(stream->decoder, &token->text, &token->len);
    if (status == MICA_OK) status = look_for_stops(stream, token, MC_STOPS_LAST, &found);
    if (status != MICA_OK) return fail(stream, status);
    stream->finish = found ? MICA_FINISH_STOP : finish;
    return token->len > 0;
}

/* Decodes the text of a new token. */
static mica_status decode_text(mc_stream *stream, mica_token *token, bool *found) {
    bool early = stream->generated < stream->min_tokens;
    if (stream->decoder)
        MC_TRY(mica_decoder_stream_push(stream->decoder, token->id, &token->text, &token->len));
    return look_for_stops(stream, token, early ? MC_STOPS_IGNORED : MC_STOPS_ON, found);
}

/* Hands out a token of the prompt. */
static bool echo(mc_stream *stream, mica_token *token) {
    token->id = MC_BUFFER_AT(&stream->text.ids, int32_t)[stream->prompt - stream->echo];
    token->prompt = true;
    mica_status status = check_cancelled(stream);
    if (status == MICA_OK && stream->decoder)
        status = mica_decoder_stream_push(stream->decoder, token->id, &token->text, &token->len);
    if (status != MICA_OK) return fail(stream, status);
    stream->echo--;
    return true;
}

/* Whether max_tokens or the end of the context is reached. */
static bool is_full(const mc_stream *stream) {
    return stream->generated >= stream->max_tokens ||
           stream->prompt + stream->generated > mc_session_room(stream->session);
}

bool mc_stream_pending(const mc_stream *stream, int32_t *id) {
    if (!stream->number || stream->number != stream->session->streams ||
        mc_session_is_ahead(stream->session) || stream->ended || is_full(stream) ||
        atomic_load_explicit(&stream->cancelled, memory_order_relaxed))
        return false;
    *id = mc_tokens_last(&stream->text);
    return true;
}

bool mc_stream_next(mc_stream *stream, mica_token *token) {
    mica_token next = {.id = -1, .text = ""};
    bool found = false;
    *token = next;
    if (stream->ended) return false;
    if (stream->echo) return echo(stream, token);
    if (is_full(stream)) return end(stream, MICA_FINISH_LENGTH, token);
    mica_status status = compute(stream, &next);
    if (status == MICA_OK && stops_at(stream, next.id)) return end(stream, MICA_FINISH_STOP, token);
    if (status == MICA_OK) status = decode_text(stream, &next, &found);
    if (status != MICA_OK) return fail(stream, status);
    *token = next;
    if (found) {
        stream->ended = true;
        stream->finish = MICA_FINISH_STOP;
        *token = (mica_token){.id = -1, .text = next.text, .len = next.len};
        return next.len > 0;
    }
    stream->generated++;
    return true;
}

mica_finish mc_stream_finish(const mc_stream *stream) {
    return stream->finish;
}

mica_status mc_stream_status(const mc_stream *stream) {
    return stream->status;
}

static double rate(int64_t tokens, uint64_t us) {
    return us ? (double)tokens * 1e6 / (double)us : 0.0;
}

/* How many tokens the context has dropped. */
static int64_t forgotten(const mc_stream *stream) {
    int64_t context = stream->session->model->context;
    return context ? mc_max(0, stream->prompt + stream->generated - context) : 0;
}

mica_metrics mc_stream_metrics(const mc_stream *stream) {
    const mica_device *device = stream->session->model->device;
    return (mica_metrics){
        .prompt_tokens = stream->prompt,
        .reused_tokens = stream->reused,
        .truncated_tokens = stream->truncated,
        .forgotten_tokens = forgotten(stream),
        .generated_tokens = stream->generated,
        .drafted_tokens = stream->drafted,
        .accepted_tokens = stream->accepted,
        .prefill_seconds = (double)stream->prefill_us * 1e-6,
        .decode_seconds = (double)stream->decode_us * 1e-6,
        .prefill_rate = rate(stream->prompt - stream->reused, stream->prefill_us),
        .decode_rate = rate(stream->decoded, stream->decode_us),
        .active_bytes = mica_device_active_bytes(device),
        .peak_bytes = mica_device_peak_bytes(device),
        .fallback_ops = mica_device_fallback_ops(device),
    };
}
