/* Products of integers as networks quantised to 8 bits have them: unsigned activations, signed
 * weights, exact sums in i32 (which wrap around).
 *
 *     sum    = sum_k x w - zero sums              zero 0 to 255
 *     result = sum, or f32(sum) * scale + bias where there is a scale */
#ifndef OP_INTEGER_H
#define OP_INTEGER_H

#include <mica/ops.h>
#include <mica/signal.h>

/* What products may have beside their factors. Each may be absent. */
typedef struct mc_integer_rest {
    mica_array zero;  /* i32 []: the zero point of x, 0 to 255; with sums alone */
    mica_array sums;  /* i32 [.., N], w's axes without the last ones: sums of each of its rows */
    mica_array scale; /* f32 [] or [N] */
    mica_array bias;  /* f32 [N]; with a scale alone */
} mc_integer_rest;

/* x u8 [.., K], w i8 [N, K], or [.., N, K] with the axes of x [.., M, K] before: [.., N]. */
mica_array mc_integer_matmul(mica_scope *s, mica_array x, mica_array w,
                             const mc_integer_rest *rest);

/* A convolution with the channels last, x u8 [B, places.., C], w i8 [N, taps.., C / groups]:
 * [B, places.., N]. Padding is the zero point. No input dilation, no flipped kernel. */
mica_array mc_integer_conv(mica_scope *s, mica_array x, mica_array w, const mica_conv_options *conv,
                           const mc_integer_rest *rest);

#endif
