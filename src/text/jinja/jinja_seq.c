/* Filters of sequences. */
#include "text/jinja/jinja_container.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

static mc_jvalue list_value(const mc_jlist *list) {
    return mc_jlist_value(MC_J_LIST, (mc_jlist *)list);
}

static mc_jvalue iterator(mc_jlist *list) {
    return mc_jlist_value(MC_J_ITERATOR, list);
}

static bool is_given(mc_jvalue v) {
    return !mc_jis(v, MC_J_ABSENT) && !mc_jis(v, MC_J_NONE);
}

/* The part of v that the argument `attribute` names: "a.0.b" or a number; absent: v itself. */
static mc_jvalue attribute_of(mc_jrun *r, mc_jvalue v, mc_jvalue attribute) {
    if (!is_given(attribute)) return v;
    if (mc_jis(attribute, MC_J_STR)) return mc_jget_path(r, v, attribute.text);
    return mc_jget_item(r, v, attribute);
}

/* -- one element -- */

mc_jvalue mc_jseq_length(mc_jrun *r, const mc_jcall *c) {
    return mc_jint((int64_t)mc_jlength(r, c->self));
}

mc_jvalue mc_jseq_first(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    if (items->count) return items->items[0];
    return mc_jundefined(MC_J_HINT, MC_J_NONE, MC_STR("No first item, sequence was empty."));
}

mc_jvalue mc_jseq_last(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    if (items->count) return items->items[items->count - 1];
    return mc_jundefined(MC_J_HINT, MC_J_NONE, MC_STR("No last item, sequence was empty."));
}

/* -- by keys -- */

/* The key of an element: its attribute, with strings in lower case unless case matters. */
static mc_jvalue sort_key(mc_jrun *r, mc_jvalue v, mc_jvalue attribute, bool case_sensitive) {
    v = attribute_of(r, v, attribute);
    return mc_jis(v, MC_J_STR) && !case_sensitive ? mc_jstr_case(r, v.text, MC_J_LOWER) : v;
}

/* Sorts pairs of key and element, stable also in reverse: a bottom-up merge sort. */
static mc_jpair *sort_pairs(mc_jrun *r, mc_jpair *pairs, size_t count, bool reverse) {
    mc_jpair *spare = mc_jalloc(r, count * sizeof *spare);
    for (size_t run = 1; spare && run < count && r->status == MICA_OK; run *= 2) {
        for (size_t start = 0; start < count; start += 2 * run) {
            size_t middle = start + run < count ? start + run : count;
            size_t end = middle + run < count ? middle + run : count, a = start, b = middle;
            for (size_t at = start; at < end; at++) {
                bool second = a == middle;
                if (a < middle && b < end) {
                    int order = mc_jcompare(r, pairs[b].key, pairs[a].key);
                    second = reverse ? order > 0 : order < 0;
                }
                spare[at] = second ? pairs[b++] : pairs[a++];
            }
        }
        mc_jpair *sorted = spare;
        spare = pairs;
        pairs = sorted;
    }
    return pairs;
}

/* The elements with their keys, in an array; NULL: no elements. */
static mc_jpair *keyed(mc_jrun *r, const mc_jlist *items, mc_jvalue attribute,
                       bool case_sensitive) {
    mc_jpair *pairs = items->count ? mc_jalloc(r, items->count * sizeof *pairs) : NULL;
    for (size_t i = 0; pairs && i < items->count && r->status == MICA_OK; i++) {
        pairs[i].key = sort_key(r, items->items[i], attribute, case_sensitive);
        pairs[i].value = items->items[i];
    }
    return pairs;
}

mc_jvalue mc_jseq_sort(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    mc_jlist *sorted = mc_jlist_new(r);
    mc_jpair *pairs = keyed(r, items, c->args[2], mc_jarg_truth(c, 1));
    if (pairs) pairs = sort_pairs(r, pairs, items->count, mc_jarg_truth(c, 0));
    for (size_t i = 0; pairs && i < items->count; i++)
        mc_jlist_push(r, sorted, pairs[i].value);
    return list_value(sorted);
}

