/* The loop on the default model: data in, an adapter out; interrupted and gone on with; what it
 * refuses. */
#include "model/fixture.h"

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char lines[] =
    "{\"prompt\": \"What is curl?\", \"completion\": \"A tool, captain.\"}\n"
    "{\"prompt\": \"What is a disk?\", \"completion\": \"A store, captain.\"}\n"
    "\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Who are you?\"},"
    " {\"role\": \"assistant\", \"content\": \"A model, captain.\"}]}\n"
    "{\"prompt\": \"What is C?\", \"completion\": \"A language, captain.\"}\n"
    "{\"prompt\": \"What is a CPU?\", \"completion\": \"A processor, and a fast one, captain.\"}\n";

/* For sanitizers: fewer steps. What is learned is the same in all builds. */

typedef struct bench {
    char *dir, *adapter, *model;
    mica_tuner *tuner;
    mica_optimizer_options optimizer;
    mica_tune_options options;
} bench;

static void apply(bench *b, const mica_lora_options *lora) {
    if (mica_lora_apply(b->tuner, lora) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void begin_with(bench *b, const char *data, mica_arithmetic arithmetic) {
    const mica_tuner_options own = {.threads = 2, .arithmetic = arithmetic};
    *b = (bench){.dir = test_temp_dir()};
    b->adapter = test_format("%s/made/adapter", b->dir);
    b->model = test_format("%s/default", test_models_dir());
    b->optimizer = (mica_optimizer_options){.name = "adamw", .learning_rate = 1e-3};
    test_write_below(b->dir, "train.jsonl", data);
    if (mica_tuner_open(b->model, &own, &b->tuner) != MICA_OK) fail_msg("%s", mica_last_error());
    apply(b, &(mica_lora_options){.rank = 2, .layers = 2, .seed = 3});
    b->options = (mica_tune_options){.data = b->dir,
                                     .adapter = b->adapter,
                                     .iterations = 6,
                                     .optimizer = &b->optimizer,
                                     .batch_size = 2,
                                     .save_every = 2,
                                     .mask_prompt = true};
}

static void begin(bench *b, const char *data) {
    begin_with(b, data, MICA_ARITHMETIC_DEFAULT);
}

static void end(bench *b) {
    mica_tuner_close(&b->tuner);
    test_temp_dir_remove(b->dir);
    free(b->adapter);
    free(b->model);
}

static mica_tune_result tune(bench *b) {
    mica_tune_result result;
    if (mica_tune(b->tuner, &b->options, &result) != MICA_OK) fail_msg("%s", mica_last_error());
    return result;
}

/* All parameters, one after the other. */
static float *parameters(const bench *b, size_t *n) {
    *n = (size_t)mica_tuner_trained(b->tuner);
    float *all = malloc(*n * sizeof *all), *at = all;
    assert_non_null(all);
    for (size_t i = 0; i < mica_tuner_parameter_count(b->tuner); i++) {
        mica_parameter p;
        assert_int_equal(mica_tuner_get_parameter(b->tuner, i, &p), MICA_OK);
        size_t count = (size_t)mica_array_size(p.value);
        if (mica_read(p.value, at, count * sizeof *at) != MICA_OK)
            fail_msg("%s: %s", p.name, mica_last_error());
        at += count;
    }
    return all;
}

static void expect_error(bench *b, mica_status status, const char *text) {
    mica_tune_result result;
    mica_status got = mica_tune(b->tuner, &b->options, &result);
    if (got != status || !strstr(mica_last_error(), text))
        fail_msg("got %s: %s; want %s: %s", mica_status_name(got), mica_last_error(),
                 mica_status_name(status), text);
}

static void keep_norm(void *user, const mica_tune_report *report) {
    if (report->event == MICA_TUNE_TRAIN) *(double *)user = report->norm;
}

/* Gradients above clip_norm are scaled down to it: an update of SGD is as much shorter. */
static void test_clipped(void **state) {
    (void)state;
    double norms[3];
    float *before[3], *after[3];
    size_t n = 0;
    for (int i = 0; i < 3; i++) { /* not clipped; by a norm above; to a quarter */
        bench b;
        begin_with(&b, lines, MICA_ARITHMETIC_EXACT);
        b.optimizer = (mica_optimizer_options){.name = "sgd", .learning_rate = 0.5};
        b.options.iterations = b.options.report_every = 1;
        b.options.clip_norm = i == 0 ? 0 : i == 1 ? 2 * norms[0] : norms[0] / 4;
        b.options.watch = keep_norm;
        b.options.watch_user = &norms[i];
        before[i] = parameters(&b, &n);
        (void)tune(&b);
        after[i] = parameters(&b, &n);
        end(&b);
    }
    assert_true(norms[0] > 0 && norms[1] == norms[0] && norms[2] == norms[0]);
    assert_memory_equal(after[1], after[0], n * sizeof(float));
    for (size_t k = 0; k < n; k++) {
        double whole = (double)after[0][k] - (double)before[0][k];
        double clipped = (double)after[2][k] - (double)before[2][k];
        if (fabs(clipped - whole / 4) > 1e-6 + 1e-4 * fabs(whole))
            fail_msg("parameter %zu went %g, clipped %g", k, whole, clipped);
    }
    for (int i = 0; i < 3; i++)
        free(before[i]), free(after[i]);
}

static const char uneven[] =
    "{\"prompt\": \"What is C?\", \"completion\": \"A language.\"}\n"
    "{\"prompt\": \"What is a CPU?\", \"completion\": \"A processor that computes fast, as all "
    "of these do, and is a thing of sand and of light, as we are.\"}\n"
    "{\"prompt\": \"What is a disk?\", \"completion\": \"A store.\"}\n";

/* The parameters after training with SGD, with these options. */
static float *train_uneven(int64_t rows, int64_t iterations, int64_t accumulate,
                           mica_tune_average average, mica_tune_result *result, size_t *n) {
    bench b;
    begin_with(&b, uneven, MICA_ARITHMETIC_EXACT);
    b.optimizer = (mica_optimizer_options){.name = "sgd", .learning_rate = 0.5};
    b.options.batch_size = rows;
    b.options.iterations = iterations;
    b.options.accumulate = accumulate;
    b.options.average = average;
    *result = tune(&b);
    float *all = parameters(&b, n);
    end(&b);
    return all;
}

static double distance(const float *a, const float *b, size_t n) {
    double sum = 0.0, norm = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)a[i] * (double)a[i];
    }
    return sqrt(sum / norm);
}

/* Batches of one, accumulated, are as one batch, whatever their lengths; the last update takes what
 * is left; mlx-lm's way is another. */
