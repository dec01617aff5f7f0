/* Streams: what they hand out, why they end, what they refuse. Their text is tested with the
 * engine. */
#include "model/fixture.h"

#include "session/stream.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static model_fixture fixture; /* gemma3_text_f32: vocabulary 558 */
static const int32_t *prompt; /* prompt1, 7 tokens */
static const int32_t *golden; /* its 24 greedy tokens */
static mica_tokenizer *tokenizer;

static int open_fixture(void **state) {
    size_t n, steps;
    (void)state;
    fixture_open("gemma3_text_f32", &fixture);
    prompt = fixture_ints(&fixture, &n, "prompt1.ids");
    golden = fixture_ints(&fixture, &steps, "prompt1.greedy");
    if (mica_tokenizer_open(fixture.path, &tokenizer) != MICA_OK) return 1;
    return !(prompt && golden && n == 7 && steps == 24);
}

static int close_fixture(void **state) {
    (void)state;
    mica_tokenizer_close(&tokenizer);
    fixture_close(&fixture);
    return 0;
}

static mc_session_model shared_model(void) {
    return (mc_session_model){.lm = fixture.lm, .device = fixture.device};
}

static mc_session *open_session(const mc_session_model *shared) {
    mc_session *session;
    if (mc_session_open(shared, 0, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

static mc_stream *open_stream(mc_session *session, const int32_t *ids, size_t n,
                              mica_generate_options options) {
    mc_stream *stream;
    if (mc_stream_open(session, ids, n, &options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return stream;
}

/* Pulls all tokens; returns how many came. */
static size_t drain(mc_stream *stream, int32_t *ids, size_t room) {
    mica_token token;
    size_t n = 0;
    while (mc_stream_next(stream, &token)) {
        assert_true(n < room);
        ids[n++] = token.id;
    }
    return n;
}

static void test_greedy(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    int32_t ids[24];
    mica_token token;
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_NONE);
    assert_int_equal(drain(stream, ids, 24), 24);
    assert_memory_equal(ids, golden, sizeof ids);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_LENGTH);
    assert_int_equal(mc_stream_status(stream), MICA_OK);
    assert_false(mc_stream_next(stream, &token));

    mica_metrics metrics = mc_stream_metrics(stream);
    assert_int_equal(metrics.prompt_tokens, 7);
    assert_int_equal(metrics.reused_tokens, 0);
    assert_int_equal(metrics.generated_tokens, 24);
    assert_true(metrics.prefill_seconds > 0.0 && metrics.prefill_rate > 0.0);
    assert_true(metrics.decode_seconds > 0.0 && metrics.decode_rate > 0.0);
    assert_true(metrics.total_seconds >= metrics.prefill_seconds + metrics.decode_seconds);
    assert_true(mc_stream_metrics(stream).total_seconds == metrics.total_seconds);
    assert_true(metrics.active_bytes > 0 && metrics.peak_bytes >= metrics.active_bytes);
    mc_stream_close(&stream);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void test_stops(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    shared.stop_ids = &golden[5];
    shared.stop_count = 1;
    size_t first = 0, third = 0;
    while (golden[first] != golden[5])
        first++;
    while (golden[third] != golden[2])
        third++;
    mc_session *session = open_session(&shared);
    int32_t ids[24];

    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, ids, 24), first);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_STOP);
    mc_stream_close(&stream);

    stream = open_stream(session, prompt, 7,
                         (mica_generate_options){.max_tokens = 24, .ignore_eos = true});
    assert_int_equal(drain(stream, ids, 24), 24);
    mc_stream_close(&stream);

    stream = open_stream(session, prompt, 7,
                         (mica_generate_options){.stop_ids = &golden[2], .stop_count = 1});
    assert_int_equal(drain(stream, ids, 24), third);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_STOP);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* From logits of NaN nothing is drawn, greedily or not. */
static void test_broken_weights(void **state) {
    (void)state;
    mc_lm broken = *fixture.lm;
    mc_session_model shared = shared_model();
    mica_scope *s;
    mica_token token;
    assert_int_equal(mica_scope_open(fixture.device, &s), MICA_OK);
    broken.norm = mica_full(s, &broken.spec.hidden, 1, mica_f32(s, NAN));
    assert_int_equal(mica_eval(s, broken.norm), MICA_OK);
    shared.lm = &broken;
    mc_session *session = open_session(&shared);
    for (int drawn = 0; drawn < 2; drawn++) {
        mc_stream *stream =
            open_stream(session, prompt, 7, (mica_generate_options){.temperature = (float)drawn});
        assert_false(mc_stream_next(stream, &token));
        assert_int_equal(mc_stream_status(stream), MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), "not a number"));
        mc_stream_close(&stream);
    }
    mc_session_close(&session);
    mica_scope_close(&s);
}

