/* Functions that are recorded once for given shapes: a table of programs. */
#include <mica/program.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/options.h"
#include "device/device.h"
#include "exec/program.h"

enum { MAX_PROGRAMS = 32 };

/* Of which arguments, and of how many results. */
typedef struct signature {
    size_t n_args, n_results;
    mc_layout *args; /* [n_args] */
    bool *donated;   /* [n_args] */
} signature;

/* A program for given shapes. */
typedef struct entry entry;
struct entry {
    entry *next;
    signature of;
    mica_program *program;
    uint64_t used;  /* when last, by the function's clock */
    uint32_t users; /* calls that run it, and the table itself */
};

/* What was recorded of a shapeless function: for the lengths of a call, or with symbols for axes
 * whose length was another one in a later call. */
typedef struct recording recording;
struct recording {
    recording *next;
    signature of;   /* of the call */
    uint32_t *open; /* [n_args] bit k: axis k is a symbol */
    mica_program *program;
    bool fixed; /* symbols did not do: other lengths are recorded anew */
    uint64_t used;
};

/* What is recorded for a call. */
typedef struct recorded {
    mica_scope *s;
    mica_array *params;  /* [n_args] */
    mica_array *results; /* [n_results] */
} recorded;

struct mica_function {
    mica_scope *keeper; /* empty: keeps the device */
    mica_compile_fn fn;
    void *user;
    size_t max;
    bool shapeless;
    atomic_uint_fast64_t traces;
    pthread_mutex_t lock; /* of entries, n_entries, clock */
    entry *entries;
    size_t n_entries;
    uint64_t clock;
    recording *recordings; /* guarded by recording_lock, as the next two */
    size_t n_recordings;
    uint64_t recording_clock;
};

/* A call as it is given. */
typedef struct call {
    mica_function *f;
    const mica_array *args;
    size_t n_args, n_results;
} call;

/* ---- what a thread records ---- */

/* One lock for all functions: a function that is recorded may record others in any order. */
static pthread_mutex_t recording_lock = PTHREAD_MUTEX_INITIALIZER;
/* Whether this thread holds it. That it records says nothing: a function that is called for its
 * gradient is recorded into the caller's scope, without the lock. */
static _Thread_local bool has_recording_lock;

/* The functions that this thread records, innermost first. */
typedef struct active {
    struct active *outer;
    const mica_function *f;
} active;
static _Thread_local active *innermost;

static mica_status check_recursion(const mica_function *f) {
    for (const active *a = innermost; a; a = a->outer)
        if (a->f == f)
            return mc_fail(MICA_EINVAL, "function_call: the function calls itself while it is "
                                        "recorded");
    return MICA_OK;
}

static mica_status call_fn(mica_function *f, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    active self = {innermost, f};
    MC_TRY(mc_scope_begin_recording(s));
    innermost = &self;
    atomic_fetch_add(&f->traces, 1);
    mica_status status = f->fn(f->user, s, args, n_args, results, n_results);
    innermost = self.outer;
    mc_scope_end_recording(s);
    return status;
}

/* ---- signatures ---- */

static bool is_donated(mica_array x) {
    const mc_node *node = mc_node_of(x);
    return node->movable && !node->scalar && !node->param;
}

/* Whether a call has the dtypes, numbers of axes and donated arguments; and the lengths, unless
 * they are `loose`. */
static bool matches(const signature *of, const call *c, bool loose) {
    if (of->n_args != c->n_args || of->n_results != c->n_results) return false;
    for (size_t i = 0; i < c->n_args; i++) {
        const mc_layout *l = mc_layout_of(c->args[i]), *m = &of->args[i];
        if (l->dtype != m->dtype || l->ndim != m->ndim ||
            is_donated(c->args[i]) != of->donated[i] || (!loose && !mc_layout_same_shape(l, m)))
            return false;
    }
    return true;
}

static void signature_deinit(signature *of) {
    mc_free(of->args);
    mc_free(of->donated);
}

/* The caller ends it after an error, too. */
static mica_status signature_init(signature *of, const call *c) {
    *of = (signature){.n_args = c->n_args, .n_results = c->n_results};
    of->args = mc_array_alloc(c->n_args, sizeof *of->args);
    of->donated = mc_array_alloc(c->n_args, sizeof *of->donated);
    if (!of->args || !of->donated) return mc_fail_nomem("a compiled function");
    for (size_t i = 0; i < c->n_args; i++) {
        of->args[i] = *mc_layout_of(c->args[i]);
        of->donated[i] = is_donated(c->args[i]);
    }
    return MICA_OK;
}

/* ---- graphs ---- */

static void recorded_deinit(recorded *g) {
    mica_scope_close(&g->s);
    mc_free(g->params);
    mc_free(g->results);
}

