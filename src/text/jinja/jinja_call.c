/* Calls of builtins: arguments are matched to parameters. */
#include "text/jinja/jinja_run.h"

const mc_jbuiltin *mc_jbuiltin_find(const mc_jbuiltin *rows, size_t n, mc_str name) {
    for (size_t i = 0; i < n; i++)
        if (mc_str_is(name, rows[i].name)) return &rows[i];
    return NULL;
}

/* Takes the next name of a list separated by spaces; false at the end. */
static bool next_param(const char **params, mc_str *name) {
    size_t len = strcspn(*params, " ");
    *name = (mc_str){*params, len};
    *params += len + ((*params)[len] == ' ');
    return len > 0;
}

/* Fills places[0 .. count) and returns the number of named arguments that were used. */
static size_t place_args(mc_jrun *r, const mc_jbuiltin *b, const mc_jlist *args,
                         const mc_jdict *named, mc_jvalue *places, size_t *count) {
    const char *params = b->params;
    size_t used = 0;
    for (mc_str name; *count < MC_J_MAX_PARAMS && next_param(&params, &name); (*count)++) {
        mc_jvalue *place = &places[*count];
        const mc_jvalue *given = mc_jdict_find_str(r, named, name);
        bool twice = given && *count < args->count;
        *place = (mc_jvalue){.kind = MC_J_ABSENT};
        if (given) used++;
        if (*count < args->count) given = &args->items[*count];
        if (given) *place = *given;
        if (twice) mc_jerror(r, "%s: '%.*s' is given twice", b->name, MC_STR_ARG(name));
        if (!given && *count < b->required)
            mc_jerror(r, "%s: '%.*s' is missing", b->name, MC_STR_ARG(name));
    }
    return used;
}

static mc_jvalue call_placed(mc_jrun *r, const mc_jbuiltin *b, mc_jvalue self, const mc_jlist *args,
                             const mc_jdict *named) {
    mc_jvalue places[MC_J_MAX_PARAMS];
    size_t count = 0, used = place_args(r, b, args, named, places, &count);
    if (args->count > count) {
        mc_jerror(r, "%s takes at most %zu arguments (%zu given)", b->name, count, args->count);
    } else if (used < named->count) {
        mc_jerror(r, "%s was given a keyword argument that it does not take", b->name);
    }
    const mc_jcall call = {self, places, count, named};
    return r->status == MICA_OK ? b->call(r, &call) : mc_jnone();
}

mc_jvalue mc_jcall_builtin(mc_jrun *r, const mc_jbuiltin *b, mc_jvalue self, const mc_jlist *args,
                           const mc_jdict *named) {
    static const mc_jdict none = {0};
    if (!named) named = &none;
    if (!mc_jenter(r)) return mc_jnone();
    mc_jvalue v;
    if (b->params[0] == '*') {
        const mc_jcall call = {self, args->items, args->count, named};
        v = b->call(r, &call);
    } else {
        v = call_placed(r, b, self, args, named);
    }
    mc_jleave(r);
    return v;
}

static bool is_given(const mc_jcall *c, size_t i) {
    return i < c->count && !mc_jis(c->args[i], MC_J_ABSENT);
}

int64_t mc_jarg_int(mc_jrun *r, const mc_jcall *c, size_t i, int64_t otherwise) {
    if (!is_given(c, i) || mc_jis(c->args[i], MC_J_NONE)) return otherwise;
    mc_jvalue v = c->args[i];
    if (mc_jis(v, MC_J_INT) || mc_jis(v, MC_J_BOOL)) return mc_jinteger(v);
    if (mc_jis(v, MC_J_UNDEFINED)) {
        mc_jfail_undefined(r, v);
    } else {
        mc_jerror(r, "'%s' object cannot be interpreted as an integer", mc_jtype(v.kind));
    }
    return otherwise;
}

mc_str mc_jarg_str(mc_jrun *r, const mc_jcall *c, size_t i, const char *otherwise) {
    mc_str text = otherwise ? mc_str_of(otherwise) : (mc_str){0};
    if (!is_given(c, i) || mc_jis(c->args[i], MC_J_NONE)) return text;
    mc_jvalue v = c->args[i];
    if (mc_jis(v, MC_J_STR)) return v.text;
    if (mc_jis(v, MC_J_UNDEFINED)) {
        mc_jfail_undefined(r, v);
    } else {
        mc_jerror(r, "expected a string, not %s", mc_jtype(v.kind));
    }
    return text;
}

bool mc_jarg_truth(const mc_jcall *c, size_t i) {
    return is_given(c, i) && mc_jtruth(c->args[i]);
}
