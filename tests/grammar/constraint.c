/* Masks over vocabularies: a token may come exactly if its bytes may, and answers keep to their
 * grammar. Run with "time FOLDER" it prints how long masks of a real vocabulary take. */
#include "support/support.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/system.h"
#include "grammar/answer_grammar.h"
#include "grammar/grammar_constraint.h"
#include "grammar/matcher.h"
#include "grammar/schema.h"
#include "text/tokenizer/tokenizer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_tokenizer *tokenizer; /* the default model's */
static size_t vocab;
static const char *const schemas[] = {
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"n\": {\"type\":"
    " \"integer\", \"maximum\": 77}, \"s\": {\"type\": \"string\", \"maxLength\": 40}},"
    " \"required\": [\"name\", \"n\"]}",
    "{\"type\": \"array\", \"items\": {\"anyOf\": [{\"enum\": [\"the\", \"they\", \"an\"]},"
    " {\"type\": \"number\"}, {\"$ref\": \"#\"}]}}",
    "{\"pattern\": \"^[a-z ]{3,12}\xc3\xa9?$\"}",
    "{}",
};

static int open_tokenizer(void **state) {
    (void)state;
    char *folder = test_format("%s/default", test_models_dir());
    mica_status status = mica_tokenizer_open(folder, &tokenizer);
    free(folder);
    if (status == MICA_OK) vocab = mica_tokenizer_vocab_size(tokenizer);
    return status != MICA_OK;
}

static int close_tokenizer(void **state) {
    (void)state;
    mica_tokenizer_close(&tokenizer);
    return 0;
}

static mc_grammar *compile(const char *schema) {
    mc_grammar *g;
    if (mc_schema_compile(schema, strlen(schema), &g) != MICA_OK) fail_msg("%s", mica_last_error());
    return g;
}

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* ---- masks against the definition ---- */

/* Whether text and the token's bytes may begin a document. */
static bool may_come(mc_grammar *g, const mc_buffer *text, int32_t id) {
    mc_buffer whole = {0};
    mc_str bytes;
    size_t prefix = 0;
    bool accepted;
    if (mica_tokenizer_is_special(tokenizer, id) ||
        !mc_decoder_bytes(&tokenizer->decoder, id, &bytes) || !bytes.len)
        return false;
    assert_true(mc_buffer_add(&whole, text->data, text->len) &&
                mc_buffer_add(&whole, bytes.ptr, bytes.len));
    assert_int_equal(mc_grammar_accepts(g, whole.data, whole.len, &accepted, &prefix), MICA_OK);
    bool may = prefix == whole.len;
    mc_buffer_deinit(&whole);
    return may;
}

/* A random token of the mask; -1: there is none. */
static int32_t draw(const uint32_t *allowed, uint64_t *seed) {
    size_t n = 0;
    for (size_t id = 0; id < vocab; id++)
        n += allowed[id / 32] >> id % 32 & 1;
    size_t at = n ? next_random(seed) % n : 0;
    for (size_t id = 0; n && id < vocab; id++)
        if (allowed[id / 32] >> id % 32 & 1 && at-- == 0) return (int32_t)id;
    return -1;
}

static void check_masks(mc_grammars *grammars, const char *schema, uint64_t seed) {
    uint32_t *allowed = malloc((vocab + 63) / 32 * sizeof *allowed);
    mc_grammar *g = compile(schema);
    mc_constraint *c;
    mc_buffer text = {0};
    assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
    for (int step = 0; step < 14; step++) {
        mc_token_mask mask = {.allowed = allowed, .vocab = vocab + 32}; /* more logits than ids */
        bool accepted;
        assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
        for (size_t i = 0; i < 300; i++) {
            size_t id = i < 32 ? vocab + i : next_random(&seed) % vocab;
            bool got = allowed[id / 32] >> id % 32 & 1;
            bool want = id < vocab && may_come(g, &text, (int32_t)id);
            if (got != want)
                fail_msg("%s: behind \"%.*s\" token %zu is %s", schema, (int)text.len, text.data,
                         id, got ? "allowed" : "not allowed");
        }
        assert_int_equal(
            mc_grammar_accepts(g, text.data ? text.data : "", text.len, &accepted, NULL), MICA_OK);
        assert_int_equal(mask.may_end, accepted);
        mc_str bytes;
        int32_t id = draw(allowed, &seed);
        if (id < 0) break;
        assert_true(mc_decoder_bytes(&tokenizer->decoder, id, &bytes));
        assert_true(mc_buffer_add(&text, bytes.ptr, bytes.len));
        assert_int_equal(c->ops->accept(c, id), MICA_OK);
    }
    mc_buffer_deinit(&text);
    mc_constraint_close(&c);
    mc_grammar_close(&g);
    free(allowed);
}

