/* Operations of networks: activations, norms, positions, recurrences, sampling, quantised values,
 * layers, losses, and gradients of single ops.
 *
 * They are compositions of the ops of mica/ops.h unless it is said otherwise, so they run on every
 * device and have gradients. Conventions are those of mica/ops.h. Where nothing else is said, a
 * function computes in f32 and rounds once. */
#ifndef MICA_NN_H
#define MICA_NN_H

#include <mica/ops.h>
#include <mica/signal.h>

MICA_BEGIN

/* ---- activations ---- */

/** Activations, inexact.
 *      elu               x where x > 0, else alpha (exp(x) - 1)
 *      leaky_relu        x where x > 0, else slope x
 *      relu2             max(x, 0)^2
 *      softplus          log(1 + exp(x))
 *      log_sigmoid       -softplus(-x)
 *      mish              x tanh(softplus(x))
 *      softsign          x / (1 + |x|)
 *      gelu_fast_approx  x sigmoid(1.702 x)
 *  source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668) for
 *          relu2; Misra 2019 (arXiv:1908.08681) for mish */
MICA_API mica_array mica_elu(mica_scope *s, mica_array x, float alpha);
MICA_API mica_array mica_leaky_relu(mica_scope *s, mica_array x, float slope);
MICA_API mica_array mica_relu2(mica_scope *s, mica_array x);
MICA_API mica_array mica_softplus(mica_scope *s, mica_array x);
MICA_API mica_array mica_log_sigmoid(mica_scope *s, mica_array x);
MICA_API mica_array mica_mish(mica_scope *s, mica_array x);
MICA_API mica_array mica_softsign(mica_scope *s, mica_array x);
MICA_API mica_array mica_gelu_fast_approx(mica_scope *s, mica_array x);

/* ---- norms ---- */

/** mica_rms_norm and mica_layer_norm over an axis that need not be the last. weight and bias have
 *  one axis, of its length. */
MICA_API mica_array mica_rms_norm_axis(mica_scope *s, mica_array x, mica_array weight, int axis,
                                       float eps);
MICA_API mica_array mica_layer_norm_axis(mica_scope *s, mica_array x, mica_array weight,
                                         mica_array bias, int axis, float eps);

/** Layer normalisation of each group of channels, over its C / groups channels and all places.
 *
 *  x             [N, C, ...] float.
 *  weight, bias  [C] float or MICA_NONE.
 *  returns       x's shape, promoted dtype.
 *  errors        MICA_ESHAPE C is no multiple of groups, or weight and bias are not [C];
 *                MICA_EDTYPE; MICA_EINVAL groups < 1, eps < 0
 *  source        Wu & He 2018 (arXiv:1803.08494). */
MICA_API mica_array mica_group_norm(mica_scope *s, mica_array x, mica_array weight, mica_array bias,
                                    int64_t groups, float eps);

/* ---- positions ---- */

/** Rotary position embedding by tables: with h = n_rot / 2, and position p of axis -2,
 *
 *      y[.., p, i]     = x[.., p, i] cos[p, i] - x[.., p, i + h] sin[p, i]      i < h
 *      y[.., p, i + h] = x[.., p, i + h] cos[p, i] + x[.., p, i] sin[p, i]
 *
 *  x         [.., L, D] float; elements from n_rot on are copied.
 *  cos, sin  [P, n_rot / 2] float, P >= L, n_rot <= D.
 *  returns   x's shape and dtype. Its gradient is the same with -sin.
 *  errors    MICA_ESHAPE; MICA_EDTYPE
 *  source    Su et al. 2021 (arXiv:2104.09864). */
MICA_API mica_array mica_rope_tables(mica_scope *s, mica_array x, mica_array cos, mica_array sin);

/** Rotary position embedding in two dimensions: the first half of each row is rotated by its row of
 *  the image, the second half by its column, each by mica_rope without an offset.
 *
 *  x        [.., height * width, D] float, row by row; D a multiple of 4.
 *  options  of mica_rope for each half; dims 0: D / 2. NULL: the defaults.
 *  returns  x's shape and dtype.
 *  errors   MICA_ESHAPE; MICA_EDTYPE; MICA_EINVAL
 *  source   Heo et al. 2024 (arXiv:2403.13298), axial. */