static void test_accumulated(void **state) {
    (void)state;
    mica_tune_result r[4];
    size_t n = 0;
    const mica_tune_average tokens = MICA_TUNE_AVERAGE_TOKENS, steps = MICA_TUNE_AVERAGE_STEPS;
    float *whole = train_uneven(3, 1, 1, tokens, &r[0], &n);
    float *parts = train_uneven(1, 3, 3, tokens, &r[1], &n);
    float *left = train_uneven(1, 3, 5, tokens, &r[2], &n); /* no part of five is full */
    float *alike = train_uneven(1, 3, 3, steps, &r[3], &n);
    assert_true(distance(whole, parts, n) < 1e-6);
    assert_true(distance(parts, left, n) == 0.0);
    assert_true(distance(whole, alike, n) > 1e-5);
    for (int i = 1; i < 4; i++)
        assert_int_equal(r[i].trained_tokens, r[0].trained_tokens);
    free(whole);
    free(parts);
    free(left);
    free(alike);
}

/* An epoch takes all examples: of three, batches of two are two batches, or one that is full. */
static void test_last_batch(void **state) {
    (void)state;
    mica_tune_result all, full;
    size_t n;
    free(train_uneven(3, 1, 1, MICA_TUNE_AVERAGE_TOKENS, &all, &n));
    float *some = train_uneven(2, 2, 1, MICA_TUNE_AVERAGE_TOKENS, &full, &n);
    assert_int_equal(full.trained_tokens, all.trained_tokens);
    free(some);
    free(train_uneven(2, 1, 1, MICA_TUNE_AVERAGE_STEPS, &full, &n));
    assert_true(full.trained_tokens < all.trained_tokens);
    /* Fewer examples than a batch takes are a batch all the same. */
    free(train_uneven(7, 1, 1, MICA_TUNE_AVERAGE_TOKENS, &full, &n));
    assert_int_equal(full.trained_tokens, all.trained_tokens);
}

/* Tokens that count in the loss: all but the first of a text. */
static void test_trained_tokens(void **state) {
    (void)state;
    static const char text[] = "curl is a tool";
    bench b;
    int32_t *ids;
    size_t n;
    begin(&b, "{\"text\": \"curl is a tool\"}\n");
    const mica_tokenizer *tok = mica_tuner_tokenizer(b.tuner);
    assert_int_equal(mica_tokenizer_encode(tok, text, sizeof text - 1, true, &ids, &n), MICA_OK);
    n += ids[n - 1] != mica_tokenizer_eos(tok);
    b.options.batch_size = 1;
    b.options.iterations = 3;
    b.options.mask_prompt = false;
    assert_int_equal(tune(&b).trained_tokens, 3 * (n - 1));
    mica_free(ids);
    end(&b);
}

/* With keep_existing an adapter is not written over, but gone on with. */
static void test_existing(void **state) {
    (void)state;
    bench b;
    begin(&b, lines);
    b.options.keep_existing = true;
    b.options.iterations = 2;
    (void)tune(&b);
    expect_error(&b, MICA_EINVAL, "holds an adapter (adapters.safetensors)");
    b.options.resume = true;
    b.options.iterations = 3;
    assert_int_equal(tune(&b).iteration, 3);
    char *path = test_format("%s/tune_state.safetensors", b.adapter);
    assert_int_equal(remove(path), 0);
    expect_error(&b, MICA_EINVAL, "holds an adapter"); /* there is no state to go on from */
    b.options.keep_existing = false;
    (void)tune(&b);
    free(path);
    end(&b);
}

