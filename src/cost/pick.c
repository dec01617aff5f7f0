/* The choice of a device: by what a program costs on each, and by runs where they are asked for. */
#include <mica/cost.h>
#include <mica/executable.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/system.h"
#include "cost/choices.h"
#include "cost/rates.h"
#include "exec/program.h"

enum { TRIALS = 3 };

static const char *name_of(const mica_device *device) {
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(device, &info);
    return info.name;
}

/* ---- what is known of each ---- */

static mica_status look_at(const mica_program *program, mica_candidate *c) {
    c->seconds = 0;
    c->state = MICA_CANDIDATE_UNABLE;
    if (!c->device) {
        snprintf(c->reason, sizeof c->reason, "there is no such device");
        return MICA_OK;
    }
    mica_cost cost = {.struct_bytes = sizeof cost};
    mica_status status = mica_program_get_cost(program, c->device, &cost);
    if (status == MICA_EUNSUPPORTED) {
        snprintf(c->reason, sizeof c->reason, "%s", mica_last_error());
        return MICA_OK;
    }
    MC_TRY(status);
    c->seconds = cost.seconds;
    c->state = cost.seconds > 0 ? MICA_CANDIDATE_ESTIMATED : MICA_CANDIDATE_UNMEASURED;
    if (cost.seconds <= 0)
        snprintf(c->reason, sizeof c->reason, "it is unmeasured: calibrate it");
    else if (cost.cpu_ops > 0)
        snprintf(c->reason, sizeof c->reason, "estimated; %" PRIu64 " ops on the CPU",
                 cost.cpu_ops);
    else
        snprintf(c->reason, sizeof c->reason, "estimated");
    return MICA_OK;
}

/* The one of the lowest cost, but for `but`; n: there is none. Those that are unmeasured count only
 * where all are. */
static size_t cheapest(const mica_candidate *c, size_t n, size_t but) {
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        if (i == but || c[i].state == MICA_CANDIDATE_UNABLE) continue;
        bool measured = c[i].seconds > 0;
        if (best == n) best = i;
        bool best_measured = c[best].seconds > 0;
        if (measured && (!best_measured || c[i].seconds < c[best].seconds)) best = i;
    }
    return best;
}

static mica_status find_named(const mica_candidate *c, size_t n, const char *name, size_t *pick) {
    for (size_t i = 0; i < n; i++) {
        if (!c[i].device) continue;
        const char *own = name_of(c[i].device);
        size_t len = strcspn(own, ":"); /* "mlx" names "mlx:gpu", too */
        bool same = strcmp(own, name) == 0 || (strlen(name) == len && !strncmp(own, name, len));
        if (!same) continue;
        if (c[i].state == MICA_CANDIDATE_UNABLE)
            return mc_fail(MICA_EDEVICE, "pick_device: MICA_DEVICE is \"%s\": %s", name,
                           c[i].reason);
        *pick = i;
        return MICA_OK;
    }
    return mc_fail(MICA_EDEVICE,
                   "pick_device: MICA_DEVICE is \"%s\", which is not among the %zu "
                   "candidates",
                   name, n);
}

/* ---- runs ---- */

static mica_status set_args(mica_executable *x, const mica_program *program, mica_scope *s,
                            const mica_array *args) {
    for (size_t i = 0; i < mica_program_param_count(program); i++) {
        mica_port port = {.struct_bytes = sizeof port};
        MC_TRY(mica_program_get_param(program, i, &port));
        mica_array there = mica_to_device(s, args[i]);
        MC_TRY(mica_scope_status(s));
        MC_TRY(mica_executable_set(x, &(mica_input){.name = port.name, .array = there}));
    }
    return MICA_OK;
}

/* The shortest of some runs, behind one that compiles it. */
static mica_status time_runs(mica_executable *x, double *seconds) {
    for (int i = 0; i <= TRIALS; i++) {
        uint64_t from = mc_now_us();
        MC_TRY(mica_executable_run(x, NULL, 0, NULL, NULL));
        double taken = (double)(mc_now_us() - from) * 1e-6;
        if (i == 1 || (i > 1 && taken < *seconds)) *seconds = taken;
    }
    return MICA_OK;
}

static mica_status try_on(const mica_program *program, const mica_array *args, mica_candidate *c) {
    mica_program *moved = NULL;
    mica_executable *x = NULL;
    mica_scope *s = NULL;
    double seconds = 0;
    MC_TRY(mica_program_to_device(program, c->device, &moved));
    mica_status status = mica_executable_open(moved, NULL, &x);
    if (status == MICA_OK) status = mica_scope_open(c->device, &s);
    if (status == MICA_OK) status = set_args(x, program, s, args);
    if (status == MICA_OK) status = time_runs(x, &seconds);
    mica_executable_close(&x);
    mica_scope_close(&s);
    mica_program_close(&moved);
    MC_TRY(status);
    c->seconds = seconds > 0 ? seconds : 1e-9;
    c->state = MICA_CANDIDATE_TIMED;
    snprintf(c->reason, sizeof c->reason, "timed, the best of %d runs", TRIALS);
    return MICA_OK;
}

/* Runs the program on the two that seem fastest, unless it is known how that ended. */
static mica_status try_both(const mica_program *program, const mica_array *args, mica_candidate *c,
                            size_t first, size_t second, size_t *pick) {
    mc_choice choice;
    MC_TRY(mc_choice_key(program, c[first].device, c[second].device, &choice));
    bool other = false;
    if (!mc_choice_find(&choice, &other)) {
        MC_TRY(try_on(program, args, &c[first]));
        MC_TRY(try_on(program, args, &c[second]));
        other = c[first].seconds > 1.5 * c[second].seconds;
        mc_choice_keep(&choice, other);
    }
    *pick = other ? second : first;
    return MICA_OK;
}

mica_status mica_pick_device(const mica_program *program, mica_candidate *candidates, size_t n,
                             const mica_pick_options *options, size_t *pick) {
    mica_pick_options o;
    if (!program || (!candidates && n > 0) || !pick)
        return mc_fail(MICA_EINVAL, "pick_device: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_pick_options, args, &o, options));
    if (program->n_symbols > 0)
        return mc_fail(MICA_EUNSUPPORTED, "pick_device: symbol %s has no value (mica_program_bind)",
                       program->symbols[0].name);
    for (size_t i = 0; i < n; i++)
        MC_TRY(look_at(program, &candidates[i]));
    /* $MICA_DEVICE: the device that is picked for a program, whatever it would cost */
    const char *name = getenv("MICA_DEVICE");
    if (name && *name) return find_named(candidates, n, name, pick);
    size_t first = cheapest(candidates, n, n);
    if (first == n) {
        const char *why = n > 0 ? candidates[0].reason : "there are none";
        return mc_fail(MICA_EDEVICE, "pick_device: no candidate can run it: %s", why);
    }
    size_t second = cheapest(candidates, n, first);
    if (o.args && second < n) return try_both(program, o.args, candidates, first, second, pick);
    *pick = first;
    return MICA_OK;
}
