/* Operations on lazy arrays: convolutions, pools, complex numbers and Fourier transforms. What
 * mica/ops.h says of its ops holds here too. */
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
 *  returns  [N, ..., O], promoted. Sums are in f32, rounded once. Results whose windows have an
 *           infinite element are infinite or NaN.
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

/* ---- windows that are reduced ---- */

/** What becomes of the elements of a window. */
typedef enum mica_window_kind {
    MICA_WINDOW_MAX,
    MICA_WINDOW_MIN,
    MICA_WINDOW_SUM,
    MICA_WINDOW_PROD,
    MICA_WINDOW_MEAN
} mica_window_kind;

/** Numbers for each axis of x; those of axes that are not there are not read. */
typedef struct mica_window_options {
    int64_t window[MICA_MAX_NDIM];        /* 0: 1 */
    int64_t stride[MICA_MAX_NDIM];        /* 0: 1 */
    int64_t dilation[MICA_MAX_NDIM];      /* of the window; 0: 1 */
    int64_t base_dilation[MICA_MAX_NDIM]; /* of x; 0: 1 */
    int64_t padding_lo[MICA_MAX_NDIM];    /* before x; negative: elements left out */
    int64_t padding_hi[MICA_MAX_NDIM];    /* after x */
    bool exclude_padding; /* a mean is divided by the number of elements of x in the window */
    bool ceil;            /* numbers of windows are rounded up; those that would begin behind the
                             elements of x are none */
} mica_window_options;

/** Windows of x, reduced: maximum, minimum, sum, product or mean.
 *
 *      length = floor((Ld + lo + hi - ((w - 1) * dilation + 1)) / stride) + 1, or 0
 *
 *  Ld is the length with base_dilation - 1 elements between neighbours. Padding, and what is
 *  between elements, changes no maximum, minimum, sum or product. A mean counts padding as zeros.
 *
 *  x        any dtype but c64 and f64, any strides. Borrowed.
 *  options  not NULL. Borrowed.
 *  returns  max and min: x's dtype; sum and prod: as mica_sum; mean: inexact. Sums and products
 *           of floats are in f32, rounded once. NaN wins in max and min.
 *  errors   MICA_EDTYPE; MICA_EINVAL a number is out of range, there is no such kind, or options is
 *           NULL
 *  grad     of max and min: to the first extreme element of a window in row-major order, or NaN
 *  source   StableHLO's reduce_window. */
MICA_API mica_array mica_reduce_window(mica_scope *s, mica_array x, mica_window_kind kind,
                                       const mica_window_options *options);

/** Numbers for each spatial axis. */
typedef struct mica_pool_options {
    int64_t kernel[MICA_MAX_SPATIAL];     /* elements of the window, 1 at least */
    int64_t stride[MICA_MAX_SPATIAL];     /* 0: 1, not the kernel's length */
    int64_t padding_lo[MICA_MAX_SPATIAL]; /* before x */
    int64_t padding_hi[MICA_MAX_SPATIAL]; /* after x */
    int64_t dilation[MICA_MAX_SPATIAL];   /* 0: 1 */
    bool exclude_padding;                 /* as in mica_window_options */
    bool ceil;                            /* the same */
} mica_pool_options;

/** mica_reduce_window over the 1, 2 or 3 spatial axes of x.
 *
 *  x        channels first [N, C, ...], channels last [N, ..., C], dtypes as of
 *           mica_reduce_window. Borrowed.
 *  spatial  1 to 3.
 *  options  not NULL, for a kernel has no default. Borrowed.
 *  returns  likewise, dtypes as of mica_reduce_window.
 *  errors   those of mica_reduce_window; MICA_ESHAPE x has not spatial + 2 axes; MICA_EINVAL
 *           spatial is another, options is NULL, a kernel below 1, padding below 0 or as long as a
 *           window, which would be of padding alone
 *  source   ONNX's MaxPool and AveragePool. */
MICA_API mica_array mica_pool(mica_scope *s, mica_array x, int spatial, mica_window_kind kind,
                              mica_channels layout, const mica_pool_options *options);

/* ---- their gradients ----
 *
 * What mica_grad gives of the op, under a name. Errors as mica_grad and the op. */

/** The gradients of sum(y * dy) by x and w, where y is mica_conv1d, 2d or 3d by x's axes.
 *
 *  dx, dw  receive them, of the shapes and dtypes of x and w; NULL: not wanted. Invalid arrays
 *          after an error. */
MICA_API mica_status mica_conv_backward(mica_scope *s, mica_array x, mica_array w, mica_array dy,
                                        mica_channels layout, const mica_conv_options *options,
                                        mica_array *dx, mica_array *dw);
/** The gradient of sum(y * dy) by x, where y is mica_pool. */
MICA_API mica_array mica_pool_backward(mica_scope *s, mica_array x, mica_array dy, int spatial,
                                       mica_window_kind kind, mica_channels layout,
                                       const mica_pool_options *options);

/* ---- complex numbers ----
 *
 * c64 is a complex number of two f32, the real part first. Most ops that move elements take it, and
 * so do add, subtract, multiply, divide, equal, not_equal, negative, square, abs (the magnitude,
 * f32; its gradient at 0 is 0), sum, astype (to other dtypes the real part) and the ops here.
 * Others fail with MICA_EDTYPE. The gradient of a real number by z is d/dRe z + i d/dIm z. */

/** re + i im, c64. Both are converted to f32 and broadcast.
 *  errors  MICA_EDTYPE a part is c64; MICA_ESHAPE */
