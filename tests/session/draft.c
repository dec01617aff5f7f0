/* Speculative decoding: lookup of guesses, how many are made, and equal answers with and without
 * them. */
#include "model/fixture.h"

#include "base/utf8.h"
#include "session/draft.h"
#include "session/session_file.h"
#include "session/stream.h"

#include <stdlib.h>
#include <string.h>

/* ---- lookup ---- */

/* Guesses by the definition: what follows the longest match (2 to 8 tokens), the latest of several.
 * Guesses past the end continue from the guesses. Returns the length of the match. */
static int64_t look_up_slowly(const int32_t *ids, int64_t n, int64_t max, int32_t *guesses) {
    int64_t match = MC_DRAFT_MATCH, at = 0;
    for (; match >= 2; match--) {
        for (at = n - 1; at >= match; at--)
            if (memcmp(ids + at - match, ids + n - match, (size_t)match * sizeof *ids) == 0) break;
        if (at >= match) break;
    }
    int32_t *text = malloc((size_t)(n + max) * sizeof *text);
    assert_non_null(text);
    memcpy(text, ids, (size_t)n * sizeof *text);
    for (int64_t i = 0; i < max; i++)
        text[n + i] = text[at + i];
    memcpy(guesses, text + n, (size_t)max * sizeof *text);
    free(text);
    return match < 2 ? 0 : match;
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static const mc_session nobody; /* no draft model */

static int64_t make(mc_draft *draft, const int32_t *ids, int64_t n, int64_t max) {
    char *data = (char *)(uintptr_t)ids; /* never written to */
    return mc_draft_make(draft, &(mc_tokens){.ids = {data, (size_t)n * sizeof *ids, 0}}, max, 1);
}

/* Texts of few different tokens: matches of all lengths. */
static void test_look_up(void **state) {
    (void)state;
    enum { N = 200, MAX = 40 };
    uint32_t random = 1;
    int lengths[MC_DRAFT_MATCH + 1] = {0};
    for (uint32_t kinds = 1; kinds < 30; kinds += 3) {
        int32_t ids[N], want[MAX];
        for (int i = 0; i < N; i++)
            ids[i] = (int32_t)(next_random(&random) % kinds);
        for (int64_t n = 0; n <= N; n++) {
            mc_draft draft;
            mc_draft_init(&draft, &nobody);
            for (int i = 0; i <= MC_DRAFT_MATCH; i++)
                draft.right[i] = 1.0f; /* all guesses are worth computing */
            int64_t count = make(&draft, ids, n, MAX);
            int64_t match = n ? look_up_slowly(ids, n, MAX, want) : 0;
            lengths[match]++;
            assert_int_equal(count, match ? MAX : 0);
            if (match) assert_int_equal(draft.match, match);
            assert_memory_equal(draft.ids, want, (size_t)count * sizeof *want);
            assert_int_equal(make(&draft, ids, n, 0), 0);
        }
    }
    for (int i = 2; i <= MC_DRAFT_MATCH; i++)
        assert_true(lengths[i] > 0);
}

/* A text that repeats itself gets more and more guesses. A text whose repetitions always continue
 * differently gets none in the end. */
static void test_length(void **state) {
    (void)state;
    enum { N = 3000 };
    static int32_t ids[N];
    mc_draft draft;
    int64_t made = 0, late = 0;
    for (int i = 0; i < N; i++)
        ids[i] = i % 12;
    mc_draft_init(&draft, &nobody);
    for (int64_t n = 1; n < N; n++)
        made = make(&draft, ids, n, 16);
    assert_int_equal(made, 16);

    for (int i = 0; i < N; i++) /* 5 6 is followed by a new number each time */
        ids[i] = i % 3 ? 4 + i % 3 : 10 + i;
    mc_draft_init(&draft, &nobody);
    for (int64_t n = 1; n < N; n++) {
        made = make(&draft, ids, n, 16);
        if (n > 100) late += made;
    }
    assert_int_equal(late, 0);
    for (int i = 0; i < N; i++)
        ids[i] = i % 3;
    for (int64_t n = 1; n < 100;
         n++) /* guesses that were not computed were right, so guessing resumes */
        made = make(&draft, ids, n, 16);
    assert_int_equal(made, 16);
}

/* How many guesses that are right at a rate are worth computing among some rows. */
static int64_t guesses_among(int64_t rows, float rate) {
    static const int32_t ids[] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
    mc_tokens text = {.ids = {(char *)(uintptr_t)ids, sizeof ids, 0}};
    mc_draft draft;
    mc_draft_init(&draft, &nobody);
    for (int i = 0; i <= MC_DRAFT_MATCH; i++)
        draft.right[i] = rate;
    return mc_draft_make(&draft, &text, 16, rows);
}

/* The more rows wait for a guess, the fewer there are; none among many. */
static void test_rows(void **state) {
    (void)state;
    for (int i = 0; i <= 20; i++) {
        int64_t before = 16;
        for (int64_t rows = 1; rows <= 64; rows++) {
            int64_t n = guesses_among(rows, (float)i * 0.05f);
            assert_true(n <= before);
            before = n;
        }
        assert_int_equal(before, 0);
    }
    assert_int_equal(guesses_among(1, 1.0f), 16);
    assert_true(guesses_among(8, 0.95f) > 0);
    assert_int_equal(guesses_among(8, 0.6f), 0);
    assert_true(guesses_among(1, 0.6f) > 0);
}

/* ---- answers ---- */

enum { ROOM = 1000, TEXT = 16 * ROOM };

typedef struct answer {
    int32_t ids[ROOM];
    float logprobs[ROOM];
    int64_t counts[ROOM]; /* tokens that the session holds after each */
    char text[TEXT];
    size_t n, len;
    mica_finish finish;
    mica_metrics metrics;
} answer;

static mc_session *open_session(const mc_session_model *shared) {
    mc_session *session;
    if (mc_session_open(shared, 0, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

static mc_stream *open_stream(mc_session *session, const int32_t *ids, size_t n,
                              const mica_generate_options *options) {
    mc_stream *stream;
    if (mc_stream_open(session, ids, n, options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return stream;
}

/* Up to `max` tokens of an answer. */
static void take(mc_session *session, mc_stream *stream, size_t max, answer *a) {
    mica_token token;
    a->n = a->len = 0;
    while (a->n < max && mc_stream_next(stream, &token)) {
        memcpy(a->text + a->len, token.text, token.len);
        a->len += token.len;
        if (token.id < 0) continue;
        a->ids[a->n] = token.id;
        a->logprobs[a->n] = token.logprob;
        a->counts[a->n++] = mc_session_count(session);
    }
    a->finish = mc_stream_finish(stream);
    a->metrics = mc_stream_metrics(stream);
}

static void run(mc_session *session, const int32_t *ids, size_t n,
                const mica_generate_options *options, answer *a) {
    mc_stream *stream = open_stream(session, ids, n, options);
    take(session, stream, ROOM, a);
    mc_stream_close(&stream);
}

static void expect_same(const answer *got, const answer *want) {
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->ids, want->ids, want->n * sizeof *want->ids);
    assert_memory_equal(got->logprobs, want->logprobs, want->n * sizeof *want->logprobs);
    assert_memory_equal(got->counts, want->counts, want->n * sizeof *want->counts);
    assert_int_equal(got->len, want->len);
    assert_memory_equal(got->text, want->text, want->len);
    assert_int_equal(got->finish, want->finish);
    assert_int_equal(got->metrics.prompt_tokens, want->metrics.prompt_tokens);
    assert_int_equal(got->metrics.reused_tokens, want->metrics.reused_tokens);
    assert_int_equal(got->metrics.generated_tokens, want->metrics.generated_tokens);
    assert_int_equal(want->metrics.drafted_tokens, 0);
    assert_true(got->metrics.accepted_tokens <= got->metrics.drafted_tokens);
}

static const mc_session_model *drafter; /* NULL: none */

/* Checks that an answer with guesses has the same bits at each token as one without, and that the
 * sessions then hold the same tokens and answer the same again. Returns how many guesses were
 * right. */
static int64_t check_same(const mc_session_model *shared, const int32_t *ids, size_t n,
                          mica_generate_options options, int draft_tokens) {
    static answer want, got;
    mc_session *plain = open_session(shared), *ahead = open_session(shared);
    int64_t accepted = 0;
    if (drafter && mc_session_set_draft(ahead, drafter) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (int round = 0; round < 2; round++) {
        options.draft_tokens = 0;
        run(plain, ids, n, &options, &want);
        options.draft_tokens = draft_tokens;
        run(ahead, ids, n, &options, &got);
        expect_same(&got, &want);
        assert_int_equal(mc_session_count(ahead), mc_session_count(plain));
        assert_memory_equal(ahead->history.ids.data, plain->history.ids.data,
                            plain->history.ids.len);
        accepted += got.metrics.accepted_tokens;
        options.seed++;
    }
    mc_session_close(&plain);
    mc_session_close(&ahead);
    return accepted;
}

/* A prompt that repeats itself, with changes. */
static void make_prompt(const model_fixture *f, int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i % 11 * 31 + (i % 29 == 0 ? i : 0) + 3) % f->lm->spec.vocab);
}

/* Sampling narrow enough to repeat tokens, and all options that read the history. */
static const mica_generate_options settings[] = {
    {.max_tokens = 60},
    {.max_tokens = 60, .temperature = 0.7f, .top_k = 3, .seed = 5, .top_logprobs = 2},
    {.max_tokens = 60, .temperature = 1.0f, .top_p = 0.3f, .seed = 6},
    {.max_tokens = 60, .repetition_penalty = 1.02f, .penalty_window = 4, .logprobs = true},
    {.max_tokens = 60, .frequency_penalty = 0.01f, .presence_penalty = -2.0f, .min_tokens = 7},
};

static int models_seen, models_guessed; /* guessed: some guesses were right */

/* A model that drafts for itself. */
static void check_own_draft(const mc_session_model *shared, const char *name, const int32_t *ids) {
    drafter = shared;
    mc_lm_set_arithmetic((mc_lm *)(uintptr_t)shared->lm, MICA_ARITHMETIC_EXACT);
    int64_t right = check_same(shared, ids, 70, (mica_generate_options){.max_tokens = 20}, 4);
    drafter = NULL;
    if (right == 0) fail_msg("%s: none of its own guesses are right", name);
}

static void check_family(const model_fixture *f) {
    static const int drafts[] = {1, 4, MC_DRAFT_MAX};
    mc_session_model shared = {.lm = f->lm, .device = f->device};
    int32_t ids[70];
    int64_t accepted = 0;
    make_prompt(f, ids, 70);
    size_t step = (size_t)test_case_step();
    for (size_t i = (size_t)models_seen % step; i < sizeof settings / sizeof *settings; i += step) {
        mc_lm_set_arithmetic(f->lm, i % 2 ? MICA_ARITHMETIC_EXACT : MICA_ARITHMETIC_FAST);
        accepted += check_same(&shared, ids, 70, settings[i], drafts[i % 3]);
    }
    if ((size_t)models_seen % step == 0) check_own_draft(&shared, f->name, ids);
    models_seen++;
    models_guessed += accepted > 0;
}

static void test_every_family(void **state) {
    (void)state;
    models_seen = models_guessed = 0;
    fixture_each(check_family);
    assert_true(models_guessed >= models_seen / 8);
}

/* Windows of 16 have buffers of 384 entries, which drop entries once; with a context of 40 all
 * layers drop entries. */
static void test_windows(void **state) {
    (void)state;
    model_fixture f;
    int32_t ids[70];
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = {.lm = f.lm, .device = f.device};
    make_prompt(&f, ids, 70);
    mica_generate_options options = {
        .max_tokens = 650, .temperature = 1.0f, .top_k = 2, .presence_penalty = -1.0f};
    assert_true(check_same(&shared, ids, 70, options, 6) > 50);
    shared.context = 40; /* session and stream forget tokens too */
    options.max_tokens = 900;
    assert_true(check_same(&shared, ids, 70, options, MC_DRAFT_MAX) > 50);
    fixture_close(&f);
}

static size_t read_ids(mc_json list, int32_t *ids, size_t room) {
    size_t n = 0;
    int64_t id;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        assert_true(n < room && mc_json_get_int(it.value, &id));
        ids[n++] = (int32_t)id;
    }
    return n;
}

/* A conversation's answer begins as the golden has it (in exact arithmetic), and is the same with
 * and without guesses. */
static int64_t check_conversation(const mc_session_model *shared, mc_json talk, bool golden) {
    static answer a;
    int32_t ids[ROOM], want[ROOM];
    size_t n = read_ids(mc_json_find(talk, "prompt_ids"), ids, ROOM);
    size_t count = read_ids(mc_json_find(talk, "greedy_ids"), want, ROOM);
    assert_true(n > 0 && count > 1);
    mica_generate_options options = {.max_tokens = (int64_t)count, .draft_tokens = 7};
    mc_session *session = open_session(shared);
    run(session, ids, n, &options, &a);
    if (golden) assert_memory_equal(a.ids, want, count * sizeof *want);
    mc_session_close(&session);
    options.max_tokens = 60;
    options.temperature = golden ? 0.0f : 0.8f;
    return check_same(shared, ids, n, options, 7);
}

/* The model that comes with mica. */
static void test_default_model(void **state) {
    (void)state;
    mica_device *device;
    mica_tokenizer *tokenizer;
    mc_lm *lm;
    mc_json_doc *doc;
    int64_t accepted = 0;
    const int step = test_case_step();
    char *path = test_format("%s/default", test_models_dir());
    char *golden = test_format("%s/golden.json", path);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mc_lm_open(path, device, NULL, &lm), MICA_OK);
    assert_int_equal(mica_tokenizer_open(path, &tokenizer), MICA_OK);
    doc = test_load_json(golden);
    mc_session_model shared = {.lm = lm, .device = device, .tokenizer = tokenizer};
    for (int fast = 0; fast < 2; fast++) {
        mc_lm_set_arithmetic(lm, fast ? MICA_ARITHMETIC_FAST : MICA_ARITHMETIC_EXACT);
        int i = 0;
        for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); i++)
            if (i % 2 == fast && i / 2 % step == 0)
                accepted += check_conversation(&shared, it.value, !fast);
    }
    assert_true(accepted > 50 / step);
    mc_json_close(&doc);
    mica_tokenizer_close(&tokenizer);
    mc_lm_close(&lm);
    mica_device_close(&device);
    free(golden);
    free(path);
}

