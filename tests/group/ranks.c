/* Several ranks: started by mpirun, each runs all of this. Every op against what numpy would say of
 * the same numbers; every fixture model, whole and as a rank's part, to the bit. */
#include <mica/mica.h>

#include <string.h>

#include "group/group.h"
#include "model/fixture.h"
#include "op/floats.h"
#include "session/session_file.h"

enum { PATIENCE_S = 200 }; /* a busy machine keeps processes from starting, and from giving signs */

static mica_group *group;
static int rank, size;
static mica_device *device;

static mica_scope *open_scope(void) {
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    return s;
}

#define CHECK(call) \
    if ((call) != MICA_OK) fail_msg("%s", mica_last_error())

/* ---- ops ---- */

/* x_r[i] = 10 r + i: sums, parts and what other ranks have are known. */
static mica_array own(mica_scope *s, mica_dtype dtype, int64_t n) {
    mica_array x = mica_arange(s, 10.0 * rank, 10.0 * rank + (double)n, 1.0, MICA_F32);
    return mica_astype(s, x, dtype);
}

static float ranks_sum(int64_t i) {
    return (float)(5 * size * (size - 1) + size * i);
}

static void sums(void **state) {
    (void)state;
    (void)state;
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16, MICA_I32, MICA_U16};
    mica_scope *s = open_scope();
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        mica_array order = MICA_NONE;
        mica_array y = mica_all_reduce(s, group, own(s, dtypes[k], 7), &order);
        float *got = read_f32(mica_astype(s, y, MICA_F32));
        for (int64_t i = 0; i < 7; i++)
            assert_true(got[i] == ranks_sum(i));
        free(got);
    }
    mica_array y = mica_all_reduce(s, group, mica_astype(s, own(s, MICA_F32, 3), MICA_BOOL), NULL);
    assert_false(mica_valid(y));
    assert_non_null(strstr(mica_last_error(), "all_reduce: of bool[3] there is no sum"));
    mica_scope_close(&s);
}

/* Many numbers go another way than few, and are added in the same order. */
static void large_sums(void **state) {
    (void)state;
    (void)state;
    enum { N = 100003, FEW = 64 };
    mica_scope *s = open_scope();
    mica_array x = noise(s, (int64_t[]){N}, 1, 77u + (uint32_t)rank);
    float *all = read_f32(mica_all_reduce(s, group, x, NULL));
    float *few = read_f32(mica_all_reduce(s, group, mica_slice_axis(s, x, 0, 0, FEW), NULL));
    assert_memory_equal(all, few, FEW * sizeof *few);
    float *values = malloc(N * sizeof *values), *want = calloc(N, sizeof *want);
    for (int r = 0; r < size; r++) {
        fill(values, N, 77u + (uint32_t)r);
        for (int i = 0; i < N; i++)
            want[i] = r ? want[i] + values[i] : values[i];
    }
    assert_memory_equal(all, want, N * sizeof *want);
    free(all);
    free(few);
    free(values);
    free(want);
    mica_scope_close(&s);
}

/* Along an inner axis, from operands that are not dense. */
static void parts(void **state) {
    (void)state;
    (void)state;
    mica_scope *s = open_scope();
    mica_array order = MICA_NONE, x = mica_reshape(s, own(s, MICA_F32, 6), (int64_t[]){3, 2}, 2);
    mica_array y = mica_all_gather(s, group, mica_transpose(s, x, NULL), 1, &order);
    assert_int_equal(mica_array_dim(y, 1), 3 * size);
    float *got = read_f32(y);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3 * size; j++)
            assert_true(got[i * 3 * size + j] == (float)(10 * (j / 3) + 2 * (j % 3) + i));
    free(got);
    mica_array z = mica_reduce_scatter(s, group, y, 1, &order); /* of equal arrays */
    assert_int_equal(mica_array_dim(z, 1), 3);
    got = read_f32(z);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            assert_true(got[i * 3 + j] == (float)(size * (10 * rank + 2 * j + i)));
    free(got);
    z = mica_reduce_scatter(s, group, mica_zeros(s, (int64_t[]){size + 1}, 1, MICA_F32), 0, NULL);
    assert_false(mica_valid(z));
    mica_scope_close(&s);
}

