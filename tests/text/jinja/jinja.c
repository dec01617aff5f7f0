/* The interpreter against what transformers and jinja2 render: every template of a family with its
 * conversations, and small templates for the language's parts. */
#include "text/jinja/jinja.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/str.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VARIABLES = 32 };

typedef struct variables {
    mc_jinja_variable list[MAX_VARIABLES];
    size_t n;
} variables;

typedef struct tally {
    size_t passed, failed;
} tally;

static void add_variable(variables *v, const char *name, mc_json json) {
    assert_true(v->n < MAX_VARIABLES);
    v->list[v->n++] = (mc_jinja_variable){.name = mc_str_of(name), .json = json};
}

static void add_members(variables *v, mc_json object) {
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);) {
        assert_true(v->n < MAX_VARIABLES);
        v->list[v->n++] = (mc_jinja_variable){.name = it.key, .json = it.value};
    }
}

/* "2025-03-09T14:05:06" */
static struct tm read_clock(mc_json v) {
    static const int days_before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    struct tm t = {0};
    mc_str text;
    char copy[32];
    assert_true(mc_json_get_str(v, &text));
    snprintf(copy, sizeof copy, "%.*s", MC_STR_ARG(text));
    if (sscanf(copy, "%4d-%2d-%2dT%2d:%2d:%2d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
               &t.tm_min, &t.tm_sec) != 6 ||
        t.tm_year < 1970 || t.tm_mon < 1 || t.tm_mon > 12)
        fail_msg("strftime_now is %s", copy);
    int year = t.tm_year, last = year - 1;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    t.tm_yday = days_before[t.tm_mon - 1] + t.tm_mday - 1 + (leap && t.tm_mon > 2);
    t.tm_wday = (1 + last * 365 + last / 4 - last / 100 + last / 400 + t.tm_yday) % 7;
    t.tm_year -= 1900;
    t.tm_mon--;
    return t;
}

static void test_clock(void **state) {
    (void)state;
    static const char text[] = "[\"2025-03-09T14:05:06\", \"2024-12-31T23:59:59\", "
                               "\"2000-02-29T00:00:00\"]";
    static const struct { int weekday, day; } want[] = {{0, 67}, {2, 365}, {2, 59}};
    mc_json_doc *doc = NULL;
    size_t i = 0;
    assert_int_equal(mc_json_parse(text, strlen(text), "clocks", &doc), MICA_OK);
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); i++) {
        struct tm t = read_clock(it.value);
        assert_int_equal(t.tm_wday, want[i].weekday);
        assert_int_equal(t.tm_yday, want[i].day);
    }
    mc_json_close(&doc);
}

/* An error must fail; where the template raised it, with its text. */
static bool is_error(mc_str wanted, mica_status status) {
    static const char prefix[] = "TemplateError: ";
    if (status == MICA_OK) return false;
    if (!mc_str_starts(wanted, mc_str_of(prefix))) return true;
    const char *text = wanted.ptr + strlen(prefix);
    return status == MICA_EINVAL &&
           strncmp(strstr(mica_last_error(), ": ") + 2, text, wanted.len - strlen(prefix)) == 0;
}

static bool check_case(const mc_jinja *t, const variables *v, const struct tm *now, mc_json entry,
                       const char *label, size_t number) {
    mc_buffer out = {0};
    mc_str text = {0}, error = {0};
    bool fails = mc_json_get_str(mc_json_find(entry, "error"), &error);
    assert_true(fails || mc_json_get_str(mc_json_find(entry, "text"), &text));
    mica_status status = mc_jinja_render(t, v->list, v->n, &(mc_jinja_options){.now = now}, &out);
    bool ok = fails ? is_error(error, status) && out.len == 0
                    : status == MICA_OK && mc_str_eq((mc_str){out.data, out.len}, text);
    if (!ok) {
        print_message("%s, case %zu: wanted\n%.*s\n", label, number,
                      MC_STR_ARG(fails ? error : text));
        print_message("got\n%.*s\n", status == MICA_OK ? (int)out.len : 0, out.data);
        if (status != MICA_OK) print_message("error: %s\n", mica_last_error());
    }
    mc_buffer_deinit(&out);
    return ok;
}

static void count(tally *sum, bool ok) {
    if (ok) {
        sum->passed++;
    } else {
        sum->failed++;
    }
}

