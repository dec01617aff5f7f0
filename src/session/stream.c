#include "session/stream.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "base/system.h"
#include "session/draft.h"

#include <string.h>

enum { DRAFT_TOKENS = 7 }; /* the default with a draft model */

struct mc_stream {
    mc_session *session;
    uint64_t number; /* session->streams when this stream began to read; 0: not yet */
    int64_t read;    /* tokens of the text that the session has, while it is read */
    bool drawing;    /* the text was read: tokens are drawn, and computed one by one */
    mc_answer answer;
    mc_buffer bias; /* mica_logit_bias */
    mc_sampler sampler;
    mc_constraint *constraint; /* NULL: none */
    mc_buffer allowed;         /* uint32: of the constraint's mask */
    mc_mask_worker *worker;    /* NULL: none. Borrowed */
    mc_mask_job mask;
    mc_draft draft;
    int64_t draft_tokens; /* max guesses of a pass; 0: none */
    bool shared;          /* mc_stream_share */
    bool logprobs;
    size_t top_logprobs;
    int in_vain; /* how many more draws than others needed more than the largest logits */
    int missed;  /* the device's draws that were wrong, MISS each, less those that were right */
    mica_progress progress;
    void *progress_user;
    /* Tokens: reused from the cache; decoded after the first; guessed and computed; guessed
     * right. */
    int64_t reused, decoded, drafted, accepted;
    uint64_t prefill_us, decode_us;
};

/* ---- opening ---- */

static mica_status check_drafts(const mica_generate_options *o) {
    if (o->draft_tokens < 0 || o->draft_tokens > MC_DRAFT_MAX)
        return mc_fail(MICA_EINVAL, "draft_tokens %d: want 1 to %d, or 0 for none", o->draft_tokens,
                       MC_DRAFT_MAX);
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
    const mc_answer_model said = {
        .vocab = model->lm->spec.vocab,
        .room = mc_session_room(stream->session),
        .stop_ids = model->stop_ids,
        .stop_count = model->stop_count,
        .tokenizer = model->tokenizer,
    };
    MC_TRY(check_drafts(options));
    MC_TRY(mc_answer_open(&stream->answer, &said, ids, n, options));
    MC_TRY(take_sampling(stream, options));
    if (stream->session->history.limit)
        stream->answer.text.limit = mc_max(stream->session->history.limit, options->penalty_window);
    stream->top_logprobs = (size_t)options->top_logprobs;
    stream->logprobs = options->logprobs || options->top_logprobs;
    stream->draft_tokens = options->draft_tokens;
    if (!options->draft_tokens && stream->session->draft) stream->draft_tokens = DRAFT_TOKENS;
    mc_draft_init(&stream->draft, stream->session);
    stream->progress = options->progress;
    stream->progress_user = options->progress_user;
    return MICA_OK;
}

mica_status mc_stream_open(mc_session *session, const int32_t *ids, size_t n,
                           const mica_generate_options *options, mc_stream **out) {
    *out = NULL;
    mc_stream *stream = mc_calloc(1, sizeof *stream);
    if (!stream) return mc_fail_nomem("a stream");
    stream->session = session;
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
    mc_answer_close(&(*stream)->answer);
    mc_sampler_deinit(&(*stream)->sampler);
    if ((*stream)->worker) mc_mask_job_drop((*stream)->worker, &(*stream)->mask);
    mc_constraint_close(&(*stream)->constraint);
    mc_buffer_deinit(&(*stream)->allowed);
    mc_buffer_deinit(&(*stream)->bias);
    mc_free(*stream);
    *stream = NULL;
}

void mc_stream_share(mc_stream *stream, bool shared) {
    stream->shared = shared;
}

static mica_status take_constraint(mc_stream *stream, mc_constraint *constraint) {
    size_t bytes = ((size_t)stream->session->model->lm->spec.vocab + 31) / 32 * sizeof(uint32_t);
    if (stream->number || stream->constraint)
        return mc_fail(MICA_EINVAL, "a constraint: the answer has %s",
                       stream->number ? "begun" : "one already");
    if (!mc_buffer_reserve(&stream->allowed, bytes)) return mc_fail_nomem("a constraint");
    stream->allowed.len = bytes;
    stream->mask.constraint = stream->constraint = constraint;
    stream->mask.mask = (mc_token_mask){.allowed = MC_BUFFER_AT(&stream->allowed, uint32_t),
                                        .vocab = (size_t)stream->session->model->lm->spec.vocab};
    return MICA_OK;
}