/* Makes the axes of an argument symbols that are open: those that had equal lengths, and have now,
 * are one. */
static mica_status add_symbols(mica_scope *s, uint32_t open, const mc_layout *had, mc_layout *l) {
    mc_symbol symbol;
    char name[64];
    for (int k = 0; k < l->ndim; k++) {
        if (!(open >> k & 1)) continue;
        snprintf(name, sizeof name, "length_%lld_%lld", (long long)had->shape[k],
                 (long long)l->shape[k]);
        MC_TRY(mc_scope_symbol(s, name, &symbol));
        l->shape[k] = symbol.dim;
    }
    return MICA_OK;
}

/* A parameter for argument i; open: the axes that are symbols, where `before` is given. */
static mica_array add_param(const call *c, mica_scope *s, size_t i, const recording *before,
                            const uint32_t *open) {
    mc_layout l = *mc_layout_of(c->args[i]);
    if (before && mc_scope_set_status(s, add_symbols(s, open[i], &before->of.args[i], &l)))
        return mc_invalid(s);
    return mica_program_param(s, l.dtype, l.shape, l.ndim);
}

/* A scope with the call's parameters, and room for results. The caller ends it after an error,
 * too. */
static mica_status recorded_init(recorded *g, const call *c, const recording *before,
                                 const uint32_t *open) {
    *g = (recorded){0};
    MC_TRY(mica_scope_open(mica_scope_device(c->f->keeper), &g->s));
    g->params = mc_array_alloc(c->n_args, sizeof *g->params);
    g->results = mc_array_alloc(c->n_results, sizeof *g->results);
    if (!g->params || !g->results) return mc_fail_nomem("a compiled function");
    for (size_t i = 0; i < c->n_args; i++)
        g->params[i] = add_param(c, g->s, i, before, open);
    for (size_t i = 0; i < c->n_results; i++)
        g->results[i] = mc_invalid(g->s);
    return mica_scope_status(g->s);
}

static mica_status build(const recorded *g, const call *c, mica_program **program) {
    mica_param *params = mc_array_alloc(c->n_args, sizeof *params);
    if (!params) return mc_fail_nomem("a compiled function");
    for (size_t i = 0; i < c->n_args; i++)
        params[i] = (mica_param){.array = g->params[i], .donate = is_donated(c->args[i])};
    mica_status status =
        mica_program_build(g->s, params, c->n_args, g->results, c->n_results, NULL, program);
    mc_free(params);
    return status;
}

static mica_status record(const call *c, const recording *before, const uint32_t *open,
                          mica_program **program) {
    recorded g;
    mica_status status = recorded_init(&g, c, before, open);
    if (status == MICA_OK)
        status = call_fn(c->f, g.s, g.params, c->n_args, g.results, c->n_results);
    if (status == MICA_OK) status = mica_scope_status(g.s);
    if (status == MICA_OK) status = build(&g, c, program);
    recorded_deinit(&g);
    return status;
}

/* ---- programs of shapeless functions ---- */

static void free_recording(recording *r) {
    mica_program_close(&r->program);
    signature_deinit(&r->of);
    mc_free(r->open);
    mc_free(r);
}

/* Whether a call fits what was recorded, and what its symbols are then. */
static bool fits(const recording *r, const call *c, int64_t *lengths) {
    const mica_program *p = r->program;
    if (!matches(&r->of, c, true)) return false;
    for (size_t i = 0; i < p->n_symbols; i++)
        lengths[i] = -1;
    for (size_t i = 0; i < c->n_args; i++)
        if (mc_program_match(p, i, mc_layout_of(c->args[i]), lengths) != MICA_OK) return false;
    return true;
}

/* Takes a recording into the list, from which the one used longest ago may go. */
static void keep_recording(mica_function *f, recording *r) {
    r->used = ++f->recording_clock;
    r->next = f->recordings;
    f->recordings = r;
    if (++f->n_recordings <= f->max) return;
    recording **oldest = &f->recordings;
    for (recording **at = &f->recordings; *at; at = &(*at)->next)
        if ((*at)->used < (*oldest)->used) oldest = at;
    recording *gone = *oldest;
    *oldest = gone->next;
    f->n_recordings--;
    free_recording(gone);
}

/* The axes that were symbols before, and those that had another length. */
static void open_axes(recording *r, const call *c, const recording *before) {
    for (size_t i = 0; i < c->n_args; i++) {
        const mc_layout *had = &before->of.args[i], *has = &r->of.args[i];
        r->open[i] = before->open[i];
        for (int k = 0; k < has->ndim; k++)
            if (had->shape[k] != has->shape[k]) r->open[i] |= 1u << k;
    }
}

