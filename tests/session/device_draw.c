/* Tokens that the device draws, over which the next pass begins (session/device_draw.h): nearly
 * always those that the host draws, and never any others in an answer. */
#include "model/fixture.h"

#include "device/device.h"
#include "session/constraint.h"
#include "session/device_draw.h"
#include "session/stream.h"
#include "support/witness.h"

#include <mica/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows of logits ---- */

enum { ROWS = 3, VOCAB = 5003, WINDOW = 40, SEEDS = 10 };

static uint64_t random_state = 11;

static double uniform(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(random_state >> 11) + 0.5) * 0x1p-53;
}

static float rows[ROWS][VOCAB]; /* flat, usual, peaked */

static int fill_rows(void **state) {
    static const double deviations[ROWS] = {0.5, 3.0, 8.0};
    (void)state;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < VOCAB; i++)
            rows[r][i] =
                (float)(deviations[r] * sqrt(-2 * log(uniform())) * cos(6.2831853 * uniform()));
    rows[1][VOCAB - 1] = 11.0f; /* in the last part, which is not whole */
    return 0;
}

static const mica_logit_bias biases[] = {{7, 4.0f}, {VOCAB - 1, -INFINITY}, {7, 3.0f}};

static const mc_sampling settings[] = {
    {.temperature = 1.0f},
    {.temperature = 0.7f, .min_p = 0.02f},
    {.temperature = 0.8f, .top_k = 20},
    {.temperature = 1.0f, .top_k = MC_LARGEST, .top_p = 0.8f, .min_p = 0.01f},
    {.temperature = 1.3f, .top_p = 0.3f},
    {.temperature = 0.0f, .repetition_penalty = 1.3f},
    {.temperature = 0.9f, .top_k = 9, .repetition_penalty = 1.4f, .penalty_window = WINDOW},
    {.temperature = 1.0f, .presence_penalty = 3.0f, .frequency_penalty = 1.5f},
    {.temperature = 1.0f, .top_k = 30, .bias = biases, .bias_count = 3},
    {.temperature = 0.0f, .bias = biases, .bias_count = 3},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* A history of the row's likeliest tokens, some of them twice, whose penalties matter. */
static void fill_history(const float *row, int32_t *history) {
    for (int i = 0; i < WINDOW; i++) {
        int32_t best = 0;
        for (int32_t id = 0; id < VOCAB; id++) {
            bool known = false;
            for (int k = 0; k < i; k++)
                known = known || history[k] == id;
            if (!known && row[id] > row[best]) best = id;
        }
        history[i] = i % 3 ? best : history[i / 2];
        if (!i) history[i] = best;
    }
}

/* Draws from all rows at once: how many tokens are those of the host. */
static int draw_both(mica_device *device, const mc_sampling *const *params, const uint32_t *allowed,
                     uint64_t seed) {
    const int64_t shape[] = {ROWS, 1, VOCAB};
    mica_scope *s, *recording;
    mc_device_draws draws;
    mc_device_draw given[ROWS];
    mc_device_drawn drawn;
    mc_sampler samplers[ROWS];
    int32_t history[ROWS][WINDOW], ids[ROWS];
    int same = 0;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &recording), MICA_OK);
    mc_device_draws_init(&draws, recording);
    for (int r = 0; r < ROWS; r++) {
        mc_sampling own = *params[r];
        own.seed = seed + (uint64_t)r;
        assert_true(mc_device_draw_can(&own));
        mc_sampler_init(&samplers[r], &own);
        samplers[r].generated = WINDOW / 2;
        samplers[r].allowed = r ? allowed : NULL;
        fill_history(rows[r], history[r]);
        given[r] = (mc_device_draw){&samplers[r], history[r], WINDOW};
    }
    mica_array x = mica_from_data(s, rows, MICA_F32, shape, 3);
    mica_status status = mc_device_draws_launch(&draws, s, x, given, ROWS, false, &drawn);
    if (status == MICA_OK) status = mc_device_wait(device, drawn.fence);
    if (status == MICA_OK) status = mica_read(drawn.ids, ids, sizeof ids);
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
    for (int r = 0; r < ROWS; r++) {
        int32_t id;
        assert_int_equal(mc_sampler_draw(&samplers[r], rows[r], VOCAB, history[r], WINDOW, &id),
                         MICA_OK);
        same += id == ids[r];
        mc_sampler_deinit(&samplers[r]);
    }
    mc_device_draws_deinit(&draws);
    mica_scope_close(&recording);
    mica_scope_close(&s);
    return same;
}