static uint32_t crc_of(const char *text, size_t len) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned char)text[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void put(unsigned char **at, uint32_t number, int bytes) {
    for (int i = 0; i < bytes; i++)
        *(*at)++ = (unsigned char)(number >> 8 * i);
}

/* A gzip file of one block that is stored as it is. */
static void write_gzip(const char *path, const char *text) {
    static unsigned char file[4096];
    unsigned char *at = file;
    uint32_t len = (uint32_t)strlen(text);
    assert_true(len < sizeof file - 64);
    put(&at, 0x00088b1f, 4), put(&at, 0, 4), put(&at, 0x0300, 2);
    put(&at, 1, 1), put(&at, len, 2), put(&at, ~len & 0xffff, 2);
    memcpy(at, text, len);
    at += len;
    put(&at, crc_of(text, len), 4), put(&at, len, 4);
    test_write_file(path, file, (size_t)(at - file));
}

/* A set that is compressed trains what the plain one does. */
static void test_compressed_set(void **state) {
    (void)state;
    float *plain = NULL;
    for (int compressed = 0; compressed < 2; compressed++) {
        bench b;
        size_t n;
        begin(&b, lines);
        if (compressed) {
            char *from = test_format("%s/train.jsonl", b.dir);
            char *to = test_format("%s/train.jsonl.gz", b.dir);
            assert_int_equal(remove(from), 0);
            write_gzip(to, lines);
            free(from);
            free(to);
        }
        mica_status status = mica_tune(b.tuner, &b.options, NULL);
        if (status == MICA_EUNSUPPORTED) { /* built without zlib */
            end(&b);
            break;
        }
        if (status != MICA_OK) fail_msg("%s", mica_last_error());
        float *now = parameters(&b, &n);
        if (compressed) assert_memory_equal(now, plain, n * sizeof *now);
        free(plain);
        plain = now;
        end(&b);
    }
    free(plain);
}

/* What is trained is said by the model that loads the adapter. */
static void test_learns(void **state) {
    (void)state;
    bench b;
    if (test_is_brief()) skip();
    begin(&b, lines);
    apply(&b, &(mica_lora_options){.rank = 8});
    b.options.iterations = 40;
    b.options.batch_size = 4;
    b.optimizer.learning_rate = 3e-4; /* at 1e-3 losses jump, and last bits decide the answer */
    mica_tune_result result = tune(&b);
    assert_true(result.train_loss < 0.05 && result.iteration == 40);
    mica_model *model;
    mica_session *session;
    mica_stream *stream = NULL;
    mica_token token;
    char answer[512] = "";
    const mica_model_options options = {.adapter = b.adapter};
    if (mica_model_open(b.model, &options, &model) != MICA_OK ||
        mica_session_open(model, NULL, &session) != MICA_OK ||
        mica_chat(session, &(mica_message){.role = "user", .content = "What is curl?"}, 1,
                  &(mica_generate_options){.max_tokens = 20}, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    while (mica_stream_next(stream, &token))
        strncat(answer, token.text, sizeof answer - strlen(answer) - 1);
    assert_string_equal(answer, "A tool, captain.");
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    end(&b);
}

/* Parameters as they are made: in the order of names, r (in + out) numbers a matrix, A within
 * 1 / sqrt(in) and spread over that, B zero; both of the dtype that was asked for. */
static uint64_t check_parameter(const bench *b, const mica_parameter *p) {
    bool is_a = strstr(p->name, ".lora_a") != NULL;
    assert_int_equal(mica_array_dtype(p->value), MICA_BF16);
    assert_int_equal(mica_array_dim(p->value, is_a ? 1 : 0), 3);
    size_t count = (size_t)mica_array_size(p->value);
    double bound = 1.0 / sqrt((double)mica_array_dim(p->value, 0)), sum = 0.0;
    float *x = malloc(count * sizeof *x);
    mica_scope *s;
    assert_non_null(x);
    assert_int_equal(mica_scope_open(mica_tuner_device(b->tuner), &s), MICA_OK);
    mica_array wide = mica_astype(s, p->value, MICA_F32);
    assert_int_equal(mica_read(wide, x, count * sizeof *x), MICA_OK);
    for (size_t k = 0; k < count; k++) {
        if (is_a ? fabs((double)x[k]) > bound * 1.005 : x[k] != 0.0f)
            fail_msg("%s[%zu]: %g", p->name, k, (double)x[k]);
        sum += (double)x[k] * (double)x[k];
    }
    double spread = sqrt(sum / (double)count) / (bound / sqrt(3.0)); /* of a uniform one: 1 */
    if (is_a && fabs(spread - 1.0) > 0.1) fail_msg("%s: a spread of %g", p->name, spread);
    mica_scope_close(&s);
    free(x);
    return count;
}

static void test_parameters(void **state) {
    (void)state;
    bench b;
    begin(&b, lines);
    static const char *const modules[] = {"q_proj", "v_proj", "mlp.*"};
    const mica_lora_options lora = {
        .rank = 3, .layers = 2, .modules = modules, .n_modules = 3, .bf16 = true};
    apply(&b, &lora);
    assert_int_equal(mica_tuner_parameter_count(b.tuner), 2 * 2 * 5);
    char before[96] = "";
    uint64_t numbers = 0;
    for (size_t i = 0; i < mica_tuner_parameter_count(b.tuner); i++) {
        mica_parameter p = {.struct_bytes = sizeof p};
        assert_int_equal(mica_tuner_get_parameter(b.tuner, i, &p), MICA_OK);
        assert_true(strcmp(before, p.name) < 0);
        snprintf(before, sizeof before, "%s", p.name);
        numbers += check_parameter(&b, &p);
    }
    assert_int_equal(numbers, mica_tuner_trained(b.tuner));
    end(&b);
}

static void test_set_parameter(void **state) {
    (void)state;
    bench b;
    mica_parameter p = {.struct_bytes = sizeof p};
    begin(&b, lines);
    assert_int_equal(mica_tuner_get_parameter(b.tuner, 1, &p), MICA_OK);
    size_t n, m, size = (size_t)mica_array_size(p.value), first = 0;
    float *values = calloc(size, sizeof *values), *before = parameters(&b, &n);
    assert_non_null(values);
    for (size_t k = 0; k < size; k++)
        values[k] = (float)k - 3.5f;
    assert_int_equal(mica_tuner_get_parameter(b.tuner, 0, &p), MICA_OK);
    first = (size_t)mica_array_size(p.value);
    if (mica_tuner_set_parameter(b.tuner, 1, values, size) != MICA_OK)
        fail_msg("%s", mica_last_error());
    float *after = parameters(&b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(after + first, values, size * sizeof *values);
    memcpy(before + first, values, size * sizeof *values);
    assert_memory_equal(after, before, n * sizeof *after); /* the others stay */
    assert_int_equal(mica_tuner_set_parameter(b.tuner, 1, values, size - 1), MICA_EINVAL);
    assert_int_equal(mica_tuner_set_parameter(b.tuner, 1, NULL, size), MICA_EINVAL);
    assert_int_equal(
        mica_tuner_set_parameter(b.tuner, mica_tuner_parameter_count(b.tuner), values, size),
        MICA_EINVAL);
    free(values);
    free(before);
    free(after);
    end(&b);
}

static void test_tokenizer(void **state) {
    (void)state;
    bench b;
    int32_t *ids;
    size_t n;
    char *text;
    begin(&b, lines);
    const mica_tokenizer *tokenizer = mica_tuner_tokenizer(b.tuner);
    assert_int_equal(mica_tokenizer_encode(tokenizer, "curl is", 7, false, &ids, &n), MICA_OK);
    assert_int_equal(mica_tokenizer_decode(tokenizer, ids, n, false, &text, &n), MICA_OK);
    assert_string_equal(text, "curl is");
    assert_null(mica_tuner_tokenizer(NULL));
    assert_null(mica_tuner_device(NULL));
    mica_free(ids);
    mica_free(text);
    end(&b);
}

/* A tuner's model is what it is as a model that is run. */
static void test_info(void **state) {
    (void)state;
    bench b;
    mica_model *model;
    mica_model_info got = {.struct_bytes = sizeof got}, want = {.struct_bytes = sizeof want};
    begin_with(&b, lines, MICA_ARITHMETIC_EXACT);
    const mica_model_options options = {.threads = 1, .arithmetic = MICA_ARITHMETIC_EXACT};
    if (mica_model_open(b.model, &options, &model) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_model_get_info(model, &want);
    mica_tuner_get_info(b.tuner, &got);
    assert_string_equal(got.path, want.path);
    assert_string_equal(got.engine, want.engine);
    assert_string_equal(got.family, want.family);
    assert_string_equal(got.architecture, want.architecture);
    assert_string_equal(got.dtype, want.dtype);
    assert_string_equal(got.quantization, want.quantization);
    assert_int_equal(got.arithmetic, want.arithmetic);
    assert_int_equal(got.bits, want.bits);
    assert_int_equal(got.group_size, want.group_size);
    assert_true(got.layers > 0 && got.parameters > 0);
    assert_memory_equal(&got.parameters, &want.parameters,
                        offsetof(mica_model_info, adapter) - offsetof(mica_model_info, parameters));
    mica_tuner_get_info(NULL, &got);
    assert_true(!got.path && got.layers == 0);
    mica_model_close(&model);
    end(&b);
}

/* Folders without a model that can be trained. */
static void test_no_model(void **state) {
    (void)state;
    char *empty = test_temp_dir(),
         *mamba = fixture_copy("qwen3_tied", "config.json", "\"model_type\": \"qwen3\"",
                               "\"model_type\": \"mamba\"");
    mica_tuner *tuner = (mica_tuner *)(void *)empty;
    assert_int_equal(mica_tuner_open(empty, NULL, &tuner), MICA_ENOENT);
    assert_null(tuner);
    assert_int_equal(mica_tuner_open(mamba, NULL, &tuner), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "mamba"));
    assert_int_equal(mica_tuner_open(NULL, NULL, &tuner), MICA_EINVAL);
    assert_int_equal(mica_tuner_open(empty, NULL, NULL), MICA_EINVAL);
    assert_int_equal(mica_lora_apply(NULL, NULL), MICA_EINVAL);
    test_temp_dir_remove(empty);
    test_temp_dir_remove(mamba);
}

/* Each kind of training learns: the mean loss of the last four steps is below half of the first,
 * and of a few below it. */
static void test_every_kind_learns(void **state) {
    (void)state;
    static const struct {
        const char *name;
        mica_lora_options lora;
        bool checkpoint, pack;
        int64_t accumulate;
    } rows[] = {
        {"bf16", {.bf16 = true}, false, false, 1},
        {"checkpoint", {.rank = 4}, true, false, 1},
        {"dora", {.kind = MICA_TUNE_DORA}, false, false, 1},
        {"dropout", {.dropout = 0.1f}, false, false, 1},
        {"packed, bf16, checkpoint", {.bf16 = true}, true, true, 1},
        {"accumulated", {.rank = 8}, false, false, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench b;
        double losses[2];
        begin(&b, lines);
        b.options.checkpoint = rows[i].checkpoint;
        b.options.pack = rows[i].pack;
        b.options.accumulate = rows[i].accumulate;
        b.options.batch_size = rows[i].pack ? 1 : 2;
        b.options.adapter = NULL;
        b.options.max_seq_length = 128;
        b.options.report_every = 4;
        b.optimizer.learning_rate = 3e-4;
        for (int last = 0; last < 2; last++) {
            apply(&b, &rows[i].lora);
            b.options.iterations = !last ? 1 : test_is_brief() ? 4 : 12;
            losses[last] = tune(&b).train_loss;
        }
        print_message("  %s: %.3f to %.3f\n", rows[i].name, losses[0], losses[1]);
        assert_true(losses[1] < (test_is_brief() ? 1.0 : 0.5) * losses[0]);
        end(&b);
    }
}

/* A run that is ended after each checkpoint, and gone on with, has the parameters of one that was
 * not: moments, order, dropout and all. */
static void check_resume(mica_lora_options lora, const char *optimizer, int64_t accumulate) {
    bench b;
    size_t n, m;
    begin(&b, lines);
    b.optimizer.name = optimizer;
    b.options.accumulate = accumulate;
    b.options.iterations = 8;
    apply(&b, &lora);
    tune(&b);
    float *whole = parameters(&b, &n);
    b.options.adapter = test_format("%s/other", b.dir);
    b.options.resume = true;
    for (int64_t until = 2; until <= 8; until += 2) {
        apply(&b, &lora);
        b.options.iterations = until;
        assert_int_equal(tune(&b).iteration, until);
    }
    float *parts = parameters(&b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(whole, parts, n * sizeof *whole);
    int64_t seed = (int64_t)b.options.seed;
    b.options.seed = 5;
    b.options.iterations = 9;
    char *says = test_format("other settings: seed %lld, now 5", (long long)seed);
    expect_error(&b, MICA_EINVAL, says);
    assert_null(strstr(mica_last_error(), "batch_size")); /* which is the same */
    free(says);
    free(whole);
    free(parts);
    free((char *)b.options.adapter);
    end(&b);
}

static void test_resume(void **state) {
    (void)state;
    const mica_lora_options plain = {.rank = 2, .layers = 2},
                            dropping = {.rank = 2, .layers = 2, .dropout = 0.2f},
                            dora = {.kind = MICA_TUNE_DORA, .rank = 2, .layers = 1, .seed = 9};
    check_resume(plain, "adamw", 1);
    check_resume(dropping, "adam", 1);
    check_resume(dora, "adafactor", 2);
    check_resume(plain, "muon", 2);
}

/* Texts in one row, which do not see each other, give what they give in rows of their own. */
static void test_packing(void **state) {
    (void)state;
    bench b;
    size_t n;
    float *values[2];
    for (int pack = 0; pack < 2; pack++) {
        begin_with(&b, lines, MICA_ARITHMETIC_EXACT); /* not rounded, they are compared closely */
        b.optimizer.name = "sgd";
        b.optimizer.learning_rate = 0.5;
        b.options.pack = pack;
        b.options.batch_size = pack ? 1 : 5;
        b.options.iterations = 2;
        b.options.max_seq_length = 256;
        tune(&b);
        values[pack] = parameters(&b, &n);
        end(&b);
    }
    float moved = 0.0f;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(values[0][i] - values[1][i]) > 1e-5f)
            fail_msg("%zu: %g alone, %g packed", i, (double)values[0][i], (double)values[1][i]);
        moved = fmaxf(moved, fabsf(values[0][i]));
    }
    assert_true(moved > 1e-3f);
    free(values[0]);
    free(values[1]);
}

static void test_bad_data(void **state) {
    (void)state;
    bench b;
    begin(&b, "{\"text\": \"curl is a tool\"}\n{\"texts\": 1}\nnot JSON\n"
              "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    b.options.mask_prompt = false;
    expect_error(&b, MICA_EFORMAT, "2 lines are no examples: line 2:");
    expect_error(&b, MICA_EFORMAT, "line 3:");
    b.options.skip_bad = true;
    tune(&b);
    b.options.skip_bad = false;
    static const char zeros[] = "{\"text\": \"curl is a tool\"}\n\0\0\0\n\t\n";
    char *file = test_format("%s/train.jsonl", b.dir);
    test_write_file(file, zeros, sizeof zeros - 1);
    free(file);
    expect_error(&b, MICA_EFORMAT, "1 lines are no examples: line 2: ");
    test_write_below(b.dir, "train.jsonl", "{\"text\": \"curl is a tool\"}\n");
    b.options.max_seq_length = 4;
    b.options.too_long = MICA_TUNE_REFUSE;
    expect_error(&b, MICA_EFORMAT, "max_seq_length is 4");
    test_write_below(b.dir, "train.jsonl", "\n \n");
    expect_error(&b, MICA_EFORMAT, "holds no examples");
    test_write_below(b.dir, "train.jsonl", "{\"text\": \"curl is a tool\"}\n");
    b.options.max_seq_length = 0;
    b.options.average = MICA_TUNE_AVERAGE_STEPS; /* full batches only */
    expect_error(&b, MICA_EINVAL, "there are 1");
    b.options.average = MICA_TUNE_AVERAGE_TOKENS;
    b.options.mask_prompt = true;
    b.options.too_long = MICA_TUNE_CUT;
    b.options.max_seq_length = 8;
    test_write_below(b.dir, "train.jsonl",
                     "{\"prompt\": \"a long question with many words\", \"completion\": \"b\"}\n");
    expect_error(&b, MICA_EFORMAT, "all labels are masked");
    b.options.data = "/nowhere";
    expect_error(&b, MICA_ENOENT, "/nowhere");
    end(&b);
}

static void test_bad_options(void **state) {
    (void)state;
    bench b;
    begin(&b, lines);
    b.options.loss = "l2";
    expect_error(&b, MICA_EINVAL, "no loss \"l2\"; there are cross_entropy");
    b.options.loss = "mse";
    expect_error(&b, MICA_EINVAL, "trains no language model");
    b.options.loss = "dpo";
    expect_error(&b, MICA_EFORMAT, "\"chosen\"");
    b.options.loss = NULL;
    b.optimizer.name = "adan";
    expect_error(&b, MICA_EINVAL, "no optimizer \"adan\"");
    b.optimizer.name = "adamw";
    b.options.memory_limit_bytes = 40000000;
    expect_error(&b, MICA_ENOMEM, "would take");
    b.options.memory_limit_bytes = 1000;
    expect_error(&b, MICA_ENOMEM, "no setting would fit");
    b.options.memory_limit_bytes = 0;
    b.options.batch_size = -1;
    expect_error(&b, MICA_EINVAL, "batch_size -1");
    b.options.batch_size = 2;
    mica_schedule schedule = {.name = "cosine", .n_arguments = 1};
    b.options.schedule = &schedule;
    expect_error(&b, MICA_EINVAL, "no schedule \"cosine\"");
    schedule.name = "cosine_decay";
    expect_error(&b, MICA_EINVAL, "takes 2 to 3 arguments");
    assert_int_equal(mica_lora_apply(b.tuner, &(mica_lora_options){.kind = MICA_TUNE_FULL}),
                     MICA_EUNSUPPORTED);
    const char *stranger = "self_attn.k";
    const mica_lora_options lora = {.modules = &stranger, .n_modules = 1};
    assert_int_equal(mica_lora_apply(b.tuner, &lora), MICA_ENOENT);
    end(&b);
}

/* What the format has no place for is refused before the first step, not when it is saved. */
static void test_format_first(void **state) {
    (void)state;
    bench b = {.dir = test_temp_dir()};
    b.adapter = test_format("%s/adapter", b.dir);
    b.model = test_format("%s/models/qwen3_tied", test_cases_dir());
    b.optimizer = (mica_optimizer_options){.name = "sgd", .learning_rate = 1e-3};
    test_write_below(b.dir, "train.jsonl", "{\"text\": \"one two three\"}\n");
    if (mica_tuner_open(b.model, NULL, &b.tuner) != MICA_OK) fail_msg("%s", mica_last_error());
    apply(&b, &(mica_lora_options){.kind = MICA_TUNE_FULL});
    b.options = (mica_tune_options){.data = b.dir,
                                    .adapter = b.adapter,
                                    .format = MICA_ADAPTER_PEFT,
                                    .iterations = 1,
                                    .optimizer = &b.optimizer,
                                    .batch_size = 1};
    expect_error(&b, MICA_EUNSUPPORTED, "PEFT's format has no place for full parameters");
    assert_false(mc_path_is_dir(b.adapter));
    b.options.format = MICA_ADAPTER_MLX;
    assert_int_equal(tune(&b).iteration, 1);
    end(&b);
}

/* A rate that is far too high ends with a report, and the checkpoint stays as it was. */
static void test_not_finite(void **state) {
    (void)state;
    bench b;
    size_t n;
    begin(&b, lines);
    b.options.iterations = 2;
    tune(&b);
    char *file = test_format("%s/tune_state.safetensors", b.adapter);
    char *before = test_read_file(file, &n);
    b.options.iterations = 50;
    b.optimizer.learning_rate = 1e5;
    b.options.save_every = 1000;
    mica_tune_result result;
    assert_int_equal(mica_tune(b.tuner, &b.options, &result), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "with the examples of lines"));
    size_t m;
    char *after = test_read_file(file, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
    free(file);
    end(&b);
}

/* A state of other parameters, whose moments have the same shapes, and one without a position. */
static void test_bad_state(void **state) {
    (void)state;
    bench b;
    size_t n;
    begin(&b, lines);
    b.options.iterations = 2;
    tune(&b);
    b.options.resume = true;
    b.options.iterations = 4;
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 1, .seed = 3});
    expect_error(&b, MICA_EINVAL, "other settings");
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 2, .seed = 3});
    char *file = test_format("%s/tune_state.safetensors", b.adapter);
    char *bytes = test_read_file(file, &n);
    const int64_t position[] = {2, 2, 2}, bad = -1;
    char *at = NULL;
    for (size_t i = 0; i + sizeof position <= n && !at; i++)
        if (memcmp(bytes + i, position, sizeof position) == 0) at = bytes + i;
    assert_non_null(at);
    memcpy(at, &bad, sizeof bad);
    test_write_file(file, bytes, n);
    expect_error(&b, MICA_EFORMAT, "holds no position");
    free(bytes);
    free(file);
    end(&b);
}

/* ---- sets ---- */

typedef struct told {
    char plan[256], notes[512];
} told;

static void note(void *user, const mica_tune_report *report) {
    told *t = user;
    if (report->event == MICA_TUNE_PLAN) snprintf(t->plan, sizeof t->plan, "%s", report->text);
    if (report->event == MICA_TUNE_NOTE)
        strncat(t->notes, report->text, sizeof t->notes - strlen(t->notes) - 1);
}

static void expect_told(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("told: %s; want %s", text, part);
}

static void test_sets(void **state) {
    (void)state;
    bench b;
    begin(&b, lines);
    test_write_below(b.dir, "test.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    told t = {{0}, {0}};
    b.options.watch = note;
    b.options.watch_user = &t;
    b.options.iterations = 1;
    b.options.test = true;
    b.options.valid_share = 0.4;
    mica_tune_result result = tune(&b);
    expect_told(t.plan, "3 examples to train with, 2 for validation, 1 for the test");
    assert_true(isfinite(result.valid_loss) && isfinite(result.test_loss));
    b.options.no_train = true;
    assert_true(tune(&b).iteration == 0);
    b.options.no_train = b.options.test = false;
    b.options.valid_share = 0.01;
    expect_error(&b, MICA_EINVAL, "leaves none for one side");
    b.options.valid_share = 0.0;
    b.options.mask_prompt = false;
    b.options.max_seq_length = 8;
    b.options.too_long = MICA_TUNE_SPLIT;
    *t.notes = '\0';
    tune(&b);
    expect_told(t.notes, "5 examples of the train set are longer than max_seq_length 8 and were "
                         "split");
    expect_told(t.plan, " examples to train with");
    int examples = 0;
    assert_int_equal(sscanf(strstr(t.plan, "train, ") + 7, "%d", &examples), 1);
    assert_true(examples > 5);
    end(&b);
}

/* Where the prompt counts, too, all parts of a long example are trained with, those within its
 * prompt included. */
static void test_split(void **state) {
    (void)state;
    for (int mask = 0; mask < 2; mask++) {
        bench b;
        told t = {{0}, {0}};
        size_t all = 0, parts = 0;
        begin(&b, "{\"prompt\": \"What is a disk, and what is a CPU, and who are you?\", "
                  "\"completion\": \"A store.\"}\n");
        b.options.watch = note;
        b.options.watch_user = &t;
        b.options.iterations = b.options.batch_size = 1;
        b.options.mask_prompt = mask;
        b.options.max_seq_length = 6;
        b.options.too_long = MICA_TUNE_SPLIT;
        tune(&b);
        assert_int_equal(sscanf(strstr(t.notes, "the longest has "), "the longest has %zu", &all),
                         1);
        assert_int_equal(sscanf(strstr(t.plan, "train, "), "train, %zu", &parts), 1);
        size_t whole = all / 6 + (all % 6 >= 2);
        if (mask ? parts >= whole : parts != whole)
            fail_msg("%zu tokens in %zu parts, %s", all, parts, mask ? "masked" : "not masked");
        end(&b);
    }
}

/* A training goes on with the examples that it began with: what was split off stays so. */
static void test_resume_share(void **state) {
    (void)state;
    bench b;
    begin(&b, lines);
    b.options.iterations = 1;
    b.options.valid_share = 0.5;
    tune(&b);
    b.options.iterations = 2;
    b.options.resume = true;
    b.options.valid_share = 0.25;
    expect_error(&b, MICA_EINVAL, "other settings: valid_share 0.5, now 0.25");
    b.options.valid_share = 0;
    expect_error(&b, MICA_EINVAL, "other settings: valid_share 0.5, now none");
    b.options.valid_share = 0.5;
    assert_int_equal(tune(&b).iteration, 2);
    test_write_below(b.dir, "valid.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    b.options.iterations = 3;
    expect_error(&b, MICA_EINVAL, "other settings: valid_share 0.5, now none");
    b.options.resume = false;
    tune(&b); /* with the file, of all examples */
    b.options.resume = true;
    b.options.iterations = 4;
    assert_int_equal(tune(&b).iteration, 4);
    char *file = test_format("%s/valid.jsonl", b.dir);
    assert_int_equal(remove(file), 0);
    free(file);
    expect_error(&b, MICA_EINVAL, "other settings: valid_share none, now 0.5");
    end(&b);
}

/* Tools get to the template: their text counts. */
static void test_tools(void **state) {
    (void)state;
    static const char chat[] = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
                               "{% for m in messages %}{{ m.content }}{% endfor %}";
    static const char *const tools[] = {
        "", ", \"tools\": [{\"function\": {\"name\": \"one two three four five six\"}}]"};
    for (int i = 0; i < 2; i++) {
        bench b;
        char *line = test_format("{\"messages\": [{\"role\": \"user\", \"content\": \"a b\"}, "
                                 "{\"role\": \"assistant\", \"content\": \"c\"}]%s}\n",
                                 tools[i]);
        begin(&b, line);
        mica_tuner_close(&b.tuner);
        const mica_tuner_options options = {.threads = 1, .chat_template = chat};
        assert_int_equal(mica_tuner_open(b.model, &options, &b.tuner), MICA_OK);
        apply(&b, &(mica_lora_options){.rank = 1, .layers = 1});
        b.options.iterations = b.options.batch_size = 1;
        b.options.mask_prompt = false;
        b.options.max_seq_length = 5;
        b.options.too_long = MICA_TUNE_REFUSE;
        if (i)
            expect_error(&b, MICA_EFORMAT, "max_seq_length is 5");
        else
            tune(&b);
        free(line);
        end(&b);
    }
}

/* ---- memory ---- */

static void keep_estimate(void *user, const mica_tune_report *report) {
    if (report->event == MICA_TUNE_PLAN) *(uint64_t *)user = report->memory_bytes;
}

/* What is told before the start is what the device then counts, beside the mapped weights, or up to
 * twice that. */
static void test_estimate(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        bench b;
        begin(&b, lines);
        mica_tuner_close(&b.tuner);
        const mica_tuner_options own = {.threads = 2, .no_mmap = true};
        assert_int_equal(mica_tuner_open(b.model, &own, &b.tuner), MICA_OK);
        apply(&b, &(mica_lora_options){.rank = i == 3 ? 256 : 8});
        uint64_t estimate = 0;
        b.options.watch = keep_estimate;
        b.options.watch_user = &estimate;
        b.options.batch_size = i == 1 ? 5 : 2;
        b.options.checkpoint = i == 2;
        b.options.iterations = 2;
        uint64_t peak = tune(&b).peak_bytes, weights = 7 << 20;
        print_message("  told %.1f MB, counted %.1f MB\n", (double)estimate / 1e6,
                      (double)peak / 1e6);
        assert_true(estimate + (4 << 20) > peak && estimate < 2 * peak + weights);
        end(&b);
    }
}

/* Parameters that do not fit are not made: those before stay. */
static void test_too_many_parameters(void **state) {
    (void)state;
    bench b;
    begin(&b, lines);
    uint64_t trained = mica_tuner_trained(b.tuner);
    mica_lora_options lora = {.rank = 60000};
    assert_int_equal(mica_lora_apply(b.tuner, &lora), MICA_ENOMEM);
    lora.memory_limit_bytes = 20000000;
    assert_int_equal(mica_lora_apply(b.tuner, &lora), MICA_ENOMEM);
    const char *text = strstr(mica_last_error(), "a rank of ");
    if (!text) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_tuner_trained(b.tuner), trained);
    lora.rank = atol(text + strlen("a rank of "));
    assert_in_range(lora.rank, 8, 1000);
    apply(&b, &lora);
    lora.rank++;
    assert_int_equal(mica_lora_apply(b.tuner, &lora), MICA_ENOMEM);
    lora.memory_limit_bytes = 1000;
    assert_int_equal(mica_lora_apply(b.tuner, &lora), MICA_ENOMEM);
    assert_non_null(strstr(mica_last_error(), "the weights alone are too large"));
    end(&b);
}

/* A log that cannot be written ends, and training does not. */
static void test_full_log(void **state) {
    (void)state;
    bench b;
    size_t n, m;
    told t = {{0}, {0}};
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip();
    fclose(full);
    begin(&b, lines);
    tune(&b);
    float *want = parameters(&b, &n);
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 2, .seed = 3});
    b.options.adapter = test_format("%s/other", b.dir);
    b.options.log = "/dev/full";
    b.options.watch = note;
    b.options.watch_user = &t;
    expect_error(&b, MICA_EIO, "/dev/full: ");
    expect_told(mica_last_error(), "all steps are done and saved");
    expect_told(t.notes, "/dev/full: ");
    float *got = parameters(&b, &m);
    assert_memory_equal(got, want, n * sizeof *got);
    assert_int_equal(mica_tuner_load(b.tuner, b.options.adapter), MICA_OK);
    free(got);
    got = parameters(&b, &m);
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
    free(want);
    free((char *)b.options.adapter);
    end(&b);
}

