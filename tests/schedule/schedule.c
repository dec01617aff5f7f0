/* Requests that share a schedule: each gets, bit for bit, what it gets alone. */
#include "schedule/client.h"

#include "session/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_model *models[2]; /* the default model, exact and fast */
static int32_t *tall;         /* some thousand tokens */
static size_t tall_count;

static int open_models(void **state) {
    (void)state;
    static const mica_arithmetic arithmetic[] = {MICA_ARITHMETIC_EXACT, MICA_ARITHMETIC_FAST};
    for (int i = 0; i < 2; i++)
        models[i] =
            open_model("default", &(mica_model_options){.threads = 2, .arithmetic = arithmetic[i]});
    char *path = test_format("%s/default/MODEL_CARD.md", test_models_dir());
    char *text = test_read_file(path, NULL);
    mica_status status = mica_tokenizer_encode(mica_model_tokenizer(models[0]), text, strlen(text),
                                               true, &tall, &tall_count);
    free(text);
    free(path);
    return status != MICA_OK;
}

static int close_models(void **state) {
    (void)state;
    mica_model_close(&models[0]);
    mica_model_close(&models[1]);
    mica_free(tall);
    return 0;
}

static mc_schedule *open_schedule(const mica_model *model, const mc_schedule_options *options) {
    mc_schedule *schedule;
    if (mc_schedule_open(model, options, &schedule) != MICA_OK) fail_msg("%s", mica_last_error());
    return schedule;
}

static mc_schedule_stats stats_of(mc_schedule *schedule) {
    mc_schedule_stats stats;
    mc_schedule_get_stats(schedule, &stats);
    return stats;
}

static void must_submit(client *c, mc_schedule *schedule, const mc_request_options *options) {
    if (client_submit(c, schedule, *options) != MICA_OK) fail_msg("%s", mica_last_error());
}

