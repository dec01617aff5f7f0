/* Filling in the middle, for the marks of each family, and what asks for it. The model is the
 * default one, in whose vocabulary other tokens are called as the marks are. */
#define _POSIX_C_SOURCE 200809L
#include "serve/jobs/fim.h"
#include "loading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEFORE "curl is"
#define BEHIND " a tool"

/* Puts `to` in place of all `from`. */
static char *replaced(char *text, const char *from, const char *to) {
    mc_buffer out = {0};
    const char *at = text;
    for (const char *next; (next = strstr(at, from)); at = next + strlen(from))
        assert_true(mc_buffer_add(&out, at, (size_t)(next - at)) && mc_buffer_add_text(&out, to));
    assert_true(mc_buffer_add_text(&out, at));
    char *copy = test_format("%s", mc_buffer_cstr(&out));
    mc_buffer_deinit(&out);
    free(text);
    return copy;
}

/* A folder with the default model whose vocabulary has marks. */
static void mark_model(const char *root, const char *name, const char *prefix, const char *suffix,
                       const char *middle) {
    char *own = test_format("%s/default", test_models_dir());
    link_model(root, name, own);
    char *from = test_format("%s/tokenizer.json", own);
    char *to = test_format("%s/%s/tokenizer.json", root, name);
    size_t size;
    char *text = test_read_file(from, &size);
    text = replaced(text, "<start_of_turn>", prefix);
    text = replaced(text, "<end_of_turn>", suffix);
    if (middle) text = replaced(text, "<unk>", middle);
    assert_int_equal(unlink(to), 0);
    test_write_file(to, text, strlen(text));
    free(text);
    free(from);
    free(to);
    free(own);
}

static const struct family {
    const char *prefix, *suffix, *middle, *order;
} families[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "PpSsM"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "PpSsM"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "PpSsM"},
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "hole\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     "PpSsM"},
    {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>", "PpSsM"},
    {"[PREFIX]", "[SUFFIX]", NULL, "SsPp"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "PpSsM"},
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", "SsPpM"},
};

static void add(mc_buffer *ids, const mica_tokenizer *tok, const char *text) {
    int32_t *some;
    size_t n;
    assert_int_equal(mica_tokenizer_encode(tok, text, strlen(text), false, &some, &n), MICA_OK);
    assert_true(mc_buffer_add(ids, some, n * sizeof *some));
    mica_free(some);
}

static void check_family(const mica_tokenizer *tok, const struct family *family) {
    mc_failure failure = {0};
    mc_completion_prompt prompt = {0};
    mc_buffer want = {0};
    mc_arena arena = {0};
    mica_generate_options options = {.struct_bytes = sizeof options};
    mc_fim fim;
    const int32_t bos = mica_tokenizer_bos(tok);
    assert_true(mc_fim_find(tok, "suffix", &fim, &failure));
    assert_true(mc_fim_encode(tok, &fim, MC_STR(BEFORE), MC_STR(BEHIND), MC_STR(" the"), NULL, 0,
                              "prompt", &prompt, &failure));
    assert_true(mc_buffer_add(&want, &bos, sizeof bos));
    for (const char *c = family->order; *c; c++)
        add(&want, tok,
            *c == 'P'   ? family->prefix
            : *c == 'S' ? family->suffix
            : *c == 'M' ? family->middle
            : *c == 'p' ? BEFORE
                        : BEHIND);
    add(&want, tok, " the");
    assert_int_equal(prompt.n, MC_BUFFER_COUNT(&want, int32_t));
    assert_memory_equal(prompt.ids, want.data, want.len);
    assert_true(mc_fim_stops(tok, &fim, &arena, &options));
    assert_int_equal(options.stop_count, family->middle ? 3 : 2);
    mica_free(prompt.ids);
    mc_buffer_deinit(&want);
    mc_arena_deinit(&arena);
}

static void test_families(void **state) {
    (void)state;
    char *root = test_temp_dir();
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *family = &families[i];
        char name[] = {(char)('a' + (int)i), '\0'};
        mica_tokenizer *tok;
        mark_model(root, name, family->prefix, family->suffix, family->middle);
        char *path = test_format("%s/%s", root, name);
        if (mica_tokenizer_open(path, &tok) != MICA_OK) fail_msg("%s", mica_last_error());
        check_family(tok, family);
        mica_tokenizer_close(&tok);
        free(path);
    }
    test_temp_dir_remove(root);
}