mica_status mc_stream_constrain(mc_stream *stream, mc_constraint *constraint,
                                mc_mask_worker *worker) {
    mica_status status = take_constraint(stream, constraint);
    if (status != MICA_OK)
        mc_constraint_close(&constraint);
    else
        stream->worker = worker;
    return status;
}

void mc_stream_mask_ahead(mc_stream *stream) {
    if (stream->worker) mc_mask_job_begin(stream->worker, &stream->mask);
}

void mc_stream_cancel(mc_stream *stream) {
    mc_answer_cancel(&stream->answer);
}

/* ---- computing ---- */

/* How many tokens of the answer the caches get room for with the prompt: as many as a pass may
 * bring. Without that room the first of them would copy full buffers. The last token drawn is never
 * computed. */
static int64_t answer_begun(const mc_stream *stream, const mc_session *session) {
    int64_t n = stream->answer.max_tokens - 1,
            room = mc_session_room(session) - stream->answer.prompt;
    if (n > room) n = room;
    return n < MC_MAX_AHEAD ? n : MC_MAX_AHEAD;
}

/* Whether the token that is computed now is likely to be followed by another. Drafts want to be
 * computed with their first token. */
static bool goes_on(const mc_stream *stream) {
    const mc_answer *answer = &stream->answer;
    return !stream->draft_tokens && answer->generated < answer->max_tokens - 1 &&
           answer->prompt + answer->generated < answer->room;
}

/* Whether the best token is enough, without logits. */
static bool is_greedy(const mc_stream *stream) {
    return mc_sampling_is_greedy(&stream->sampler.params) && !stream->answer.min_tokens &&
           !stream->logprobs && !stream->constraint;
}

/* Draws that may need whole rows before they are asked for at once. */
enum { MAX_IN_VAIN = 8 };

/* Whether the largest logits may be enough, and the others are costly to read. */
static bool takes_largest(const mc_stream *stream) {
    return stream->session->model->far_memory && stream->in_vain < MAX_IN_VAIN &&
           mc_sampling_takes_largest(&stream->sampler.params) && !stream->answer.min_tokens &&
           !stream->logprobs && !stream->constraint;
}

/* What a wrong draw of the device counts, over which a pass was computed in vain; and how much of
 * that there may be. */
enum { MISS = 4, MAX_MISSED = 16 };

/* Whether the device may draw tokens, too. It knows no masks of rows that are computed with
 * others: the step after one of them begins before they are there. */
static bool may_draw(const mc_stream *stream) {
    return stream->session->model->far_memory && !stream->draft_tokens &&
           stream->missed < MAX_MISSED && !(stream->shared && stream->constraint) &&
           mc_device_draw_can(&stream->sampler.params);
}

void mc_stream_plan_draw(mc_stream *stream, mc_device_draw *draw) {
    mc_sampler *sampler = &stream->sampler;
    const mc_buffer *text = &stream->answer.text.ids;
    bool early = stream->answer.generated < stream->answer.min_tokens;
    sampler->generated = (size_t)stream->answer.generated;
    sampler->banned = MC_BUFFER_AT(&stream->answer.stops, int32_t);
    sampler->banned_count = early ? MC_BUFFER_COUNT(&stream->answer.stops, int32_t) : 0;
    *draw = (mc_device_draw){sampler, MC_BUFFER_AT(text, int32_t), MC_BUFFER_COUNT(text, int32_t)};
    stream->session->draw = may_draw(stream) ? draw : NULL;
}

/* Before a token is fed that a pass of the stream's own may follow. */
static void plan_pass(mc_stream *stream, mc_device_draw *draw) {
    mc_stream_plan_draw(stream, draw);
    stream->session->follow = !stream->shared && goes_on(stream);
}

