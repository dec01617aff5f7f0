/* The training loop. */
#include "base/alloc.h"
#include "base/cancel.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/json_write.h"
#include "base/map.h"
#include "base/options.h"
#include "base/system.h"
#include "group/group.h"
#include "tune/data.h"
#include "tune/estimate.h"
#include "tune/folder.h"
#include "tune/log.h"
#include "tune/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct loop {
    mica_tuner *tuner;
    mica_tune_options o; /* all filled in */
    mica_optimizer_options optimizer;
    const mc_loss *loss;
    mc_data data;
    mc_steps *steps;
    mc_log log;
    mc_buffer settings;
    char *state_path; /* NULL: nothing is saved */
    int lock;         /* on the adapter's folder; -1: none */
    mc_position at;   /* now */
    mc_position safe; /* at the last update, which files are of */
    mica_tune_result result;
    uint64_t begun_us, reported_us; /* clock */
    int64_t reported_iteration;
    int64_t begun_at; /* iteration */
    double rate, norm;
    uint64_t cache_limit; /* of the device, before */
    bool mask_prompt;
    mc_step_result *results, *losses; /* [ranks] of a step, and of an evaluation beside it */
    mica_status log_status;           /* of the first log that could not be written, and its text */
    char log_error[256];
} loop;

/* ---- options ---- */

static mica_status check_counts(const mica_tune_options *o) {
    const struct {
        const char *name;
        int64_t value, min, max;
    } all[] = {
        {"batch_size", o->batch_size, 1, 1 << 16},
        {"iterations", o->iterations, 1, INT64_MAX},
        {"accumulate", o->accumulate, 1, 1 << 20},
        {"max_seq_length", o->max_seq_length, 2, 1 << 24},
        {"report_every", o->report_every, 1, INT64_MAX},
        {"valid_every", o->valid_every, 1, INT64_MAX},
        {"save_every", o->save_every, 1, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value < all[i].min || all[i].value > all[i].max)
            return mc_fail(MICA_EINVAL, "%s %lld: want %lld..%lld", all[i].name,
                           (long long)all[i].value, (long long)all[i].min, (long long)all[i].max);
    if (!(o->valid_share >= 0.0 && o->valid_share < 1.0))
        return mc_fail(MICA_EINVAL, "valid_share %g: want 0 or more, below 1", o->valid_share);
    if (!(o->clip_norm >= 0.0) || !isfinite(o->clip_norm))
        return mc_fail(MICA_EINVAL, "clip_norm %g: want a number above 0, or 0 for none",
                       o->clip_norm);
    if (o->accumulate % mica_group_size(o->group) != 0)
        return mc_fail(MICA_EINVAL,
                       "accumulate %lld: %d ranks have a batch each of an update: want a multiple",
                       (long long)o->accumulate, mica_group_size(o->group));
    if (o->average < MICA_TUNE_AVERAGE_TOKENS || o->average > MICA_TUNE_AVERAGE_STEPS)
        return mc_fail(MICA_EINVAL, "average %d: want tokens (0) or steps (1)", (int)o->average);
    if (o->too_long < MICA_TUNE_CUT || o->too_long > MICA_TUNE_REFUSE)
        return mc_fail(MICA_EINVAL, "too_long %d: want cut (0), split (1) or refuse (2)",
                       (int)o->too_long);
    if (o->resume && !o->adapter)
        return mc_fail(MICA_EINVAL, "resume: there is no adapter's folder to go on from");
    if (o->data && o->source)
        return mc_fail(MICA_EINVAL, "data and source: examples come from one of them");
    if (o->loss && o->loss_fn)
        return mc_fail(MICA_EINVAL, "loss %s and loss_fn: there is one loss", o->loss);
    return o->data || o->source ? MICA_OK : mc_fail(MICA_EINVAL, "there is no data to train with");
}

static int64_t or_default(int64_t value, int64_t initial) {
    return value ? value : initial;
}

/* Whether the loss of next tokens says something of a model, and of rows of several texts. */
static mica_status check_model(const mc_decoder_spec *spec, bool pack) {
    if (spec->both_ways)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s is an encoder, whose tokens see those that they would have to tell",
                       spec->family);
    for (int i = 0; pack && i < spec->n_layers; i++)
        if (mc_spec_carrier(spec, i))
            return mc_fail(MICA_EUNSUPPORTED,
                           "pack: layer %d of %s would carry one text of a row into the next", i,
                           spec->family);
    return MICA_OK;
}

