#include "text/tokenizer/template.h"

#include "text/tokenizer/steps.h"

enum { MAX_IDS = 4096 };

typedef struct parsing {
    mc_template *t;
    const mc_vocab *vocab;
    size_t count; /* number of special tokens' ids */
} parsing;

static mica_status count_one(const mc_steps *steps) {
    parsing *p = steps->into;
    if (p->count++ < MAX_IDS) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: more than %d ids around a text", steps->field, MAX_IDS);
}

/* Adds special_tokens[name].ids. */
static mica_status add_special(const mc_steps *steps, mc_json special, mc_json name,
                               const mc_vocab *vocab, mc_buffer *out) {
    mc_str wanted, key = {0};
    mc_json ids = {0};
    if (!mc_json_get_str(name, &wanted)) {
        return mc_fail(MICA_EFORMAT, "%s: a SpecialToken without an id", steps->field);
    }
    for (mc_json_iter it = mc_json_begin(special); mc_json_next(&it);) {
        if (!mc_str_eq(it.key, wanted)) continue;
        key = it.key;
        ids = mc_json_find(it.value, "ids");
    }
    if (!key.ptr || mc_json_get_type(ids) != MC_JSON_ARRAY) {
        return mc_fail(MICA_EFORMAT, "%s.special_tokens: no ids for '%.*s'", steps->field,
                       MC_STR_ARG(wanted));
    }
    for (mc_json_iter it = mc_json_begin(ids); mc_json_next(&it);) {
        int64_t id;
        if (!mc_json_get_int(it.value, &id) || !mc_vocab_token(vocab, id)) {
            return mc_fail(MICA_EFORMAT, "%s.special_tokens: an id of '%.*s' names no token",
                           steps->field, MC_STR_ARG(wanted));
        }
        MC_TRY(count_one(steps));
        if (!MC_BUFFER_PUSH(out, int32_t, (int32_t)id)) return mc_fail_nomem(steps->field);
    }
    return MICA_OK;
}

static mica_status read_single(const mc_steps *steps, mc_json v, const mc_vocab *vocab,
                               mc_template *t) {
    mc_json single = mc_json_find(v, "single"), special = mc_json_find(v, "special_tokens");
    size_t texts = 0;
    if (mc_json_get_type(single) != MC_JSON_ARRAY) {
        return mc_fail(MICA_EFORMAT, "%s.single: not an array", steps->field);
    }
    for (mc_json_iter it = mc_json_begin(single); mc_json_next(&it);) {
        mc_json token = mc_json_find(it.value, "SpecialToken");
        if (mc_json_exists(token)) {
            MC_TRY(count_one(steps));
            MC_TRY(add_special(steps, special, mc_json_find(token, "id"), vocab,
                               texts ? &t->after : &t->before));
            continue;
        }
        mc_str name;
        if (!mc_json_get_str(mc_json_find(mc_json_find(it.value, "Sequence"), "id"), &name)) {
            return mc_fail(MICA_EFORMAT, "%s.single: neither a SpecialToken nor a Sequence",
                           steps->field);
        }
        texts++;
    }
    if (texts == 1) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s.single: holds the text %zu times, not once", steps->field,
                   texts);
}

/* A template's ids go around those of the processors before it. */
static mica_status add_template(const mc_steps *steps, mc_json v) {
    parsing *p = steps->into;
    mc_template t = {0};
    mica_status status = read_single(steps, v, p->vocab, &t);
    if (status == MICA_OK && (!mc_buffer_add(&t.before, p->t->before.data, p->t->before.len) ||
                              !mc_buffer_reserve(&p->t->after, t.after.len))) {
        status = mc_fail_nomem(steps->field);
    }
    if (status == MICA_OK) {
        mc_buffer before = p->t->before;
        mc_buffer_add(&p->t->after, t.after.data, t.after.len);
        p->t->before = t.before;
        t.before = before;
    }
    mc_template_deinit(&t);
    return status;
}

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    if (mc_str_is(type, "TemplateProcessing")) return add_template(steps, v);
    if (mc_str_is(type, "ByteLevel")) return MICA_OK; /* changes offsets only */
    return mc_steps_unknown(steps, type);
}

mica_status mc_template_parse(mc_template *t, mc_json v, const mc_vocab *vocab, mc_store *store) {
    parsing p = {t, vocab, 0};
    return mc_steps_parse(&(mc_steps){"post_processor", "processors", store, &p, add}, v);
}

void mc_template_deinit(mc_template *t) {
    mc_buffer_deinit(&t->before);
    mc_buffer_deinit(&t->after);
}
