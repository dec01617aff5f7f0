/* The architectures of GGUF files that mica knows: what families they hold, what their tensors are
 * called, what their metadata says. One table for both directions.
 *
 * Source: the keys that ggml's docs/gguf.md lists, and what llama.cpp reads and writes. */
#ifndef CONVERT_GGUF_ARCH_H
#define CONVERT_GGUF_ARCH_H

#include "base/status.h"
#include "io/gguf.h"
#include "model/spec.h"

#include <stdbool.h>

/* Numbers of a model that metadata and configs have. NAN: it has none. */
typedef enum mc_gguf_quantity {
    MC_GGUF_CONTEXT,
    MC_GGUF_HIDDEN,
    MC_GGUF_LAYERS,
    MC_GGUF_VOCAB,
    MC_GGUF_EPS,
    MC_GGUF_HEADS,
    MC_GGUF_HEAD_DIM, /* of layers without windows */
    MC_GGUF_HEAD_DIM_SWA,
    MC_GGUF_WINDOW,
    MC_GGUF_SCALE, /* of scores */
    MC_GGUF_SCORE_CAP,
    MC_GGUF_LOGIT_CAP,
    MC_GGUF_GROWTH,
    MC_GGUF_SHARED_LAYERS, /* which read the keys and values of others */
    MC_GGUF_ROTATES,       /* 1: attention has RoPE */
    MC_GGUF_EMBED_SCALE,
    MC_GGUF_ADDED_SCALE,
    MC_GGUF_LOGIT_DIVISOR,
    MC_GGUF_EXPERTS,
    MC_GGUF_PICKS,
    MC_GGUF_EXPERT_WIDTH,
    MC_GGUF_SHARED_WIDTH,
    MC_GGUF_DENSE_LAYERS, /* the first ones, without experts */
    MC_GGUF_GROUPS,
    MC_GGUF_TOP_GROUPS,
    MC_GGUF_RENORMALISED,
    MC_GGUF_FACTOR,
    MC_GGUF_TAPS,
    MC_GGUF_STATE,
    MC_GGUF_STATE_GROUPS,
    MC_GGUF_STATE_HEADS,
    MC_GGUF_INNER,
    MC_GGUF_INNER_DIM, /* inner / state heads */
    MC_GGUF_EXPAND,    /* inner / hidden */
    MC_GGUF_QUERY_LATENT,
    MC_GGUF_LATENT,
    MC_GGUF_KEY_DIM, /* of a head that latents make: MC_GGUF_PLAIN_DIM and what rotates */
    MC_GGUF_PLAIN_DIM,
    MC_GGUF_VALUE_DIM,
    MC_GGUF_ROTATED,
    MC_GGUF_SHARED_COUNT, /* of shared experts */
    MC_GGUF_LAYER_WIDTH,
    MC_GGUF_LAYER_ROWS,
    MC_GGUF_TYPES, /* of tokens */
    MC_GGUF_STREAMS,
    MC_GGUF_ACTIVE_STREAM,
    MC_GGUF_RANK,       /* of Laurel */
    MC_GGUF_ACTIVATION, /* mc_activation */
    MC_GGUF_ONE,        /* always 1 */
    MC_GGUF_NUMBERS
} mc_gguf_quantity;

typedef enum mc_gguf_type {
    MC_GGUF_INT,
    MC_GGUF_REAL,
    MC_GGUF_BOOL,
    MC_GGUF_POSITIONS, /* a bool, of which config.json makes "rope" or "nope" */
    MC_GGUF_FUNCTION,  /* the name of an activation */
    MC_GGUF_FOUND
} mc_gguf_type;

/* A number in both. */
typedef struct mc_gguf_row {
    const char *key;    /* behind the architecture's name, unless it is the tokenizer's; NULL: no
                           key has it */
    const char *config; /* key of config.json; NULL: none has it */
    mc_gguf_quantity number;
    mc_gguf_type type;
    double fallback; /* without the key; NAN: none. What is not 0 is the value of MC_GGUF_ONE */
    bool required;   /* a file without the key is refused */
    /* Of MC_GGUF_FOUND: whether any layer has this slot's tensor, or of a matrix its bias. */
    const mc_block *kind;
    int slot;
} mc_gguf_row;

/* The name of a slot, where it is not the slot's own. */
typedef struct mc_gguf_name {
    const mc_block *kind;
    int slot;
    const char *name;
} mc_gguf_name;

/* What a layer has in the place of attention. */
typedef enum mc_gguf_kind {
    MC_GGUF_FULL,
    MC_GGUF_SLIDING,
    MC_GGUF_CARRYING, /* a block that carries arrays */
    MC_GGUF_SPARSE,   /* experts and nothing else */
    MC_GGUF_MLP,      /* an MLP and nothing else */
    MC_GGUF_KINDS
} mc_gguf_kind;

/* How metadata tells which layers carry arrays. */
typedef enum mc_gguf_carry {
    MC_GGUF_CARRY_NONE,
    MC_GGUF_CARRY_LIST, /* attention.recurrent_layers, or full_attention_interval */
    MC_GGUF_CARRY_HEADS /* they have no heads of keys */
} mc_gguf_carry;