bool mc_stream_goes_on(const mc_stream *stream) {
    return goes_on(stream) && (stream->session->greedy || may_draw(stream));
}

/* Counts whether a pass follows over the token that was drawn. */
static void count_missed(mc_stream *stream, int32_t id) {
    const mc_session *session = stream->session;
    if (session->greedy || !(session->has_follower || session->followed)) return;
    if (session->chosen != id) stream->missed += MISS;
    if (session->chosen == id && stream->missed) stream->missed--;
}

/* The text to read: the prompt, and what was drawn before a pause. */
static int64_t text_length(const mc_stream *stream) {
    return mc_tokens_count(&stream->answer.text);
}

/* Computes up to `max` tokens of the text, from *at on. The session is the stream's or its draft
 * model's. */
static mica_status read_chunk(mc_stream *stream, mc_session *session, int64_t max, int64_t *at,
                              const float **logits) {
    const int32_t *ids = MC_BUFFER_AT(&stream->answer.text.ids, int32_t);
    int64_t n = mc_min(text_length(stream) - *at, mc_min(max, session->chunk));
    bool last = *at + n == text_length(stream);
    MC_TRY(mc_answer_check(&stream->answer));
    MC_TRY(mc_session_feed(session, ids + *at, n, last ? logits : NULL));
    *at += n;
    if (stream->progress && session == stream->session && *at <= stream->answer.prompt)
        stream->progress(stream->progress_user, (uint64_t)*at, (uint64_t)stream->answer.prompt);
    return MICA_OK;
}

/* Goes back to the prefix of the prompt that a session has already seen, and returns its length. */
static int64_t begin_prompt(const mc_stream *stream, mc_session *session) {
    int64_t reused = mc_session_reuse_text(session, &stream->answer.text);
    mc_session_expect(session, answer_begun(stream, session));
    return reused;
}

static void begin(mc_stream *stream) {
    stream->number = ++stream->session->streams;
    stream->session->greedy = is_greedy(stream);
    stream->session->largest = takes_largest(stream);
    stream->read = begin_prompt(stream, stream->session);
    if (!stream->answer.generated) stream->reused = stream->read;
}

/* The draft model's session reads the prompt, too. */
static mica_status prefill_draft(mc_stream *stream) {
    mc_session *draft = stream->session->draft;
    if (!draft || stream->answer.prompt > mc_session_room(draft)) return MICA_OK;
    int64_t at = begin_prompt(stream, draft);
    mica_status status = MICA_OK;
    while (status == MICA_OK && at < text_length(stream))
        status = read_chunk(stream, draft, draft->chunk, &at, NULL);
    if (status == MICA_OK || status == MICA_ECANCELLED) return status;
    stream->draft.model = NULL; /* an answer needs no guesses */
    return MICA_OK;
}

static mica_status check_number(const mc_stream *stream) {
    if (stream->number == stream->session->streams) return MICA_OK;
    return mc_fail(MICA_EINVAL, "the session was reset, or another answer of it has begun: this "
                                "one is over");
}

mica_status mc_stream_read(mc_stream *stream, int64_t max, int64_t *left) {
    mc_device_draw draw;
    uint64_t start = mc_now_us();
    const float *logits = NULL;
    mica_status status = MICA_OK;
    *left = 0;
    if (stream->drawing) return MICA_OK;
    if (max > 0) MC_TRY(mc_answer_check(&stream->answer)); /* before copied caches come back */
    if (!stream->number) begin(stream);
    MC_TRY(check_number(stream));
    plan_pass(stream, &draw);
    if (max > 0 && stream->read < text_length(stream))
        status = read_chunk(stream, stream->session, max, &stream->read, &logits);
    stream->session->draw = NULL;
    *left = text_length(stream) - stream->read;
    stream->prefill_us += mc_now_us() - start;
    return status;
}

bool mc_stream_pause(mc_stream *stream) {
    if (stream->answer.text.start) return false;
    mc_session_swap_out(stream->session);
    stream->number = 0;
    stream->drawing = false;
    return true;
}