static void one_to_others(void **state) {
    (void)state;
    (void)state;
    mica_scope *s = open_scope();
    mica_array order = MICA_NONE, x = own(s, MICA_I32, 4);
    int root = size - 1, next = (rank + 1) % size, before = (rank + size - 1) % size;
    int32_t got[4];
    CHECK(mica_read(mica_broadcast(s, group, x, root, &order), got, sizeof got));
    assert_int_equal(got[3], 10 * root + 3);
    order = MICA_NONE;
    mica_array sent = rank % 2 ? MICA_NONE : mica_send(s, group, x, next, &order);
    mica_array came = mica_recv(s, group, x, before, &order);
    if (rank % 2) sent = mica_send(s, group, x, next, &order);
    CHECK(mica_eval_n(s, (mica_array[]){sent, came}, 2));
    CHECK(mica_read(came, got, sizeof got));
    assert_int_equal(got[2], 10 * before + 2);
    assert_false(mica_valid(mica_broadcast(s, group, x, size, NULL)));
    assert_non_null(strstr(mica_last_error(), "there is no rank"));
    mica_scope_close(&s);
}

/* Of the sum of all ranks' losses, which here are sum(w_r * op(x_r)). */
static void gradients(void **state) {
    (void)state;
    (void)state;
    mica_scope *s = open_scope();
    mica_array order = MICA_NONE, dx, x = mica_detach(s, own(s, MICA_F32, 2));
    mica_array w = mica_f32(s, (float)(rank + 1));
    mica_array y = mica_multiply(s, mica_all_reduce(s, group, x, &order), w);
    CHECK(mica_grad(s, mica_sum(s, y, NULL, 0, false), MICA_NONE, &x, 1, &dx));
    float all = (float)(size * (size + 1) / 2);
    expect_f32(dx, (float[]){all, all}, (int64_t[]){2}, 1, 0);
    y = mica_all_gather(s, group, x, 0, NULL);
    CHECK(mica_grad(s, mica_multiply(s, mica_sum(s, y, NULL, 0, false), w), MICA_NONE, &x, 1, &dx));
    expect_f32(dx, (float[]){all, all}, (int64_t[]){2}, 1, 0);
    y = mica_multiply(s, mica_broadcast(s, group, x, 0, NULL), w);
    CHECK(mica_grad(s, mica_sum(s, y, NULL, 0, false), MICA_NONE, &x, 1, &dx));
    float on_root = rank == 0 ? all : 0;
    expect_f32(dx, (float[]){on_root, on_root}, (int64_t[]){2}, 1, 0);
    mica_scope_close(&s);
}

/* In the order in which they were recorded, whatever is asked for: the last value is asked for
 * first, and rank 0 reads the others after it. */
static void order_holds(void **state) {
    (void)state;
    (void)state;
    enum { N = 12 };
    mica_scope *s = open_scope();
    mica_array order = MICA_NONE, y[N], back[N];
    for (int i = 0; i < N; i++)
        y[i] = mica_all_reduce(s, group, mica_f32(s, (float)i), &order);
    for (int i = 0; i < N; i++)
        back[i] = y[rank % 2 ? N - 1 - i : i];
    CHECK(mica_eval_n(s, back, N));
    for (int i = 0; i < N; i++) {
        float got;
        CHECK(mica_read(y[i], &got, sizeof got));
        assert_true(got == (float)(size * i));
    }
    mica_scope_close(&s);
}

static void programs(void **state) {
    (void)state;
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){3}, 1), order = MICA_NONE, z;
    mica_array y = mica_all_reduce(s, group, mica_square(s, x), &order);
    y = mica_all_gather(s, group, mica_add(s, y, x), 0, &order);
    const mica_param param = {.name = "x", .array = x};
    mica_program *program;
    CHECK(mica_program_build(s, &param, 1, &y, 1, NULL, &program));
    for (int i = 0; i < 3; i++) {
        mica_array arg = own(s, MICA_F32, 3);
        CHECK(mica_program_run(program, s, &arg, &z));
        float *got = read_f32(z), want = 0;
        for (int r = 0; r < size; r++)
            want += (float)(100 * r * r);
        assert_true(got[0] == want);
        assert_true(got[3 * (size - 1)] == want + (float)(10 * (size - 1)));
        free(got);
    }
    mica_program_close(&program);
    mica_scope_close(&s);
}

static void halves(void **state) {
    (void)state;
    (void)state;
    mica_group *part;
    CHECK(mica_group_split(group, rank % 2, -rank, &part));
    assert_int_equal(mica_group_size(part), (size + 1 - rank % 2) / 2);
    mica_scope *s = open_scope();
    float got, want = 0;
    for (int r = rank % 2; r < size; r += 2)
        want += (float)r;
    CHECK(mica_read(mica_all_reduce(s, part, mica_f32(s, (float)rank), NULL), &got, sizeof got));
    assert_true(got == want);
    mica_scope_close(&s);
    mica_group_close(&part);
}