/* ---- how an answer ends ---- */

/* gemma3_text_f32; its greedy answer to this prompt soon repeats itself */
static model_fixture fixture;
static int32_t prompt[70];
static mica_tokenizer *tokenizer;
static mc_session_model speaking;
static answer whole; /* 60 tokens, without guesses */

static int open_fixture(void **state) {
    (void)state;
    fixture_open("gemma3_text_f32", &fixture);
    make_prompt(&fixture, prompt, 70);
    if (mica_tokenizer_open(fixture.path, &tokenizer) != MICA_OK) return 1;
    speaking = (mc_session_model){.lm = fixture.lm, .device = fixture.device};
    speaking.tokenizer = tokenizer;
    mc_session *session = open_session(&speaking);
    run(session, prompt, 70, &settings[0], &whole);
    mc_session_close(&session);
    return whole.n != 60;
}

static int close_fixture(void **state) {
    (void)state;
    mica_tokenizer_close(&tokenizer);
    fixture_close(&fixture);
    return 0;
}

/* Answers end for every reason, at every token, also among tokens computed ahead. */
static void test_ends(void **state) {
    (void)state;
    int64_t accepted = 0;
    size_t step = (size_t)test_case_step();
    for (size_t i = 0; i < whole.n; i += 3 * step) {
        const mica_generate_options by_count = {.max_tokens = (int64_t)i + 1};
        const mica_generate_options by_id = {
            .max_tokens = 60, .min_tokens = (int64_t)i, .stop_ids = &whole.ids[i], .stop_count = 1};
        accepted += check_same(&speaking, prompt, 70, by_count, 7);
        accepted += check_same(&speaking, prompt, 70, by_id, 7);
    }
    for (size_t at = 0; at + 3 < whole.len; at += 25 * step) {
        char text[4] = {0};
        memcpy(text, whole.text + at, 3);
        if (!mc_utf8_valid(text, 3)) continue;
        const char *stops[] = {text};
        const mica_generate_options by_text = {.max_tokens = 60,
                                               .min_tokens = (int64_t)at / 8,
                                               .stop_strings = stops,
                                               .stop_string_count = 1};
        accepted += check_same(&speaking, prompt, 70, by_text, 7);
    }
    assert_true(accepted > 100 / (int64_t)step);
}

