/* Grammars that users write, in GBNF and in Lark's notation. */
#include "support/support.h"

#include "base/alloc.h"
#include "grammar/answer_grammar.h"
#include "grammar/gbnf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_status compile(mica_constraint_kind kind, const char *text, mc_grammar **g) {
    const mc_answer_format plain = {0};
    return mc_answer_grammar_document(kind, text, strlen(text), &plain, MC_THINKING_NONE, g);
}

static bool accepts(mc_grammar *g, const char *text) {
    bool accepted;
    assert_int_equal(mc_grammar_accepts(g, text, strlen(text), &accepted, NULL), MICA_OK);
    return accepted;
}

/* Checks texts: lists that end with NULL. */
static void check(mica_constraint_kind kind, const char *source, const char *const *good,
                  const char *const *bad) {
    mc_grammar *g;
    if (compile(kind, source, &g) != MICA_OK) fail_msg("%s: %s", source, mica_last_error());
    assert_int_equal(mc_is_gbnf(mc_str_of(source)), kind == MICA_CONSTRAINT_GBNF);
    for (; *good; good++)
        if (!accepts(g, *good)) fail_msg("%s does not accept %s", source, *good);
    for (; *bad; bad++)
        if (accepts(g, *bad)) fail_msg("%s accepts %s", source, *bad);
    mc_grammar_close(&g);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void gbnf(const char *source, const char *const *good, const char *const *bad) {
    check(MICA_CONSTRAINT_GBNF, source, good, bad);
}

static void lark(const char *source, const char *const *good, const char *const *bad) {
    check(MICA_CONSTRAINT_LARK, source, good, bad);
}

static void test_gbnf(void **state) {
    (void)state;
    gbnf("root ::= \"a\"", LIST("a"), LIST("", "b", "aa"));
    gbnf("# a comment\nroot ::= \"yes\" | \"no\" reason? # more\nreason ::= \", \" [a-z ]{2,4} "
         "\".\"\n",
         LIST("yes", "no", "no, ab.", "no, a cd."),
         LIST("yes, ab.", "no, a.", "no, abcde.", "no,"));
    gbnf("root ::= (\n  \"a\"+ [^a-c\\n]* |\n  \"\\x62\\u00e9\\\"\\\\\" . )",
         LIST("a", "aad", "aa\xc3\xa9\"", "b\xc3\xa9\"\\x", "b\xc3\xa9\"\\\xf0\x9f\xa6\x9c"),
         LIST("", "ab", "a\n", "b\xc3\xa9\"\\", "b\xc3\xa9\"\\xx"));
    gbnf("root ::= \"x\"{3} \"y\"{2,} \"z\"{0,1} [0-9]{,2}", LIST("xxxyy", "xxxyyyz12", "xxxyy1"),
         LIST("xxyy", "xxxy", "xxxyyzz", "xxxyy123"));
    /* The grammar of arithmetic in llama.cpp's documentation has this shape. */
    gbnf("root  ::= (expr \"=\" ws term \"\\n\")+\nexpr  ::= term ([-+*/] term)*\n"
         "term  ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\n"
         "num   ::= [0-9]+ ws\nws    ::= [ \\t\\n]*",
         LIST("a +2= 3\n", "(a*(b-1))/2 = x1\n", "1=1\n2=2\n"), LIST("a+=3\n", "(a=3\n", "a=3"));
    /* Rules that begin with themselves are loops; nesting goes as deep as automata do. */
    gbnf("root ::= root \"+\" n | n\nn ::= \"1\" | \"(\" root \")\"",
         LIST("1", "1+1", "1+1+1+1", "(1+1)+((1))"), LIST("", "+1", "1+", "(1"));
    gbnf("list ::= \"x\" list | \"\"\nroot ::= list \"!\"", LIST("!", "x!", "xxxx!"),
         LIST("", "xx"));
}

static void test_lark(void **state) {
    (void)state;
    lark("start: \"a\"", LIST("a"), LIST("", "b", "aa"));
    lark("// a comment\nstart: greeting name+ # more\n?greeting.2: \"Hi\"i -> short\n"
         "        | \"Good \" (\"day\" | \"night\") -> long\n!name: \" \" LETTERS\n"
         "LETTERS: /[a-z]+/i\n",
         LIST("Hi ada", "hI ADA b", "Good night x"), LIST("Hi", "good day x", "Hi 1", "Hiada"));
    lark("start: \"x\"~2 [\"y\"] \"z\"~1..3 \"w\"{2}", LIST("xxyzww", "xxzzzww"),
         LIST("xzww", "xxyyzww", "xxyww", "xxzw"));
    lark("start: HEX\nHEX: \"0x\" (\"0\"..\"9\" | \"a\"..\"f\")+", LIST("0x1f", "0xa"),
         LIST("0x", "0xg"));
    lark("start: /a.c/ /b.d/s", LIST("axcb\nd"), LIST("a\ncb\nd"));
    lark("?start: sum\n?sum: product | sum \"+\" product -> add | sum \"-\" product -> sub\n"
         "?product: atom | product \"*\" atom\n?atom: NUMBER | \"-\" atom | \"(\" sum \")\"\n"
         "%import common.NUMBER\n%import common.WS_INLINE -> BLANK\n%ignore BLANK",
         LIST("1", "1+2", " 1 + 2*( 3 - -4 )\t", "1.5e3*2"),
         LIST("", "1+", "1 2 +", "1\n+2", "(1"));
    lark("start: \"[\" [value (\",\" value)*] \"]\"\nvalue: ESCAPED_STRING | SIGNED_INT | start\n"
         "%import common (ESCAPED_STRING, SIGNED_INT, WS)\n%ignore WS\n%ignore /#[^\\n]*/",
         LIST("[]", "[1, -2 , \"a\\\"b\"]", "[[] # c\n,[1]]\n"),
         LIST("[1,]", "[\"a]", "[+-1]", "[1 2"));
    lark("start: \"call \" %json {\"type\": \"object\", \"properties\": {\"a}\": {\"type\": "
         "\"integer\"}},"
         " \"required\": [\"a}\"]} \";\"",
         LIST("call {\"a}\":1};", "call { \"a}\": 12 };"), LIST("call {};", "call {\"a}\":1}"));
}

static void refuse(mica_constraint_kind kind, const char *source, mica_status status,
                   const char *word) {
    mc_grammar *g;
    mica_status got = compile(kind, source, &g);
    if (got != status) fail_msg("%s: %d %s", source, (int)got, mica_last_error());
    if (!strstr(mica_last_error(), word))
        fail_msg("%s: \"%s\" lacks %s", source, mica_last_error(), word);
    assert_null(g);
}

static void test_refusals(void **state) {
    (void)state;
    const mica_constraint_kind g = MICA_CONSTRAINT_GBNF, l = MICA_CONSTRAINT_LARK;
    refuse(g, "", MICA_EFORMAT, "no rule root");
    refuse(g, "a ::= \"b\"", MICA_EFORMAT, "no rule root");
    refuse(g, "root ::= \"a\n\"", MICA_EFORMAT, "line 1");
    refuse(g, "root ::=\n  other\n", MICA_EFORMAT, "line 2: other is not defined");
    refuse(g, "root ::= \"a\"\nroot ::= \"b\"", MICA_EFORMAT, "line 2: root is defined twice");
    refuse(g, "root ::= (\"a\"", MICA_EFORMAT, "group");
    refuse(g, "root ::= \"a\")", MICA_EFORMAT, "bracket");
    refuse(g, "root ::= [z-a]", MICA_EFORMAT, "class");
    refuse(g, "root ::= [a", MICA_EFORMAT, "class");
    refuse(g, "root ::= \"\\q\"", MICA_EFORMAT, "escape");
    refuse(g, "root ::= \"a\"{3,2}", MICA_EFORMAT, "{m,n}");
    refuse(g, "root ::= \"a\"{99999}", MICA_EFORMAT, "10000");
    refuse(g, "root ::= <think> \"a\"", MICA_EUNSUPPORTED, "tokens");
    refuse(g, "root ::= a \"x\" | \"y\"\na ::= root", MICA_EUNSUPPORTED, "root begins with itself");
    refuse(g, "root ::= \"x\"* root \"y\" | \"y\"", MICA_EUNSUPPORTED, "begins with itself");
    refuse(g, "root ::= root \"x\"", MICA_EINVAL, "nothing satisfies");
    refuse(g, "root ::= \"(\" root \")\"", MICA_EINVAL, "nothing satisfies");
    refuse(g, "root ::= (((\"a\"{1000}){1000}){1000})", MICA_EINVAL, "too large");
    refuse(g, "root = \"a\"", MICA_EFORMAT, "want a rule");
    refuse(l, "begin: \"a\"", MICA_EFORMAT, "no rule start");
    refuse(l, "start: sep{\"a\"}\n", MICA_EUNSUPPORTED, "templates");
    refuse(l, "start[stop=\"\"]: /a/", MICA_EUNSUPPORTED, "attributes");
    refuse(l, "start: <|end|>", MICA_EUNSUPPORTED, "tokens");
    refuse(l, "start: %regex {}", MICA_EUNSUPPORTED, "%regex");
    refuse(l, "%declare X\nstart: X", MICA_EUNSUPPORTED, "%declare");
    refuse(l, "%import python.NAME\nstart: NAME", MICA_EUNSUPPORTED, "common");
    refuse(l, "%import common.PYTHON\nstart: PYTHON", MICA_EUNSUPPORTED, "PYTHON");
    refuse(l, "start: /a/x", MICA_EUNSUPPORTED, "flag x");
    refuse(l, "start: /(?=a)/", MICA_EUNSUPPORTED, "group");
    refuse(l, "start: /a", MICA_EFORMAT, "pattern");
    refuse(l, "start: \"ab\"..\"c\"", MICA_EFORMAT, "range");
    refuse(l, "start: %json {\"$dynamicRef\": \"#\"}", MICA_EUNSUPPORTED, "%json/$dynamicRef");
    refuse(l, "start: %json {", MICA_EFORMAT, "line 1");
    refuse(l, "start: \"a\"~x", MICA_EFORMAT, "~n");
    refuse(l, "start: A\nA: b?\nb: \"x\"", MICA_EUNSUPPORTED, "line 3: b is a rule");
    refuse(l, "start: A\nA: \"a\"\n%ignore (x | /y/)*\nx: A", MICA_EUNSUPPORTED, "x is a rule");
}

/* A grammar whose rules reach each other in many ways compiles in time, or is refused. */
static void test_large(void **state) {
    (void)state;
    enum { RULES = 3000 };
    mc_buffer text = {0};
    mc_grammar *g;
    for (int i = 0; i < RULES; i++)
        mc_buffer_printf(&text, "%s%d ::= \"a\" r%d | \"b\" r%d\n", i ? "r" : "root ::= r1\nr", i,
                         (i * 7 + 1) % RULES, (i * 11 + 5) % RULES);
    mc_buffer_printf(&text, "end ::= [a-z]{0,1000}");
    mica_status status = compile(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&text), &g);
    assert_true(status == MICA_EINVAL || status == MICA_EUNSUPPORTED); /* no rule ends */
    mc_buffer_clear(&text);
    for (int i = 0; i < 1000; i++)
        mc_buffer_printf(&text, "(");
    mc_buffer deep = {0};
    mc_buffer_printf(&deep, "root ::= %s", mc_buffer_cstr(&text));
    refuse(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&deep), MICA_EUNSUPPORTED, "deeper");
    mc_buffer_deinit(&deep);
    mc_buffer_deinit(&text);
}

