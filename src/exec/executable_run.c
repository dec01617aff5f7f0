/* Runs of an executable: at once, queued, and through slots. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "exec/bind.h"
#include "exec/executable.h"

/* ---- runs ---- */

mc_executable_run *mc_executable_run_new(mica_executable *x) {
    size_t given = x->n_params * sizeof(mc_value_of), results = x->n_results * sizeof(mc_result);
    mc_executable_run *run =
        mc_calloc(1, sizeof *run + given + results + x->n_results * sizeof(mc_layout));
    if (!run) return NULL;
    char *next = (char *)(run + 1);
    run->x = x;
    run->given = (mc_value_of *)(void *)next;
    run->results = (mc_result *)(void *)(next + given);
    run->layouts = (mc_layout *)(void *)(next + given + results);
    atomic_init(&run->cancel.set, false);
    return run;
}

static void drop_given(mc_executable_run *run) {
    for (size_t i = 0; i < run->x->n_params; i++)
        if (run->given[i].set) mc_value_drop(&run->given[i]);
}

static void drop_results(mc_executable_run *run) {
    for (size_t i = 0; i < run->x->n_results; i++) {
        mc_storage_release(run->results[i].storage);
        run->results[i].storage = NULL;
    }
}

void mc_executable_run_free(mc_executable_run *run) {
    if (!run) return;
    drop_given(run);
    drop_results(run);
    mc_free(run);
}

/* ---- binding ---- */

/* Whether the run may write over the value: it is the run's own, or a result takes its place. */
static bool may_take(const mc_executable_run *run, size_t i) {
    const mc_executable_param *param = &run->x->params[i];
    if (!param->donate) return false;
    return run->given[i].set ? run->given[i].own : param->fed_by != MC_ABSENT;
}

static mica_status read_number(const mica_executable *x, const mc_bound_param *param,
                               const mc_value_of *value, uint64_t *bits) {
    *bits = value->bits;
    if (value->number) return MICA_OK;
    *bits = 0;
    return mc_storage_read(x->device, value->storage, (size_t)value->offset_bytes, bits,
                           (size_t)mc_layout_bytes(param->layout));
}

static mica_status bind(mc_executable_run *run, size_t i) {
    mica_executable *x = run->x;
    const mc_bound_param *param = &x->bound->params[i];
    const mc_value_of *value = mc_executable_value(run, i);
    if (param->leaf == MC_ABSENT) return MICA_OK;
    if (param->scalar) return read_number(x, param, value, &x->seat->scalars[param->number]);
    x->seat->args[param->leaf] = (mc_binding){.storage = value->storage,
                                              .address = value->storage->address,
                                              .offset_bytes = value->offset_bytes};
    if (!may_take(run, i)) mc_storage_retain(value->storage);
    return MICA_OK;
}

/* Ends the bindings of parameters [0, n). */
static void unbind(mc_executable_run *run, size_t n) {
    const mica_executable *x = run->x;
    for (size_t i = 0; i < n; i++) {
        const mc_bound_param *param = &x->bound->params[i];
        if (param->leaf == MC_ABSENT || param->scalar) continue;
        if (!may_take(run, i)) mc_storage_release(x->seat->args[param->leaf].storage);
    }
}

/* Parameters that a failed run wrote over are not set any more. */
static mica_status lose_taken(mc_executable_run *run, mica_status status) {
    mica_executable *x = run->x;
    for (size_t i = 0; i < x->n_params; i++) {
        const mc_bound_param *param = &x->bound->params[i];
        if (param->leaf == MC_ABSENT || param->scalar || run->given[i].set ||
            !x->seat->args[param->leaf].taken)
            continue;
        mc_value_drop(&x->params[i].value);
        status = mc_fail_context(status, "parameter %.60s was written over and is not set any more",
                                 x->params[i].name);
    }
    return status;
}