/* Sorts a dict by key, or by value if `by` is "value"; gives tuples. */
mc_jvalue mc_jseq_dictsort(mc_jrun *r, const mc_jcall *c) {
    mc_str by = mc_jarg_str(r, c, 1, "key");
    bool value = mc_str_is(by, "value");
    if (!mc_jis(c->self, MC_J_DICT)) {
        mc_jerror(r, "dictsort: expected a mapping, not %s", mc_jtype(c->self.kind));
    } else if (!value && !mc_str_is(by, "key")) {
        mc_jerror(r, "You can only sort by either \"key\" or \"value\"");
    }
    if (r->status != MICA_OK) return mc_jnone();
    mc_jlist *tuples = mc_jlist_new(r), *sorted = mc_jlist_new(r);
    for (size_t i = 0; i < c->self.dict->count && r->status == MICA_OK; i++) {
        mc_jpair pair = c->self.dict->pairs[i];
        mc_jlist_push(r, tuples, mc_jpair_value(r, pair.key, pair.value));
    }
    mc_jpair *pairs = keyed(r, tuples, mc_jint(value), mc_jarg_truth(c, 0));
    if (pairs) pairs = sort_pairs(r, pairs, tuples->count, mc_jarg_truth(c, 2));
    for (size_t i = 0; pairs && i < tuples->count; i++)
        mc_jlist_push(r, sorted, pairs[i].value);
    return list_value(sorted);
}

static mc_jvalue extreme(mc_jrun *r, const mc_jcall *c, bool max) {
    const mc_jlist *items = mc_jelements(r, c->self);
    const mc_jpair *pairs = keyed(r, items, c->args[1], mc_jarg_truth(c, 0));
    size_t best = 0;
    if (!pairs) {
        return mc_jundefined(MC_J_HINT, MC_J_NONE,
                             MC_STR("No aggregated item, sequence was empty."));
    }
    for (size_t i = 1; i < items->count && r->status == MICA_OK; i++) {
        int order = mc_jcompare(r, pairs[i].key, pairs[best].key);
        if (max ? order > 0 : order < 0) best = i;
    }
    return pairs[best].value;
}

mc_jvalue mc_jseq_max(mc_jrun *r, const mc_jcall *c) {
    return extreme(r, c, true);
}

mc_jvalue mc_jseq_min(mc_jrun *r, const mc_jcall *c) {
    return extreme(r, c, false);
}

mc_jvalue mc_jseq_unique(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    mc_jlist *some = mc_jlist_new(r);
    mc_jdict seen = {0};
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        mc_jvalue key = sort_key(r, items->items[i], c->args[1], mc_jarg_truth(c, 0));
        size_t before = seen.count;
        mc_jdict_put(r, &seen, key, mc_jnone());
        if (seen.count > before) mc_jlist_push(r, some, items->items[i]);
    }
    return iterator(some);
}

/* -- all elements -- */

mc_jvalue mc_jseq_list(mc_jrun *r, const mc_jcall *c) {
    return list_value(mc_jelements(r, c->self));
}

mc_jvalue mc_jseq_reverse(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    mc_jlist *reversed = mc_jlist_new(r);
    size_t mark = mc_jmark(r);
    for (size_t i = items->count; i > 0 && r->status == MICA_OK; i--) {
        if (mc_jis(c->self, MC_J_STR)) {
            mc_jput(r, items->items[i - 1].text);
        } else {
            mc_jlist_push(r, reversed, items->items[i - 1]);
        }
    }
    return mc_jis(c->self, MC_J_STR) ? mc_jtake(r, mark) : iterator(reversed);
}

mc_jvalue mc_jseq_items(mc_jrun *r, const mc_jcall *c) {
    mc_jlist *pairs = mc_jlist_new(r);
    if (!mc_jis(c->self, MC_J_DICT)) {
        if (!mc_jis(c->self, MC_J_UNDEFINED))
            mc_jerror(r, "Can only get item pairs from a mapping.");
        return iterator(pairs);
    }
    for (size_t i = 0; i < c->self.dict->count && r->status == MICA_OK; i++) {
        mc_jpair pair = c->self.dict->pairs[i];
        mc_jlist_push(r, pairs, mc_jpair_value(r, pair.key, pair.value));
    }
    return iterator(pairs);
}

mc_jvalue mc_jseq_join(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    mc_str between = mc_jis(c->args[0], MC_J_ABSENT) ? MC_STR("") : mc_jto_str(r, c->args[0]).text;
    size_t mark = mc_jmark(r);
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        if (i) mc_jput(r, between);
        mc_jput_value(r, attribute_of(r, items->items[i], c->args[1]));
    }
    return mc_jtake(r, mark);
}

mc_jvalue mc_jseq_sum(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    mc_jvalue sum = mc_jis(c->args[1], MC_J_ABSENT) ? mc_jint(0) : c->args[1];
    if (mc_jis(sum, MC_J_STR)) mc_jerror(r, "sum() can't sum strings");
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        mc_jcharge(r, 2);
        sum = mc_jbinary(r, MC_OP_ADD, sum, attribute_of(r, items->items[i], c->args[0]));
    }
    return sum;
}

