#include "tune/estimate.h"

#include <stdio.h>

/* f32 numbers that a layer keeps of a token until the pass back has reached it. */
static uint64_t layer_numbers(const mc_decoder_spec *s, int layer) {
    uint64_t n = 0;
    const mc_block_spec *block;
    for (int i = 0; (block = mc_spec_block(s, layer, i)); i++)
        n += (uint64_t)block->kind->kept(block);
    return n;
}

static uint64_t activation_bytes(const mc_estimate_case *c) {
    const mc_decoder_spec *s = &c->lm->spec;
    uint64_t tokens = (uint64_t)(c->rows * c->length), layers = (uint64_t)s->n_layers;
    uint64_t width = (uint64_t)s->hidden, largest = 0, all = 0;
    for (int i = 0; i < s->n_layers; i++) {
        uint64_t layer = layer_numbers(s, i);
        largest = layer > largest ? layer : largest;
        all += layer;
    }
    /* In checkpoints a layer keeps its input, and one layer at a time keeps all. */
    uint64_t kept = c->checkpoint ? layers * width + largest : all;
    uint64_t part = tokens < (uint64_t)c->chunk_rows ? tokens : (uint64_t)c->chunk_rows;
    uint64_t logits = 2 * part * (uint64_t)s->vocab;
    uint64_t seen = c->packed ? (uint64_t)(c->rows * c->length * c->length) / 2 : 0;
    return 4 * (tokens * (kept + largest) + logits + seen);
}

uint64_t mc_estimate_bytes(const mc_estimate_case *c) {
    /* gradients, and their sums or the new parameters */
    uint64_t trained = c->param_bytes + 2 * 4 * c->trained + c->state_bytes;
    return c->lm->weight_bytes + trained + activation_bytes(c);
}

/* The longest rows that fit, a multiple of 32 and one; 0: none. */
static int64_t longest_fit(mc_estimate_case c, uint64_t limit) {
    for (c.length = c.length / 32 * 32 + 1; c.length > 32; c.length -= 32)
        if (mc_estimate_bytes(&c) <= limit) return c.length;
    return 0;
}

mica_status mc_estimate_check(const mc_estimate_case *c, uint64_t limit) {
    uint64_t bytes = mc_estimate_bytes(c);
    char fits[256] = "";
    const double mb = 1e6;
    if (!limit || bytes <= limit) return MICA_OK;
    mc_estimate_case less = *c;
    less.checkpoint = true;
    int64_t pair = c->rows > 1 ? c->rows : 1, rows = pair;
    while (rows > 1 && mc_estimate_bytes(&less) > limit)
        less.rows = rows = rows / 2;
    if (mc_estimate_bytes(&less) <= limit) {
        snprintf(fits, sizeof fits, "%s batch_size %lld would take %.0f MB",
                 c->checkpoint ? "a" : "grad_checkpoint with a", (long long)rows,
                 (double)mc_estimate_bytes(&less) / mb);
    } else {
        int64_t length = longest_fit(less, limit);
        if (length)
            snprintf(fits, sizeof fits,
                     "grad_checkpoint, a batch_size of 1 and a max_seq_length of %lld would fit",
                     (long long)length);
        else
            snprintf(fits, sizeof fits, "no setting would fit: take a smaller model");
    }
    return mc_fail(MICA_ENOMEM,
                   "training takes about %.0f MB (rows of up to %lld tokens, %lld at once), and "
                   "there are %.0f MB: %s",
                   (double)bytes / mb, (long long)c->length, (long long)c->rows, (double)limit / mb,
                   fits);
}