/* Records the function for a call: for its lengths, or with symbols by what was recorded before. */
static mica_status record_call(const call *c, const recording *before, recording **out) {
    recording *r = mc_calloc(1, sizeof *r);
    if (!r) return mc_fail_nomem("a compiled function");
    mica_status status = signature_init(&r->of, c);
    r->open = mc_calloc(c->n_args + 1, sizeof *r->open);
    if (status == MICA_OK && !r->open) status = mc_fail_nomem("a compiled function");
    if (status == MICA_OK && before) open_axes(r, c, before);
    if (status == MICA_OK) status = record(c, before, r->open, &r->program);
    if (status == MICA_OK)
        *out = r;
    else
        free_recording(r);
    return status;
}

/* The program for a call that fits. */
static mica_status program_of(const recording *r, const int64_t *lengths, mica_program **program) {
    if (r->program->n_symbols > 0) return mc_program_bind(r->program, lengths, program);
    *program = mc_program_retain(r->program);
    return MICA_OK;
}

/* Records with symbols. What cannot be recorded so is left to who records for the lengths. */
static mica_status make_open(const call *c, recording *before, mica_program **program) {
    int64_t lengths[MC_MAX_SYMBOLS];
    recording *r = NULL;
    mica_status status = record_call(c, before, &r);
    if (status == MICA_OK && fits(r, c, lengths)) status = program_of(r, lengths, program);
    before->fixed = status != MICA_OK;
    if (status == MICA_OK)
        keep_recording(c->f, r);
    else if (r)
        free_recording(r);
    return status;
}

static mica_status make_shapeless(const call *c, mica_program **program) {
    int64_t lengths[MC_MAX_SYMBOLS];
    mica_status status;
    recording *before = NULL, *r = NULL;
    for (recording *at = c->f->recordings; at; at = at->next) {
        if (!before && matches(&at->of, c, true)) before = at; /* the newest */
        if (r || !fits(at, c, lengths)) continue;
        r = at;
        r->used = ++c->f->recording_clock;
        status = program_of(r, lengths, program);
        if (status == MICA_OK || status == MICA_ENOMEM) return status;
    }
    if (before && !before->fixed && !r) {
        status = make_open(c, before, program);
        if (status == MICA_OK || status == MICA_ENOMEM) return status;
    }
    if (before) return record(c, NULL, NULL, program);
    MC_TRY(record_call(c, NULL, &r));
    *program = mc_program_retain(r->program);
    keep_recording(c->f, r);
    return MICA_OK;
}

static mica_status make_program(const call *c, mica_program **program) {
    return c->f->shapeless ? make_shapeless(c, program) : record(c, NULL, NULL, program);
}

/* ---- the table ---- */

static void free_entry(entry *e) {
    mica_program_close(&e->program);
    signature_deinit(&e->of);
    mc_free(e);
}

/* Ends a use; the last one frees. */
static void put_entry(mica_function *f, entry *e) {
    pthread_mutex_lock(&f->lock);
    bool last = --e->users == 0;
    pthread_mutex_unlock(&f->lock);
    if (last) free_entry(e);
}

/* The call's program, which the caller gives back; NULL: there is none. */
static entry *find_entry(const call *c) {
    mica_function *f = c->f;
    pthread_mutex_lock(&f->lock);
    entry *e = f->entries;
    while (e && !matches(&e->of, c, false))
        e = e->next;
    if (e) {
        e->used = ++f->clock;
        e->users++;
    }
    pthread_mutex_unlock(&f->lock);
    return e;
}

/* Takes an entry into the table; returns the one that goes for it, or NULL. */
static entry *insert(mica_function *f, entry *e) {
    entry *gone = NULL;
    pthread_mutex_lock(&f->lock);
    e->used = ++f->clock;
    e->next = f->entries;
    f->entries = e;
    if (++f->n_entries > f->max) {
        entry **oldest = &f->entries;
        for (entry **at = &f->entries; *at; at = &(*at)->next)
            if ((*at)->used < (*oldest)->used) oldest = at;
        gone = *oldest;
        *oldest = gone->next;
        f->n_entries--;
    }
    pthread_mutex_unlock(&f->lock);
    return gone;
}

static mica_status make_entry(const call *c, entry **out) {
    entry *e = mc_calloc(1, sizeof *e);
    if (!e) return mc_fail_nomem("a compiled function");
    e->users = 2; /* the table, and the caller */
    mica_status status = signature_init(&e->of, c);
    if (status == MICA_OK) status = make_program(c, &e->program);
    if (status != MICA_OK) {
        free_entry(e);
        return status;
    }
    entry *gone = insert(c->f, e);
    if (gone) put_entry(c->f, gone);
    *out = e;
    return MICA_OK;
}