/* Answers of one session alternate between greedy ones and others, which need logits. */
static void test_greedy_again(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    int32_t first[24], ids[24];
    const mica_generate_options drawn = {.max_tokens = 24, .temperature = 1.0f, .seed = 5};
    const mica_generate_options greedy[] = {
        {.max_tokens = 24}, {.max_tokens = 24, .logprobs = true}, {.max_tokens = 24, .top_k = 3}};
    for (int i = 0; i < 3; i++) {
        mc_stream *stream = open_stream(session, prompt, 7, greedy[i]);
        assert_int_equal(drain(stream, ids, 24), 24);
        assert_memory_equal(ids, golden, sizeof ids);
        mc_stream_close(&stream);
        stream = open_stream(session, prompt, 7, drawn);
        assert_int_equal(drain(stream, i ? ids : first, 24), 24);
        assert_memory_equal(i ? ids : first, first, sizeof ids);
        mc_stream_close(&stream);
    }
    mc_session_close(&session);
}

static void test_seeds(void **state) {
    (void)state;
    const mica_generate_options warm = {
        .max_tokens = 20, .temperature = 1.0f, .top_p = 0.95f, .seed = 11};
    mica_generate_options other = warm;
    other.seed = 12;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared), *second = open_session(&shared);
    int32_t a[20], b[20], c[20];
    mc_stream *stream = open_stream(session, prompt, 7, warm);
    assert_int_equal(drain(stream, a, 20), 20);
    mc_stream_close(&stream);
    stream = open_stream(second, prompt, 7, warm);
    assert_int_equal(drain(stream, b, 20), 20);
    mc_stream_close(&stream);
    stream = open_stream(second, prompt, 7, other);
    assert_int_equal(drain(stream, c, 20), 20);
    mc_stream_close(&stream);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    mc_session_close(&second);
    mc_session_close(&session);
}

/* A second turn computes only new tokens, and answers as a fresh session does. */
static void test_second_turn(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared), *fresh = open_session(&shared);
    int32_t text[7 + 24 + 7], answer[24], again[24];
    memcpy(text, prompt, 7 * sizeof *text);
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, text + 7, 24), 24);
    mc_stream_close(&stream);
    memcpy(text + 31, prompt, 7 * sizeof *text);

    stream = open_stream(session, text, 38, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, answer, 24), 24);
    /* the last token was not computed */
    assert_int_equal(mc_stream_metrics(stream).reused_tokens, 30);
    mc_stream_close(&stream);
    stream = open_stream(fresh, text, 38, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, again, 24), 24);
    assert_int_equal(mc_stream_metrics(stream).reused_tokens, 0);
    mc_stream_close(&stream);
    assert_memory_equal(answer, again, sizeof answer);
    mc_session_close(&fresh);
    mc_session_close(&session);
}

/* ---- text ---- */

/* A shared model with the fixture's tokenizer. */
static mc_session_model speaking_model(void) {
    mc_session_model shared = shared_model();
    shared.tokenizer = tokenizer;
    return shared;
}

/* Pulls all text into text [room], with a NUL after it; returns how many tokens came. */
static size_t speak(mc_stream *stream, char *text, size_t room) {
    mica_token token;
    size_t n = 0, len = 0;
    while (mc_stream_next(stream, &token)) {
        assert_true(len + token.len < room);
        assert_int_equal(token.text[token.len], 0);
        memcpy(text + len, token.text, token.len);
        len += token.len;
        n += token.id >= 0;
    }
    text[len] = '\0';
    return n;
}