/* Reads what is left of the text. */
static mica_status prefill(mc_stream *stream) {
    int64_t left;
    do
        MC_TRY(mc_stream_read(stream, INT64_MAX, &left));
    while (left);
    uint64_t start = mc_now_us();
    mica_status status = prefill_draft(stream);
    stream->prefill_us += mc_now_us() - start;
    return status;
}

int64_t mc_stream_guess(mc_stream *stream, int64_t max, int64_t rows, int32_t *ids) {
    int64_t left = stream->answer.max_tokens - stream->answer.generated,
            room = mc_session_room(stream->session) - mc_tokens_count(&stream->answer.text);
    max = mc_min(mc_min(max, stream->draft_tokens), mc_min(left - 1, room));
    if (!stream->draft_tokens) return 0;
    int64_t count = mc_draft_make(&stream->draft, &stream->answer.text, max, rows);
    memcpy(ids, stream->draft.ids, (size_t)count * sizeof *ids);
    stream->drafted += count;
    return count;
}

/* Guesses the tokens after the last one, and computes them with it. A right guess is drawn later
 * from the logits that it would have got alone, so nothing else shows that it was guessed. */
static mica_status look_ahead(mc_stream *stream) {
    int32_t ahead[MC_MAX_AHEAD];
    int64_t count = mc_stream_guess(stream, MC_DRAFT_MAX, 1, ahead + 1);
    if (count == 0) return MICA_OK;
    ahead[0] = mc_tokens_last(&stream->answer.text);
    return mc_session_look_ahead(stream->session, ahead, count + 1);
}

/* Computes the token handed out last, unless it is computed already. */
static mica_status step(mc_stream *stream, const float **logits) {
    int32_t last = mc_tokens_last(&stream->answer.text);
    if (mc_session_knows(stream->session, last))
        stream->accepted += stream->session->taken > 0; /* the first one ahead was no guess */
    else if (stream->draft_tokens)
        MC_TRY(look_ahead(stream));
    return mc_session_feed(stream->session, &last, 1, logits);
}

/* Whether any bit of an id is set. */
static bool allows_some(const uint32_t *allowed, size_t vocab) {
    uint32_t rest = vocab % 32 ? allowed[vocab / 32] & ((1u << vocab % 32) - 1) : 0;
    for (size_t i = 0; i < vocab / 32; i++)
        rest |= allowed[i];
    return rest != 0;
}

/* Gives or takes the bits of the stop ids. */
static void allow_stops(const mc_stream *stream, bool allow) {
    const mc_token_mask *mask = &stream->mask.mask;
    const int32_t *stops = MC_BUFFER_AT(&stream->answer.stops, int32_t);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&stream->answer.stops, int32_t); i++) {
        if (stops[i] < 0 || (size_t)stops[i] >= mask->vocab) continue;
        uint32_t bit = 1u << stops[i] % 32, *word = &mask->allowed[stops[i] / 32];
        *word = allow ? *word | bit : *word & ~bit;
    }
}

/* Asks the constraint which tokens may come next, for the sampler. *end is set if none may but the
 * answer may end. */
static mica_status ask_constraint(mc_stream *stream, mica_finish *end) {
    mc_token_mask *mask = &stream->mask.mask;
    if (!stream->constraint) return MICA_OK;
    MC_TRY(stream->worker ? mc_mask_job_finish(stream->worker, &stream->mask)
                          : stream->constraint->ops->mask(stream->constraint, mask));
    stream->sampler.allowed = mask->all && mask->may_end ? NULL : mask->allowed;
    if (!stream->sampler.allowed) return MICA_OK;
    if (mask->all) memset(mask->allowed, 0xff, stream->allowed.len);
    allow_stops(stream, false);
    if (!allows_some(mask->allowed, mask->vocab)) {
        if (!mask->may_end)
            return mc_fail(MICA_EINVAL,
                           "the constraint allows no token, and no end, after %lld "
                           "tokens of the answer",
                           (long long)stream->answer.generated);
        *end = MICA_FINISH_STOP;
    }
    if (mask->may_end) allow_stops(stream, true);
    return MICA_OK;
}

/* Draws a token from the largest of the session's logits, or else reads them all from where they
 * are. */
