#include "tune/step.h"

#include "base/alloc.h"
#include "group/group.h"

#include <mica/grad.h>
#include <mica/group.h>
#include <mica/program.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Logits and their gradient take so much each, at most. */
#define LOGITS_BYTES (INT64_C(128) << 20)

struct mc_steps {
    mc_trainable *t;
    mica_device *device;
    mc_steps_options options;
    const mc_loss *loss;
    const mc_optimizer *row;
    mica_optimizer_options optimizer;
    mica_function *gradient, *evaluate, *add, *norm, *update;
    size_t n;          /* parameters */
    mica_array *grads; /* [n] sums, in the trainable's scope */
    int64_t added;     /* gradients in the sums */
    /* The first gradient is as it is, each other is multiplied by its weight / the first's: what is
     * not accumulated is not rounded. */
    double first_weight;
    double total;       /* of these factors */
    mica_array *states; /* [n_states] in the trainable's scope */
    size_t n_states;
    int *states_of;      /* [n] number of states of each parameter */
    mica_function *last; /* function and batch of the last pass */
    int64_t last_rows, last_length;
    int64_t count;   /* of updates */
    int64_t batches; /* number of gradients since the start: dropout's keys */
};

/* ---- what is recorded ---- */

/* args: parameters, ids, mask, [seen]; key: NULL is without dropout */
static mica_status record_loss(const mc_steps *st, mica_scope *s, const mica_array *args,
                               size_t n_args, mica_array key, mica_array results[2]) {
    mc_lm view;
    MC_TRY(mc_trainable_view(st->t, s, args, key, &view));
    view.checkpoint = st->options.checkpoint ? mica_checkpoint : NULL;
    mc_sequences q = {
        .s = s,
        .lm = &view,
        .base = st->t->lm,
        .ids = args[st->n],
        .mask = args[st->n + 1],
        .seen = n_args > st->n + 3 ? args[st->n + 3] : MICA_NONE,
        .chunk_rows = st->options.chunk_rows,
        .options = &st->options.loss_options,
    };
    mica_status status = MICA_OK;
    if (st->options.loss_fn)
        status = mc_loss_call(&q, st->options.loss_fn, st->options.loss_user, results);
    else
        results[0] = st->loss->train(&q, &results[1]);
    if (status == MICA_OK) status = mica_scope_status(s);
    mc_trainable_end_view(&view);
    return status;
}

/* args: parameters, ids, mask, key, [seen]; results: loss, weight, gradients */
static mica_status record_gradient(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                   mica_array *results, size_t n_results) {
    const mc_steps *st = user;
    (void)n_results;
    MC_TRY(record_loss(st, s, args, n_args, args[st->n + 2], results));
    return mica_grad(s, results[0], MICA_NONE, args, st->n, results + 2);
}

static mica_status record_evaluate(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                   mica_array *results, size_t n_results) {
    (void)n_results;
    return record_loss(user, s, args, n_args, MICA_NONE, results);
}

/* A gradient times a factor, in its own dtype. */
static mica_array weigh(mica_scope *s, mica_array grad, mica_array factor) {
    return mica_multiply(s, grad, mica_astype(s, factor, mica_array_dtype(grad)));
}

/* args: factor of the gradients, sums, gradients; results: new sums */
static mica_status record_add(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    const mc_steps *st = user;
    (void)n_args, (void)n_results;
    for (size_t i = 0; i < st->n; i++)
        results[i] = mica_add(s, args[1 + i], weigh(s, args[1 + st->n + i], args[0]));
    return mica_scope_status(s);
}

/* args: gradients; results: the norm of all, then the sum of squares of each */
static mica_status record_norm(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)n_args;
    mica_array all = mica_f32(s, 0.0f);
    for (size_t i = 0; i + 1 < n_results; i++) {
        mica_array g = mica_astype(s, args[i], MICA_F32);
        results[1 + i] = mica_sum(s, mica_square(s, g), NULL, 0, false);
        all = mica_add(s, all, results[1 + i]);
    }
    results[0] = mica_sqrt(s, all);
    return mica_scope_status(s);
}

