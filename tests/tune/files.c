/* Files: lines, compressed or not; adapters that are saved and read again; no memory. */
#include "base/filemap.h"
#include "base/folder.h"
#include "support/support.h"
#include "tune/examples.h"
#include "tune/folder.h"
#include "tune/lines.h"
#include "tune/records.h"

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "one\n\ntwo", by Python's gzip. */
static const unsigned char gzipped[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03,
                                        0xcb, 0xcf, 0x4b, 0xe5, 0xe2, 0x2a, 0x29, 0xcf, 0x07, 0x00,
                                        0x9e, 0x6f, 0xdf, 0x24, 0x08, 0x00, 0x00, 0x00};

/* The same, by zstd. */
static const unsigned char zstd_packed[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x41,
                                            0x00, 0x00, 0x6f, 0x6e, 0x65, 0x0a, 0x0a,
                                            0x74, 0x77, 0x6f, 0x12, 0xab, 0x9b, 0x6a};

static char *read_all(const char *path, mica_status *status) {
    mc_lines l;
    char *all = calloc(1, 4096);
    assert_non_null(all);
    *status = mc_lines_open(&l, path);
    while (*status == MICA_OK) {
        mc_str line;
        *status = mc_lines_next(&l, &line);
        if (*status != MICA_OK || !line.ptr) break;
        sprintf(all + strlen(all), "%llu:%.*s|", (unsigned long long)l.number, MC_STR_ARG(line));
    }
    mc_lines_close(&l);
    return all;
}

static void expect(const char *path, mica_status want, const char *text) {
    mica_status status;
    char *all = read_all(path, &status);
    if (status != want || strcmp(all, text) != 0)
        fail_msg("%s: %s, %s; want %s", path, mica_status_name(status), all, text);
    free(all);
}

static void test_lines(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    char *path = test_format("%s/a", dir);
    test_write_file(path, "one\n\ntwo", 8);
    expect(path, MICA_OK, "1:one|2:|3:two|");
    test_write_file(path, "", 0);
    expect(path, MICA_OK, "");
    test_write_file(path, "\n", 1);
    expect(path, MICA_OK, "1:|");
    expect(dir, MICA_EIO, "");
    expect("/nowhere", MICA_ENOENT, "");
    free(path);
    test_temp_dir_remove(dir);
}

/* packed: "one\n\ntwo". checksum: the place of a byte of its checksum. */
static void check_packed(const mc_unpacker *unpacker, const unsigned char *packed, size_t bytes,
                         size_t checksum) {
    if (!unpacker->open) skip();
    char *dir = test_temp_dir();
    char *path = test_format("%s/a", dir);
    unsigned char twice[64];
    assert_true(2 * bytes <= sizeof twice);
    test_write_file(path, packed, bytes);
    expect(path, MICA_OK, "1:one|2:|3:two|");
    memcpy(twice, packed, bytes);
    memcpy(twice + bytes, packed, bytes);
    test_write_file(path, twice, 2 * bytes);
    expect(path, MICA_OK, "1:one|2:|3:twoone|4:|5:two|");
    for (size_t n = unpacker->magic_bytes; n < bytes; n++) { /* cut anywhere */
        mica_status status;
        test_write_file(path, packed, n);
        free(read_all(path, &status));
        assert_int_equal(status, MICA_EFORMAT);
    }
    memcpy(twice, packed, bytes);
    twice[checksum] ^= 0x40;
    mica_status status;
    test_write_file(path, twice, bytes);
    free(read_all(path, &status));
    assert_int_equal(status, MICA_EFORMAT);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_gzip(void **state) {
    (void)state;
    check_packed(&mc_unpacker_gzip, gzipped, sizeof gzipped, sizeof gzipped - 6);
}

static void test_zstd(void **state) {
    (void)state;
    check_packed(&mc_unpacker_zstd, zstd_packed, sizeof zstd_packed, sizeof zstd_packed - 1);
}

/* Lines longer than a piece, and many of them: what was written is read. */
static void test_long_lines(void **state) {
    (void)state;
    enum { LENGTH = 700001, LINES = 3 };
    char *dir = test_temp_dir(), *path = test_format("%s/a", dir);
    char *text = malloc(LENGTH + 1);
    assert_non_null(text);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < LINES; i++) {
        memset(text, 'a' + i, LENGTH);
        text[LENGTH] = '\n';
        assert_int_equal(fwrite(text, 1, LENGTH + 1, f), LENGTH + 1);
    }
    fclose(f);
    mc_lines l;
    mc_str line;
    assert_int_equal(mc_lines_open(&l, path), MICA_OK);
    for (int i = 0; i < LINES; i++) {
        assert_int_equal(mc_lines_next(&l, &line), MICA_OK);
        assert_int_equal(line.len, LENGTH);
        assert_true(line.ptr[0] == 'a' + i && line.ptr[LENGTH - 1] == 'a' + i);
    }
    assert_int_equal(mc_lines_next(&l, &line), MICA_OK);
    assert_null(line.ptr);
    mc_lines_close(&l);
    free(text);
    free(path);
    test_temp_dir_remove(dir);
}