MICA_API mica_array mica_axial_rope2d(mica_scope *s, mica_array x, int64_t height, int64_t width,
                                      const mica_rope_options *options);

/** x [.., H, W] with each element twice along both: [.., 2 H, 2 W]. errors  MICA_ESHAPE */
MICA_API mica_array mica_resize_nearest2x(mica_scope *s, mica_array x);

/* ---- recurrences: fused ops ---- */

/** Options of mica_selective_scan; zero means the default. */
typedef struct mica_selective_scan_options {
    size_t struct_bytes; /* see mica/api.h */
    bool delta_softplus; /* delta becomes softplus(delta) */
    mica_array d;        /* [H] float: D, or none */
    mica_array z;        /* [B, L, H] float: the result is multiplied by silu(z); or none */
    mica_array initial;  /* [B, H, N] float: the state before the first step; none: zeros */
} mica_selective_scan_options;
/** Selective scan (Mamba). For each step t, each channel of H alone:
 *
 *      h_t = exp(delta_t A) h_{t-1} + delta_t x_t B_t
 *      y_t = sum_n C_t[n] h_t[n] + D x_t,    times silu(z_t)
 *
 *  x, delta  [B, L, H] float
 *  a         [H, N] float: A
 *  b, c      [B, L, N] float: B, C
 *  options   NULL: the defaults. Borrowed.
 *  last      receives the state after the last step, [B, H, N] f32; may be NULL.
 *  returns   y [B, L, H], x's dtype. Computed in f32. On the CPU a sequence that is divided, with
 *            the state passed on, has the same bits.
 *  errors    MICA_ESHAPE, MICA_EDTYPE naming the operand
 *  source    Gu & Dao 2023 (arXiv:2312.00752), algorithm 2. */
MICA_API mica_array mica_selective_scan(mica_scope *s, mica_array x, mica_array delta, mica_array a,
                                        mica_array b, mica_array c,
                                        const mica_selective_scan_options *options,
                                        mica_array *last);

/** The gated delta rule (Qwen3-Next). For each step, each head with its state S [N, M]:
 *
 *      S = exp(g_t) S;  d = beta_t (v_t - k_t S);  S = S + k_t^T d;  o_t = q_t S / sqrt N
 *
 *  Without beta, linear attention with a decay (Mamba-2, whose C, B and delta x are q, k and v):
 *
 *      S = exp(g_t) S + k_t^T v_t;  o_t = q_t S
 *
 *  q, k     [B, L, Hk, N] float, Hk dividing H: H / Hk heads side by side share them
 *  v        [B, L, H, M] float
 *  g, beta  [B, L, H] float; beta may be MICA_NONE
 *  state    [B, H, N, M] float, before the first step; MICA_NONE: zeros.
 *  last     receives the state after the last step, [B, H, N, M] f32; may be NULL.
 *  returns  o [B, L, H, M], v's dtype. Computed in f32; bits as of mica_selective_scan.
 *  errors   MICA_ESHAPE, MICA_EDTYPE naming the operand
 *  source   Yang et al. 2024 (arXiv:2412.06464). */
MICA_API mica_array mica_gated_delta(mica_scope *s, mica_array q, mica_array k, mica_array v,
                                     mica_array g, mica_array beta, mica_array state,
                                     mica_array *last);

/* ---- sampling ---- */

/** Options of mica_sample: each a number [] or one for each row [...], any dtype; MICA_NONE means
 *  the default. */
