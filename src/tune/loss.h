/* Losses: a row of loss_list.h and a function of a file each.
 *
 * A row has its formula over arrays (mica_loss), and, if it trains language models, a function that
 * records it over a batch of token ids. The latter never has all logits at once: head and
 * cross-entropy of a part of the rows are computed in a checkpoint. Threads: any. */
#ifndef TUNE_LOSS_H
#define TUNE_LOSS_H

#include "model/lm.h"

#include <mica/tune.h>

/* What examples a loss takes. */
typedef enum mc_loss_data {
    MC_LOSS_ARRAYS, /* none: it is a formula only */
    MC_LOSS_TEXTS,
    MC_LOSS_PAIRS /* a chosen and a rejected answer */
} mc_loss_data;

/* A batch, and the model that it goes through. */
typedef struct mc_sequences {
    mica_scope *s;
    const mc_lm *lm;   /* a view, with parameters */
    const mc_lm *base; /* the model as it was opened */
    mica_array ids;    /* i32 [B, T]; of pairs, B/2 chosen texts, then the rejected ones */
    mica_array mask;   /* f32 [B, T - 1]: 1 where the next token counts */
    mica_array seen;   /* bool [B, 1, T - 1, T - 1], what tokens see; MICA_NONE: all before them */
    int64_t chunk_rows;
    const mica_loss_options *options;
} mc_sequences;

typedef struct mc_loss {
    const char *name, *summary;
    const char *inputs; /* of the formula, in order: "logits targets" */
    int n_inputs;
    mica_array (*formula)(mica_scope *s, const mica_array *in, const mica_loss_options *options);
    mc_loss_data data;
    bool reference; /* the model as it was opened computes the texts, too */
    bool prompts;   /* it counts the tokens of prompts, too, unless options mask these */
    /* The loss []; weight receives by what it is weighted in a mean over batches: f32 []. */
    mica_array (*train)(const mc_sequences *q, mica_array *weight);
} mc_loss;

#define LOSS(name) extern const mc_loss mc_loss_##name;
#include "tune/loss_list.h"
#undef LOSS

/* The loss of a name, which trains language models.
 * errors  MICA_EINVAL there is none (the text lists them), or it is a formula only */
mica_status mc_loss_find_trainer(const char *name, const mc_loss **loss);

/* A loss of an application: no row of the list. */
extern const mc_loss mc_loss_own;

/* Records it over a batch: logits, targets and mask in, the loss [] and its weight out.
 * errors  those of fn; MICA_ESHAPE it gives no f32 [] */
mica_status mc_loss_call(const mc_sequences *q, mica_compile_fn fn, void *user,
                         mica_array results[2]);

/* ---- for the rows' files ---- */

/* The cross-entropy of each next token, f32 [B, T - 1], by a model of q. */
mica_array mc_token_losses(const mc_sequences *q, const mc_lm *lm);
/* sum(mask x) / sum(mask) */
mica_array mc_masked_mean(mica_scope *s, mica_array x, mica_array mask);
/* Sums over the last axis: f32 [B]. */
mica_array mc_sum_last(mica_scope *s, mica_array x);
/* log(sigmoid(x)) without overflow. */
mica_array mc_log_sigmoid(mica_scope *s, mica_array x);

#endif
