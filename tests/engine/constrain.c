/* Answers with constraints, by the public functions alone: what comes is read by a JSON parser, by
 * POSIX's regular expressions and by comparison, none of which knows the grammars. */
#include "base/json.h"
#include "engine/default_model.h"
#include "engine/parrot.h"
#include "support/info.h"

#include <mica/mica.h>

#include <regex.h>
#include <string.h>

#define PERSON                                                                      \
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", "     \
    "\"maxLength\": 12}, \"age\": {\"type\": \"integer\", \"minimum\": 0, "         \
    "\"maximum\": 150}, \"tool\": {\"enum\": [\"vim\", \"curl\"]}}, \"required\": " \
    "[\"name\", \"age\", \"tool\"]}"
#define PLATE "[A-Z]{2}-[0-9]{1,3}"
#define CHOICES "[\"nginx\", \"a+(b)\", \"C.\\n\", \"Z\\u00fcrich\"]"

static const char question[] = "What is nginx?";

typedef struct answer {
    char text[4096];
    int32_t ids[512];
    float logprobs[512];
    size_t count;
    mica_finish finish;
    mica_status status;
    mica_metrics metrics;
} answer;

static void take(mica_stream **stream, answer *a) {
    size_t len = 0;
    a->count = 0;
    for (mica_token t; mica_stream_next(*stream, &t);) {
        assert_true(len + t.len < sizeof a->text && a->count < 512);
        memcpy(a->text + len, t.text, t.len);
        len += t.len;
        if (t.id < 0) continue;
        a->logprobs[a->count] = t.logprob;
        a->ids[a->count++] = t.id;
    }
    a->text[len] = '\0';
    a->finish = mica_stream_finish(*stream);
    a->status = mica_stream_status(*stream);
    a->metrics = test_metrics(*stream);
    mica_stream_close(stream);
}

/* The answer to a raw prompt, in a session of its own with a draft model, or with NULL. */
static void generate_with(const mica_model *model, const mica_model *draft,
                          const mica_generate_options *options, answer *a) {
    const mica_session_options with = {.draft_model = draft};
    mica_session *session;
    mica_stream *stream;
    assert_int_equal(mica_session_open(model, &with, &session), MICA_OK);
    if (mica_generate(session, question, 0, options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    take(&stream, a);
    mica_session_close(&session);
    assert_int_equal(a->status, MICA_OK);
}

static void generate(const mica_generate_options *options, answer *a) {
    generate_with(pebble, NULL, options, a);
}

/* ---- documents ---- */

static bool is_person(const char *text) {
    mc_json_doc *doc;
    mc_str name, tool;
    int64_t age;
    if (mc_json_parse(text, strlen(text), "an answer", &doc) != MICA_OK) return false;
    mc_json root = mc_json_root(doc);
    bool good = mc_json_count(root) == 3 && mc_json_get_str(mc_json_find(root, "name"), &name) &&
                name.len <= 12 * 4 && mc_json_get_int(mc_json_find(root, "age"), &age) &&
                age >= 0 && age <= 150 && mc_json_get_str(mc_json_find(root, "tool"), &tool) &&
                (mc_str_is(tool, "vim") || mc_str_is(tool, "curl"));
    mc_json_close(&doc);
    return good;
}

static bool is_object(const char *text) {
    mc_json_doc *doc;
    if (mc_json_parse(text, strlen(text), "an answer", &doc) != MICA_OK) return false;
    bool good = mc_json_get_type(mc_json_root(doc)) == MC_JSON_OBJECT;
    mc_json_close(&doc);
    return good;
}

static bool matches(const char *pattern, const char *text) {
    regex_t regex;
    char *whole = test_format("^(%s)$", pattern);
    assert_int_equal(regcomp(&regex, whole, REG_EXTENDED | REG_NOSUB), 0);
    bool good = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    free(whole);
    return good;
}

static bool is_plate(const char *text) {
    return matches(PLATE, text);
}

static bool is_choice(const char *text) {
    static const char *const texts[] = {"nginx", "a+(b)", "C.\n", "Z\xc3\xbcrich"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i], text) == 0) return true;
    return false;
}

