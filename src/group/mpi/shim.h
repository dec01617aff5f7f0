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
#define CALL(result, name, arguments) result(*name) arguments;
#include "group/mpi/call_list.h"
} mc_mpi_shim;

/* Exported by the shim. */
extern const mc_mpi_shim mica_mpi_shim;

#endif
