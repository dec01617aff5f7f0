#include "text/jinja/jinja_container.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

/* -- names -- */

static mc_jvalue eval_const(mc_jrun *r, const mc_jnode *n) {
    (void)r;
    return n->value;
}

/* Looks a name up. Inner scopes hide outer ones, and variables hide global functions. */
static mc_jvalue eval_name(mc_jrun *r, const mc_jnode *n) {
    for (const mc_jscope *scope = r->scope; scope; scope = scope->outer) {
        const mc_jvalue *v = mc_jdict_find_str(r, &scope->names, n->name);
        if (v) return *v;
    }
    bool clock = !mc_str_is(n->name, "strftime_now") || r->options->now;
    const mc_jbuiltin *builtin = clock ? mc_jglobal_find(n->name) : NULL;
    if (builtin) return (mc_jvalue){.kind = MC_J_FUNCTION, .function = {builtin, NULL}};
    return mc_jundefined(MC_J_NO_VARIABLE, MC_J_NONE, n->name);
}

/* -- containers -- */

static mc_jvalue eval_list(mc_jrun *r, const mc_jnode *n) {
    mc_jlist *list = mc_jlist_new(r);
    for (const mc_jnode *item = n->a; item && r->status == MICA_OK; item = item->next)
        mc_jlist_push(r, list, mc_jeval(r, item));
    return mc_jlist_value(n->kind == MC_N_TUPLE ? MC_J_TUPLE : MC_J_LIST, list);
}

static mc_jvalue eval_dict(mc_jrun *r, const mc_jnode *n) {
    mc_jdict *dict = mc_jdict_new(r);
    for (const mc_jnode *key = n->a; key && key->next && r->status == MICA_OK;
         key = key->next->next) {
        mc_jvalue k = mc_jeval(r, key);
        mc_jdict_put(r, dict, k, mc_jeval(r, key->next));
    }
    return mc_jdict_value(MC_J_DICT, dict);
}

static mc_jvalue eval_attr(mc_jrun *r, const mc_jnode *n) {
    return mc_jget_attr(r, mc_jeval(r, n->a), n->name);
}

static mc_jvalue eval_item(mc_jrun *r, const mc_jnode *n) {
    mc_jvalue v = mc_jeval(r, n->a);
    return mc_jget_item(r, v, mc_jeval(r, n->b));
}

static mc_jvalue eval_slice(mc_jrun *r, const mc_jnode *n) {
    mc_jvalue v = mc_jeval(r, n->d);
    mc_jvalue start = n->a ? mc_jeval(r, n->a) : mc_jnone();
    mc_jvalue stop = n->b ? mc_jeval(r, n->b) : mc_jnone();
    return mc_jslice(r, v, start, stop, n->c ? mc_jeval(r, n->c) : mc_jnone());
}

/* -- calls -- */

static void spread_keys(mc_jrun *r, mc_jvalue v, mc_jdict *named) {
    if (!mc_jis(v, MC_J_DICT)) {
        mc_jerror(r, "argument after ** must be a mapping, not %s", mc_jtype(v.kind));
        return;
    }
    for (size_t i = 0; i < v.dict->count && r->status == MICA_OK; i++)
        mc_jdict_put(r, named, v.dict->pairs[i].key, v.dict->pairs[i].value);
}

static void eval_arguments(mc_jrun *r, const mc_jnode *arg, mc_jlist *args, mc_jdict *named) {
    for (; arg && r->status == MICA_OK; arg = arg->next) {
        if (arg->kind == MC_N_KEYWORD) {
            mc_jdict_put(r, named, mc_jstr(arg->name), mc_jeval(r, arg->a));
        } else if (arg->kind == MC_N_SPREAD) {
            const mc_jlist *more = mc_jelements(r, mc_jeval(r, arg->a));
            for (size_t i = 0; i < more->count; i++)
                mc_jlist_push(r, args, more->items[i]);
        } else if (arg->kind == MC_N_SPREAD_KEYS) {
            spread_keys(r, mc_jeval(r, arg->a), named);
        } else {
            mc_jlist_push(r, args, mc_jeval(r, arg));
        }
    }
}

static mc_jvalue call_value(mc_jrun *r, mc_jvalue callee, const mc_jlist *args,
                            const mc_jdict *named) {
    if (mc_jis(callee, MC_J_MACRO)) return mc_jcall_macro(r, callee.macro, args, named);
    if (mc_jis(callee, MC_J_LOOP)) return mc_jcall_loop(r, callee.loop, args);
    if (mc_jis(callee, MC_J_FUNCTION)) {
        mc_jvalue self = callee.function.self ? *callee.function.self : mc_jnone();
        return mc_jcall_builtin(r, callee.function.builtin, self, args, named);
    }
    if (mc_jis(callee, MC_J_UNDEFINED)) {
        mc_jfail_undefined(r, callee);
    } else {
        mc_jerror(r, "'%s' object is not callable", mc_jtype(callee.kind));
    }
    return mc_jnone();
}