static bool begins_character(char byte) {
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* Every piece of the answer as a stop string: the answer ends before it, and neither the string nor
 * text held back for it is handed out or lost. */
static void test_stop_strings(void **state) {
    (void)state;
    mc_session_model shared = speaking_model();
    mc_session *session = open_session(&shared);
    char whole[2000], text[2000], string[16];
    size_t ends[24], len = 0; /* ends: bytes up to the end of a token's text */
    mica_token token;
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    for (size_t i = 0; i < 24; i++) {
        assert_true(mc_stream_next(stream, &token) && len + token.len < sizeof whole);
        memcpy(whole + len, token.text, token.len);
        ends[i] = len += token.len;
    }
    whole[len] = '\0';
    mc_stream_close(&stream);
    for (size_t at = 0; at < len; at += 3)
        for (size_t n = 1; n <= 12 && at + n <= len; n += 4) {
            if (!begins_character(whole[at]) || !begins_character(whole[at + n])) continue;
            memcpy(string, whole + at, n);
            string[n] = '\0';
            const char *stops[] = {"never in an answer", string};
            stream =
                open_stream(session, prompt, 7,
                            (mica_generate_options){
                                .max_tokens = 24, .stop_strings = stops, .stop_string_count = 2});
            size_t tokens = speak(stream, text, sizeof text);
            size_t want = (size_t)(strstr(whole, string) - whole);
            assert_int_equal(strlen(text), want);
            assert_memory_equal(text, whole, want);
            /* The token that completes it is handed out, with its id, and counted. */
            size_t last = 0;
            while (ends[last] < want + n)
                last++;
            assert_int_equal(tokens, last + 1);
            assert_int_equal(mc_stream_metrics(stream).generated_tokens, tokens);
            assert_int_equal(mc_stream_finish(stream), MICA_FINISH_STOP);
            assert_int_equal(mc_stream_status(stream), MICA_OK);
            mc_stream_close(&stream);
        }
    mc_session_close(&session);
}

/* A stop string that is never completed: text held back is handed out at the end. */
static void test_unended_stop_string(void **state) {
    (void)state;
    mc_session_model shared = speaking_model();
    mc_session *session = open_session(&shared);
    char whole[2000], text[2000], endless[2000];
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    speak(stream, whole, sizeof whole);
    mc_stream_close(&stream);
    strcpy(endless, whole);
    strcat(endless, "\x01");
    const char *stops[] = {endless};
    stream = open_stream(
        session, prompt, 7,
        (mica_generate_options){.max_tokens = 24, .stop_strings = stops, .stop_string_count = 1});
    mica_token token;
    for (int i = 0; i < 24; i++) {
        assert_true(mc_stream_next(stream, &token));
        assert_int_equal(token.len, 0); /* all of it is held back */
    }
    assert_int_equal(speak(stream, text, sizeof text), 0);
    assert_string_equal(text, whole);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_LENGTH);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void test_echo(void **state) {
    (void)state;
    mc_session_model shared = speaking_model();
    mc_session *session = open_session(&shared);
    mc_stream *stream =
        open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24, .echo = true});
    char text[2000] = "", want[2000] = "";
    const char *piece;
    int32_t ids[31];
    size_t n = 0, len;
    for (mica_token token; mc_stream_next(stream, &token);) {
        if (token.id >= 0) {
            assert_int_equal(token.prompt, n < 7);
            ids[n++] = token.id;
        }
        strcat(text, token.text);
    }
    assert_int_equal(n, 31);
    assert_memory_equal(ids, prompt, 7 * sizeof *ids);
    assert_memory_equal(ids + 7, golden, 24 * sizeof *ids);
    mica_decoder_stream *decoder; /* one for both: the answer goes on where the prompt ends */
    assert_int_equal(mica_decoder_stream_open(tokenizer, true, &decoder), MICA_OK);
    for (size_t i = 0; i <= 31; i++) {
        if (i < 31)
            assert_int_equal(mica_decoder_stream_push(decoder, ids[i], &piece, &len), MICA_OK);
        else
            assert_int_equal(mica_decoder_stream_flush(decoder, &piece, &len), MICA_OK);
        strcat(want, piece);
    }
    mica_decoder_stream_close(&decoder);
    assert_string_equal(text, want);
    assert_int_equal(mc_stream_metrics(stream).generated_tokens, 24);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* ---- bans and log-probabilities ---- */

