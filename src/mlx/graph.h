/* Building MLX's graph of a lowered graph. */
#ifndef MLX_GRAPH_H
#define MLX_GRAPH_H

#include "device/backend.h"
#include "mlx/call.h"

/* What building needs to know beforehand. */
typedef struct mc_mlx_graph {
    const mc_lowered *lowered; /* borrowed */
    uint32_t n_nodes, n_values;
    uint32_t *value; /* [n_nodes] of its first result */
    uint32_t *last;  /* [n_nodes] the node that reads it last; n_nodes: a result of the graph */
    bool *needed;    /* [n_nodes] */
    uint32_t max_in; /* operands of a node, at most */
    uint32_t *leaf;  /* [n_params] its node; MC_ABSENT: none */
} mc_mlx_graph;

/* errors  MICA_ENOMEM; MICA_EUNSUPPORTED a view has a length above 2^31 - 1 */
mica_status mc_mlx_graph_init(mc_mlx_graph *graph, const mc_lowered *lowered);
void mc_mlx_graph_deinit(mc_mlx_graph *graph);

/* On the thread: builds it over params [n_params], which it takes over: nobody else holds them
 * then, so MLX may compute in their memory. results receives the results, dense, and after them the
 * arrays of the checks.
 *
 *  casts   [n_params] of params in another dtype, which it takes over and leaves as they are after
 *          the ops that asked for them; NULL: none are kept
 *  scalars the run's, which the graph is then made for; NULL: the graph is for any
 *  eager   evaluates each op by itself: an error names it
 *  errors  MICA_ENOMEM; MICA_EDEVICE with the op's name */
mica_status mc_mlx_graph_build(const mc_mlx_graph *graph, mlx_array *params, mlx_array *casts,
                               const uint64_t *scalars, mlx_stream stream, mc_mlx_place place,
                               bool eager, mc_buffer *checks, mlx_vector_array results);

#endif
