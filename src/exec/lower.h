/* Lowering: a trace's graph with every op replaced, where the device has no kernel for it over the
 * layouts that it will meet.
 *
 * A view whose operand's strides cannot say it gets a dense copy before it. An op that wants dense
 * operands gets them copied; one without a kernel becomes its decomposition; one that has none is
 * left for the fallback device. */
#ifndef EXEC_LOWER_H
#define EXEC_LOWER_H

#include "device/backend.h"
#include "exec/trace.h"

/* Lowers.
 *
 * lowered   receives the graph, owned by the caller; parameter i is the trace's leaf i.
 * fallback  receives the nodes that the device has no kernel for, uint32_t, in order; an empty
 *           buffer, or one of an earlier call, whose memory is used again. The caller's to free.
 * errors    MICA_EUNSUPPORTED an op with neither kernel nor decomposition, and the device is the
 *           fallback itself; MICA_ENOMEM; MICA_EINTERNAL a decomposition gives another shape or
 *           makes an array from data */
mica_status mc_lower_ops(mica_device *device, const mc_trace *trace, mc_lowered **lowered,
                         mc_buffer *fallback);

/* Whether the device itself runs all that results [n] need, of subgraphs too.
 * errors  MICA_EUNSUPPORTED it has no kernel for some ops, which have no decomposition: the text
 *         names all, with their nodes, as far as a text goes; MICA_ENOMEM */
mica_status mc_lower_check(mica_device *device, mica_scope *s, const mica_array *results, size_t n);

/* A lowered graph without nodes, for n_params parameters and n_results results.
 * errors  MICA_ENOMEM */
mica_status mc_lowered_new(mica_device *device, uint32_t n_params, uint32_t n_results,
                           mc_lowered **lowered);

/* Records a view op over a dense operand, or one whose strides can say it, with the strides that
 * it has then. For others than views: mc_record. Errors go to s. */
mica_array mc_record_view(mica_scope *s, const mc_node *node, mica_array in);

#endif
