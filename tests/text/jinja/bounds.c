/* Templates that would hang or fill memory: every operation pays for its work, whatever it is, and
 * a rendering ends at its limits or when it is cancelled. */
#include "base/buffer.h"
#include "base/json.h"
#include "base/str.h"
#include "support/support.h"
#include "text/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 65536, ITEMS = 256, MAX_STEPS = 60000 };

/* The variables: texts of LEN bytes, and JSON. */
typedef struct hostile {
    char *a, *b, *spaces, *zeros, *lines, *accents, *flags, *index;
    char *json;
    mc_json_doc *doc;
    mc_jinja_variable list[16];
    size_t n;
} hostile;

static char *filled(hostile *h, const char *name, const char *with) {
    size_t n = strlen(with);
    char *text = malloc(LEN + 1);
    assert_non_null(text);
    for (size_t i = 0; i < LEN; i++)
        text[i] = with[i % n];
    text[LEN] = '\0';
    h->list[h->n++] = (mc_jinja_variable){.name = mc_str_of(name), .text = {text, LEN}};
    return text;
}

/* {"l": [0, 1 ...], "l2": the same, "d": {"k0000": 0 ...}, "d2": the same} */
static char *make_json(void) {
    mc_buffer text = {0};
    bool ok = mc_buffer_add_text(&text, "{");
    for (int k = 0; k < 2; k++) {
        ok = ok && mc_buffer_printf(&text, "%s\"l%d\": [", k ? ", " : "", k);
        for (int i = 0; i < ITEMS; i++)
            ok = ok && mc_buffer_printf(&text, i ? ", %d" : "%d", i);
        ok = ok && mc_buffer_printf(&text, "], \"d%d\": {", k);
        for (int i = 0; i < ITEMS; i++)
            ok = ok && mc_buffer_printf(&text, i ? ", \"k%04d\": 0" : "\"k%04d\": 0", i);
        ok = ok && mc_buffer_add_text(&text, "}");
    }
    assert_true(ok && mc_buffer_add_text(&text, "}"));
    return mc_buffer_take(&text);
}