static void agreement(void **state) {
    (void)state;
    (void)state;
    char text[32] = "0.1";
    CHECK(mica_group_agree(group, "the version", text));
    if (rank == size - 1) strcpy(text, "0.2");
    assert_int_equal(mica_group_agree(group, "version", text), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "has '0.2', and rank 0 '0.1'"));
    char shared[6] = "";
    if (rank == 1) memcpy(shared, "hello", 6);
    CHECK(mica_group_share(group, shared, sizeof shared, 1));
    assert_string_equal(shared, "hello");
}

/* ---- models ---- */

enum { TEXT = 21, PROMPT = 16 };

static void text_of(const mc_lm *lm, int32_t ids[TEXT]) {
    for (int i = 0; i < TEXT; i++)
        ids[i] = (int32_t)((7 * i * i + 11 * i + 3) % lm->spec.vocab);
}

/* The logits behind a prompt and behind each token after it, from a session's caches. */
static float *decode(const mc_lm *lm, const int32_t ids[TEXT]) {
    const mc_session_model model = {.lm = lm, .device = device};
    size_t vocab = (size_t)lm->spec.vocab, n = TEXT - PROMPT + 1;
    float *all = malloc(n * vocab * sizeof *all);
    mc_session *session;
    const float *logits;
    CHECK(mc_session_open(&model, 0, &session));
    for (size_t i = 0; i < n; i++) {
        const int32_t *next = i ? &ids[PROMPT + i - 1] : ids;
        CHECK(mc_session_feed(session, next, i ? 1 : PROMPT, &logits));
        memcpy(all + i * vocab, logits, vocab * sizeof *all);
    }
    mc_session_close(&session);
    return all;
}

static void same_bits(const model_fixture *f, const mc_lm *part, const char *layout,
                      const char *arithmetic) {
    int32_t ids[TEXT];
    size_t vocab = (size_t)f->lm->spec.vocab;
    text_of(f->lm, ids);
    float *want = fixture_logits(device, f->lm, ids, TEXT);
    float *got = fixture_logits(device, part, ids, TEXT);
    char what[160];
    snprintf(what, sizeof what, "%s, %s, %s", f->name, layout, arithmetic);
    fixture_compare(got, want, TEXT * vocab, 0.0, "%s: logits of rank %d", what, rank);
    free(want);
    free(got);
    want = decode(f->lm, ids);
    got = decode(part, ids);
    fixture_compare(got, want, (TEXT - PROMPT + 1) * vocab, 0.0, "%s: decode of rank %d", what,
                    rank);
    free(want);
    free(got);
}

/* ---- sessions in files ---- */

static char *folder; /* of rank 0 */

static mc_session *open_session(const mc_session_model *model) {
    mc_session *session;
    CHECK(mc_session_open(model, 0, &session));
    return session;
}

/* The logits behind each of the last tokens of the text. */
static float *logits_after(mc_session *session, const int32_t ids[TEXT]) {
    size_t vocab = (size_t)session->model->lm->spec.vocab, n = TEXT - PROMPT;
    float *all = malloc(n * vocab * sizeof *all);
    const float *logits;
    for (size_t i = 0; i < n; i++) {
        CHECK(mc_session_feed(session, &ids[PROMPT + i], 1, &logits));
        memcpy(all + i * vocab, logits, vocab * sizeof *all);
    }
    return all;
}

/* Rank 0's process saves one of its own model, too: the files are the same. All ranks go on from
 * that, as it does itself. */
static void check_session(const model_fixture *f, const mc_lm *part, const char *layout) {
    int32_t ids[TEXT];
    size_t vocab = (size_t)f->lm->spec.vocab;
    mc_session_model one = {.lm = f->lm, .device = device}, shared = {.lm = part, .device = device};
    CHECK(mc_session_fingerprint(&one, &shared.fingerprint));
    text_of(f->lm, ids);
    char *alone = test_format("%s/alone", folder), *together = test_format("%s/together", folder);
    mc_session *own = open_session(&one), *session = open_session(&shared);
    CHECK(mc_session_feed(own, ids, PROMPT, NULL));
    CHECK(mc_session_feed(session, ids, PROMPT, NULL));
    CHECK(mc_session_save(session, together));
    if (rank == 0) {
        size_t n, m;
        CHECK(mc_session_save(own, alone));
        char *a = test_read_file(alone, &n), *b = test_read_file(together, &m);
        if (n != m || memcmp(a, b, n) != 0) fail_msg("%s, %s: other files", f->name, layout);
        free(a);
        free(b);
    }
    mc_session_close(&session);
    CHECK(mc_session_load(&shared, alone, 0, &session));
    float *want = logits_after(own, ids), *got = logits_after(session, ids);
    fixture_compare(got, want, (TEXT - PROMPT) * vocab, 0.0, "%s, %s: resumed by rank %d", f->name,
                    layout, rank);
    free(want);
    free(got);
    mc_session_close(&session);
    mc_session_close(&own);
    free(alone);
    free(together);
}

