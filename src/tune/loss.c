#include "tune/loss.h"

#include "base/alloc.h"
#include "base/options.h"
#include "graph/graph.h"
#include "model/forward.h"

#include <mica/grad.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const mc_loss *const rows[] = {
#define LOSS(name) &mc_loss_##name,
#include "tune/loss_list.h"
#undef LOSS
};

enum { ROWS = sizeof rows / sizeof *rows };

/* NULL: there is none. */
static const mc_loss *find_loss(const char *name) {
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i]->name, name) == 0) return rows[i];
    return NULL;
}

const mc_loss mc_loss_own = {
    .name = "own", .summary = "of a function", .data = MC_LOSS_TEXTS, .prompts = true};

/* The input of the head for all tokens of q but the last ones: [B, T - 1, hidden]. */
static mica_array hidden_states(const mc_sequences *q, const mc_lm *lm) {
    mica_scope *s = q->s;
    mc_masked masked = {lm, q->seen}; /* tokens of packed texts attend to their own text */
    const mc_kv_store store = mc_masked_store(&masked);
    mica_array ids = mica_slice_axis(s, q->ids, 1, 0, mica_array_dim(q->ids, 1) - 1);
    return mc_lm_forward(s, lm, ids, mica_i32(s, 0), mica_valid(q->seen) ? &store : NULL,
                         MC_HIDDEN);
}

mica_status mc_loss_call(const mc_sequences *q, mica_compile_fn fn, void *user,
                         mica_array results[2]) {
    mica_scope *s = q->s;
    int64_t length = mica_array_dim(q->ids, 1);
    const mica_array args[] = {mc_lm_head(s, q->lm, hidden_states(q, q->lm)),
                               mica_slice_axis(s, q->ids, 1, 1, length), q->mask};
    results[0] = MICA_NONE;
    results[1] = mica_sum(s, q->mask, NULL, 0, false);
    MC_TRY(fn(user, s, args, 3, results, 1));
    MC_TRY(mica_scope_status(s));
    if (!mica_valid(results[0]) || mica_array_ndim(results[0]) != 0 ||
        mica_array_dtype(results[0]) != MICA_F32)
        return mc_fail(MICA_ESHAPE, "the function of the loss gives no f32 []");
    return MICA_OK;
}

static mica_status unknown(const char *name) {
    char known[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < ROWS && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, i ? ", %s" : "%s", rows[i]->name);
    return mc_fail(MICA_EINVAL, "no loss \"%s\"; there are %s", name, known);
}

mica_status mc_loss_find_trainer(const char *name, const mc_loss **loss) {
    *loss = find_loss(name);
    if (!*loss) return unknown(name);
    if ((*loss)->train) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "loss %s is a formula over arrays (mica_loss): it trains no language model",
                   name);
}

size_t mica_loss_count(void) {
    return ROWS;
}

const char *mica_loss_name(size_t i, const char **summary) {
    if (summary) *summary = i < ROWS ? rows[i]->summary : NULL;
    return i < ROWS ? rows[i]->name : NULL;
}

mica_status mica_loss(mica_scope *s, const char *name, const mica_array *inputs, size_t n,
                      const mica_loss_options *options, mica_array *loss) {
    mica_loss_options given;
    if (!s || !name || !inputs || !loss) return mc_fail(MICA_EINVAL, "mica_loss: NULL");
    *loss = MICA_NONE;
    MC_TRY(MC_OPTIONS_COPY(mica_loss_options, beta, &given, options));
    if (given.beta == 0.0) given.beta = 0.1;
    const mc_loss *row = find_loss(name);
    if (!row) return unknown(name);
    if (n != (size_t)row->n_inputs)
        return mc_fail(MICA_EINVAL, "loss %s takes %d arrays (%s), not %zu", name, row->n_inputs,
                       row->inputs, n);
    MC_TRY(mica_scope_status(s));
    *loss = row->formula(s, inputs, &given);
    mica_status status = mica_scope_status(s);
    if (status != MICA_OK) mica_scope_clear_error(s);
    return status;
}

/* ---- cross-entropy in parts ---- */

/* args: hidden states [rows, hidden], targets [rows]; result: [rows] */
static mica_status head_loss(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    results[0] = mica_cross_entropy(s, mc_lm_head(s, user, args[0]), args[1]);
    return mica_scope_status(s);
}

/* [n, hidden], [n] -> [n] */
static mica_array losses_in_parts(const mc_sequences *q, const mc_lm *lm, mica_array hidden,
                                  mica_array targets) {
    mica_scope *s = q->s;
    int64_t n = mica_array_dim(hidden, 0), part = q->chunk_rows;
    mica_array args[] = {hidden, targets}, y = MICA_NONE;
    void *model = (void *)(uintptr_t)lm; /* read only, through the user pointer of a function */
    if (part <= 0 || part >= n) {
        (void)head_loss(model, s, args, 2, &y, 1);
        return y;
    }
    size_t count = (size_t)((n + part - 1) / part);
    part = (n + (int64_t)count - 1) / (int64_t)count; /* parts of about one size */
    mica_array *parts = mc_array_alloc(count, sizeof *parts);
    if (!parts) {
        (void)mc_fail_nomem("the parts of a loss");
        return MICA_NONE;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t begin = (int64_t)i * part, end = begin + part < n ? begin + part : n;
        args[0] = mica_slice_axis(s, hidden, 0, begin, end);
        args[1] = mica_slice_axis(s, targets, 0, begin, end);
        mc_scope_set_status(s, mica_checkpoint(s, head_loss, model, args, 2, &parts[i], 1));
    }
    y = mica_concatenate(s, parts, (int)count, 0);
    mc_free(parts);
    return y;
}

mica_array mc_token_losses(const mc_sequences *q, const mc_lm *lm) {
    mica_scope *s = q->s;
    int64_t batch = mica_array_dim(q->ids, 0), length = mica_array_dim(q->ids, 1) - 1;
    int64_t count = batch * length;
    const int64_t flat[] = {count, lm->spec.hidden}, shape[] = {batch, length};
    mica_array hidden = hidden_states(q, lm);
    mica_array targets = mica_slice_axis(s, q->ids, 1, 1, length + 1);
    targets = mica_reshape(s, targets, &count, 1);
    mica_array losses = losses_in_parts(q, lm, mica_reshape(s, hidden, flat, 2), targets);
    return mica_reshape(s, losses, shape, 2);
}

mica_array mc_masked_mean(mica_scope *s, mica_array x, mica_array mask) {
    mica_array sum = mica_sum(s, mica_multiply(s, x, mask), NULL, 0, false);
    return mica_divide(s, sum, mica_sum(s, mask, NULL, 0, false));
}

mica_array mc_sum_last(mica_scope *s, mica_array x) {
    return mica_sum(s, x, (int[]){-1}, 1, false);
}

/* log(sigmoid(x)) = -log(1 + exp(-x)) */
mica_array mc_log_sigmoid(mica_scope *s, mica_array x) {
    mica_array zero = mica_f32(s, 0.0f);
    return mica_negative(s, mica_logaddexp(s, zero, mica_negative(s, x)));
}