static void test_min_tokens(void **state) {
    (void)state;
    mc_session_model shared = speaking_model();
    mc_session *session = open_session(&shared);
    char whole[2000];
    int32_t ids[24];
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    speak(stream, whole, sizeof whole);
    mc_stream_close(&stream);

    stream =
        open_stream(session, prompt, 7,
                    (mica_generate_options){
                        .max_tokens = 24, .min_tokens = 10, .stop_ids = golden, .stop_count = 1});
    size_t n = drain(stream, ids, 24);
    assert_true(n >= 10);
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(ids[i], golden[0]);
    mc_stream_close(&stream);

    char first[2] = {whole[0], '\0'}; /* it comes with the first token, and may come again */
    const char *stops[] = {first};
    stream = open_stream(
        session, prompt, 7,
        (mica_generate_options){
            .max_tokens = 24, .min_tokens = 10, .stop_strings = stops, .stop_string_count = 1});
    n = drain(stream, ids, 24);
    assert_true(n >= 10);
    assert_memory_equal(ids, golden, 10 * sizeof *ids);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void test_logit_bias(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    int32_t ids[5];
    const mica_logit_bias bias[] = {{77, 1000.0f}};
    mc_stream *stream = open_stream(
        session, prompt, 7,
        (mica_generate_options){.max_tokens = 5, .logit_bias = bias, .logit_bias_count = 1});
    assert_int_equal(drain(stream, ids, 5), 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ids[i], 77);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* Compared with the softmax of the golden logits. A bias changes the token drawn, not the
 * logprobs. */
static void test_logprobs(void **state) {
    (void)state;
    enum { VOCAB = 558, TOP = 5 };
    const float *rows = fixture_floats(&fixture, NULL, "prompt3.greedy_logits");
    size_t n;
    const int32_t *ids = fixture_ints(&fixture, &n, "prompt3.ids");
    const mica_logit_bias bias[] = {{9, 1000.0f}};
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    for (int biased = 0; biased < 2; biased++) {
        mc_stream *stream =
            open_stream(session, ids, n,
                        (mica_generate_options){.max_tokens = biased ? 1 : 24,
                                                .top_logprobs = TOP,
                                                .logit_bias = bias,
                                                .logit_bias_count = (size_t)biased});
        const float *row = rows;
        for (mica_token token; mc_stream_next(stream, &token); row += VOCAB) {
            double total = 0.0;
            for (int i = 0; i < VOCAB; i++)
                total += exp((double)row[i]);
            assert_int_equal(token.alternative_count, TOP);
            if (biased) assert_int_equal(token.id, 9);
            if (!biased) assert_int_equal(token.alternatives[0].id, token.id);
            double want = (double)row[token.id] - log(total);
            assert_true(fabs((double)token.logprob - want) < 3.0 * fixture.tolerance);
            for (int i = 0; i < TOP; i++) {
                const mica_alternative *other = &token.alternatives[i];
                want = (double)row[other->id] - log(total);
                assert_true(fabs((double)other->logprob - want) < 3.0 * fixture.tolerance);
                if (i) assert_true(other->logprob <= other[-1].logprob);
            }
        }
        mc_stream_close(&stream);
    }
    mc_session_close(&session);
}

static void expect_refused(mc_session *session, const int32_t *ids, size_t n,
                           mica_generate_options options, mica_status status, const char *word) {
    mc_stream *stream;
    assert_int_equal(mc_stream_open(session, ids, n, &options, &stream), status);
    assert_null(stream);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
}

static void test_refusals(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    const int32_t past[] = {3, 558}, negative[] = {-1};
    expect_refused(session, prompt, 0, (mica_generate_options){0}, MICA_EINVAL, "empty");
    expect_refused(session, past, 2, (mica_generate_options){0}, MICA_EINVAL, "558");
    expect_refused(session, negative, 1, (mica_generate_options){0}, MICA_EINVAL, "-1");
    expect_refused(session, prompt, 7, (mica_generate_options){.max_tokens = -1}, MICA_EINVAL,
                   "max_tokens");
    expect_refused(session, prompt, 7, (mica_generate_options){.temperature = -1.0f}, MICA_EINVAL,
                   "temperature");
    expect_refused(session, prompt, 7, (mica_generate_options){.stop_count = 1}, MICA_EINVAL,
                   "stop_ids");
    expect_refused(session, prompt, 7, (mica_generate_options){.min_tokens = -1}, MICA_EINVAL,
                   "min_tokens");
    expect_refused(session, prompt, 7, (mica_generate_options){.min_tokens = 9, .max_tokens = 8},
                   MICA_EINVAL, "min_tokens 9: want 0 to max_tokens, 8");
    expect_refused(session, prompt, 7, (mica_generate_options){.top_logprobs = -1}, MICA_EINVAL,
                   "top_logprobs");
    expect_refused(session, prompt, 7, (mica_generate_options){.presence_penalty = NAN},
                   MICA_EINVAL, "presence_penalty");
    const mica_logit_bias bias = {558, 1.0f};
    expect_refused(session, prompt, 7,
                   (mica_generate_options){.logit_bias = &bias, .logit_bias_count = 1}, MICA_EINVAL,
                   "token 558");
    const char *stops[] = {"a", ""};
    expect_refused(session, prompt, 7,
                   (mica_generate_options){.stop_strings = stops, .stop_string_count = 2},
                   MICA_EINVAL, "stop string 1 is empty");
    expect_refused(session, prompt, 7,
                   (mica_generate_options){.stop_strings = stops, .stop_string_count = 1},
                   MICA_EINVAL, "tokenizer");
    mc_session_close(&session);
}

/* A truncated prompt gives the answer of a prompt of that length. */
static void check_truncated(mc_session *session, const int32_t *ids, size_t n, int64_t max_tokens,
                            size_t kept) {
    int32_t got[24], want[24], shorter[24];
    memcpy(shorter, ids, sizeof *ids);
    memcpy(shorter + 1, ids + n - (kept - 1), (kept - 1) * sizeof *ids);
    mc_stream *stream = open_stream(
        session, ids, n, (mica_generate_options){.max_tokens = max_tokens, .truncate = true});
    size_t count = drain(stream, got, 24);
    mica_metrics metrics = mc_stream_metrics(stream);
    assert_int_equal(metrics.prompt_tokens, kept);
    assert_int_equal(metrics.truncated_tokens, n - kept);
    mc_stream_close(&stream);
    stream = open_stream(session, shorter, kept, (mica_generate_options){.max_tokens = max_tokens});
    assert_int_equal(drain(stream, want, 24), count);
    assert_memory_equal(got, want, count * sizeof *got);
    mc_stream_close(&stream);
}

/* A context of 10 tokens: longer prompts are refused, answers end there. */
static void test_context(void **state) {
    (void)state;
    mc_lm lm = *fixture.lm;
    lm.spec.context = 10;
    mc_session_model shared = shared_model();
    shared.lm = &lm;
    mc_session *session = open_session(&shared);
    int32_t ids[24];
    size_t n;
    const int32_t *longer = fixture_ints(&fixture, &n, "prompt2.ids");
    expect_refused(session, longer, n, (mica_generate_options){0}, MICA_ECONTEXT,
                   "33 tokens, the model's context 10: shorten the prompt, or truncate it");
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){0});
    /* 10 are computed, and the last one gives another token */
    assert_int_equal(drain(stream, ids, 24), 4);
    assert_int_equal(mc_stream_metrics(stream).forgotten_tokens, 0);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_LENGTH);
    assert_memory_equal(ids, golden, 4 * sizeof *ids);
    mc_stream_close(&stream);
    mc_session_close(&session);

    shared.context = 0;
    session = open_session(&shared);
    check_truncated(session, longer, n, 4, 7);  /* 7 and the 3 that are computed fill the context */
    check_truncated(session, longer, n, 0, 5);  /* half of the context */
    check_truncated(session, longer, n, 24, 5); /* no less than half of the context */
    check_truncated(session, longer, 9, 0, 9);
    check_truncated(session, longer, 9, 3, 8);
    mc_session_close(&session);

    shared.context = 10; /* drops entries instead */
    session = open_session(&shared);
    stream = open_stream(session, longer, n, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(mc_stream_metrics(stream).forgotten_tokens, n - 10);
    assert_int_equal(drain(stream, ids, 24), 24);
    assert_int_equal(mc_stream_metrics(stream).forgotten_tokens, n + 24 - 10);
    assert_int_equal(mc_stream_metrics(stream).truncated_tokens, 0);
    mc_stream_close(&stream);
    stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 4});
    mica_token token;
    for (int64_t i = 1; mc_stream_next(stream, &token); i++)
        assert_int_equal(mc_stream_metrics(stream).forgotten_tokens, i < 4 ? 0 : 1);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* Of a prompt's tokens at once, where a device takes many unless told: caches have room for one
 * beside the window, and are not enlarged behind token `early`. */