/* ---- cancelling ---- */

static void cancel_at_once(void *user, const mica_tune_report *report) {
    if (report->event == MICA_TUNE_PLAN) mica_cancel_set(user);
}

/* What is stopped before its first step leaves an adapter as it is. */
static void test_cancel_at_once(void **state) {
    (void)state;
    bench b;
    size_t n, m;
    mica_cancel *cancel;
    begin(&b, lines);
    b.options.iterations = 2;
    tune(&b);
    char *file = test_format("%s/adapters.safetensors", b.adapter);
    char *before = test_read_file(file, &n);
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    b.options.cancel = cancel;
    b.options.watch = cancel_at_once;
    b.options.watch_user = cancel;
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 2, .seed = 4});
    expect_error(&b, MICA_ECANCELLED, "after iteration 0");
    char *after = test_read_file(file, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    mica_cancel_close(&cancel);
    free(before);
    free(after);
    free(file);
    end(&b);
}

static void cancel_at_three(void *user, const mica_tune_report *report) {
    if (report->event == MICA_TUNE_TRAIN && report->iteration == 3) mica_cancel_set(user);
}

static void test_cancel(void **state) {
    (void)state;
    bench b;
    size_t n, m;
    mica_cancel *cancel;
    mica_tune_result result;
    begin(&b, lines);
    tune(&b);
    float *whole = parameters(&b, &n);
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    b.options.cancel = cancel;
    b.options.watch = cancel_at_three;
    b.options.watch_user = cancel;
    b.options.report_every = 1;
    b.options.adapter = test_format("%s/other", b.dir);
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 2, .seed = 3});
    assert_int_equal(mica_tune(b.tuner, &b.options, &result), MICA_ECANCELLED);
    assert_int_equal(result.iteration, 3);
    b.options.cancel = NULL;
    b.options.watch = NULL;
    b.options.resume = true;
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 2, .seed = 3});
    tune(&b);
    float *parts = parameters(&b, &m);
    assert_memory_equal(whole, parts, n * sizeof *whole);
    mica_cancel_close(&cancel);
    free(whole);
    free(parts);
    free((char *)b.options.adapter);
    end(&b);
}