/* args: rate, step, factor of gradients, parameters, gradients, states; results: new parameters,
 * new states */
static mica_status record_update(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                 mica_array *results, size_t n_results) {
    const mc_steps *st = user;
    const mica_array *params = args + 3, *grads = params + st->n, *states = grads + st->n;
    mica_array *new_states = results + st->n;
    (void)n_args, (void)n_results;
    for (size_t i = 0; i < st->n; i++) {
        mc_update u = {.s = s, .options = &st->optimizer, .rate = args[0], .step = args[1]};
        size_t bytes = (size_t)st->states_of[i] * sizeof *states;
        u.param = mica_astype(s, params[i], MICA_F32);
        u.grad = mica_multiply(s, mica_astype(s, grads[i], MICA_F32), args[2]);
        memcpy(u.states, states, bytes);
        st->row->update(&u);
        results[i] = mica_astype(s, u.param, mica_array_dtype(params[i]));
        memcpy(new_states, u.states, bytes);
        states += st->states_of[i];
        new_states += st->states_of[i];
    }
    return mica_scope_status(s);
}

/* ---- opening ---- */

static mica_status make_states(mc_steps *st) {
    for (size_t i = 0; i < st->n; i++) {
        int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM];
        int ndims[MC_OPTIMIZER_STATES];
        mica_array p = mc_trainable_at(st->t, i)->value;
        st->states_of[i] =
            st->row->states(&st->optimizer, mica_array_shape(p), mica_array_ndim(p), shapes, ndims);
        for (int k = 0; k < st->states_of[i]; k++) {
            mica_array state = mica_zeros(st->t->scope, shapes[k], ndims[k], MICA_F32);
            /* Not constants that are laid out when they are read: memory that updates write to. */
            MC_TRY(mica_eval(st->t->scope, state));
            st->states[st->n_states++] = state;
        }
    }
    return MICA_OK;
}

static mica_status compile_all(mc_steps *st) {
    MC_TRY(mica_compile(st->device, record_gradient, st, NULL, &st->gradient));
    MC_TRY(mica_compile(st->device, record_evaluate, st, NULL, &st->evaluate));
    MC_TRY(mica_compile(st->device, record_add, st, NULL, &st->add));
    MC_TRY(mica_compile(st->device, record_norm, st, NULL, &st->norm));
    return mica_compile(st->device, record_update, st, NULL, &st->update);
}

static mica_status open_parts(mc_steps *st) {
    mc_steps_options *o = &st->options;
    if (o->loss_fn)
        st->loss = &mc_loss_own;
    else
        MC_TRY(mc_loss_find_trainer(o->loss, &st->loss));
    MC_TRY(mc_optimizer_complete(o->optimizer, &st->optimizer, &st->row));
    st->optimizer.name = st->row->name;
    if (o->loss_options.beta == 0.0) o->loss_options.beta = 0.1;
    if (o->chunk_rows <= 0) o->chunk_rows = mc_steps_chunk_rows(st->t->lm);
    st->grads = mc_calloc(st->n + 1, sizeof *st->grads);
    st->states = mc_calloc(st->n * MC_OPTIMIZER_STATES + 1, sizeof *st->states);
    st->states_of = mc_calloc(st->n + 1, sizeof *st->states_of);
    if (!st->grads || !st->states || !st->states_of) return mc_fail_nomem("training steps");
    MC_TRY(make_states(st));
    return compile_all(st);
}

mica_status mc_steps_open(mc_trainable *t, mica_device *device, const mc_steps_options *options,
                          mc_steps **out) {
    *out = NULL;
    mc_steps *st = mc_calloc(1, sizeof *st);
    if (!st) return mc_fail_nomem("training steps");
    st->t = t;
    st->device = device;
    st->options = *options;
    st->n = mc_trainable_count(t);
    mica_status status = open_parts(st);
    if (status == MICA_OK)
        *out = st;
    else
        mc_steps_close(&st);
    return status;
}