enum { CHUNK = 64 };

/* Heap bytes after an answer's token `early`, and after its last one. */
static void measure_answer(const mc_session_model *shared, const mica_generate_options *options,
                           int64_t early, size_t bytes[2]) {
    mc_session *session;
    int chunk = test_device_rounds_prompts() ? CHUNK : 0;
    assert_int_equal(mc_session_open(shared, chunk, &session), MICA_OK);
    mc_stream *stream = open_stream(session, prompt, 7, *options);
    mica_token token;
    for (int64_t i = 1; mc_stream_next(stream, &token); i++)
        if (i == early) bytes[0] = test_heap_bytes();
    assert_int_equal(mc_stream_metrics(stream).generated_tokens, options->max_tokens);
    bytes[1] = test_heap_bytes();
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* With a sliding context, memory after 9,000 tokens is that after 3,000: session and stream keep
 * only the last ones. */
static void test_an_endless_answer_is_flat(void **state) {
    (void)state;
    /* Others take their time, and MLX most of all. */
    const int64_t early = !test_device_is_other() ? 3000 : test_device_keeps_order() ? 900 : 200;
    const mica_generate_options options[] = {
        {.max_tokens = 3 * early},
        {.max_tokens = 3 * early,
         .temperature = 1.0f,
         .presence_penalty = 0.5f,
         .penalty_window = 1000},
        {.max_tokens = 3 * early, .draft_tokens = 3},
    };
    /* The caches of graphs of many parts are still being filled. */
    const size_t slack = test_device_is_gpu() ? (size_t)1 << 30 /* MLX's CUDA keeps graphs */
                         : test_device_rounds_prompts() ? (size_t)256 << 10
                         : test_device_is_other()       ? (size_t)8 << 20
                                                        : 1024;
    mc_session_model shared = shared_model();
    shared.context = 40;
    for (int i = 0; i < 3; i++) {
        size_t bytes[2] = {0, 0};
        measure_answer(&shared, &options[i], early, bytes);
        if (bytes[1] > bytes[0] + slack)
            fail_msg("options %d: %zu bytes, then %zu", i, bytes[0], bytes[1]);
    }
}

static void test_only_the_last_stream_goes_on(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    mc_stream *first = open_stream(session, prompt, 7, (mica_generate_options){0});
    mc_stream *second = open_stream(session, prompt, 7, (mica_generate_options){0});
    mica_token token;
    assert_true(mc_stream_next(first, &token));
    assert_true(mc_stream_next(second, &token));
    assert_false(mc_stream_next(first, &token));
    assert_int_equal(mc_stream_status(first), MICA_EINVAL);
    assert_int_equal(mc_stream_finish(first), MICA_FINISH_ERROR);
    assert_true(mc_stream_next(second, &token));
    assert_int_equal(token.id, golden[1]);
    mc_stream_close(&first);
    mc_stream_close(&second);
    mc_session_close(&session);
}

static void test_a_reset_ends_the_stream(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){0});
    mica_token token;
    assert_true(mc_stream_next(stream, &token));
    mc_session_reset(session);
    assert_false(mc_stream_next(stream, &token));
    assert_int_equal(mc_stream_status(stream), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "reset"));
    mc_stream_close(&stream);

    stream = open_stream(session, prompt, 7, (mica_generate_options){0});
    mc_session_reset(session); /* before it begins, a reset does not end a stream */
    for (int i = 0; i < 3; i++) {
        assert_true(mc_stream_next(stream, &token));
        assert_int_equal(token.id, golden[i]);
    }
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* ---- long prompts ---- */