/* The end of the model's context. */
static void test_context(void **state) {
    (void)state;
    mc_lm lm = *fixture.lm;
    mc_session_model shared = speaking;
    int64_t accepted = 0;
    shared.lm = &lm;
    for (lm.spec.context = 70; lm.spec.context < 130; lm.spec.context += 7)
        accepted += check_same(&shared, prompt, 70, (mica_generate_options){0}, 9);
    assert_true(accepted > 50);
}

/* An answer that is cancelled, closed, saved and loaded, or followed by another after any token
 * leaves the session as an answer without guesses does. */
static void test_broken_off(void **state) {
    (void)state;
    static answer got;
    const mica_generate_options options = {.max_tokens = 60, .draft_tokens = 7};
    char *dir = test_temp_dir(), *path = test_format("%s/session", dir);
    for (size_t i = 1; i < whole.n; i += 5 * (size_t)test_case_step()) {
        mc_session *session = open_session(&speaking), *loaded;
        mc_stream *stream = open_stream(session, prompt, 70, &options);
        mica_token token;
        take(session, stream, i, &got);
        assert_int_equal(got.n, i);
        assert_memory_equal(got.ids, whole.ids, i * sizeof *got.ids);
        assert_int_equal(mc_session_count(session), 70 + (int64_t)i - 1);
        assert_int_equal(mc_session_save(session, path), MICA_OK);
        if (i % 2) {
            mc_stream_cancel(stream);
            assert_false(mc_stream_next(stream, &token));
            assert_int_equal(mc_stream_finish(stream), MICA_FINISH_CANCELLED);
        }
        mc_stream_close(&stream);
        run(session, prompt, 70, &options, &got);
        assert_int_equal(got.metrics.reused_tokens, 69);
        assert_memory_equal(got.ids, whole.ids, whole.n * sizeof *got.ids);
        mc_session_close(&session);

        if (mc_session_load(&speaking, path, 0, &loaded) != MICA_OK)
            fail_msg("%s", mica_last_error());
        int32_t text[130];
        memcpy(text, prompt, sizeof prompt);
        memcpy(text + 70, whole.ids, i * sizeof *text);
        run(loaded, text, 70 + i, &options, &got);
        assert_int_equal(got.metrics.reused_tokens, 70 + (int64_t)i - 1);
        assert_memory_equal(got.ids, whole.ids + i, (whole.n - i) * sizeof *got.ids);
        mc_session_close(&loaded);
    }
    free(path);
    test_temp_dir_remove(dir);
}

