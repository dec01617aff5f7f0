/* Global functions. */
#include "text/jinja/jinja_container.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

enum { MAX_RANGE = 100000 }; /* the limit of Jinja's sandbox */

static mc_jvalue call_range(mc_jrun *r, const mc_jcall *c) {
    bool one = c->args[1].kind == MC_J_ABSENT;
    int64_t start = one ? 0 : mc_jarg_int(r, c, 0, 0), stop = mc_jarg_int(r, c, one ? 0 : 1, 0);
    int64_t step = mc_jarg_int(r, c, 2, 1);
    mc_jlist *list = mc_jlist_new(r);
    if (step == 0) mc_jerror(r, "range() arg 3 must not be zero");
    for (int64_t i = start; r->status == MICA_OK && (step > 0 ? i < stop : i > stop);) {
        if (list->count == MAX_RANGE)
            mc_jerror(r, "range too big: it may have %d elements", MAX_RANGE);
        mc_jlist_push(r, list, mc_jint(i));
        if (step > 0 ? i > INT64_MAX - step : i < INT64_MIN - step) break;
        i += step;
    }
    return mc_jlist_value(MC_J_LIST, list);
}

/* Adds a pair of the list given to dict(). */
static void put_pair(mc_jrun *r, mc_jdict *dict, mc_jvalue pair) {
    const mc_jlist *parts = mc_jelements(r, pair);
    if (r->status == MICA_OK && parts->count == 2) {
        mc_jdict_put(r, dict, parts->items[0], parts->items[1]);
    } else {
        mc_jerror(r, "dict: expected pairs of a key and a value");
    }
}

/* dict(mapping or pairs, **named) */
static mc_jdict *make_dict(mc_jrun *r, const mc_jcall *c) {
    mc_jdict *dict = mc_jdict_new(r);
    if (c->count > 1) mc_jerror(r, "expected at most 1 argument, got %zu", c->count);
    if (c->count && mc_jis(c->args[0], MC_J_DICT)) {
        const mc_jdict *from = c->args[0].dict;
        for (size_t i = 0; i < from->count && r->status == MICA_OK; i++)
            mc_jdict_put(r, dict, from->pairs[i].key, from->pairs[i].value);
    } else if (c->count) {
        const mc_jlist *pairs = mc_jelements(r, c->args[0]);
        for (size_t i = 0; i < pairs->count && r->status == MICA_OK; i++)
            put_pair(r, dict, pairs->items[i]);
    }
    for (size_t i = 0; i < c->named->count && r->status == MICA_OK; i++)
        mc_jdict_put(r, dict, c->named->pairs[i].key, c->named->pairs[i].value);
    return dict;
}

static mc_jvalue call_dict(mc_jrun *r, const mc_jcall *c) {
    return mc_jdict_value(MC_J_DICT, make_dict(r, c));
}

static mc_jvalue call_namespace(mc_jrun *r, const mc_jcall *c) {
    return mc_jdict_value(MC_J_NAMESPACE, make_dict(r, c));
}

static mc_jvalue call_raise_exception(mc_jrun *r, const mc_jcall *c) {
    mc_str text = mc_jto_str(r, c->args[0]).text;
    mc_jerror(r, "%.*s", MC_STR_ARG(text));
    return mc_jnone();
}

static mc_jvalue call_strftime_now(mc_jrun *r, const mc_jcall *c) {
    return mc_jformat_time(r, mc_jarg_str(r, c, 0, ""), r->options->now);
}

static const mc_jbuiltin globals[] = {
    {"dict", "*", 0, call_dict},
    {"namespace", "*", 0, call_namespace},
    {"raise_exception", "message", 1, call_raise_exception},
    {"range", "start stop step", 1, call_range},
    {"strftime_now", "format", 1, call_strftime_now},
};

const mc_jbuiltin *mc_jglobal_find(mc_str name) {
    return mc_jbuiltin_find(globals, sizeof globals / sizeof *globals, name);
}
