#include "text/jinja/jinja_container.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

typedef enum flow { NEXT, BREAK, CONTINUE } flow;

static flow exec_body(mc_jrun *r, const mc_jnode *node);

/* -- scopes -- */

void mc_jset(mc_jrun *r, mc_str name, mc_jvalue v) {
    mc_jdict_put(r, &r->scope->names, mc_jstr(name), v);
}

/* Enters a new scope inside `outer`. Returns the scope before, for leave_scope. */
static mc_jscope *enter_scope(mc_jrun *r, mc_jscope *outer) {
    mc_jscope *before = r->scope, *scope = mc_jalloc(r, sizeof *scope);
    if (scope) {
        scope->outer = outer;
        r->scope = scope;
    }
    return before;
}

static void leave_scope(mc_jrun *r, mc_jscope *before) {
    r->scope = before;
}

/* -- assignment -- */

static void assign(mc_jrun *r, const mc_jnode *target, mc_jvalue v);

static void assign_several(mc_jrun *r, const mc_jnode *target, mc_jvalue v) {
    size_t wanted = 0;
    const mc_jlist *values = mc_jelements(r, v);
    for (const mc_jnode *t = target; t; t = t->next)
        wanted++;
    if (r->status == MICA_OK && values->count < wanted) {
        mc_jerror(r, "not enough values to unpack (expected %zu, got %zu)", wanted, values->count);
    } else if (values->count > wanted) {
        mc_jerror(r, "too many values to unpack (expected %zu)", wanted);
    }
    for (size_t i = 0; i < wanted && r->status == MICA_OK; i++, target = target->next)
        assign(r, target, values->items[i]);
}

static void assign_attr(mc_jrun *r, const mc_jnode *target, mc_jvalue v) {
    mc_jvalue object = mc_jeval(r, target->a);
    if (r->status != MICA_OK) return;
    if (mc_jis(object, MC_J_NAMESPACE)) {
        mc_jdict_put(r, object.dict, mc_jstr(target->name), v);
    } else {
        mc_jerror(r, "cannot assign attribute on non-namespace object");
    }
}

static void assign(mc_jrun *r, const mc_jnode *target, mc_jvalue v) {
    if (!mc_jenter(r)) return;
    if (target->kind == MC_N_NAME) {
        mc_jset(r, target->name, v);
    } else if (target->kind == MC_N_ATTR) {
        assign_attr(r, target, v);
    } else {
        assign_several(r, target->a, v);
    }
    mc_jleave(r);
}

static flow exec_set(mc_jrun *r, const mc_jnode *n) {
    assign(r, n->a, mc_jeval(r, n->b));
    return NEXT;
}

/* -- text -- */

static flow exec_text(mc_jrun *r, const mc_jnode *n) {
    mc_jput(r, n->value.text);
    return NEXT;
}

static flow exec_print(mc_jrun *r, const mc_jnode *n) {
    mc_jvalue v = mc_jeval(r, n->a);
    if (r->status == MICA_OK) mc_jput_value(r, v);
    return NEXT;
}

/* Runs a body and returns its output as a string. */
static mc_jvalue capture(mc_jrun *r, const mc_jnode *body) {
    size_t mark = mc_jmark(r);
    exec_body(r, body);
    return mc_jtake(r, mark);
}

/* Runs a block and applies its filters to its output. */
static mc_jvalue filtered_block(mc_jrun *r, const mc_jnode *n) {
    mc_jscope *before = enter_scope(r, r->scope);
    mc_jset(r, MC_STR(MC_J_BLOCK_TEXT), capture(r, n->c));
    mc_jvalue v = mc_jeval(r, n->b);
    leave_scope(r, before);
    return v;
}

static flow exec_set_block(mc_jrun *r, const mc_jnode *n) {
    assign(r, n->a, filtered_block(r, n));
    return NEXT;
}

static flow exec_filter_block(mc_jrun *r, const mc_jnode *n) {
    mc_jput_value(r, filtered_block(r, n));
    return NEXT;
}

/* -- branches and loops -- */

static flow exec_if(mc_jrun *r, const mc_jnode *n) {
    while (!mc_jtruth(mc_jeval(r, n->a))) {
        bool elif = n->c && n->c->kind == MC_N_IF && !n->c->next;
        if (!elif) return exec_body(r, n->c);
        n = n->c;
    }
    return exec_body(r, n->b);
}

