/* Goldens of gradients: a record is the value of a function of its inputs, and the gradients. What
 * the functions are, the names say in part; the rest was found from the values. */
#include <math.h>
#include <string.h>

#include <mica/signal.h>

#include "op/golden.h"

/* ---- what functions are made of ---- */

static mica_array total(mica_scope *s, mica_array x) {
    return mica_sum(s, x, NULL, 0, false);
}

static mica_array squares(mica_scope *s, mica_array x) {
    return total(s, mica_square(s, x));
}

static mica_array cubes(mica_scope *s, mica_array x) {
    return total(s, mica_multiply(s, mica_square(s, x), x));
}

static mica_array times(mica_scope *s, double factor, mica_array x) {
    return mica_multiply(s, x, mica_f32(s, (float)factor));
}

/* sum of x * (0, 1, 2 ..) along the last axis */
static mica_array ramp(mica_scope *s, mica_array x) {
    mica_array weights = mica_arange(s, 0, (double)mica_array_dim(x, -1), 1, MICA_F32);
    return total(s, mica_multiply(s, x, weights));
}

static mica_array numbers(mica_scope *s, const int32_t *values, const int64_t *shape, int ndim) {
    return mica_from_data(s, values, MICA_I32, shape, ndim);
}

/* ---- the functions: s, in[] and the value ---- */

#define FUNCTION(name) static mica_array f_##name(mica_scope *s, const mica_array *in)
#define OF_SUM(name, value)     \
    FUNCTION(name) {            \
        return total(s, value); \
    }
#define OF_SQUARES(name, value)   \
    FUNCTION(name) {              \
        return squares(s, value); \
    }

OF_SQUARES(sum_sq, in[0])
OF_SUM(broadcast_mul, mica_multiply(s, in[0], in[1]))
OF_SUM(div, mica_divide(s, in[0], in[1]))
OF_SUM(pow, mica_power(s, in[0], in[1]))
OF_SUM(exp_log, mica_add(s, mica_exp(s, in[0]), mica_log(s, mica_add(s, in[0], mica_f32(s, 5)))))
OF_SUM(sin_cos_tanh,
       mica_add(s, mica_multiply(s, mica_sin(s, in[0]), mica_cos(s, in[0])), mica_tanh(s, in[0])))
OF_SUM(sigmoid_silu, mica_add(s, mica_sigmoid(s, in[0]), mica_silu(s, in[0])))
OF_SUM(gelu_approx, mica_gelu_approx(s, in[0]))
OF_SUM(gelu, mica_gelu(s, in[0]))
OF_SUM(erf, mica_erf(s, in[0]))
OF_SUM(sqrt_rsqrt, mica_add(s, mica_sqrt(s, in[0]), mica_rsqrt(s, in[0])))
OF_SQUARES(clip, mica_clip(s, in[0], mica_f32(s, -0.7f), mica_f32(s, 0.9f)))
OF_SUM(where,
       mica_where(s, mica_greater(s, in[0], in[1]), times(s, 2, in[0]), mica_square(s, in[1])))
OF_SQUARES(matmul, mica_matmul(s, in[0], in[1]))
OF_SQUARES(matmul_batched_bcast, mica_matmul(s, in[0], in[1]))
OF_SQUARES(einsum, mica_einsum(s, "bqd,bkd->bqk", in, 2))
OF_SQUARES(addmm, mica_addmm(s, in[0], in[1], in[2], 0.5f, 2))
OF_SUM(softmax_weighted, mica_multiply(s, mica_softmax(s, in[0], -1), in[1]))
OF_SQUARES(logsumexp, mica_logsumexp(s, in[0], (const int[]){0}, 1, false))
OF_SUM(prod, mica_prod(s, in[0], (const int[]){0}, 1, false))
OF_SQUARES(max_axis, mica_max(s, in[0], (const int[]){-1}, 1, false))
OF_SQUARES(cumsum_rev, mica_cumsum(s, in[0], 1, true, true))
OF_SUM(cumprod, mica_cumprod(s, in[0], 0, false, true))
OF_SQUARES(slice_neg,
           mica_slice(s, in[0], (const int64_t[]){-1, 1}, NULL, (const int64_t[]){-2, 1}))