static mica_status fill_options(loop *l, const mica_tune_options *options) {
    mica_tune_options *o = &l->o;
    int64_t ranks;
    MC_TRY(MC_OPTIONS_COPY(mica_tune_options, group, o, options));
    MC_TRY(check_model(&l->tuner->lm->spec, o->pack));
    int64_t context = l->tuner->lm->spec.context, length = 2048;
    if (context > 0 && context < length) length = context;
    ranks = mica_group_size(o->group);
    o->batch_size = or_default(o->batch_size, 4);
    o->iterations = or_default(o->iterations, 1000);
    o->accumulate = or_default(o->accumulate, ranks);
    o->max_seq_length = or_default(o->max_seq_length, length);
    o->valid_batches = or_default(o->valid_batches, 25);
    o->test_batches = or_default(o->test_batches, 500);
    o->report_every = or_default(o->report_every, 10);
    o->valid_every = or_default(o->valid_every, 200);
    o->save_every = or_default(o->save_every, 100);
    MC_TRY(check_counts(o));
    l->loss = &mc_loss_own;
    if (!o->loss) o->loss = o->mask_prompt ? "masked_cross_entropy" : "cross_entropy";
    if (!o->loss_fn) MC_TRY(mc_loss_find_trainer(o->loss, &l->loss));
    l->mask_prompt = o->mask_prompt || !l->loss->prompts;
    const mc_optimizer *row;
    MC_TRY(mc_optimizer_complete(o->optimizer, &l->optimizer, &row));
    l->optimizer.name = row->name;
    if (!o->schedule) return MICA_OK;
    return mica_schedule_rate(o->schedule, 0, &l->rate);
}

static mica_status rate_of(const loop *l, int64_t update, double *rate) {
    *rate = l->optimizer.learning_rate;
    return l->o.schedule ? mica_schedule_rate(l->o.schedule, update, rate) : MICA_OK;
}

/* ---- the settings that a state belongs to ---- */

/* A hash of the parameters' names: the optimiser's states are kept by their numbers. */
static uint64_t hash_names(mc_trainable *t) {
    uint64_t hash = 0;
    for (size_t i = 0; i < mc_trainable_count(t); i++) {
        const char *name = mc_trainable_at(t, i)->name;
        hash = mc_hash(name, strlen(name) + 1, hash);
    }
    return hash;
}

static bool put_number(mc_buffer *out, const char *key, double value) {
    return mc_buffer_printf(out, " %s ", key) && mc_json_put_number(out, value);
}

static bool put_schedule(mc_buffer *out, const mica_schedule *s) {
    if (!s) return true;
    bool done = mc_buffer_printf(out, " schedule %s", s->name ? s->name : "constant");
    for (size_t i = 0; i < s->n_arguments && done; i++)
        done = mc_buffer_add_text(out, ",") && mc_json_put_number(out, s->arguments[i]);
    if (s->warmup)
        done = done && put_number(out, "warmup", (double)s->warmup) &&
               put_number(out, "warmup_init", s->warmup_init);
    return done;
}

