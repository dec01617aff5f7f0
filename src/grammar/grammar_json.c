#include "grammar/grammar_json.h"

#include "base/json_write.h"
#include "grammar/grammar_chars.h"
#include "grammar/grammar_number.h"

#include <math.h>

enum { MAX_INDENT = 20, MAX_CONSTANT_DEPTH = 64 };

void mc_json_rules_init(mc_json_rules *rules, mc_builder *b) {
    *rules = (mc_json_rules){b, MC_DEAD, MC_DEAD, MC_DEAD, MC_DEAD, MC_DEAD, MC_DEAD};
}

static int32_t byte(mc_builder *b, int c, int32_t next) {
    return mc_build_range(b, c, c, next);
}

/* ---- white space ---- */

int32_t mc_build_space(mc_json_rules *rules, int32_t next) {
    mc_builder *b = rules->b;
    if (b->status != MICA_OK) return MC_DEAD;
    if (rules->space == MC_DEAD) {
        int32_t indent = MC_RETURN;
        for (int i = 0; i < MAX_INDENT; i++) {
            int32_t blank = mc_build_split(b, byte(b, ' ', indent), byte(b, '\t', indent));
            indent = mc_build_split(b, blank, MC_RETURN);
        }
        int32_t some = mc_build_split(b, byte(b, ' ', MC_RETURN), byte(b, '\n', indent));
        rules->space = mc_build_rule(b);
        mc_build_define(b, rules->space, mc_build_split(b, some, MC_RETURN));
    }
    return mc_build_call(b, rules->space, next);
}

/* ---- strings ---- */

int32_t mc_build_any_string(mc_json_rules *rules, int32_t next) {
    mc_builder *b = rules->b;
    if (b->status != MICA_OK) return MC_DEAD;
    if (rules->string == MC_DEAD) {
        int32_t loop = mc_build_open(b);
        mc_build_plain(b, loop);
        mc_build_close(b, loop, mc_build_json_char(b, loop), byte(b, '"', MC_RETURN));
        rules->string = mc_build_rule(b);
        mc_build_define(b, rules->string, byte(b, '"', loop));
    }
    return mc_build_call(b, rules->string, next);
}

int32_t mc_build_string(mc_json_rules *rules, int64_t min, int64_t max, int32_t next) {
    mc_builder *b = rules->b;
    if (min == 0 && max < 0) return mc_build_any_string(rules, next);
    int32_t one = mc_build_rule(b), end = byte(b, '"', next), all = end;
    mc_build_define(b, one, mc_build_json_char(b, MC_RETURN));
    if (max < 0) {
        all = mc_build_open(b);
        mc_build_plain(b, all);
        mc_build_close(b, all, mc_build_call(b, one, all), end);
    }
    for (int64_t i = max < 0 ? min : max; i > 0 && b->status == MICA_OK; i--) {
        all = mc_build_call(b, one, all);
        if (i > min) { /* the string may end before the i-th character */
            all = mc_build_split(b, all, end);
            if (max - i + 1 >= MC_PLAIN_CHARS) mc_build_plain(b, all);
        }
    }
    return byte(b, '"', all);
}

int32_t mc_build_string_choice(mc_json_rules *rules, mc_str *texts, size_t count, int32_t next) {
    mc_builder *b = rules->b;
    mc_buffer bytes = {0};
    bool done = true;
    size_t at = 0;
    for (size_t i = 0; done && i < count; i++) { /* lengths first: the bytes move as they grow */
        size_t before = bytes.len;
        done = mc_json_escape(&bytes, texts[i]);
        texts[i].len = bytes.len - before;
    }
    for (size_t i = 0; done && i < count; at += texts[i++].len)
        texts[i].ptr = bytes.data ? bytes.data + at : "";
    if (!done) mc_builder_fail(b, mc_fail_nomem("a grammar"));
    int32_t all = done ? mc_build_choice(b, texts, count, byte(b, '"', next)) : MC_DEAD;
    mc_buffer_deinit(&bytes);
    return byte(b, '"', all);
}

/* ---- any documents ---- */

static int32_t build_any_number(mc_json_rules *rules, int32_t next) {
    mc_builder *b = rules->b;
    if (b->status != MICA_OK) return MC_DEAD;
    if (rules->number == MC_DEAD) {
        const mc_number_bound none = {0};
        rules->number = mc_build_rule(b);
        mc_build_define(b, rules->number, mc_build_number(b, false, none, none, MC_RETURN));
    }
    return mc_build_call(b, rules->number, next);
}

/* open item (, item)* close, or nothing between them. `item` is given what follows it. */
static int32_t list(mc_json_rules *rules, int open, int close,
                    int32_t (*item)(mc_json_rules *rules, int32_t next)) {
    mc_builder *b = rules->b;
    int32_t end = byte(b, close, MC_RETURN), more = mc_build_open(b);
    int32_t items = item(rules, more);
    int32_t comma = byte(b, ',', mc_build_space(rules, items));
    mc_build_close(b, more, mc_build_space(rules, end), comma);
    int32_t first = mc_build_space(rules, mc_build_split(b, items, end));
    return byte(b, open, first);
}

static int32_t member(mc_json_rules *rules, int32_t next) {
    int32_t value = mc_build_space(rules, mc_build_any_value(rules, next));
    return mc_build_any_string(rules, byte(rules->b, ':', value));
}