/* What rank 0 finds is told by all. */
static void no_session(void **state) {
    (void)state;
    char *path = fixture_path("llama_untied_f32");
    mc_lm *lm;
    mc_session *session;
    CHECK(mc_lm_open(path, device, NULL, &lm));
    CHECK(mc_lm_split(lm, group, 0, 0));
    const mc_session_model shared = {.lm = lm, .device = device, .fingerprint = 1};
    assert_int_equal(mc_session_load(&shared, "/nowhere/session", 0, &session), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "/nowhere/session"));
    session = open_session(&shared);
    CHECK(mc_session_feed(session, (const int32_t[]){1, 2, 3}, 3, NULL));
    assert_int_equal(mc_session_save(session, "/nowhere/session"), MICA_ENOENT);
    mc_session_close(&session);
    mc_lm_close(&lm);
    free(path);
}

/* ---- layouts ---- */

/* Ranks of a stage; stages are as many as that leaves. */
static int in_stage;

static void check_model(const model_fixture *f) {
    mc_lm *part;
    char layout[32];
    if (f->lm->spec.both_ways) return;
    device = f->device;
    snprintf(layout, sizeof layout, "%d x %d", in_stage, size / in_stage);
    CHECK(mc_lm_open(f->path, f->device, NULL, &part));
    CHECK(mc_lm_split(part, group, in_stage, 0));
    same_bits(f, part, layout, "exact");
    check_session(f, part, layout);
    mc_lm_set_arithmetic(f->lm, MICA_ARITHMETIC_FAST);
    mc_lm_set_arithmetic(part, MICA_ARITHMETIC_FAST);
    same_bits(f, part, layout, "fast");
    mc_lm_close(&part);
}

/* The base model of an adapter's goldens, with the adapter. */
static void check_adapter(const model_fixture *f) {
    mc_lm *part;
    mc_str base;
    char layout[32];
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(f->golden), "base"), &base));
    char *path = test_format("%s/%.*s", test_fixtures_dir(), MC_STR_ARG(base));
    device = f->device;
    snprintf(layout, sizeof layout, "%d x %d", in_stage, size / in_stage);
    CHECK(mc_lm_open(path, f->device, NULL, &part));
    CHECK(mc_lm_adapt(part, f->path));
    CHECK(mc_lm_split(part, group, in_stage, 0));
    same_bits(f, part, layout, "with an adapter");
    mc_lm_close(&part);
    free(path);
}

/* ---- answers ---- */

enum { ANSWER = 12 };

/* Two answers of a session with a draft model, of prompts that begin alike; between them it is
 * saved and opened again. */
static void answer_twice(mica_model *model, const char *path, int32_t ids[2 * ANSWER]) {
    static const char *const prompts[] = {"curl is a tool. curl is a", "curl is a tool. tar is"};
    const mica_session_options with = {.draft_model = model};
    const mica_generate_options options = {.max_tokens = ANSWER, .temperature = 0};
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    CHECK(mica_session_open(model, &with, &session));
    for (int k = 0; k < 2; k++) {
        CHECK(mica_generate(session, prompts[k], 0, &options, &stream));
        for (int i = 0; mica_stream_next(stream, &token); i++)
            if (token.id >= 0) ids[k * ANSWER + i % ANSWER] = token.id;
        CHECK(mica_stream_status(stream));
        mica_metrics metrics = {.struct_bytes = sizeof metrics};
        mica_stream_metrics(stream, &metrics);
        assert_true(k == 0 || metrics.reused_tokens >= 5);
        mica_stream_close(&stream);
        if (k) continue;
        CHECK(mica_session_save(session, path));
        mica_session_close(&session);
        CHECK(mica_session_load(model, path, &with, &session));
    }
    mica_session_close(&session);
}

