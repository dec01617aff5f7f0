/* Whole answers on the device mlx: the tokens of the cpu, and no memory that piles up. */
#define _POSIX_C_SOURCE 200809L
#include "mlx/executable.h"

#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "model/fixture.h"
#include "support/info.h"

typedef struct answerer {
    mica_device *device;
    mica_model *model;
    mica_session *session;
} answerer;

static answerer open_answerer(const char *device, const char *path, mica_arithmetic arithmetic) {
    answerer a;
    if (mica_device_open(device, NULL, &a.device) != MICA_OK) fail_msg("%s", mica_last_error());
    const mica_model_options options = {.device = a.device, .arithmetic = arithmetic};
    if (mica_model_open(path, &options, &a.model) != MICA_OK ||
        mica_session_open(a.model, NULL, &a.session) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return a;
}

static void close_answerer(answerer *a) {
    mica_session_close(&a->session);
    mica_model_close(&a->model);
    assert_int_equal(test_active_bytes(a->device), 0);
    mica_device_close(&a->device);
}

/* Writes the tokens of an answer to `tokens`, where it is not NULL, and returns their number. */
static int answer(const answerer *a, const int32_t *prompt, size_t n, int max, int32_t *tokens) {
    const mica_generate_options options = {.max_tokens = max, .ignore_eos = true};
    mica_stream *stream;
    mica_token token;
    int count = 0;
    if (mica_generate_ids(a->session, prompt, n, &options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (; mica_stream_next(stream, &token); count++)
        if (tokens) tokens[count] = token.id;
    if (mica_stream_status(stream) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_stream_close(&stream);
    return count;
}

/* ---- the default model ---- */

enum { MAX_PROMPT = 512, TOKENS = 16 };

static void test_greedy_answers_are_those_of_the_cpu(void **state) {
    (void)state;
    char *path = test_format("%s/default", test_models_dir());
    char *golden = test_format("%s/golden.json", path);
    mc_json_doc *doc = test_load_json(golden);
    answerer cpu = open_answerer("cpu", path, MICA_ARITHMETIC_EXACT);
    answerer mlx = open_answerer("mlx:cpu", path, MICA_ARITHMETIC_EXACT);
    int answers = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); answers++) {
        int32_t prompt[MAX_PROMPT], want[TOKENS], got[TOKENS];
        size_t n = 0;
        mc_json_iter ids = mc_json_begin(mc_json_find(it.value, "prompt_ids"));
        for (int64_t id; n < MAX_PROMPT && mc_json_next(&ids); prompt[n++] = (int32_t)id)
            assert_true(mc_json_get_int(ids.value, &id));
        assert_int_equal(answer(&cpu, prompt, n, TOKENS, want), TOKENS);
        assert_int_equal(answer(&mlx, prompt, n, TOKENS, got), TOKENS);
        assert_memory_equal(got, want, sizeof want);
    }
    assert_true(answers > 2);
    close_answerer(&cpu);
    close_answerer(&mlx);
    mc_json_close(&doc);
    free(golden);
    free(path);
}

/* Fast arithmetic as on a GPU, where activations are bf16 between ops: MLX's CPU computes what a
 * GPU would be given. */
static void test_answers_in_bf16(void **state) {
    (void)state;
    enum { FEW = 8 };
    static const char *const modes[] = {"lazy", "compiled"};
    char *path = test_format("%s/default", test_models_dir());
    for (int i = 0; i < 2; i++) {
        setenv("MICA_MLX_MODE", modes[i], 1);
        answerer mlx = open_answerer("mlx:cpu", path, MICA_ARITHMETIC_FAST);
        ((mc_mlx_state *)mlx.device->state)->on_cpu = false;
        const mica_generate_options options = {.max_tokens = FEW};
        const mica_message message = {.role = "user", .content = "What is curl?"};
        mica_stream *stream;
        char text[128] = "";
        assert_int_equal(mica_chat(mlx.session, &message, 1, &options, &stream), MICA_OK);
        for (mica_token token; mica_stream_next(stream, &token);)
            strncat(text, token.text, token.len);
        if (mica_stream_status(stream) != MICA_OK) fail_msg("%s", mica_last_error());
        assert_string_equal(text, "curl is a command line tool for transferring");
        mica_stream_close(&stream);
        close_answerer(&mlx);
    }
    unsetenv("MICA_MLX_MODE");
    free(path);
}

/* ---- memory ---- */

static const int32_t prompt[] = {3, 14, 15, 92, 65, 35};

/* MLX's CPU copies mapped weights, once: its memory is theirs and the caches'. Compiled, because
 * otherwise small weights stay cast, too. */
static void test_weights_are_copied_once(void **state) {
    (void)state;
    enum { OTHERS = 1 << 17 }; /* constants of graphs, and a row of logits */
    char *path = test_format("%s/default", test_models_dir());
    setenv("MICA_MLX_MODE", "compiled", 1);
    answerer a = open_answerer("mlx:cpu", path, MICA_ARITHMETIC_EXACT);
    uint64_t weights = test_model_info(a.model).weight_bytes;
    assert_true(mica_device_active_bytes(a.device) < OTHERS); /* they are mapped */
    for (int i = 0; i < 2; i++) {
        answer(&a, prompt, 6, 3, NULL);
        uint64_t active = mica_device_active_bytes(a.device);
        uint64_t caches = mica_model_cache_bytes(a.model, 9);
        if (active < weights + caches || active > weights + caches + OTHERS)
            fail_msg("%llu bytes, of which %llu are weights and %llu caches",
                     (unsigned long long)active, (unsigned long long)weights,
                     (unsigned long long)caches);
    }
    close_answerer(&a);
    unsetenv("MICA_MLX_MODE");
    free(path);
}

/* From the 20th answer on neither the heap nor MLX's memory grows: an array that was not freed in
 * each of them would be 100 times a hundred bytes. */
static void check_answers_leave_nothing(const char *mode, int answers) {
    char *path = fixture_path("gemma3_text_f32");
    setenv("MICA_MLX_MODE", mode, 1);
    answerer a = open_answerer("mlx:cpu", path, MICA_ARITHMETIC_EXACT);
    size_t heap = 0;
    uint64_t active = 0;
    for (int i = 0; i < answers; i++) {
        answer(&a, prompt, 3 + (size_t)i % 4, 5, NULL);
        uint64_t now = mica_device_active_bytes(a.device); /* and what waits is freed */
        if (i == 19) heap = test_heap_bytes(), active = now;
        if (i >= 19) assert_int_equal(now, active);
    }
    assert_true(test_heap_bytes() < heap + 8192);
    close_answerer(&a);
    free(path);
}

static void test_answers_leave_nothing(void **state) {
    (void)state;
    const int answers = test_is_brief() ? 40 : 200;
    check_answers_leave_nothing("lazy", answers);
    check_answers_leave_nothing("compiled", answers);
}

/* MLX's memory after 1,000 tokens is that after 300 but for the caches of the two layers that see
 * all tokens: at most 1,280 entries more, of keys and values of 2 heads of 16 floats. With
 * logprobs no pass runs ahead, which would be counted too. */
static void check_a_long_answer(const char *mode) {
    enum { SHORT = 300, LONG = 1000 };
    const uint64_t grown = 1280 * 2 * 2 * 2 * 16 * sizeof(float);
    char *path = fixture_path("gemma3_text_f32");
    setenv("MICA_MLX_MODE", mode, 1);
    answerer a = open_answerer("mlx:cpu", path, MICA_ARITHMETIC_EXACT);
    const mica_generate_options options = {
        .max_tokens = LONG, .ignore_eos = true, .logprobs = true};
    mica_stream *stream;
    mica_token token;
    uint64_t active = 0, later = 0, now = 0;
    assert_int_equal(mica_generate_ids(a.session, prompt, 6, &options, &stream), MICA_OK);
    for (int i = 1; mica_stream_next(stream, &token); i++) {
        now = mica_device_active_bytes(a.device);
        if (i == SHORT) active = now;
        if (i == LONG - 100) later = now;
        if (i > LONG - 100) assert_int_equal(now, later);
    }
    assert_true(now > active && now <= active + grown);
    mica_stream_close(&stream);
    answer(&a, prompt, 6, SHORT, NULL);
    active = mica_device_active_bytes(a.device);
    answer(&a, prompt, 6, SHORT + 100, NULL); /* into caches of the same size */
    assert_int_equal(mica_device_active_bytes(a.device), active);
    close_answerer(&a);
    free(path);
}

static void test_a_long_answer_is_bounded(void **state) {
    (void)state;
    if (test_is_brief()) skip();
    check_a_long_answer("lazy");
    check_a_long_answer("compiled");
}

int main(void) {
    setenv("MICA_TEST_DEVICE", "mlx:cpu", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_answers_are_those_of_the_cpu),
        cmocka_unit_test(test_answers_in_bf16),
        cmocka_unit_test(test_weights_are_copied_once),
        cmocka_unit_test(test_answers_leave_nothing),
        cmocka_unit_test(test_a_long_answer_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