void mc_steps_close(mc_steps **steps) {
    mc_steps *st = *steps;
    if (!st) return;
    mica_function *all[] = {st->gradient, st->evaluate, st->add, st->norm, st->update};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mica_function_close(&all[i]);
    mc_free(st->grads);
    mc_free(st->states);
    mc_free(st->states_of);
    mc_free(st);
    *steps = NULL;
}

/* ---- running ---- */

/* The arguments of a pass; freed with mc_free. */
static mica_array *pass_args(mc_steps *st, mica_scope *s, const mc_batch *b, size_t *count) {
    mica_array *args = mc_array_alloc(st->n + 4, sizeof *args);
    const int64_t inner = b->length - 1;
    if (!args) return NULL;
    for (size_t i = 0; i < st->n; i++)
        args[i] = mc_trainable_at(st->t, i)->value;
    args[st->n] = mica_from_data(s, b->ids, MICA_I32, (int64_t[]){b->rows, b->length}, 2);
    args[st->n + 1] = mica_from_data(s, b->mask, MICA_F32, (int64_t[]){b->rows, inner}, 2);
    uint64_t seed = st->options.seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)st->batches;
    args[st->n + 2] = mica_random_key(s, seed);
    *count = st->n + 3;
    if (b->seen)
        args[(*count)++] =
            mica_from_data(s, b->seen, MICA_BOOL, (int64_t[]){b->rows, 1, inner, inner}, 4);
    return args;
}

/* A pass takes one large block, which the device keeps for the next one: fresh pages would cost a
 * fifth of the time. A pass of another size asks for another block: both would be too much. */
static void keep_block(mc_steps *st, mica_function *f, const mc_batch *b) {
    bool same = st->last == f && st->last_rows == b->rows && st->last_length == b->length;
    if (!same) mica_device_clear_cache(st->device);
    st->last = f;
    st->last_rows = b->rows;
    st->last_length = b->length;
}

static mica_status run_pass(mc_steps *st, mica_function *f, mica_scope *s, const mc_batch *b,
                            mica_array *results, size_t n, double *loss, double *weight) {
    size_t count;
    mica_array *args = pass_args(st, s, b, &count);
    if (!args) return mc_fail_nomem("a training step");
    mica_status status = mica_scope_status(s);
    keep_block(st, f, b);
    if (status == MICA_OK) status = mica_function_call(f, s, args, count, results, n);
    mc_free(args);
    MC_TRY(status);
    MC_TRY(mica_item_f64(results[0], loss));
    return mica_item_f64(results[1], weight);
}

/* Adds new gradients, of another scope, to the sums. */
static mica_status add_gradients(mc_steps *st, const mica_array *grads, double factor) {
    mica_scope *s = st->t->scope;
    mica_array *args = mc_array_alloc(2 * st->n + 1, sizeof *args);
    if (!args) return mc_fail_nomem("a training step");
    args[0] = mica_f32(s, (float)factor);
    for (size_t i = 0; i < st->n; i++) {
        args[1 + i] = mica_move(s, st->grads[i]);
        args[1 + st->n + i] = grads[i];
    }
    mica_status status = mica_scope_status(s);
    if (status == MICA_OK)
        status = mica_function_call(st->add, s, args, 2 * st->n + 1, st->grads, st->n);
    mc_free(args);
    return status;
}

/* Keeps what is alive of the trainable's scope. */
static mica_status collect(mc_steps *st) {
    size_t n = st->added ? st->n : 0;
    mica_array *more = mc_array_alloc(st->n_states + n + 1, sizeof *more);
    if (!more) return mc_fail_nomem("a training step");
    memcpy(more, st->states, st->n_states * sizeof *more);
    memcpy(more + st->n_states, st->grads, n * sizeof *more);
    mica_status status = mc_trainable_collect(st->t, more, st->n_states + n);
    if (status == MICA_OK) {
        memcpy(st->states, more, st->n_states * sizeof *more);
        memcpy(st->grads, more + st->n_states, n * sizeof *more);
    }
    mc_free(more);
    return status;
}