/* A prompt of n tokens, to be freed; another one for each seed. */
static int32_t *make_prompt(size_t n, unsigned seed) {
    int32_t *ids = malloc(n * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = tall[(i + seed * 37) % tall_count];
    return ids;
}

/* A number below n, by a generator of its own. */
static unsigned draw(unsigned *seed, unsigned n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* ---- what each gets is what it gets alone ---- */

/* Options of all kinds; those of `kind` 0 are greedy. */
static mica_generate_options make_options(unsigned kind, unsigned seed) {
    static const char *const stops[] = {"the", "\n\n"};
    static const mica_logit_bias bias[] = {{300, 2.0f}, {17, -3.0f}};
    mica_generate_options o = {.max_tokens = 2 + seed % 40, .ignore_eos = true, .seed = seed};
    if (kind == 1) o.temperature = 1.0f;
    if (kind == 2)
        o = (mica_generate_options){
            .max_tokens = 30, .temperature = 0.8f, .top_p = 0.9f, .top_k = 40, .seed = seed};
    if (kind == 3) {
        o.logprobs = true;
        o.top_logprobs = 3;
    }
    if (kind == 4) {
        o.stop_strings = stops;
        o.stop_string_count = 2;
        o.echo = true;
    }
    if (kind == 5) {
        o.temperature = 1.2f;
        o.logit_bias = bias;
        o.logit_bias_count = 2;
        o.repetition_penalty = 1.2f;
        o.min_tokens = 2;
    }
    if (kind == 6) o.draft_tokens = 5;
    return o;
}

enum { MANY = 28, KINDS = 7 };

/* Requests of lengths 1 to 700 that come at random steps, more than there are rows. */
static void check_mixture(const mica_model *model, const mc_schedule_options *options,
                          unsigned seed) {
    client clients[MANY];
    int32_t *prompts[MANY];
    size_t lengths[MANY];
    mica_generate_options generate[MANY];
    mc_schedule *schedule = open_schedule(model, options);
    for (unsigned i = 0; i < MANY; i++) {
        lengths[i] = 1 + (draw(&seed, 4) ? draw(&seed, 60) : draw(&seed, 700));
        prompts[i] = make_prompt(lengths[i], draw(&seed, 1000));
        generate[i] = make_options(draw(&seed, KINDS), draw(&seed, 1000));
        client_init(&clients[i]);
        if (i && draw(&seed, 2)) client_wait_tokens(&clients[draw(&seed, i)], 0, draw(&seed, 8));
        must_submit(&clients[i], schedule,
                    &(mc_request_options){.ids = prompts[i],
                                          .n_ids = lengths[i],
                                          .generate = &generate[i],
                                          .priority = (int)draw(&seed, 3)});
    }
    for (unsigned i = 0; i < MANY; i++) {
        char what[32];
        client_wait_ends(&clients[i], 1);
        client_choice want = generate_alone(model, prompts[i], lengths[i], &generate[i]);
        snprintf(what, sizeof what, "request %u", i);
        choice_compare(&clients[i].choices[0], &want, what);
        assert_int_equal(clients[i].choices[0].metrics.prompt_tokens, lengths[i]);
        choice_free(&want);
        client_deinit(&clients[i]);
        free(prompts[i]);
    }
    assert_true(mc_schedule_drain(schedule, 1e9));
    const mc_schedule_stats stats = stats_of(schedule);
    assert_int_equal(stats.stopped + stats.length, MANY);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.cache_bytes, 0);
    assert_true(stats.step_rows > stats.steps); /* some were computed together */
    mc_schedule_close(&schedule);
}

static void test_mixtures(void **state) {
    (void)state;
    static const mc_schedule_options small = {.rows = 3, .step_tokens = 50};
    check_mixture(models[0], &small, 1);
    check_mixture(models[1], NULL, 2);
    check_mixture(models[1], &small, 3);
}

/* Whether what a cancelled one got is the beginning of what it would have got. */
static void expect_beginning(const client_choice *got, const client_choice *want) {
    assert_int_equal(got->status, MICA_ECANCELLED);
    assert_true(got->ids.len <= want->ids.len);
    if (got->ids.len) assert_memory_equal(got->ids.data, want->ids.data, got->ids.len);
}

/* Requests that come, are cancelled and closed at random, in a budget for few of them. */
static void check_chaos(const mica_model *model, unsigned seed) {
    enum { N = 30 };
    client clients[N];
    unsigned length[N], prompt_seed[N], fate[N];
    mica_generate_options generate[N];
    const mc_schedule_options options = {
        .rows = 5, .step_tokens = 70, .cache_bytes = mica_model_cache_bytes(model, 256) * 3};
    mc_schedule *schedule = open_schedule(model, &options);
    for (unsigned i = 0; i < N; i++) {
        length[i] = 1 + draw(&seed, 250);
        prompt_seed[i] = draw(&seed, 4); /* many begin alike */
        fate[i] = draw(&seed, 5);        /* 0: cancelled, 1: closed, 2: stops itself, else: ends */
        generate[i] = make_options(draw(&seed, KINDS), draw(&seed, 1000));
        int32_t *prompt = make_prompt(length[i], prompt_seed[i]);
        client_init(&clients[i]);
        if (fate[i] == 2) clients[i].stop_at = 1 + draw(&seed, 4);
        must_submit(&clients[i], schedule,
                    &(mc_request_options){.ids = prompt,
                                          .n_ids = length[i],
                                          .generate = &generate[i],
                                          .priority = (int)draw(&seed, 2)});
        free(prompt);
        unsigned other = draw(&seed, i + 1);
        if (draw(&seed, 2)) client_wait_tokens(&clients[other], 0, draw(&seed, 5));
        if (fate[other] == 0) mc_request_cancel(clients[other].request);
        if (fate[other] == 1) client_close(&clients[other]);
    }
    for (unsigned i = 0; i < N; i++) {
        int32_t *prompt = make_prompt(length[i], prompt_seed[i]);
        client_wait_ends(&clients[i], 1);
        client_choice want = generate_alone(model, prompt, length[i], &generate[i]);
        if (clients[i].choices[0].finish == MICA_FINISH_CANCELLED) {
            assert_true(fate[i] < 3);
            expect_beginning(&clients[i].choices[0], &want);
        } else {
            choice_compare(&clients[i].choices[0], &want, "one that nobody cancelled");
        }
        choice_free(&want);
        client_deinit(&clients[i]);
        assert_int_equal(clients[i].late, 0);
        assert_int_equal(clients[i].choices[0].ends, 1);
        free(prompt);
    }
    assert_true(mc_schedule_drain(schedule, 1e9));
    assert_int_equal(stats_of(schedule).cache_bytes, 0);
    mc_schedule_close(&schedule);
}

static void test_chaos(void **state) {
    (void)state;
    check_chaos(models[0], 1);
    for (unsigned seed = 2; seed < 4; seed++)
        check_chaos(models[1], seed);
}

/* Choice i draws with seed + i. */
static void test_choices(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 3});
    mica_generate_options options = {.max_tokens = 20, .temperature = 1.0f, .seed = 7};
    int32_t *prompt = make_prompt(40, 3);
    client c;
    client_init(&c);
    must_submit(&c, schedule,
                &(mc_request_options){
                    .ids = prompt, .n_ids = 40, .generate = &options, .choices = CLIENT_CHOICES});
    client_wait_ends(&c, CLIENT_CHOICES);
    const mc_schedule_stats stats = stats_of(schedule);
    assert_int_equal(stats.prompt_tokens, 40 * CLIENT_CHOICES);
    assert_int_equal(stats.cached_tokens, 39 * (CLIENT_CHOICES - 1)); /* it was read once */
    for (size_t i = 0; i < CLIENT_CHOICES; i++, options.seed++) {
        client_choice want = generate_alone(models[1], prompt, 40, &options);
        choice_compare(&c.choices[i], &want, "a choice");
        assert_int_equal(c.choices[i].ends, 1);
        choice_free(&want);
    }
    client_deinit(&c);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* Allows every third token, and the end after four. */