static mica_status write_settings(loop *l) {
    mc_buffer *out = &l->settings;
    const mica_tune_options *o = &l->o;
    const mica_optimizer_options *p = &l->optimizer;
    const mica_lora_options *t = &l->tuner->trainable.options;
    mc_buffer_clear(out);
    bool done = mc_buffer_printf(
                    out,
                    "loss %s optimizer %s kind %d bf16 %d fast %d flags %d%d%d%d mask %d pack %d "
                    "long %d data %016llx parameters %016llx",
                    l->loss->name, p->name, (int)t->kind, t->bf16, l->tuner->lm->head.fast != 0,
                    p->bias_correction, p->nesterov, p->no_nesterov, p->relative_step,
                    l->mask_prompt, o->pack, (int)o->too_long, (unsigned long long)l->data.hash,
                    (unsigned long long)hash_names(&l->tuner->trainable)) &&
                put_number(out, "beta", o->loss_options.beta) &&
                put_number(out, "rate", p->learning_rate) && put_number(out, "beta1", p->beta1) &&
                put_number(out, "beta2", p->beta2) && put_number(out, "eps", p->eps) &&
                put_number(out, "decay", p->weight_decay) &&
                put_number(out, "momentum", p->momentum) && put_schedule(out, o->schedule) &&
                put_number(out, "batch_size", (double)o->batch_size) &&
                put_number(out, "accumulate", (double)o->accumulate) &&
                put_number(out, "max_seq_length", (double)o->max_seq_length) &&
                put_number(out, "clip", o->clip_norm) && put_number(out, "seed", (double)o->seed) &&
                put_number(out, "rank", (double)t->rank) &&
                put_number(out, "dropout", (double)t->dropout) &&
                put_number(out, "scale", l->tuner->trainable.scale);
    /* What was split off must not be trained with later on. */
    if (o->accumulate > 1)
        done = done && mc_buffer_printf(out, " average %s",
                                        o->average == MICA_TUNE_AVERAGE_STEPS ? "steps" : "tokens");
    if (l->data.valid_share > 0.0)
        done = done && put_number(out, "valid_share", l->data.valid_share);
    done = done && mc_buffer_cstr(out);
    return done ? MICA_OK : mc_fail_nomem("the settings of training");
}

/* ---- reports ---- */

/* A log that cannot be written does not end training: it is told, and again at the end. */
static void report(loop *l, mica_tune_report *r) {
    r->struct_bytes = sizeof *r;
    r->iteration = l->at.iteration;
    r->iterations = l->o.iterations;
    r->trained_tokens = (uint64_t)l->at.trained_tokens;
    if (!r->memory_bytes) r->memory_bytes = mica_device_peak_bytes(l->tuner->device);
    if (!r->text) r->text = "";
    if (l->o.watch) l->o.watch(l->o.watch_user, r);
    mica_status status = mc_log_report(&l->log, r);
    if (status == MICA_OK) return;
    mica_tune_report note = *r;
    note.event = MICA_TUNE_NOTE;
    note.text = l->log_error;
    snprintf(l->log_error, sizeof l->log_error, "%s: this log ends here", mica_last_error());
    l->log_status = status;
    if (l->o.watch) l->o.watch(l->o.watch_user, &note);
}

static void report_text(loop *l, mica_tune_event event, const char *text) {
    mica_tune_report r = {.event = event, .text = text};
    report(l, &r);
}

static void report_set(loop *l, mc_set set, const char *name) {
    const mc_examples *e = &l->data.examples[set];
    char text[256];
    if (!e->path) return;
    if (e->cut) {
        snprintf(text, sizeof text,
                 "%llu examples of the %s set are longer than max_seq_length %lld and were %s: the "
                 "longest has %llu tokens",
                 (unsigned long long)e->cut, name, (long long)l->o.max_seq_length,
                 l->o.too_long == MICA_TUNE_SPLIT ? "split" : "cut",
                 (unsigned long long)e->longest);
        report_text(l, MICA_TUNE_NOTE, text);
    }
    if (!e->skipped) return;
    snprintf(text, sizeof text, "%llu lines of the %s set are no examples and were skipped",
             (unsigned long long)e->skipped, name);
    report_text(l, MICA_TUNE_NOTE, text);
}

static void report_plan(loop *l, uint64_t estimate) {
    char text[256];
    const uint32_t *n = l->data.n;
    snprintf(text, sizeof text,
             "%llu parameters to train, %u examples to train with, %u for validation, %u for the "
             "test",
             (unsigned long long)l->tuner->trainable.trained, n[MC_SET_TRAIN], n[MC_SET_VALID],
             n[MC_SET_TEST]);
    mica_tune_report r = {.event = MICA_TUNE_PLAN, .memory_bytes = estimate, .text = text};
    report(l, &r);
    report_set(l, MC_SET_TRAIN, "train");
    report_set(l, MC_SET_VALID, "valid");
    report_set(l, MC_SET_TEST, "test");
}