/* Where config.json has RoPE. */
typedef enum mc_gguf_rope_style {
    MC_GGUF_ROPE_TOP,        /* rope_theta and rope_scaling */
    MC_GGUF_ROPE_NONE,       /* nothing rotates */
    MC_GGUF_ROPE_PARAMETERS, /* rope_parameters */
    MC_GGUF_ROPE_KINDS,      /* an object for each kind of layers in that */
    MC_GGUF_ROPE_LAYERS      /* layer_rope_theta, too: 0 for layers that do not rotate */
} mc_gguf_rope_style;

typedef enum mc_gguf_has { MC_GGUF_NO, MC_GGUF_YES, MC_GGUF_ANY } mc_gguf_has;

typedef struct mc_gguf_arch {
    const char *name;                      /* general.architecture */
    const char *families[3];               /* mica's */
    const char *model_type, *architecture; /* of config.json */
    const char *ranker;                    /* the latter, of a file with a cross-encoder's head */
    bool gemma;                            /* it has Gemma's tokenizer */
    bool permuted;    /* the rows of queries and keys are in the order of paired rotations */
    bool tiled;       /* heads of values are in the order of tiles: see gguf_rows.c */
    bool joined;      /* matrices of several slots are one tensor */
    bool latents;     /* MLA: heads of keys are latents and what rotates */
    bool whole_heads; /* RoPE rotates all of a head */
    bool both_ways;   /* encoders */
    bool spares; /* layers that share keys and values have matrices of them, which none reads */
    bool sparse; /* MLPs have widths and sparsities of their own */
    mc_gguf_has experts, windows; /* whether such models have them */
    bool unshared;                /* none of the experts is shared */
    mc_gguf_carry carry;
    int period; /* of windows, if the file does not say it: the last layer of so many has none, */
    bool first_full;    /* or the first */
    bool lists_windows; /* attention.sliding_window_pattern is always there */
    mc_gguf_rope_style rope;
    const char *kinds[MC_GGUF_KINDS]; /* names in layer_types; NULL: there is no list */
    const mc_gguf_name *names;        /* end with kind NULL */
    const mc_gguf_row *rows;          /* besides those that all have; end with MC_GGUF_NUMBERS */
    const char *last_norm;            /* its tensor; NULL: output_norm */
    const char *eps;        /* key of config.json of the norms' epsilon; NULL: rms_norm_eps */
    const char *prefix;     /* of the decoder's tensors in a folder; NULL: "model." */
    const char *activation; /* key of config.json and value, and what else it has always */
} mc_gguf_arch;

/* Of decoders: the embedding, and the head, which tied ones do not have. */
#define MC_GGUF_EMBED "token_embd.weight"
#define MC_GGUF_HEAD "output.weight"

/* The i-th architecture; NULL past the end. */
const mc_gguf_arch *mc_gguf_arch_at(size_t i);

/* The architecture of a file. errors  MICA_EUNSUPPORTED naming it and those that mica knows */
mica_status mc_gguf_arch_find(const mc_gguf *gguf, const mc_gguf_arch **arch);

/* The number of blocks behind the layers, which guess tokens ahead: mica does not read them. */
int64_t mc_gguf_ahead(const mc_gguf *gguf, const mc_gguf_arch *arch);

/* Whether an architecture holds a family. */
bool mc_gguf_arch_holds(const mc_gguf_arch *arch, const char *family);

/* The rows that all architectures have; end with MC_GGUF_NUMBERS. */
extern const mc_gguf_row mc_gguf_common[];

/* "arch.key" */
enum { MC_GGUF_KEY_BYTES = 128 };
const char *mc_gguf_key(const mc_gguf_arch *arch, const char *key, char text[MC_GGUF_KEY_BYTES]);

/* The name of a slot behind a layer's number, with ".weight" or, of its bias, ".bias". false: GGUF
 * has none. */
bool mc_gguf_slot_name(const mc_gguf_arch *arch, const mc_block *kind, int slot, bool bias,
                       char *out, size_t bytes);

/* A tensor outside the layers. */
typedef struct mc_gguf_top {
    const char *gguf;   /* without ending */
    const char *module; /* in a folder, behind the decoder's prefix, without ending */
    const char *ending; /* ".weight" or ".bias" of both */
    bool plain;         /* no prefix is before it in a folder */
    bool norm;          /* its values have the spec's offset */
    bool wide;          /* it is f32 */
    bool other;         /* of several modules that a tensor may be made of, none that it becomes */
    int stacked;        /* it has the rows of so many matrices, module.0 and so on; 0: of one */
    int64_t skipped;    /* first rows of the folder's that it does not have */
    int64_t rows; /* that it has, the folder's first one in the place of the last; 0: as many */
} mc_gguf_top;

/* The next tensor that a model may have outside the layers; false past the end. *i counts.
 *     for (size_t i = 0; mc_gguf_next_top(arch, spec, &i, &top);) */
bool mc_gguf_next_top(const mc_gguf_arch *arch, const mc_decoder_spec *spec, size_t *i,
                      mc_gguf_top *top);

#endif