static void test_masks(void **state) {
    (void)state;
    mc_grammars *grammars;
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        for (uint64_t seed = 0; seed < 6; seed++)
            check_masks(grammars, schemas[i], seed);
    mc_grammars_close(&grammars);
}

/* ---- keeping, sharing, refusing ---- */

static void test_refused_tokens(void **state) {
    (void)state;
    mc_grammars *grammars;
    mc_constraint *c;
    mc_grammar *g = compile("{\"type\": \"object\"}");
    int32_t brace = mica_tokenizer_find(tokenizer, "{", 1);
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
    assert_int_equal(c->ops->accept(c, mica_tokenizer_find(tokenizer, "[", 1)), MICA_EINVAL);
    assert_int_equal(c->ops->accept(c, -1), MICA_EINVAL);
    assert_int_equal(c->ops->accept(c, 1 << 30), MICA_EINVAL);
    assert_int_equal(c->ops->accept(c, mica_tokenizer_eos(tokenizer)), MICA_EINVAL);
    assert_int_equal(c->ops->accept(c, brace), MICA_OK); /* the others have changed nothing */
    mc_grammar_close(&g);
    mc_grammars_close(&grammars); /* the constraint outlives both */
    assert_int_equal(c->ops->accept(c, mica_tokenizer_find(tokenizer, "}", 1)), MICA_OK);
    mc_constraint_close(&c);
}

/* What a matcher knows is forgotten when it grows too large; the answer goes on. */
static void test_forgetting(void **state) {
    (void)state;
    mc_grammar *g = compile("{\"pattern\": \"^(a|b)*a(a|b){18}$\"}");
    mc_matcher m;
    uint64_t seed = 5;
    size_t forgotten = 0, states = 0;
    assert_int_equal(mc_matcher_open(g, 0, &m), MICA_OK);
    for (int i = 0; i < 300000; i++) {
        int32_t next;
        char byte = i ? "ab"[next_random(&seed) % 2] : '"';
        mc_matcher_refill(&m);
        assert_int_equal(mc_matcher_step(&m, m.held, (uint8_t)byte, &next), MICA_OK);
        assert_true(next >= 0);
        m.held = next;
        assert_int_equal(mc_matcher_trim(&m), MICA_OK);
        size_t now = MC_BUFFER_COUNT(&m.states, mc_state);
        forgotten += now < states;
        states = now;
        assert_true(m.bytes < (64u << 20));
    }
    assert_true(forgotten > 0);
    mc_matcher_close(&m);
    mc_grammar_close(&g);
}

typedef struct shared {
    mc_grammars *grammars;
    mc_grammar *grammar;
    uint64_t seed;
} shared;

static void *answer(void *context) {
    const shared *s = context;
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    uint64_t seed = s->seed;
    for (int round = 0; round < 4; round++) {
        mc_constraint *c;
        if (mc_grammars_constrain(s->grammars, s->grammar, 0, &c) != MICA_OK) return NULL;
        for (int step = 0; step < 20; step++) {
            mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
            if (c->ops->mask(c, &mask) != MICA_OK) return NULL;
            int32_t id = draw(allowed, &seed);
            if (id < 0) break;
            if (c->ops->accept(c, id) != MICA_OK) return NULL;
        }
        mc_constraint_close(&c);
    }
    free(allowed);
    return context;
}