/* Ids beyond the memory that they may take are read from a file: the same. */
static void test_spill(void **state) {
    (void)state;
    enum { TEXTS = 300 };
    char *dir = test_temp_dir(), *path = test_format("%s/a.jsonl", dir);
    char *model = test_format("%s/default", test_models_dir());
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < TEXTS; i++)
        fprintf(f, "{\"text\": \"curl number %d is a tool%s\"}\n", i, i % 3 ? "" : " and more");
    fclose(f);
    mc_prompt prompt;
    mc_examples held, spilt;
    if (mc_prompt_open(model, NULL, &prompt) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_examples_options options = {.prompt = &prompt, .vocab = 8192, .max_length = 64};
    assert_int_equal(mc_examples_open(&held, path, &options), MICA_OK);
    options.memory_bytes = 1000;
    assert_int_equal(mc_examples_open(&spilt, path, &options), MICA_OK);
    assert_true(!held.spill && spilt.spill && spilt.ids.len <= 1000);
    assert_true(held.hash == spilt.hash);
    assert_int_equal(mc_examples_count(&spilt), TEXTS);
    for (size_t k = 0; k < TEXTS; k++) {
        size_t i = k * 7 % TEXTS; /* in no order of the file */
        int32_t a[64], b[64];
        assert_int_equal(mc_examples_at(&spilt, i)->length, mc_examples_at(&held, i)->length);
        assert_int_equal(mc_examples_read(&held, i, a), MICA_OK);
        assert_int_equal(mc_examples_read(&spilt, i, b), MICA_OK);
        assert_memory_equal(a, b, mc_examples_at(&held, i)->length * sizeof *a);
    }
    mc_examples_close(&held);
    mc_examples_close(&spilt);
    mc_prompt_close(&prompt);
    free(model);
    free(path);
    test_temp_dir_remove(dir);
}

/* ---- records ---- */

/* Reads a file's records, each with a line feed behind it; an error ends them. */
static mica_status read_records(const char *name, const char *text, mc_buffer *out) {
    char *dir = test_temp_dir(), *path = test_format("%s/%s", dir, name);
    mc_records r;
    mc_str record = {"", 0};
    test_write_file(path, text, strlen(text));
    mica_status status = mc_records_open(&r, path);
    mc_buffer_clear(out);
    while (status == MICA_OK && record.ptr) {
        status = mc_records_next(&r, &record);
        if (status != MICA_OK && r.misfit) {
            assert_true(mc_buffer_printf(out, "%d: misfit\n", (int)r.number));
            status = MICA_OK;
            record.ptr = "";
        } else if (status == MICA_OK && record.ptr) {
            while (record.len && record.ptr[record.len - 1] == '\n')
                record.len--;
            assert_true(mc_buffer_printf(out, "%d: %.*s\n", (int)r.number, MC_STR_ARG(record)));
        }
    }
    mc_records_close(&r);
    assert_non_null(mc_buffer_cstr(out));
    free(path);
    test_temp_dir_remove(dir);
    return status;
}

