/* Operations on lazy arrays: convolutions, and what goes with them. What mica/ops.h says of its ops
 * holds here too. */
#ifndef MICA_SIGNAL_H
#define MICA_SIGNAL_H

#include <mica/array.h>

MICA_BEGIN

/** The maximum number of spatial axes of a convolution or a pool. */
#define MICA_MAX_SPATIAL 3

/** Where the channels are: [N, C, ...] as in PyTorch and ONNX, or [N, ..., C] as in MLX. */
typedef enum mica_channels { MICA_CHANNELS_FIRST, MICA_CHANNELS_LAST } mica_channels;

/* ---- convolutions ---- */

/** Numbers for each spatial axis; those of axes that are not there are not read. */
typedef struct mica_conv_options {
    int64_t stride[MICA_MAX_SPATIAL];          /* 0: 1 */
    int64_t padding_lo[MICA_MAX_SPATIAL];      /* zeros before x; negative: elements left out */
    int64_t padding_hi[MICA_MAX_SPATIAL];      /* the same after x */
    int64_t kernel_dilation[MICA_MAX_SPATIAL]; /* 0: 1 */
    int64_t input_dilation[MICA_MAX_SPATIAL];  /* 0: 1 */
    int64_t groups;                            /* 0: 1 */
    bool flip; /* the kernel's elements in the opposite order: a convolution as in mathematics */
} mica_conv_options;

/** Convolution over one, two or three spatial axes (cross-correlation, as all frameworks have it).
 *
 *      y[n, p, o] = sum_{q, c} xd[n, p * stride + q * kernel_dilation - lo, g * C/groups + c]
 *                              * w[o, q, c],      g = floor(o / (O/groups))
 *      length = floor((Ld + lo + hi - ((K - 1) * kernel_dilation + 1)) / stride) + 1, or 0
 *
 *  xd is x with input_dilation - 1 zeros between neighbours, Ld long, and 0 outside.
 *
 *  x        [N, ..., C] float, any strides. Borrowed.
 *  w        [O, ..., C/groups] float. Borrowed.
 *  options  NULL: the defaults. Borrowed.
 *  returns  [N, ..., O], promoted. Sums are in f32, rounded once.
 *  errors   MICA_ESHAPE x or w has not 3, 4 or 5 axes; groups do not divide C and O; w's last axis
 *           is not C/groups; MICA_EDTYPE not floats; MICA_EINVAL a number is out of range
 *  source   StableHLO's convolution; the layout is that of mlx.core.conv_general. */
MICA_API mica_array mica_conv_general(mica_scope *s, mica_array x, mica_array w,
                                      const mica_conv_options *options);

/** The same over 1, 2 or 3 spatial axes. Channels first: x [N, C, ...], w [O, C/groups, ...], y [N,
 *  O, ...]: views around the op. Channels last: as mica_conv_general.
 *  errors  also MICA_ESHAPE x or w has another number of axes */
MICA_API mica_array mica_conv1d(mica_scope *s, mica_array x, mica_array w, mica_channels layout,
                                const mica_conv_options *options);
MICA_API mica_array mica_conv2d(mica_scope *s, mica_array x, mica_array w, mica_channels layout,
                                const mica_conv_options *options);
MICA_API mica_array mica_conv3d(mica_scope *s, mica_array x, mica_array w, mica_channels layout,
                                const mica_conv_options *options);

/** Numbers for each spatial axis. */
typedef struct mica_conv_transpose_options {
    int64_t stride[MICA_MAX_SPATIAL];         /* 0: 1 */
    int64_t padding[MICA_MAX_SPATIAL];        /* elements that the result lacks at both ends */
    int64_t output_padding[MICA_MAX_SPATIAL]; /* that it has more at the end */
    int64_t dilation[MICA_MAX_SPATIAL];       /* of the kernel; 0: 1 */
    int64_t groups;                           /* 0: 1 */
} mica_conv_transpose_options;

/** Transposed convolution: what a convolution's gradient does, from its result to its operand.
 *
 *      length = (L - 1) * stride - 2 padding + dilation * (K - 1) + output_padding + 1
 *
 *  It is mica_conv_general with input_dilation = stride, flip, lo = dilation * (K - 1) - padding
 *  and hi = lo + output_padding.
 *
 *  x        channels first [N, C, ...], channels last [N, ..., C]; float. Borrowed.
 *  w        channels first [C, O/groups, ...], as in PyTorch; channels last [O, ..., C/groups], as
 *           in MLX. Borrowed.
 *  returns  channels first [N, O, ...], channels last [N, ..., O]
 *  errors   those of mica_conv_general; MICA_EINVAL output_padding is neither 0 nor below stride or
 *           dilation
 *  source   PyTorch's ConvTranspose2d; Dumoulin & Visin 2016 (arXiv:1603.07285), chapter 4. */
MICA_API mica_array mica_conv_transpose1d(mica_scope *s, mica_array x, mica_array w,
                                          mica_channels layout,
                                          const mica_conv_transpose_options *options);
MICA_API mica_array mica_conv_transpose2d(mica_scope *s, mica_array x, mica_array w,
                                          mica_channels layout,
                                          const mica_conv_transpose_options *options);
MICA_API mica_array mica_conv_transpose3d(mica_scope *s, mica_array x, mica_array w,
                                          mica_channels layout,
                                          const mica_conv_transpose_options *options);

MICA_END

#endif
