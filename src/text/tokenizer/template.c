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

/* special_tokens[name].ids */
static mica_status find_special(const mc_steps *steps, mc_json special, mc_json name, mc_json *ids,
                                mc_str *wanted) {
    if (!mc_json_get_str(name, wanted))
        return mc_fail(MICA_EFORMAT, "%s: a SpecialToken without an id", steps->field);
    *ids = (mc_json){0};
    for (mc_json_iter it = mc_json_begin(special); mc_json_next(&it);) {
        if (mc_str_eq(it.key, *wanted)) *ids = mc_json_find(it.value, "ids");
    }
    if (mc_json_get_type(*ids) == MC_JSON_ARRAY) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s.special_tokens: no ids for '%.*s'", steps->field,
                   MC_STR_ARG(*wanted));
}

static mica_status add_part(const mc_steps *steps, int32_t id, int32_t type, mc_buffer *parts) {
    const mc_template_part part = {id, type};
    MC_TRY(count_one(steps));
    return mc_buffer_add(parts, &part, sizeof part) ? MICA_OK : mc_fail_nomem(steps->field);
}

static mica_status add_special(const mc_steps *steps, mc_json special, mc_json name, int32_t type,
                               mc_buffer *parts) {
    const parsing *p = steps->into;
    mc_str wanted;
    mc_json ids;
    MC_TRY(find_special(steps, special, name, &ids, &wanted));
    MC_TRY(count_one(steps));
    for (mc_json_iter it = mc_json_begin(ids); mc_json_next(&it);) {
        int64_t id;
        if (!mc_json_get_int(it.value, &id) || !mc_vocab_token(p->vocab, id)) {
            return mc_fail(MICA_EFORMAT, "%s.special_tokens: an id of '%.*s' names no token",
                           steps->field, MC_STR_ARG(wanted));
        }
        MC_TRY(add_part(steps, (int32_t)id, type, parts));
    }
    return MICA_OK;
}

/* "type_id", 0 where it is missing. */
static mica_status read_type(const mc_steps *steps, mc_json v, int32_t *type) {
    size_t id = 0;
    MC_TRY(mc_steps_size(steps, v, "type_id", &id));
    *type = (int32_t)id;
    return MICA_OK;
}

static mica_status add_text(const mc_steps *steps, mc_json v, const char *field, mc_buffer *parts) {
    mc_str name;
    int32_t type;
    bool named = mc_json_get_str(mc_json_find(v, "id"), &name);
    if (!named || (!mc_str_is(name, "A") && !mc_str_is(name, "B"))) {
        return mc_fail(MICA_EFORMAT, "%s.%s: neither a SpecialToken nor a Sequence", steps->field,
                       field);
    }
    MC_TRY(read_type(steps, v, &type));
    return add_part(steps, mc_str_is(name, "A") ? MC_PART_FIRST : MC_PART_SECOND, type, parts);
}

/* Reads "single" or "pair". */
static mica_status read_parts(const mc_steps *steps, mc_json v, const char *field,
                              mc_buffer *parts) {
    mc_json list = mc_json_find(v, field), special = mc_json_find(v, "special_tokens");
    if (mc_json_get_type(list) != MC_JSON_ARRAY)
        return mc_fail(MICA_EFORMAT, "%s.%s: not an array", steps->field, field);
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        mc_json token = mc_json_find(it.value, "SpecialToken");
        int32_t type;
        if (!mc_json_exists(token)) {
            MC_TRY(add_text(steps, mc_json_find(it.value, "Sequence"), field, parts));
            continue;
        }
        MC_TRY(read_type(steps, token, &type));
        MC_TRY(add_special(steps, special, mc_json_find(token, "id"), type, parts));
    }
    return MICA_OK;
}

static size_t count_parts(const mc_buffer *parts, int32_t id) {
    size_t count = 0;
    for (size_t i = 0; i < MC_BUFFER_COUNT(parts, mc_template_part); i++)
        count += MC_BUFFER_AT(parts, mc_template_part)[i].id == id;
    return count;
}

static mica_status check_texts(const mc_steps *steps, const mc_buffer *parts, const char *field,
                               size_t seconds) {
    size_t first = count_parts(parts, MC_PART_FIRST), second = count_parts(parts, MC_PART_SECOND);
    if (first == 1 && second == seconds) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s.%s: holds the text %zu times, not once", steps->field,
                   field, first == 1 ? second : first);
}

/* Puts the ids of a single text's parts before or after those of the processors before. */
static mica_status wrap(const mc_steps *steps, const mc_buffer *parts) {
    mc_template *t = ((parsing *)steps->into)->t;
    mc_buffer before = {0};
    bool ok = true, after = false;
    for (size_t i = 0; ok && i < MC_BUFFER_COUNT(parts, mc_template_part); i++) {
        int32_t id = MC_BUFFER_AT(parts, mc_template_part)[i].id;
        if (id == MC_PART_FIRST) {
            after = true;
        } else {
            ok = MC_BUFFER_PUSH(after ? &t->after : &before, int32_t, id);
        }
    }
    ok = ok && mc_buffer_add(&before, t->before.data, t->before.len);
    mc_buffer_deinit(&t->before);
    t->before = before;
    return ok ? MICA_OK : mc_fail_nomem(steps->field);
}

