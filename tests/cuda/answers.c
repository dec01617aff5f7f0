/* Answers on the emulated driver: calls of the driver that fail in the middle of one, a GPU that is
 * lost, many openings, several processes. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/fixture.h"

enum { PROMPT = 5, TOKENS = 4 };

static uint64_t (*emulated_calls)(void);
static int64_t (*emulated_living)(void);
static void (*emulated_fail_at)(uint64_t n);
static void (*emulated_lose)(bool for_good);
static void (*emulated_take)(uint64_t bytes);

static char *folder; /* of the model */

typedef struct answer {
    mica_status status;
    int n;
    int32_t ids[TOKENS];
} answer;

/* lose_at: the GPU is lost before the token of that number; -1: it is not. */
static answer answer_of(mica_model *model, float temperature, int lose_at, bool for_good) {
    static const int32_t prompt[PROMPT] = {3, 14, 15, 92, 65};
    const mica_generate_options options = {
        .max_tokens = TOKENS, .temperature = temperature, .top_k = 8, .ignore_eos = true};
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_token token;
    answer a = {.n = 0};
    a.status = mica_session_open(model, NULL, &session);
    if (a.status == MICA_OK)
        a.status = mica_generate_ids(session, prompt, PROMPT, &options, &stream);
    for (bool more = a.status == MICA_OK; more;) {
        if (a.n == lose_at) emulated_lose(for_good);
        more = mica_stream_next(stream, &token);
        if (more && token.id >= 0) a.ids[a.n++] = token.id; /* others are the rest of the text */
    }
    if (a.status == MICA_OK) a.status = mica_stream_status(stream);
    mica_stream_close(&stream);
    mica_session_close(&session);
    return a;
}

/* The same of a model that is opened and closed for it. */
static answer open_and_answer(float temperature, int lose_at, bool for_good) {
    mica_model *model;
    answer a = {.status =
                    mica_model_open(folder, &(mica_model_options){.device_name = "cuda"}, &model)};
    if (a.status != MICA_OK) return a;
    a = answer_of(model, temperature, lose_at, for_good);
    mica_model_close(&model);
    return a;
}

static int find_functions(void **state) {
    (void)state;
    setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
    void *handle = dlopen(MICA_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return -1;
    *(void **)&emulated_calls = dlsym(handle, "emulated_calls");
    *(void **)&emulated_living = dlsym(handle, "emulated_living");
    *(void **)&emulated_fail_at = dlsym(handle, "emulated_fail_at");
    *(void **)&emulated_lose = dlsym(handle, "emulated_lose");
    *(void **)&emulated_take = dlsym(handle, "emulated_take");
    folder = fixture_path("gemma3_text_f32");
    return emulated_calls && emulated_living && emulated_fail_at && emulated_lose && emulated_take
               ? 0
               : -1;
}

static int free_folder(void **state) {
    (void)state;
    free(folder);
    return 0;
}

/* Whichever call fails, the answer has the right tokens as far as it comes, and nothing is left. */
static void check_failing_calls(float temperature) {
    uint64_t failed = 0;
    const answer want = open_and_answer(temperature, -1, false);
    assert_int_equal(want.status, MICA_OK);
    assert_int_equal(want.n, TOKENS);
    for (uint64_t n = 1;; n += 1 + n / 2) {
        emulated_fail_at(n);
        const answer got = open_and_answer(temperature, -1, false);
        uint64_t calls = emulated_calls();
        emulated_fail_at(0);
        assert_int_equal(emulated_living(), 0);
        assert_memory_equal(got.ids, want.ids, (size_t)got.n * sizeof *got.ids);
        if (calls < n) break;
        failed += got.status != MICA_OK;
        assert_true(got.status == MICA_EDEVICE || got.status == MICA_ENOMEM ||
                    (got.status == MICA_OK && got.n == TOKENS));
    }
    assert_true(failed > 5);
}

static void test_calls_that_fail(void **state) {
    (void)state;
    check_failing_calls(0);
    check_failing_calls(1);
}

/* What runs when the GPU is lost ends with a status. A model that is opened then works if the
 * driver has a GPU again, or says that it has none; what it left is gone either way. */
static void test_a_lost_gpu(void **state) {
    (void)state;
    const answer want = open_and_answer(1, -1, false);
    for (int at = 0; at < TOKENS; at += 2) {
        for (int for_good = 0; for_good < 2; for_good++) {
            const answer got = open_and_answer(1, at, for_good);
            assert_int_equal(got.status, MICA_EDEVICE);
            assert_non_null(strstr(mica_last_error(), "cuda: "));
            assert_int_equal(got.n, at);
            assert_memory_equal(got.ids, want.ids, (size_t)at * sizeof *got.ids);
            assert_int_equal(emulated_living(), 0);
            const answer next = open_and_answer(1, -1, false);
            assert_int_equal(next.status, for_good ? MICA_EDEVICE : MICA_OK);
            if (for_good)
                assert_non_null(strstr(mica_last_error(), "CUDA_ERROR_NO_DEVICE"));
            else
                assert_memory_equal(next.ids, want.ids, sizeof next.ids);
            emulated_fail_at(0); /* there is one again */
        }
    }
}

/* Sessions of a model whose GPU is lost fail too, each with a status, and so does one that was open
 * all the time. */
static void test_others_on_a_lost_gpu(void **state) {
    (void)state;
    mica_model *model;
    assert_int_equal(mica_model_open(folder, &(mica_model_options){.device_name = "cuda"}, &model),
                     MICA_OK);
    assert_int_equal(answer_of(model, 0, 1, false).status, MICA_EDEVICE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(answer_of(model, (float)i, -1, false).status, MICA_EDEVICE);
    mica_model_close(&model);
    assert_int_equal(emulated_living(), 0);
    assert_int_equal(open_and_answer(0, -1, false).status, MICA_OK);
}

static void test_many_openings(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        mica_model *model;
        assert_int_equal(
            mica_model_open(folder, &(mica_model_options){.device_name = "cuda"}, &model), MICA_OK);
        if (i % 50 == 49) assert_int_equal(answer_of(model, 1, -1, false).status, MICA_OK);
        mica_model_close(&model);
        assert_int_equal(emulated_living(), 0);
    }
}

/* Each process has a device of its own; one that ends takes nothing from the others. */
static void test_several_processes(void **state) {
    (void)state;
    enum { PROCESSES = 3 };
    const answer want = open_and_answer(1, -1, false);
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] != 0) continue;
        const answer got = open_and_answer(1, i == 0 ? 2 : -1, true);
        bool right = i == 0 ? got.status == MICA_EDEVICE : got.status == MICA_OK && got.n == want.n;
        _exit(right && memcmp(got.ids, want.ids, (size_t)got.n * sizeof *got.ids) == 0 ? 0 : 1);
    }
    const answer own = open_and_answer(1, -1, false);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(own.status, MICA_OK);
    assert_memory_equal(own.ids, want.ids, sizeof own.ids);
}