static void test_records(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want; /* an error's words in the place of records */
        mica_status status;
    } cases[] = {
        {"a.jsonl", "{\"a\": 1}\n \n{\"b\": [2]}", "1: {\"a\": 1}\n3: {\"b\": [2]}\n", MICA_OK},
        {"a.json", " [{\"a\": \"]},{\"}, {\"b\":\n[1, {}]}\n,3 ]\n\n",
         "1: {\"a\": \"]},{\"}\n1: {\"b\":\n[1, {}]}\n3: 3 \n", MICA_OK},
        {"a.json", "\xEF\xBB\xBF[\n{\"a\": \"\\\"]\"}\n]", "2: {\"a\": \"\\\"]\"}\n", MICA_OK},
        {"a.json", "[]", "", MICA_OK},
        {"a.json", "\xEF\xBB\xBF\n\n[1]", "3: 1\n", MICA_OK},
        {"a.json", "[{\"a\": 1},\n{\"a\"", "line 2: the array does not end", MICA_EFORMAT},
        {"a.json", "[1]\n2", "line 2: something follows the array", MICA_EFORMAT},
        {"a.csv",
         "\xEF\xBB\xBFprompt,\"completion\"\r\nWho?,\"A \"\"model\"\", here\"\r\n\n\"two\n"
         "lines\",\"\"\nx,y,z\na,b",
         "2: {\"prompt\":\"Who?\",\"completion\":\"A \\\"model\\\", here\"}\n"
         "4: {\"prompt\":\"two\\u000alines\",\"completion\":\"\"}\n6: misfit\n"
         "7: {\"prompt\":\"a\",\"completion\":\"b\"}\n",
         MICA_OK},
        {"a.json", "[1,\n ]", "line 2: an element of the array is missing", MICA_EFORMAT},
        {"a.json", "[,1]", "line 1: an element of the array is missing", MICA_EFORMAT},
        {"a.csv", "a\n\xFFx\ny", "2: misfit\n3: {\"a\":\"y\"}\n", MICA_OK},
        {"a.csv",
         "\xFF\xFE"
         "a\nb\n",
         "line 1: is not UTF-8", MICA_EFORMAT},
        {"a.CSV", "a,b\n1,2\n", "2: {\"a\":\"1\",\"b\":\"2\"}\n", MICA_OK},
        {"a.csv", "a,b,a\nx,y,z\n", "line 1: two columns are named \"a\"", MICA_EFORMAT},
        {"a.csv", "a,b\n\"x", "line 2: a field in quotes does not end", MICA_EFORMAT},
        {"a.csv", "a,b\n\"x\"y,", "line 2: something follows a field in quotes", MICA_EFORMAT},
    };
    mc_buffer got = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_status status = read_records(cases[i].name, cases[i].text, &got);
        assert_int_equal(status, cases[i].status);
        if (status == MICA_OK) assert_string_equal(got.data, cases[i].want);
        if (status != MICA_OK && !strstr(mica_last_error(), cases[i].want))
            fail_msg("%s", mica_last_error());
    }
    mc_buffer_deinit(&got);
}

/* An array may be one line that is longer than a line may be, if its elements are not. */
static void test_long_array(void **state) {
    (void)state;
    size_t size = MC_LINE_MAX + 100;
    mc_buffer got = {0};
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, ' ', size);
    text[size] = '\0';
    memcpy(text, "[\"a\",", 5);
    memcpy(text + size - 6, "\"b c\"]", 6);
    if (read_records("a.json", text, &got) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_string_equal(got.data, "1: \"a\"\n1: \"b c\"\n");
    mc_buffer_deinit(&got);
    free(text);
}

/* The hash of a file's ids, by the default model. 0: an error, in mica_last_error. */
static uint64_t hash_of(const mc_prompt *prompt, const char *name, const char *text,
                        mc_data_keys keys) {
    char *dir = test_temp_dir(), *path = test_format("%s/%s", dir, name);
    const mc_examples_options options = {
        .prompt = prompt, .chat = "gemma", .vocab = 8192, .max_length = 256, .keys = keys};
    mc_examples e;
    test_write_file(path, text, strlen(text));
    mica_status status = mc_examples_open(&e, path, &options);
    uint64_t hash = status == MICA_OK ? e.hash : 0;
    mc_examples_close(&e);
    free(path);
    test_temp_dir_remove(dir);
    return hash;
}