static void report_train(loop *l) {
    uint64_t now = mc_now_us();
    double seconds = (double)(now - l->reported_us) / 1e6;
    int64_t steps = l->at.iteration - l->reported_iteration;
    double per_second = seconds > 0.0 ? (double)steps / seconds : 0.0;
    mica_tune_report r = {
        .event = MICA_TUNE_TRAIN,
        .loss = l->at.loss_sum / l->at.weight_sum,
        .rate = l->rate,
        .norm = l->norm,
        .tokens_per_second = seconds > 0.0 ? l->at.report_tokens / seconds : 0.0,
        .iterations_per_second = per_second,
    };
    if (per_second > 0.0) r.seconds_left = (double)(l->o.iterations - l->at.iteration) / per_second;
    l->result.train_loss = r.loss;
    l->reported_us = now;
    l->reported_iteration = l->at.iteration;
    l->at.loss_sum = l->at.weight_sum = l->at.report_tokens = 0.0;
    report(l, &r);
}

/* ---- batches of ranks ---- */

/* This rank's batch of the n that come next; the others are passed over. */
static mica_status take_batch(mc_batches *b, size_t rank, size_t n, mc_batch *batch,
                              mc_step_result *own) {
    uint64_t next = b->next;
    mica_status status = MICA_OK;
    *own = (mc_step_result){.weight = 1.0};
    if (rank < n) {
        mc_batches_seek(b, next + rank);
        status = mc_batches_next(b, batch);
        own->tokens = (double)b->tokens;
        own->trained = (double)b->trained;
        if (status == MICA_OK) (void)mc_batches_lines(b, own->lines);
    }
    mc_batches_seek(b, next + n);
    own->status = status;
    if (status != MICA_OK) snprintf(own->error, sizeof own->error, "%s", mica_last_error());
    return status;
}

/* ---- evaluation ---- */

static mica_status evaluate(loop *l, mc_set set, int64_t max, double *loss) {
    mc_batches *b = &l->data.batches[set];
    size_t rank = (size_t)mica_group_rank(l->o.group), ranks = (size_t)mica_group_size(l->o.group);
    uint64_t n = b->count, begun = mc_now_us();
    double sum = 0.0, weights = 0.0;
    if (max > 0 && (uint64_t)max < n) n = (uint64_t)max;
    mc_batches_seek(b, 0);
    for (uint64_t i = 0; i < n; i += ranks) {
        mc_batch batch;
        size_t round = n - i < ranks ? (size_t)(n - i) : ranks;
        (void)take_batch(b, rank, round, &batch, &l->losses[rank]);
        l->losses[rank].cancelled = mc_cancel_check(l->o.cancel) != MICA_OK;
        MC_TRY(mc_steps_losses(l->steps, &batch, round, l->losses));
        for (size_t k = 0; k < round; k++) {
            sum += l->losses[k].loss * l->losses[k].weight;
            weights += l->losses[k].weight;
        }
    }
    *loss = sum / weights;
    l->reported_us += mc_now_us() - begun; /* not a part of the rate */
    return MICA_OK;
}

static mica_status validate(loop *l) {
    mica_tune_report r = {.event = MICA_TUNE_VALID};
    if (!l->data.batches[MC_SET_VALID].count) return MICA_OK;
    MC_TRY(evaluate(l, MC_SET_VALID, l->o.valid_batches, &r.loss));
    l->result.valid_loss = r.loss;
    report(l, &r);
    return MICA_OK;
}

/* ---- files: those of a group are rank 0's, which the others hear of ---- */

static bool writes(const loop *l) {
    return mica_group_rank(l->o.group) == 0;
}

static mica_status agree(const loop *l, const char *what, const char *text) {
    return l->o.group ? mica_group_agree(l->o.group, what, text) : MICA_OK;
}

static mica_status write_files(loop *l) {
    if (!writes(l)) return MICA_OK;
    MC_TRY(mc_folder_make(l->o.adapter));
    MC_TRY(mc_folder_check(l->o.adapter));
    MC_TRY(mc_state_save(l->state_path, &l->tuner->trainable, l->steps, &l->safe, &l->settings));
    MC_TRY(mica_tuner_save(l->tuner, l->o.adapter, l->o.format));
    report_text(l, MICA_TUNE_SAVED, l->o.adapter);
    return MICA_OK;
}

static mica_status save(loop *l) {
    return l->state_path ? mc_group_outcome(l->o.group, write_files(l)) : MICA_OK;
}

