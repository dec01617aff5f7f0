/* Conversations with a model that has sliding windows: what they share with earlier ones is not
 * computed again, wherever they part from these. */
#include "reading.h"

#include <stdlib.h>
#include <string.h>

#define CHAT "/v1/chat/completions"
enum { BLOCK = 64 }; /* tokens of a block of the caches: whole ones are shared */

static served windowed;

static int open_windowed(void **state) {
    (void)state;
    char *path = test_format("%s/models/gemma3_text_f32", test_cases_dir());
    const mica_model_options options = {.threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT};
    if (mica_model_open(path, &options, &windowed.model) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_server_open(NULL, &windowed.server), MICA_OK);
    assert_int_equal(mica_server_add(windowed.server, "gemma", windowed.model, NULL), MICA_OK);
    free(path);
    return 0;
}

static int close_windowed(void **state) {
    (void)state;
    served_close(&windowed);
    return 0;
}

/* A message of at least `words` tokens, other ones for each seed; freed with free. */
static char *message(const char *role, int seed, int words) {
    char text[4096] = "";
    for (int i = 0; i < words; i++)
        strcat(text, (seed >> (i % 5)) & 1 ? "zu " : i % 3 ? "ab " : "qi ");
    return test_format("{\"role\": \"%s\", \"content\": \"%d %s\"}", role, seed, text);
}

typedef struct usage {
    int64_t prompt, cached;
} usage;

/* Asks for an answer that fills more than a block. */
static usage ask(const char *messages) {
    char *body = test_format("{\"messages\": [%s], \"temperature\": 0, \"ignore_eos\": true, "
                             "\"max_tokens\": %d}",
                             messages, 2 * BLOCK);
    mc_json_doc *doc = client_json(windowed.server, "POST", CHAT, body, 200);
    mc_json told = mc_json_find(mc_json_root(doc), "usage");
    const usage u = {int_at(told, "prompt_tokens"),
                     int_at(told, "prompt_tokens_details.cached_tokens")};
    mc_json_close(&doc);
    free(body);
    return u;
}

/* The next turn of a conversation, in which the answer is not what the model has said: clients send
 * it without thoughts, for example. */
static void test_next_turn(void **state) {
    (void)state;
    char *first = message("user", 1, 100), *said = message("assistant", 2, 100),
         *second = message("user", 3, 100);
    char *turns = test_format("%s, %s, %s", first, said, second);
    usage alone = ask(first);
    usage next = ask(turns);
    assert_int_equal(alone.cached, 0);
    /* the first message, up to the end of its last block */
    assert_true(next.cached > 0 && next.cached <= alone.prompt);
    assert_true(next.cached >= alone.prompt - 2 * BLOCK);
    free(turns);
    free(second);
    free(said);
    free(first);
}

/* A message is changed: what is before it is shared. */
static void test_edited(void **state) {
    (void)state;
    char *first = message("user", 4, 100), *said = message("assistant", 5, 100);
    char *head = test_format("%s, %s", first, said);
    int64_t prompt = 0;
    for (int i = 0; i < 3; i++) {
        char *last = message("user", 6 + i, 100), *turns = test_format("%s, %s", head, last);
        usage u = ask(turns);
        if (i == 0)
            prompt = u.prompt;
        else
            assert_true(u.cached > prompt / 2 && u.cached < prompt);
        free(turns);
        free(last);
    }
    free(head);
    free(said);
    free(first);
}

/* Conversations have a system prompt in common, which Gemma's format has in the first message. */
static void test_system(void **state) {
    (void)state;
    char *system = message("system", 20, 150);
    for (int i = 0; i < 3; i++) {
        char *user = message("user", 21 + i, 100), *both = test_format("%s, %s", system, user);
        usage u = ask(both);
        if (i == 0)
            assert_int_equal(u.cached, 0);
        else
            assert_true(u.cached >= 2 * BLOCK && u.cached < u.prompt);
        free(both);
        free(user);
    }
    free(system);
}

/* What is not computed again is the same to the bit. */
static void test_same(void **state) {
    (void)state;
    char *first = message("user", 30, 100), *said[2];
    char *body = test_format("{\"messages\": [%s], \"temperature\": 0, \"max_tokens\": 20, "
                             "\"ignore_eos\": true, \"logprobs\": true}",
                             first);
    for (int i = 0; i < 2; i++) {
        answer a = client_ask(windowed.server, "POST", CHAT, body);
        assert_int_equal(a.status, 200);
        const char *choices = strstr(a.body, "\"choices\"");
        assert_non_null(choices);
        said[i] = test_format("%.*s", (int)(strstr(choices, "\"usage\"") - choices), choices);
        answer_free(&a);
    }
    assert_string_equal(said[0], said[1]);
    free(said[0]);
    free(said[1]);
    free(body);
    free(first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_turn),
        cmocka_unit_test(test_edited),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_same),
    };
    return cmocka_run_group_tests(tests, open_windowed, close_windowed);
}