/* Alpaca's, ShareGPT's, renamed keys, arrays and CSV give the ids of the messages that they are. */
static void test_forms(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        mc_data_keys keys;
    } same[] = {
        {"a.jsonl", "{\"prompt\": \"Who?\\n\\nYou\", \"completion\": \"A model\"}", {0}},
        {"a.jsonl",
         "{\"q\": \"Who?\\n\\nYou\", \"a\": \"A model\", \"text\": \"\"}",
         {"q", "a", 0, 0}},
        {"a.jsonl",
         "{\"instruction\": \"Who?\", \"input\": \"You\", \"output\": \"A model\"}",
         {0}},
        {"a.jsonl", "{\"instruction\": \"Who?\\n\\nYou\", \"output\": \"A model\"}", {0}},
        {"a.json",
         "[\n{\"instruction\": \"\", \"input\": \"Who?\\n\\nYou\", \"output\": \"A model\"}]",
         {0}},
        {"a.jsonl",
         "{\"conversations\": [{\"from\": \"human\", \"value\": \"Who?\\n\\nYou\"}, {\"from\": "
         "\"gpt\", \"value\": \"A model\"}]}",
         {0}},
        {"a.jsonl",
         "{\"conversations\": [{\"role\": \"user\", \"content\": \"Who?\\n\\nYou\"}, {\"role\": "
         "\"assistant\", \"content\": \"A model\"}]}",
         {0}},
        {"a.jsonl",
         "{\"talk\": [{\"role\": \"user\", \"content\": \"Who?\\n\\nYou\"}, {\"role\": "
         "\"assistant\", \"content\": \"A model\"}]}",
         {0, 0, "talk", 0}},
        {"a.csv", "output,instruction,input\nA model,Who?,You\n", {0}},
        {"a.csv", "completion,prompt\nA model,\"Who?\n\nYou\"\n", {0}},
    };
    static const char *const bad[] = {
        "{\"text\": \" \"}",
        "{\"prompt\": \"\", \"completion\": \"a\"}",
        "{\"prompt\": \"a\", \"completion\": \"\\n\"}",
        "{\"instruction\": \"a\", \"output\": \"\"}",
        "{\"instruction\": \"\", \"output\": \"a\"}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
        "\"content\": \"\"}]}",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", "
        "\"value\": \"\"}]}",
    };
    char *model = test_format("%s/default", test_models_dir());
    mc_prompt prompt;
    if (mc_prompt_open(model, NULL, &prompt) != MICA_OK) fail_msg("%s", mica_last_error());
    uint64_t want = hash_of(&prompt, same[0].name, same[0].text, same[0].keys);
    assert_true(want != 0);
    for (size_t i = 1; i < sizeof same / sizeof *same; i++)
        if (hash_of(&prompt, same[i].name, same[i].text, same[i].keys) != want)
            fail_msg("%s: %s", same[i].text, mica_last_error());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = test_format("%s\n%s\n", same[0].text, bad[i]);
        assert_true(hash_of(&prompt, "a.jsonl", text, (mc_data_keys){0}) == 0);
        if (!strstr(mica_last_error(), "line 2: ") || !strstr(mica_last_error(), " empty"))
            fail_msg("%s: %s", bad[i], mica_last_error());
        free(text);
    }
    assert_true(hash_of(&prompt, "a.jsonl",
                        "{\"conversations\": [{\"from\": \"function_call\", \"value\": \"a\"}]}",
                        (mc_data_keys){0}) == 0);
    assert_non_null(strstr(mica_last_error(), "a turn of \"function_call\""));
    mc_prompt_close(&prompt);
    free(model);
}

/* ---- adapters ---- */

typedef struct small {
    char *dir, *model, *adapter;
} small;

static void begin(small *t) {
    t->dir = test_temp_dir();
    t->model = test_format("%s/default", test_models_dir());
    t->adapter = test_format("%s/adapter", t->dir);
    test_write_below(t->dir, "train.jsonl",
                     "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
                     "{\"prompt\": \"c\", \"completion\": \"d e\"}\n");
}

static void end(small *t) {
    test_temp_dir_remove(t->dir);
    free(t->model);
    free(t->adapter);
}