typedef struct seen_room {
    const mc_session *session;
    int64_t min; /* least room, after a pass, of layers that attend to all entries */
} seen_room;

static void see_room(void *user, uint64_t done, uint64_t total) {
    seen_room *seen = user;
    const mc_cache *cache = &seen->session->cache;
    (void)total;
    for (int i = 0; i < cache->plan.n; i++)
        if (!cache->states[i]->span.max && (!seen->min || cache->states[i]->cap < seen->min))
            seen->min = cache->states[i]->cap;
    assert_true(done >= 4);
}

/* The room of caches after a prompt of n tokens and the first token of an answer of `max`. */
static int64_t room_after(int64_t n, int64_t max) {
    mc_session_model shared = shared_model();
    mc_session *session;
    mica_token token;
    int32_t ids[600];
    assert_in_range(n, 1, 600);
    for (int i = 0; i < n; i++)
        ids[i] = prompt[i % 7];
    assert_int_equal(mc_session_open(&shared, 4, &session), MICA_OK);
    seen_room seen = {.session = session};
    mc_stream *stream = open_stream(
        session, ids, (size_t)n,
        (mica_generate_options){.max_tokens = max, .progress = see_room, .progress_user = &seen});
    assert_true(mc_stream_next(stream, &token));
    mc_stream_close(&stream);
    mc_session_close(&session);
    return seen.min;
}