/* A schedule that is added, changed or removed is what the error names, and nothing behind it. */
static void test_resume_schedule(void **state) {
    (void)state;
    bench b;
    mica_schedule schedule = {"cosine_decay", {0.5, 50, 0.25}, 3, 0, 0};
    begin(&b, lines);
    b.options.iterations = 1;
    tune(&b);
    b.options.resume = true;
    b.options.iterations = 2;
    b.options.schedule = &schedule;
    expect_error(&b, MICA_EINVAL, "other settings: schedule none, now cosine_decay,0.5,50,0.25");
    assert_null(strchr(mica_last_error(), ';'));
    b.options.resume = false;
    tune(&b);
    b.options.resume = true;
    b.options.iterations = 3;
    assert_int_equal(tune(&b).iteration, 3);
    schedule.warmup = 2;
    expect_error(&b, MICA_EINVAL, "other settings: warmup none, now 2");
    b.options.schedule = NULL;
    expect_error(&b, MICA_EINVAL, "other settings: schedule cosine_decay,0.5,50,0.25, now none");
    assert_null(strchr(mica_last_error(), ';'));
    end(&b);
}

/* ---- examples from memory, and a loss of one's own ---- */

/* The lines above, and what a source has given of them. */
typedef struct memory {
    const char *next;
    bool tokens; /* the last one comes as tokens */
    int32_t *ids;
    size_t n, prompt;
    mica_status fails;
} memory;

