/* What mica asks of an MPI, in types of C alone.
 *
 * MPIs have the same names and other types: what a communicator is, how large a status is. So this
 * table is filled by a library of its own, libmica_mpi, which is compiled with that MPI's compiler,
 * and which libmica loads when a group is opened. All return MPI's error codes; those that
 * have a request only start what they do: `test` says when it is done.
 *
 * Threads: one call at a time. */
#ifndef GROUP_MPI_SHIM_H
#define GROUP_MPI_SHIM_H

#include <stddef.h>

#define MC_MPI_SHIM_VERSION 2
#define MC_MPI_SHIM_SYMBOL "mica_mpi_shim"

typedef struct mc_mpi_shim {
    int version;         /* MC_MPI_SHIM_VERSION */
    const char *library; /* whose it is, as its header says: "Open MPI 4.1.4" */
    /* MPI_Init_thread, for calls of any thread, one at a time; 0 or an error. *comm receives a
     * duplicate of the world, which reports errors by codes. */
    int (*init)(void **comm, int *rank, int *size);
    int (*duplicate)(void *comm, void **copy, void **request); /* which writes to *copy */
    int (*split)(void *comm, int color, int key, void **part, int *rank, int *size);
    void (*free)(void **comm);
    void (*finalize)(void);
    void (*abort)(void *comm, int code);

    int (*all_gather)(void *comm, const void *in, int bytes, void *out, void **request);
    int (*all_to_all)(void *comm, const void *in, int bytes, void *out, void **request);
    int (*broadcast)(void *comm, void *data, int bytes, int root, void **request);
    int (*send)(void *comm, const void *data, int bytes, int to, int tag, void **request);
    int (*recv)(void *comm, void *data, int bytes, int from, int tag, void **request);
    /* Of a request that is done: frees it, and sets it to NULL. */
    int (*test)(void **request, int *done);
    /* Whether a message with a tag is there, and whose it is. */
    int (*probe)(void *comm, int tag, int *there, int *from);
    void (*error_text)(int code, char *text, size_t bytes);
} mc_mpi_shim;

/* Exported by the shim. */
extern const mc_mpi_shim mica_mpi_shim;

#endif