/* All ranks read the state, and must find the same. */
static mica_status agree_on_state(const loop *l, bool there) {
    char text[64];
    snprintf(text, sizeof text, "%s, iteration %lld", there ? "a state" : "none",
             (long long)l->at.iteration);
    return agree(l, "the state to go on from", text);
}

static mica_status resume(loop *l) {
    bool there = l->o.resume && mc_path_is_file(l->state_path);
    mica_status status = MICA_OK;
    if (there)
        status = mc_state_load(l->state_path, &l->tuner->trainable, l->steps, &l->at, &l->settings);
    MC_TRY(mc_group_outcome(l->o.group, status));
    MC_TRY(agree_on_state(l, there));
    if (!there) return MICA_OK;
    l->safe = l->at;
    mc_steps_go_on(l->steps, l->at.updates, l->at.gradients);
    mc_batches_seek(&l->data.batches[MC_SET_TRAIN], (uint64_t)l->at.iteration);
    char text[64];
    snprintf(text, sizeof text, "goes on after iteration %lld", (long long)l->at.iteration);
    report_text(l, MICA_TUNE_NOTE, text);
    return MICA_OK;
}

/* ---- steps ---- */

static mica_status blame_batch(const loop *l, mica_status status, const char *lines) {
    if (status != MICA_EINVAL) return status;
    return mc_fail_context(status, "iteration %lld, with the examples of lines %s",
                           (long long)l->at.iteration + 1, lines);
}

/* The batch of the first rank whose own has failed. */
static mica_status blame_rank(const loop *l, mica_status status) {
    int r = 0, size = mica_group_size(l->o.group);
    while (r < size - 1 && l->results[r].status == MICA_OK)
        r++;
    return blame_batch(l, status, l->results[r].lines);
}

/* Whether an update is behind an iteration. The last one takes what gradients there are. */
static bool ends_update(const loop *l, int64_t iteration) {
    return iteration % l->o.accumulate == 0 || iteration == l->o.iterations;
}

/* What a batch has added to the counts. */
static void count_batch(loop *l, const mc_step_result *r) {
    l->at.iteration++;
    l->at.gradients++;
    l->at.loss_sum += r->loss * r->weight;
    l->at.weight_sum += r->weight;
    l->at.trained_tokens += (int64_t)r->trained;
    l->at.report_tokens += r->tokens;
}

/* Batches up to the next update, one each of the first ranks: how many. */
static size_t count_round(const loop *l) {
    size_t n = 1, max = (size_t)mica_group_size(l->o.group);
    while (n < max && !ends_update(l, l->at.iteration + (int64_t)n))
        n++;
    return n;
}

static mica_status update(loop *l) {
    MC_TRY(rate_of(l, l->at.updates, &l->rate));
    mica_status status = mc_steps_update(l->steps, l->rate, &l->norm);
    status = mc_group_outcome(l->o.group, status);
    if (status != MICA_OK) return blame_batch(l, status, l->results[0].lines);
    l->at.updates++;
    return MICA_OK;
}

/* Adds the gradients of the n batches that come next. */
static mica_status add_gradients(loop *l, size_t n) {
    mc_batches *b = &l->data.batches[MC_SET_TRAIN];
    size_t rank = (size_t)mica_group_rank(l->o.group);
    mc_batch batch;
    (void)take_batch(b, rank, n, &batch, &l->results[rank]); /* all ranks are told */
    l->results[rank].cancelled = mc_cancel_check(l->o.cancel) != MICA_OK;
    return mc_steps_gradients(l->steps, &batch, n, l->results);
}

/* What is done behind a step. Files are of a moment at which no gradients are added up. */
static mica_status after_step(loop *l, int64_t *unsaved) {
    const mica_tune_options *o = &l->o;
    bool last = l->at.iteration == o->iterations;
    if (l->at.iteration % o->report_every == 0 || last) report_train(l);
    if (ends_update(l, l->at.iteration)) l->safe = l->at;
    if (l->at.iteration % o->valid_every == 0 && !last) MC_TRY(validate(l));
    bool due = l->at.iteration - *unsaved >= o->save_every;
    if (last || !due || l->at.iteration % o->accumulate != 0) return MICA_OK;
    *unsaved = l->at.iteration;
    return save(l);
}