static mica_status give_line(void *user, mica_tune_set set, mica_tune_example *example,
                             bool *there) {
    memory *m = user;
    if (set != MICA_TUNE_SET_TRAIN) return MICA_OK;
    while (*m->next == '\n')
        m->next++;
    if (!*m->next) return m->fails;
    assert_true(example->struct_bytes == sizeof *example && !example->line && !example->ids);
    const char *end = strchr(m->next, '\n');
    bool last = m->tokens && !end[1];
    *there = true;
    if (last) {
        example->ids = m->ids;
        example->count = m->n;
        example->prompt = m->prompt;
    } else {
        example->line = m->next;
        example->len = (size_t)(end - m->next);
    }
    m->next = end + 1;
    return MICA_OK;
}

/* The mean over targets that count, by ops of one's own. */
static mica_status own_loss(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                            mica_array *results, size_t n_results) {
    int *calls = user;
    static const int last[] = {2};
    assert_true(n_args == 3 && n_results == 1);
    ++*calls;
    mica_array targets = mica_expand_dims(s, args[1], 2);
    mica_array x = mica_subtract(s, mica_logsumexp(s, args[0], last, 1, false),
                                 mica_squeeze(s, mica_take_along_axis(s, args[0], targets, 2), 2));
    results[0] = mica_divide(s, mica_sum(s, mica_multiply(s, x, args[2]), NULL, 0, false),
                             mica_sum(s, args[2], NULL, 0, false));
    return mica_scope_status(s);
}

