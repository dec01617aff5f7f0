/* Methods of strings, lists, dicts and loops. */
#include "text/jinja/jinja_container.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"
#include "text/unicode.h"

#include "base/utf8.h"

/* -- strings: parts -- */

static mc_str between(mc_str text, size_t from, size_t to) {
    return (mc_str){text.ptr + from, to - from};
}

static mc_jvalue strip(mc_jrun *r, const mc_jcall *c, mc_jside side) {
    mc_str chars = mc_jarg_str(r, c, 0, NULL);
    return mc_jstr(mc_jstr_strip(r, c->self.text, chars, side));
}

static mc_jvalue str_strip(mc_jrun *r, const mc_jcall *c) {
    return strip(r, c, MC_J_BOTH);
}

static mc_jvalue str_lstrip(mc_jrun *r, const mc_jcall *c) {
    return strip(r, c, MC_J_LEFT);
}

static mc_jvalue str_rstrip(mc_jrun *r, const mc_jcall *c) {
    return strip(r, c, MC_J_RIGHT);
}

/* Splits at runs of white space, from the left. */
static void split_words(mc_jrun *r, mc_str text, int64_t max, mc_jlist *parts) {
    text = mc_jstr_strip(r, text, (mc_str){0}, MC_J_LEFT);
    for (; text.len && max != 0 && r->status == MICA_OK; max--) {
        size_t end = mc_jstr_find_space(r, text);
        mc_jlist_push(r, parts, mc_jstr(between(text, 0, end)));
        text = mc_jstr_strip(r, between(text, end, text.len), (mc_str){0}, MC_J_LEFT);
    }
    if (text.len) mc_jlist_push(r, parts, mc_jstr(text));
}

static void split_at(mc_jrun *r, mc_str text, mc_str separator, int64_t max, mc_jlist *parts) {
    size_t from = 0;
    for (; max != 0 && r->status == MICA_OK; max--) {
        size_t at = mc_jstr_find(r, text, separator, from);
        if (at == SIZE_MAX) break;
        mc_jlist_push(r, parts, mc_jstr(between(text, from, at)));
        from = at + separator.len;
    }
    mc_jlist_push(r, parts, mc_jstr(between(text, from, text.len)));
}

static mc_jvalue str_split(mc_jrun *r, const mc_jcall *c) {
    mc_str separator = mc_jarg_str(r, c, 0, NULL);
    int64_t max = mc_jarg_int(r, c, 1, -1);
    mc_jlist *parts = mc_jlist_new(r);
    if (separator.ptr && !separator.len) mc_jerror(r, "empty separator");
    if (r->status != MICA_OK) return mc_jnone();
    if (separator.ptr) {
        split_at(r, c->self.text, separator, max, parts);
    } else {
        split_words(r, c->self.text, max, parts);
    }
    return mc_jlist_value(MC_J_LIST, parts);
}

/* The last `max` words, and before them the rest of the text as one part. */
static mc_jlist *last_words(mc_jrun *r, mc_str text, int64_t max) {
    mc_jlist *words = mc_jlist_new(r), *parts = mc_jlist_new(r);
    split_words(r, text, -1, words);
    size_t first = (uint64_t)max < words->count ? words->count - (size_t)max : 0;
    if (first > 0) { /* words point into the text */
        mc_str left = words->items[first - 1].text;
        mc_jlist_push(r, parts,
                      mc_jstr(between(text, 0, (size_t)(left.ptr - text.ptr) + left.len)));
    }
    for (; first < words->count; first++)
        mc_jlist_push(r, parts, words->items[first]);
    return parts;
}