static mica_status run_compiled(mc_executable_run *run) {
    mica_executable *x = run->x;
    size_t bound = 0;
    mica_status status = MICA_OK;
    while (bound < x->n_params && status == MICA_OK) {
        status = bind(run, bound);
        if (status == MICA_OK) bound++;
    }
    if (status == MICA_OK) {
        status = mc_compiled_run(x->bound->compiled, x->seat->args, x->seat->scalars, run->results,
                                 &run->cancel);
        unbind(run, bound);
        if (status != MICA_OK) return lose_taken(run, status);
        memcpy(run->layouts, x->bound->compiled->results, x->n_results * sizeof *run->layouts);
        return MICA_OK;
    }
    unbind(run, bound);
    return status;
}

/* ---- one run ---- */

static mica_status check_complete(const mc_executable_run *run) {
    const mica_executable *x = run->x;
    size_t i = 0;
    while (i < x->n_params && mc_executable_value(run, i))
        i++;
    if (i == x->n_params) return MICA_OK;
    mc_names names = {0};
    mica_status status = MICA_OK;
    for (; i < x->n_params && status == MICA_OK; i++)
        if (!mc_executable_value(run, i)) status = mc_names_add(&names, x->params[i].name);
    const char *text = mc_names_text(&names);
    if (status == MICA_OK)
        status = mc_fail(MICA_EINVAL, "executable: neither given nor set: %s", text ? text : "");
    mc_names_deinit(&names);
    return status;
}

/* Results become the values of parameters. */
static void feed(mc_executable_run *run) {
    mica_executable *x = run->x;
    for (size_t i = 0; x->feeds && i < x->n_params; i++) {
        mc_executable_param *param = &x->params[i];
        if (param->fed_by == MC_ABSENT) continue;
        const mc_result *result = &run->results[param->fed_by];
        mc_storage_retain(result->storage);
        mc_value_drop(&param->value);
        param->value = (mc_value_of){
            .set = true, .storage = result->storage, .offset_bytes = result->offset_bytes};
        if (param->open) param->value.layout = run->layouts[param->fed_by];
    }
}

/* The most rows that a value of the run has of a symbol, which is outermost. */
static int64_t find_rows(const mc_executable_run *run, size_t symbol) {
    const mica_executable *x = run->x;
    int64_t max = 0;
    for (size_t i = 0; i < x->n_params; i++) {
        const mc_executable_param *param = &x->params[i];
        if (!param->open || param->layout->shape[0] != x->program->symbols[symbol].dim) continue;
        int64_t n = mc_executable_value(run, i)->layout.shape[0];
        if (n > max) max = n;
    }
    return max;
}

/* For each symbol how many rows values may have more than are computed: -1 none. */
static void find_extents(const mc_executable_run *run, int64_t *more) {
    const mica_executable *x = run->x;
    for (size_t i = 0; i < x->program->n_symbols; i++) {
        more[i] = -1;
        if (x->rows[i] < 0 || *x->mixes[i]) continue;
        int64_t max = find_rows(run, i);
        if (max > x->rows[i]) more[i] = max;
    }
}

/* The symbols' lengths, from all values. */
static mica_status find_lengths(mc_executable_run *run) {
    mica_executable *x = run->x;
    const mica_program *p = x->program;
    int64_t more[MC_MAX_SYMBOLS];
    if (p->n_symbols == 0) return MICA_OK;
    find_extents(run, more);
    for (size_t i = 0; i < p->n_symbols; i++)
        x->lengths[i] = -1;
    for (size_t i = 0; i < x->n_params; i++) {
        if (!x->params[i].open) continue;
        mc_layout layout = mc_executable_value(run, i)->layout;
        size_t symbol = mc_program_symbol_of(p, x->params[i].layout->shape[0]);
        if (symbol < p->n_symbols && layout.shape[0] == more[symbol])
            layout.shape[0] = x->rows[symbol];
        mica_status status = mc_program_match(p, i, &layout, x->lengths);
        if (status != MICA_OK) return mc_fail_context(status, "executable");
    }
    return MICA_OK;
}

