/* Built-in turns: the rendered prompts of the goldens, and the prompts of the default model's. */
#include "text/chat/chat.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/str.h"
#include "support/support.h"

#include <mica/tokenizer.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 16 };

typedef struct conversation {
    mc_chat_message messages[MAX_MESSAGES];
    size_t n;
    mc_buffer texts[2 * MAX_MESSAGES]; /* what the messages point to */
} conversation;

static const char *keep(mc_buffer *buffer, mc_str text) {
    assert_true(mc_buffer_add(buffer, text.ptr, text.len));
    assert_true(memchr(text.ptr, '\0', text.len) == NULL);
    return mc_buffer_cstr(buffer);
}

/* False where a message has something else than a role and text. */
static bool read_messages(mc_json list, conversation *c) {
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); c->n++) {
        mc_str role, content;
        assert_true(c->n < MAX_MESSAGES);
        assert_true(mc_json_get_str(mc_json_find(it.value, "role"), &role));
        if (mc_json_count(it.value) != 2 ||
            !mc_json_get_str(mc_json_find(it.value, "content"), &content))
            return false;
        c->messages[c->n].role = keep(&c->texts[2 * c->n], role);
        c->messages[c->n].content = keep(&c->texts[2 * c->n + 1], content);
    }
    return true;
}

static void free_messages(conversation *c) {
    for (size_t i = 0; i < 2 * MAX_MESSAGES; i++)
        mc_buffer_deinit(&c->texts[i]);
}

/* The part of "TemplateError: text" that says what is wrong. */
static const char *template_error(mc_str error) {
    static const char prefix[] = "TemplateError: ";
    return mc_str_starts(error, mc_str_of(prefix)) ? error.ptr + strlen(prefix) : "";
}

static void check_render(mc_chat_format format, const char *bos, mc_json entry,
                         const conversation *c) {
    mc_buffer out = {0};
    bool generation = false;
    mc_str text, error;
    mc_json_get_bool(mc_json_find(mc_json_find(entry, "options"), "add_generation_prompt"),
                     &generation);
    assert_true(mc_buffer_add_text(&out, "kept"));
    mica_status status = mc_chat_render(format, c->messages, c->n, bos, generation, &out);
    if (mc_json_get_str(mc_json_find(entry, "error"), &error)) {
        assert_int_equal(status, MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), template_error(error)));
        assert_int_equal(out.len, 4);
    } else {
        assert_int_equal(status, MICA_OK);
        assert_true(mc_json_get_str(mc_json_find(entry, "text"), &text));
        assert_int_equal(out.len, text.len + 4);
        assert_memory_equal(out.data + 4, text.ptr, text.len);
    }
    mc_buffer_deinit(&out);
}

/* Qwen 2.5's template makes up a system message where there is none; the first one of Llama 3 adds
 * the assistant's header whether it is asked for or not. */
static bool is_made_up(mc_chat_format format, mc_json entry, const conversation *c) {
    bool generation = false;
    mc_json_get_bool(mc_json_find(mc_json_find(entry, "options"), "add_generation_prompt"),
                     &generation);
    return (format == MC_CHAT_CHATML && strcmp(c->messages[0].role, "system") != 0) ||
           (format == MC_CHAT_LLAMA3 && !generation);
}

static void check_goldens(const char *name, mc_chat_format format, const char *bos) {
    char *path = test_format("%s/chat/%s.json", test_cases_dir(), name);
    mc_json_doc *doc = NULL;
    size_t checked = 0, skipped = 0;
    doc = test_load_json(path);
    mc_json cases = mc_json_find(mc_json_root(doc), "cases");
    for (mc_json_iter it = mc_json_begin(cases); mc_json_next(&it);) {
        conversation c = {0};
        bool tools = mc_json_exists(mc_json_find(mc_json_find(it.value, "options"), "tools"));
        if (!tools && read_messages(mc_json_find(it.value, "messages"), &c) &&
            !is_made_up(format, it.value, &c)) {
            check_render(format, bos, it.value, &c);
            checked++;
        } else {
            skipped++;
        }
        free_messages(&c);
    }
    print_message("chat/%s: %zu checked, %zu skipped (what no built-in format has)\n", name,
                  checked, skipped);
    assert_true(checked > 0);
    mc_json_close(&doc);
    free(path);
}

static void test_goldens(void **state) {
    (void)state;
    check_goldens("gemma3", MC_CHAT_GEMMA, "<bos>");
    check_goldens("qwen2_5", MC_CHAT_CHATML, "<|endoftext|>");
    check_goldens("llama3", MC_CHAT_LLAMA3, "<|begin_of_text|>");
}

static void check_prompt(const mica_tokenizer *tok, mc_json entry) {
    conversation c = {0};
    mc_buffer prompt = {0};
    int32_t *ids = NULL;
    size_t n = 0, i = 0;
    mc_json wanted = mc_json_find(entry, "prompt_ids");
    assert_true(read_messages(mc_json_find(entry, "messages"), &c));
    assert_int_equal(mc_chat_render(MC_CHAT_GEMMA, c.messages, c.n, "<bos>", true, &prompt),
                     MICA_OK);
    assert_int_equal(mica_tokenizer_encode(tok, prompt.data, prompt.len, false, &ids, &n), MICA_OK);
    assert_int_equal(n, mc_json_count(wanted));
    for (mc_json_iter it = mc_json_begin(wanted); mc_json_next(&it); i++) {
        int64_t id = -1;
        assert_true(mc_json_get_int(it.value, &id));
        assert_int_equal(ids[i], id);
    }
    mica_free(ids);
    mc_buffer_deinit(&prompt);
    free_messages(&c);
}