/* Splits from the right: splits everywhere, then joins the leftmost parts again. */
static mc_jvalue str_rsplit(mc_jrun *r, const mc_jcall *c) {
    mc_str separator = mc_jarg_str(r, c, 0, NULL), rest = c->self.text;
    int64_t max = mc_jarg_int(r, c, 1, -1);
    mc_jlist *parts = mc_jlist_new(r), *ordered = mc_jlist_new(r);
    if (separator.ptr && !separator.len) mc_jerror(r, "empty separator");
    if (max < 0) return str_split(r, c);
    if (!separator.ptr) return mc_jlist_value(MC_J_LIST, last_words(r, rest, max));
    for (; max > 0 && r->status == MICA_OK; max--) {
        size_t at = mc_jstr_find_last(r, rest, separator);
        if (at == SIZE_MAX) break;
        mc_jlist_push(r, parts, mc_jstr(between(rest, at + separator.len, rest.len)));
        rest.len = at;
    }
    mc_jlist_push(r, ordered, mc_jstr(rest));
    for (size_t i = parts->count; i > 0 && r->status == MICA_OK; i--)
        mc_jlist_push(r, ordered, parts->items[i - 1]);
    return mc_jlist_value(MC_J_LIST, ordered);
}

static mc_jvalue str_splitlines(mc_jrun *r, const mc_jcall *c) {
    return mc_jlist_value(MC_J_LIST, mc_jstr_lines(r, c->self.text));
}

/* (before, separator, after). Without a separator the text is `before`, or `after` if `last`. */
static mc_jvalue partition(mc_jrun *r, const mc_jcall *c, bool last) {
    mc_str text = c->self.text, separator = mc_jarg_str(r, c, 0, ""), none = MC_STR("");
    mc_jlist *parts = mc_jlist_new(r);
    if (!separator.len) mc_jerror(r, "empty separator");
    if (r->status != MICA_OK) return mc_jnone();
    size_t at = last ? mc_jstr_find_last(r, text, separator) : mc_jstr_find(r, text, separator, 0);
    bool found = at != SIZE_MAX;
    mc_str before = found ? between(text, 0, at) : last ? none : text;
    mc_str after = found ? between(text, at + separator.len, text.len) : last ? text : none;
    mc_jlist_push(r, parts, mc_jstr(before));
    mc_jlist_push(r, parts, mc_jstr(found ? separator : none));
    mc_jlist_push(r, parts, mc_jstr(after));
    return mc_jlist_value(MC_J_TUPLE, parts);
}

static mc_jvalue str_partition(mc_jrun *r, const mc_jcall *c) {
    return partition(r, c, false);
}

static mc_jvalue str_rpartition(mc_jrun *r, const mc_jcall *c) {
    return partition(r, c, true);
}

static mc_jvalue str_removeprefix(mc_jrun *r, const mc_jcall *c) {
    mc_str text = c->self.text, prefix = mc_jarg_str(r, c, 0, "");
    return mc_jstr(mc_jstr_starts(r, text, prefix) ? between(text, prefix.len, text.len) : text);
}

static mc_jvalue str_removesuffix(mc_jrun *r, const mc_jcall *c) {
    mc_str text = c->self.text, suffix = mc_jarg_str(r, c, 0, "");
    return mc_jstr(mc_jstr_ends(r, text, suffix) ? between(text, 0, text.len - suffix.len) : text);
}

/* -- strings: finding and testing -- */

/* The part of a text that the second and third argument give: from, and to, a character. A start
 * behind the text's end is an end, too: `beyond`. */
static mc_str part_of(mc_jrun *r, const mc_jcall *c, size_t *before, bool *beyond) {
    *before = *beyond = 0;
    if (mc_jis(c->args[1], MC_J_ABSENT) && mc_jis(c->args[2], MC_J_ABSENT)) return c->self.text;
    int64_t count = (int64_t)mc_jstr_length(r, c->self.text);
    int64_t from = mc_jarg_int(r, c, 1, 0), to = mc_jarg_int(r, c, 2, count);
    if (from < 0) from = from + count < 0 ? 0 : from + count;
    if (to < 0) to = to + count < 0 ? 0 : to + count;
    *beyond = from > count || from > to;
    *before = mc_jstr_offset(r, c->self.text, (size_t)from);
    size_t end = mc_jstr_offset(r, c->self.text, (size_t)to);
    return between(c->self.text, *before, end < *before ? *before : end);
}