/* Other files come first, between marks where the vocabulary has some. */
static void test_files(void **state) {
    (void)state;
    char *root = test_temp_dir(), *path = test_format("%s/a", root);
    const mc_fim_file files[] = {{MC_STR("a.c"), MC_STR("int a;")}, {MC_STR("b.c"), MC_STR("b")}};
    mc_completion_prompt prompt = {0};
    mc_failure failure = {0};
    mica_tokenizer *tok;
    mc_fim fim;
    char *text;
    size_t len;
    mark_model(root, "a", families[0].prefix, families[0].suffix, families[0].middle);
    assert_int_equal(mica_tokenizer_open(path, &tok), MICA_OK);
    assert_true(mc_fim_find(tok, "suffix", &fim, &failure));
    assert_true(mc_fim_encode(tok, &fim, MC_STR(BEFORE), MC_STR(BEHIND), MC_STR(""), files, 2,
                              "prompt", &prompt, &failure));
    assert_int_equal(mica_tokenizer_decode(tok, prompt.ids, prompt.n, false, &text, &len), MICA_OK);
    assert_non_null(
        strstr(text, "int a;b<|fim_prefix|>" BEFORE "<|fim_suffix|>" BEHIND "<|fim_middle|>"));
    mica_free(text);
    mica_free(prompt.ids);
    mica_tokenizer_close(&tok);
    test_temp_dir_remove(root);
    free(path);
}

/* ---- over HTTP ---- */

static void check_same(const mica_server *server, const char *path, const char *body,
                       const char *member, mc_str want) {
    mc_json_doc *doc = client_json(server, "POST", path, body, 200);
    check_text(mc_json_root(doc), member, want);
    mc_json_close(&doc);
}

/* All APIs fill in what the model says behind the same ids. */
static void test_apis(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    mark_model(f.root, "marked", families[0].prefix, families[0].suffix, families[0].middle);
    wait_for_list();
    mc_buffer body = {0};
    mc_json_doc *ids = client_json(f.server, "POST", "/tokenize",
                                   "{\"model\": \"marked\", \"prompt\": \"<|fim_prefix|>" BEFORE
                                   "<|fim_suffix|>" BEHIND "<|fim_middle|>\"}",
                                   200);
    mc_buffer_add_text(&body, "{\"model\": \"marked\", \"temperature\": 0, \"max_tokens\": 5, "
                              "\"stop_token_ids\": [3, 4, 5], \"prompt\": [");
    for (mc_json_iter it = mc_json_begin(at(mc_json_root(ids), "tokens")); mc_json_next(&it);) {
        int64_t id;
        assert_true(mc_json_get_int(it.value, &id));
        mc_buffer_printf(&body, "%s%d", body.data[body.len - 1] == '[' ? "" : ", ", (int)id);
    }
    mc_buffer_add_text(&body, "]}");
    mc_json_doc *doc = client_json(f.server, "POST", "/v1/completions", mc_buffer_cstr(&body), 200);
    mc_str want = text_at(mc_json_root(doc), "choices.0.text");
    check_same(
        f.server, "/v1/completions",
        "{\"model\": \"marked\", \"temperature\": 0, \"max_tokens\": 5, \"prompt\": \"" BEFORE
        "\", \"suffix\": \"" BEHIND "\"}",
        "choices.0.text", want);
    check_same(f.server, "/api/generate",
               "{\"model\": \"marked\", \"stream\": false, \"prompt\": \"" BEFORE
               "\", \"suffix\": \"" BEHIND "\", \"options\": {\"temperature\": 0, "
               "\"repeat_penalty\": 1, \"num_predict\": 5}}",
               "response", want);
    check_same(f.server, "/infill",
               "{\"model\": \"marked\", \"temperature\": 0, \"n_predict\": 5, \"input_prefix\": "
               "\"" BEFORE "\", \"input_suffix\": \"" BEHIND "\"}",
               "content", want);
    mc_json_close(&doc);
    mc_json_close(&ids);
    mc_buffer_deinit(&body);
    client_refused(f.server, "/v1/completions",
                   "{\"model\": \"marked\", \"prompt\": [1, 2], \"suffix\": \"a\"}", 400,
                   "invalid_type", "prompt");
    client_refused(f.server, "/v1/completions",
                   "{\"model\": \"marked\", \"prompt\": \"a\", \"suffix\": \"a\", \"echo\": true}",
                   400, "invalid_value", "echo");
    close_fixture(&f);
}

/* A vocabulary without marks is told so; an empty suffix is none. */
static void test_refusals(void **state) {
    (void)state;
    client_refused(shared.server, "/v1/completions", "{\"prompt\": \"a\", \"suffix\": \"b\"}", 400,
                   "unsupported_value", "suffix");
    client_refused(shared.server, "/infill", "{\"input_prefix\": \"a\"}", 400, "unsupported_value",
                   "input_suffix");
    answer a = client_ask(shared.server, "POST", "/api/generate",
                          "{\"model\": \"default\", \"prompt\": \"a\", \"suffix\": \"b\"}");
    assert_int_equal(a.status, 400);
    assert_non_null(strstr(a.body, "no marks for filling in"));
    answer_free(&a);
    a = client_ask(shared.server, "POST", "/v1/completions",
                   "{\"prompt\": \"a\", \"suffix\": \"\", \"max_tokens\": 1}");
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_apis),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("serve/fim", tests, served_open_shared, served_close_shared);
}