/* Draft models: the model itself, whose guesses are right if sampling is greedy, and the model
 * without its last layers. Both forget tokens beyond a context. */
static void test_draft_model(void **state) {
    (void)state;
    const size_t step = (size_t)test_case_step();
    mc_lm cut = *fixture.lm, cheap = *fixture.lm;
    mc_session_model shared = speaking, same = speaking, lesser = speaking;
    static answer got;
    cut.spec.n_layers -= 1;
    lesser.lm = &cut;
    cheap.weight_bytes = cut.weight_bytes = 1; /* guesses are made if they are worth computing */
    same.lm = &cheap;
    for (int context = 0; context <= 40; context += 40) {
        shared.context = same.context = lesser.context = context;
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i += step) {
            drafter = &same;
            assert_true(check_same(&shared, prompt, 70, settings[i], 7) > 0);
            drafter = &lesser;
            check_same(&shared, prompt, 70, settings[i], (int)(1 + i * 15));
        }
        mica_generate_options options = {
            .max_tokens = context ? 900 : 650, .temperature = 1.0f, .top_k = 9};
        assert_true(check_same(&shared, prompt, 70, options, 20) > 50);
    }
    drafter = NULL;

    shared = speaking;
    same.context = 0;
    mc_session *session = open_session(&shared);
    assert_int_equal(mc_session_set_draft(session, &same), MICA_OK);
    run(session, prompt, 70, &(mica_generate_options){.max_tokens = 60}, &got);
    assert_memory_equal(got.ids, whole.ids, sizeof *got.ids * whole.n);
    assert_true(got.metrics.accepted_tokens > 40);
    mc_session_reset(session);
    assert_int_equal(mc_session_count(session->draft), 0);

    cut.spec.context = 100; /* the draft model's context ends before the model's */
    drafter = &lesser;
    lesser.context = 0;
    check_same(&shared, prompt, 70, settings[0], 7);
    drafter = NULL;
    mc_session_close(&session);
}