static bool is_sum(const char *text) {
    return matches("[0-9](\\+[0-9]){1,4}", text);
}

/* One constraint of each kind, and what its documents are. */
static const struct {
    mica_constraint_kind kind;
    const char *text;
    bool (*holds)(const char *text);
} rows[] = {
    {MICA_CONSTRAINT_JSON_OBJECT, NULL, is_object},
    {MICA_CONSTRAINT_JSON_SCHEMA, PERSON, is_person},
    {MICA_CONSTRAINT_REGEX, PLATE, is_plate},
    {MICA_CONSTRAINT_CHOICE, CHOICES, is_choice},
    {MICA_CONSTRAINT_GRAMMAR, "root ::= d (\"+\" d){1,4}\nd ::= [0-9]", is_sum},
    {MICA_CONSTRAINT_GRAMMAR, "start: D (\"+\" D)~1..4\nD: \"0\"..\"9\"", is_sum},
    {MICA_CONSTRAINT_GBNF, "root ::= d (\"+\" d){1,4}\nd ::= [0-9]", is_sum},
    {MICA_CONSTRAINT_LARK, "start: D (\"+\" D)~1..4\nD: \"0\"..\"9\"", is_sum},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Every answer that ends by itself is a document; seed 0 is greedy. */
static void test_documents(void **state) {
    (void)state;
    answer a;
    for (size_t i = 0; i < ROWS; i++) {
        size_t ended = 0;
        for (uint64_t seed = 0; seed < 12; seed++) {
            generate(&(mica_generate_options){.max_tokens = 200,
                                              .temperature = seed ? 1.5f : 0.0f,
                                              .seed = seed,
                                              .constraint = rows[i].kind,
                                              .constraint_text = rows[i].text},
                     &a);
            if (a.finish != MICA_FINISH_STOP) continue;
            ended++;
            if (!rows[i].holds(a.text)) fail_msg("constraint %zu: %s", i, a.text);
        }
        assert_true(ended >= (rows[i].kind == MICA_CONSTRAINT_JSON_OBJECT ? 1 : 11));
    }
}

/* An answer that max_tokens cuts is the beginning of the whole one. */
static void test_cut(void **state) {
    (void)state;
    answer whole, cut;
    mica_generate_options options = {
        .max_tokens = 200, .constraint = MICA_CONSTRAINT_JSON_SCHEMA, .constraint_text = PERSON};
    generate(&options, &whole);
    assert_int_equal(whole.finish, MICA_FINISH_STOP);
    options.max_tokens = 5;
    generate(&options, &cut);
    assert_int_equal(cut.finish, MICA_FINISH_LENGTH);
    assert_int_equal(cut.count, 5);
    assert_memory_equal(cut.ids, whole.ids, 5 * sizeof *cut.ids);
    assert_false(is_person(cut.text));
}

/* ---- beside other options ---- */

/* Neither a minimum nor the lack of stop ids makes a whole document longer; a stop string makes it
 * shorter. */
static void test_ends(void **state) {
    (void)state;
    static const char *const stops[] = {"gin"};
    const mica_generate_options all[] = {{.max_tokens = 50, .min_tokens = 40},
                                         {.max_tokens = 50, .ignore_eos = true},
                                         {.stop_strings = stops, .stop_string_count = 1}};
    answer a;
    for (size_t i = 0; i < 3; i++) {
        mica_generate_options options = all[i];
        options.constraint = MICA_CONSTRAINT_CHOICE;
        options.constraint_text = "[\"nginx\"]";
        generate(&options, &a);
        assert_int_equal(a.finish, MICA_FINISH_STOP);
        assert_string_equal(a.text, i < 2 ? "nginx" : "n");
    }
    /* Where more may come, a minimum is kept. */
    generate(&(mica_generate_options){.max_tokens = 20,
                                      .min_tokens = 12,
                                      .constraint = MICA_CONSTRAINT_REGEX,
                                      .constraint_text = "[a-z]+"},
             &a);
    assert_true(a.count >= 12 && matches("[a-z]+", a.text));
}

/* Log-probabilities are of the logits that the model has without a constraint. */
static void test_logprobs(void **state) {
    (void)state;
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    answer a;
    bool found = false;
    generate(&(mica_generate_options){.max_tokens = 1,
                                      .logprobs = true,
                                      .constraint = MICA_CONSTRAINT_REGEX,
                                      .constraint_text = "[0-9]+"},
             &a);
    assert_int_equal(mica_session_open(pebble, NULL, &session), MICA_OK);
    assert_int_equal(mica_generate(session, question, 0,
                                   &(mica_generate_options){.max_tokens = 1, .top_logprobs = 4096},
                                   &stream),
                     MICA_OK);
    assert_true(mica_stream_next(stream, &token));
    assert_int_not_equal(token.id, a.ids[0]);
    for (size_t i = 0; i < token.alternative_count; i++) {
        if (token.alternatives[i].id != a.ids[0]) continue;
        found = true;
        assert_memory_equal(&token.alternatives[i].logprob, &a.logprobs[0], sizeof(float));
    }
    assert_true(found);
    mica_stream_close(&stream);
    mica_session_close(&session);
}

static void expect_same(const answer *a, const answer *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
    assert_memory_equal(a->logprobs, b->logprobs, a->count * sizeof *a->logprobs);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->finish, b->finish);
}

