/* Chats whose answers have a form: calls of tools, documents of a schema, thoughts apart. The model
 * knows nothing of these, so what keeps to them does so because it is made to. */
#include "reading.h"

#include "serve/jobs/answer_form.h"

#include <stdlib.h>
#include <string.h>

#define CHAT "/v1/chat/completions"
#define HELLO "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"
#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": "  \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 6}, " \
    "\"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9}}, \"required\": "           \
    "[\"city\", \"days\"], \"additionalProperties\": false}}}, {\"type\": \"function\", "          \
    "\"function\": {\"name\": \"stop\", \"parameters\": {\"type\": \"object\", \"properties\": "   \
    "{}}}}]"
#define NAMED "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"weather\"}}"
#define SCHEMA                                                                                    \
    "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", "        \
    "\"schema\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\", "         \
    "\"minimum\": 3, \"maximum\": 5}, \"b\": {\"enum\": [\"x\", \"y\"]}}, \"required\": [\"a\", " \
    "\"b\"], \"additionalProperties\": false}}}"

/* A server whose chat template is this one; NULL: the model's own. */
static served open_with(const char *chat_template) {
    served s = {0};
    char *path = test_format("%s/default", test_models_dir());
    mica_model_options options = {.threads = 2, .chat_template = chat_template};
    assert_int_equal(mica_model_open(path, &options, &s.model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, NULL), MICA_OK);
    free(path);
    return s;
}

static served plain;

static int open_plain(void **state) {
    (void)state;
    plain = open_with(NULL);
    return 0;
}

static int close_plain(void **state) {
    (void)state;
    served_close(&plain);
    return 0;
}

static mc_str text_of(mc_json value) {
    mc_str text = MC_STR("");
    mc_json_get_str(value, &text);
    return text;
}

/* The arguments of a call of `weather` keep to its schema. */
static void check_call(mc_json call) {
    mc_json function = mc_json_find(call, "function");
    mc_str arguments = text_of(mc_json_find(function, "arguments"));
    assert_true(mc_str_is(text_of(mc_json_find(call, "type")), "function"));
    assert_true(mc_str_starts(text_of(mc_json_find(call, "id")), MC_STR("call-")));
    assert_true(mc_str_is(text_of(mc_json_find(function, "name")), "weather"));
    mc_json_doc *doc;
    int64_t days;
    mc_str city;
    assert_int_equal(mc_json_parse(arguments.ptr, arguments.len, "arguments", &doc), MICA_OK);
    mc_json root = mc_json_root(doc);
    assert_int_equal(mc_json_count(root), 2);
    assert_true(mc_json_get_int(mc_json_find(root, "days"), &days) && days >= 1 && days <= 9);
    assert_true(mc_json_get_str(mc_json_find(root, "city"), &city));
    mc_json_close(&doc);
}

static void test_calls(void **state) {
    (void)state;
    const served s = plain;
    for (int seed = 0; seed < 4; seed++) {
        char *body = test_format("{" HELLO ", " TOOLS ", " NAMED ", \"seed\": %d, \"temperature\": "
                                 "2, \"max_tokens\": 300}",
                                 seed);
        mc_json_doc *doc = client_json(s.server, "POST", CHAT, body, 200);
        mc_json choice = element(mc_json_find(mc_json_root(doc), "choices"), 0);
        mc_json message = mc_json_find(choice, "message");
        mc_json calls = mc_json_find(message, "tool_calls");
        assert_true(mc_str_is(text_of(mc_json_find(choice, "finish_reason")), "tool_calls"));
        assert_int_equal(mc_json_get_type(mc_json_find(message, "content")), MC_JSON_NULL);
        assert_int_equal(mc_json_count(calls), 1);
        check_call(element(calls, 0));
        mc_json_close(&doc);
        free(body);
    }
}

/* Reads the deltas of a stream's only call: the first one has all but the arguments, the others
 * these. Returns how many there are. */