/* Texts that are short and take long: repeated suffixes, and what is costly many times. */
static void test_hostile(void **state) {
    (void)state;
    mc_buffer text = {0};
    mc_grammar *g;
    static const char *const inner[] = {"\"\"", "[^\\x00-\\U0010FFFF]"};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        mc_buffer_clear(&text);
        mc_buffer_add_text(&text, "root ::= ");
        for (int k = 0; k < 60; k++)
            mc_buffer_add_byte(&text, '(');
        mc_buffer_add_text(&text, inner[i]);
        for (int k = 0; k < 60; k++)
            mc_buffer_add_text(&text, "){1,2}");
        assert_int_not_equal(compile(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&text), &g), MICA_OK);
        assert_null(g);
    }
    mc_buffer_clear(&text);
    mc_buffer_add_text(&text, "root ::= \"a\"");
    for (int i = 0; i < 200000; i++)
        mc_buffer_add_byte(&text, i % 2 ? '*' : '?');
    refuse(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&text), MICA_EUNSUPPORTED, "repetitions");
    mc_buffer_clear(&text);
    mc_buffer_add_text(&text, "start: (%json {\"pattern\": \"^x12$\", \"enum\": [");
    for (int i = 0; i < 6000; i++)
        mc_buffer_printf(&text, "%s\"x%d\"", i ? ", " : "", i);
    mc_buffer_add_text(&text, "]}){10000}");
    assert_int_equal(compile(MICA_CONSTRAINT_LARK, mc_buffer_cstr(&text), &g), MICA_OK);
    mc_grammar_close(&g);
    mc_buffer_deinit(&text);
}