/* bos_token and eos_token are defined where the tokenizer has them; tools and documents always. */
static void add_common(variables *v, mc_json root, mc_json generation) {
    mc_json nothing = {0};
    add_variable(v, "tools", nothing);
    add_variable(v, "documents", nothing);
    add_variable(v, "add_generation_prompt", generation);
    if (mc_json_exists(mc_json_find(root, "bos_token")))
        add_variable(v, "bos_token", mc_json_find(root, "bos_token"));
    if (mc_json_exists(mc_json_find(root, "eos_token")))
        add_variable(v, "eos_token", mc_json_find(root, "eos_token"));
}

static tally check_family(mc_json root, mc_json generation, const char *label) {
    tally sum = {0};
    mc_jinja *t = NULL;
    mc_str source;
    struct tm now = read_clock(mc_json_find(root, "strftime_now"));
    assert_true(mc_json_get_str(mc_json_find(root, "chat_template"), &source));
    if (mc_jinja_parse(source, label, &t) != MICA_OK) fail_msg("%s", mica_last_error());
    for (mc_json_iter it = mc_json_begin(mc_json_find(root, "cases")); mc_json_next(&it);) {
        variables v = {0};
        add_common(&v, root, generation);
        add_members(&v, mc_json_find(it.value, "options"));
        add_variable(&v, "messages", mc_json_find(it.value, "messages"));
        count(&sum, check_case(t, &v, &now, it.value, label, sum.passed + sum.failed));
    }
    mc_jinja_close(&t);
    return sum;
}

static tally check_micro(mc_json root, mc_json common, const char *label) {
    tally sum = {0};
    struct tm now = read_clock(mc_json_find(root, "strftime_now"));
    for (mc_json_iter it = mc_json_begin(mc_json_find(root, "cases")); mc_json_next(&it);) {
        size_t number = sum.passed + sum.failed;
        variables v = {0};
        mc_jinja *t = NULL;
        mc_str source;
        add_members(&v, common);
        add_members(&v, mc_json_find(root, "context"));
        assert_true(mc_json_get_str(mc_json_find(it.value, "template"), &source));
        bool parsed = mc_jinja_parse(source, label, &t) == MICA_OK;
        bool fails = mc_json_exists(mc_json_find(it.value, "error"));
        if (!parsed && !fails)
            print_message("%s, case %zu: %s\n", label, number, mica_last_error());
        count(&sum, parsed ? check_case(t, &v, &now, it.value, label, number) : fails);
        mc_jinja_close(&t);
    }
    return sum;
}

static void test_goldens(void **state) {
    static const char also[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}],"
                               " \"add_generation_prompt\": false, \"tools\": null,"
                               " \"documents\": null}";
    (void)state;
    char *dir = test_format("%s/chat", test_fixtures_dir());
    test_list files = test_list_files(dir, ".json");
    tally families = {0};
    mc_json_doc *common = NULL;
    assert_int_equal(mc_json_parse(also, strlen(also), "also", &common), MICA_OK);
    for (size_t i = 0; i < files.count; i++) {
        char *path = test_format("%s/%s", dir, files.names[i]);
        mc_json_doc *doc = NULL;
        doc = test_load_json(path);
        mc_json root = mc_json_root(doc), defaults = mc_json_root(common);
        bool micro = !mc_json_exists(mc_json_find(root, "chat_template"));
        tally t = micro ? check_micro(root, defaults, files.names[i])
                        : check_family(root, mc_json_find(defaults, "add_generation_prompt"),
                                       files.names[i]);
        print_message("%-32s %6zu exact, %zu not\n", files.names[i], t.passed, t.failed);
        if (!micro) families = (tally){families.passed + t.passed, families.failed + t.failed};
        mc_json_close(&doc);
        free(path);
    }
    assert_true(families.passed > 0);
    assert_int_equal(families.failed, 0);
    mc_json_close(&common);
    test_list_free(&files);
    free(dir);
}

/* Cases that jinja2 answered: tools/make_jinja_cases.py. */
static void test_cases(void **state) {
    (void)state;
    mc_json_doc *doc = NULL;
    doc = test_load_json("tests/text/jinja/jinja_cases.json");
    tally t = check_micro(mc_json_root(doc), (mc_json){0}, "jinja_cases");
    print_message("jinja_cases: %zu as jinja2 answers, %zu not\n", t.passed, t.failed);
    assert_true(t.passed > 600);
    assert_int_equal(t.failed, 0);
    mc_json_close(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests_name("text/jinja/jinja", tests, NULL, NULL);
}
