/* Recurrences: the gated delta rule. */
#include <math.h>

#include "cuda/cuda.h"

enum { Q, K, V, G, BETA, STATE };
enum { COLUMNS = 32, THREADS = 256, MOST = 65535 }; /* as kern/delta.cu has them */

bool mc_cuda_supports_delta(const void *attr, const mc_layout *const *in, int n_in,
                            const mc_layout *out) {
    bool floats = in[Q]->shape[3] <= MC_CUDA_DELTA_N && in[Q]->shape[3] > 0;
    (void)attr, (void)out;
    for (int k = 0; k < n_in; k++)
        floats = floats && (!in[k] || in[k]->dtype == MICA_F32);
    return floats;
}

mica_status mc_cuda_gated_delta(const mc_call *call) {
    const mc_layout *q = call->in[Q].layout, *v = call->in[V].layout;
    mc_cuda_delta a = {.batch = v->shape[0],
                       .steps = v->shape[1],
                       .heads = v->shape[2],
                       .n = q->shape[3],
                       .m = v->shape[3],
                       .q = mc_cuda_view_of(call, &call->in[Q]),
                       .k = mc_cuda_view_of(call, &call->in[K]),
                       .v = mc_cuda_view_of(call, &call->in[V]),
                       .g = mc_cuda_view_of(call, &call->in[G]),
                       .scale = 1.0f,
                       .out = call->out.data,
                       .last = call->more[0].data};
    a.sharing = q->shape[2] > 0 ? a.heads / q->shape[2] : 1;
    if (call->n_in > BETA) a.beta = mc_cuda_view_of(call, &call->in[BETA]);
    if (call->n_in > STATE) a.state = mc_cuda_view_of(call, &call->in[STATE]);
    if (a.beta.is_there) a.scale = (float)(1 / sqrt((double)a.n));
    mc_cuda_grid grid = {.x = (a.m + COLUMNS - 1) / COLUMNS,
                         .y = a.heads < MOST ? a.heads : MOST,
                         .z = a.batch < MOST ? a.batch : MOST,
                         .threads = THREADS};
    return mc_cuda_start(call, MC_CUDA_GATED_DELTA_KERNEL, grid, &a);
}
