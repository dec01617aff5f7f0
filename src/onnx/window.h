/* The windows of convolutions and pools, by a node's attributes. */
#ifndef ONNX_WINDOW_H
#define ONNX_WINDOW_H

#include "onnx/import.h"

#include <mica/nn.h>

typedef struct mc_onnx_window {
    int spatial;
    int64_t kernel[MICA_MAX_SPATIAL], stride[MICA_MAX_SPATIAL], dilation[MICA_MAX_SPATIAL];
    int64_t lo[MICA_MAX_SPATIAL], hi[MICA_MAX_SPATIAL];
    bool given; /* padding by numbers, not by auto_pad */
} mc_onnx_window;

/* An attribute of `want` numbers, each `otherwise` where there is none. */
mica_status mc_onnx_read_list(const mc_onnx_node *n, const char *name, int want, int64_t otherwise,
                              int64_t *list);

/* kernel: that of the weights; NULL: the attribute. */
mica_status mc_onnx_read_window(const mc_onnx_node *n, const int64_t *kernel, mc_onnx_window *w);

/* What a convolution's attributes say; the window is that of weights [O, C / groups, ..]. */
mica_status mc_onnx_read_conv(const mc_onnx_node *n, mica_array w, mica_conv_options *options);

#endif