/* A third of the tokens. */
static void fill_mask(uint32_t *allowed) {
    memset(allowed, 0, (VOCAB + 31) / 32 * sizeof *allowed);
    for (int id = 1; id < VOCAB; id += 3)
        allowed[id / 32] |= 1u << id % 32;
}

/* Sums in f32 may put a draw on the other side of a bound; of a nucleus of more tokens than
 * MC_LARGEST, which only the flat row has, the device does not see the rest. */
static void test_same_tokens(void **state) {
    (void)state;
    uint32_t allowed[(VOCAB + 31) / 32];
    mica_device *device;
    fill_mask(allowed);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    const uint64_t seeds = test_case_step() > 1 ? 1 : SEEDS;
    for (int i = 0; i < SETTINGS; i += test_case_step())
        for (int masked = 0; masked < 2; masked++) {
            const mc_sampling *same[ROWS] = {&settings[i], &settings[i], &settings[i]};
            const mc_sampling *mixed[ROWS] = {&settings[i], &settings[(i + 3) % SETTINGS],
                                              &settings[(i + 5) % SETTINGS]};
            int right = 0, all = 0;
            for (uint64_t seed = 1; seed <= seeds; seed++, all += 2 * ROWS) {
                right += draw_both(device, same, masked ? allowed : NULL, seed);
                right += draw_both(device, mixed, masked ? allowed : NULL, seed + 100);
            }
            const mc_sampling *first = &settings[i];
            bool cut = first->top_p > 0 && !first->top_k;
            if (right < all - (cut ? all / 3 : 1))
                fail_msg("settings %d%s: %d of %d draws are the host's", i,
                         masked ? ", masked" : "", right, all);
        }
    if (strcmp(device->backend->name, "cuda") == 0) /* nothing waits for the host there */
        assert_int_equal(mica_device_fallback_ops(device), 0);
    mica_device_close(&device);
}

/* ---- answers ---- */

enum { PROMPT = 6, TOKENS = 14 };

static const int32_t prompt[PROMPT] = {3, 14, 15, 92, 65, 35};
static const mica_logit_bias biased = {17, 2.0f};