MICA_API mica_array mica_complex(mica_scope *s, mica_array re, mica_array im);
/** The parts of c64, f32; of other dtypes x itself, and zeros. */
MICA_API mica_array mica_real(mica_scope *s, mica_array x);
MICA_API mica_array mica_imag(mica_scope *s, mica_array x);
/** re - i im; of other dtypes x itself. */
MICA_API mica_array mica_conjugate(mica_scope *s, mica_array x);

/* ---- Fourier transforms ---- */

/** The scale of a transform of n points. NONE scales neither way. */
typedef enum mica_fft_norm {
    MICA_FFT_BACKWARD, /* the inverse transform is divided by n */
    MICA_FFT_ORTHO,    /* both are divided by sqrt n */
    MICA_FFT_FORWARD,  /* the forward transform is divided by n */
    MICA_FFT_NONE
} mica_fft_norm;

/** Discrete Fourier transforms along an axis, as numpy.fft. Any number of points, in O(n log n),
 *  in f32.
 *
 *      fft   y[k] = sum_j x[j] exp(-2 pi i j k / n)
 *      ifft  y[k] = sum_j x[j] exp(+2 pi i j k / n)
 *      rfft  the first n / 2 + 1 elements of fft, of real numbers
 *      irfft the real numbers whose rfft x is; the imaginary parts of x[0] and, if n is even, of
 *            x[n / 2] are ignored
 *
 *  x        real numbers, which become f32, or c64; rfft: real numbers. Borrowed.
 *  n        points, below 2^30: x is cut, or gets zeros behind it; 0: the length of x, irfft 2
 *           (length - 1).
 *  returns  c64, irfft f32
 *  errors   MICA_EINVAL there is no such axis, or no point: n, or the length where n is 0, is below
 *           1 or too large; MICA_EDTYPE rfft of c64
 *  source   Cooley & Tukey 1965; Bluestein 1970 for lengths with large prime factors. */
MICA_API mica_array mica_fft(mica_scope *s, mica_array x, int64_t n, int axis, mica_fft_norm norm);
MICA_API mica_array mica_ifft(mica_scope *s, mica_array x, int64_t n, int axis, mica_fft_norm norm);
MICA_API mica_array mica_rfft(mica_scope *s, mica_array x, int64_t n, int axis, mica_fft_norm norm);
MICA_API mica_array mica_irfft(mica_scope *s, mica_array x, int64_t n, int axis,
                               mica_fft_norm norm);

/** The same along two axes, or n_axes.
 *
 *  n     [n_axes] points; NULL: all 0. Borrowed.
 *  axes  [n_axes]; NULL: the last ones, and with n_axes 0 all. The real transform is that along the
 *        last one listed. Borrowed.
 *  errors  as above; MICA_EINVAL n_axes is below 1, or more than x has */
MICA_API mica_array mica_fft2(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                              mica_fft_norm norm);
MICA_API mica_array mica_ifft2(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                               mica_fft_norm norm);
MICA_API mica_array mica_rfft2(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                               mica_fft_norm norm);
MICA_API mica_array mica_irfft2(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                                mica_fft_norm norm);
MICA_API mica_array mica_fftn(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                              int n_axes, mica_fft_norm norm);
MICA_API mica_array mica_ifftn(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                               int n_axes, mica_fft_norm norm);
MICA_API mica_array mica_rfftn(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                               int n_axes, mica_fft_norm norm);
MICA_API mica_array mica_irfftn(mica_scope *s, mica_array x, const int64_t *n, const int *axes,
                                int n_axes, mica_fft_norm norm);

/** The zero frequency to the middle of the axes listed (axes NULL and n_axes 0: all), and back. */
MICA_API mica_array mica_fftshift(mica_scope *s, mica_array x, const int *axes, int n_axes);
MICA_API mica_array mica_ifftshift(mica_scope *s, mica_array x, const int *axes, int n_axes);
/** The frequencies of fft's and rfft's results in cycles a sample: [n] and [n / 2 + 1] f32. That at
 *  n / 2 of an even n is -0.5 of fft, 0.5 of rfft, as numpy.fft has them.
 *  errors  MICA_EINVAL n is below 1 or above 2^30 - 1 */
MICA_API mica_array mica_fftfreq(mica_scope *s, int64_t n);
MICA_API mica_array mica_rfftfreq(mica_scope *s, int64_t n);

/** rfft of frames of x [..., T], `hop` elements apart, without a window function: [..., frames,
 *  frame / 2 + 1] c64, frames = floor((T - frame) / hop) + 1.
 *  errors  MICA_ESHAPE T < frame; MICA_EINVAL frame or hop is below 1 or above 2^30 - 1;
 *          MICA_EDTYPE x is c64 */
MICA_API mica_array mica_stft(mica_scope *s, mica_array x, int64_t frame, int64_t hop,
                              mica_fft_norm norm);
/** Power of a spectrum of n points: (re^2 + im^2) / n, of x's shape, f32.
 *  errors  MICA_EINVAL n is below 1 or above 2^30 - 1 */
MICA_API mica_array mica_psd(mica_scope *s, mica_array x, int64_t n);
/** Convolution of real rows a [..., A], b [..., B] by transforms: [..., A + B - 1] f32; other axes
 *  broadcast. errors MICA_ESHAPE a row is empty */
MICA_API mica_array mica_fft_conv1d(mica_scope *s, mica_array a, mica_array b);

MICA_END

#endif
