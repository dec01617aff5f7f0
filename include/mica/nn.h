/* Operations of networks: activations, norms, positions, recurrences.
 *
 * They are compositions of the ops of mica/ops.h unless it is said otherwise, so they run on every
 * device and have gradients. Conventions are those of mica/ops.h. Where nothing else is said, a
 * function computes in f32 and rounds once. */
#ifndef MICA_NN_H
#define MICA_NN_H

#include <mica/ops.h>

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
 *  q, k     [B, L, H, N] float
 *  v        [B, L, H, M] float
 *  g, beta  [B, L, H] float
 *  state    [B, H, N, M] float, before the first step; MICA_NONE: zeros.
 *  last     receives the state after the last step, [B, H, N, M] f32; may be NULL.
 *  returns  o [B, L, H, M], v's dtype. Computed in f32; bits as of mica_selective_scan.
 *  errors   MICA_ESHAPE, MICA_EDTYPE naming the operand
 *  source   Yang et al. 2024 (arXiv:2412.06464). */
MICA_API mica_array mica_gated_delta(mica_scope *s, mica_array q, mica_array k, mica_array v,
                                     mica_array g, mica_array beta, mica_array state,
                                     mica_array *last);

MICA_END

#endif
