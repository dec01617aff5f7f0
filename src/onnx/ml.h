/* What the operators of ai.onnx.ml share. Source: onnx.ai/onnx/operators (ai.onnx.ml). */
#ifndef ONNX_ML_H
#define ONNX_ML_H

#include "onnx/import.h"

/* The operand as f32 [N, F]; one axis is one row. */
mica_status mc_onnx_rows(mc_onnx_node *n, mica_array *x);

/* f32 [N, E] by the attribute post_transform. */
mica_status mc_onnx_post(mc_onnx_node *n, mica_array scores, mica_array *y);
mica_status mc_onnx_post_by(mc_onnx_node *n, mc_str how, mica_array scores, mica_array *y);

/* The labels of classes, i64. errors  MICA_EUNSUPPORTED they are texts */
mica_status mc_onnx_labels(mc_onnx_node *n, const char *ints, const int64_t **labels,
                           size_t *count);
/* The result 0: the label of each row's class, by its number (integers [N]). */
mica_status mc_onnx_give_labels(mc_onnx_node *n, const int64_t *labels, size_t count,
                                mica_array which);
/* Of a score for one of two classes, f32 [N, 1]: labels, and scores [N, 2] for result 1. positive:
 * scores are shares of 1. */
mica_status mc_onnx_give_binary(mc_onnx_node *n, const int64_t *labels, mica_array score,
                                bool positive);

#endif