static mica_status take_gradients(mc_steps *st, const mica_array *grads, double weight) {
    if (!st->added) {
        st->first_weight = weight;
        st->total = 0.0;
    }
    double factor = st->options.alike ? 1.0 : weight / st->first_weight;
    if (st->added)
        MC_TRY(add_gradients(st, grads, factor));
    else
        for (size_t i = 0; i < st->n; i++)
            st->grads[i] = mica_materialize(st->t->scope, grads[i]);
    st->added++;
    st->total += factor;
    st->batches++;
    return collect(st);
}

mica_status mc_steps_gradient(mc_steps *st, const mc_batch *batch, double *loss, double *weight) {
    mica_scope *s = NULL;
    mica_array *results = mc_calloc(st->n + 2, sizeof *results);
    if (!results) return mc_fail_nomem("a training step");
    mica_status status = mica_scope_open(st->device, &s);
    if (status == MICA_OK)
        status = run_pass(st, st->gradient, s, batch, results, st->n + 2, loss, weight);
    if (status == MICA_OK && !isfinite(*loss))
        status =
            mc_fail(MICA_EINVAL, "the loss is %g after %lld updates", *loss, (long long)st->count);
    if (status == MICA_OK) status = take_gradients(st, results + 2, *weight);
    mica_scope_close(&s);
    mc_free(results);
    return status;
}

mica_status mc_steps_evaluate(mc_steps *st, const mc_batch *batch, double *loss, double *weight) {
    mica_scope *s = NULL;
    mica_array results[2];
    MC_TRY(mica_scope_open(st->device, &s));
    mica_status status = run_pass(st, st->evaluate, s, batch, results, 2, loss, weight);
    mica_scope_close(&s);
    return status;
}

/* ---- by the ranks of a group ---- */

/* What is wrong with this rank's batch before it is computed. */
static mica_status check_own(const mc_step_result *own) {
    if (own->status != MICA_OK) return mc_fail((mica_status)own->status, "%s", own->error);
    return own->cancelled ? mc_fail(MICA_ECANCELLED, "cancelled") : MICA_OK;
}

/* Gives all ranks what each has come to, of which `own` is this rank's status. */
static mica_status share_results(const mc_steps *st, mc_step_result *results, mica_status own) {
    mica_group *group = st->options.group;
    int rank = mica_group_rank(group), size = mica_group_size(group);
    mc_step_result mine = results[rank];
    mine.status = own;
    if (own != MICA_OK) snprintf(mine.error, sizeof mine.error, "%s", mica_last_error());
    MC_TRY(mc_group_all_gather(group, &mine, sizeof mine, results));
    for (int i = 0; i < size; i++) {
        mica_status status = check_own(&results[i]);
        if (status != MICA_OK) return i == rank ? status : mc_fail_context(status, "rank %d", i);
    }
    return MICA_OK;
}

/* What this rank adds to the sums over ranks: those so far are with the first one. */
static mica_array contribution(mc_steps *st, size_t i, mica_array grad, double factor) {
    mica_scope *s = st->t->scope;
    bool first = mica_group_rank(st->options.group) == 0;
    mica_array value = mc_trainable_at(st->t, i)->value;
    if (!mica_valid(grad))
        return mica_zeros(s, mica_array_shape(value), mica_array_ndim(value),
                          mica_array_dtype(value));
    grad = mica_materialize(s, grad);
    if (first && !st->added) return grad;
    grad = weigh(s, grad, mica_f32(s, (float)factor));
    return first ? mica_add(s, st->grads[i], grad) : grad;
}