static size_t read_deltas(const char *body, mc_buffer *arguments, bool *ended) {
    size_t count = 0;
    for (const char *at = strstr(body, "data: {"); at; at = strstr(at + 1, "data: {")) {
        mc_json_doc *doc;
        size_t len = strcspn(at + 6, "\n");
        assert_int_equal(mc_json_parse(at + 6, len, "event", &doc), MICA_OK);
        mc_json choice = element(mc_json_find(mc_json_root(doc), "choices"), 0);
        mc_json list = mc_json_find(mc_json_find(choice, "delta"), "tool_calls");
        for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); count++) {
            mc_json function = mc_json_find(it.value, "function");
            mc_str more = text_of(mc_json_find(function, "arguments"));
            assert_int_equal(int_at(it.value, "index"), 0);
            assert_int_equal(mc_json_exists(mc_json_find(it.value, "id")), !count);
            assert_int_equal(mc_json_exists(mc_json_find(function, "name")), !count);
            assert_int_equal(more.len > 0, count > 0);
            assert_true(mc_buffer_add(arguments, more.ptr, more.len));
        }
        if (mc_str_is(text_of(mc_json_find(choice, "finish_reason")), "tool_calls")) *ended = true;
        mc_json_close(&doc);
    }
    return count;
}

/* Streamed, the arguments come piece by piece, and are those of the same answer that is whole. */
static void test_streamed_call(void **state) {
    (void)state;
    const served s = plain;
    answer a = client_ask(s.server, "POST", CHAT,
                          "{" HELLO ", " TOOLS ", " NAMED ", \"stream\": true, \"seed\": 1}");
    mc_json_doc *doc =
        client_json(s.server, "POST", CHAT, "{" HELLO ", " TOOLS ", " NAMED ", \"seed\": 1}", 200);
    assert_int_equal(a.status, 200);
    mc_json call = at(mc_json_root(doc), "choices.0.message.tool_calls.0");
    mc_buffer arguments = {0};
    bool ended = false;
    size_t count = read_deltas(a.body, &arguments, &ended);
    check_call(call);
    assert_true(count > 3 && ended);
    assert_true(
        mc_str_eq((mc_str){arguments.data, arguments.len}, text_at(call, "function.arguments")));
    mc_buffer_deinit(&arguments);
    mc_json_close(&doc);
    answer_free(&a);
}

static void test_documents(void **state) {
    (void)state;
    const served s = plain;
    mc_json_doc *doc = client_json(s.server, "POST", CHAT,
                                   "{" HELLO ", " SCHEMA ", \"n\": 8, \"temperature\": 3}", 200);
    mc_json choices = mc_json_find(mc_json_root(doc), "choices");
    for (size_t i = 0; i < 8; i++) {
        mc_json message = mc_json_find(element(choices, i), "message");
        mc_str text = text_of(mc_json_find(message, "content")), b;
        mc_json_doc *said;
        int64_t a;
        if (mc_json_parse(text.ptr, text.len, "answer", &said) != MICA_OK)
            fail_msg("%.*s", MC_STR_ARG(text));
        mc_json root = mc_json_root(said);
        assert_true(mc_json_get_int(mc_json_find(root, "a"), &a) && a >= 3 && a <= 5);
        assert_true(mc_json_get_str(mc_json_find(root, "b"), &b));
        assert_true(mc_str_is(b, "x") || mc_str_is(b, "y"));
        mc_json_close(&said);
    }
    mc_json_close(&doc);
}

/* Its prompts begin a thought. */
static const char thinker[] = "{% for m in messages %}{{ m.content }}{% if '</think>' in m.content "
                              "%}!{% endif %}{% endfor %}{% if add_generation_prompt %}<think>\n"
                              "{% endif %}";

/* A prompt that ends within a thought: what comes is thought, for the model never ends it. */
static void test_thoughts(void **state) {
    (void)state;
    served s = open_with(thinker);
    for (int stream = 0; stream < 2; stream++) {
        char *body = test_format("{" HELLO ", \"temperature\": 0, \"max_tokens\": 6, "
                                 "\"stream\": %s}",
                                 stream ? "true" : "false");
        answer a = client_ask(s.server, "POST", CHAT, body);
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.body, "\"reasoning_content\":\""));
        if (!stream) assert_non_null(strstr(a.body, "\"content\":\"\""));
        answer_free(&a);
        free(body);
    }
    served_close(&s);
}

/* ---- thoughts with an end ---- */

