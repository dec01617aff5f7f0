/* Collectives of a group's ranks on their GPUs, by NCCL, which is found when the first group is
 * joined and never unloaded. mica is built without its headers.
 *
 * A group starts by another back end, which also carries what NCCL needs to begin; NCCL moves what
 * graphs give each other, from GPU to GPU, on the device's stream. Sums stay the host's, which adds
 * in the order of ranks. Where a rank has no NCCL all take the way over the host.
 *
 * While a device waits for a launch it looks after the other ranks; where one is gone it aborts
 * what NCCL does. */
#ifndef CUDA_NCCL_H
#define CUDA_NCCL_H

#include "cuda/cuda.h"

#include <mica/group.h>

typedef struct mc_nccl_id { /* ncclUniqueId */
    char bytes[128];
} mc_nccl_id;

/* The communicator of a group on a device. */
typedef struct mc_cuda_comm {
    struct mc_cuda_comm *next;
    int64_t group; /* its number */
    void *comm;
} mc_cuda_comm;

/* mc_backend.join */
mica_status mc_cuda_join(void *state, mica_group *group);

/* Frees all communicators. */
void mc_cuda_comms_free(mc_cuda_state *state);

/* Whether a collective of that group has a kernel here. attr NULL: of any group. */
bool mc_cuda_has_group(const mc_cuda_state *state, const mc_attr_collective *attr);

/* Waits for an event; gives up where a rank is gone. errors  MICA_EDEVICE, which names it */
mica_status mc_cuda_wait_with_ranks(mc_cuda_state *state, void *event);

#endif