typedef struct thirds {
    mc_constraint base;
    size_t taken;
    int *open;
} thirds;

static mica_status mask_thirds(mc_constraint *constraint, mc_token_mask *mask) {
    const thirds *t = (const thirds *)constraint;
    for (size_t i = 0; i < (mask->vocab + 31) / 32; i++)
        mask->allowed[i] = 0;
    for (size_t id = 0; id < mask->vocab && t->taken < 4; id += 3)
        mask->allowed[id / 32] |= 1u << id % 32;
    mask->all = false;
    mask->may_end = t->taken >= 4;
    return MICA_OK;
}

static mica_status accept_third(mc_constraint *constraint, int32_t id) {
    ((thirds *)constraint)->taken++;
    return id % 3 == 0 ? MICA_OK : mc_fail(MICA_EINVAL, "token %d", (int)id);
}

static void close_thirds(mc_constraint *constraint) {
    thirds *t = (thirds *)constraint;
    *t->open -= 1;
    free(t);
}

static mc_constraint *open_thirds(int *open) {
    static const mc_constraint_ops ops = {mask_thirds, accept_third, close_thirds};
    thirds *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *t = (thirds){{&ops}, 0, open};
    *open += 1;
    return &t->base;
}

/* A constrained choice beside a free one; constraints are closed, whatever becomes of requests. */
static void test_constraints(void **state) {
    (void)state;
    int open = 0;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options o = {.max_tokens = 20, .temperature = 1.0f}, bad = {.top_k = -1};
    int32_t *prompt = make_prompt(10, 3);
    client c, waits;
    client_init(&c);
    client_init(&waits);
    mc_constraint *two[] = {NULL, open_thirds(&open)};
    must_submit(&c, schedule,
                &(mc_request_options){
                    .ids = prompt, .n_ids = 10, .generate = &o, .choices = 2, .constraints = two});
    two[0] = open_thirds(&open);
    two[1] = open_thirds(&open);
    must_submit(&waits, schedule,
                &(mc_request_options){
                    .ids = prompt, .n_ids = 10, .generate = &o, .choices = 2, .constraints = two});
    client_close(&waits);
    client_wait_ends(&c, 2);
    const int32_t *ids = MC_BUFFER_AT(&c.choices[1].ids, int32_t);
    assert_int_equal(c.choices[1].finish, MICA_FINISH_STOP);
    assert_int_equal(client_tokens(&c, 1), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ids[i] % 3, 0);
    two[0] = two[1] = NULL;
    two[0] = open_thirds(&open);
    assert_int_equal(
        client_submit(
            &waits, schedule,
            (mc_request_options){.ids = prompt, .n_ids = 10, .generate = &bad, .constraints = two}),
        MICA_EINVAL);
    client_deinit(&c);
    client_deinit(&waits);
    mc_schedule_close(&schedule);
    assert_int_equal(open, 0);
    free(prompt);
}

/* A request that is alone drafts, and gets what it gets without. */
static void test_drafts(void **state) {
    (void)state;
    enum { N = 60 };
    mc_schedule *schedule = open_schedule(models[1], NULL);
    mica_generate_options o = {.max_tokens = 40, .ignore_eos = true, .draft_tokens = 6};
    int32_t prompt[N];
    for (int i = 0; i < N; i++)
        prompt[i] = tall[i % 7];
    client c;
    client_init(&c);
    must_submit(&c, schedule, &(mc_request_options){.ids = prompt, .n_ids = N, .generate = &o});
    client_wait_ends(&c, 1);
    o.draft_tokens = 0;
    client_choice want = generate_alone(models[1], prompt, N, &o);
    choice_compare(&c.choices[0], &want, "with drafts");
    assert_true(c.choices[0].metrics.drafted_tokens > 0);
    assert_true(c.choices[0].metrics.decode_rate > 0.0);
    choice_free(&want);
    client_deinit(&c);
    mc_schedule_close(&schedule);
}