/* The elements that meet the loop's condition. */
static const mc_jlist *loop_items(mc_jrun *r, const mc_jnode *n, mc_jvalue v) {
    const mc_jlist *all = mc_jelements(r, v);
    if (!n->e) return all;
    mc_jlist *some = mc_jlist_new(r);
    for (size_t i = 0; i < all->count && r->status == MICA_OK; i++) {
        mc_jscope *before = enter_scope(r, r->scope);
        assign(r, n->a, all->items[i]);
        if (mc_jtruth(mc_jeval(r, n->e))) mc_jlist_push(r, some, all->items[i]);
        leave_scope(r, before);
    }
    return some;
}

/* Every iteration has a scope of its own: variables that it sets end with it. */
static flow run_loop(mc_jrun *r, const mc_jnode *n, mc_jvalue v, int64_t depth) {
    const mc_jlist *items = loop_items(r, n, v);
    mc_jloop *loop = mc_jalloc(r, sizeof *loop);
    if (!loop) return NEXT;
    *loop = (mc_jloop){.items = items, .depth = depth, .node = n, .scope = r->scope};
    if (items->count == 0) return exec_body(r, n->d);
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        mc_jscope *before = enter_scope(r, r->scope);
        loop->index = i;
        mc_jset(r, MC_STR("loop"), (mc_jvalue){.kind = MC_J_LOOP, .loop = loop});
        assign(r, n->a, items->items[i]);
        flow next = exec_body(r, n->c);
        leave_scope(r, before);
        if (next == BREAK) break;
    }
    return NEXT;
}

static flow exec_for(mc_jrun *r, const mc_jnode *n) {
    return run_loop(r, n, mc_jeval(r, n->b), 0);
}

mc_jvalue mc_jcall_loop(mc_jrun *r, const mc_jloop *loop, const mc_jlist *args) {
    if (!loop->node->op)
        mc_jerror(r, "The loop must have the 'recursive' marker to be called recursively.");
    else if (args->count != 1)
        mc_jerror(r, "a loop takes 1 argument (%zu given)", args->count);
    if (r->status != MICA_OK || !mc_jenter(r)) return mc_jnone();
    size_t mark = mc_jmark(r);
    mc_jscope *before = enter_scope(r, loop->scope);
    run_loop(r, loop->node, args->items[0], loop->depth + 1);
    leave_scope(r, before);
    mc_jleave(r);
    return mc_jtake(r, mark);
}

static flow exec_break(mc_jrun *r, const mc_jnode *n) {
    (void)r;
    return n->kind == MC_N_BREAK ? BREAK : CONTINUE;
}

static flow exec_with(mc_jrun *r, const mc_jnode *n) {
    mc_jscope *outer = r->scope, *inner;
    enter_scope(r, outer);
    inner = r->scope;
    for (const mc_jnode *set = n->a; set && r->status == MICA_OK; set = set->next) {
        r->scope = outer; /* a value does not see the names before it */
        mc_jvalue v = mc_jeval(r, set->b);
        r->scope = inner;
        assign(r, set->a, v);
    }
    flow next = exec_body(r, n->c);
    leave_scope(r, outer);
    return next;
}

static flow exec_group(mc_jrun *r, const mc_jnode *n) {
    return exec_body(r, n->c);
}

/* -- macros -- */

static mc_jvalue new_macro(mc_jrun *r, const mc_jnode *n) {
    mc_jmacro *macro = mc_jalloc(r, sizeof *macro);
    if (!macro) return mc_jnone();
    *macro = (mc_jmacro){n, r->scope};
    return (mc_jvalue){.kind = MC_J_MACRO, .macro = macro};
}

static flow exec_macro(mc_jrun *r, const mc_jnode *n) {
    mc_jset(r, n->name, new_macro(r, n));
    return NEXT;
}

/* {% call m(...) %}: m can call the body as the macro `caller`. */
static flow exec_call_block(mc_jrun *r, const mc_jnode *n) {
    mc_jscope *before = enter_scope(r, r->scope);
    mc_jnode keyword = {.kind = MC_N_KEYWORD, .line = n->line, .name = n->name};
    mc_jnode name = {.kind = MC_N_NAME, .line = n->line, .name = MC_STR(MC_J_BLOCK_TEXT)};
    mc_jnode call = *n->b;
    mc_jset(r, name.name, new_macro(r, n));
    keyword.a = &name;
    keyword.next = call.b;
    call.b = &keyword;
    mc_jvalue v = mc_jeval(r, &call);
    if (r->status == MICA_OK) mc_jput_value(r, v);
    leave_scope(r, before);
    return NEXT;
}