typedef struct mica_sample_options {
    size_t struct_bytes;    /* see mica/api.h */
    mica_array temperature; /* logits are divided by it; 0: the largest one; default 1 */
    mica_array top_k;       /* so many of the largest are kept; 0, the default: all */
    mica_array top_p;       /* kept until their probabilities are so much; 1, the default: all */
    mica_array min_p;       /* kept where p >= min_p max(p); default 0 */
} mica_sample_options;
/** A token for each row of logits: temperature, top_k, top_p, min_p in this order, then a draw.
 *  mica_generate has another order: top_p, min_p, top_k, temperature (mica_generate_options).
 *
 *  1. temperature 0: the largest logit, of equals the lowest id. Else z = logits / temperature.
 *  2. top_k: exactly k are left, of equals those with the lower ids.
 *  3. top_p: with p = softmax(z) of these, sorted, those are left before which the sum is below
 *     top_p: one at least.
 *  4. min_p: those with p >= min_p max(p) are left.
 *  5. The largest of z + Gumbel noise by the key, as mica_random_categorical.
 *
 *  key      u32 [2], or [..., 2]: one a row. The same key gives the same tokens.
 *  logits   [..., V] float; a token of -inf is never drawn.
 *  options  NULL: the defaults. Borrowed.
 *  returns  [...] i32. It has no gradient.
 *  errors   MICA_ESHAPE, MICA_EDTYPE; MICA_EINVAL at evaluation, naming the row: a temperature
 *           below 0 or NaN; logits with NaN or +inf, or nothing but -inf */
MICA_API mica_array mica_sample(mica_scope *s, mica_array key, mica_array logits,
                                const mica_sample_options *options);

/* ---- quantised values and weights ---- */

/** Affine int8: q = clamp(round(x / scale) + zero_point, -128, 127), to nearest even, and back:
 *  (q - zero_point) scale.
 *
 *  x           float; NaN gives the zero point.
 *  q           i8, or u8 for mica_dequantize_int8.
 *  scale       float, above 0, [] or [1]; with an axis [C], of its length. Dtype of what
 *              mica_dequantize_int8 gives.
 *  zero_point  integers of the scale's shape, or MICA_NONE: 0.
 *  axis        the axis that scales belong to. Borrowed; NULL: none.
 *  errors      MICA_ESHAPE, MICA_EDTYPE; MICA_EINVAL at evaluation: a scale is not above 0
 *  source      ONNX, QuantizeLinear. */
MICA_API mica_array mica_quantize_int8(mica_scope *s, mica_array x, mica_array scale,
                                       mica_array zero_point, const int *axis);
MICA_API mica_array mica_dequantize_int8(mica_scope *s, mica_array q, mica_array scale,
                                         mica_array zero_point, const int *axis);

/** Options of mica_qmatmul and mica_qconv2d. */
typedef struct mica_qmatmul_options {
    size_t struct_bytes;   /* see mica/api.h */
    int32_t x_zero_point;  /* of x */
    int32_t w_zero_point;  /* of w */
    int64_t zero_point;    /* of the result */
    mica_array multiplier; /* float, [] or [N]: scale of x times that of w by that of the result; or
                              none: 1. N is the last axis of w, or qconv2d's channels O */
} mica_qmatmul_options;
/** An int8 product: clamp(round((bias + sum (x - x_zero_point) (w - w_zero_point)) multiplier) +
 *  zero_point) with exact i32 sums.
 *
 *  x        [.., K] i8
 *  w        [K, N] i8
 *  bias     [N] i32 or MICA_NONE
 *  options  NULL: the defaults. Borrowed.
 *  returns  [.., N] i8
 *  errors   MICA_ESHAPE, MICA_EDTYPE. source  ONNX, QLinearMatMul. */
MICA_API mica_array mica_qmatmul(mica_scope *s, mica_array x, mica_array w, mica_array bias,
                                 const mica_qmatmul_options *options);

/** An int8 convolution: mica_qmatmul over the windows of x, with exact i32 sums. Padding is the
 *  zero point of x.
 *
 *  x        [N, C, H, W] i8
 *  w        [O, C / groups, KH, KW] i8
 *  bias     [O] i32 or MICA_NONE
 *  conv     as of mica_conv2d; NULL: the defaults. Borrowed.
 *  options  zero points from -255 to 255; NULL: the defaults. Borrowed.
 *  returns  [N, O, ..] i8
 *  errors   MICA_ESHAPE, MICA_EDTYPE; MICA_EINVAL a number is out of range
 *  source   ONNX, QLinearConv. */