/* A text begins to repeat itself after lookups were never right, with a draft model that does not
 * pay and has no room: the lookup is used again. */
static void test_draft_model_and_look_up(void **state) {
    (void)state;
    enum { N = 100 };
    int32_t ids[N];
    mc_lm small = *fixture.lm;
    mc_session_model lesser = speaking;
    small.spec.context = 1;
    lesser.lm = &small;
    mc_session *session = open_session(&speaking);
    mc_draft draft;
    int64_t made = 0;
    assert_int_equal(mc_session_set_draft(session, &lesser), MICA_OK);
    mc_draft_init(&draft, session);
    for (int i = 1; i <= MC_DRAFT_MATCH; i++)
        draft.right[i] = 0.0f;
    for (int i = 0; i < N; i++)
        ids[i] = i % 3;
    for (int64_t n = 1; n < N; n++)
        made = make(&draft, ids, n, 16);
    assert_int_equal(made, 16);
    mc_session_close(&session);
}

/* A draft model that lacks tokens which the text has forgotten is not asked again. */
static void test_draft_model_that_missed_something(void **state) {
    (void)state;
    int32_t ids[] = {1, 2, 3, 4};
    mc_tokens text = {.ids = {(char *)ids, sizeof ids, 0}, .start = 1000, .hash = 1};
    mc_session_model lesser = speaking;
    lesser.context = 40;
    mc_session *session = open_session(&speaking);
    mc_draft draft;
    assert_int_equal(mc_session_set_draft(session, &lesser), MICA_OK);
    mc_draft_init(&draft, session);
    draft.model_cost = 0.0f;
    assert_int_equal(mc_draft_make(&draft, &text, 4, 1), 0);
    assert_null(draft.model);
    text.start = 0;
    mc_draft_init(&draft, session);
    draft.model_cost = 0.0f;
    assert_true(mc_draft_make(&draft, &text, 4, 1) > 0);
    mc_session_close(&session);
}