static mica_status get_entry(const call *c, entry **e) {
    *e = find_entry(c);
    if (*e) return MICA_OK;
    bool outermost = !has_recording_lock;
    if (outermost) pthread_mutex_lock(&recording_lock);
    has_recording_lock = true;
    *e = find_entry(c); /* another thread may have made it */
    mica_status status = *e ? MICA_OK : make_entry(c, e);
    if (!outermost) return status;
    has_recording_lock = false;
    pthread_mutex_unlock(&recording_lock);
    return status;
}

/* ---- the public functions ---- */

mica_status mica_compile(mica_device *device, mica_compile_fn fn, void *user,
                         const mica_compile_options *options, mica_function **function) {
    if (!function) return mc_fail(MICA_EINVAL, "compile: function is NULL");
    *function = NULL;
    if (!device || !fn) return mc_fail(MICA_EINVAL, "compile: NULL");
    mica_compile_options o;
    MC_TRY(MC_OPTIONS_COPY(mica_compile_options, max_programs, &o, options));
    mica_function *f = mc_calloc(1, sizeof *f);
    if (!f) return mc_fail_nomem("a compiled function");
    f->fn = fn;
    f->user = user;
    f->max = o.max_programs ? o.max_programs : MAX_PROGRAMS;
    f->shapeless = o.shapeless;
    mica_status status = mica_scope_open(device, &f->keeper);
    if (status == MICA_OK && pthread_mutex_init(&f->lock, NULL) != 0) {
        status = mc_fail(MICA_EDEVICE, "cannot make a mutex for a compiled function");
        mica_scope_close(&f->keeper);
    }
    if (status != MICA_OK) {
        mc_free(f);
        return status;
    }
    *function = f;
    return MICA_OK;
}

/* The function as a part of one that is recorded in `into`. */
static mica_status record_inline(const call *c, mica_scope *into, mica_array *results) {
    mica_status status = call_fn(c->f, into, c->args, c->n_args, results, c->n_results);
    for (size_t i = 0; i < c->n_results && status == MICA_OK; i++)
        status = mc_check_valid(results[i], "function_call: a result");
    if (status == MICA_OK) status = mica_scope_status(into);
    if (status != MICA_OK) mica_scope_clear_error(into); /* what failed is the call's own */
    return status;
}

static mica_status check_call(const call *c, mica_scope *into) {
    MC_TRY(mica_scope_status(into));
    if (mica_scope_device(into) != mica_scope_device(c->f->keeper))
        return mc_fail(MICA_EINVAL, "function_call: the scope is of another device");
    for (size_t i = 0; i < c->n_args; i++)
        MC_TRY(mc_check_valid(c->args[i], "function_call: an argument"));
    return check_recursion(c->f);
}

static mica_status run_call(const call *c, mica_scope *into, mica_array *results) {
    entry *e;
    for (size_t i = 0; i < c->n_args; i++)
        if (mc_node_of(c->args[i])->state == MC_PENDING)
            MC_TRY(mica_eval(c->args[i].scope, c->args[i]));
    MC_TRY(get_entry(c, &e));
    mica_status status = mica_program_run(e->program, into, c->args, results);
    put_entry(c->f, e);
    return status;
}

mica_status mica_function_call(mica_function *function, mica_scope *into, const mica_array *args,
                               size_t n_args, mica_array *results, size_t n_results) {
    const call c = {function, args, n_args, n_results};
    if (!function || !into || (!args && n_args > 0) || (!results && n_results > 0))
        return mc_fail(MICA_EINVAL, "function_call: NULL");
    bool inlined = mc_scope_is_recording(into);
    if (!inlined) MC_TRY(mica_wait(into));
    for (size_t i = 0; i < n_results; i++)
        results[i] = (mica_array){into, MC_ABSENT};
    mica_status status = check_call(&c, into);
    if (status == MICA_OK)
        status = inlined ? record_inline(&c, into, results) : run_call(&c, into, results);
    for (size_t i = 0; status != MICA_OK && i < n_results; i++)
        results[i] = (mica_array){into, MC_ABSENT};
    return status;
}

uint64_t mica_function_traces(const mica_function *function) {
    return function ? atomic_load(&function->traces) : 0;
}

void mica_function_close(mica_function **function) {
    if (!function || !*function) return;
    mica_function *f = *function;
    *function = NULL;
    while (f->entries) {
        entry *e = f->entries;
        f->entries = e->next;
        free_entry(e);
    }
    while (f->recordings) {
        recording *r = f->recordings;
        f->recordings = r->next;
        free_recording(r);
    }
    pthread_mutex_destroy(&f->lock);
    mica_scope_close(&f->keeper);
    mc_free(f);
}