MICA_API mica_array mica_qconv2d(mica_scope *s, mica_array x, mica_array w, mica_array bias,
                                 const mica_conv_options *conv,
                                 const mica_qmatmul_options *options);

/** Where the scale of mica_fake_quantize is from. */
typedef enum mica_scale_mode {
    MICA_SCALE_BATCH, /* max |x| / Q */
    MICA_SCALE_FIXED, /* options.scale */
    MICA_SCALE_EMA    /* max |x| / Q where options.scale is not above 0; else decay times that and
                         1 - decay times max |x| / Q */
} mica_scale_mode;
/** Straight-through estimators: the gradient by x that mica_fake_quantize has. */
typedef enum mica_ste {
    MICA_STE_IDENTITY, /* dy */
    MICA_STE_CLIPPED,  /* dy where |x| <= Q s, else 0 */
    MICA_STE_TANH,     /* dy (1 - tanh(x / s)^2) */
    MICA_STE_HARD_TANH /* dy max(0, 1 - |x| / (Q s)) */
} mica_ste;
/** Options of mica_fake_quantize; zero means the default. */
typedef struct mica_fake_quantize_options {
    size_t struct_bytes;  /* see mica/api.h */
    int bits;             /* 2 to 8; 0: 8. Q = 2^(bits - 1) - 1 */
    mica_scale_mode mode; /* where the scale is from */
    mica_ste ste;         /* the gradient */
    float decay;          /* of MICA_SCALE_EMA, 0 to 1 */
    bool wide;            /* MICA_STE_TANH of x / (Q s) */
    const int *axis;      /* the axis that scales belong to. Borrowed; NULL: one scale */
    mica_array scale;     /* float [C], or [1]: the scale, or the state of MICA_SCALE_EMA */
} mica_fake_quantize_options;
/** Rounds x to multiples of a scale: y = clamp(round(x / s), -Q, Q) s, to nearest even; s at least
 *  1e-12, and a constant for gradients.
 *
 *  x          float. Borrowed.
 *  options    NULL: the defaults. Borrowed.
 *  new_state  receives the scale that was used, [C] or [1] f32, before it is bounded: the next
 *             state of MICA_SCALE_EMA. May be NULL.
 *  returns    x's shape and dtype.
 *  errors     MICA_EINVAL bits, mode, ste, decay; MICA_ESHAPE, MICA_EDTYPE
 *  source     Bengio et al. 2013 (arXiv:1308.3432). */
MICA_API mica_array mica_fake_quantize(mica_scope *s, mica_array x,
                                       const mica_fake_quantize_options *options,
                                       mica_array *new_state);
/** The same by a scale that is learned: dx = dy where |x| <= Q s, else 0, and
 *
 *      ds = k sum psi(x / s) dy,   psi(z) = round(z) - z where |z| <= Q, else sign(z) Q
 *
 *  scale           [C] or [1] float
 *  scale_gradient  k; 0: 1 / sqrt(n Q), of n elements that share a scale.
 *  errors          as mica_fake_quantize. source  Esser et al. 2020 (arXiv:1902.08153). */
MICA_API mica_array mica_fake_quantize_lsq(mica_scope *s, mica_array x, mica_array scale, int bits,
                                           const int *axis, float scale_gradient);