static mica_status draw_from_largest(mc_stream *stream, mica_token *token, float **logits,
                                     bool *done) {
    const mc_largest *largest = mc_session_largest(stream->session);
    *done = false;
    if (!largest) return MICA_OK;
    MC_TRY(mc_sampler_draw_largest(&stream->sampler, largest, &token->id, done));
    if (!*done) stream->in_vain++;
    if (*done && stream->in_vain > 0) stream->in_vain--;
    stream->session->largest = takes_largest(stream);
    return *done ? MICA_OK : mc_session_read_row(stream->session, logits);
}

/* Draws a token from the session's logits. */
static mica_status draw_from(mc_stream *stream, mica_token *token) {
    float *logits = mc_session_logits(stream->session);
    bool done;
    int64_t vocab = stream->session->model->lm->spec.vocab;
    mc_sampler *sampler = &stream->sampler;
    const mc_buffer *text = &stream->answer.text.ids;
    MC_TRY(draw_from_largest(stream, token, &logits, &done));
    if (done) return MICA_OK;
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
        count_missed(stream, token->id);
    }
    if (!stream->constraint || mc_answer_stops_at(&stream->answer, token->id)) return MICA_OK;
    return stream->constraint->ops->accept(stream->constraint, token->id);
}

/* mc_answer_compute */
static mica_status compute(void *context, mica_token *token, mica_finish *end) {
    mc_stream *stream = context;
    const float *logits = NULL;
    mc_device_draw plan;
    MC_TRY(ask_constraint(stream, end));
    if (*end != MICA_FINISH_NONE) return MICA_OK;
    if (!stream->drawing) {
        MC_TRY(prefill(stream));
        stream->drawing = true;
        return draw(stream, token);
    }
    MC_TRY(check_number(stream));
    uint64_t start = mc_now_us();
    plan_pass(stream, &plan);
    mica_status status = step(stream, &logits);
    stream->session->draw = NULL;
    MC_TRY(status);
    MC_TRY(draw(stream, token));
    stream->decode_us += mc_now_us() - start;
    stream->decoded++;
    return MICA_OK;
}

bool mc_stream_pending(const mc_stream *stream, int32_t *id) {
    *id = mc_tokens_last(&stream->answer.text);
    return stream->drawing && stream->number == stream->session->streams &&
           !mc_session_knows(stream->session, *id) && !stream->answer.ended &&
           !mc_answer_is_full(&stream->answer) && !mc_answer_is_cancelled(&stream->answer);
}

bool mc_stream_next(mc_stream *stream, mica_token *token) {
    return mc_answer_next(&stream->answer, compute, stream, token);
}

mica_finish mc_stream_finish(const mc_stream *stream) {
    return stream->answer.finish;
}

mica_status mc_stream_status(const mc_stream *stream) {
    return stream->answer.status;
}

static double rate(int64_t tokens, uint64_t us) {
    return us ? (double)tokens * 1e6 / (double)us : 0.0;
}

/* How many tokens the context has dropped. */
static int64_t forgotten(const mc_stream *stream) {
    int64_t context = stream->session->model->context;
    return context ? mc_max(0, stream->answer.prompt + stream->answer.generated - context) : 0;
}

mica_metrics mc_stream_metrics(const mc_stream *stream) {
    const mica_device *device = stream->session->model->device;
    return (mica_metrics){
        .prompt_tokens = stream->answer.prompt,
        .reused_tokens = stream->reused,
        .truncated_tokens = stream->answer.truncated,
        .forgotten_tokens = forgotten(stream),
        .generated_tokens = stream->answer.generated,
        .drafted_tokens = stream->drafted,
        .accepted_tokens = stream->accepted,
        .prefill_seconds = (double)stream->prefill_us * 1e-6,
        .decode_seconds = (double)stream->decode_us * 1e-6,
        .prefill_rate = rate(stream->answer.prompt - stream->reused, stream->prefill_us),
        .decode_rate = rate(stream->decoded, stream->decode_us),
        .active_bytes = mica_device_active_bytes(device),
        .peak_bytes = mica_device_peak_bytes(device),
        .fallback_ops = mica_device_fallback_ops(device),
        .total_seconds = mc_answer_seconds(&stream->answer),
    };
}
