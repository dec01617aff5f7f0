/* How RoPE rotates queries and keys: the frequencies that configs ask for.
 *
 * The first `dims` elements of a head are pairs (i, i + dims / 2), or (2i, 2i + 1), each of which
 * rotates at position p by the angle p base^(-2i / dims), unless the kind says another. The others
 * pass.
 *
 * Sources: Su et al. 2021 (arXiv:2104.09864); llama3: the reference code of Llama 3.1; yarn: Peng
 * et al. 2023 (arXiv:2309.00071); longrope: Ding et al. 2024 (arXiv:2402.13753); the behaviour of
 * transformers 5. */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "base/status.h"
#include "io/config.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mc_rope_kind {
    MC_ROPE_PLAIN,
    MC_ROPE_LINEAR,      /* positions are divided by factor */
    MC_ROPE_LLAMA3,      /* only those of low frequencies; middle ones are blended */
    MC_ROPE_YARN,        /* the same, with other bounds */
    MC_ROPE_LONG,        /* each pair has a divisor: one for short texts, one for long ones */
    MC_ROPE_PROPORTIONAL /* all elements are in pairs, and `partial` of the pairs rotate */
} mc_rope_kind;

#define MC_ROPE_DIVISORS 256 /* of MC_ROPE_LONG: dims / 2 at most */

typedef struct mc_rope_spec {
    mc_rope_kind kind;
    int64_t head_dim; /* of the heads that it rotates */
    bool neighbours;  /* pairs are (2i, 2i + 1) */
    double partial;   /* the part of it that rotates; 0: all */
    double base;
    double factor;           /* of the kinds that divide by one; 1: none */
    double amplitude;        /* factor of what is rotated; 0: none */
    double sharpness;        /* of MC_ROPE_YARN: factor of all queries and keys, where it is used */
    double context;          /* positions that the model was trained for */
    double original_context; /* those before its RoPE was stretched */
    double low_freq_factor, high_freq_factor; /* of MC_ROPE_LLAMA3 */
    double beta_fast, beta_slow;              /* of MC_ROPE_YARN: rotations in original_context */
    bool whole_bounds;                        /* its bounds are rounded to whole pairs */
    double short_divisors[MC_ROPE_DIVISORS], long_divisors[MC_ROPE_DIVISORS]; /* of MC_ROPE_LONG */
    size_t n_divisors; /* of each: dims / 2 */
    bool stretched;    /* those for long texts are taken */
} mc_rope_spec;

/* A plain RoPE. */
mc_rope_spec mc_rope_plain(double base);

/* Reads an object that describes a RoPE, or the config of a model that has keys of it at its top:
 * rope_theta, partial_rotary_factor, original_max_position_embeddings, rope_type (or type), and if
 * there is one, its kind's keys. Absent keys keep their values, but a kind starts without another
 * one's factor and amplitude; head_dim and context are set before.
 *  errors  MICA_EUNSUPPORTED another rope_type; those of the config readers */
mica_status mc_rope_read(const mc_config_scope *scope, mc_rope_spec *rope);

/* The elements of a head that are in pairs: the first ones. */
int64_t mc_rope_dims(const mc_rope_spec *rope);

/* What positions are divided by, [dims / 2]: mica_rope's freqs. false: base and factor say it. */
bool mc_rope_freqs(const mc_rope_spec *rope, float *freqs);

/* One of them, i < dims / 2; infinite: the pair does not rotate. */
double mc_rope_freq_at(const mc_rope_spec *rope, int64_t i);

#endif