/** Schemes of weights beside MLX's (mica_quant). The last eight are blocks of ggml. */
typedef enum mica_weight_scheme {
    MICA_WEIGHT_INT8,  /* codes i8 [K, N]; scale and zero_point [K / b, N] */
    MICA_WEIGHT_INT4,  /* u8 [K, N / 2], the low nibble first; without zero_point it is signed */
    MICA_WEIGHT_E4M3,  /* u8 [K, N], as mica_from_fp8 */
    MICA_WEIGHT_E5M2,  /* u8 [K, N] */
    MICA_WEIGHT_NVFP4, /* codes and scale of mica_quantize [N, ..], times global */
    MICA_WEIGHT_Q4_0,  /* u8 [N, K / 32 * 18], as those below of rows of whole blocks */
    MICA_WEIGHT_Q8_0,  /* 34 bytes for 32 */
    MICA_WEIGHT_Q2_K,  /* 84 bytes for 256 */
    MICA_WEIGHT_Q3_K,  /* 110 bytes for 256 */
    MICA_WEIGHT_Q4_K,  /* 144 bytes for 256 */
    MICA_WEIGHT_Q5_K,  /* 176 bytes for 256 */
    MICA_WEIGHT_Q6_K,  /* 210 bytes for 256 */
    MICA_WEIGHT_Q8_K   /* 292 bytes for 256 */
} mica_weight_scheme;
/** A weight of a scheme. */
typedef struct mica_weight {
    mica_weight_scheme scheme; /* what the arrays are */
    mica_array codes;          /* the codes */
    mica_array scale;          /* float; of MICA_WEIGHT_NVFP4 as mica_quantize gives */
    mica_array zero_point;     /* any number, of the shape of scale; or none: 0 */
    mica_array global;         /* float [] or [1] of MICA_WEIGHT_NVFP4; or none: 1 */
} mica_weight;
/** The weight as f32 [K, N]. errors  MICA_ESHAPE, MICA_EDTYPE, MICA_EINVAL no such scheme */
MICA_API mica_array mica_weight_dequantize(mica_scope *s, const mica_weight *w);
/** x [.., K] by the weight: [.., N] of x's dtype. The weight is dequantised for it. Errors as
 *  above. */
MICA_API mica_array mica_dequant_matmul(mica_scope *s, mica_array x, const mica_weight *w);

/* ---- layers ---- */

/** A weight [N, K] as MLX's nn.Linear and nn.Embedding hold it, dense or quantised. */
typedef struct mica_linear_weights {
    mica_array weight; /* [N, K] float; or the codes of mica_quantize, u32 */
    mica_array scales; /* of codes, [N, K / group_size]; or none: weight is dense */
    mica_array biases; /* of affine codes, as scales */
    mica_array bias;   /* [N] float, added to products; or none */
    mica_quant quant;  /* of codes */
} mica_linear_weights;
/** A linear layer: x weight^T + bias. With an embedding's weights, its output layer.
 *
 *  x        [.., K] float.
 *  returns  [.., N], x's dtype promoted with that of a dense weight and of the bias.
 *  errors   MICA_EINVAL w is NULL; those of mica_matmul and mica_quantized_matmul
 *  source   mlx.nn.Linear, QuantizedLinear, Embedding.as_linear. */
MICA_API mica_array mica_linear(mica_scope *s, mica_array x, const mica_linear_weights *w);
/** Rows of the weight; bias is not added.
 *
 *  ids      [..] any integers, negative from the end.
 *  returns  [.., K], the dtype of the weight, or of affine scales, or else f32.
 *  errors   MICA_EINVAL w is NULL; those of mica_take and mica_dequantize
 *  source   mlx.nn.Embedding, QuantizedEmbedding. */
MICA_API mica_array mica_embedding(mica_scope *s, mica_array ids, const mica_linear_weights *w);

/** Activations by their number, of layers and of mica_activation_backward. */
typedef enum mica_activation {
    MICA_ACT_IDENTITY, /* x */
    MICA_ACT_RELU,
    MICA_ACT_GELU,
    MICA_ACT_GELU_APPROX,
    MICA_ACT_SILU,
    MICA_ACT_SIGMOID,
    MICA_ACT_TANH,
    MICA_ACT_EXP,
    MICA_ACT_LOG,
    MICA_ACT_SQRT,
    MICA_ACT_RSQRT,
    MICA_ACT_NEGATIVE,
    MICA_ACT_ABS,
    MICA_ACT_SIN,
    MICA_ACT_COS,
    MICA_ACT_TAN,
    MICA_ACT_ARCTAN,
    MICA_ACT_ROUND
} mica_activation;
/** The op of that name. errors  MICA_EINVAL there is no such activation */
MICA_API mica_array mica_activate(mica_scope *s, mica_activation kind, mica_array x);