/* The answer's ids, less the end of the turn, are the recorded text. */
static void check_answer(const mica_tokenizer *tok, mc_json entry) {
    int32_t ids[1024];
    size_t n = 0, len = 0;
    char *text = NULL;
    mc_str wanted;
    mc_json greedy = mc_json_find(entry, "greedy_ids");
    for (mc_json_iter it = mc_json_begin(greedy); mc_json_next(&it); n++) {
        int64_t id = -1;
        assert_true(n < 1024 && mc_json_get_int(it.value, &id));
        ids[n] = (int32_t)id;
    }
    assert_int_equal(mica_tokenizer_decode(tok, ids, n, true, &text, &len), MICA_OK);
    assert_true(mc_json_get_str(mc_json_find(entry, "text"), &wanted));
    assert_int_equal(len, wanted.len);
    assert_memory_equal(text, wanted.ptr, len);
    mica_free(text);
}

static void test_default_model(void **state) {
    (void)state;
    char *dir = test_format("%s/default", test_models_dir());
    char *path = test_format("%s/golden.json", dir);
    mc_json_doc *doc = NULL;
    mica_tokenizer *tok = NULL;
    size_t checked = 0;
    doc = test_load_json(path);
    assert_int_equal(mica_tokenizer_open(dir, &tok), MICA_OK);
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); checked++) {
        check_prompt(tok, it.value);
        check_answer(tok, it.value);
    }
    print_message("default model: %zu prompts checked\n", checked);
    assert_true(checked > 0);
    mica_tokenizer_close(&tok);
    mc_json_close(&doc);
    free(path);
    free(dir);
}

static void test_trimming(void **state) {
    (void)state;
    mc_chat_message message = {"user", "\xE2\x80\x83\x1F\xC2\xA0 a \xE3\x80\x80 b\xE2\x80\xA8\t"};
    mc_buffer out = {0};
    assert_int_equal(mc_chat_render(MC_CHAT_GEMMA, &message, 1, "", false, &out), MICA_OK);
    assert_string_equal(mc_buffer_cstr(&out),
                        "<start_of_turn>user\na \xE3\x80\x80 b<end_of_turn>\n");
    mc_buffer_deinit(&out);
}

static void test_bad_messages(void **state) {
    (void)state;
    mc_chat_message messages[2] = {{"user", "a"}, {"user", "b"}};
    mc_buffer out = {0};
    assert_int_equal(mc_chat_render(MC_CHAT_GEMMA, messages, 0, "", true, &out), MICA_EINVAL);
    assert_int_equal(mc_chat_render(MC_CHAT_GEMMA, NULL, 1, "", true, &out), MICA_EINVAL);
    assert_int_equal(mc_chat_render(MC_CHAT_GEMMA, messages, 2, "", true, &out), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "message 1"));
    messages[1] = (mc_chat_message){"assistant", NULL};
    assert_int_equal(mc_chat_render(MC_CHAT_GEMMA, messages, 2, "", true, &out), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "no content"));
    messages[1] = (mc_chat_message){NULL, "b"};
    assert_int_equal(mc_chat_render(MC_CHAT_GEMMA, messages, 2, "", true, &out), MICA_EINVAL);
    assert_int_equal(out.len, 0);
    mc_buffer_deinit(&out);
}

/* Harmony's messages, as OpenAI documents them. */
static void test_harmony(void **state) {
    (void)state;
    static const mc_chat_message messages[] = {
        {"system", "Be brief."}, {"user", "q"}, {"assistant", "a"}, {"user", "r"}};
    static const char want[] =
        "<|end|><|start|>developer<|message|># Instructions\n\nBe brief.<|end|>"
        "<|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final"
        "<|message|>a<|end|><|start|>user<|message|>r<|end|>"
        "<|start|>assistant";
    mc_buffer out = {0};
    assert_int_equal(mc_chat_render(MC_CHAT_HARMONY, messages, 4, "", true, &out), MICA_OK);
    const char *text = mc_buffer_cstr(&out);
    assert_int_equal(strncmp(text, "<|start|>system<|message|>You are", 33), 0);
    assert_non_null(strstr(text, want));
    assert_string_equal(strstr(text, want), want);
    mc_buffer_deinit(&out);
}

static bool render_once(void *arg) {
    static const mc_chat_format formats[] = {MC_CHAT_GEMMA, MC_CHAT_CHATML, MC_CHAT_LLAMA3,
                                             MC_CHAT_HARMONY};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof formats / sizeof *formats; i++) {
        mc_buffer out = {0};
        mica_status status = mc_chat_render(formats[i], arg, 2, "<bos>", true, &out);
        assert_true(status == MICA_OK || status == MICA_ENOMEM);
        mc_buffer_deinit(&out);
        ok = status == MICA_OK;
    }
    return ok;
}

static void test_no_memory(void **state) {
    (void)state;
    mc_chat_message messages[2] = {{"system", "Be brief. Be brief. Be brief. Be brief. Be brief."},
                                   {"user", "A question of some length, for the buffer to grow"}};
    test_fail_each_allocation(render_once, messages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_harmony),       cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_default_model), cmocka_unit_test(test_trimming),
        cmocka_unit_test(test_bad_messages),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