/* If a draft model fails, at the prompt or later, the answer goes on without it. */
static void test_broken_draft_model(void **state) {
    (void)state;
    mc_lm broken[2] = {*fixture.lm, *fixture.lm};
    mc_session_model failing = speaking;
    static answer got;
    broken[0].embed.weight = broken[1].head.weight = MICA_NONE;
    for (int later = 0; later < 2; later++) {
        mc_session *session = open_session(&speaking);
        broken[later].weight_bytes = 1; /* asking it would be worth its cost */
        failing.lm = &broken[later];
        assert_int_equal(mc_session_set_draft(session, &failing), MICA_OK);
        run(session, prompt, 70, &(mica_generate_options){.max_tokens = 60}, &got);
        assert_int_equal(got.finish, MICA_FINISH_LENGTH);
        assert_int_equal(got.n, 60);
        assert_memory_equal(got.ids, whole.ids, 60 * sizeof *got.ids);
        mc_session_close(&session);
    }
}

static void test_other_vocabulary(void **state) {
    (void)state;
    mc_lm cut = *fixture.lm;
    mc_session_model other = speaking;
    mc_session *session = open_session(&speaking);
    other.lm = &cut;
    cut.spec.vocab--;
    assert_int_equal(mc_session_set_draft(session, &other), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "557 tokens, the model's 558"));
    other = speaking;
    other.tokenizer = NULL;
    assert_int_equal(mc_session_set_draft(session, &other), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "token 0"));
    assert_null(session->draft);
    mc_session_close(&session);
}