static void check_answers(void) {
    char *path = test_format("%s/default", test_models_dir());
    char *file = test_format("%s/session-%d", folder ? folder : "/nowhere", in_stage);
    int32_t want[2 * ANSWER] = {0}, got[2 * ANSWER] = {0};
    mica_model *model;
    mica_model_options options = {.threads = 1, .group = group, .tensor_parallel = in_stage};
    CHECK(mica_model_open(path, &options, &model));
    answer_twice(model, file, got);
    mica_model_close(&model);
    options.group = NULL;
    options.tensor_parallel = 0;
    if (rank == 0) { /* the file is its own */
        CHECK(mica_model_open(path, &options, &model));
        answer_twice(model, file, want);
        assert_memory_equal(got, want, sizeof got);
        mica_model_close(&model);
    }
    CHECK(mica_group_agree(group, "the test", "goes on"));
    free(path);
    free(file);
}

static void check_models(int tensor) {
    mica_device *own_device = device;
    in_stage = tensor;
    fixture_each(check_model);
    fixture_each_adapter(check_adapter);
    device = own_device;
    check_answers();
}

static void tensor(void **state) {
    (void)state;
    (void)state;
    check_models(size);
}

static void pipeline(void **state) {
    (void)state;
    (void)state;
    check_models(1);
}

/* Four ranks: two stages of two. */
static void both(void **state) {
    (void)state;
    (void)state;
    if (size == 4) check_models(2);
}

static void wrong_sizes(void **state) {
    (void)state;
    (void)state;
    char *path = fixture_path("llama_untied_f32");
    mc_lm *lm;
    CHECK(mc_lm_open(path, device, NULL, &lm));
    assert_int_equal(mc_lm_split(lm, group, size + 1, 0), MICA_EINVAL);
    assert_int_equal(mc_lm_split(lm, group, size, 2), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "pipeline_parallel 2 is not the number of ranks"));
    mc_lm_close(&lm);
    free(path);
}

/* A rank reads its own rows of the files alone. */
static void parts_are_views(void **state) {
    (void)state;
    (void)state;
    char *path = fixture_path("llama_untied_f32");
    mc_lm *lm;
    uint64_t before = mica_device_active_bytes(device);
    CHECK(mc_lm_open(path, device, NULL, &lm));
    uint64_t whole = mica_device_active_bytes(device);
    CHECK(mc_lm_split(lm, group, 0, 0));
    assert_true(mica_device_active_bytes(device) == whole);
    assert_int_equal(lm->head.out, (lm->head.whole + size - 1) / size);
    mc_lm_close(&lm);
    CHECK(mc_lm_open(path, device, NULL, &lm));
    CHECK(mc_lm_split(lm, group, 0, size));
    assert_true(mica_device_active_bytes(device) == whole);
    assert_int_equal(lm->head.out, (lm->head.whole + size - 1) / size);
    int first = 3 * rank / size, end = 3 * (rank + 1) / size; /* three layers */
    assert_int_equal(lm->before, first);
    assert_int_equal(lm->spec.n_layers - lm->behind, end);
    mc_lm_close(&lm);
    assert_true(mica_device_active_bytes(device) == before);
    free(path);
}

static bool failed; /* the test that ran last has not come to its end */

static void run(void **state) {
    const CMUnitTestFunction *test = *state;
    failed = true;
    (*test)(state);
    failed = false;
}

/* Before each test: where the last one has failed, other ranks may wait for this one. */
static int go_on(void **state) {
    (void)state;
    (void)state;
    if (failed) mica_group_abort(group, 1);
    return 0;
}

/* clang-format off */
#define TEST(f) \
    {.name = #f, .test_func = run, .setup_func = go_on, .initial_state = &(CMUnitTestFunction){f}}
/* clang-format on */

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(sums),      TEST(large_sums),      TEST(parts),       TEST(one_to_others),
        TEST(gradients), TEST(order_holds),     TEST(programs),    TEST(halves),
        TEST(agreement), TEST(parts_are_views), TEST(wrong_sizes), TEST(no_session),
        TEST(tensor),    TEST(pipeline),        TEST(both),
    };
    if (mica_group_open(&(mica_group_options){.patience_s = PATIENCE_S}, &group) != MICA_OK) {
        fprintf(stderr, "%s\n", mica_last_error());
        return 1;
    }
    rank = mica_group_rank(group);
    size = mica_group_size(group);
    if (size < 2 || mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device)) {
        fprintf(stderr, "%d ranks: %s\n", size, mica_last_error());
        mica_group_abort(group, 1);
        return 1;
    }
    folder = rank == 0 ? test_temp_dir() : NULL;
    int failures = cmocka_run_group_tests_name("group/ranks", tests, NULL, NULL);
    if (folder) test_temp_dir_remove(folder);
    if (failures) mica_group_abort(group, 1);
    mica_device_close(&device);
    mica_group_close(&group);
    return failures;
}