/* Compiles a grammar whose stacks double with each of `levels`, behind the text `before`. */
static mc_grammar *compile_doubling(const char *before, int levels) {
    mc_buffer text = {0};
    mc_grammar *g;
    mc_buffer_printf(&text, "root ::= \"%s\" a0\n", before);
    for (int i = 0; i < levels; i++)
        mc_buffer_printf(&text, "a%d ::= a%d \"x\" | a%d \"y\"\n", i, i + 1, i + 1);
    mc_buffer_printf(&text, "a%d ::= \"z\"", levels);
    if (compile(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&text), &g) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mc_buffer_deinit(&text);
    return g;
}

/* Ways to read a byte are counted: too many are an error, never fewer ways. */
static void test_doubling(void **state) {
    (void)state;
    bool accepted = true;
    for (int at = 0; at < 2; at++) {
        const char *before = at ? "bb" : "",
                   *text = at ? "bbzxyxyxyxyxyxyxyxy" : "zxyxyxyxyxyxyxyxy";
        mc_grammar *g = compile_doubling(before, 16);
        assert_int_equal(mc_grammar_accepts(g, text, strlen(text), &accepted, NULL),
                         MICA_EUNSUPPORTED);
        assert_false(accepted);
        assert_non_null(strstr(mica_last_error(), "ways"));
        mc_grammar_close(&g);
        g = compile_doubling(before, 12);
        assert_true(accepts(g, at ? "bbzxyxyxyxyxyxy" : "zxyxyxyxyxyxy"));
        assert_false(accepts(g, at ? "bbzxyxyxyxyxyx" : "zxyxyxyxyxyx"));
        mc_grammar_close(&g);
    }
}

