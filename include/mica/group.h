/* Groups of processes that compute one thing together, each with a rank: what mpirun, srun and
 * torchrun start.
 *
 * A group is a handle. Its collectives are ops of graphs: every rank of the group records the same
 * ones in the same order, and evaluates all of them. Sums add the ranks' numbers in the order of
 * ranks, whatever comes first, so a group gives the same bits each time.
 *
 * `order` is a token: ops that are given the same one run in the order in which they were recorded.
 * It begins as MICA_NONE, and each op leaves its own for the next one. One token goes through one
 * evaluation; a new one begins behind it.
 *
 * What moves bytes is a back end: "self", one rank, which needs nothing; "mpi", of Open MPI or
 * MPICH, which is loaded when a group is opened in a process that mpirun or srun has started;
 * "tcp", connections between all ranks, where the environment has RANK, WORLD_SIZE (or
 * SLURM_PROCID, SLURM_STEP_NUM_TASKS), MASTER_ADDR and MASTER_PORT, and no MPI has started them.
 * Rank 0 listens there until all have come; with more than two ranks those between the first and
 * the last listen meanwhile, too, at the addresses by which they reach rank 0.
 *
 * A rank that ends, fails or stands still ends the group: within mica_group_options.patience_s the
 * others get MICA_EDEVICE, whose text names that rank, its machine and its process.
 * Where models, sessions and training fail on one rank alone, the others are told at once.
 *
 * Threads: a group is used by one thread at a time, in the same order on all ranks. */
#ifndef MICA_GROUP_H
#define MICA_GROUP_H

#include <mica/array.h>

MICA_BEGIN

/** A group of ranks. */
typedef struct mica_group mica_group;

/** How a group is opened. */
typedef struct mica_group_options {
    size_t struct_bytes; /* see mica/api.h */
    const char *backend; /* "self", "mpi", "tcp"; NULL: by the environment, "self" if nothing in it
                            says that this process is one of several. Borrowed */
    double patience_s;   /* seconds without a sign of life after which a rank is given up; 0: 20 */
} mica_group_options;

/** Whether a launcher has started this process as one of several: by its environment, which mpirun,
 *  mpiexec, srun and torchrun set; false where that says that there is one rank. It loads
 *  nothing. */
MICA_API bool mica_group_is_started(void);

/** Opens the group of all ranks that were started together. The MPI of a process, or what it has of
 *  TCP, begins with the first group and ends with the last one; neither can begin again.
 *
 *  options  NULL: the defaults. Borrowed.
 *  group    receives the group, owned by the caller; NULL after an error.
 *  errors   MICA_EINVAL no such back end (the text lists them), patience_s is below 0 or no number;
 *           MICA_EUNSUPPORTED the back end is not in this build, or its library is not here;
 *           MICA_EDEVICE it does not start: over TCP the text names the rank that has not come, or
 *           does not fit, and where it is; MICA_ENOMEM */
MICA_API mica_status mica_group_open(const mica_group_options *options, mica_group **group);

/** Divides a group: ranks with the same colour become a group, in the order of their keys, then of
 *  their ranks. All ranks call it together. A part ends with its own mica_group_close.
 *
 *  color   0 or more.
 *  errors  MICA_EINVAL a colour below 0; MICA_EDEVICE a rank is gone; MICA_ENOMEM */
MICA_API mica_status mica_group_split(mica_group *group, int color, int key, mica_group **part);

/** Closes *group and sets it to NULL; nothing for NULL. A group that models use ends with the last
 *  of them. The last rank to close waits for nobody. */
MICA_API void mica_group_close(mica_group **group);

/** Ends all processes of the group, with an exit code, as nobody may go on without this one. The
 *  launcher of an MPI ends them. Over TCP the others get MICA_EDEVICE, with this rank and the code,
 *  unless it is 0. For "self": nothing. */
MICA_API void mica_group_abort(mica_group *group, int code);

/** This process's number, from 0; 0 for NULL. */
MICA_API int mica_group_rank(const mica_group *group);

/** How many ranks the group has; 1 for NULL. */
MICA_API int mica_group_size(const mica_group *group);

/** The back end's name: "self", "mpi", "tcp". Static storage. */
MICA_API const char *mica_group_backend(const mica_group *group);

/** Copies bytes of one rank to all others. All ranks call it together, with the same number.
 *  errors  MICA_EINVAL no such rank; MICA_EDEVICE a rank is gone */
MICA_API mica_status mica_group_share(mica_group *group, void *bytes, size_t count, int root);

/** Checks that all ranks say the same text. All ranks call it together.
 *
 *  what    names it in the error: "the version". Borrowed.
 *  errors  MICA_EINVAL, on all ranks: a rank says another text than rank 0: the error names the
 *          rank, its machine, and both texts; MICA_EDEVICE a rank is gone; MICA_ENOMEM */
MICA_API mica_status mica_group_agree(mica_group *group, const char *what, const char *text);

/* ---- collectives ----
 *
 * All record into s, take x of any shape and dtype, and return an array of its dtype that s owns. x
 * is borrowed. order: see above; NULL: none.
 *
 *  errors  MICA_EINVAL the group is NULL or closed, or has no such rank; MICA_ESHAPE an axis that
 *          is not divided by the number of ranks; MICA_EDTYPE a sum of bool or complex numbers.
 *          Evaluating: MICA_EDEVICE a rank is gone
 *  grad    of the sum of all ranks' losses: each rank's backward pass holds a collective, too, so
 *          all ranks take the same gradients */

/** The sum over ranks: y = x_0 + x_1 + ..., added in this order, of f16 and bf16 in f32 and rounded
 *  once. grad: all_reduce. */
MICA_API mica_array mica_all_reduce(mica_scope *s, mica_group *group, mica_array x,
                                    mica_array *order);

/** All ranks' arrays, one behind the other along an axis: [.., n, ..] -> [.., size * n, ..].
 *  grad: reduce_scatter. */
MICA_API mica_array mica_all_gather(mica_scope *s, mica_group *group, mica_array x, int axis,
                                    mica_array *order);

/** This rank's part of the sum over ranks: [.., size * n, ..] -> [.., n, ..]. grad: all_gather. */
MICA_API mica_array mica_reduce_scatter(mica_scope *s, mica_group *group, mica_array x, int axis,
                                        mica_array *order);

/** The array of one rank, on all: others give one of the same shape and dtype, which is not read.
 *  grad: on the root the sum of all ranks' gradients, zeros on the others. */
MICA_API mica_array mica_broadcast(mica_scope *s, mica_group *group, mica_array x, int root,
                                   mica_array *order);

/** Gives x to another rank, which receives it. Returns x; it is sent if that is evaluated.
 *  grad: its own gradient and what comes back from that rank. */
MICA_API mica_array mica_send(mica_scope *s, mica_group *group, mica_array x, int to,
                              mica_array *order);

/** What another rank sends. like: an array of its shape and dtype, which is not read; in a group of
 *  one rank it is the result.
 *  grad: that of `like`, which stands for what was sent, and is sent back. */
MICA_API mica_array mica_recv(mica_scope *s, mica_group *group, mica_array like, int from,
                              mica_array *order);

MICA_END

#endif