static hostile make_hostile(void) {
    hostile h = {0};
    h.a = filled(&h, "a", "a");
    h.b = filled(&h, "a2", "a");
    h.spaces = filled(&h, "w", " ");
    h.zeros = filled(&h, "z", "0");
    h.lines = filled(&h, "n", "\n");
    h.accents = filled(&h, "u", "\xC3\xA9");
    h.flags = filled(&h, "f", "-");
    h.flags[0] = '%';
    h.flags[LEN - 1] = 's';
    h.index = filled(&h, "x", "0");
    h.index[0] = '{';
    h.index[LEN - 1] = '}';
    h.json = make_json();
    if (mc_json_parse(h.json, strlen(h.json), "variables", &h.doc) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (mc_json_iter it = mc_json_begin(mc_json_root(h.doc)); mc_json_next(&it);)
        h.list[h.n++] = (mc_jinja_variable){.name = it.key, .json = it.value};
    return h;
}

static void free_hostile(hostile *h) {
    mc_json_close(&h->doc);
    char *texts[] = {h->a,     h->b,       h->spaces, h->zeros, h->lines,
                     h->flags, h->accents, h->index,  h->json};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
}

static mica_status render(const char *source, const hostile *h, const mc_jinja_options *options,
                          size_t *len) {
    mc_jinja *t = NULL;
    mc_buffer out = {0};
    if (mc_jinja_parse(mc_str_of(source), "t", &t) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_status status = mc_jinja_render(t, h ? h->list : NULL, h ? h->n : 0, options, &out);
    *len = out.len;
    assert_true(status == MICA_OK || out.len == 0);
    mc_buffer_deinit(&out);
    mc_jinja_close(&t);
    return status;
}

/* What one evaluation takes is 200 steps at least, so that 300 reach the limit: without that, their
 * loop takes a tenth of it. */
static const char *const costly[] = {
    /* looking at the ends */
    "a.startswith(a2)",
    "a.endswith(a2)",
    "a.startswith(('b',) * 1000)",
    "a.endswith(('b',) * 1000)",
    "a.removeprefix(a2)",
    "a.removesuffix(a2)",
    /* cutting */
    "w.split()",
    "a.split()",
    "a.split(none, 1)",
    "a.split('b')",
    "a.rsplit(none, 1)",
    "a.rsplit('b', 1)",
    "a.rsplit('ab', 1)",
    "n.splitlines()",
    "a.splitlines()",
    "a.partition('b')",
    "a.rpartition('b')",
    "w.strip()",
    "w.lstrip()",
    "w.rstrip()",
    "w|trim",
    "a.strip('a')",
    "a.rstrip('bcdefghijklma')",
    "a|trim('a')",
    /* searching */
    "a.find('b')",
    "a.find('ab')",
    "a.find(a2)",
    "a.rfind('b')",
    "a.rfind('ab')",
    "a.rfind(a2)",
    "a.index(a2)",
    "a.count('b')",
    "a.count('ab')",
    "a.count('a')",
    "'ab' in a",
    "'ab' not in a",
    "a2 in a",
    "a.replace('b', '')",
    "a.replace('ab', '')",
    "a.replace('a', 'b')",
    "a.replace('', '-')",
    "a|replace('b', '')",
    /* comparing */
    "a == a2",
    "a != a2",
    "a < a2",
    "a >= a2",
    "[a] == [a2]",
    "a is eq a2",
    "a is in [a2]",
    "l0 == l1",
    "l0 < l1",
    "-1 in l0",
    "l0.count(-1)",
    "d0 == d1",
    "[a2, a]|sort",
    "[a2, a]|min",
    "[a2, a]|max",
    "[a2, a]|unique|list",
    /* measuring and indexing */
    "u|length",
    "u[-1]",
    "u[30000]",
    "u[1:30000]",
    "u[:30000]",
    "u[::2]",
    "u[::-1]",
    "u|first",
    "u|last",
    "u|list",
    "u|reverse",
    /* classes and case */
    "a.isalpha()",
    "u.isalpha()",
    "z.isdigit()",
    "a.isalnum()",
    "w.isspace()",
    "a.islower()",
    "a.isupper() or a.islower()",
    "a is lower",
    "a.upper()",
    "a.lower()",
    "a.title()",
    "a.capitalize()",
    "a|upper",
    "a|lower",
    "a|title",
    "a|capitalize",
    /* making */
    "a + a2",
    "a ~ a2",
    "'ab' * 30000",
    "[0] * 30000",
    "l0 + l1",
    "l0[1:]",
    "l0[::-1]",
    "','.join(a)",
    "l0|join",

    "a|string ~ ''",
    "[a]|string",
    "l0|string",
    "a|tojson",
    "u|tojson(ensure_ascii=true)",
    "l0|tojson",
    "d0|tojson(sort_keys=true)",
    "'<' ~ a|escape",
    "n|escape",
    "a|indent(first=true)",
    "n|indent(blank=true)",
    "[1]|tojson(indent=60000)",
    "'%s' % a",
    "'%.3s' % a",
    "f % 1",
    "'%s'|format(a)",
    "'{}'.format(a)",
    "a.format()",
    "x.format(1)",
    "range(30000)",
    "l0|list + l0",
    "dict(d0)",
    "namespace(**d0)",
    "d0|items|list",
    "d0.items()",
    "d0.keys()",
    "d0.values()",
    "d0|dictsort",
    "l0|sum",
    "l0|map('string')|list",
    "l0|map(attribute='x')|list",
    "l0|select('odd')|list",
    "l0|reject('odd')|list",
    "l0|batch(3)|list",
    "l0|reverse|list",
    "l0|select|list",
    "l0|sort",
    "l0|unique|list",
    /* numbers */
    "z|int",
    "z|int(0, 2)",
    "z|float",
    "w|int",
    "w|float",
    "1.2345678901234567e-300|string",
    "0.1234567|round(300)",
};

/* And 50 steps. */
static const char *const less_costly[] = {"'k9999' in d0", "d0['k9999']", "d0.get('k9999')",
                                          "d0.k9999 is defined"};

/* How many of n expressions a loop can evaluate so often. */
static size_t count_free(const hostile *h, const char *const *all, size_t n, int rounds) {
    size_t wrong = 0, len;
    for (size_t i = 0; i < n; i++) {
        char *source = test_format("{%% for i in range(%d) %%}{%% if (%s) == 0 %%}{%% endif %%}"
                                   "{%% endfor %%}",
                                   rounds, all[i]);
        mica_status status = render(source, h, &(mc_jinja_options){.max_steps = MAX_STEPS}, &len);
        bool stopped = status == MICA_EFORMAT && strstr(mica_last_error(), "takes more than");
        if (!stopped) {
            print_message("%s: %s\n", all[i],
                          status == MICA_OK ? "not paid for" : mica_last_error());
            wrong++;
        }
        free(source);
    }
    return wrong;
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void test_costly(void **state) {
    (void)state;
    hostile h = make_hostile();
    size_t len;
    assert_int_equal(render("{% for i in range(1500) %}{% if (1) == 0 %}{% endif %}{% endfor %}",
                            &h, &(mc_jinja_options){.max_steps = MAX_STEPS}, &len),
                     MICA_OK);
    size_t wrong = count_free(&h, costly, COUNT(costly), 300) +
                   count_free(&h, less_costly, COUNT(less_costly), 1500);
    free_hostile(&h);
    assert_int_equal(wrong, 0);
}

/* The same of what is short, and slow for another reason: 100 steps each. */
static void test_slow_arithmetic(void **state) {
    (void)state;
    static const char *const slow[] = {"1e308 % 3e-300", "'%.60f' % 1.7e308", "'%.60e' % 5e-324",
                                       "0.5|round(3)"};
    size_t len;
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        char *source =
            test_format("{%% for i in range(1000) %%}{%% set x = %s %%}{%% endfor %%}", slow[i]);
        assert_int_equal(render(source, NULL, &(mc_jinja_options){.max_steps = 100000}, &len),
                         MICA_EFORMAT);
        free(source);
    }
}

/* Blanks at the ends are decoded one by one: half a step each. */
static void test_blanks(void **state) {
    (void)state;
    static const char *const stripped[] = {"w.strip()", "w.lstrip()", "w.rstrip()", "w|trim"};
    size_t len;
    for (size_t i = 0; i < sizeof stripped / sizeof *stripped; i++) {
        char *source = test_format("{%% set w = ' ' * 100000 %%}{%% for i in range(10) %%}"
                                   "{%% set x = %s %%}{%% endfor %%}",
                                   stripped[i]);
        assert_int_equal(render(source, NULL, &(mc_jinja_options){.max_steps = 400000}, &len),
                         MICA_EFORMAT);
        free(source);
    }
}

/* Names, attributes and dicts that are searched. */
static void test_searches(void **state) {
    (void)state;
    mc_buffer source = {0};
    size_t len;
    bool ok = true;
    for (int i = 0; i < 40; i++)
        ok = ok && mc_buffer_add_text(&source, "{% for i in [1] %}");
    ok = ok && mc_buffer_add_text(&source, "{% for i in range(1000) %}{% if no %}{% endif %}"
                                           "{% endfor %}");
    for (int i = 0; i < 40; i++)
        ok = ok && mc_buffer_add_text(&source, "{% endfor %}");
    assert_true(ok && mc_buffer_cstr(&source));
    assert_int_equal(render(source.data, NULL, &(mc_jinja_options){.max_steps = 40000}, &len),
                     MICA_EFORMAT);
    mc_buffer_deinit(&source);
}

/* The limits as they are, where what is not paid for would take minutes. */
static void test_default_limits(void **state) {
    (void)state;
    static const char *const sources[] = {
        "{% set s = 'a' * 4000000 %}{% for i in range(50000) %}{% if s.endswith(s) %}{% endif %}"
        "{% endfor %}",
        "{% set s = 'a' * 10000 %}{% set t = (s ~ 'b',) * 20000 %}{% for i in range(50000) %}"
        "{% if s.startswith(t) %}{% endif %}{% endfor %}",
    };
    size_t len;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        assert_int_equal(render(sources[i], NULL, NULL, &len), MICA_EFORMAT);
        assert_non_null(strstr(mica_last_error(), "more than 20000000 steps"));
    }
}

/* What a small conversation's template may take is small; more with the variables. */
static void test_memory(void **state) {
    (void)state;
    static const struct {
        const char *source, *error;
    } cases[] = {
        {"{{ 'a' * 5000000 }}", "longer than 4 MB"},
        {"{% for i in range(1000) %}{{ 'a' * 5000 }}{% endfor %}", "longer than 4 MB"},
        {"{% set n = namespace(s='a') %}{% for i in range(30) %}{% set n.s = n.s ~ n.s %}"
         "{% endfor %}",
         "longer than 4 MB"},
        {"{% set n = namespace(s='a' * 1000) %}{% for i in range(1000) %}"
         "{% set n.s = n.s ~ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' %}"
         "{% endfor %}",
         "more than 32 MB of memory"},
        {"{% set n = namespace(l=[1]) %}{% for i in range(30) %}{% set n.l = n.l + n.l %}"
         "{% endfor %}",
         "more than 32 MB of memory"},
        {"{% set l = range(100000)|list %}{% for i in range(1000) %}{% set x = l|map('string') %}"
         "{% endfor %}",
         "more than 32 MB of memory"},
        {"{% set x = [0] * 100000000 %}", "more than 32 MB of memory"},
        {"{% set x = '%400s' * 1 %}{{ 'a'|indent(100000000, true) }}", "longer than 4 MB"},
    };
    size_t len;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(render(cases[i].source, NULL, NULL, &len), MICA_EFORMAT);
        if (!strstr(mica_last_error(), cases[i].error)) fail_msg("%s", mica_last_error());
    }
}

static void test_memory_of_large_variables(void **state) {
    (void)state;
    size_t n = (size_t)3 << 20, len;
    hostile h = {0};
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    h.list[h.n++] = (mc_jinja_variable){.name = MC_STR("a"), .text = {text, n}};
    assert_int_equal(render("{{ a|upper }}{{ a ~ a }}{{ a|tojson }}{{ a|first }}", &h, NULL, &len),
                     MICA_OK);
    assert_int_equal(len, 4 * n + 3);
    free(text);
}

static void test_cancel(void **state) {
    (void)state;
    mica_cancel *cancel = NULL;
    size_t len;
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    const mc_jinja_options options = {.cancel = cancel};
    assert_int_equal(render("{{ 1 }}", NULL, &options, &len), MICA_OK);
    mica_cancel_set(cancel);
    assert_int_equal(render("{{ 1 }}", NULL, &options, &len), MICA_ECANCELLED);
    mica_cancel_close(&cancel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costly),
        cmocka_unit_test(test_slow_arithmetic),
        cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_searches),
        cmocka_unit_test(test_default_limits),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_of_large_variables),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests_name("text/jinja/bounds", tests, NULL, NULL);
}