static mica_status train(loop *l) {
    int64_t unsaved = l->begun_at = l->at.iteration;
    l->begun_us = l->reported_us = mc_now_us();
    l->reported_iteration = l->at.iteration;
    if (l->at.iteration == 0) MC_TRY(validate(l));
    l->reported_us = mc_now_us();
    while (l->at.iteration < l->o.iterations) {
        size_t n = count_round(l);
        mica_status status = add_gradients(l, n);
        if (status != MICA_OK) return blame_rank(l, status);
        for (size_t i = 0; i < n; i++) {
            if (ends_update(l, l->at.iteration + 1)) MC_TRY(update(l));
            count_batch(l, &l->results[i]);
            MC_TRY(after_step(l, &unsaved));
        }
    }
    MC_TRY(validate(l));
    return save(l);
}

/* ---- the whole ---- */

static mica_status check_memory(loop *l, uint64_t *estimate) {
    const mc_trainable *t = &l->tuner->trainable;
    const uint64_t limit = l->o.memory_limit_bytes;
    mc_estimate_case c = {
        .lm = t->lm,
        .trained = t->trained,
        .param_bytes = mc_trainable_bytes(t),
        .state_bytes = mc_steps_state_bytes(t, &l->optimizer),
        .chunk_rows = l->o.loss_fn ? INT64_MAX : mc_steps_chunk_rows(t->lm),
        .checkpoint = l->o.checkpoint,
        .packed = l->o.pack,
    };
    for (int i = 0; i < MC_SETS; i++) {
        int64_t length = l->data.batches[i].count ? mc_batches_longest(&l->data.batches[i]) : 0;
        if (length > c.length) c.length = length;
    }
    c.rows = l->o.batch_size * (l->loss->data == MC_LOSS_PAIRS ? 2 : 1);
    *estimate = mc_estimate_bytes(&c);
    return mc_estimate_check(&c, limit ? limit : mc_trainable_memory_bytes(t));
}

/* Whether a file is in the adapter's folder. */
static mica_status find_file(const loop *l, const char *name, bool *there) {
    char *path = mc_path_join(l->o.adapter, name);
    if (!path) return mc_fail_nomem(name);
    *there = mc_path_is_file(path);
    mc_free(path);
    return MICA_OK;
}

/* Refuses to write over an adapter that this training does not go on from. */
static mica_status check_existing(loop *l) {
    static const char *const names[] = {"adapters.safetensors", "adapter_model.safetensors",
                                        MC_STATE_FILE};
    bool state = false, there = false;
    if (!l->o.keep_existing || l->o.no_train) return MICA_OK;
    MC_TRY(find_file(l, MC_STATE_FILE, &state));
    if (l->o.resume && state) return MICA_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        MC_TRY(find_file(l, names[i], &there));
        if (there)
            return mc_fail(MICA_EINVAL,
                           "%s: holds an adapter (%s), which training would write over: %stake "
                           "another folder, or allow it",
                           l->o.adapter, names[i], state ? "go on from its state, " : "");
    }
    return MICA_OK;
}

/* What rank 0 alone has: the folder, and logs. */
static mica_status open_files(loop *l) {
    if (!writes(l)) return MICA_OK;
    if (l->o.adapter) {
        MC_TRY(mc_folder_make(l->o.adapter));
        MC_TRY(mc_folder_check(l->o.adapter));
        MC_TRY(mc_folder_lock(l->o.adapter, &l->lock));
    }
    return mc_log_open(&l->log, l->o.log, l->o.tensorboard);
}

/* Before the folder is written to. */
static mica_status check_folder(loop *l) {
    if (!l->o.adapter) return MICA_OK;
    if (!l->o.no_train) MC_TRY(mc_tuner_check_format(l->tuner, l->o.adapter, l->o.format));
    return writes(l) ? check_existing(l) : MICA_OK;
}