static void bind_param(mc_jrun *r, const mc_jnode *param, const mc_jvalue *given) {
    mc_jvalue v = mc_jundefined(MC_J_NO_VARIABLE, MC_J_NONE, param->name);
    if (given) {
        v = *given;
    } else if (param->a) {
        v = mc_jeval(r, param->a);
    }
    mc_jset(r, param->name, v);
}

/* Binds the arguments behind the first `place`, and the named ones that no parameter has, where
 * the macro takes such. */
static void bind_more(mc_jrun *r, const mc_jnode *macro, const mc_jlist *args, size_t place,
                      const mc_jdict *named) {
    mc_jlist *more = mc_jlist_new(r);
    mc_jdict *others = mc_jdict_new(r);
    for (size_t i = place; i < args->count && r->status == MICA_OK; i++)
        mc_jlist_push(r, more, args->items[i]);
    for (size_t i = 0; i < named->count && r->status == MICA_OK; i++) {
        const mc_jnode *param = macro->a;
        while (param && !mc_str_eq(param->name, named->pairs[i].key.text))
            param = param->next;
        bool caller = mc_jis_str(named->pairs[i].key, "caller");
        if (!param && !caller) mc_jdict_put(r, others, named->pairs[i].key, named->pairs[i].value);
    }
    if (macro->op & MC_J_TAKES_VARARGS)
        mc_jset(r, MC_STR("varargs"), mc_jlist_value(MC_J_TUPLE, more));
    else if (more->count)
        mc_jerror(r, "macro '%.*s' takes not more than %zu argument(s)", MC_STR_ARG(macro->name),
                  place);
    if (macro->op & MC_J_TAKES_KWARGS)
        mc_jset(r, MC_STR("kwargs"), mc_jdict_value(MC_J_DICT, others));
    else if (others->count)
        mc_jerror(r, "macro '%.*s' was given a keyword argument that it does not take",
                  MC_STR_ARG(macro->name));
}

/* Binds parameters by position, then by name. `caller` may be given without a parameter. */
static void bind_params(mc_jrun *r, const mc_jnode *macro, const mc_jlist *args,
                        const mc_jdict *named) {
    size_t place = 0;
    const mc_jvalue *caller = mc_jdict_find_str(r, named, MC_STR("caller"));
    if (caller) mc_jset(r, MC_STR("caller"), *caller);
    for (const mc_jnode *param = macro->a; param; param = param->next, place++) {
        const mc_jvalue *given = mc_jdict_find_str(r, named, param->name);
        if (place < args->count) given = &args->items[place];
        bind_param(r, param, given);
    }
    if (args->count > place || named->count || macro->op) bind_more(r, macro, args, place, named);
}

mc_jvalue mc_jcall_macro(mc_jrun *r, const mc_jmacro *macro, const mc_jlist *args,
                         const mc_jdict *named) {
    mc_jscope *before = enter_scope(r, macro->scope);
    bind_params(r, macro->node, args, named);
    mc_jvalue text = capture(r, macro->node->c);
    leave_scope(r, before);
    return text;
}

/* -- all -- */

static flow exec(mc_jrun *r, const mc_jnode *n) {
    static flow (*const execs[MC_N_COUNT])(mc_jrun * r, const mc_jnode *n) = {
        [MC_N_TEXT] = exec_text,
        [MC_N_PRINT] = exec_print,
        [MC_N_IF] = exec_if,
        [MC_N_FOR] = exec_for,
        [MC_N_SET] = exec_set,
        [MC_N_SET_BLOCK] = exec_set_block,
        [MC_N_FILTER_BLOCK] = exec_filter_block,
        [MC_N_MACRO] = exec_macro,
        [MC_N_CALL_BLOCK] = exec_call_block,
        [MC_N_WITH] = exec_with,
        [MC_N_GROUP] = exec_group,
        [MC_N_BREAK] = exec_break,
        [MC_N_CONTINUE] = exec_break,
    };
    if (!mc_jenter(r)) return NEXT;
    r->line = n->line;
    flow next = execs[n->kind](r, n);
    mc_jleave(r);
    return next;
}

static flow exec_body(mc_jrun *r, const mc_jnode *node) {
    for (; node && r->status == MICA_OK; node = node->next) {
        flow next = exec(r, node);
        if (next != NEXT) return next;
    }
    return NEXT;
}

void mc_jexec(mc_jrun *r, const mc_jnode *body) {
    exec_body(r, body);
}