/* ---- prompts that begin alike ---- */

enum { HEAD = 500, TAIL = 30, ALIKE = 6 };

/* A prompt of HEAD tokens that all share, and TAIL of its own, to be freed. */
static int32_t *make_alike(unsigned i) {
    int32_t *head = make_prompt(HEAD + TAIL, 11), *tail = make_prompt(TAIL, 100 + i);
    memcpy(head + HEAD, tail, TAIL * sizeof *tail);
    head[HEAD] = 100 + (int32_t)i;
    free(tail);
    return head;
}

/* Asks for an answer to prompt i, and compares it; returns how many tokens were cached. */
static int64_t ask_alike(mc_schedule *schedule, unsigned i, const char *salt) {
    static const mica_generate_options o = {.max_tokens = 5, .ignore_eos = true};
    static const int64_t mark = HEAD;
    int32_t *prompt = make_alike(i);
    client c;
    client_init(&c);
    must_submit(&c, schedule,
                &(mc_request_options){.ids = prompt,
                                      .n_ids = HEAD + TAIL,
                                      .generate = &o,
                                      .salt = salt,
                                      .marks = &mark,
                                      .n_marks = 1});
    client_wait_ends(&c, 1);
    client_choice want = generate_alone(models[1], prompt, HEAD + TAIL, &o);
    choice_compare(&c.choices[0], &want, "a prompt with a known beginning");
    int64_t cached = c.choices[0].metrics.reused_tokens;
    assert_int_equal(c.cached, cached);
    choice_free(&want);
    client_deinit(&c);
    free(prompt);
    return cached;
}

/* One after another. Salts do not see each other. */
static void test_known_prompts(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], NULL);
    const bool keeps = mc_prefix_available();
    assert_int_equal(ask_alike(schedule, 0, NULL), 0);
    assert_int_equal(ask_alike(schedule, 1, ""), keeps ? HEAD / 64 * 64 : 0);
    assert_int_equal(ask_alike(schedule, 2, "another"), 0);
    assert_int_equal(ask_alike(schedule, 3, "another"), keeps ? HEAD / 64 * 64 : 0);
    assert_int_equal(ask_alike(schedule, 0, NULL), keeps ? (HEAD + TAIL - 1) / 64 * 64 : 0);
    assert_int_equal(stats_of(schedule).kept_bytes > 0, keeps);
    mc_schedule_close(&schedule);
}

/* All at once: what they share is read once. */
static void test_alike_prompts(void **state) {
    (void)state;
    static const mica_generate_options o = {.max_tokens = 5, .ignore_eos = true};
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.step_tokens = 100});
    client c[ALIKE];
    int32_t *prompts[ALIKE];
    gate g;
    gate_shut(&g, schedule);
    for (unsigned i = 0; i < ALIKE; i++) {
        prompts[i] = make_alike(i);
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = prompts[i], .n_ids = HEAD + TAIL, .generate = &o});
    }
    gate_open(&g);
    for (unsigned i = 0; i < ALIKE; i++) {
        client_wait_ends(&c[i], 1);
        client_choice want = generate_alone(models[1], prompts[i], HEAD + TAIL, &o);
        choice_compare(&c[i].choices[0], &want, "a prompt that waited for another");
        choice_free(&want);
        client_deinit(&c[i]);
        free(prompts[i]);
    }
    if (mc_prefix_available())
        assert_int_equal(stats_of(schedule).cached_tokens, (ALIKE - 1) * (HEAD / 64 * 64));
    mc_schedule_close(&schedule);
}

/* ---- refusals ---- */

static void expect_refusal(mc_schedule *schedule, const mc_request_options *options,
                           mica_status status, const char *text) {
    client c;
    client_init(&c);
    assert_int_equal(client_submit(&c, schedule, *options), status);
    if (!strstr(mica_last_error(), text)) fail_msg("%s: no \"%s\"", mica_last_error(), text);
    assert_null(c.request);
    assert_int_equal(c.ended, 0);
    client_deinit(&c);
}