static mica_status add_template(const mc_steps *steps, mc_json v) {
    parsing *p = steps->into;
    mc_buffer single = {0};
    mica_status status = read_parts(steps, v, "single", &single);
    if (status == MICA_OK) status = check_texts(steps, &single, "single", 0);
    if (status == MICA_OK) status = wrap(steps, &single);
    mc_buffer_deinit(&single);
    if (status != MICA_OK || p->t->processors++ || !mc_json_exists(mc_json_find(v, "pair")))
        return status;
    MC_TRY(read_parts(steps, v, "pair", &p->t->pair));
    return check_texts(steps, &p->t->pair, "pair", 1);
}

/* Reads "cls" or "sep": a token and its id. */
static mica_status read_edge(const mc_steps *steps, mc_json v, const char *key, int32_t *out) {
    const parsing *p = steps->into;
    int64_t id = -1;
    mc_json_iter it = mc_json_begin(mc_json_find(v, key));
    if (!mc_json_next(&it) || !mc_json_next(&it) || !mc_json_get_int(it.value, &id) ||
        !mc_vocab_token(p->vocab, id))
        return mc_fail(MICA_EFORMAT, "%s: '%s' is not a token and its id", steps->field, key);
    *out = (int32_t)id;
    return MICA_OK;
}

/* BertProcessing and RobertaProcessing: cls, text, sep. The second text of a pair follows after
 * `seps` more of sep, and is of the given type. */
static mica_status add_edges(const mc_steps *steps, mc_json v, int seps, int32_t type) {
    mc_template *t = ((parsing *)steps->into)->t;
    int32_t cls, sep;
    MC_TRY(read_edge(steps, v, "cls", &cls));
    MC_TRY(read_edge(steps, v, "sep", &sep));
    mc_template_part parts[] = {{cls, 0}, {MC_PART_FIRST, 0},     {sep, 0},
                                {sep, 0}, {MC_PART_SECOND, type}, {sep, type}};
    const mc_buffer single = {(char *)(void *)parts, 3 * sizeof *parts, 0};
    MC_TRY(wrap(steps, &single));
    if (t->processors++) return MICA_OK;
    for (int i = 0; i < 6; i++) {
        if (i == 3 && seps == 0) continue;
        MC_TRY(add_part(steps, parts[i].id, parts[i].type, &t->pair));
    }
    return MICA_OK;
}

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    if (mc_str_is(type, "TemplateProcessing")) return add_template(steps, v);
    if (mc_str_is(type, "BertProcessing")) return add_edges(steps, v, 0, 1);
    if (mc_str_is(type, "RobertaProcessing")) return add_edges(steps, v, 1, 0);
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
    mc_buffer_deinit(&t->pair);
}

size_t mc_template_around_pair(const mc_template *t) {
    size_t parts = MC_BUFFER_COUNT(&t->pair, mc_template_part);
    return parts ? parts - 2 : 0;
}

static bool add_ids(const int32_t *add, size_t n, int32_t type, mc_buffer *ids, mc_buffer *types) {
    if (!mc_buffer_reserve(types, n * sizeof type)) return false;
    for (size_t i = 0; i < n; i++)
        mc_buffer_add(types, &type, sizeof type);
    return n == 0 || mc_buffer_add(ids, add, n * sizeof *add);
}

mica_status mc_template_join(const mc_template *t, const int32_t *first, size_t n_first,
                             const int32_t *second, size_t n_second, mc_buffer *ids,
                             mc_buffer *types) {
    static const mc_template_part plain[] = {{MC_PART_FIRST, 0}, {MC_PART_SECOND, 1}};
    size_t count = MC_BUFFER_COUNT(&t->pair, mc_template_part);
    const mc_template_part *parts = count ? MC_BUFFER_AT(&t->pair, mc_template_part) : plain;
    if (t->processors > 1 || (t->processors && !count))
        return mc_fail(MICA_EUNSUPPORTED, "post_processor: pairs of texts are not supported");
    for (size_t i = 0; i < (count ? count : 2); i++) {
        mc_template_part p = parts[i];
        bool a = p.id == MC_PART_FIRST, b = p.id == MC_PART_SECOND;
        if (!add_ids(a   ? first
                     : b ? second
                         : &p.id,
                     a   ? n_first
                     : b ? n_second
                         : 1,
                     p.type, ids, types))
            return mc_fail_nomem("ids");
    }
    return MICA_OK;
}