/* The note on which layers the CPU computes; NULL: none. */
static const char *note_of(const mica_model *model) {
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(model, &info);
    return info.note ? strstr(info.note, "the CPU computes layers 0 to ") : NULL;
}

/* The answer of a model that has to leave layers to the CPU is that of one that has not; its
 * sessions and its passes fit into what is left. */
static void expect_layers(const answer *want, bool apart) {
    const mica_model_options options = {.device_name = "cuda", .context_length = 2048};
    mica_model *model;
    assert_int_equal(mica_model_open(folder, &options, &model), MICA_OK);
    assert_int_equal(note_of(model) != NULL, apart);
    const answer got = answer_of(model, 0, -1, false);
    if (got.status != MICA_OK) fail_msg("%s", mica_last_error());
    assert_memory_equal(got.ids, want->ids, sizeof got.ids);
    mica_model_close(&model);
    assert_int_equal(emulated_living(), 0);
}

/* Of a small GPU, and of one whose memory other processes have. */
static void test_layers_that_do_not_fit(void **state) {
    (void)state;
    const answer want = open_and_answer(0, -1, false);
    char bytes[32];
    mica_model *model;
    mica_model_info info = {.struct_bytes = sizeof info};
    setenv("MICA_CALIBRATION", "off", 1);
    assert_int_equal(mica_model_open(folder, NULL, &model), MICA_OK);
    mica_model_get_info(model, &info);
    mica_model_close(&model);
    expect_layers(&want, false);
    info.weight_bytes *= 2; /* enough for passes, but not for caches of the whole context */
    (void)snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)info.weight_bytes);
    setenv("MICA_EMULATED_MEMORY", bytes, 1);
    expect_layers(&want, true);
    unsetenv("MICA_EMULATED_MEMORY");
    emulated_take((UINT64_C(8) << 30) - info.weight_bytes);
    expect_layers(&want, true);
    emulated_take(0);
    expect_layers(&want, false);
    unsetenv("MICA_CALIBRATION");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_that_do_not_fit),
        cmocka_unit_test(test_calls_that_fail),
        cmocka_unit_test(test_a_lost_gpu),
        cmocka_unit_test(test_others_on_a_lost_gpu),
        cmocka_unit_test(test_many_openings),
        cmocka_unit_test(test_several_processes),
    };
    return cmocka_run_group_tests(tests, find_functions, free_folder);
}