/* startswith and endswith: the argument is a string or a tuple of strings. */
static mc_jvalue any_end(mc_jrun *r, const mc_jcall *c,
                         bool (*has)(mc_jrun *r, mc_str text, mc_str part)) {
    size_t before;
    bool beyond;
    const mc_str text = part_of(r, c, &before, &beyond);
    const mc_jlist one = {.items = (mc_jvalue *)c->args, .count = 1};
    const mc_jlist *all = mc_jis(c->args[0], MC_J_TUPLE) ? c->args[0].list : &one;
    const mc_jcall each = {.args = all->items, .count = all->count};
    for (size_t i = 0; i < all->count && r->status == MICA_OK; i++)
        if (has(r, text, mc_jarg_str(r, &each, i, "")) && !beyond) return mc_jbool(true);
    return mc_jbool(false);
}

static mc_jvalue str_startswith(mc_jrun *r, const mc_jcall *c) {
    return any_end(r, c, mc_jstr_starts);
}

static mc_jvalue str_endswith(mc_jrun *r, const mc_jcall *c) {
    return any_end(r, c, mc_jstr_ends);
}

/* The index of the character at byte `at`; -1 if `at` is SIZE_MAX. */
static mc_jvalue place(mc_jrun *r, mc_str text, size_t at) {
    if (at == SIZE_MAX) return mc_jint(-1);
    return mc_jint((int64_t)mc_jstr_length(r, between(text, 0, at)));
}

static mc_jvalue find_in(mc_jrun *r, const mc_jcall *c, bool last) {
    size_t before;
    bool beyond;
    const mc_str text = part_of(r, c, &before, &beyond), sub = mc_jarg_str(r, c, 0, "");
    size_t at = last ? mc_jstr_find_last(r, text, sub) : mc_jstr_find(r, text, sub, 0);
    return place(r, c->self.text, beyond || at == SIZE_MAX ? SIZE_MAX : before + at);
}

static mc_jvalue str_find(mc_jrun *r, const mc_jcall *c) {
    return find_in(r, c, false);
}

static mc_jvalue str_rfind(mc_jrun *r, const mc_jcall *c) {
    return find_in(r, c, true);
}

static mc_jvalue found(mc_jrun *r, mc_jvalue at) {
    if (at.integer < 0) mc_jerror(r, "substring not found");
    return at;
}

static mc_jvalue str_index(mc_jrun *r, const mc_jcall *c) {
    return found(r, str_find(r, c));
}

static mc_jvalue str_rindex(mc_jrun *r, const mc_jcall *c) {
    return found(r, str_rfind(r, c));
}

static mc_jvalue str_count(mc_jrun *r, const mc_jcall *c) {
    size_t before;
    bool beyond;
    mc_str text = part_of(r, c, &before, &beyond), part = mc_jarg_str(r, c, 0, "");
    int64_t n = 0;
    if (beyond) return mc_jint(0);
    if (!part.len) return mc_jint((int64_t)mc_jstr_length(r, text) + 1);
    for (size_t at = 0; r->status == MICA_OK; n++, at += part.len) {
        at = mc_jstr_find(r, text, part, at);
        if (at == SIZE_MAX) break;
    }
    return mc_jint(n);
}

/* True if the text is not empty and every character is of the class. */
static mc_jvalue all_are(mc_jrun *r, mc_str text, bool (*is)(uint32_t c)) {
    for (size_t at = 0, n; at < text.len && r->status == MICA_OK; at += n) {
        uint32_t c = 0;
        n = mc_jstr_next(text, at);
        mc_utf8_decode(text.ptr + at, n, &c);
        mc_jcharge(r, 1);
        if (!is(c)) return mc_jbool(false);
    }
    return mc_jbool(text.len > 0);
}

static bool is_letter_or_number(uint32_t c) {
    return mc_is_letter(c) || mc_is_number(c);
}

static mc_jvalue str_isalpha(mc_jrun *r, const mc_jcall *c) {
    return all_are(r, c->self.text, mc_is_letter);
}