static const mica_generate_options answers[] = {
    {.max_tokens = TOKENS, .temperature = 1.0f, .seed = 1},
    {.max_tokens = TOKENS, .temperature = 1.0f, .top_k = 20, .seed = 2},
    {.max_tokens = TOKENS, .temperature = 0.8f, .top_p = 0.6f, .seed = 3},
    {.max_tokens = TOKENS, .temperature = 0.9f, .min_p = 0.1f, .seed = 4},
    {.max_tokens = TOKENS, .repetition_penalty = 1.5f},
    {.max_tokens = TOKENS,
     .temperature = 1.0f,
     .seed = 5,
     .presence_penalty = 0.7f,
     .frequency_penalty = 0.4f,
     .min_tokens = 9},
    {.max_tokens = TOKENS,
     .temperature = 1.0f,
     .top_k = 8,
     .seed = 6,
     .logit_bias = &biased,
     .logit_bias_count = 1},
    {.max_tokens = TOKENS, .temperature = 1.0f, .seed = 7, .logprobs = true, .top_logprobs = 3},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

/* Allows every second token in turn, all after some. */
typedef struct parity {
    mc_constraint constraint;
    int n;
} parity;

static mica_status parity_mask(mc_constraint *constraint, mc_token_mask *mask) {
    const parity *p = (const parity *)(void *)constraint;
    mask->all = mask->may_end = p->n % 4 == 3;
    for (size_t i = 0; !mask->all && i < (mask->vocab + 31) / 32; i++)
        mask->allowed[i] = p->n % 2 ? 0x55555555u : 0xaaaaaaaau;
    return MICA_OK;
}

static mica_status parity_accept(mc_constraint *constraint, int32_t id) {
    parity *p = (parity *)(void *)constraint;
    p->n++;
    (void)id;
    return MICA_OK;
}

static void parity_close(mc_constraint *constraint) {
    free(constraint);
}

static mc_constraint *new_parity(void) {
    static const mc_constraint_ops ops = {parity_mask, parity_accept, parity_close};
    parity *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->constraint.ops = &ops;
    return &p->constraint;
}

typedef struct outcome {
    mica_status status;
    int n, followed, missed; /* tokens; those over which a pass ran ahead; over another one */
    int32_t ids[TOKENS];
    float logprobs[TOKENS];
} outcome;

static outcome answer(mc_session *session, const mica_generate_options *options, bool constrained,
                      bool follow) {
    mc_stream *stream;
    mica_token token;
    outcome o = {.n = 0};
    o.status = mc_stream_open(session, prompt, PROMPT, options, &stream);
    if (o.status != MICA_OK) return o;
    mc_stream_share(stream, !follow);
    if (constrained) assert_int_equal(mc_stream_constrain(stream, new_parity(), NULL), MICA_OK);
    for (; mc_stream_next(stream, &token); o.n++) {
        o.ids[o.n] = token.id;
        o.logprobs[o.n] = token.logprob;
        o.followed += session->has_follower;
        o.missed += session->has_follower && session->chosen != token.id;
    }
    o.status = mc_stream_status(stream);
    mc_stream_close(&stream);
    return o;
}

static mc_session *open_session(const mc_session_model *model) {
    mc_session *session;
    if (mc_session_open(model, 0, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

/* Answers are the same whether passes follow or not, and what they leave is. */
static void check_answers(const char *name) {
    model_fixture f;
    fixture_open(name, &f);
    const mc_session_model model = {.lm = f.lm, .device = f.device, .far_memory = true};
    const bool late = f.device->backend->late && f.device->backend->complete;
    int followed = 0, missed = 0;
    for (int i = 0; i < 2 * ANSWERS; i += test_case_step()) {
        outcome o[2][2];
        for (int follow = 0; follow < 2; follow++) {
            mc_session *session = open_session(&model);
            for (int k = 0; k < 2; k++) /* the second goes on where the prompt ends */
                o[follow][k] = answer(session, &answers[i % ANSWERS], i >= ANSWERS, follow);
            assert_int_equal(mc_session_count(session), PROMPT + o[follow][1].n - 1);
            mc_session_close(&session);
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(o[1][k].status, MICA_OK);
            assert_int_equal(o[0][k].n, o[1][k].n);
            assert_memory_equal(o[0][k].ids, o[1][k].ids, sizeof o[0][k].ids);
            assert_memory_equal(o[0][k].logprobs, o[1][k].logprobs, sizeof o[0][k].logprobs);
            assert_int_equal(o[0][k].followed, 0);
            followed += o[1][k].followed;
            missed += o[1][k].missed;
            if (late) assert_true(o[1][k].followed > 0);
        }
    }
    if (late && missed > followed / 10) fail_msg("%d of %d missed", missed, followed);
    fixture_close(&f);
}

static void test_answers(void **state) {
    (void)state;
    check_answers("gemma3_text_f32");
    check_answers("../families/lfm2_hf");
}

/* Whatever fails, the answer ends with that or is whole, and the session goes on. */
static void test_failures(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    const mc_session_model model = {.lm = f.lm, .device = f.device, .far_memory = true};
    mc_session *session = open_session(&model);
    const outcome want = answer(session, &answers[1], false, false);
    mc_session_close(&session);
    const bool witness = f.device->backend == &witness_backend;
    for (int call = 0; call < WITNESS_CALLS && witness; call++) {
        bool failed = true;
        for (uint64_t n = 1; failed; n += 1 + n / 8) {
            session = open_session(&model);
            witness_fail(f.device, (witness_call)call, n);
            outcome o = answer(session, &answers[1], false, true);
            failed = witness_has_failed(f.device, (witness_call)call);
            witness_fail(f.device, (witness_call)call, 0);
            assert_memory_equal(o.ids, want.ids, (size_t)o.n * sizeof *o.ids);
            if (o.status == MICA_OK) assert_int_equal(o.n, want.n);
            assert_true(o.status == MICA_OK || failed);
            o = answer(session, &answers[1], false, true);
            assert_int_equal(o.status, MICA_OK);
            assert_memory_equal(o.ids, want.ids, sizeof o.ids);
            mc_session_close(&session);
        }
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tokens),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, fill_rows, NULL);
}
