/* Messages between ranks over TCP, where launchers say where rank 0 is, and no MPI starts it: the
 * table of calls that the back end over MPI makes (group/mpi/shim.h). So signs of life, giving up
 * and all that ranks agree on are the same with both.
 *
 * Each pair of ranks has a connection, over which messages of all communicators go, one behind the
 * other. Small ones are sent at once, and kept where nobody waits for them; the sender of a large
 * one asks first, and sends it to where it is wanted. Nothing is sent or received but within calls.
 *
 * Rank 0 listens at MASTER_ADDR:MASTER_PORT until all ranks have come. Of more than two ranks those
 * between the first and the last listen meanwhile, too, at the addresses by which they reach rank
 * 0, on ports that are free; only ranks that rank 0 has told a number of 16 bytes are heard there.
 *
 * Threads: one call at a time. */
#ifndef GROUP_TCP_TCP_H
#define GROUP_TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "group/mpi/shim.h"

enum { MC_TCP_GONE = 1000 }; /* codes from this one on: a rank's connection has ended, + rank */

/* The ranks of a start. */
typedef struct mc_tcp_start {
    int rank, size;
    int *fds; /* [size] connections to the others, which do not block; that of the own rank is -1 */
    char why[512];
} mc_tcp_start;

/* What launchers have set: this process's rank, and how many there are; false: nothing, or 1. */
bool mc_tcp_told(int *rank, int *size);

/* Connects all ranks.
 *
 *  until_us  when to give up ranks that do not come
 *  out       receives the ranks, and connections, which are the caller's, or `why` there are none:
 *            it names the rank, and where it is
 *  returns   whether they are there */
bool mc_tcp_connect(uint64_t until_us, mc_tcp_start *out);

/* When `init` gives up ranks that do not come. */
void mc_tcp_set_limit(uint64_t until_us);

extern const mc_mpi_shim mc_tcp_shim;

#endif