static mc_jvalue str_isalnum(mc_jrun *r, const mc_jcall *c) {
    return all_are(r, c->self.text, is_letter_or_number);
}

static mc_jvalue str_isdigit(mc_jrun *r, const mc_jcall *c) {
    return all_are(r, c->self.text, mc_is_number);
}

static mc_jvalue str_isspace(mc_jrun *r, const mc_jcall *c) {
    return all_are(r, c->self.text, mc_jis_space);
}

/* Calls the test of that name. */
static mc_jvalue tested(mc_jrun *r, const mc_jcall *c, mc_str name) {
    return mc_jcall_builtin(r, mc_jtest_find(name), c->self, &(mc_jlist){0}, NULL);
}

static mc_jvalue str_islower(mc_jrun *r, const mc_jcall *c) {
    return tested(r, c, MC_STR("lower"));
}

static mc_jvalue str_isupper(mc_jrun *r, const mc_jcall *c) {
    return tested(r, c, MC_STR("upper"));
}

/* -- strings: making -- */

static mc_jvalue str_upper(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, c->self.text, MC_J_UPPER);
}

static mc_jvalue str_lower(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, c->self.text, MC_J_LOWER);
}

static mc_jvalue str_capitalize(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, c->self.text, MC_J_CAPITALIZE);
}

static mc_jvalue str_title(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, c->self.text, MC_J_TITLE);
}

static mc_jvalue str_replace(mc_jrun *r, const mc_jcall *c) {
    mc_str old = mc_jarg_str(r, c, 0, ""), with = mc_jarg_str(r, c, 1, "");
    return mc_jstr_replace(r, c->self.text, old, with, mc_jarg_int(r, c, 2, -1));
}

static mc_jvalue str_join(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->args[0]);
    const mc_jcall each = {.args = items->items, .count = items->count};
    size_t mark = mc_jmark(r);
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        if (!mc_jis(items->items[i], MC_J_STR)) {
            mc_jerror(r, "sequence item %zu: expected str instance, %s found", i,
                      mc_jtype(items->items[i].kind));
        }
        if (i) mc_jput(r, c->self.text);
        mc_jput(r, mc_jarg_str(r, &each, i, ""));
    }
    return mc_jtake(r, mark);
}

static mc_jvalue str_format(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist args = {(mc_jvalue *)c->args, c->count, 0};
    return mc_jformat_braces(r, c->self.text, &args, c->named);
}

static const mc_jbuiltin str_methods[] = {
    {"capitalize", "", 0, str_capitalize},
    {"count", "sub start end", 1, str_count},
    {"endswith", "suffix start end", 1, str_endswith},
    {"find", "sub start end", 1, str_find},
    {"format", "*", 0, str_format},
    {"index", "sub start end", 1, str_index},
    {"isalnum", "", 0, str_isalnum},
    {"isalpha", "", 0, str_isalpha},
    {"isdigit", "", 0, str_isdigit},
    {"islower", "", 0, str_islower},
    {"isspace", "", 0, str_isspace},
    {"isupper", "", 0, str_isupper},
    {"join", "iterable", 1, str_join},
    {"lower", "", 0, str_lower},
    {"lstrip", "chars", 0, str_lstrip},
    {"partition", "sep", 1, str_partition},
    {"removeprefix", "prefix", 1, str_removeprefix},
    {"removesuffix", "suffix", 1, str_removesuffix},
    {"replace", "old new count", 2, str_replace},
    {"rfind", "sub start end", 1, str_rfind},
    {"rindex", "sub start end", 1, str_rindex},
    {"rpartition", "sep", 1, str_rpartition},
    {"rsplit", "sep maxsplit", 0, str_rsplit},
    {"rstrip", "chars", 0, str_rstrip},
    {"split", "sep maxsplit", 0, str_split},
    {"splitlines", "", 0, str_splitlines},
    {"startswith", "prefix start end", 1, str_startswith},
    {"strip", "chars", 0, str_strip},
    {"title", "", 0, str_title},
    {"upper", "", 0, str_upper},
};