OF_SQUARES(take, mica_take(s, in[0],
                           numbers(s, (const int32_t[]){0, 2, 2, 1}, (const int64_t[]){4}, 1), 0))
OF_SQUARES(take_along,
           mica_take_along_axis(
               s, in[0], numbers(s, (const int32_t[]){0, 0, 2, 1}, (const int64_t[]){2, 2}, 2), 1))
OF_SQUARES(put_along,
           mica_put_along_axis(s, in[0],
                               numbers(s, (const int32_t[]){1, 0}, (const int64_t[]){2, 1}, 2),
                               in[1], 1))
OF_SQUARES(slice_update, mica_slice_update(s, in[0], in[1], (const int64_t[]){1, 0},
                                           (const int64_t[]){3, 2}, NULL))
OF_SQUARES(as_strided,
           mica_as_strided(s, in[0], (const int64_t[]){3, 3}, (const int64_t[]){2, 1}, 2, 1))
OF_SQUARES(tril, mica_tril(s, in[0], 0))
OF_SUM(stop_gradient, mica_multiply(s, mica_stop_gradient(s, in[0]), in[0]))
OF_SUM(logaddexp_arctan2,
       mica_add(s, mica_logaddexp(s, in[0], in[1]), mica_arctan2(s, in[0], in[1])))

FUNCTION(conv1d) {
    const mica_conv_options o = {.stride = {2}, .padding_lo = {1}, .padding_hi = {1}};
    return squares(s, mica_conv_general(s, in[0], in[1], &o));
}

FUNCTION(conv2d) {
    const mica_conv_options o = {
        .padding_lo = {1, 1}, .padding_hi = {1, 1}, .kernel_dilation = {2, 2}};
    return squares(s, mica_conv_general(s, in[0], in[1], &o));
}

FUNCTION(rfft_power) {
    return squares(s, mica_abs(s, mica_rfft(s, in[0], 0, -1, MICA_FFT_BACKWARD)));
}

FUNCTION(abs_max_min) {
    mica_array y = mica_add(s, mica_abs(s, in[0]), times(s, 2, mica_maximum(s, in[0], in[1])));
    return total(s, mica_add(s, y, times(s, 3, mica_minimum(s, in[0], in[1]))));
}

FUNCTION(log_softmax_nll) {
    mica_array targets = numbers(s, (const int32_t[]){0, 0, 6, 0, 3}, (const int64_t[]){5}, 1);
    return mica_mean(s, mica_cross_entropy(s, in[0], targets), NULL, 0, false);
}

FUNCTION(mean_var) {
    const int axis = 0;
    return total(s, mica_multiply(s, mica_mean(s, in[0], &axis, 1, false),
                                  mica_var(s, in[0], &axis, 1, false, 0)));
}

FUNCTION(sort_topk) {
    return mica_add(s, ramp(s, mica_sort(s, in[0], -1)), total(s, mica_topk(s, in[0], 2, -1)));
}

FUNCTION(scatter_add) {
    const int axis = 0;
    mica_array at = numbers(s, (const int32_t[]){0, 2, 2, 1}, (const int64_t[]){4}, 1);
    return squares(
        s, mica_scatter(s, in[0], &at, 1, &axis, mica_expand_dims(s, in[1], 1), MICA_SCATTER_ADD));
}

FUNCTION(concat_stack) {
    mica_array pair[] = {mica_slice_axis(s, in[0], 0, 0, 1), in[1]};
    return mica_add(s, squares(s, mica_concatenate(s, in, 2, 0)),
                    cubes(s, mica_stack(s, pair, 2, 0)));
}

FUNCTION(pad_transpose_reshape) {
    mica_array y =
        mica_pad(s, in[0], (const int64_t[]){1, 0}, (const int64_t[]){0, 2}, mica_f32(s, 0));
    y = mica_reshape(s, mica_transpose(s, y, NULL), (const int64_t[]){8, 3}, 2);
    return squares(s, mica_slice_axis(s, y, 0, 1, 8));
}

FUNCTION(repeat_tile_roll) {
    mica_array x = in[0], y = cubes(s, mica_repeat(s, x, 2, 0));
    y = mica_add(s, y, squares(s, mica_tile(s, x, (const int64_t[]){2}, 1)));
    return mica_add(s, y, total(s, mica_multiply(s, x, mica_roll(s, x, 1, 0))));
}