/* Adds the gradients of the first n ranks to the sums. grads: this rank's; NULL: it has none. */
static mica_status add_over_ranks(mc_steps *st, const mica_array *grads, size_t n,
                                  const mc_step_result *results) {
    mica_group *group = st->options.group;
    mica_scope *s = st->t->scope;
    size_t rank = (size_t)mica_group_rank(group);
    if (!st->added) st->first_weight = results[0].weight;
    if (!st->added) st->total = 0.0;
    double factor = st->options.alike ? 1.0 : results[rank].weight / st->first_weight;
    mica_array order = MICA_NONE;
    for (size_t i = 0; i < st->n; i++) {
        mica_array own = contribution(st, i, grads ? grads[i] : MICA_NONE, factor);
        st->grads[i] = mica_all_reduce(s, group, own, &order);
    }
    MC_TRY(mica_eval_n(s, st->grads, st->n));
    for (size_t r = 0; r < n; r++)
        st->total += st->options.alike ? 1.0 : results[r].weight / st->first_weight;
    st->added += (int64_t)n;
    st->batches += (int64_t)n;
    return collect(st);
}

static mica_status run_own(mc_steps *st, mica_function *f, mica_scope *s, const mc_batch *batch,
                           mica_array *arrays, size_t n_arrays, mc_step_result *result) {
    MC_TRY(check_own(result));
    int rank = mica_group_rank(st->options.group);
    st->batches += rank; /* its number is that of the batch's dropout */
    mica_status status =
        run_pass(st, f, s, batch, arrays, n_arrays, &result->loss, &result->weight);
    st->batches -= rank;
    if (status == MICA_OK && f == st->gradient && !isfinite(result->loss))
        status = mc_fail(MICA_EINVAL, "the loss is %g after %lld updates", result->loss,
                         (long long)st->count);
    return status;
}

static mica_status run_over_ranks(mc_steps *st, mica_function *f, const mc_batch *batch, size_t n,
                                  mica_array *arrays, size_t n_arrays, mc_step_result *results) {
    mica_scope *s = NULL;
    size_t rank = (size_t)mica_group_rank(st->options.group);
    mica_status status = mica_scope_open(st->device, &s);
    if (status == MICA_OK && rank < n)
        status = run_own(st, f, s, batch, arrays, n_arrays, &results[rank]);
    status = share_results(st, results, status);
    if (status == MICA_OK && f == st->gradient)
        status = mc_group_end_on(st->options.group,
                                 add_over_ranks(st, rank < n ? arrays + 2 : NULL, n, results));
    mica_scope_close(&s);
    return status;
}

mica_status mc_steps_gradients(mc_steps *st, const mc_batch *batch, size_t n,
                               mc_step_result *results) {
    if (mica_group_size(st->options.group) == 1) {
        MC_TRY(check_own(&results[0]));
        return mc_steps_gradient(st, batch, &results[0].loss, &results[0].weight);
    }
    mica_array *arrays = mc_calloc(st->n + 2, sizeof *arrays);
    if (!arrays) return mc_group_end_on(st->options.group, mc_fail_nomem("a training step"));
    mica_status status = run_over_ranks(st, st->gradient, batch, n, arrays, st->n + 2, results);
    mc_free(arrays);
    return status;
}

mica_status mc_steps_losses(mc_steps *st, const mc_batch *batch, size_t n,
                            mc_step_result *results) {
    mica_array arrays[2];
    if (mica_group_size(st->options.group) == 1) {
        MC_TRY(check_own(&results[0]));
        return mc_steps_evaluate(st, batch, &results[0].loss, &results[0].weight);
    }
    return run_over_ranks(st, st->evaluate, batch, n, arrays, 2, results);
}

mica_array mc_steps_grad(const mc_steps *st, size_t i) {
    return st->grads[i];
}

/* Names the first parameter whose gradient is not finite. */
static mica_status report_infinite(const mc_steps *st, const mica_array *squares) {
    for (size_t i = 0; i < st->n; i++) {
        double square = 0.0;
        MC_TRY(mica_item_f64(squares[i], &square));
        if (!isfinite(square))
            return mc_fail(MICA_EINVAL, "the gradient of %s is not finite after %lld updates",
                           mc_trainable_at(st->t, i)->name, (long long)st->count);
    }
    return mc_fail(MICA_EINVAL, "the gradients' norm overflows after %lld updates",
                   (long long)st->count);
}