static void expect_parameters(const float *got, const float *want, size_t n, float tolerance) {
    for (size_t i = 0; i < n; i++)
        if (fabsf(got[i] - want[i]) > tolerance)
            fail_msg("number %zu is %g, want %g", i, (double)got[i], (double)want[i]);
}

/* A source that gives the lines of a file trains as the file does, also where one comes as its
 * tokens; and so does the same loss as a function, but for rounding. */
static void test_source(void **state) {
    (void)state;
    float *all[4];
    size_t n = 0;
    int calls = 0;
    for (int i = 0; i < 4; i++) {
        bench b;
        memory m = {.next = lines, .tokens = i == 2};
        begin_with(&b, lines, MICA_ARITHMETIC_EXACT);
        b.options.adapter = NULL;
        if (i > 0) {
            b.options.data = NULL;
            b.options.source = give_line;
            b.options.source_user = &m;
        }
        if (i == 2) { /* the ids of the last line, as its prompt and answer have them */
            const mica_tokenizer *tok = mica_tuner_tokenizer(b.tuner);
            mica_model *model;
            size_t whole;
            int32_t *ids, *answer;
            assert_int_equal(mica_model_open(b.model, NULL, &model), MICA_OK);
            const mica_message talk[] = {{.role = "user", .content = "What is a CPU?"}};
            assert_int_equal(mica_model_render(model, talk, 1, NULL, NULL, NULL, &ids, &m.prompt),
                             MICA_OK);
            static const char said[] = "A processor, and a fast one, captain.<end_of_turn>\n";
            assert_int_equal(mica_tokenizer_encode(tok, said, strlen(said), false, &answer, &whole),
                             MICA_OK);
            m.n = m.prompt + whole;
            m.ids = malloc(m.n * sizeof *m.ids);
            assert_non_null(m.ids);
            memcpy(m.ids, ids, m.prompt * sizeof *ids);
            memcpy(m.ids + m.prompt, answer, whole * sizeof *ids);
            mica_free(ids);
            mica_free(answer);
            mica_model_close(&model);
        }
        if (i == 3) {
            b.options.loss_fn = own_loss;
            b.options.loss_user = &calls;
        }
        tune(&b);
        all[i] = parameters(&b, &n);
        if (i == 1 || i == 2) assert_memory_equal(all[i], all[0], n * sizeof **all);
        free(m.ids);
        end(&b);
    }
    assert_true(calls > 0);
    expect_parameters(all[3], all[0], n, 2e-4f);
    for (int i = 0; i < 4; i++)
        free(all[i]);
}