static void test_threads(void **state) {
    (void)state;
    enum { N = 4 };
    pthread_t threads[N];
    shared each[N] = {0};
    mc_grammars *grammars;
    mc_grammar *g = compile(schemas[1]);
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    for (int i = 0; i < N; i++) {
        each[i] = (shared){grammars, g, (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, answer, &each[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *done;
        pthread_join(threads[i], &done);
        assert_non_null(done);
    }
    mc_grammar_close(&g);
    mc_grammars_close(&grammars);
}

/* ---- grammars that are made to take long ---- */

static mc_grammar *compile_as(mica_constraint_kind kind, const char *text) {
    const mc_answer_format plain = {0};
    mc_grammar *g;
    if (mc_answer_grammar_document(kind, text, strlen(text), &plain, MC_THINKING_NONE, &g) !=
        MICA_OK)
        fail_msg("%.80s: %s", text, mica_last_error());
    return g;
}

/* Goes on behind the letter a, again and again, until a mask is refused. Returns how many masks
 * there were before that; `max`: none was refused. */
static size_t masks_before_refusal(mica_constraint_kind kind, const char *text, size_t max) {
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    const int32_t id = mica_tokenizer_find(tokenizer, "a", 1);
    mc_grammar *g = compile_as(kind, text);
    mc_grammars *grammars;
    mc_constraint *c;
    mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
    size_t n = 0;
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    mica_status status = mc_grammars_constrain(grammars, g, 0, &c);
    while (status == MICA_OK && n < max) {
        status = c->ops->mask(c, &mask);
        n += status == MICA_OK;
        if (status == MICA_OK) status = c->ops->accept(c, id);
    }
    if (n < max) {
        assert_int_equal(status, MICA_EUNSUPPORTED);
        assert_non_null(strstr(mica_last_error(), "too many steps"));
    }
    mc_constraint_close(&c);
    status = mc_grammars_check(grammars, g, 0);
    assert_int_equal(status, n ? MICA_OK : MICA_EUNSUPPORTED);
    mc_grammars_close(&grammars);
    mc_grammar_close(&g);
    free(allowed);
    return n;
}

/* Each of these took a second a mask, or many, with a vocabulary of 150,000 tokens, for which all
 * answers waited. They are refused before the answer begins, or at the place where they take long.
 * Grammars that are only large are not. */
static void test_hostile(void **state) {
    (void)state;
    uint64_t start = mc_now_us();
    mc_buffer text = {0};
    /* Thousands of ways to read a letter, and as many states as there are texts. */
    mc_buffer_add_text(&text, "root ::= d* [ae] d{19}\nr ::= [a-z ]\nd ::= r");
    for (int i = 0; i < 3000; i++)
        mc_buffer_add_text(&text, "|r");
    assert_int_equal(masks_before_refusal(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&text), 99), 0);
    mc_buffer_clear(&text);
    mc_buffer_add_text(&text, "root ::= \"aaaaa\" d* [ae] d{19}\nr ::= [a-z ]\nd ::= r");
    for (int i = 0; i < 3000; i++)
        mc_buffer_add_text(&text, "|r");
    size_t later = masks_before_refusal(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&text), 99);
    assert_in_range(later, 1, 6);
    static const char *const counts = "([a-z]{0,50}[a-z ]{0,50}|[a-f ]{0,40}x?){0,60}";
    assert_true(masks_before_refusal(MICA_CONSTRAINT_REGEX, counts, 99) < 99);
    mc_buffer_clear(&text);
    for (int i = 0; i < 600; i++)
        mc_buffer_printf(&text, "%s[a-z ]*%c%c[a-z ]*", i ? "|" : "", 'a' + i % 26, 'a' + i / 26);
    assert_true(masks_before_refusal(MICA_CONSTRAINT_REGEX, mc_buffer_cstr(&text), 99) < 99);
    printf("hostile grammars: %.0f ms\n", (double)(mc_now_us() - start) * 1e-3);
    assert_int_equal(masks_before_refusal(MICA_CONSTRAINT_REGEX, "[a-z ]{0,10000}", 999), 999);
    assert_int_equal(masks_before_refusal(MICA_CONSTRAINT_REGEX, "([a-z]{1,99} ){0,300}", 99), 99);
    mc_buffer_deinit(&text);
}

/* An answer of random tokens to a schema. Returns the bytes that are kept behind it. */
static size_t answer_schema(mc_grammars *grammars, const char *schema, size_t owner, uint64_t seed,
                            size_t *count) {
    shared s = {.grammars = grammars, .grammar = compile(schema), .seed = seed};
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    mc_constraint *c;
    assert_int_equal(mc_grammars_constrain(grammars, s.grammar, owner, &c), MICA_OK);
    for (int step = 0; step < 300; step++) {
        mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
        assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
        int32_t id = draw(allowed, &s.seed);
        if (id < 0) break;
        assert_int_equal(c->ops->accept(c, id), MICA_OK);
    }
    mc_constraint_close(&c);
    mc_grammar_close(&s.grammar);
    free(allowed);
    return mc_grammars_kept(grammars, count);
}

/* States are kept for the next answer of a grammar that is built alike, if it is of the same owner:
 * the same answer again makes none. */
static void test_kept(void **state) {
    (void)state;
    mc_grammars *grammars;
    size_t count;
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    size_t first = answer_schema(grammars, schemas[0], 1, 7, &count);
    assert_int_equal(count, 1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(answer_schema(grammars, schemas[0], 1, 7, &count), first);
        assert_int_equal(count, 1);
    }
    assert_true(answer_schema(grammars, schemas[0], 2, 7, &count) == 2 * first && count == 2);
    assert_true(answer_schema(grammars, schemas[2], 1, 7, &count) > 2 * first && count == 3);
    mc_grammars_close(&grammars);
}

/* Constraints that wait take no states, neither new ones nor those that are kept. */
static void test_waiting(void **state) {
    (void)state;
    enum { N = 128 };
    mc_grammars *grammars;
    mc_constraint *waiting[N];
    mc_grammar *g = compile_as(MICA_CONSTRAINT_REGEX, "([a-z]{0,9}[a-z ]{0,9}|[a-f ]{0,9}x?){0,9}");
    mc_token_mask mask = {.allowed = calloc(vocab / 32 + 1, sizeof(uint32_t)), .vocab = vocab};
    size_t count;
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    assert_int_equal(mc_grammars_check(grammars, g, 0), MICA_OK);
    size_t kept = mc_grammars_kept(grammars, &count);
    assert_int_equal(count, 1);
    mc_alloc_fail_at(0);
    for (int i = 0; i < N; i++)
        assert_int_equal(mc_grammars_constrain(grammars, g, 0, &waiting[i]), MICA_OK);
    assert_int_equal(mc_alloc_count(), N); /* the constraint itself */
    assert_true(mc_grammars_kept(grammars, &count) == kept && count == 1);
    mc_alloc_fail_at(0);
    assert_int_equal(waiting[N - 1]->ops->mask(waiting[N - 1], &mask), MICA_OK);
    assert_true(mc_alloc_count() < 4); /* the mask is known: the check has made it */
    mc_grammars_kept(grammars, &count);
    assert_int_equal(count, 0);
    for (int i = 0; i < N - 1; i++)
        mc_constraint_close(&waiting[i]);
    mc_grammars_kept(grammars, &count);
    assert_int_equal(count, 0);
    mc_constraint_close(&waiting[N - 1]);
    assert_true(mc_grammars_kept(grammars, &count) == kept && count == 1);
    mc_grammar_close(&g);
    mc_grammars_close(&grammars);
    free(mask.allowed);
}

/* However many grammars, and however large, what is kept of them is bounded: in their number, and
 * in bytes. */
static void test_kept_bound(void **state) {
    (void)state;
    mc_grammars *grammars;
    size_t limit = (4u << 20) + 256 * (vocab / 32 + 1) * sizeof(uint32_t);
    bool small_ones_go = false, large_ones_go = false;
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    for (int i = 0; i < 60; i++) {
        size_t count;
        char *schema =
            test_format(i < 20 ? "{\"const\": %d}" : "{\"pattern\": \"^[a-z]*a[a-z]{12}%d$\"}", i);
        size_t bytes = answer_schema(grammars, schema, 0, (uint64_t)i, &count);
        free(schema);
        assert_true(bytes <= limit && count <= 8);
        small_ones_go = small_ones_go || (i < 20 && count == 8);
        large_ones_go = large_ones_go || (i >= 30 && count < 8);
    }
    assert_true(small_ones_go && large_ones_go);
    mc_grammars_close(&grammars);
}

static bool constrain_once(void *context) {
    mc_grammars *grammars = NULL;
    mc_constraint *c = NULL;
    mc_grammar *g = context;
    static uint32_t allowed[1 << 14];
    mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
    bool done = mc_grammars_open(tokenizer, vocab, &grammars) == MICA_OK &&
                mc_grammars_check(grammars, g, 0) == MICA_OK &&
                mc_grammars_constrain(grammars, g, 0, &c) == MICA_OK &&
                c->ops->mask(c, &mask) == MICA_OK &&
                c->ops->accept(c, mica_tokenizer_find(tokenizer, "[", 1)) == MICA_OK &&
                c->ops->mask(c, &mask) == MICA_OK;
    mc_constraint_close(&c);
    mc_grammars_close(&grammars);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    mc_grammar *g = compile("{\"type\": \"array\", \"items\": {\"const\": 1}}");
    test_fail_each_allocation(constrain_once, g);
    mc_grammar_close(&g);
}

/* ---- times ---- */

static double mask_us(mc_constraint *c, uint32_t *allowed) {
    mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
    uint64_t start = mc_now_us();
    assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
    return (double)(mc_now_us() - start);
}

static int print_times(const char *folder) {
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"tags\":"
        " {\"type\": \"array\", \"items\": {\"type\": \"string\", \"maxLength\": 64}}, \"age\":"
        " {\"type\": \"integer\"}}, \"required\": [\"name\", \"tags\", \"age\"]}";
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"name\": \"",
                                        "{\"name\": \"A",
                                        "{\"name\": \"A\", \"tags\": [\"x",
                                        "{\"name\": \"A\",",
                                        "{\"name\": \"A\", \"tags\": [], \"age\": 1"};
    mc_grammars *grammars;
    mc_grammar *g = compile(schema);
    if (mica_tokenizer_open(folder, &tokenizer) != MICA_OK) return 1;
    vocab = mica_tokenizer_vocab_size(tokenizer);
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    assert_int_equal(mc_grammars_open(tokenizer, vocab, &grammars), MICA_OK);
    printf("%zu tokens\n", vocab);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mc_constraint *c;
        uint64_t start = mc_now_us();
        assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
        if (i == 0) printf("tree of the tokens: %.1f ms\n", (double)(mc_now_us() - start) / 1e3);
        for (const char *t = texts[i]; *t; t++) {
            int32_t id =
                mica_tokenizer_find(tokenizer, *t == ' ' ? "\xc4\xa0" : t, *t == ' ' ? 2 : 1);
            assert_int_equal(c->ops->accept(c, id), MICA_OK);
        }
        double cold = mask_us(c, allowed), warm = mask_us(c, allowed);
        printf("behind %-45s first %8.0f us, then %6.0f us\n", texts[i], cold, warm);
        mc_constraint_close(&c);
    }
    mc_grammar_close(&g);
    mc_grammars_close(&grammars);
    mica_tokenizer_close(&tokenizer);
    free(allowed);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),      cmocka_unit_test(test_refused_tokens),
        cmocka_unit_test(test_forgetting), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_bound), cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_no_memory),
    };
    if (argc == 3 && strcmp(argv[1], "time") == 0) return print_times(argv[2]);
    return cmocka_run_group_tests_name("grammar/constraint", tests, open_tokenizer,
                                       close_tokenizer);
}