int32_t mc_build_any_object(mc_json_rules *rules, int32_t next) {
    if (rules->b->status != MICA_OK) return MC_DEAD;
    if (rules->object == MC_DEAD) {
        int32_t rule = rules->object = mc_build_rule(rules->b);
        mc_build_define(rules->b, rule, list(rules, '{', '}', member));
    }
    return mc_build_call(rules->b, rules->object, next);
}

int32_t mc_build_any_array(mc_json_rules *rules, int32_t next) {
    if (rules->b->status != MICA_OK) return MC_DEAD;
    if (rules->array == MC_DEAD) {
        int32_t rule = rules->array = mc_build_rule(rules->b);
        mc_build_define(rules->b, rule, list(rules, '[', ']', mc_build_any_value));
    }
    return mc_build_call(rules->b, rules->array, next);
}

int32_t mc_build_any_value(mc_json_rules *rules, int32_t next) {
    mc_builder *b = rules->b;
    if (b->status != MICA_OK) return MC_DEAD;
    if (rules->value == MC_DEAD) {
        static const char *const words[] = {"null", "true", "false"};
        int32_t rule = rules->value = mc_build_rule(b);
        int32_t all = build_any_number(rules, MC_RETURN);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            all = mc_build_split(b, mc_build_text(b, words[i], strlen(words[i]), MC_RETURN), all);
        all = mc_build_split(b, mc_build_any_array(rules, MC_RETURN), all);
        all = mc_build_split(b, mc_build_any_object(rules, MC_RETURN), all);
        all = mc_build_split(b, mc_build_any_string(rules, MC_RETURN), all);
        mc_build_define(b, rule, all);
    }
    return mc_build_call(b, rules->value, next);
}

/* ---- constants ---- */

static int32_t constant(mc_json_rules *rules, mc_json value, int depth, int32_t next);

static int32_t fail(mc_builder *b, mica_status status) {
    mc_builder_fail(b, status);
    return MC_DEAD;
}

static int32_t constant_string(mc_builder *b, mc_str text, int32_t next) {
    mc_buffer escaped = {0};
    if (!mc_json_escape(&escaped, text)) {
        mc_buffer_deinit(&escaped);
        return fail(b, mc_fail_nomem("a grammar"));
    }
    int32_t start = byte(b, '"', mc_build_text(b, escaped.data, escaped.len, byte(b, '"', next)));
    mc_buffer_deinit(&escaped);
    return start;
}

/* The elements or members from an iterator's next one on. They are few levels deep, but may be
 * many, so that recursion by elements has the depth of their number: it is bounded. */
static int32_t constant_rest(mc_json_rules *rules, mc_json_iter it, int depth, size_t number,
                             int32_t end) {
    enum { MAX_MEMBERS = 2000 };
    mc_builder *b = rules->b;
    if (!mc_json_next(&it)) return mc_build_space(rules, end);
    if (number == MAX_MEMBERS)
        return fail(
            b, mc_fail(MICA_EUNSUPPORTED, "a constant with more than %d elements", MAX_MEMBERS));
    int32_t rest = constant_rest(rules, it, depth, number + 1, end);
    int32_t start = constant(rules, it.value, depth + 1, rest);
    if (it.object) start = constant_string(b, it.key, byte(b, ':', mc_build_space(rules, start)));
    start = mc_build_space(rules, start);
    return number ? byte(b, ',', start) : start;
}

static int32_t constant_number(mc_builder *b, mc_json value, int32_t next) {
    mc_buffer text = {0};
    double number = 0;
    uint64_t large;
    if (mc_json_get_type(value) == MC_JSON_FLOAT && !mc_json_get_uint(value, &large) &&
        mc_json_get_float(value, &number) && fabs(number) >= 0x1p53)
        return fail(b, mc_fail(MICA_EUNSUPPORTED, "a constant number that large"));
    bool done = mc_json_put_value(&text, value, MC_JSON_ONE_LINE);
    int32_t start = mc_build_text(b, text.data, text.len, next);
    mc_buffer_deinit(&text);
    return done ? start : fail(b, mc_fail_nomem("a grammar"));
}

static int32_t constant(mc_json_rules *rules, mc_json value, int depth, int32_t next) {
    mc_builder *b = rules->b;
    bool truth = false;
    mc_str text;
    if (depth > MAX_CONSTANT_DEPTH)
        return fail(
            b, mc_fail(MICA_EUNSUPPORTED, "a constant nested deeper than %d", MAX_CONSTANT_DEPTH));
    switch (mc_json_get_type(value)) {
    case MC_JSON_BOOL:
        mc_json_get_bool(value, &truth);
        return mc_build_text(b, truth ? "true" : "false", truth ? 4 : 5, next);
    case MC_JSON_STRING:
        mc_json_get_str(value, &text);
        return constant_string(b, text, next);
    case MC_JSON_INT:
    case MC_JSON_FLOAT:
        return constant_number(b, value, next);
    case MC_JSON_ARRAY:
        return byte(b, '[',
                    constant_rest(rules, mc_json_begin(value), depth, 0, byte(b, ']', next)));
    case MC_JSON_OBJECT:
        return byte(b, '{',
                    constant_rest(rules, mc_json_begin(value), depth, 0, byte(b, '}', next)));
    case MC_JSON_NONE:
    case MC_JSON_NULL:
        break;
    }
    return mc_build_text(b, "null", 4, next);
}

int32_t mc_build_constant(mc_json_rules *rules, mc_json value, int32_t next) {
    return constant(rules, value, 0, next);
}