static void test_refusals(void **state) {
    (void)state;
    mc_session *session = open_session(&speaking);
    mc_stream *stream;
    for (int n = -1; n <= MC_DRAFT_MAX + 1; n += MC_DRAFT_MAX + 2) {
        const mica_generate_options options = {.draft_tokens = n};
        assert_int_equal(mc_stream_open(session, prompt, 70, &options, &stream), MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), "draft_tokens"));
        assert_null(stream);
    }
    mc_session_close(&session);
}

static bool answer_ahead(void *arg) {
    static answer got;
    const mica_generate_options options = {.max_tokens = 12, .draft_tokens = 7};
    mc_session *session = NULL;
    mc_stream *stream = NULL;
    test_forget_plans(fixture.device);
    mica_status status = mc_session_open(&speaking, 0, &session);
    if (status == MICA_OK && arg) status = mc_session_set_draft(session, &speaking);
    if (status == MICA_OK) status = mc_stream_open(session, prompt, 70, &options, &stream);
    if (stream) {
        take(session, stream, ROOM, &got);
        status = mc_stream_status(stream);
        if (status == MICA_OK) {
            assert_true(got.metrics.accepted_tokens > 0);
            assert_memory_equal(got.ids, whole.ids, 12 * sizeof *got.ids);
        }
    }
    mc_stream_close(&stream);
    mc_session_close(&session);
    return status == MICA_OK;
}

/* Without the n-th allocation an answer fails or is the same. */
static void answer_without_memory(void *draft) {
    bool failed = true, done = false;
    uint64_t n = 0;
    for (; failed; n += test_failure_step()) {
        mc_alloc_fail_at(n + 1);
        done = answer_ahead(draft);
        failed = mc_alloc_count() > n;
        mc_alloc_fail_at(0);
    }
    assert_true(done && n > 100);
}

static void test_no_memory(void **state) {
    (void)state;
    answer_without_memory(NULL);
    answer_without_memory(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_up),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_default_model),
        cmocka_unit_test_setup_teardown(test_ends, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_context, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_broken_off, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_draft_model, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_draft_model_and_look_up, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_draft_model_that_missed_something, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_broken_draft_model, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_other_vocabulary, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_refusals, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_no_memory, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests_name("session/draft", tests, NULL, NULL);
}