static mica_status open_steps(loop *l, uint64_t *estimate) {
    bool pairs = l->loss->data == MC_LOSS_PAIRS;
    size_t ranks = (size_t)mica_group_size(l->o.group);
    const mc_steps_options steps = {
        .loss = l->o.loss,
        .loss_options = l->o.loss_options,
        .optimizer = l->o.optimizer,
        .checkpoint = l->o.checkpoint,
        .clip_norm = l->o.clip_norm,
        .seed = l->o.seed,
        .loss_fn = l->o.loss_fn,
        .loss_user = l->o.loss_user,
        .alike = l->o.average == MICA_TUNE_AVERAGE_STEPS,
        .group = l->o.group,
    };
    l->results = mc_calloc(2 * ranks, sizeof *l->results);
    if (!l->results) return mc_fail_nomem("training");
    l->losses = l->results + ranks;
    if (l->o.adapter && !(l->state_path = mc_path_join(l->o.adapter, MC_STATE_FILE)))
        return mc_fail_nomem("the state of training");
    MC_TRY(mc_data_open(&l->data, l->tuner, &l->o, pairs, l->mask_prompt));
    MC_TRY(check_memory(l, estimate)); /* before moments and all that follows are made */
    MC_TRY(mc_steps_open(&l->tuner->trainable, l->tuner->device, &steps, &l->steps));
    return write_settings(l);
}

static mica_status prepare(loop *l, const mica_tune_options *options) {
    uint64_t estimate = 0;
    MC_TRY(fill_options(l, options));
    MC_TRY(mc_group_outcome(l->o.group, check_folder(l)));
    MC_TRY(mc_group_outcome(l->o.group, open_steps(l, &estimate)));
    MC_TRY(agree(l, "training", l->settings.data));
    MC_TRY(mc_group_outcome(l->o.group, open_files(l)));
    mica_device_reset_peak(l->tuner->device);
    (void)mica_device_set_cache_limit(l->tuner->device, estimate);
    report_plan(l, estimate);
    return MICA_OK;
}

static mica_status test(loop *l) {
    mica_tune_report r = {.event = MICA_TUNE_TEST};
    if (!l->o.test && !l->o.no_train) return MICA_OK;
    MC_TRY(evaluate(l, MC_SET_TEST, l->o.test_batches, &r.loss));
    l->result.test_loss = r.loss;
    report(l, &r);
    return MICA_OK;
}

static mica_status run_loop(loop *l, const mica_tune_options *options) {
    MC_TRY(prepare(l, options));
    if (!l->o.no_train) {
        MC_TRY(resume(l));
        mica_status status = train(l);
        if (status == MICA_ECANCELLED) {
            /* Before the first step an adapter that is there stays as it is. */
            if (l->at.iteration > l->begun_at) MC_TRY(save(l));
            return mc_fail(status, "cancelled after iteration %lld", (long long)l->at.iteration);
        }
        MC_TRY(status);
    }
    MC_TRY(test(l));
    if (l->log_status == MICA_OK) return MICA_OK;
    return mc_fail(l->log_status, "%s; all steps are done and saved", l->log_error);
}

mica_status mica_tune(mica_tuner *tuner, const mica_tune_options *options,
                      mica_tune_result *result) {
    MC_TRY(mc_tuner_check(tuner, "mica_tune"));
    loop *l = mc_calloc(1, sizeof *l);
    if (!l) return mc_fail_nomem("training");
    uint64_t begun = mc_now_us();
    l->tuner = tuner;
    l->lock = -1;
    l->cache_limit = mica_device_set_cache_limit(tuner->device, 0);
    (void)mica_device_set_cache_limit(tuner->device, l->cache_limit);
    l->result.train_loss = l->result.valid_loss = l->result.test_loss = (double)NAN;
    mica_status status = run_loop(l, options);
    l->result.iteration = l->at.iteration;
    l->result.trained_tokens = (uint64_t)l->safe.trained_tokens;
    l->result.peak_bytes = mica_device_peak_bytes(tuner->device);
    l->result.seconds = (double)(mc_now_us() - begun) / 1e6;
    MC_INFO_COPY(mica_tune_result, seconds, result, &l->result);
    mc_folder_unlock(&l->lock);
    int error = mc_log_close(&l->log);
    if (status == MICA_OK && error)
        status = mc_fail_errno(error, "the end of a log; all steps are done and saved");
    mc_data_close(&l->data);
    mc_steps_close(&l->steps);
    (void)mica_device_set_cache_limit(tuner->device, l->cache_limit);
    mc_buffer_deinit(&l->settings);
    mc_free(l->state_path);
    mc_free(l->results);
    mc_free(l);
    return status;
}