/* What was thought, and said, of 30 tokens; and how many are of thoughts. */
static void think(const served *s, const char *fields, size_t *thought, size_t *said,
                  int64_t *tokens) {
    char *body = test_format("{" HELLO ", \"temperature\": 0, \"max_tokens\": 30, \"ignore_eos\": "
                             "true%s%s}",
                             *fields ? ", " : "", fields);
    mc_json_doc *doc = client_json(s->server, "POST", CHAT, body, 200);
    mc_json message = at(mc_json_root(doc), "choices.0.message");
    *thought = text_of(mc_json_find(message, "reasoning_content")).len;
    *said = text_of(mc_json_find(message, "content")).len;
    *tokens = int_at(mc_json_root(doc), "usage.completion_tokens_details.reasoning_tokens");
    mc_json_close(&doc);
    free(body);
}

/* At the budget the thought ends, and the answer follows. */
static void test_budgets(void **state) {
    (void)state;
    static const char *const fields[] = {"\"thinking_token_budget\": 6",
                                         "\"reasoning_budget_tokens\": 6",
                                         "\"reasoning\": {\"max_tokens\": 6}"};
    served s = open_with(thinker);
    size_t all, thought, said, none;
    int64_t tokens;
    think(&s, "", &all, &said, &tokens);
    assert_true(all > 30 && said == 0); /* the model ends no thought by itself */
    assert_int_equal(tokens, 30);
    think(&s, "\"thinking_token_budget\": -1", &thought, &said, &tokens);
    assert_int_equal(thought, all);
    for (size_t i = 0; i < 3; i++) {
        think(&s, fields[i], &thought, &said, &tokens);
        assert_true(thought > 0 && thought < all / 2 && said > 10);
        assert_true(tokens > 6 && tokens < 20); /* with those of the mark that ends it */
    }
    think(&s, "\"thinking_token_budget\": 0", &none, &said, &tokens);
    assert_true(none < thought && said > 10);
    think(&s, "\"reasoning_effort\": \"low\"", &thought, &said, &tokens); /* 1024 tokens */
    assert_int_equal(thought, all);
    mc_json_doc *both = client_json(s.server, "POST", CHAT,
                                    "{" HELLO ", " SCHEMA ", \"thinking_token_budget\": 6}", 200);
    mc_json message = at(mc_json_root(both), "choices.0.message");
    mc_str document = text_of(mc_json_find(message, "content"));
    assert_true(text_of(mc_json_find(message, "reasoning_content")).len > 0);
    assert_true(mc_str_starts(document, MC_STR("{")) && mc_str_ends(document, MC_STR("}")));
    mc_json_close(&both);
    char *body = test_format("{\"input\": \"What is curl?\", \"temperature\": 0, "
                             "\"max_output_tokens\": 30, \"reasoning\": {\"max_tokens\": 6}}");
    mc_json_doc *doc = client_json(s.server, "POST", "/v1/responses", body, 200);
    check_text(mc_json_root(doc), "output.0.type", MC_STR("reasoning"));
    check_text(mc_json_root(doc), "output.1.type", MC_STR("message"));
    mc_json_close(&doc);
    free(body);
    served_close(&s);
}