static mica_status fill_slots(mc_executable_run *run) {
    const mica_executable *x = run->x;
    mica_status status = MICA_OK;
    for (size_t i = 0; i < x->n_slots && status == MICA_OK; i++) {
        const mc_result *result = &run->results[x->slotted[i]];
        status = mc_storage_read(x->device, result->storage, (size_t)result->offset_bytes,
                                 x->slot_memory + x->slots[i].offset, x->slots[i].bytes);
    }
    return status == MICA_OK || !x->seat ? status : lose_taken(run, status);
}

/* Runs; what was given is dropped. Parameters are fed once nothing can fail any more.
 *
 *  slots  results that have one are copied there, too */
static mica_status run_once(mc_executable_run *run, bool slots) {
    mica_executable *x = run->x;
    atomic_fetch_add(&x->runs, 1);
    mica_status status = check_complete(run);
    if (status == MICA_OK) status = mc_cancel_check(&run->cancel);
    if (status == MICA_OK) status = find_lengths(run);
    if (status == MICA_OK) status = mc_executable_bind(x);
    if (status == MICA_OK)
        status = x->mode == MICA_MODE_EAGER ? mc_executable_run_eager(run) : run_compiled(run);
    if (status == MICA_OK && slots) status = fill_slots(run);
    if (status == MICA_OK)
        feed(run);
    else
        drop_results(run);
    drop_given(run);
    return status;
}

/* Takes the inputs. */
static mica_status take_inputs(mc_executable_run *run, const mica_input *inputs, size_t n) {
    mica_status status = MICA_OK;
    if (!inputs && n > 0) return mc_fail(MICA_EINVAL, "executable: inputs are NULL");
    for (size_t k = 0; k < n && status == MICA_OK; k++) {
        size_t i = 0;
        status = mc_executable_find(run->x, "executable_run", inputs[k].name, &i);
        if (status == MICA_OK && run->given[i].set)
            status =
                mc_fail(MICA_EINVAL, "executable_run: input %.60s is there twice", inputs[k].name);
        if (status == MICA_OK)
            status = mc_executable_resolve(run->x, &inputs[k], i, &run->given[i]);
    }
    if (status != MICA_OK) drop_given(run);
    return status;
}

static mica_status check_into(const mica_executable *x, mica_scope *into, mica_array *results) {
    for (size_t i = 0; results && i < x->n_results; i++)
        results[i] = (mica_array){into, MC_ABSENT};
    if (!into != !results && x->n_results > 0)
        return mc_fail(MICA_EINVAL, "executable_run: into and results go together");
    if (!into) return MICA_OK;
    MC_TRY(mica_wait(into));
    MC_TRY(mica_scope_status(into));
    if (mica_scope_device(into) == x->device)
        return mc_scope_reserve(into, x->n_results); /* a run that is over is not to fail */
    return mc_fail(MICA_EINVAL, "executable_run: the scope is of another device");
}

/* Cuts results to what their counts say. errors  those of reading a device's memory */
static mica_status trim(mc_executable_run *run) {
    const mica_executable *x = run->x;
    for (size_t i = 0; i < x->n_results; i++) {
        int64_t n = 0, *length = &run->layouts[i].shape[x->trims[i].axis];
        if (x->trims[i].count == MC_ABSENT) continue;
        const mc_result *count = &run->results[x->trims[i].count];
        MC_TRY(
            mc_storage_read(x->device, count->storage, (size_t)count->offset_bytes, &n, sizeof n));
        if (n >= 0 && n < *length) *length = n;
    }
    return MICA_OK;
}

/* Gives the results to arrays of `into`, or drops them. */
static mica_status hand_out(mc_executable_run *run, mica_scope *into, mica_array *results) {
    const mica_executable *x = run->x;
    mica_status trimmed = into ? trim(run) : MICA_OK;
    if (trimmed != MICA_OK) {
        drop_results(run);
        return trimmed;
    }
    for (size_t i = 0; into && i < x->n_results; i++) {
        results[i] =
            mc_leaf(into, &run->layouts[i], run->results[i].storage, run->results[i].offset_bytes);
        run->results[i].storage = NULL;
    }
    drop_results(run);
    mica_status status = into ? mica_scope_status(into) : MICA_OK;
    for (size_t i = 0; status != MICA_OK && i < x->n_results; i++)
        results[i] = (mica_array){into, MC_ABSENT};
    if (status != MICA_OK) mica_scope_clear_error(into);
    return status;
}