/* The caches grow once for a prompt and the beginning of its answer, not in each pass. */
static void test_room_for_the_prompt(void **state) {
    (void)state;
    assert_int_equal(room_after(600, 1), 768);
    assert_int_equal(room_after(512, 1), 512); /* the last token drawn is not computed */
    assert_int_equal(room_after(512, 2), 768);
    assert_int_equal(room_after(512 - 63, 0), 768);
    assert_int_equal(room_after(512 - 64, 0), 512);
}

/* ---- cancelling ---- */

static void cancel_at_half(void *user, uint64_t done, uint64_t total) {
    mc_stream **stream = user;
    if (2 * done >= total) mc_stream_cancel(*stream);
}

static void test_cancelled_prefill(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session;
    mica_token token;
    size_t n;
    int32_t ids[24];
    const int32_t *longer = fixture_ints(&fixture, &n, "prompt2.ids");
    const int32_t *want = fixture_ints(&fixture, NULL, "prompt2.greedy");
    assert_int_equal(mc_session_open(&shared, 4, &session), MICA_OK);
    mc_stream *stream = NULL;
    stream =
        open_stream(session, longer, n,
                    (mica_generate_options){.progress = cancel_at_half, .progress_user = &stream});
    assert_false(mc_stream_next(stream, &token));
    assert_int_equal(mc_stream_status(stream), MICA_ECANCELLED);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_CANCELLED);
    assert_int_equal(mc_session_count(session), 20);
    mc_stream_close(&stream);

    /* What was computed is reused. */
    stream = open_stream(session, longer, n, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, ids, 24), 24);
    assert_int_equal(mc_stream_metrics(stream).reused_tokens, 20);
    assert_memory_equal(ids, want, sizeof ids);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void *cancel(void *stream) {
    mc_stream_cancel(stream);
    return NULL;
}

static void test_cancelled_from_a_thread(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){0});
    mica_token token;
    pthread_t thread;
    assert_true(mc_stream_next(stream, &token));
    assert_int_equal(pthread_create(&thread, NULL, cancel, stream), 0);
    while (mc_stream_next(stream, &token)) {}
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_CANCELLED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* ---- one model for several threads ---- */

enum role { RUNS, RUNS_TOO, IS_CANCELLED, FAILS };

typedef struct worker {
    pthread_t thread;
    enum role role;
    const mc_session_model *shared;
    int32_t ids[24];
    size_t count;
    mica_finish finish;
} worker;

/* A few answers of one kind, one after the other, each in its own session. */
static void *work(void *arg) {
    worker *w = arg;
    mica_logit_bias none[558];
    for (int i = 0; i < 558; i++)
        none[i] = (mica_logit_bias){i, -INFINITY};
    const mica_generate_options options = {
        .max_tokens = 24, .logit_bias = none, .logit_bias_count = w->role == FAILS ? 558 : 0};
    for (int round = 0; round < 3; round++) {
        mc_session *session = NULL;
        mc_stream *stream = NULL;
        mica_token token;
        w->count = 0;
        if (mc_session_open(w->shared, 4, &session) == MICA_OK &&
            mc_stream_open(session, prompt, 7, &options, &stream) == MICA_OK) {
            while (mc_stream_next(stream, &token)) {
                w->ids[w->count++] = token.id;
                if (w->role == IS_CANCELLED && w->count == 3) mc_stream_cancel(stream);
            }
            w->finish = mc_stream_finish(stream);
        }
        mc_stream_close(&stream);
        mc_session_close(&session);
    }
    return NULL;
}

static void test_nobody_is_disturbed(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    worker workers[4] = {0};
    for (int i = 0; i < 4; i++) {
        workers[i].role = (enum role)i;
        workers[i].shared = &shared;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(workers[i].finish, MICA_FINISH_LENGTH);
        assert_int_equal(workers[i].count, 24);
        assert_memory_equal(workers[i].ids, golden, sizeof workers[i].ids);
    }
    assert_int_equal(workers[IS_CANCELLED].finish, MICA_FINISH_CANCELLED);
    assert_int_equal(workers[IS_CANCELLED].count, 3);
    assert_int_equal(workers[FAILS].finish, MICA_FINISH_ERROR);
    assert_int_equal(workers[FAILS].count, 0);
}