/* A template that knows no efforts has them as budgets; one that does has the variable. */
static void test_efforts(void **state) {
    (void)state;
    static const struct {
        const char *chat_template, *effort;
        int64_t budget; /* -1: none */
    } rows[] = {{"<think></think>", "low", 1024},
                {"<think></think>", "high", 24576},
                {"<think></think>", "max", -1},
                {"<think></think>{{reasoning_effort}}", "low", -1},
                {"nothing is thought", "low", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mc_str text = mc_str_of(rows[i].chat_template);
        mc_answer_form form = {.format = mc_answer_format_find(text, NULL)};
        mc_answer_form_limit(&form, text, mc_str_of(rows[i].effort));
        assert_int_equal(form.limited, rows[i].budget >= 0);
        if (form.limited) assert_int_equal(form.budget, rows[i].budget);
    }
    mc_answer_form given = {.limited = true, .budget = 5};
    given.format = mc_answer_format_find(mc_str_of(rows[0].chat_template), NULL);
    mc_answer_form_limit(&given, mc_str_of(rows[0].chat_template), MC_STR("high"));
    assert_int_equal(given.budget, 5);
}

/* ---- regular expressions, choices, stop strings ---- */

/* Whether a text is two capital letters, a dash, and one to three digits. */
static bool is_code(mc_str text) {
    size_t digits = 0;
    while (3 + digits < text.len && text.ptr[3 + digits] >= '0' && text.ptr[3 + digits] <= '9')
        digits++;
    return text.len >= 4 && text.len <= 6 && digits == text.len - 3 && text.ptr[0] >= 'A' &&
           text.ptr[0] <= 'Z' && text.ptr[1] >= 'A' && text.ptr[1] <= 'Z' && text.ptr[2] == '-';
}

static void test_regex(void **state) {
    (void)state;
    static const char *const forms[] = {
        "\"response_format\": {\"type\": \"regex\", \"regex\": \"[A-Z]{2}-\\\\d{1,3}\"}",
        "\"response_format\": {\"type\": \"regex\", \"pattern\": \"[A-Z]{2}-\\\\d{1,3}\"}",
        "\"structured_outputs\": {\"regex\": \"[A-Z]{2}-\\\\d{1,3}\"}"};
    const served s = plain;
    for (size_t i = 0; i < 3; i++) {
        char *body = test_format("{" HELLO ", %s, \"n\": 4, \"temperature\": 3}", forms[i]);
        char *raw = test_format("{\"prompt\": [\"curl\", \"wget\"], %s, \"n\": 2, \"temperature\": "
                                "3}",
                                forms[i]);
        mc_json_doc *doc = client_json(s.server, "POST", CHAT, body, 200),
                    *text = client_json(s.server, "POST", "/v1/completions", raw, 200);
        for (size_t k = 0; k < 4; k++) {
            mc_json of_chat = element(at(mc_json_root(doc), "choices"), k);
            mc_json of_text = element(at(mc_json_root(text), "choices"), k);
            assert_true(is_code(text_at(of_chat, "message.content")));
            assert_true(is_code(text_at(of_text, "text")));
        }
        mc_json_close(&doc);
        mc_json_close(&text);
        free(body);
        free(raw);
    }
    mc_json_doc *doc = client_json(s.server, "POST", "/v1/responses",
                                   "{\"input\": \"Hi\", \"text\": {\"format\": {\"type\": "
                                   "\"regex\", \"regex\": \"[A-Z]{2}-[0-9]{1,3}\"}}}",
                                   200);
    assert_true(is_code(text_at(mc_json_root(doc), "output.0.content.0.text")));
    mc_json_close(&doc);
}

/* A grammar, by each of the names that servers have for it. */
static void test_grammars(void **state) {
    (void)state;
#define GBNF "\"root ::= [A-Z]{2} dash n{1,3}\\ndash ::= \\\"-\\\"\\nn ::= [0-9]\""
#define LARK "\"start: UPPER~2 \\\"-\\\" DIGIT~1..3\\nUPPER: /[A-Z]/\\n%import common.DIGIT\""
    static const char *const forms[] = {
        "\"response_format\": {\"type\": \"grammar\", \"grammar\": " GBNF "}",
        "\"response_format\": {\"type\": \"gbnf\", \"gbnf\": " GBNF "}",
        "\"response_format\": {\"type\": \"grammar\", \"grammar\": " LARK "}",
        "\"response_format\": {\"type\": \"lark\", \"definition\": " LARK "}",
        "\"response_format\": {\"type\": \"grammar\", \"syntax\": \"lark\", \"definition\": " LARK
        "}",
        "\"response_format\": {\"type\": \"grammar\", \"grammar\": {\"syntax\": \"regex\", "
        "\"definition\": \"[A-Z]{2}-[0-9]{1,3}\"}}",
        "\"structured_outputs\": {\"grammar\": " GBNF "}"};
    const served s = plain;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char *body = test_format("{" HELLO ", %s, \"temperature\": 3}", forms[i]);
        mc_json_doc *doc = client_json(s.server, "POST", CHAT, body, 200);
        assert_true(is_code(text_at(mc_json_root(doc), "choices.0.message.content")));
        mc_json_close(&doc);
        free(body);
    }
}