/* ---- queued runs ---- */

mica_status mc_executable_drain(mica_executable *x) {
    for (mc_executable_run *run = x->tickets; run; run = run->next)
        MC_TRY(mc_worker_wait(&x->device->worker, &run->job));
    return MICA_OK;
}

/* Forgets a run that failed, where nobody can still see it in a ticket: what is queued then is to
 * run. Whether that one was over yet changes nothing. */
static void forget_broken(mica_executable *x) {
    mc_executable_run *run = x->tickets;
    if (run && !mc_worker_is_done(&x->device->worker, &run->job)) return;
    if (x->broken == MICA_OK) return;
    while (run && run->status == MICA_OK)
        run = run->next;
    if (!run) x->broken = MICA_OK;
}

mica_status mica_executable_run(mica_executable *executable, const mica_input *inputs, size_t n,
                                mica_scope *into, mica_array *results) {
    if (!executable) return mc_fail(MICA_EINVAL, "executable_run: the executable is NULL");
    mc_executable_run *run = executable->own;
    MC_TRY(check_into(executable, into, results));
    MC_TRY(mc_executable_drain(executable));
    MC_TRY(take_inputs(run, inputs, n));
    if (into && mc_scope_cancel(into)) run->cancel.also[0] = mc_scope_cancel(into);
    mica_status status = run_once(run, false);
    run->cancel.also[0] = NULL;
    return status == MICA_OK ? hand_out(run, into, results) : status;
}

/* On the worker's thread. */
static void run_queued(mc_job *job) {
    mc_executable_run *run = (mc_executable_run *)(void *)job;
    mica_executable *x = run->x;
    if (x->feeds && x->broken != MICA_OK) {
        run->status = mc_fail(x->broken, "an earlier run failed: %.900s", x->broken_text);
        drop_given(run);
    } else {
        run->status = run_once(run, false);
    }
    if (run->status == MICA_OK) return;
    snprintf(run->error, sizeof run->error, "%s", mica_last_error());
    if (x->broken != MICA_OK) return;
    x->broken = run->status;
    snprintf(x->broken_text, sizeof x->broken_text, "%s", run->error);
}

mica_status mica_executable_run_async(mica_executable *executable, const mica_input *inputs,
                                      size_t n, mica_ticket **ticket) {
    if (!executable || !ticket) return mc_fail(MICA_EINVAL, "executable_run_async: NULL");
    *ticket = NULL;
    mc_executable_run *run = mc_executable_run_new(executable);
    if (!run) return mc_fail_nomem("a run");
    forget_broken(executable);
    mica_status status = take_inputs(run, inputs, n);
    run->job.run = run_queued;
    if (status == MICA_OK) status = mc_worker_submit(&executable->device->worker, &run->job);
    if (status != MICA_OK) {
        mc_executable_run_free(run);
        return status;
    }
    run->next = executable->tickets;
    executable->tickets = run;
    *ticket = run;
    return MICA_OK;
}

mica_status mica_ticket_wait(mica_ticket **ticket, mica_scope *into, mica_array *results) {
    if (!ticket || !*ticket) return mc_fail(MICA_EINVAL, "ticket_wait: NULL");
    mc_executable_run *run = *ticket;
    mica_executable *x = run->x;
    mica_status status = check_into(x, into, results);
    mica_status waited = mc_worker_wait(&x->device->worker, &run->job);
    *ticket = NULL;
    if (waited != MICA_OK) return waited; /* in a fork: it stays among the runs that never end */
    for (mc_executable_run **at = &x->tickets; *at; at = &(*at)->next)
        if (*at == run) {
            *at = run->next;
            break;
        }
    if (status == MICA_OK && run->status != MICA_OK)
        status = mc_fail(run->status, "%s", run->error);
    if (status == MICA_OK) status = hand_out(run, into, results);
    mc_executable_run_free(run);
    return status;
}

