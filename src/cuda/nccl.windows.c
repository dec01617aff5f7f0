/* NCCL is not made for Windows. */
#include "cuda/nccl.h"

mica_status mc_cuda_join(void *state, mica_group *group) {
    (void)state, (void)group;
    return MICA_OK;
}

void mc_cuda_comms_free(mc_cuda_state *state) {
    (void)state;
}

bool mc_cuda_has_group(const mc_cuda_state *state, const mc_attr_collective *attr) {
    (void)state, (void)attr;
    return false;
}

mica_status mc_cuda_collect(const mc_call *call) {
    (void)call;
    return mc_fail(MICA_EINTERNAL, "nccl: it is not here");
}

bool mc_cuda_supports_collective(const void *attr, const mc_layout *const *in, int n_in,
                                 const mc_layout *out) {
    (void)attr, (void)in, (void)n_in, (void)out;
    return false;
}

mica_status mc_cuda_wait_with_ranks(mc_cuda_state *state, void *event) {
    (void)state;
    return mc_cuda_check(mc_cuda.event_wait(event), "the device");
}