/** Which keys j a query i sees, at position offset + i, offset = Lk - Lq. */
typedef enum mica_mask_kind {
    MICA_MASK_NONE,   /* all */
    MICA_MASK_CAUSAL, /* j <= offset + i */
    MICA_MASK_WINDOW, /* and j > offset + i - window: so many keys */
    MICA_MASK_CUSTOM, /* where options.mask is true, or a number of 0.5 or more */
    MICA_MASK_BIAS    /* all; options.mask is added to the scores */
} mica_mask_kind;
/** Options of mica_masked_attention; zero means the default. */
typedef struct mica_masked_attention_options {
    size_t struct_bytes; /* see mica/api.h */
    mica_mask_kind kind; /* which keys are seen */
    float scale;         /* of q k^T; 0: 1 / sqrt(D) */
    float softcap;       /* scores become softcap * tanh(scores / softcap); 0: none */
    int heads;           /* of q [B, Lq, heads * D] */
    int64_t kv_heads;    /* of k and v then; 0: heads */
    int64_t window;      /* keys of MICA_MASK_WINDOW */
    mica_array mask;     /* custom: [B, Lk], [B, Lq, Lk] or [B, H, Lq, Lk], bool or numbers; bias:
                            float that broadcasts to [B, H, Lq, Lk] */
} mica_masked_attention_options;
/** mica_sdpa with a kind of mask, and of heads that need not be split.
 *
 *  q        [B, H, Lq, D] float, or [B, Lq, H * D] with options.heads. Borrowed.
 *  k, v     [B, G, Lk, D], or [B, Lk, G * D] as q; H a multiple of G. Borrowed.
 *  options  NULL: the defaults. Borrowed.
 *  returns  of q's shape, promoted dtype. A query that sees no key gives zeros.
 *  errors   those of mica_sdpa; MICA_ESHAPE heads do not divide q; MICA_EDTYPE a bias that is no
 *           float; MICA_EINVAL kind, window
 *  source   mlx.core.fast.scaled_dot_product_attention. */
MICA_API mica_array mica_masked_attention(mica_scope *s, mica_array q, mica_array k, mica_array v,
                                          const mica_masked_attention_options *options);

/** act(x w + bias).
 *
 *  x        [.., K] float
 *  w        [K, N] float
 *  bias     [N] float or MICA_NONE
 *  returns  [.., N], promoted. The product is rounded before the bias is added.
 *  errors   those of mica_matmul, mica_add and mica_activate */
MICA_API mica_array mica_matmul_bias_act(mica_scope *s, mica_array x, mica_array w, mica_array bias,
                                         mica_activation act);
/** norm(x + r + bias), by mica_layer_norm or mica_rms_norm over the last axis.
 *
 *  x, r         [.., D] float
 *  bias         [D] float or MICA_NONE
 *  gamma, beta  weight and bias of the norm, [D] float or MICA_NONE
 *  eps          as of the norm
 *  returns      [.., D], promoted. The sums are rounded before they are normalised.
 *  errors       those of mica_add and of the norm */
MICA_API mica_array mica_residual_layer_norm(mica_scope *s, mica_array x, mica_array r,
                                             mica_array bias, mica_array gamma, mica_array beta,
                                             float eps);
MICA_API mica_array mica_residual_rms_norm(mica_scope *s, mica_array x, mica_array r,
                                           mica_array bias, mica_array gamma, float eps);
/** up * silu(gate), of the halves of x.
 *
 *  x        [.., 2 F] float: up, gate, or with gate_first gate, up.
 *  returns  [.., F], x's dtype.
 *  errors   MICA_ESHAPE the last axis is not even
 *  source   Shazeer 2020 (arXiv:2002.05202). */
MICA_API mica_array mica_swiglu(mica_scope *s, mica_array x, bool gate_first);
/** x w + scale (x a) b.
 *
 *  x        [.., K] float
 *  w, a, b  [K, N], [K, R], [R, N] float
 *  returns  [.., N], promoted. Each product is rounded.
 *  errors   those of mica_matmul
 *  source   Hu et al. 2021 (arXiv:2106.09685). */
MICA_API mica_array mica_lora_matmul(mica_scope *s, mica_array x, mica_array w, mica_array a,
                                     mica_array b, float scale);