static mica_status no_number(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)n_args, (void)n_results;
    results[0] = args[0];
    return MICA_OK;
}

/* A model of goldens, trained with the bench's tokenizer. */
static void expect_unfit(const char *model, bool pack, const char *text) {
    bench b;
    begin(&b, "{\"text\": \"curl is a tool\"}\n");
    mica_tuner_close(&b.tuner);
    char *source = test_format("%s/%s", test_cases_dir(), model);
    char *copy = fixture_copy_folder(source, NULL, NULL, NULL);
    char *from = test_format("%s/tokenizer.json", b.model);
    char *to = test_format("%s/tokenizer.json", copy);
    char *modules = test_format("%s/modules.json", copy);
    test_copy_file(from, to);
    (void)remove(modules); /* their folders were not copied */
    if (mica_tuner_open(copy, NULL, &b.tuner) != MICA_OK) fail_msg("%s", mica_last_error());
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 1});
    b.options.pack = pack;
    expect_error(&b, MICA_EUNSUPPORTED, text);
    test_temp_dir_remove(copy);
    free(modules);
    free(source);
    free(from);
    free(to);
    end(&b);
}

/* Encoders have no next token; what layers carry would pass from one packed text to the next. */
static void test_unfit_models(void **state) {
    (void)state;
    expect_unfit("embedders/modernbert_cls", false, "an encoder");
    expect_unfit("families/lfm2_hf", true, "pack: layer 0");
}

/* Tokens that the tokenizer has and the model lacks: of a source's tokens, and of lines. */
static void test_vocabulary(void **state) {
    (void)state;
    static const char more[] = "{\"text\": \"a <more> b\"}\n{\"text\": \"curl is a tool\"}\n"
                               "{\"text\": \"C is a language\"}\n";
    bench b;
    int32_t ids[] = {1, 8192};
    memory m = {.next = "\n{}\n", .tokens = true, .ids = ids, .n = 2};
    begin(&b, more);
    mica_tuner_close(&b.tuner);
    char *model = fixture_copy_folder(b.model, "tokenizer_config.json", "\"eos_token\"",
                                      "\"added_tokens_decoder\": {\"8192\": {\"content\": "
                                      "\"<more>\"}}, \"eos_token\"");
    if (mica_tuner_open(model, NULL, &b.tuner) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_tokenizer_vocab_size(mica_tuner_tokenizer(b.tuner)), 8193);
    apply(&b, &(mica_lora_options){.rank = 2, .layers = 1});
    b.options.mask_prompt = false;
    expect_error(&b, MICA_EFORMAT, "line 1: has the token 8192");
    b.options.skip_bad = true;
    mica_tune_result result = tune(&b);
    assert_int_equal(result.iteration, b.options.iterations);
    b.options.skip_bad = false;
    b.options.data = NULL;
    b.options.source = give_line;
    b.options.source_user = &m;
    expect_error(&b, MICA_EFORMAT, "has the token 8192");
    test_temp_dir_remove(model);
    end(&b);
}

static void test_bad_source(void **state) {
    (void)state;
    bench b;
    int32_t ids[] = {1, -1};
    memory m = {.next = "", .fails = MICA_EIO};
    begin(&b, lines);
    b.options.source = give_line;
    b.options.source_user = &m;
    expect_error(&b, MICA_EINVAL, "one of them");
    b.options.data = NULL;
    expect_error(&b, MICA_EIO, "");
    m.fails = MICA_OK;
    expect_error(&b, MICA_EFORMAT, "the train set");
    m = (memory){.next = "{\"text\": 3}\n\n"};
    expect_error(&b, MICA_EFORMAT, "line 1");
    m = (memory){.next = "\n{}\n", .tokens = true, .ids = ids, .n = 2};
    expect_error(&b, MICA_EFORMAT, "token -1");
    m = (memory){.next = "\n{}\n", .tokens = true, .ids = ids, .n = 1, .prompt = 2};
    expect_error(&b, MICA_EFORMAT, "of its prompt");
    b.options.loss = "dpo";
    b.options.loss_fn = no_number;
    expect_error(&b, MICA_EINVAL, "loss_fn");
    b.options.loss = NULL;
    m = (memory){.next = lines};
    expect_error(&b, MICA_ESHAPE, "f32 []");
    end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unfit_models),
        cmocka_unit_test(test_clipped),
        cmocka_unit_test(test_accumulated),
        cmocka_unit_test(test_last_batch),
        cmocka_unit_test(test_trained_tokens),
        cmocka_unit_test(test_existing),
        cmocka_unit_test(test_compressed_set),
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_every_kind_learns),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_bad_data),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_format_first),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_at_once),
        cmocka_unit_test(test_bad_state),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_estimate),
        cmocka_unit_test(test_full_log),
        cmocka_unit_test(test_too_many_parameters),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_resume_share),
        cmocka_unit_test(test_resume_schedule),
        cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_set_parameter),
        cmocka_unit_test(test_no_model),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_source),
        cmocka_unit_test(test_bad_source),

        cmocka_unit_test(test_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