/* Lists of `linecount` elements. The last one is filled up with `fill_with`, if given. */
mc_jvalue mc_jseq_batch(mc_jrun *r, const mc_jcall *c) {
    const mc_jlist *items = mc_jelements(r, c->self);
    int64_t size = mc_jarg_int(r, c, 0, 0);
    mc_jlist *batches = mc_jlist_new(r), *batch = NULL;
    if (size < 1) mc_jerror(r, "batch: linecount is at least 1");
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        if (!batch || batch->count == (uint64_t)size) {
            batch = mc_jlist_new(r);
            mc_jlist_push(r, batches, list_value(batch));
        }
        mc_jlist_push(r, batch, items->items[i]);
    }
    bool fills = batch && is_given(c->args[1]);
    while (fills && batch->count < (uint64_t)size && r->status == MICA_OK)
        mc_jlist_push(r, batch, c->args[1]);
    return iterator(batches);
}

/* -- by filters and tests -- */

/* The filter or test that argument `at` names. The arguments after it are its own. */
static const mc_jbuiltin *named_builtin(mc_jrun *r, const mc_jcall *c, size_t at,
                                        const mc_jbuiltin *(*find)(mc_str name), mc_jlist *args) {
    mc_jvalue name = c->args[at];
    const mc_jbuiltin *found = mc_jis(name, MC_J_STR) ? find(name.text) : NULL;
    mc_jcharge(r, 8);
    if (!found) mc_jerror(r, "there is no filter or test of this name");
    *args = (mc_jlist){(mc_jvalue *)c->args + at + 1, c->count - at - 1, 0};
    return found;
}

/* The elements for `map` and `select`, to which what is false has none. */
static const mc_jlist *elements_of(mc_jrun *r, mc_jvalue v) {
    return mc_jtruth(v) ? mc_jelements(r, v) : mc_jlist_new(r);
}

/* map(attribute="a", default=...) or map("filter", arguments ...). */
mc_jvalue mc_jseq_map(mc_jrun *r, const mc_jcall *c) {
    const mc_jvalue *attribute = mc_jdict_find_str(r, c->named, MC_STR("attribute"));
    const mc_jvalue *without = mc_jdict_find_str(r, c->named, MC_STR("default"));
    const mc_jlist *items = elements_of(r, c->self);
    mc_jlist *mapped = mc_jlist_new(r), args = {0};
    const mc_jbuiltin *filter = NULL;
    if (c->count) {
        filter = named_builtin(r, c, 0, mc_jfilter_find, &args);
    } else if (!attribute || c->named->count != 1 + (without != NULL)) {
        mc_jerror(r, "map requires a filter argument");
    }
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        mc_jvalue v = items->items[i];
        if (filter) {
            v = mc_jcall_builtin(r, filter, v, &args, c->named);
        } else {
            v = attribute_of(r, v, *attribute);
            if (without && mc_jis(v, MC_J_UNDEFINED)) v = *without;
        }
        mc_jlist_push(r, mapped, v);
    }
    return iterator(mapped);
}

/* The elements whose test (or truth), of themselves or of an attribute, is `wanted`. */
static mc_jvalue choose(mc_jrun *r, const mc_jcall *c, bool by_attribute, bool wanted) {
    const mc_jlist *items = elements_of(r, c->self);
    mc_jlist *some = mc_jlist_new(r), args = {0};
    const mc_jbuiltin *test = NULL;
    size_t at = by_attribute ? 1 : 0;
    if (c->count < at) mc_jerror(r, "Missing parameter for attribute name");
    if (c->count > at) test = named_builtin(r, c, at, mc_jtest_find, &args);
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        mc_jvalue v = items->items[i];
        mc_jcharge(r, 1);
        if (by_attribute) v = attribute_of(r, v, c->args[0]);
        if (test) v = mc_jcall_builtin(r, test, v, &args, c->named);
        if (mc_jtruth(v) == wanted) mc_jlist_push(r, some, items->items[i]);
    }
    return iterator(some);
}

mc_jvalue mc_jseq_select(mc_jrun *r, const mc_jcall *c) {
    return choose(r, c, false, true);
}

mc_jvalue mc_jseq_reject(mc_jrun *r, const mc_jcall *c) {
    return choose(r, c, false, false);
}

mc_jvalue mc_jseq_selectattr(mc_jrun *r, const mc_jcall *c) {
    return choose(r, c, true, true);
}

mc_jvalue mc_jseq_rejectattr(mc_jrun *r, const mc_jcall *c) {
    return choose(r, c, true, false);
}