static void test_choices(void **state) {
    (void)state;
    const served s = plain;
    bool found[2] = {false};
    mc_json_doc *doc =
        client_json(s.server, "POST", CHAT,
                    "{" HELLO ", \"structured_outputs\": {\"choice\": [\"a+(b)\", \"C.\\n\"]}, "
                    "\"n\": 16, \"seed\": 1, \"temperature\": 50}",
                    200);
    for (size_t i = 0; i < 16; i++) {
        mc_json choice = element(at(mc_json_root(doc), "choices"), i);
        mc_str text = text_at(choice, "message.content");
        assert_true(mc_str_is(text, "a+(b)") || mc_str_is(text, "C.\n"));
        found[text.ptr[0] == 'C'] = true;
    }
    mc_json_close(&doc);
    assert_true(found[0] && found[1]);
    doc = client_json(s.server, "POST", "/v1/completions",
                      "{\"prompt\": \"a\", \"structured_outputs\": {\"json\": "
                      "\"{\\\"const\\\": 17}\"}}",
                      200);
    check_text(mc_json_root(doc), "choices.0.text", MC_STR("17"));
    mc_json_close(&doc);
}

/* A stop string that stands in a document, or in a call, does not cut it. */
static void test_stops(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *place, *want;
    } rows[] = {
        {CHAT,
         "{" HELLO ", \"stop\": [\"stop\"], \"structured_outputs\": {\"choice\": [\"a stop "
         "b\"]}}",
         "choices.0.message.content", "a stop b"},
        {CHAT,
         "{" HELLO ", \"stop\": [\"\\\"\"], \"response_format\": {\"type\": \"json_schema\", "
         "\"json_schema\": {\"name\": \"x\", \"schema\": {\"const\": \"a stop b\"}}}}",
         "choices.0.message.content", "\"a stop b\""},
        {CHAT, "{" HELLO ", \"stop\": [\"name\"], " TOOLS ", " NAMED "}",
         "choices.0.message.tool_calls.0.function.name", "weather"},
        {"/v1/completions",
         "{\"prompt\": \"a\", \"stop\": [\"stop\"], \"structured_outputs\": {\"choice\": [\"a stop "
         "b\"]}}",
         "choices.0.text", "a stop b"},
        /* but an expression may have no end of its own */
        {"/v1/completions",
         "{\"prompt\": \"a\", \"stop\": [\"b a\"], \"temperature\": 0, \"response_format\": "
         "{\"type\": \"regex\", \"regex\": \"(ab )+\"}}",
         "choices.0.text", "a"},
        {CHAT,
         "{" HELLO ", \"stop\": [\"b a\"], \"temperature\": 0, \"max_tokens\": 16, "
         "\"structured_outputs\": {\"regex\": \"(ab )+\"}, \"logit_bias\": {}}",
         "choices.0.message.content", "a"},
        {"/v1/messages",
         "{\"model\": \"default\", \"max_tokens\": 50, " HELLO ", \"stop_sequences\": [\"stop\"], "
         "\"output_config\": {\"format\": {\"type\": \"json_schema\", \"schema\": {\"const\": \"a "
         "stop b\"}}}}",
         "content.0.text", "\"a stop b\""},
        {"/api/chat",
         "{\"model\": \"default\", \"stream\": false, " HELLO ", \"options\": {\"stop\": "
         "[\"stop\"]}, \"format\": {\"const\": \"a stop b\"}}",
         "message.content", "\"a stop b\""},
    };
    const served s = plain;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mc_json_doc *doc = client_json(s.server, "POST", rows[i].path, rows[i].body, 200);
        check_text(mc_json_root(doc), rows[i].place, mc_str_of(rows[i].want));
        mc_json_close(&doc);
    }
}

/* A grammar whose stacks double sixteen times before its first byte. */
#define TWICE(a, b) #a " ::= " #b " \\\"x\\\" | " #b " \\\"y\\\"\\n"
#define DOUBLING                                                                              \
    "\"root ::= a\\n" TWICE(a, b) TWICE(b, c) TWICE(c, d) TWICE(d, e) TWICE(e, f) TWICE(f, g) \
        TWICE(g, h) TWICE(h, i) TWICE(i, j) TWICE(j, k) TWICE(k, l) TWICE(l, m) TWICE(m, n)   \
            TWICE(n, o) TWICE(o, p) TWICE(p, q) "q ::= \\\"z\\\"\""