#define LINES                                                             \
    "{\"type\": \"array\", \"minItems\": 8, \"maxItems\": 8, \"items\": " \
    "{\"enum\": [\"curl is a command line tool\"]}}"

/* Drafts change no bit, and some of them are right. */
static void test_drafts(void **state) {
    (void)state;
    mica_generate_options options = {
        .constraint = MICA_CONSTRAINT_JSON_SCHEMA, .constraint_text = LINES, .logprobs = true};
    static answer plain, drafted;
    generate(&options, &plain);
    options.draft_tokens = 7;
    generate(&options, &drafted);
    assert_true(drafted.metrics.accepted_tokens > 0);
    expect_same(&drafted, &plain);
}

/* Nor do those of a draft model, which knows nothing of the constraint. */
static void test_draft_model(void **state) {
    (void)state;
    static answer plain, drafted;
    mica_model *draft;
    int64_t accepted = 0;
    assert_int_equal(mica_model_open(default_path, &(mica_model_options){.threads = 2}, &draft),
                     MICA_OK);
    for (size_t i = 0; i < ROWS; i++) {
        const mica_generate_options options = {.max_tokens = 40,
                                               .temperature = i % 2 ? 1.0f : 0.0f,
                                               .seed = i,
                                               .constraint = rows[i].kind,
                                               .constraint_text = rows[i].text,
                                               .logprobs = true};
        generate(&options, &plain);
        generate_with(pebble, draft, &options, &drafted);
        accepted += drafted.metrics.accepted_tokens;
        expect_same(&drafted, &plain);
    }
    assert_true(accepted > 0);
    mica_model_close(&draft);
}

/* A context that slides forgets the document's beginning; the constraint does not. */
static void test_sliding_context(void **state) {
    (void)state;
    enum { CONTEXT = 16 };
    static answer plain, drafted;
    mica_model *model;
    mc_json_doc *doc;
    mica_generate_options options = {
        .constraint = MICA_CONSTRAINT_JSON_SCHEMA, .constraint_text = LINES, .logprobs = true};
    assert_int_equal(mica_model_open(default_path,
                                     &(mica_model_options){.threads = 2, .context_length = CONTEXT},
                                     &model),
                     MICA_OK);
    generate_with(model, NULL, &options, &plain);
    assert_int_equal(plain.finish, MICA_FINISH_STOP);
    assert_true(plain.metrics.forgotten_tokens > CONTEXT);
    assert_int_equal(mc_json_parse(plain.text, strlen(plain.text), "an answer", &doc), MICA_OK);
    assert_int_equal(mc_json_count(mc_json_root(doc)), 8);
    mc_json_close(&doc);
    options.draft_tokens = 7;
    generate_with(model, NULL, &options, &drafted);
    expect_same(&drafted, &plain);
    mica_model_close(&model);
}

/* ---- conversations and batches ---- */