static mica_status find_norm(mc_steps *st, double *norm) {
    mica_scope *s = NULL;
    mica_array *results = mc_calloc(st->n + 1, sizeof *results);
    if (!results) return mc_fail_nomem("a training step");
    mica_status status = mica_scope_open(st->device, &s);
    if (status == MICA_OK)
        status = mica_function_call(st->norm, s, st->grads, st->n, results, st->n + 1);
    if (status == MICA_OK) status = mica_item_f64(results[0], norm);
    if (status == MICA_OK && !isfinite(*norm)) status = report_infinite(st, results + 1);
    mica_scope_close(&s);
    mc_free(results);
    return status;
}

/* Runs the update; args [3 + 2 n + n_states], results [n + n_states]. */
static mica_status run_update(mc_steps *st, double rate, double factor, mica_array *args,
                              mica_array *results) {
    mica_scope *s = st->t->scope;
    mica_array *params = args + 3, *grads = params + st->n, *states = grads + st->n;
    args[0] = mica_f32(s, (float)rate);
    args[1] = mica_f32(s, (float)(st->count + 1));
    args[2] = mica_f32(s, (float)factor);
    for (size_t i = 0; i < st->n; i++) {
        params[i] = mica_move(s, mc_trainable_at(st->t, i)->value);
        grads[i] = mica_move(s, st->grads[i]);
    }
    for (size_t i = 0; i < st->n_states; i++)
        states[i] = mica_move(s, st->states[i]);
    MC_TRY(mica_scope_status(s));
    MC_TRY(mica_function_call(st->update, s, args, 3 + 2 * st->n + st->n_states, results,
                              st->n + st->n_states));
    for (size_t i = 0; i < st->n; i++)
        mc_trainable_at(st->t, i)->value = results[i];
    memcpy(st->states, results + st->n, st->n_states * sizeof *results);
    return MICA_OK;
}

mica_status mc_steps_update(mc_steps *st, double rate, double *norm) {
    if (!st->added) return mc_fail(MICA_EINVAL, "an update without gradients");
    MC_TRY(find_norm(st, norm));
    double factor = 1.0 / st->total;
    *norm *= factor;
    if (st->options.clip_norm > 0.0) factor *= fmin(1.0, st->options.clip_norm / (*norm + 1e-6));
    mica_array *all = mc_calloc(3 + 3 * st->n + 2 * st->n_states, sizeof *all);
    if (!all) return mc_fail_nomem("a training step");
    mica_status status = run_update(st, rate, factor, all, all + 3 + 2 * st->n + st->n_states);
    mc_free(all);
    MC_TRY(status);
    st->added = 0;
    st->count++;
    return collect(st);
}

/* ---- for files ---- */

void mc_steps_go_on(mc_steps *st, int64_t updates, int64_t gradients) {
    st->count = updates;
    st->batches = gradients;
}

size_t mc_steps_state_count(const mc_steps *st) {
    return st->n_states;
}

mica_array *mc_steps_state(mc_steps *st, size_t i) {
    return &st->states[i];
}

/* ---- before opening ---- */

int64_t mc_steps_chunk_rows(const mc_lm *lm) {
    int64_t rows = LOGITS_BYTES / (lm->spec.vocab * (int64_t)sizeof(float));
    return rows < 16 ? 16 : rows;
}

uint64_t mc_steps_state_bytes(const mc_trainable *t, const mica_optimizer_options *options) {
    uint64_t bytes = 0;
    const mc_optimizer *row = mc_optimizer_find(options->name);
    for (size_t i = 0; row && i < mc_trainable_count(t); i++) {
        int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM];
        int ndims[MC_OPTIMIZER_STATES];
        mica_array p = mc_trainable_at(t, i)->value;
        int n = row->states(options, mica_array_shape(p), mica_array_ndim(p), shapes, ndims);
        for (int k = 0; k < n; k++) {
            uint64_t size = sizeof(float);
            for (int axis = 0; axis < ndims[k]; axis++)
                size *= (uint64_t)shapes[k][axis];
            bytes += size;
        }
    }
    return bytes;
}
