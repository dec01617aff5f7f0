#include "text/tokenizer/steps.h"

mica_status mc_steps_parse(const mc_steps *steps, mc_json v) {
    if (!mc_json_exists(v)) return MICA_OK;
    mc_str type;
    if (!mc_json_get_str(mc_json_find(v, "type"), &type)) {
        return mc_fail(MICA_EFORMAT, "%s: a step without a type", steps->field);
    }
    if (!mc_str_is(type, "Sequence")) return steps->add(steps, type, v);
    mc_json list = mc_json_find(v, steps->list);
    if (mc_json_get_type(list) != MC_JSON_ARRAY) {
        return mc_fail(MICA_EFORMAT, "%s.%s: not an array", steps->field, steps->list);
    }
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        if (!mc_json_exists(it.value)) {
            return mc_fail(MICA_EFORMAT, "%s.%s: a step is null", steps->field, steps->list);
        }
        MC_TRY(mc_steps_parse(steps, it.value));
    }
    return MICA_OK;
}

mica_status mc_steps_unknown(const mc_steps *steps, mc_str type) {
    return mc_fail(MICA_EUNSUPPORTED, "%s: the type '%.*s' is not supported", steps->field,
                   MC_STR_ARG(type));
}

mica_status mc_steps_too_many(const mc_steps *steps, int max) {
    return mc_fail(MICA_EUNSUPPORTED, "%s: more than %d steps are not supported", steps->field,
                   max);
}

static mica_status wrong_type(const mc_steps *steps, const char *key, const char *wanted) {
    return mc_fail(MICA_EFORMAT, "%s: '%s' is not %s", steps->field, key, wanted);
}

mica_status mc_steps_str(const mc_steps *steps, mc_json step, const char *key, mc_str *out) {
    mc_str text;
    if (!mc_json_get_str(mc_json_find(step, key), &text)) return wrong_type(steps, key, "a string");
    return mc_store_text(steps->store, text, out);
}

mica_status mc_steps_char(const mc_steps *steps, mc_json step, const char *key, mc_str *out) {
    uint32_t c;
    MC_TRY(mc_steps_str(steps, step, key, out));
    bool one = out->len > 0 && mc_next_char(out->ptr, &c) == out->len;
    return one ? MICA_OK : wrong_type(steps, key, "a character");
}

mica_status mc_steps_bool(const mc_steps *steps, mc_json step, const char *key, bool *out) {
    mc_json v = mc_json_find(step, key);
    if (!mc_json_exists(v) || mc_json_get_bool(v, out)) return MICA_OK;
    return wrong_type(steps, key, "true or false");
}

mica_status mc_steps_size(const mc_steps *steps, mc_json step, const char *key, size_t *out) {
    mc_json v = mc_json_find(step, key);
    int64_t n;
    if (!mc_json_exists(v)) return MICA_OK;
    if (!mc_json_get_int(v, &n) || n < 0 || n > INT32_MAX) return wrong_type(steps, key, "a count");
    *out = (size_t)n;
    return MICA_OK;
}

mica_status mc_steps_pattern(const mc_steps *steps, mc_json step, mc_pattern *out) {
    mc_json v = mc_json_find(step, "pattern");
    mc_str text;
    *out = (mc_pattern){0};
    if (mc_json_get_str(mc_json_find(v, "Regex"), &text)) {
        mica_status status = mc_store_regex(steps->store, text, &out->regex);
        if (status != MICA_OK) return mc_fail_context(status, "%s", steps->field);
    } else if (!mc_json_get_str(mc_json_find(v, "String"), &text) || text.len == 0) {
        return mc_fail(MICA_EFORMAT,
                       "%s: 'pattern' is neither {\"String\": a text of some length} nor "
                       "{\"Regex\": a pattern}",
                       steps->field);
    }
    if (text.len > MC_REGEX_MAX_LEN)
        return mc_fail(MICA_EFORMAT, "%s: 'pattern' has %zu bytes, the limit is %d", steps->field,
                       text.len, MC_REGEX_MAX_LEN);
    return mc_store_text(steps->store, text, &out->text);
}

mica_status mc_steps_metaspace(const mc_steps *steps, mc_json step, mc_str *mark,
                               mc_prepend *prepend) {
    static const char *const names[] = {"always", "first", "never"};
    mc_json scheme = mc_json_find(step, "prepend_scheme");
    mc_str name;
    MC_TRY(mc_steps_char(steps, step, "replacement", mark));
    if (!mc_json_exists(scheme)) {
        bool prefix = true;
        MC_TRY(mc_steps_bool(steps, step, "add_prefix_space", &prefix));
        *prepend = prefix ? MC_PREPEND_ALWAYS : MC_PREPEND_NEVER;
        return MICA_OK;
    }
    if (mc_json_get_str(scheme, &name)) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            *prepend = (mc_prepend)i;
            if (mc_str_is(name, names[i])) return MICA_OK;
        }
    }
    return wrong_type(steps, "prepend_scheme", "'always', 'first' or 'never'");
}