/* -- lists -- */

static mc_jvalue list_index(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *list = c->self.list;
    for (size_t i = 0; i < list->count && r->status == MICA_OK; i++)
        if (mc_jequal(r, list->items[i], c->args[0])) return mc_jint((int64_t)i);
    mc_jerror(r, "the value is not in the list");
    return mc_jnone();
}

static mc_jvalue list_count(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *list = c->self.list;
    int64_t n = 0;
    for (size_t i = 0; i < list->count && r->status == MICA_OK; i++)
        n += mc_jequal(r, list->items[i], c->args[0]);
    return mc_jint(n);
}

static const mc_jbuiltin list_methods[] = {
    {"count", "value", 1, list_count},
    {"index", "value", 1, list_index},
};

/* -- dicts -- */

static mc_jvalue dict_get(mc_jrun *r, const mc_jcall *c) {
    const mc_jvalue *v = mc_jdict_find(r, c->self.dict, c->args[0]);
    if (v) return *v;
    return mc_jis(c->args[1], MC_J_ABSENT) ? mc_jnone() : c->args[1];
}

static mc_jvalue dict_keys(mc_jrun *r, const mc_jcall *c) {
    return mc_jlist_value(MC_J_LIST, mc_jelements(r, c->self));
}

static mc_jvalue dict_values(mc_jrun *r, const mc_jcall *c) {
    mc_jlist *values = mc_jlist_new(r);
    for (size_t i = 0; i < c->self.dict->count && r->status == MICA_OK; i++)
        mc_jlist_push(r, values, c->self.dict->pairs[i].value);
    return mc_jlist_value(MC_J_LIST, values);
}

/* A list: unlike the filter's result, it can be iterated more than once. */
static mc_jvalue dict_items(mc_jrun *r, const mc_jcall *c) {
    return mc_jlist_value(MC_J_LIST, mc_jseq_items(r, c).list);
}

static mc_jvalue dict_copy(mc_jrun *r, const mc_jcall *c) {
    (void)r; /* dicts do not change */
    return c->self;
}

static const mc_jbuiltin dict_methods[] = {
    {"copy", "", 0, dict_copy}, {"get", "key default", 1, dict_get}, {"items", "", 0, dict_items},
    {"keys", "", 0, dict_keys}, {"values", "", 0, dict_values},
};

/* -- loops -- */

static mc_jvalue loop_cycle(mc_jrun *r, const mc_jcall *c) {
    if (!c->count) mc_jerror(r, "no items for cycling given");
    return c->count ? c->args[c->self.loop->index % c->count] : mc_jnone();
}

/* True in the first iteration, and if the arguments differ from the last call's. */
static mc_jvalue loop_changed(mc_jrun *r, const mc_jcall *c) {
    mc_jlist *now = mc_jlist_new(r);
    for (size_t i = 0; i < c->count; i++)
        mc_jlist_push(r, now, c->args[i]);
    mc_jvalue seen = mc_jlist_value(MC_J_TUPLE, now);
    bool changed = !mc_jequal(r, c->self.loop->changed, seen);
    c->self.loop->changed = seen;
    return mc_jbool(changed);
}

static const mc_jbuiltin loop_methods[] = {
    {"changed", "*", 0, loop_changed},
    {"cycle", "*", 0, loop_cycle},
};

const mc_jbuiltin *mc_jmethod_find(mc_jkind kind, mc_str name) {
#define FIND(rows) mc_jbuiltin_find(rows, sizeof(rows) / sizeof *(rows), name)
    switch (kind) {
    case MC_J_STR:
        return FIND(str_methods);
    case MC_J_LIST:
    case MC_J_TUPLE:
        return FIND(list_methods);
    case MC_J_DICT:
        return FIND(dict_methods);
    case MC_J_LOOP:
        return FIND(loop_methods);
    default:
        return NULL;
    }
#undef FIND
}