FUNCTION(rms_norm) {
    return ramp(s, mica_rms_norm(s, in[0], in[1], 1e-5f));
}

FUNCTION(layer_norm) {
    return cubes(s, mica_layer_norm(s, in[0], in[1], in[2], 1e-5f));
}

FUNCTION(rope) {
    return ramp(s, mica_rope(s, in[0], mica_i32(s, 3), MICA_NONE, NULL));
}

FUNCTION(rope_trad) {
    mica_rope_options options = {.dims = 6, .traditional = true, .scale = 0.5f};
    return ramp(s, mica_rope(s, in[0], mica_i32(s, 0), MICA_NONE, &options));
}

FUNCTION(sdpa_causal_gqa) {
    mica_sdpa_options options = {.scale = 0.5f, .causal = true};
    return squares(s, mica_sdpa(s, in[0], in[1], in[2], &options));
}

/* The record has no mask. This one was fitted to its gradients, 289 numbers to 2e-6: but for a
 * constant a row, which changes nothing, they leave no other. */
FUNCTION(sdpa_mask) {
    static const float mask[36] = {
        -1.0407151f, 0.35544062f, -1.5499008f, 3.253819f,    -0.17861079f, -0.8400329f,
        1.3917074f,  0.3979808f,  -1.6065905f, 0.5797003f,   0.5475454f,   -1.3103434f,
        -0.5942366f, -0.6737691f, 0.7220312f,  -0.15775734f, 0.17995064f,  0.52378124f,
        -1.6503769f, -0.7168077f, 1.958706f,   -0.72909373f, -0.19559133f, 1.3331637f,
        -1.5244963f, 0.63499004f, -1.2403574f, 1.3555679f,   1.0390185f,   -0.26472262f,
        -1.0124202f, -1.6440372f, 0.45433953f, 1.1215552f,   1.2245983f,   -0.14403558f};
    mica_sdpa_options options = {
        .scale = 0.5f, .mask = mica_from_data(s, mask, MICA_F32, (const int64_t[]){6, 6}, 2)};
    return squares(s, mica_sdpa(s, in[0], in[1], in[2], &options));
}

FUNCTION(softcap) {
    return ramp(s, times(s, 5, mica_tanh(s, times(s, 0.2, in[0]))));
}

FUNCTION(lora) {
    mica_array y = mica_matmul(s, mica_matmul(s, in[0], in[2]), in[3]);
    y = mica_add(s, mica_matmul(s, in[0], mica_transpose(s, in[1], NULL)), times(s, 2, y));
    return mica_mean(s, mica_square(s, y), NULL, 0, false);
}

/* of the sum of the gradient of x^2 sin(x) */
FUNCTION(second_order) {
    mica_array y = total(s, mica_multiply(s, mica_square(s, in[0]), mica_sin(s, in[0]))), dx;
    return mica_grad(s, y, MICA_NONE, in, 1, &dx) == MICA_OK ? total(s, dx) : MICA_NONE;
}

FUNCTION(swiglu_mlp) {
    mica_array gate = mica_silu(s, mica_matmul(s, in[0], mica_transpose(s, in[1], NULL)));
    mica_array up = mica_matmul(s, in[0], mica_transpose(s, in[2], NULL));
    mica_array y = mica_matmul(s, mica_multiply(s, gate, up), mica_transpose(s, in[3], NULL));
    return mica_mean(s, mica_square(s, y), NULL, 0, false);
}

/* ---- rows ---- */

static bool run(golden *g, mica_array (*function)(mica_scope *s, const mica_array *in)) {
    g->out[0] = function(g->s, g->in);
    if (mica_grad(g->s, g->out[0], MICA_NONE, g->in, (size_t)g->n_in, g->out + 1) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    return true;
}

#define RUN(name)                       \
    static bool run_##name(golden *g) { \
        return run(g, f_##name);        \
    }
#define RECORD(name) RUN(name)
#include "op/golden_grad_list.h"

static const golden_row rows[] = {
#define RECORD(name) {.op = #name, .run = run_##name, .relative = 1e-4},
#include "op/golden_grad_list.h"
};

const golden_group golden_grad = {"grad", rows, sizeof rows / sizeof *rows, NULL};