static void test_refusals(void **state) {
    (void)state;
    static const int32_t past[] = {2, 1000000};
    static const int64_t beyond = 11;
    uint64_t bytes = mica_model_cache_bytes(models[1], 512);
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.cache_bytes = bytes});
    mica_generate_options o = {.max_tokens = 200};
    int32_t *prompt = make_prompt(2100, 0);
    mc_request_options r = {.ids = prompt, .n_ids = 2100, .generate = &o};
    expect_refusal(schedule, &r, MICA_ECONTEXT, "2100 tokens, the model's context 2048");
    r.n_ids = 400;
    expect_refusal(schedule, &r, MICA_ECONTEXT, "400 tokens, the answer up to 200");
    r.n_ids = 0;
    expect_refusal(schedule, &r, MICA_EINVAL, "empty");
    expect_refusal(schedule, &(mc_request_options){.ids = past, .n_ids = 2}, MICA_EINVAL,
                   "1000000");
    r.n_ids = 10;
    o.temperature = -1.0f;
    expect_refusal(schedule, &r, MICA_EINVAL, "temperature");
    o = (mica_generate_options){.draft_tokens = 64};
    expect_refusal(schedule, &r, MICA_EINVAL, "draft_tokens");
    r.generate = NULL;
    r.max_seconds = -1.0;
    expect_refusal(schedule, &r, MICA_EINVAL, "max_seconds");
    r.max_seconds = 0.0;
    r.marks = &beyond;
    r.n_marks = 1;
    expect_refusal(schedule, &r, MICA_EINVAL, "mark 0 is at 11");
    r.n_marks = 0;
    r.choices = 257;
    expect_refusal(schedule, &r, MICA_EINVAL, "choices");
    assert_int_equal(stats_of(schedule).refused_context, 2);
    assert_int_equal(stats_of(schedule).refused_other, 7);
    mc_schedule_close(&schedule);
    assert_int_equal(mc_schedule_open(models[1], &(mc_schedule_options){.rows = 257}, &schedule),
                     MICA_EINVAL);
    assert_int_equal(
        mc_schedule_open(models[1], &(mc_schedule_options){.step_tokens = -1}, &schedule),
        MICA_EINVAL);
    assert_null(schedule);
    free(prompt);
}

/* Long answers in a budget for two of them: rows pause and read their texts again. */
static void check_budget(const mica_model *model, const mica_generate_options *o) {
    enum { N = 4, PROMPT = 100 };
    uint64_t bytes = mica_model_cache_bytes(model, 512) * 3 / 2;
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.cache_bytes = bytes});
    int32_t *prompt = make_prompt(PROMPT + N, 5);
    client clients[N];
    for (int i = 0; i < N; i++) {
        client_init(&clients[i]);
        must_submit(&clients[i], schedule,
                    &(mc_request_options){.ids = prompt + i, .n_ids = PROMPT, .generate = o});
    }
    for (int i = 0; i < N; i++) {
        client_wait_ends(&clients[i], 1);
        client_choice want = generate_alone(model, prompt + i, PROMPT, o);
        choice_compare(&clients[i].choices[0], &want, "a row that may have paused");
        choice_free(&want);
    }
    assert_true(mc_schedule_drain(schedule, 1e9));
    const mc_schedule_stats stats = stats_of(schedule);
    assert_true(stats.pauses > 0);
    assert_int_equal(stats.paused, 0);
    assert_int_equal(stats.cache_bytes, 0);
    assert_int_equal(stats.prompt_tokens, N * PROMPT);
    assert_int_equal(stats.generated_tokens, N * o->max_tokens);
    assert_int_equal(stats.total_time.count, N);
    assert_int_equal(stats.first_token_time.count, N);
    assert_int_equal(stats.queue_time.count, N);
    assert_int_equal(stats.token_time.count, N * (o->max_tokens - 1));
    for (int i = 0; i < N; i++)
        client_deinit(&clients[i]);
    free(prompt);
    mc_schedule_close(&schedule);
}

static void test_budget(void **state) {
    (void)state;
    const mica_generate_options greedy = {.max_tokens = 300, .ignore_eos = true},
                                drawn = {.max_tokens = 300,
                                         .temperature = 1.0f,
                                         .frequency_penalty = 0.5f,
                                         .ignore_eos = true,
                                         .seed = 3};
    check_budget(models[0], &drawn);
    check_budget(models[1], &greedy);
}