static mica_status train(const small *t, const mica_lora_options *lora,
                         mica_adapter_format format) {
    mica_tuner *tuner = NULL;
    const mica_optimizer_options adam = {.name = "adam", .learning_rate = 1e-2};
    const mica_tune_options options = {.data = t->dir,
                                       .adapter = t->adapter,
                                       .format = format,
                                       .optimizer = &adam,
                                       .batch_size = 2,
                                       .iterations = 2};
    mica_status status = mica_tuner_open(t->model, &(mica_tuner_options){.threads = 1}, &tuner);
    if (status == MICA_OK) status = mica_lora_apply(tuner, lora);
    if (status == MICA_OK) status = mica_tune(tuner, &options, NULL);
    mica_tuner_close(&tuner);
    return status;
}

static double score(const small *t, const char *adapter) {
    mica_model *model;
    mica_score_result *result = NULL;
    const mica_model_options options = {
        .adapter = adapter, .arithmetic = MICA_ARITHMETIC_EXACT, .threads = 1};
    if (mica_model_open(t->model, &options, &model) != MICA_OK ||
        mica_score(model, "curl is a command line tool", 27, NULL, &result) != MICA_OK)
        fail_msg("%s", mica_last_error());
    double total = result->total;
    mica_score_free(&result);
    mica_model_close(&model);
    return total;
}

/* Factors that were not trained change nothing: B is zero. */
static void test_identity(void **state) {
    (void)state;
    small t;
    begin(&t);
    double before = score(&t, NULL);
    for (int kind = MICA_TUNE_LORA; kind <= MICA_TUNE_DORA; kind++) {
        mica_tuner *tuner;
        const mica_lora_options lora = {.kind = (mica_tune_kind)kind, .rank = 4};
        if (mica_tuner_open(t.model, &(mica_tuner_options){.threads = 1}, &tuner) != MICA_OK ||
            mica_lora_apply(tuner, &lora) != MICA_OK ||
            mica_tuner_save(tuner, t.adapter, MICA_ADAPTER_MLX) != MICA_OK)
            fail_msg("%s", mica_last_error());
        double after = score(&t, t.adapter);
        if (fabs(after - before) > (kind == MICA_TUNE_LORA ? 0.0 : 1e-3))
            fail_msg("kind %d: %.9g, before %.9g", kind, after, before);
        mica_tuner_close(&tuner);
    }
    end(&t);
}

/* Both formats give the model that was trained; another one than before. */
static void test_formats(void **state) {
    (void)state;
    small t;
    begin(&t);
    static const char *const modules[] = {"q_proj", "model.layers.7.mlp.down_proj"};
    const mica_lora_options rows[] = {
        {.rank = 2},
        {.rank = 2, .layers = 3, .alpha = 7},
        {.rank = 3, .modules = modules, .n_modules = 2, .bf16 = true},
        {.kind = MICA_TUNE_DORA, .rank = 2, .layers = 4},
    };
    double before = score(&t, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double scores[2];
        for (int format = 0; format < 2; format++) {
            if (train(&t, &rows[i], (mica_adapter_format)format) != MICA_OK)
                fail_msg("%s", mica_last_error());
            scores[format] = score(&t, t.adapter);
        }
        if (scores[0] != scores[1]) fail_msg("row %zu: %.17g, %.17g", i, scores[0], scores[1]);
        assert_true(scores[0] != before);
    }
    end(&t);
}

/* Full training: the adapter's tensors take the place of the model's, when it is opened and when it
 * is fused; and are refused where they do not fit. */