static void test_refused(void **state) {
    (void)state;
    const served s = plain;
    static const struct {
        const char *fields, *code, *param;
    } cases[] = {
        {"\"tools\": [{\"type\": \"search\"}], \"tool_choice\": \"required\"", "invalid_value",
         "tools"},
        {"\"tool_choice\": \"required\"", "invalid_value", "tools"},
        {TOOLS ", \"tool_choice\": \"any\"", "invalid_value", "tool_choice"},
        {TOOLS ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"x\"}}", "",
         "tools"},
        {TOOLS ", " NAMED ", " SCHEMA, "unsupported_field", "tools"},
        {"\"response_format\": {\"type\": \"regex\"}", "missing_field", "response_format.regex"},
        {"\"response_format\": {\"type\": \"regex\", \"regex\": \"(?=a)b\"}", "",
         "response_format"},
        {"\"response_format\": {\"type\": \"regex\", \"regex\": "
         "\"([a-z]{0,50}[a-z ]{0,50}|[a-f ]{0,40}x?){0,60}\"}",
         "", "response_format"},
        {"\"response_format\": {\"type\": \"regex\", \"regex\": \"a\", \"flags\": \"i\"}",
         "unknown_field", "response_format.flags"},
        {"\"structured_outputs\": {\"regex\": \"a\", \"json\": {}}", "invalid_value",
         "structured_outputs"},
        {"\"structured_outputs\": {\"regex\": \"(\"}", "", "structured_outputs"},
        {"\"structured_outputs\": {\"choice\": []}", "", "structured_outputs.choice"},
        {"\"structured_outputs\": {\"grammar\": \"root ::= a\"}", "", "structured_outputs"},
        {"\"response_format\": {\"type\": \"lark\", \"grammar\": \"start: <tool>\"}", "",
         "response_format"},
        {"\"response_format\": {\"type\": \"gbnf\", \"gbnf\": " DOUBLING "}", "",
         "response_format"},
        {"\"response_format\": {\"type\": \"grammar\"}", "missing_field",
         "response_format.grammar"},
        {"\"response_format\": {\"type\": \"grammar\", \"syntax\": \"abnf\", \"definition\": "
         "\"a\"}",
         "unsupported_value", "response_format.syntax"},
        {"\"thinking_token_budget\": 5", "unsupported_value", "thinking_token_budget"},
        {"\"reasoning_budget_tokens\": 5", "unsupported_value", "reasoning_budget_tokens"},
        {"\"thinking_token_budget\": 1, \"reasoning\": {\"max_tokens\": 2}", "invalid_value",
         "thinking_token_budget"},
        {"\"reasoning_effort\": \"low\", \"reasoning\": {\"effort\": \"high\"}", "invalid_value",
         "reasoning_effort"},
        {"\"response_format\": {\"type\": \"xml\"}", "unsupported_value", "response_format.type"},
        {"\"response_format\": {\"type\": \"json_object\", \"schema\": {}}", "unknown_field",
         "response_format.schema"},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\"}}",
         "missing_field", "response_format.json_schema.schema"},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", "
         "\"schema\": {\"never\": {}}}}",
         "", "response_format.json_schema.schema"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = test_format("{" HELLO ", %s}", cases[i].fields);
        client_refused(s.server, CHAT, body, 400, cases[i].code, cases[i].param);
        free(body);
    }
    mc_json_doc *doc = client_json(s.server, "POST", CHAT,
                                   "{" HELLO ", " TOOLS ", \"tool_choice\": \"none\", "
                                   "\"response_format\": {\"type\": \"text\"}, \"max_tokens\": 2}",
                                   200);
    mc_json_close(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),     cmocka_unit_test(test_streamed_call),
        cmocka_unit_test(test_documents), cmocka_unit_test(test_thoughts),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_efforts),   cmocka_unit_test(test_regex),
        cmocka_unit_test(test_grammars),  cmocka_unit_test(test_choices),
        cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests(tests, open_plain, close_plain);
}