/* ---- memory ---- */

static bool open_and_next(void *arg) {
    static const mica_logit_bias bias = {3, 1.0f};
    static const char *const stops[] = {"zzz"};
    mc_session_model shared = speaking_model();
    mc_session *session = NULL;
    mc_stream *stream = NULL;
    mica_token token;
    (void)arg;
    test_forget_plans(fixture.device);
    const mica_generate_options options = {.max_tokens = 2,
                                           .logit_bias = &bias,
                                           .logit_bias_count = 1,
                                           .presence_penalty = 1.0f,
                                           .stop_strings = stops,
                                           .stop_string_count = 1,
                                           .top_logprobs = 3,
                                           .echo = true};
    mica_status status = mc_session_open(&shared, 0, &session);
    if (status == MICA_OK) status = mc_stream_open(session, prompt, 7, &options, &stream);
    while (stream && mc_stream_next(stream, &token)) {}
    if (stream) status = mc_stream_status(stream);
    mc_stream_close(&stream);
    mc_session_close(&session);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(open_and_next, NULL);
}

/* ---- every family ---- */

/* A layer that carries arrays goes back to snapshots only. */
static bool goes_back_anywhere(const mc_decoder_spec *spec) {
    for (int i = 0; i < spec->n_layers; i++)
        if (mc_spec_carrier(spec, i)) return false;
    return true;
}

static void collect(mc_session *session, const int32_t *ids, size_t n, int32_t answer[8],
                    int64_t reused) {
    mc_stream *stream = open_stream(
        session, ids, n,
        (mica_generate_options){
            .max_tokens = 8, .temperature = 1.5f, .top_p = 0.9f, .seed = 3, .ignore_eos = true});
    assert_int_equal(drain(stream, answer, 8), 8);
    int64_t found = mc_stream_metrics(stream).reused_tokens;
    if (goes_back_anywhere(&session->model->lm->spec))
        assert_int_equal(found, reused);
    else
        assert_in_range(found, 0, reused);
    mc_stream_close(&stream);
}

/* The first 30 tokens of an answer's text stay and the rest is replaced. The answer is that of a
 * fresh session and, with the same seed, the same when asked for again. */
static void check_turns(const model_fixture *f) {
    mc_session_model shared = {.lm = f->lm, .device = f->device};
    mc_session *session = open_session(&shared), *fresh = open_session(&shared);
    int32_t text[60], first[8], second[8], again[8];
    for (int i = 0; i < 60; i++)
        text[i] = (int32_t)((i * 13 + 1) % f->lm->spec.vocab);
    collect(session, text, 41, first, 0);
    memcpy(text + 41, first, 8 * sizeof *text);
    collect(session, text, 60, second, 48); /* the answer's last token was not computed */
    collect(fresh, text, 60, again, 0);
    assert_memory_equal(second, again, sizeof again);
    text[30]++;
    collect(session, text, 50, second, 30);
    collect(session, text, 50, again, 49);
    assert_memory_equal(second, again, sizeof again);
    mc_session_reset(fresh);
    collect(fresh, text, 50, again, 0);
    assert_memory_equal(second, again, sizeof again);
    mc_session_close(&fresh);
    mc_session_close(&session);
}

static void test_turns_of_every_family(void **state) {
    (void)state;
    fixture_each(check_turns);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_greedy_again),
        cmocka_unit_test(test_broken_weights),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_second_turn),
        cmocka_unit_test(test_turns_of_every_family),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_unended_stop_string),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_min_tokens),
        cmocka_unit_test(test_logit_bias),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_an_endless_answer_is_flat),
        cmocka_unit_test(test_only_the_last_stream_goes_on),
        cmocka_unit_test(test_a_reset_ends_the_stream),
        cmocka_unit_test(test_room_for_the_prompt),
        cmocka_unit_test(test_cancelled_prefill),
        cmocka_unit_test(test_cancelled_from_a_thread),
        cmocka_unit_test(test_nobody_is_disturbed),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("session/stream", tests, open_fixture, close_fixture);
}