/** Weights of mica_attention_block; biases and tables may be MICA_NONE. */
typedef struct mica_attention_weights {
    mica_array qkv;      /* [D, (H + 2 G) E]: columns of q, k, v, heads of E side by side */
    mica_array qkv_bias; /* [(H + 2 G) E] */
    mica_array out;      /* [H E, D] */
    mica_array out_bias; /* [D] */
    mica_array cos;      /* of mica_rope_tables, for q and k */
    mica_array sin;      /* with cos */
} mica_attention_weights;
/** attention(q, k, v) out + out_bias, with q | k | v = x qkv + qkv_bias.
 *
 *  x        [B, L, D] float.
 *  options  of mica_masked_attention; heads, which is H, is needed; kv_heads is G, 0: H. Borrowed.
 *  returns  [B, L, D], promoted.
 *  errors   MICA_EINVAL w is NULL; MICA_ESHAPE the columns of qkv are not those of the heads; those
 *           of mica_matmul, mica_rope_tables and mica_masked_attention
 *  source   Vaswani et al. 2017 (arXiv:1706.03762). */
MICA_API mica_array mica_attention_block(mica_scope *s, mica_array x,
                                         const mica_attention_weights *w,
                                         const mica_masked_attention_options *options);

/** Weights of mica_transformer_layer; biases may be MICA_NONE. */
typedef struct mica_layer_weights {
    mica_attention_weights attention; /* as above */
    mica_array norm1;                 /* [D] */
    mica_array norm1_bias;            /* [D] */
    mica_array up;                    /* [D, F] */
    mica_array up_bias;               /* [F] */
    mica_array down;                  /* [F, D] */
    mica_array down_bias;             /* [D] */
    mica_array norm2;                 /* [D] */
    mica_array norm2_bias;            /* [D] */
} mica_layer_weights;
/** A layer of an encoder such as BERT, x [B, L, D]:
 *
 *      h = layer_norm(x + attention_block(x))
 *      y = layer_norm(h + act(h up + up_bias) down + down_bias)
 *
 *  x        [B, L, D] float. Borrowed.
 *  w        float. Borrowed.
 *  eps      of both norms
 *  options  as of mica_attention_block. Borrowed.
 *  returns  [B, L, D], promoted.
 *  errors   MICA_EINVAL w is NULL; those of mica_attention_block, mica_residual_layer_norm and
 *           mica_matmul_bias_act
 *  source   Devlin et al. 2018 (arXiv:1810.04805). */
MICA_API mica_array mica_transformer_layer(mica_scope *s, mica_array x, const mica_layer_weights *w,
                                           mica_activation act, float eps,
                                           const mica_masked_attention_options *options);

/* ---- losses ---- */

/** mica_cross_entropy of labels from 0 to V - 1.
 *
 *  logits        [..., V] float, or integers, which become f32. Borrowed.
 *  labels        [...] integers. Borrowed.
 *  ignore_index  the label that has the loss 0 and no gradient; NULL: none. Borrowed.
 *  returns       [...], as mica_cross_entropy.
 *  errors        those of mica_cross_entropy; MICA_EINVAL at evaluation: another label is negative.
 *  grad          logits
 *  source        torch.nn.functional.cross_entropy without a reduction. */
MICA_API mica_array mica_softmax_cross_entropy(mica_scope *s, mica_array logits, mica_array labels,
                                               const int64_t *ignore_index);

/* ---- gradients of single ops ----
 *
 * What mica_grad gives of sum(y * dy), where y is the op's result, under a name. Those of
 * convolutions and pools are in mica/signal.h.
 *
 *  operands  as of the op. Borrowed.
 *  dy        float, of y's shape, converted to its dtype. Borrowed.
 *  returns   the gradient by x (logits), of its shape and dtype; where there is no x, of dy's.
 *  d...      receive the gradients by the operands of these names; NULL: not wanted. Invalid arrays
 *            after an error.
 *  errors    those of the op and of mica_grad; MICA_ESHAPE dy */

