/* What a folder says of prompts: stop ids, the first token, the chat format. */
#include "model/fixture.h"

#include "engine/prompt.h"

#include <stdlib.h>
#include <string.h>

/* A copy of a fixture with a tokenizer, its config.json replaced. */
static char *folder_with(const char *config, const char *generation) {
    char *dir = fixture_copy("gemma3_text_f32", NULL, NULL, NULL);
    char *path = test_format("%s/config.json", dir);
    test_write_file(path, config, strlen(config));
    free(path);
    if (generation) {
        path = test_format("%s/generation_config.json", dir);
        test_write_file(path, generation, strlen(generation));
        free(path);
    }
    return dir;
}

static void expect_stops(const char *config, const char *generation, const int32_t *want,
                         size_t n) {
    char *dir = folder_with(config, generation);
    mc_prompt prompt;
    if (mc_prompt_open(dir, &prompt) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(MC_BUFFER_COUNT(&prompt.stops, int32_t), n);
    if (n) assert_memory_equal(prompt.stops.data, want, n * sizeof *want);
    mc_prompt_close(&prompt);
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

static void test_stops(void **state) {
    (void)state;
    expect_stops("{\"eos_token_id\": 1}", NULL, (const int32_t[]){1}, 1);
    expect_stops("{\"eos_token_id\": [1, 106], \"text_config\": {\"eos_token_id\": 7}}", NULL,
                 (const int32_t[]){1, 106, 7}, 3);
    expect_stops("{\"eos_token_id\": 1}", "{\"eos_token_id\": [106, 1]}", (const int32_t[]){106, 1},
                 2);
    expect_stops("{\"eos_token_id\": null}", "{}", NULL, 0);
}

static void expect_error(const char *config, const char *generation, mica_status status,
                         const char *word) {
    char *dir = folder_with(config, generation);
    mc_prompt prompt;
    assert_int_equal(mc_prompt_open(dir, &prompt), status);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
    assert_null(prompt.tokenizer);
    test_temp_dir_remove(dir);
}

static void test_bad_files(void **state) {
    (void)state;
    expect_error("{\"eos_token_id\": \"</s>\"}", NULL, MICA_EFORMAT, "eos_token_id");
    expect_error("{\"eos_token_id\": -1}", NULL, MICA_EFORMAT, "eos_token_id");
    expect_error("{}", "{\"eos_token_id\": [1.5]}", MICA_EFORMAT, "generation_config.json");
    expect_error("{}", "[", MICA_EFORMAT, "generation_config.json");
    expect_error("{\"text_config\": 3}", NULL, MICA_EFORMAT, "text_config");

    char *dir = fixture_copy("gemma3_mm_lmprefix", NULL, NULL, NULL); /* it has no tokenizer */
    mc_prompt prompt;
    assert_int_equal(mc_prompt_open(dir, &prompt), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "tokenizer.json"));
    test_temp_dir_remove(dir);
}

static void test_chat(void **state) {
    (void)state;
    char *dir = test_format("%s/default", test_models_dir());
    const mica_message messages[] = {{"user", "What is curl?"}};
    const int32_t want[] = {2, 4, 454, 262, 558, 444, 5127, 293, 5, 262, 4, 456, 262};
    mc_prompt prompt;
    int32_t *ids;
    size_t n;
    assert_int_equal(mc_prompt_open(dir, &prompt), MICA_OK);
    assert_string_equal(prompt.bos, "<bos>");
    assert_int_equal(mc_prompt_chat(&prompt, "gemma", messages, 1, NULL, &ids, &n), MICA_OK);
    assert_int_equal(n, sizeof want / sizeof *want);
    assert_memory_equal(ids, want, sizeof want);
    mica_free(ids);
    assert_int_equal(mc_prompt_chat(&prompt, NULL, messages, 1, NULL, &ids, &n), MICA_EUNSUPPORTED);
    assert_int_equal(mc_prompt_chat(&prompt, "unheard-of", messages, 1, NULL, &ids, &n),
                     MICA_EUNSUPPORTED);
    const mica_generate_options tools = {.tools = "[]"}, variables = {.template_variables = "{}"};
    assert_int_equal(mc_prompt_chat(&prompt, "gemma", messages, 1, &tools, &ids, &n),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "takes no tools"));
    assert_int_equal(mc_prompt_chat(&prompt, "gemma", messages, 1, &variables, &ids, &n),
                     MICA_EUNSUPPORTED);
    const mica_message twice[] = {{"user", "a"}, {"user", "b"}};
    assert_int_equal(mc_prompt_chat(&prompt, "gemma", twice, 2, NULL, &ids, &n), MICA_EINVAL);
    mc_prompt_close(&prompt);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_chat),
    };
    return cmocka_run_group_tests_name("engine/prompt", tests, NULL, NULL);
}