static void check_full(const char *model) {
    small t;
    begin(&t);
    free(t.model);
    t.model = test_format("%s/models/%s", test_fixtures_dir(), model);
    test_write_below(t.dir, "train.jsonl", "{\"text\": \"curl is\"}\n{\"text\": \"a tool\"}\n");
    double before = score(&t, NULL);
    if (train(&t, &(mica_lora_options){.kind = MICA_TUNE_FULL, .layers = 2}, MICA_ADAPTER_MLX) !=
        MICA_OK)
        fail_msg("%s: %s", model, mica_last_error());
    double adapted = score(&t, t.adapter);
    small fused = {.model = test_format("%s/fused", t.dir)};
    const mica_convert_options options = {.adapter = t.adapter, .threads = 1};
    if (mica_convert(t.model, fused.model, &options, NULL) != MICA_OK)
        fail_msg("%s: %s", model, mica_last_error());
    double whole = score(&fused, NULL);
    /* Fused, norms are rounded to the model's dtype. */
    if (fabs(adapted - before) < 0.1 || fabs(adapted - whole) > 1e-3 * fabs(adapted))
        fail_msg("%s: %.9g, adapted %.9g, fused %.9g", model, before, adapted, whole);
    free(fused.model);
    mica_model *other = NULL;
    const mica_model_options adapter = {.adapter = t.adapter, .threads = 1};
    char *default_model = test_format("%s/default", test_models_dir());
    assert_int_not_equal(mica_model_open(default_model, &adapter, &other), MICA_OK);
    assert_null(other);
    free(default_model);
    end(&t);
}

static void test_full(void **state) {
    (void)state;
    check_full("qwen3_tied");
    check_full("gemma3_text_f32"); /* whose norms have an offset */
}

/* Tensors that cannot be written leave no config, or the one that was there. */
static void test_unwritable(void **state) {
    (void)state;
    for (int format = 0; format < 2; format++) {
        small t;
        mica_tuner *tuner;
        const char *tensors = format ? "adapter_model.safetensors" : "adapters.safetensors";
        begin(&t);
        char *folder = test_format("%s/%s", t.adapter, tensors);
        char *config = test_format("%s/adapter_config.json", t.adapter);
        assert_int_equal(mc_folder_make(folder), MICA_OK);
        if (mica_tuner_open(t.model, &(mica_tuner_options){.threads = 1}, &tuner) != MICA_OK ||
            mica_lora_apply(tuner, &(mica_lora_options){.rank = 1, .layers = 1}) != MICA_OK)
            fail_msg("%s", mica_last_error());
        assert_int_equal(mica_tuner_save(tuner, t.adapter, (mica_adapter_format)format), MICA_EIO);
        assert_false(mc_path_is_file(config));
        mica_tuner_close(&tuner);
        free(folder);
        free(config);
        end(&t);
    }
}

/* A folder takes one training at a time. */
static void test_lock(void **state) {
    (void)state;
    small t;
    int lock;
    begin(&t);
    const mica_lora_options lora = {.rank = 1, .layers = 1};
    assert_int_equal(mc_folder_make(t.adapter), MICA_OK);
    assert_int_equal(mc_folder_lock(t.adapter, &lock), MICA_OK);
    assert_int_equal(train(&t, &lora, MICA_ADAPTER_MLX), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "another training writes to this folder"));
    mc_folder_unlock(&lock);
    assert_int_equal(train(&t, &lora, MICA_ADAPTER_MLX), MICA_OK);
    assert_int_equal(train(&t, &lora, MICA_ADAPTER_MLX), MICA_OK);
    end(&t);
}

static bool train_small(void *arg) {
    static const char *const modules[] = {"q_proj"};
    const mica_lora_options lora = {
        .rank = 1, .layers = 1, .modules = modules, .n_modules = 1, .dropout = 0.1f};
    mica_status status = train(arg, &lora, MICA_ADAPTER_MLX);
    if (status != MICA_OK) assert_true(status == MICA_ENOMEM || status == MICA_EIO);
    return status == MICA_OK;
}

/* Opening a model and two steps take thousands of allocations: every 23rd fails. */
static void test_no_memory(void **state) {
    (void)state;
    small t;
    begin(&t);
    uint64_t n = 1, failed = 0;
    bool done = false;
    for (; !done; n += 23) {
        mc_alloc_fail_at(n);
        done = train_small(&t);
        mc_alloc_fail_at(0);
        failed += !done;
    }
    assert_true(failed > 10);
    end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),      cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_zstd),       cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_spill),      cmocka_unit_test(test_records),
        cmocka_unit_test(test_long_array), cmocka_unit_test(test_forms),
        cmocka_unit_test(test_identity),   cmocka_unit_test(test_formats),
        cmocka_unit_test(test_lock),       cmocka_unit_test(test_full),
        cmocka_unit_test(test_unwritable), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