bool mica_ticket_ready(const mica_ticket *ticket) {
    return ticket && mc_worker_is_done(&ticket->x->device->worker, &ticket->job);
}

void mica_ticket_cancel(mica_ticket *ticket) {
    if (ticket) atomic_store(&ticket->cancel.set, true);
}

/* Queues the run behind, and then waits for the one before. */
static mica_status run_many(mica_executable *x, const mica_input *inputs, size_t n, size_t k,
                            mica_scope *into, mica_array *results) {
    mica_ticket *running = NULL, *next = NULL;
    mica_status status = MICA_OK;
    for (size_t i = 0; i <= k && status == MICA_OK; i++) {
        if (i < k) status = mica_executable_run_async(x, inputs ? inputs + i * n : NULL, n, &next);
        if (running) {
            mica_array *out = results ? results + (i - 1) * x->n_results : NULL;
            mica_status before = mica_ticket_wait(&running, into, out);
            if (status == MICA_OK) status = before;
        }
        running = next;
        next = NULL;
    }
    if (running) {
        mica_ticket_cancel(running);
        char text[1024];
        snprintf(text, sizeof text, "%s", mica_last_error());
        (void)mica_ticket_wait(&running, NULL, NULL);
        mc_fail(status, "%s", text);
    }
    return status;
}

mica_status mica_executable_run_many(mica_executable *executable, const mica_input *inputs,
                                     size_t n, size_t k, mica_scope *into, mica_array *results) {
    if (!executable) return mc_fail(MICA_EINVAL, "executable_run_many: the executable is NULL");
    mica_status status = MICA_OK;
    if (k > 0 && results) status = check_into(executable, into, results);
    if (status == MICA_OK) status = run_many(executable, inputs, n, k, into, results);
    for (size_t i = 0; status != MICA_OK && results && i < k * executable->n_results; i++)
        results[i] = (mica_array){into, MC_ABSENT};
    return status;
}

/* ---- slots ---- */

/* An input in memory that is kept for it. */
static mica_status stage(mc_executable_run *run, size_t i, const void *data) {
    mica_executable *x = run->x;
    mc_executable_param *param = &x->params[i];
    mc_value_of *value = &run->given[i];
    const bool number = x->bound && x->bound->compiled && x->bound->params[i].scalar;
    *value = (mc_value_of){.set = true, .own = true, .number = number};
    if (number) {
        memcpy(&value->bits, data, param->bytes);
        return MICA_OK;
    }
    if (param->staging && mc_storage_count(param->staging) > 1) {
        mc_storage_release(param->staging); /* somebody kept it, in a result */
        param->staging = NULL;
    }
    if (!param->staging) MC_TRY(mc_storage_new(x->device, param->bytes, &param->staging));
    value->storage = mc_storage_retain(param->staging);
    value->own = false; /* its memory is for the next run */
    return mc_storage_write(x->device, param->staging, 0, data, param->bytes);
}

mica_status mica_executable_run_slots(mica_executable *executable, const void *const *inputs,
                                      size_t n) {
    if (!executable || (!inputs && n > 0))
        return mc_fail(MICA_EINVAL, "executable_run_slots: NULL");
    if (n != executable->n_params)
        return mc_fail(MICA_EINVAL, "executable_run_slots: %zu inputs for %zu parameters", n,
                       executable->n_params);
    mc_executable_run *run = executable->own;
    MC_TRY(mc_executable_drain(executable));
    if (!executable->slots) {
        const mica_slot *slots;
        MC_TRY(mica_executable_slots(executable, &slots, &n));
    }
    MC_TRY(mc_executable_bind(executable));
    mica_status status = MICA_OK;
    for (size_t i = 0; i < executable->n_params && status == MICA_OK; i++)
        if (inputs[i]) status = stage(run, i, inputs[i]);
    if (status != MICA_OK) {
        drop_given(run);
        return status;
    }
    status = run_once(run, true);
    drop_results(run);
    return status;
}