/* A context that slides: rows cannot read their texts again, so they wait instead of pausing. */
static void test_sliding_context(void **state) {
    (void)state;
    enum { N = 5, LENGTH = 90 };
    mica_model *model =
        open_model("default", &(mica_model_options){.threads = 2, .context_length = 64});
    uint64_t bytes = mica_model_cache_bytes(model, 2000) * 3 / 2;
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.cache_bytes = bytes});
    const mica_generate_options o = {.max_tokens = 150, .ignore_eos = true};
    int32_t *prompt = make_prompt(LENGTH + N, 8);
    client c[N];
    for (int i = 0; i < N; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = prompt + i, .n_ids = LENGTH, .generate = &o});
    }
    for (int i = 0; i < N; i++) {
        client_wait_ends(&c[i], 1);
        client_choice want = generate_alone(model, prompt + i, LENGTH, &o);
        choice_compare(&c[i].choices[0], &want, "a context that slides");
        choice_free(&want);
        client_deinit(&c[i]);
    }
    assert_int_equal(stats_of(schedule).pauses, 0);
    mc_schedule_close(&schedule);
    mica_model_close(&model);
    free(prompt);
}

/* An answer without a limit ends where the budget does. */
static void test_end_of_budget(void **state) {
    (void)state;
    uint64_t bytes = mica_model_cache_bytes(models[1], 512) * 2;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.cache_bytes = bytes});
    const mica_generate_options endless = {.ignore_eos = true};
    int32_t *prompt = make_prompt(10, 5);
    client c;
    client_init(&c);
    must_submit(&c, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = 10, .generate = &endless});
    client_wait_ends(&c, 1);
    assert_int_equal(c.choices[0].finish, MICA_FINISH_LENGTH);
    assert_true(client_tokens(&c, 0) > 500 && client_tokens(&c, 0) < 2000);
    client_deinit(&c);
    free(prompt);
    mc_schedule_close(&schedule);
    assert_int_equal(
        mc_schedule_open(models[1], &(mc_schedule_options){.cache_bytes = 1}, &schedule),
        MICA_EINVAL);
}

static void test_full_queue(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1, .queue = 2});
    const mica_generate_options o = {.max_tokens = 5};
    int32_t *prompt = make_prompt(10, 1);
    const mc_request_options r = {.ids = prompt, .n_ids = 10, .generate = &o};
    client a, b;
    gate g;
    client_init(&a);
    client_init(&b);
    gate_shut(&g, schedule);
    must_submit(&a, schedule, &r);
    must_submit(&b, schedule, &r);
    expect_refusal(schedule, &r, MICA_EBUSY, "2 requests wait already");
    assert_true(mc_schedule_retry_seconds(schedule) >= 1.0);
    assert_int_equal(stats_of(schedule).refused_busy, 1);
    assert_int_equal(stats_of(schedule).waiting, 2);
    gate_open(&g);
    client_wait_ends(&a, 1);
    client_wait_ends(&b, 1);
    client_deinit(&a);
    client_deinit(&b);
    free(prompt);
    mc_schedule_close(&schedule);
}

static void test_drain(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options o = {.max_tokens = 30, .ignore_eos = true};
    int32_t *prompt = make_prompt(10, 1);
    const mc_request_options r = {.ids = prompt, .n_ids = 10, .generate = &o};
    client a, b;
    gate g;
    client_init(&a);
    client_init(&b);
    gate_shut(&g, schedule);
    must_submit(&a, schedule, &r);
    must_submit(&b, schedule, &r);
    assert_false(mc_schedule_drain(schedule, 0.01));
    expect_refusal(schedule, &r, MICA_EBUSY, "being closed");
    gate_open(&g);
    assert_true(mc_schedule_drain(schedule, 1e9));
    assert_int_equal(a.choices[0].finish, MICA_FINISH_LENGTH);
    assert_int_equal(b.choices[0].finish, MICA_FINISH_LENGTH);
    client_deinit(&a);
    client_deinit(&b);
    free(prompt);
    mc_schedule_close(&schedule);
    mc_schedule_close(&schedule);
}

/* ---- ends before the end ---- */