static mc_jvalue eval_call(mc_jrun *r, const mc_jnode *n) {
    mc_jlist args = {0};
    mc_jdict named = {0};
    mc_jvalue callee = mc_jeval(r, n->a);
    eval_arguments(r, n->b, &args, &named);
    r->line = n->line;
    return r->status == MICA_OK ? call_value(r, callee, &args, &named) : mc_jnone();
}

static mc_jvalue eval_builtin(mc_jrun *r, const mc_jnode *n) {
    mc_jlist args = {0};
    mc_jdict named = {0};
    mc_jvalue self = mc_jeval(r, n->a);
    eval_arguments(r, n->b, &args, &named);
    r->line = n->line;
    if (r->status != MICA_OK) return mc_jnone();
    if (n->builtin) return mc_jcall_builtin(r, n->builtin, self, &args, &named);
    mc_jfail(r, MICA_EFORMAT, "there is no %s '%.*s'", n->kind == MC_N_TEST ? "test" : "filter",
             MC_STR_ARG(n->name));
    return mc_jnone();
}

/* -- operators -- */

static mc_jvalue eval_not(mc_jrun *r, const mc_jnode *n) {
    return mc_jbool(!mc_jtruth(mc_jeval(r, n->a)));
}

static mc_jvalue eval_negative(mc_jrun *r, const mc_jnode *n) {
    return mc_jnegative(r, mc_jeval(r, n->a));
}

static mc_jvalue eval_positive(mc_jrun *r, const mc_jnode *n) {
    return mc_jnegative(r, mc_jnegative(r, mc_jeval(r, n->a)));
}

static mc_jvalue eval_and(mc_jrun *r, const mc_jnode *n) {
    mc_jvalue left = mc_jeval(r, n->a);
    return mc_jtruth(left) ? mc_jeval(r, n->b) : left;
}

static mc_jvalue eval_or(mc_jrun *r, const mc_jnode *n) {
    mc_jvalue left = mc_jeval(r, n->a);
    return mc_jtruth(left) ? left : mc_jeval(r, n->b);
}

static mc_jvalue eval_binary(mc_jrun *r, const mc_jnode *n) {
    mc_jvalue left = mc_jeval(r, n->a);
    return mc_jbinary(r, (mc_jop)n->op, left, mc_jeval(r, n->b));
}

/* a < b < c is a < b and b < c. */
static mc_jvalue eval_compare(mc_jrun *r, const mc_jnode *n) {
    mc_jvalue left = mc_jeval(r, n->a), truth = mc_jbool(true);
    for (const mc_jnode *operand = n->b; operand && mc_jtruth(truth); operand = operand->next) {
        mc_jvalue right = mc_jeval(r, operand->a);
        truth = mc_jbinary(r, (mc_jop)operand->op, left, right);
        left = right;
    }
    return truth;
}

static mc_jvalue eval_condition(mc_jrun *r, const mc_jnode *n) {
    if (mc_jtruth(mc_jeval(r, n->b))) return mc_jeval(r, n->a);
    if (n->c) return mc_jeval(r, n->c);
    return mc_jundefined(MC_J_HINT, MC_J_NONE,
                         MC_STR("the inline if-expression evaluated to false and no else section "
                                "was defined."));
}

mc_jvalue mc_jeval(mc_jrun *r, const mc_jnode *n) {
    static mc_jvalue (*const evals[MC_N_COUNT])(mc_jrun * r, const mc_jnode *n) = {
        [MC_N_CONST] = eval_const,
        [MC_N_NAME] = eval_name,
        [MC_N_LIST] = eval_list,
        [MC_N_TUPLE] = eval_list,
        [MC_N_DICT] = eval_dict,
        [MC_N_ATTR] = eval_attr,
        [MC_N_ITEM] = eval_item,
        [MC_N_SLICE] = eval_slice,
        [MC_N_CALL] = eval_call,
        [MC_N_FILTER] = eval_builtin,
        [MC_N_TEST] = eval_builtin,
        [MC_N_NOT] = eval_not,
        [MC_N_NEGATIVE] = eval_negative,
        [MC_N_POSITIVE] = eval_positive,
        [MC_N_AND] = eval_and,
        [MC_N_OR] = eval_or,
        [MC_N_BINARY] = eval_binary,
        [MC_N_COMPARE] = eval_compare,
        [MC_N_CONDITION] = eval_condition,
    };
    if (!mc_jenter(r)) return mc_jnone();
    r->line = n->line;
    mc_jvalue v = evals[n->kind](r, n);
    mc_jleave(r);
    return r->status == MICA_OK ? v : mc_jnone();
}