/** y = max(x, 0): dy where x > 0, else 0: at 0 and for NaN, too. */
MICA_API mica_array mica_relu_backward(mica_scope *s, mica_array x, mica_array dy);
/** y = mica_activate(kind, x): dy f'(x); of MICA_ACT_ROUND dy. errors  MICA_EINVAL kind */
MICA_API mica_array mica_activation_backward(mica_scope *s, mica_activation kind, mica_array x,
                                             mica_array dy);
/** y = mica_fake_quantize(x): as options.ste says. options  NULL: the defaults. Borrowed. */
MICA_API mica_array mica_fake_quantize_backward(mica_scope *s, mica_array x, mica_array dy,
                                                const mica_fake_quantize_options *options);
/** y = mica_fake_quantize_lsq(x, scale): by x, and by the scale, of its shape and dtype. */
MICA_API mica_status mica_fake_quantize_lsq_backward(mica_scope *s, mica_array x, mica_array scale,
                                                     mica_array dy, int bits, const int *axis,
                                                     float scale_gradient, mica_array *dx,
                                                     mica_array *dscale);
/** y = mica_cumsum(x, axis, reverse, inclusive): dy summed in the other direction. */
MICA_API mica_array mica_cumsum_backward(mica_scope *s, mica_array dy, int axis, bool reverse,
                                         bool inclusive);
/** y = mica_take(x, indices, axis): dy is added where it was taken. Of x only shape and dtype
 *  matter. */
MICA_API mica_array mica_take_backward(mica_scope *s, mica_array x, mica_array indices,
                                       mica_array dy, int axis);
/** y = mica_rope_tables(x, cos, sin): dy is rotated back. */
MICA_API mica_array mica_rope_tables_backward(mica_scope *s, mica_array dy, mica_array cos,
                                              mica_array sin);
/** y = mica_softmax_cross_entropy(logits, labels, ignore_index): (softmax(logits) - 1 at the label)
 *  dloss, dloss being dy; 0 where the label is ignored. */
MICA_API mica_array mica_softmax_cross_entropy_backward(mica_scope *s, mica_array logits,
                                                        mica_array labels, mica_array dloss,
                                                        const int64_t *ignore_index);
/** y = mica_layer_norm(x, gamma, beta, eps), with r = 1 / sqrt(var + eps), z = (x - mean) r and
 *  g = dy gamma:
 *
 *      dx = r (g - mean(g) - z mean(g z)),   dgamma = sum dy z,   dbeta = sum dy
 *
 *  The sums are over all rows. gamma may be MICA_NONE: ones of x's dtype, of which dbeta is. */
MICA_API mica_status mica_layer_norm_backward(mica_scope *s, mica_array x, mica_array gamma,
                                              mica_array dy, float eps, mica_array *dx,
                                              mica_array *dgamma, mica_array *dbeta);
/** y = mica_rms_norm(x, gamma, eps), with r = 1 / sqrt(mean(x^2) + eps) and g = dy gamma:
 *
 *      dx = r g - x r^3 mean(g x),   dgamma = sum dy x r
 *
 *  gamma as above. */
MICA_API mica_status mica_rms_norm_backward(mica_scope *s, mica_array x, mica_array gamma,
                                            mica_array dy, float eps, mica_array *dx,
                                            mica_array *dgamma);
/** y = mica_group_norm(x, gamma, beta, groups, eps): as mica_layer_norm, over each group. gamma as
 *  above, [C]. */
MICA_API mica_status mica_group_norm_backward(mica_scope *s, mica_array x, mica_array gamma,
                                              mica_array dy, int64_t groups, float eps,
                                              mica_array *dx, mica_array *dgamma,
                                              mica_array *dbeta);
/** y = mica_masked_attention(q, k, v), with P its softmax:
 *
 *      dv = P^T dy,   dS = P (dy v^T - rowsum(dy y)),   dq = scale dS k,   dk = scale dS^T q
 *
 *  softcap multiplies dS by 1 - (S / softcap)^2. options  NULL: the defaults. Borrowed. */
MICA_API mica_status mica_masked_attention_backward(mica_scope *s, mica_array q, mica_array k,
                                                    mica_array v, mica_array dy,
                                                    const mica_masked_attention_options *options,
                                                    mica_array *dq, mica_array *dk, mica_array *dv);

MICA_END

#endif