/* Nothing is computed for a cancelled request after the step that runs. */
static void test_cancel(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], NULL);
    const mica_generate_options endless = {.ignore_eos = true}, o = {.max_tokens = 40};
    int32_t *prompt = make_prompt(600, 1);
    client a, b, c;
    client_init(&a);
    client_init(&b);
    client_init(&c);
    must_submit(
        &a, schedule,
        &(mc_request_options){.ids = prompt, .n_ids = 20, .generate = &endless, .choices = 2});
    b.stop_at = 3;
    must_submit(&b, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = 600, .generate = &endless});
    must_submit(&c, schedule, &(mc_request_options){.ids = prompt, .n_ids = 9, .generate = &o});
    client_wait_ends(&b, 1);
    assert_int_equal(b.choices[0].status, MICA_ECANCELLED);
    assert_int_equal(b.choices[0].finish, MICA_FINISH_CANCELLED);
    assert_int_equal(client_tokens(&b, 0), 3);
    client_wait_tokens(&a, 1, 4);
    gate g;
    gate_shut(&g, schedule);
    size_t before = client_tokens(&a, 0);
    mc_request_cancel(a.request);
    gate_open(&g);
    client_wait_ends(&a, 2);
    assert_true(client_tokens(&a, 0) <= before + 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(a.choices[i].status, MICA_ECANCELLED);
        assert_false(a.choices[i].timed_out);
        assert_string_equal(a.choices[i].error, "the answer was cancelled");
    }
    client_wait_ends(&c, 1);
    client_choice want = generate_alone(models[1], prompt, 9, &o);
    choice_compare(&c.choices[0], &want, "the one that was not cancelled");
    choice_free(&want);
    assert_int_equal(stats_of(schedule).cancelled, 3);
    client_deinit(&a);
    client_deinit(&b);
    client_deinit(&c);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* While it waits, while its prompt is read, while it is decoded; and by the schedule's end. */
static void test_close(void **state) {
    (void)state;
    mc_schedule *schedule =
        open_schedule(models[1], &(mc_schedule_options){.rows = 2, .step_tokens = 8});
    const mica_generate_options endless = {.ignore_eos = true};
    int32_t *prompt = make_prompt(1500, 1);
    client c[5];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < 5; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = prompt,
                                          .n_ids = i == 1 ? 1500 : 10,
                                          .generate = &endless,
                                          .choices = i == 4 ? 3 : 1});
    }
    gate_open(&g);
    client_wait_tokens(&c[0], 0, 2);
    for (int i = 0; i < 3; i++) {
        client_close(&c[i]);
        assert_int_equal(c[i].choices[0].ends, 1);
        assert_int_equal(c[i].choices[0].finish, MICA_FINISH_CANCELLED);
        assert_int_equal(c[i].choices[0].metrics.prompt_tokens, i == 1 ? 1500 : 10);
    }
    client_wait_tokens(&c[4], 0, 2); /* its other choices wait */
    mc_schedule_close(&schedule);
    assert_int_equal(c[3].ended, 1);
    assert_int_equal(c[4].ended, 3);
    for (int i = 0; i < 5; i++) {
        client_deinit(&c[i]);
        assert_int_equal(c[i].late, 0);
    }
    free(prompt);
}

/* One that computes and one that waits run out of time. */
static void test_max_seconds(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options endless = {.max_tokens = 2000, .ignore_eos = true};
    int32_t *prompt = make_prompt(10, 1);
    const mc_request_options r = {
        .ids = prompt, .n_ids = 10, .generate = &endless, .max_seconds = 0.05};
    client a, b;
    client_init(&a);
    client_init(&b);
    must_submit(&a, schedule, &r);
    must_submit(&b, schedule, &r);
    client_wait_ends(&a, 1);
    client_wait_ends(&b, 1);
    assert_true(a.choices[0].timed_out && b.choices[0].timed_out);
    assert_int_equal(a.choices[0].status, MICA_ECANCELLED);
    assert_non_null(strstr(a.choices[0].error, "0.05 seconds"));
    assert_non_null(strstr(b.choices[0].error, "0.05 seconds"));
    assert_true(a.choices[0].total_seconds >= 0.05);
    assert_int_equal(stats_of(schedule).timed_out, 2);
    client_deinit(&a);
    client_deinit(&b);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* ---- whose turn it is ---- */

/* Those of higher priority go first, but a request is overtaken by few. */
static void test_priorities(void **state) {
    (void)state;
    enum { HIGH = 24, LOW = 2, ALL = HIGH + LOW };
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options o = {.max_tokens = 2, .ignore_eos = true};
    int32_t *prompt = make_prompt(5, 1);
    client c[ALL];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < ALL; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){
                        .ids = prompt, .n_ids = 5, .generate = &o, .priority = i < LOW ? 0 : 1});
    }
    gate_open(&g);
    for (int i = 0; i < ALL; i++)
        client_wait_ends(&c[i], 1);
    for (int i = 0; i < LOW; i++) { /* 8 overtake it, then it is the oldest */
        unsigned at = c[i].choices[0].order;
        assert_true(at > c[LOW + 7].choices[0].order);
        assert_true(at < c[LOW + 8].choices[0].order);
    }
    for (int i = LOW; i + 1 < ALL; i++)
        assert_true(c[i].choices[0].order < c[i + 1].choices[0].order);
    for (int i = 0; i < ALL; i++)
        client_deinit(&c[i]);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* While a long prompt is read in 16 parts, the others get a token a part; and a short prompt that
 * comes later need not wait for it. */