static void chat(mica_session *session, const mica_message *messages, size_t count,
                 const mica_generate_options *options, answer *a) {
    mica_stream *stream;
    if (mica_chat(session, messages, count, options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    take(&stream, a);
    assert_int_equal(a->status, MICA_OK);
}

/* Each answer of a session has a constraint of its own, or none. */
static void test_second_turn(void **state) {
    (void)state;
    mica_session *session, *fresh;
    mica_message messages[5] = {{.role = "user", .content = question},
                                {.role = "assistant", .content = NULL},
                                {.role = "user", .content = "And curl?"},
                                {.role = "assistant", .content = NULL},
                                {.role = "user", .content = "What is curl?"}};
    const mica_generate_options first = {.max_tokens = 200,
                                         .constraint = MICA_CONSTRAINT_JSON_SCHEMA,
                                         .constraint_text = PERSON},
                                second = {.max_tokens = 200,
                                          .constraint = MICA_CONSTRAINT_REGEX,
                                          .constraint_text = PLATE},
                                third = {.max_tokens = 8};
    static answer a, b, c, alone;
    assert_int_equal(mica_session_open(pebble, NULL, &session), MICA_OK);
    chat(session, messages, 1, &first, &a);
    assert_true(a.finish == MICA_FINISH_STOP && is_person(a.text));
    messages[1].content = a.text;
    chat(session, messages, 3, &second, &b);
    assert_true(b.finish == MICA_FINISH_STOP && is_plate(b.text));
    messages[3].content = b.text;
    chat(session, messages, 5, &third, &c);
    assert_int_equal(mica_session_open(pebble, NULL, &fresh), MICA_OK);
    chat(fresh, messages, 5, &third, &alone);
    assert_string_equal(c.text, alone.text);
    mica_session_close(&fresh);
    mica_session_close(&session);
}

/* The rows of a batch have what they have alone. */
static void test_batch(void **state) {
    (void)state;
    static answer alone[ROWS + 1];
    mica_generate_options options[ROWS + 2] = {{0}};
    mica_batch_item items[ROWS + 2];
    mica_batch_results *results;
    for (size_t i = 0; i < ROWS + 2; i++) {
        options[i] = (mica_generate_options){.max_tokens = 40, .temperature = 1.0f, .seed = i};
        if (i < ROWS) {
            options[i].constraint = rows[i].kind;
            options[i].constraint_text = rows[i].text;
        }
        if (i <= ROWS) generate(&options[i], &alone[i]);
        items[i] = (mica_batch_item){.prompt = question, .options = &options[i]};
    }
    options[ROWS + 1].constraint = MICA_CONSTRAINT_REGEX;
    options[ROWS + 1].constraint_text = "(";
    assert_int_equal(mica_batch_generate(pebble, items, ROWS + 2,
                                         &(mica_batch_options){.parallel = 3}, &results),
                     MICA_OK);
    for (size_t i = 0; i <= ROWS; i++) {
        const mica_batch_row *row = &results->rows[i];
        assert_int_equal(row->status, MICA_OK);
        assert_string_equal(row->text, alone[i].text);
        assert_int_equal(row->count, alone[i].count);
        assert_memory_equal(row->ids, alone[i].ids, row->count * sizeof *row->ids);
        assert_int_equal(row->finish, alone[i].finish);
    }
    assert_int_equal(results->rows[ROWS + 1].status, MICA_EFORMAT);
    assert_non_null(strstr(results->rows[ROWS + 1].error, "constraint: "));
    mica_batch_free(&results);
}

/* ---- thoughts ---- */

/* A template whose answers may begin with a thought; with the variable `open` they do. */
#define THINKING                                                                       \
    "{{ bos_token }}{{ messages[0]['content'] }}{% if enable_thinking is defined and " \
    "not enable_thinking %}<think>\n</think>{% endif %}{% if open %}<think>\n{% endif %}"

static mica_model *open_thinking(void) {
    mica_model *model;
    const mica_model_options options = {
        .threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT, .chat_template = THINKING};
    if (mica_model_open(default_path, &options, &model) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return model;
}

static void test_thoughts(void **state) {
    (void)state;
    mica_model *model = open_thinking();
    mica_session *session;
    mica_stream *stream;
    const mica_message message = {.role = "user", .content = question};
    answer free, bound;
    int32_t *mark;
    size_t n;
    mica_generate_options options = {.max_tokens = 24,
                                     .constraint = MICA_CONSTRAINT_CHOICE,
                                     .constraint_text = "[\"nginx\", \"vim\"]"};
    assert_int_equal(
        mica_tokenizer_encode(mica_model_tokenizer(model), "<think>", 7, false, &mark, &n),
        MICA_OK);
    const mica_logit_bias likely = {mark[0], 100.0f}; /* the model wants to think */
    assert_int_equal(mica_session_open(model, NULL, &session), MICA_OK);
    chat(session, &message, 1, &options, &bound);
    assert_true(strcmp(bound.text, "nginx") == 0 || strcmp(bound.text, "vim") == 0);
    options.logit_bias = &likely;
    options.logit_bias_count = 1;
    chat(session, &message, 1, &options, &bound); /* thoughts may come first */
    assert_memory_equal(bound.text, "<think>", 7);
    assert_int_equal(bound.finish, MICA_FINISH_LENGTH);
    options.template_variables = "{\"enable_thinking\": false}";
    chat(session, &message, 1, &options, &bound); /* not any more */
    assert_true(strcmp(bound.text, "nginx") == 0 || strcmp(bound.text, "vim") == 0);
    options.template_variables = NULL;
    assert_int_equal(mica_generate(session, question, 0, &options, &stream), MICA_OK);
    take(&stream, &bound); /* a raw text has none */
    assert_true(strcmp(bound.text, "nginx") == 0 || strcmp(bound.text, "vim") == 0);
    mica_free(mark);
    /* A thought that the prompt has begun goes on as it would without a constraint. */
    options = (mica_generate_options){.max_tokens = 24, .template_variables = "{\"open\": true}"};
    chat(session, &message, 1, &options, &free);
    assert_null(strstr(free.text, "</think>"));
    options.constraint = MICA_CONSTRAINT_JSON_SCHEMA;
    options.constraint_text = PERSON;
    chat(session, &message, 1, &options, &bound);
    assert_string_equal(bound.text, free.text);
    mica_session_close(&session);
    mica_model_close(&model);
}

/* ---- errors ---- */

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        int kind;
        const char *text;
        mica_status status;
        const char *words;
    } cases[] = {
        {-1, NULL, MICA_EINVAL, "constraint -1"},
        {MICA_CONSTRAINT_LARK + 1, "", MICA_EINVAL, "constraint 8"},
        {MICA_CONSTRAINT_NONE, "a", MICA_EINVAL, "constraint_text is given"},
        {MICA_CONSTRAINT_JSON_OBJECT, "{}", MICA_EINVAL, "constraint_text is given"},
        {MICA_CONSTRAINT_REGEX, NULL, MICA_EINVAL, "constraint_text is NULL"},
        {MICA_CONSTRAINT_JSON_SCHEMA, "{\"type\": ", MICA_EFORMAT, "constraint: schema"},
        {MICA_CONSTRAINT_JSON_SCHEMA, "{\"properties\": {\"a\": {\"$dynamicRef\": \"#\"}}}",
         MICA_EUNSUPPORTED, "constraint: schema/properties/a/$dynamicRef: not supported"},
        {MICA_CONSTRAINT_JSON_SCHEMA, "false", MICA_EINVAL, "constraint: "},
        {MICA_CONSTRAINT_REGEX, "(", MICA_EFORMAT, "constraint: "},
        {MICA_CONSTRAINT_REGEX, "(a)\\1", MICA_EUNSUPPORTED, "constraint: "},
        {MICA_CONSTRAINT_REGEX, "([a-z]{0,50}[a-z ]{0,50}|[a-f ]{0,40}x?){0,60}", MICA_EUNSUPPORTED,
         "constraint: the grammar takes too many steps"},
        {MICA_CONSTRAINT_CHOICE, "[]", MICA_EINVAL, "constraint: choice"},
        {MICA_CONSTRAINT_CHOICE, "[\"a\", \"\"]", MICA_EINVAL, "constraint: choice"},
        {MICA_CONSTRAINT_CHOICE, "[1]", MICA_EINVAL, "constraint: choice"},
        {MICA_CONSTRAINT_CHOICE, "{\"a\": \"b\"}", MICA_EINVAL, "constraint: choice"},
        {MICA_CONSTRAINT_CHOICE, "a, b", MICA_EFORMAT, "constraint: choice"},
        {MICA_CONSTRAINT_GBNF, "root ::= missing", MICA_EFORMAT, "line 1"},
        {MICA_CONSTRAINT_GBNF, "start: \"a\"", MICA_EFORMAT, "line 1"},
        {MICA_CONSTRAINT_LARK, "root ::= \"a\"", MICA_EFORMAT, "line 1"},
        {MICA_CONSTRAINT_GRAMMAR, "a", MICA_EFORMAT, "line 1"},
    };
    mica_session *session;
    mica_stream *stream;
    assert_int_equal(mica_session_open(pebble, NULL, &session), MICA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mica_generate_options options = {.constraint = (mica_constraint_kind)cases[i].kind,
                                               .constraint_text = cases[i].text};
        mica_status status = mica_generate(session, question, 0, &options, &stream);
        assert_null(stream);
        if (status != cases[i].status || !strstr(mica_last_error(), cases[i].words))
            fail_msg("case %zu: %s: %s", i, mica_status_name(status), mica_last_error());
    }
    mica_session_close(&session);
}

/* An engine that computes elsewhere has no constraints, and says which has. */
static void test_other_engines(void **state) {
    (void)state;
    parrot p = {0};
    const mica_engine engine = parrot_engine("parrot", &p);
    mica_model *model;
    mica_session *session;
    mica_stream *stream;
    mica_batch_results *results;
    const mica_generate_options options = {.max_tokens = 1,
                                           .constraint = MICA_CONSTRAINT_JSON_OBJECT};
    const mica_batch_item item = {.prompt = question, .options = &options};
    assert_int_equal(mica_engine_register(&engine), MICA_OK);
    assert_int_equal(
        mica_model_open(default_path, &(mica_model_options){.engine = "parrot"}, &model), MICA_OK);
    assert_int_equal(mica_session_open(model, NULL, &session), MICA_OK);
    assert_int_equal(mica_generate(session, question, 0, &options, &stream), MICA_EUNSUPPORTED);
    assert_string_equal(mica_last_error(), "constraint: the engine \"parrot\" has none; the engine "
                                           "native has them");
    assert_int_equal(mica_batch_generate(model, &item, 1, NULL, &results), MICA_OK);
    assert_int_equal(results->rows[0].status, MICA_EUNSUPPORTED);
    mica_batch_free(&results);
    mica_session_close(&session);
    mica_model_close(&model);
    assert_int_equal(mica_engine_unregister("parrot"), MICA_OK);
}

/* ---- memory ---- */

static bool answer_once(void *arg) {
    const mica_model *model = arg;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_batch_results *results = NULL;
    mica_token token;
    const mica_generate_options options = {.max_tokens = 4,
                                           .constraint = MICA_CONSTRAINT_JSON_SCHEMA,
                                           .constraint_text = "{\"enum\": [\"a\", 12]}"};
    const mica_batch_item item = {.prompt = "The old", .options = &options};
    test_forget_plans(mica_model_device(model));
    mica_status status = mica_session_open(model, NULL, &session);
    if (status == MICA_OK) status = mica_generate(session, "The old", 0, &options, &stream);
    if (status == MICA_OK) {
        while (mica_stream_next(stream, &token)) {}
        status = mica_stream_status(stream);
    }
    if (status == MICA_OK) status = mica_batch_generate(model, &item, 1, NULL, &results);
    if (status == MICA_OK) status = results->rows[0].status;
    mica_batch_free(&results);
    mica_stream_close(&stream);
    mica_session_close(&session);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    mica_model *model;
    char *path = test_format("%s/models/gemma3_text_f32", test_cases_dir());
    assert_int_equal(mica_model_open(path, &(mica_model_options){.threads = 1}, &model), MICA_OK);
    test_fail_each_allocation(answer_once, model);
    mica_model_close(&model);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_draft_model),
        cmocka_unit_test(test_sliding_context),
        cmocka_unit_test(test_second_turn),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_thoughts),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_other_engines),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("engine/constrain", tests, open_default, close_default);
}