/* Of thousands of alternatives behind a byte each is allowed, those that come last, too. */
static void test_many_ways(void **state) {
    (void)state;
    enum { N = 3000 };
    mc_buffer text = {0};
    mc_grammar *g;
    mc_buffer_add_text(&text, "root ::= \"-\" d\nd ::= ");
    for (int i = 0; i < N; i++)
        mc_buffer_printf(&text, "%s\"%d.\"", i ? "|" : "", i);
    assert_int_equal(compile(MICA_CONSTRAINT_GBNF, mc_buffer_cstr(&text), &g), MICA_OK);
    for (int i = 0; i < N; i++) {
        mc_buffer_clear(&text);
        mc_buffer_printf(&text, "-%d.", i);
        if (!accepts(g, mc_buffer_cstr(&text))) fail_msg("%s", mc_buffer_cstr(&text));
    }
    mc_grammar_close(&g);
    mc_buffer_deinit(&text);
}

static bool compile_once(void *context) {
    const char *source = context;
    mc_grammar *g;
    bool gb = mc_is_gbnf(mc_str_of(source)), accepted = false;
    if (compile(gb ? MICA_CONSTRAINT_GBNF : MICA_CONSTRAINT_LARK, source, &g) != MICA_OK)
        return false;
    bool done = mc_grammar_accepts(g, "ab 1", 4, &accepted, NULL) == MICA_OK;
    if (done) assert_true(accepted);
    mc_grammar_close(&g);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    static char one[] = "root ::= root \"c\" | w \" \" [0-9]\nw ::= (\"a\" | [b-d])+",
                other[] = "start: /[a-z]+/i x?\nx: %json {\"type\": \"integer\"}\n%ignore \" \"\n"
                          "%ignore WS\n%import common.WS";
    test_fail_each_allocation(compile_once, one);
    test_fail_each_allocation(compile_once, other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gbnf),      cmocka_unit_test(test_lark),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_hostile),   cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_many_ways), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("grammar/cfg", tests, NULL, NULL);
}