static void test_long_prompt(void **state) {
    (void)state;
    enum { LONG = 1600, PART = 100 };
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.step_tokens = PART});
    const mica_generate_options endless = {.max_tokens = 400, .ignore_eos = true},
                                few = {.max_tokens = 3};
    int32_t *prompt = make_prompt(LONG, 1);
    client first, tall_one, last;
    client_init(&first);
    client_init(&tall_one);
    client_init(&last);
    must_submit(&first, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = 10, .generate = &endless});
    client_wait_tokens(&first, 0, 1);
    gate g;
    gate_shut(&g, schedule);
    size_t before = client_tokens(&first, 0);
    must_submit(&tall_one, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = LONG, .generate = &few});
    must_submit(&last, schedule,
                &(mc_request_options){.ids = prompt + 7, .n_ids = 40, .generate = &few});
    gate_open(&g);
    client_wait_ends(&last, 1);
    assert_true(tall_one.done < LONG);
    client_wait_tokens(&tall_one, 0, 1);
    gate_shut(&g, schedule);
    size_t after = client_tokens(&first, 0);
    gate_open(&g);
    assert_true(tall_one.prefills >= LONG / PART);
    assert_true(after - before >= LONG / PART - 1);
    client_deinit(&first);
    client_deinit(&tall_one);
    client_deinit(&last);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* ---- jobs ---- */

static mica_status fail_job(void *context) {
    *(int *)context += 1;
    return mc_fail(MICA_EIO, "the job's own words");
}

static void test_jobs(void **state) {
    (void)state;
    int runs = 0;
    mc_schedule *schedule = open_schedule(models[1], NULL);
    assert_int_equal(mc_schedule_run(schedule, fail_job, &runs), MICA_EIO);
    assert_string_equal(mica_last_error(), "the job's own words");
    assert_int_equal(runs, 1);
    mc_schedule_close(&schedule);
}

/* ---- memory ---- */

typedef struct small_room {
    int32_t *prompt;
    client_choice want;
} small_room;

static const mica_generate_options eight = {.max_tokens = 8, .ignore_eos = true};

/* Two requests. Each is right, or ends with MICA_ENOMEM. */
static bool run_two(void *arg) {
    const small_room *room = arg;
    const mc_request_options r = {.ids = room->prompt, .n_ids = 12, .generate = &eight};
    mc_schedule *schedule;
    bool good = true;
    test_forget_plans(mica_model_device(models[1]));
    if (mc_schedule_open(models[1], &(mc_schedule_options){.rows = 2}, &schedule) != MICA_OK)
        return false;
    for (int i = 0; i < 2; i++) {
        client c;
        client_init(&c);
        if (client_submit(&c, schedule, r) == MICA_OK) {
            client_wait_ends(&c, 1);
            if (c.choices[0].status == MICA_OK)
                choice_compare(&c.choices[0], &room->want, "a request");
            else
                assert_int_equal(c.choices[0].status, MICA_ENOMEM);
            good = good && c.choices[0].status == MICA_OK;
        } else {
            good = false;
        }
        client_deinit(&c);
    }
    mc_schedule_close(&schedule);
    return good;
}

static void test_no_memory(void **state) {
    (void)state;
    small_room room = {.prompt = make_prompt(12, 2)};
    room.want = generate_alone(models[1], room.prompt, 12, &eight);
    uint64_t rounds = test_fail_each_allocation(run_two, &room);
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)rounds);
    choice_free(&room.want);
    free(room.prompt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixtures),
        cmocka_unit_test(test_chaos),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_known_prompts),
        cmocka_unit_test(test_alike_prompts),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_end_of_budget),
        cmocka_unit_test(test_sliding_context),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_max_seconds),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_long_prompt),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("schedule/schedule", tests, open_models, close_models);
}
